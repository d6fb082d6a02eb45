"""`tutti bench`: its flags, columns, JSON, and that it says what is wrong."""

import json
import os
import tempfile

import harness
from harness import ToolTest

QUICK = ["-n", 2, "-w", 1]


class Bench(ToolTest):
    def bench(self, *arguments):
        return self.tutti("bench", "all_reduce", *arguments)

    def rows(self, text):
        return [line.split() for line in text.splitlines() if line and not line.startswith("#")]

    def test_more_memory_than_the_host_has_is_refused_before_anything_starts(self):
        done = self.tutti("bench", "all_reduce", "--ranks", 2, "-b", "500T", "-e", "500T", "--memory", "tutti")
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertRegex(done.stderr, r"^tutti bench all_reduce: the buffers of 2 ranks take 2048000\.0 GiB, but this "
                                      r"host has [\d.]+ GiB; use a smaller -e or fewer ranks\n$")

    def test_starts_its_own_ranks_and_prints_the_columns_of_nccl_tests(self):
        done = self.bench("--ranks", 3, "-b", 8, "-e", "8K", "-f", 4, *QUICK)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        rows = self.rows(done.stdout)
        self.assertEqual([(int(row[0]), int(row[1])) for row in rows], [(8 * 4 ** i, 2 * 4 ** i) for i in range(6)])
        for row in rows:
            self.assertEqual(row[2:4], ["float", "sum"])
            self.assertEqual((row[7], row[11]), ("0", "0"))
            self.assertIn("/", row[12])
        for rank in range(3):
            self.assertRegex(done.stdout, rf"(?m)^#  Rank +{rank} Pid +\d+ on ")
        self.assertIn("# Out of bounds values : 0 OK\n", done.stdout)
        self.assertRegex(done.stdout, r"# Avg bus bandwidth    : [\d.e+-]+ GB/s\n")

    def test_has_one_row_for_each_count(self):
        for flags, counts in (((0, "-e", 64), [0, 1, 4, 16]), ((0, "-e", 9, "-i", 1), [0, 1, 2]),
                              ((1, "-e", 64, "-f", 1.5, "-d", "double"), [0, 1, 2, 3, 5, 7])):
            with self.subTest(flags=flags):
                done = self.bench("-b", *flags, *QUICK)
                self.assertEqual((done.returncode, done.stderr), (0, ""))
                self.assertEqual([int(row[1]) for row in self.rows(done.stdout)], counts)

    def test_uses_the_ranks_of_its_launcher(self):
        done = self.tutti("run", "-n", 2, "--no-prefix", harness.TUTTI, "bench", "all_reduce", "-e", "1K", *QUICK)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("all_reduce, 2 ranks", done.stdout)

    def test_of_one_process_alone_is_a_job_of_one_rank(self):
        done = self.bench("-e", "1K", *QUICK)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("all_reduce, 1 ranks", done.stdout)

    def test_is_right_for_every_type_and_op(self):
        done = self.bench("--ranks", 3, "-b", 1000, "-e", 3000, "-i", 1003, "-d", "all", "-o", "all", "-n", 1, "-w", 0)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        rows = self.rows(done.stdout)
        self.assertEqual(len({(row[2], row[3]) for row in rows}), 12 * 5 + 6 * 3)  # bitwise: of integers
        self.assertEqual({(row[7], row[11]) for row in rows}, {("0", "0")})

    def test_writes_json(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "result.json")
            self.assertEqual(self.bench("--ranks", 2, "-b", "64K", "-e", "64K", "--json", path, *QUICK).returncode, 0)
            with open(path, encoding="utf-8") as file:
                result = json.load(file)
        row = result["results"][0]
        self.assertEqual((row["size_bytes"], row["count"], row["type"], row["op"]), (65536, 16384, "float", "sum"))
        for placement in (row["out_of_place"], row["in_place"]):
            self.assertEqual((placement["iterations"], placement["wrong"]), (2, 0))
            self.assertLessEqual(placement["min_us"], placement["median_us"])
            self.assertLessEqual(placement["median_us"], placement["max_us"])
            self.assertAlmostEqual(placement["algbw_gbps"], 65536 / placement["time_us"] / 1e3)
            self.assertAlmostEqual(placement["busbw_gbps"], placement["algbw_gbps"])  # 2(n - 1)/n is 1
        self.assertEqual((len(result["ranks"]), result["out_of_bounds"]), (2, 0))

    def test_says_what_to_do_where_json_cannot_be_written(self):
        for path, reason in (("/no/such/x", "No such file or directory"), ("/dev/full", "No space left on device")):
            done = self.bench("-e", 8, "--json", path, *QUICK)
            self.assertEqual(done.returncode, 1)
            self.assertEqual(done.stderr, f"tutti bench all_reduce: cannot write {path}: {reason}; name another file "
                                          "with --json, where there is room and this user may write\n")

    def test_can_measure_one_placement_blocking_and_unchecked(self):
        done = self.bench("--ranks", 2, "-b", 64, "-e", 64, "--placement", "in", "-z", 1, "-c", 0, "-a", 3, *QUICK)
        self.assertEqual(done.returncode, 0, done.stderr)
        row = self.rows(done.stdout)[0]
        self.assertEqual((row[4:8], row[11]), (["-"] * 4, "N/A"))

    def test_takes_memory_of_the_library(self):
        for memory in ("tutti", "registered"):
            done = self.bench("--ranks", 2, "-b", "1M", "-e", "1M", "--memory", memory, *QUICK)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertIn("# Memory copy", done.stdout)

    def test_refuses_wrong_flags_with_one_sentence(self):
        for arguments in (["-b", "1G", "-e", "1M"], ["-d", "flot"], ["-o", "summ"], ["-b", "12Q"], ["-b", "-8"],
                          ["-f", 1], ["-n", -1], ["--no-such-flag"], ["--memory", "gpu"],
                          ["--transport", "udp"], ["-z", 2], ["-f", 2, "-i", "1K"], ["-i", 0], ["-f", 1, "-i", 0],
                          ["-o", "band", "-d", "float"], ["--root", 1]):
            done = self.bench("--ranks", 2, *arguments)
            self.assertEqual((done.returncode, done.stdout), (2, ""), arguments)
            self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)

    def test_takes_a_step_in_bytes_with_a_factor_of_one_as_nccl_tests_does(self):
        done = self.bench("-b", 4, "-e", 12, "-i", 4, "-f", 1, *QUICK)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual([int(row[1]) for row in self.rows(done.stdout)], [1, 2, 3])

    def test_says_once_what_every_rank_finds(self):
        done = self.bench("--ranks", 3, "--algorithm", "rong", *QUICK)
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertEqual(done.stderr,
                         'tutti bench all_reduce: no algorithm is called "rong"; did you mean "ring"?\n')
        self.environment["TUTTI_PLAN_FILE"] = "/no/such/plan.json"
        done = self.bench("--ranks", 3, *QUICK)
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertRegex(done.stderr, r"^tutti bench all_reduce: cannot open /no/such/plan\.json: .*\n$")

    def test_says_which_collectives_there_are_not(self):
        for word, right in (("all_reduse", "all_reduce"), ("alltoall", "all_to_all"), ("reduce-scatter",
                                                                                       "reduce_scatter")):
            self.assertIn(f"did you mean `tutti bench {right}`?", self.tutti("bench", word).stderr)


class Every(ToolTest):
    """What each collective has, and what its size and busbw are for four ranks."""
    # name: (columns before the times, blocks of the size, busbw / algbw)
    COLLECTIVES = {
        "all_reduce": ("type redop", 1, 1.5), "reduce": ("type redop root", 1, 1), "broadcast": ("type root", 1, 1),
        "all_gather": ("type", 4, 0.75), "reduce_scatter": ("type redop", 4, 0.75), "all_to_all": ("type", 4, 0.75),
        "gather": ("type root", 4, 0.75), "scatter": ("type root", 4, 0.75), "all_gather_v": ("type", 4, 0.75),
        "reduce_scatter_v": ("type redop", 4, 0.75), "all_to_all_v": ("type", 4, 0.75),
        "gather_v": ("type root", 4, 0.75), "scatter_v": ("type root", 4, 0.75),
    }

    def results(self, collective, *arguments):
        """The table's rows and the JSON's."""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "result.json")
            done = self.tutti("bench", collective, "--json", path, *arguments, *QUICK)
            self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
            self.assertIn("# Out of bounds values : 0 OK\n", done.stdout)
            with open(path, encoding="utf-8") as file:
                return done.stdout, json.load(file)

    def test_is_right_and_has_its_own_columns_sizes_and_factor(self):
        for name, (columns, blocks, factor) in self.COLLECTIVES.items():
            with self.subTest(collective=name):
                table, result = self.results(name, "--ranks", 4, "-b", 1000, "-e", 300_000, "-f", 17, "-c", 2)
                self.assertRegex(table, rf"(?m)^# +size +count +{columns.replace(' ', ' +')} +time +algbw ")
                self.assertEqual((result["collective"], len(result["results"])), (name, 3))
                for row, size in zip(result["results"], (1000, 17_000, 289_000)):
                    count = size // 4 // blocks
                    self.assertEqual((row["count"], row["size_bytes"]), (count, count * blocks * 4))
                    self.assertEqual((row["op"], row["root"]), ("sum" if "redop" in columns else None,
                                                                0 if "root" in columns else None))
                    for placement in (row["out_of_place"], row["in_place"]):
                        self.assertEqual(placement["wrong"], 0)
                        self.assertAlmostEqual(placement["busbw_gbps"], factor * placement["algbw_gbps"])

    def test_is_right_with_each_root(self):
        for name, (columns, _, _) in self.COLLECTIVES.items():
            if "root" in columns:
                with self.subTest(collective=name):
                    _, result = self.results(name, "--ranks", 3, "-b", "2K", "-e", "2K", "--root", "all", "-d", "int8")
                    self.assertEqual([row["root"] for row in result["results"]], [0, 1, 2])

    def test_of_one_rank_is_right_too(self):
        for name in self.COLLECTIVES:
            with self.subTest(collective=name):
                self.results(name, "-b", "4K", "-e", "4K")

    def test_of_a_barrier_has_a_time_and_no_sizes(self):
        table, result = self.results("barrier", "--ranks", 3)
        self.assertRegex(table, r"(?m)^ +[\d.]+ +0  [a-z_]+/shm$")
        row, = result["results"]
        self.assertEqual((row["size_bytes"], row["type"], row["op"], row["root"], row["in_place"]),
                         (0, None, None, None, None))
        self.assertEqual((row["out_of_place"]["iterations"], row["out_of_place"]["wrong"]), (2, 0))

    def test_refuses_what_the_collective_does_not_have(self):
        for name, flag, value in (("broadcast", "--op", "sum"), ("all_gather", "--root", 0), ("barrier", "-b", 8),
                                  ("barrier", "--datatype", "int8")):
            done = self.tutti("bench", name, flag, value)
            self.assertEqual((done.returncode, done.stdout), (2, ""))
            self.assertEqual(done.stderr, f"tutti bench {name}: there is no option {flag}; "
                                          f"`tutti bench {name} --help` lists them\n")

    def test_refuses_a_root_that_is_no_rank(self):
        done = self.tutti("bench", "gather", "--ranks", 2, "--root", 2)
        self.assertEqual((done.returncode, done.stdout, done.stderr),
                         (1, "", "tutti bench gather: --root 2: the ranks are 0 to 1\n"))
        self.assertEqual(self.tutti("bench", "gather", "--root", "x").stderr,
                         "tutti bench gather: -r x: expected a rank, such as 0, or all\n")

    def test_says_that_the_collective_has_no_such_algorithm(self):
        done = self.tutti("bench", "broadcast", "--ranks", 2, "--algorithm", "ring", "-e", 8)
        self.assertEqual((done.returncode, done.stdout, done.stderr),
                         (1, "", "tutti bench broadcast: broadcast has no algorithm ring; `tutti plan broadcast "
                                 "--explain` names those it has\n"))

    def test_can_be_deterministic(self):
        table, result = self.results("reduce_scatter", "--ranks", 3, "-e", "1K", "--deterministic")
        self.assertIn(", deterministic\n", table)
        self.assertTrue(result["deterministic"])


class Pairs(ToolTest):
    """`tutti bench latency` and `tutti bench bandwidth`: sends and receives between ranks 0 and 1."""
    COLUMNS = "size count type time algbw busbw messages #wrong transport"

    def results(self, measure, *arguments):
        """The table's rows and the JSON."""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "result.json")
            done = self.tutti("bench", measure, "--json", path, *arguments, *QUICK)
            self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
            self.assertIn("# Out of bounds values : 0 OK\n", done.stdout)
            self.assertRegex(done.stdout, rf"(?m)^# +{self.COLUMNS.replace(' ', ' +')}$")
            rows = [line.split() for line in done.stdout.splitlines() if not line.startswith("#")]
            with open(path, encoding="utf-8") as file:
                return rows, json.load(file)

    def test_are_right_over_each_transport_and_memory(self):
        for measure in ("latency", "bandwidth"):
            for flags in (("--transport", "shm"), ("--transport", "shm", "--memory", "tutti"),
                          ("--transport", "shm", "--memory", "registered"), ("--transport", "tcp")):
                with self.subTest(measure=measure, flags=flags):
                    # Inline, in a slot, and offered.
                    rows, result = self.results(measure, "--ranks", 2, "-b", 8, "-e", 300_000, "-f", 190, "-c", 2,
                                                *flags)
                    counts = [2, 380, 72_200]
                    self.assertEqual([row[:3] for row in rows], [[str(4 * n), str(n), "float"] for n in counts])
                    self.assertEqual({(row[7], row[8]) for row in rows}, {("0", flags[1])})
                    self.assertEqual([one["count"] for one in result["results"]], counts)
                    self.assertEqual((result["benchmark"], result["transport"], result["out_of_bounds"]),
                                     (measure, flags[1], 0))
                    self.assertEqual({one["wrong"] for one in result["results"]}, {0})

    def test_tell_time_bytes_and_messages_of_the_same_messages(self):
        for measure, window in (("latency", None), ("bandwidth", 5)):
            with self.subTest(measure=measure):
                flags = ["--window", window] if window else []
                _, result = self.results(measure, "--ranks", 2, "-b", "64K", "-e", "64K", *flags)
                self.assertEqual((result["window"], len(result["ranks"])), (window, 2))
                row, = result["results"]
                self.assertEqual((row["size_bytes"], row["count"], row["type"], row["iterations"]),
                                 (65536, 16384, "float", 2))
                self.assertLessEqual(row["min_us"], row["median_us"])
                self.assertLessEqual(row["median_us"], row["max_us"])
                self.assertAlmostEqual(row["algbw_gbps"], 65536 / row["time_us"] / 1e3)
                self.assertEqual(row["busbw_gbps"], row["algbw_gbps"])
                self.assertAlmostEqual(row["messages_per_s"] * row["time_us"] / 1e6, 1)

    def test_are_right_for_every_type_windows_that_do_not_fit_and_empty_messages(self):
        for measure, flags in (("latency", []), ("bandwidth", ["--window", 7])):
            with self.subTest(measure=measure):
                rows, _ = self.results(measure, "--ranks", 2, "-b", 0, "-e", 3000, "-i", 1000, "-d", "all", *flags)
                self.assertEqual(len(rows), 12 * 4)
                self.assertEqual({row[7] for row in rows}, {"0"})

    def test_are_of_the_first_two_ranks_while_others_wait(self):
        for measure in ("latency", "bandwidth"):
            with self.subTest(measure=measure):
                rows, result = self.results(measure, "--ranks", 4, "-b", "1K", "-e", "1K")
                self.assertEqual((len(rows), len(result["ranks"])), (1, 4))
                done = self.tutti("run", "-n", 3, "--no-prefix", harness.TUTTI, "bench", measure, "-e", 8, *QUICK)
                self.assertEqual((done.returncode, done.stderr), (0, ""))
                self.assertIn(f"{measure}, 3 ranks", done.stdout)

    def test_can_be_unchecked(self):
        done = self.tutti("bench", "bandwidth", "--ranks", 2, "-e", 8, "-c", 0, *QUICK)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("# Out of bounds values : N/A\n", done.stdout)

    def test_need_two_ranks(self):
        done = self.tutti("bench", "latency", *QUICK)
        self.assertEqual((done.returncode, done.stdout, done.stderr),
                         (1, "", "tutti bench latency: ranks 0 and 1 measure, but there is one rank only; start two, "
                                 "for instance with --ranks 2\n"))

    def test_refuse_wrong_flags_with_one_sentence(self):
        for measure, *arguments in (("latency", "--op", "sum"), ("latency", "--root", 0), ("latency", "--window", 2),
                                    ("bandwidth", "--placement", "in"), ("bandwidth", "--algorithm", "ring"),
                                    ("bandwidth", "-z", 1), ("bandwidth", "--window", 0), ("bandwidth", "--ranks", 1),
                                    ("bandwidth", "-b", "1G"), ("latency", "-d", "flot"), ("latency", "-f", 1)):
            with self.subTest(measure=measure, arguments=arguments):
                done = self.tutti("bench", measure, *arguments)
                self.assertEqual((done.returncode, done.stdout), (2, ""))
                self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
                self.assertTrue(done.stderr.startswith(f"tutti bench {measure}: "), done.stderr)
        for flag in ("--op", "--root"):
            self.assertEqual(self.tutti("bench", "latency", flag, 0).stderr, f"tutti bench latency: there is no option "
                             f"{flag}; `tutti bench latency --help` lists them\n")


if __name__ == "__main__":
    harness.main()
