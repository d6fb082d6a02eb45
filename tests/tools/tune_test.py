"""`tutti bench --tune`: that what it stores is obeyed, and that a wrong tuning file is refused with its sentence."""

import json
import os
import tempfile

import harness
from harness import ToolTest

SHORT = ("-b", 64, "-e", "4K", "-f", 64)
REMEDY = "; `tutti bench --tune` measures anew, TUTTI_TUNING=off goes without\n"


class Tune(ToolTest):
    def setUp(self):
        super().setUp()
        folder = tempfile.TemporaryDirectory(prefix="tutti-tune-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.environment["XDG_CACHE_HOME"] = self.folder
        del self.environment["TUTTI_TUNING"]

    def tune(self, *arguments):
        done = self.tutti("bench", "--tune", *SHORT, *arguments)
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
        return done.stdout

    def written(self, text, name="tuning.json"):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def table(self, *collectives, ranks=2):
        """A tuning file's contents for this machine, written by hand."""
        path = os.path.join(self.folder, "for_this_machine.json")
        self.tune("--ranks", ranks, "--collective", "barrier", "--output", path)
        with open(path, encoding="utf-8") as file:
            table = dict(json.load(file), collectives=[])
        for name, ranges in collectives:
            lines = [{"up_to_bytes": size, "algorithm": algorithm} for size, algorithm in ranges]
            table["collectives"].append({"collective": name, "algorithms": lines})
        return json.dumps(table)

    def stored(self):
        folder = os.path.join(self.folder, "tutti")
        return [os.path.join(folder, name) for name in os.listdir(folder)]

    def algorithm(self, collective, size, *arguments):
        """That `tutti plan` names, and that `tutti bench` runs on two ranks."""
        done = self.tutti("plan", collective, "-n", 2, "-b", size, "--json", *arguments)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        planned = json.loads(done.stdout)["algorithm"]
        done = self.tutti("bench", collective, "--ranks", 2, "-b", size, "-e", size, "-n", 2, "-w", 1, *arguments)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        ran, = [line.split()[-1] for line in done.stdout.splitlines() if line and not line.startswith("#")]
        self.assertEqual(ran, f"{planned}/shm")
        return planned

    def test_shows_the_default_and_the_fastest_of_each_size_and_stores_what_differs(self):
        path = os.path.join(self.folder, "folder", "tuning.json")
        text = self.tune("--ranks", 2, "--collective", "all_reduce,broadcast,barrier", "--output", path)
        rows = [line.split() for line in text.splitlines() if not line.startswith("#")]
        self.assertEqual([row[:2] for row in rows[:4]], [["all_reduce", "64"], ["all_reduce", "4096"],
                                                         ["broadcast", "64"], ["broadcast", "4096"]])
        self.assertEqual(rows[4][0], "barrier")
        for row in rows:
            default, default_us, predicted_us, fastest, fastest_us, ratio = row[-6:]
            self.assertGreater(float(predicted_us), 0)
            self.assertGreaterEqual(float(default_us), float(fastest_us))
            self.assertTrue(default != fastest or (default_us, ratio) == (fastest_us, "1.00"), row)
        self.assertRegex(text, r"# The default takes at most 10 % longer than the fastest in \d of 5 rows\.\n"
                               r"# It takes what was predicted, within 25 %, in \d of 2 rows of 1 KiB or more\.\n"
                               rf"# Stored in {path}: in \d of 5 rows another algorithm than the default gains more "
                               r"than 5 %\.\n$")
        with open(path, encoding="utf-8") as file:
            table = json.load(file)
        self.assertEqual((table["format"], table["version"], table["ranks"], table["hosts"], table["transport"],
                          len(table["machines"])), ("tutti.tuning", 1, 2, 1, "shm", 1))
        self.environment["TUTTI_TUNING"] = path
        self.algorithm("all_reduce", 64)

    def test_stores_one_file_for_each_kind_of_job_where_programs_find_it(self):
        for arguments in (("--ranks", 2), ("--ranks", 3), ("--ranks", 2, "--transport", "tcp")):
            self.assertIn(f"# Stored in {self.folder}/tutti/tuning-",
                          self.tune(*arguments, "--collective", "barrier"))
        self.assertEqual(len(self.stored()), 3)

    def test_uses_the_ranks_of_its_launcher(self):
        done = self.tutti("run", "-n", 2, "--no-prefix", harness.TUTTI, "bench", "--tune", *SHORT, "--collective",
                          "barrier")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("tune, 2 ranks", done.stdout)
        self.assertEqual(len(self.stored()), 1)

    def test_what_is_stored_is_obeyed_and_a_wish_wins(self):
        before = self.algorithm("broadcast", 4096)
        slow, other = [name for name in ("chain", "binomial_tree", "direct") if name != before][:2]
        text = self.table(("broadcast", [(2048, "default"), (8192, slow)]))
        os.rename(self.written(text), self.stored_by_tuning())
        self.assertEqual(self.algorithm("broadcast", 4096), slow)
        self.assertNotEqual(self.algorithm("broadcast", 2048), slow)
        self.assertEqual(self.algorithm("broadcast", 4096, "--algorithm", other), other)
        self.assertRegex(self.tutti("plan", "broadcast", "-n", 2, "-b", "4K", "--explain").stdout,
                         rf"\n  why +{slow} \(.*\) was measured fastest by `tutti bench --tune`; predicted fastest is ")
        self.environment["TUTTI_TUNING"] = "off"
        self.assertEqual(self.algorithm("broadcast", 4096), before)

    def stored_by_tuning(self):
        self.tune("--ranks", 2, "--collective", "barrier")
        path, = self.stored()
        return path

    def test_a_named_file_that_is_wrong_is_refused_by_plan_and_bench(self):
        good = self.table(("broadcast", [(64, "chain"), (4096, "direct")]))
        for text, reason in (
                ("nonsense", "line 1: syntax error.*"),
                (good.replace("tutti.tuning", "tutti.plan"), 'line 1: format must have "format": "tutti.tuning".*'),
                (good.replace('"version": 1', '"version": 9'), 'line 1: version must have "version": 1.*'),
                (good.replace("broadcast", "broadcats"), r"line 1: collectives\[0\]\.collective must be a collective "
                                                         'without counts, but is "broadcats"'),
                (good.replace("chain", "chian"), r'line 1: collectives\[0\]\.algorithms has "chian", which is no '
                                                 "algorithm of broadcast; there are direct, binomial_tree, "
                                                 "hierarchical, chain and default"),
                (good.replace("4096", "64"), r"line 1: collectives\[0\]\.algorithms must ascend in up_to_bytes"),
                (good.replace('"ranks": 2', '"ranks": 3'), "it is for 3 ranks on 1 host over shm .*, but here are 2 "
                                                           "ranks on 1 host over shm .*"),
                (good.replace('"model": "', '"model": "Other '), "it is for 2 ranks .* over shm .Other .*, but here "
                                                                 "are 2 ranks .*")):
            with self.subTest(reason=reason):
                path = self.environment["TUTTI_TUNING"] = self.written(text)
                sentence = rf"cannot use the tuning file {path}: {reason}{REMEDY}"
                done = self.tutti("plan", "broadcast", "-n", 2)
                self.assertEqual((done.returncode, done.stdout), (1, ""))
                self.assertRegex(done.stderr, rf"^tutti plan: {sentence}$")
                done = self.tutti("bench", "broadcast", "--ranks", 2, "-e", 8)
                self.assertEqual((done.returncode, done.stdout), (1, ""))
                self.assertRegex(done.stderr, rf"^tutti bench broadcast: {sentence}$")

    def test_a_named_file_that_is_not_there_is_refused(self):
        self.environment["TUTTI_TUNING"] = "/no/such/tuning.json"
        self.assertRegex(self.tutti("plan", "-n", 2).stderr,
                         r"^tutti plan: cannot open /no/such/tuning\.json: .*; name a file that this user may read\n$")

    def test_a_stored_file_that_is_wrong_is_warned_of_and_not_used(self):
        path = self.stored_by_tuning()
        with open(path, "w", encoding="utf-8") as file:
            file.write("nonsense")
        done = self.tutti("plan", "broadcast", "-n", 2)
        self.assertEqual(done.returncode, 0)
        self.assertRegex(done.stderr, rf"^\[tutti\] warning: no tuning is used: cannot use the tuning file {path}: "
                                      rf"line 1: .*{REMEDY}$")
        self.tune("--ranks", 2, "--collective", "barrier")
        self.assertEqual(self.tutti("plan", "broadcast", "-n", 2).stderr, "")

    def ranks_with(self, *tunings):
        """Ranks with an option of their own each."""
        case = "".join(f"{rank}) export TUTTI_TUNING={tuning};; " for rank, tuning in enumerate(tunings))
        return self.tutti("run", "-n", len(tunings), "--no-prefix", "--", "sh", "-c",
                          f'case $TUTTI_RANK in {case} esac; exec {harness.TUTTI} bench broadcast -b 4K -e 4K -n 2')

    def test_ranks_that_differ_are_refused_where_one_was_told_and_use_none_otherwise(self):
        path = self.written(self.table(("broadcast", [(8192, "chain")])))
        done = self.ranks_with(path, "off")
        self.assertEqual((done.returncode, done.stdout), (1, ""), done.stderr)
        self.assertRegex(done.stderr, r"ranks differ: TUTTI_TUNING gives the tuning [0-9a-f]{16} on rank 0 and no "
                                      r"tuning on rank 1; name files with the same tuning on all ranks, or set "
                                      r"TUTTI_TUNING=off on all\n")
        done = self.ranks_with(path, path)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("chain/shm", done.stdout)
        os.rename(path, self.stored_by_tuning())
        self.environment["TUTTI_LOG"] = "info"
        done = self.ranks_with("", "off")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn("chain/shm", done.stdout)
        self.assertEqual(done.stderr.count("info: no tuning is used, since not all hosts have the same; "), 1,
                         done.stderr)

    def test_takes_a_file_that_is_not_there_yet_by_its_bare_name(self):
        before = os.getcwd()
        os.chdir(self.folder)
        self.addCleanup(os.chdir, before)
        for output in ("new.json", "sub/new.json"):
            self.tune("--ranks", 2, "--collective", "barrier", "--output", output)
            self.assertTrue(os.path.isfile(os.path.join(self.folder, output)))

    def test_says_what_is_wrong_with_its_flags(self):
        for arguments, sentence in (
                (("--collective", "all_gather_v"), "--collective all_gather_v: there are all_reduce, reduce, "
                                                   "broadcast, all_gather, reduce_scatter, all_to_all, gather, "
                                                   "scatter, barrier"),
                (("--op", "sum"), "there is no option --op; `tutti bench tune --help` lists them")):
            done = self.tutti("bench", "--tune", "--ranks", 2, *arguments)
            self.assertEqual((done.returncode, done.stdout, done.stderr), (2, "", f"tutti bench tune: {sentence}\n"))
        for output, reason in ((self.folder, "it is a folder; name a file"),
                               ("/dev/null/a.json", "cannot write to /dev/null; name a file where this user may "
                                                    "write")):
            done = self.tutti("bench", "--tune", "--ranks", 2, "--output", output)
            self.assertEqual((done.returncode, done.stdout, done.stderr),
                             (2, "", f"tutti bench tune: --output {output}: {reason}\n"))
        self.environment["TUTTI_ALGORITHM"] = "ring"
        done = self.tutti("bench", "--tune", "--ranks", 2)
        self.assertEqual((done.returncode, done.stdout, done.stderr),
                         (2, "", "tutti bench tune: TUTTI_ALGORITHM=ring would be part of what is measured; unset it, "
                                 "and tune again\n"))
        del self.environment["TUTTI_ALGORITHM"]
        done = self.tutti("bench", "--tune", *SHORT)
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertEqual(done.stderr, "tutti bench tune: one rank has nothing to choose; start two or more, for "
                                      "instance with --ranks 2\n")


if __name__ == "__main__":
    harness.main()
