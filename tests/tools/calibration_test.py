"""The `tutti` command measures a host's costs before it first uses them."""

import json
import os
import tempfile

import harness
from harness import ToolTest

NOTE = r"^tutti {}: measured this host's costs in [\d.]+ s; they are kept in {}/tutti/\S+\.json\n$"
TINY = ("-b", 8, "-e", 8, "-n", 2, "-w", 1)


class Calibration(ToolTest):
    def setUp(self):
        super().setUp()
        folder = tempfile.TemporaryDirectory(prefix="tutti-cache-")
        self.addCleanup(folder.cleanup)
        self.cache = folder.name
        self.environment["XDG_CACHE_HOME"] = self.cache
        del self.environment["TUTTI_CALIBRATION"]

    def stored(self):
        folder = os.path.join(self.cache, "tutti")
        names = os.listdir(folder) if os.path.isdir(folder) else []
        return [os.path.join(folder, name) for name in names if name.endswith(".json")]

    def check_measures(self, command, *arguments):
        done = self.tutti(command, *arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stderr, NOTE.format(command, self.cache))
        self.assertEqual(len(self.stored()), 1)
        again = self.tutti(command, *arguments)
        self.assertEqual((again.returncode, again.stderr), (0, ""))
        return done.stdout, again.stdout

    def test_bench_measures_once(self):
        self.check_measures("bench", "all_reduce", "--ranks", 2, *TINY)

    def test_run_measures_once_before_the_ranks_do(self):
        self.check_measures("run", "-n", 2, "--no-prefix", harness.TUTTI, "bench", "all_reduce", *TINY)

    def test_topo_measures_once_and_shows_when(self):
        for text in self.check_measures("topo", "--ranks", 2):
            self.assertRegex(text, r"costs, measured \d{4}-\d\d-\d\d \d\d:\d\d UTC\n")

    def test_plan_measures_once(self):
        self.check_measures("plan", "all_reduce", "--ranks", 4)

    def test_ranks_of_another_launcher_measure_once(self):
        processes = [self.start("bench", "all_reduce", *TINY) for _ in range(3)]
        notes = [line for process in processes for line in process.communicate(timeout=harness.LIMIT_S)[1].splitlines()]
        self.assertEqual([process.returncode for process in processes], [0, 0, 0])
        self.assertEqual(len(notes), 1, notes)
        self.assertRegex(notes[0] + "\n", NOTE.format("bench", self.cache))

    def test_what_does_not_use_this_host_measures_nothing(self):
        machine = os.path.join(self.cache, "machine.json")
        self.environment["TUTTI_CALIBRATION"] = "off"
        self.assertEqual(self.tutti("topo", "--capture", machine).returncode, 0)
        del self.environment["TUTTI_CALIBRATION"]
        for arguments in (("topo", "--topology", machine), ("plan", "all_reduce", "--topology", machine), ("options",)):
            done = self.tutti(*arguments)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(self.stored(), [])

    def test_switched_off_defaults_are_used_and_said_to_be(self):
        self.environment["TUTTI_CALIBRATION"] = "off"
        done = self.tutti("topo")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("costs, not measured: defaults\n", done.stdout)
        self.assertEqual(self.stored(), [])

    def test_switched_off_for_the_ranks_run_measures_nothing(self):
        bench = (harness.TUTTI, "bench", "all_reduce", *TINY)
        done = self.tutti("run", "-n", 2, "--no-prefix", "--env", "TUTTI_CALIBRATION=off", *bench)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(self.stored(), [])

    def test_nowhere_to_store_is_one_line_and_defaults(self):
        self.environment["XDG_CACHE_HOME"] = "/proc/nowhere"
        done = self.tutti("bench", "all_reduce", "--ranks", 3, *TINY)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stderr, r"^tutti bench: default costs are used, since measuring this host's failed: "
                                      r"cannot create /proc/nowhere/tutti: .*; "
                                      r'set TUTTI_CALIBRATION to a file, or to "off"\n$')

    def test_a_named_file_that_cannot_be_used_is_refused_before_any_rank_starts(self):
        path = os.path.join(self.cache, "costs.json")
        with open(path, "w", encoding="utf-8") as file:
            file.write("precious")
        self.environment["TUTTI_CALIBRATION"] = path
        done = self.tutti("bench", "all_reduce", "--ranks", 2, *TINY)
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertRegex(done.stderr, rf"^tutti bench all_reduce: cannot use the calibration file {path}: line 1: .*"
                                      r"; `tutti topo --calibrate` measures anew\n$")
        with open(path, encoding="utf-8") as file:
            self.assertEqual(file.read(), "precious")

    def test_what_was_stored_is_what_is_shown(self):
        self.assertEqual(self.tutti("topo").returncode, 0)
        with open(self.stored()[0], encoding="utf-8") as file:
            stored = json.load(file)["costs"]
        self.assertEqual(json.loads(self.tutti("topo", "--json").stdout)["costs"], stored)


if __name__ == "__main__":
    harness.main()
