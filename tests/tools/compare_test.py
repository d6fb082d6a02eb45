"""`benchmarks/compare` with drivers that only say what they would have measured, and the real ones for small sizes."""

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import harness

COMPARE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "benchmarks", "compare")
COLLECTIVES = ["all_reduce", "reduce_scatter", "all_gather", "broadcast", "all_to_all", "send_recv"]
# Prints on rank 0 what the real drivers print (benchmarks/peers/loop.h).
DRIVER = """#!/bin/sh
{before}
test "${{TUTTI_RANK:-0}}" = 0 || exit 0
test "$1" = {lacks} && exit 69
case "$1" in
  nothing) exit 0 ;;
  memory) echo a warning of the library; echo "$3 2048 -1024"; exit 0 ;;
esac
shift 2  # the collective, the seconds
for size; do echo $size 10 $((size {per_byte})).5 {wrong}; done
exit {status}
"""
GLOO_ARGUMENTS = "shift 3  # rank, size, folder"

class Compare(unittest.TestCase):
    FAILED = "compare: tutti itself failed, was wrong, or was never measured; its tables say how\n"

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.build = folder.name
        self.peers = os.path.join(self.build, "benchmarks", "peers")
        os.makedirs(os.path.join(self.build, "tools"))
        os.makedirs(self.peers)
        os.symlink(harness.TUTTI, os.path.join(self.build, "tools", "tutti"))

    def driver(self, name, per_byte, before="", lacks="none", wrong=0, status=0):
        path = os.path.join(self.peers, f"peer_{name}")
        with open(path, "w", encoding="ascii") as file:
            file.write(DRIVER.format(before=before, lacks=lacks, per_byte=per_byte, wrong=wrong, status=status))
        os.chmod(path, 0o755)

    def tutti(self, per_byte, **options):
        """On memory of its own, and on what is registered, it takes 1 us less."""
        self.driver("tutti", per_byte + " $less", before="test $1 = malloc || less=-1; shift  # the memory", **options)

    def gloo(self, *arguments, **options):
        self.driver("gloo", *arguments, before=GLOO_ARGUMENTS, **options)

    def limit(self, per_byte):
        self.driver("limit", per_byte, before="shift 2  # the kind, the ranks")

    def cache_line(self, script):
        """The path of a driver that says how near the processors are."""
        path = os.path.join(self.peers, "peer_cache_line")
        with open(path, "w", encoding="ascii") as file:
            file.write(f"#!/bin/sh\n{script}\n")
        os.chmod(path, 0o755)
        return path

    def real(self, name):
        os.symlink(os.environ[f"PEER_{name.upper()}"], os.path.join(self.peers, f"peer_{name}"))

    def compare(self, *arguments, **environment):
        figures = os.path.join(self.build, "figures.json")
        command = [sys.executable, COMPARE, "--no-build", "--build", self.build, "--torch-python", "no-such-python",
                   "--sizes", "8,1K", "--ranks", "2", "--tables", "shm", "--json", figures, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=harness.LIMIT_S, check=False,
                              env=dict(os.environ, TUTTI_CALIBRATION="off", **environment))
        if not os.path.exists(figures):
            return done, None
        with open(figures, encoding="utf-8") as file:
            return done, json.load(file)

    def test_says_how_far_apart_the_cores_were_beside_each_round(self):
        self.tutti("* 2")
        self.gloo("+ 100")
        self.cache_line("echo 171.4 1.02")
        done, figures = self.compare("--rounds", "2", "--collective", "all_gather")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        if len(os.sched_getaffinity(0)) == 1:
            self.assertNotIn("cache line", done.stdout)
            return
        self.assertIn("tutti 171 (171 to 171), tutti-mem 171", done.stdout)
        self.assertEqual(figures["tables"][0]["cache_line_ns"]["gloo"], [[171.4, 171.4]] * 2)
        self.assertEqual(figures["tables"][0]["both_at_once"]["gloo"], [[1.02, 1.02]] * 2)
        self.assertNotIn("threads of one core", done.stdout)

    @unittest.skipIf(len(os.sched_getaffinity(0)) == 1, "a cache line needs two cores")
    def test_says_which_rounds_were_beside_threads_of_one_core(self):
        self.tutti("* 2")
        # The first library is beside such ones before its round and after it, the next one after it.
        self.cache_line("echo x >> $0.count; case $(wc -l < $0.count) in 1|2|4) echo 34 1.97;; *) echo 44 1.49;; esac")
        done, figures = self.compare("--rounds", "1", "--collective", "all_gather")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        at_once = figures["tables"][0]["both_at_once"]
        self.assertEqual(sorted(at_once.values()), [[[1.49, 1.49]], [[1.49, 1.97]], [[1.97, 1.97]]])
        named = [f"{name} 1 of 1" for name in at_once if at_once[name] != [[1.49, 1.49]]]
        _, _, below = done.stdout.partition("were threads of one core, which have half of it each:\n")
        self.assertEqual(sorted(below.splitlines()[0].strip().split(", ")), sorted(named))

    @unittest.skipIf(len(os.sched_getaffinity(0)) == 1, "a cache line needs two cores")
    def test_makes_rounds_beside_far_cores_or_threads_of_one_core_again(self):
        self.tutti("* 2")
        self.gloo("+ 100")
        for other in ("170 1.02", "30 1.98"):
            # So are the processors before the first run, and after it; the first time of all is a trial.
            cache_line = self.cache_line("echo x >> $0.count; "
                                         f"case $(wc -l < $0.count) in 2|4) echo {other};; *) echo 30 1.02;; esac")
            done, figures = self.compare("--rounds", "1", "--collective", "all_gather", "--line-ns", "0-60")
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertRegex(done.stdout, r"(?m)^This takes roughly [0-9]+ s, longer where it waits for near cores\.$")
            self.assertNotIn("threads of one core", done.stdout)
            self.assertEqual(set(map(str, figures["tables"][0]["cache_line_ns"].values())), {"[[30.0, 30.0]]"})
            self.assertEqual(set(map(str, figures["tables"][0]["both_at_once"].values())), {"[[1.02, 1.02]]"})
            with open(cache_line + ".count", encoding="ascii") as file:
                probes = len(file.readlines())
            os.remove(cache_line + ".count")
            # The trial, four libraries' two each, one before which did not suit, and the two around a run that did not
            # count.
            self.assertEqual(probes, 1 + 4 * 2 + 1 + 2)

    def test_refuses_at_once_to_make_rounds_again_that_it_cannot_judge(self):
        self.tutti("* 2")
        for script, sentence in (("echo broken >&2; exit 1", "ended with status 1: broken"),
                                 ("echo 44.1", "printed '44.1' instead of two figures"), (None, "is not built")):
            path = self.cache_line(script or "")
            if not script:
                os.remove(path)
            done, _ = self.compare("--line-ns", "0-60")
            self.assertEqual((done.returncode, done.stdout, done.stderr), (1, "", "compare: --line-ns needs "
                             f"peer_cache_line, which {sentence}; leave --line-ns out, or --no-build, which builds "
                             "it anew\n"))

    @unittest.skipIf(len(os.sched_getaffinity(0)) == 1, "a cache line needs two cores")
    def test_fails_where_tutti_itself_is_wrong_beside_near_cores(self):
        self.tutti("* 2", wrong=3)
        self.gloo("+ 100")
        self.cache_line("echo 30 1.02")
        path = self.baseline("kept")
        done, figures = self.compare("--rounds", "1", "--collective", "all_gather", "--line-ns", "0-60",
                                     "--write-baseline", path)
        self.assertEqual((done.returncode, done.stderr), (1, self.FAILED))
        self.assertEqual(figures["tables"][0]["libraries"][0]["failure"], "gave 3 wrong elements at 8 bytes")
        with open(path, encoding="ascii") as file:
            self.assertEqual(file.read(), "kept")

    @unittest.skipIf(len(os.sched_getaffinity(0)) == 1, "a cache line needs two cores")
    def test_fails_where_tutti_has_no_round(self):
        self.tutti("* 2")
        self.gloo("+ 100")
        # The trial and what is around the first library's round are near, and then the driver breaks.
        self.cache_line("echo x >> $0.count; test $(wc -l < $0.count) -le 3 && echo 30 1.02 || exit 1")
        done, figures = self.compare("--rounds", "1", "--collective", "all_gather", "--line-ns", "0-60")
        self.assertEqual((done.returncode, done.stderr), (1, self.FAILED))
        libraries = figures["tables"][0]["libraries"]
        self.assertEqual([each["failure"] for each in libraries], [""] * 4)
        self.assertEqual(sorted(each["missed"] != "" for each in libraries), [False, True, True, True])
        self.assertIn("0 of 1 rounds: peer_cache_line ended with status 1: it said nothing", done.stdout)

    def test_refuses_what_is_no_span_of_nanoseconds(self):
        for wrong in ("60", "60-0", "near"):
            done, _ = self.compare("--line-ns", wrong)
            self.assertEqual(done.returncode, 2)
            self.assertIn(f"'{wrong}' is not two numbers such as 0-60", done.stderr)

    def test_judges_by_the_medians_of_the_best_peer_and_of_the_limit(self):
        self.tutti("* 2")
        self.gloo("+ 100")
        self.limit("/ 2")
        done, figures = self.compare()
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        # tutti, -mem, -reg, gloo, limit, -mem
        cells = [r" +16\.50", r" +15\.50", r" +15\.50", r" +108\.50", r" +4\.50", r" +4\.50"]
        self.assertRegex(done.stdout, r"(?m)^ +8 B" + r" +±0%".join(cells) +
                         r" +±0% +gloo +0\.15 win +0\.14 win +0\.14 win +3\.67 +3\.44 +3\.44$")
        self.assertRegex(done.stdout, r"(?m)^ +1 KiB +2048\.50 .* gloo" + r" +1\.82 LOSS" * 3 + r" +4\.00" * 3 + "$")
        self.assertIn("tutti is faster than every peer at 1 of 2 sizes", done.stdout)
        self.assertIn("tutti-mem is faster than every peer at 1 of 2 sizes", done.stdout)
        table = figures["tables"][0]
        self.assertEqual([(row["size_bytes"], row["microseconds"]["tutti"]["median"], row["best_peer"],
                           row["best_peer_us"], row["to_limit"]["tutti-mem"]) for row in table["rows"]],
                         [(8, 16.5, "gloo", 108.5, 15.5 / 4.5), (1024, 2048.5, "gloo", 1124.5, 2047.5 / 512.5)])
        self.assertEqual(table["libraries"][0]["rounds"]["8"], [16.5] * 5)
        self.assertEqual([library["role"] for library in table["libraries"]],
                         ["own"] * 3 + ["peer"] + ["limit"] * 2)

    def test_says_what_is_not_installed_and_what_brings_it(self):
        self.tutti("* 2")
        self.limit("/ 2")
        done, _ = self.compare("--tables", "shm,tcp,startup")
        for name, remedy, tables in (("Open MPI", "openmpi-bin", 3), ("MPICH", "libmpich-dev", 3),
                                     ("Gloo", "libgloo-dev", 3), ("UCC", "TUTTI_UCC_ROOT", 3),
                                     ("oneCCL", "oneccl-devel", 3)):
            lines = [line for line in done.stdout.splitlines() if f"left out: {name} is not installed" in line]
            self.assertEqual(len(lines), tables)
            self.assertIn(remedy, lines[0])
        self.assertEqual(done.stdout.count("left out: torch cannot be imported"), 2)

    def test_leaves_out_what_it_is_told_to(self):
        self.tutti("* 2")
        for name in ("gloo", "ucc"):
            self.driver(name, "+ 100", before=GLOO_ARGUMENTS)
        done, figures = self.compare("--rounds", "1", "--tables", "tcp", "--without", "ucc,oneccl")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("left out: ucc-tcp, as --without says", done.stdout)
        self.assertEqual([library["name"] for library in figures["tables"][0]["libraries"]], ["tutti-tcp", "gloo"])

    @unittest.skipUnless(shutil.which("mpirun"), "there is no mpirun")
    def test_measures_open_mpi_as_it_is_and_over_ucx(self):
        self.tutti("* 2")
        self.limit("/ 2")
        self.driver("openmpi", "+ 100", before='test "$OMPI_COMM_WORLD_RANK" = 0 || exit 0')
        done, figures = self.compare("--rounds", "1", "--tables", "shm,tcp")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        for table, names in zip(figures["tables"], (["openmpi", "openmpi-ucx"], ["openmpi-tcp", "openmpi-ucx-tcp"])):
            self.assertEqual([each["name"] for each in table["libraries"] if each["role"] == "peer"], names)
            self.assertEqual({each["name"] for each in table["libraries"] if each["rounds"].get("8") == [108.5]},
                             set(names))

    def test_leaves_a_library_out_that_fails_or_is_wrong_and_says_so(self):
        self.tutti("* 2")
        self.limit("/ 2")
        for options, sentence in (({"wrong": 3}, "gave 3 wrong elements at 8 bytes"),
                                  ({"status": 4}, "ended with status 4")):
            self.gloo("+ 100", **options)
            done, figures = self.compare("--rounds", "1")
            self.assertEqual(done.returncode, 0)
            self.assertIn(sentence, done.stdout)
            self.assertRegex(done.stdout, r"(?m)^ +8 B +16\.50 +15\.50 +15\.50 +- ")
            self.assertIsNone(figures["tables"][0]["rows"][0]["best_peer"])

    def test_fails_where_tutti_itself_is_wrong(self):
        self.tutti("* 2", wrong=3)
        self.limit("/ 2")
        done, figures = self.compare("--rounds", "1")
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stderr, self.FAILED)
        self.assertIn("gave 3 wrong elements at 8 bytes", done.stdout)
        self.assertEqual(len(figures["tables"]), 1)

    def test_leaves_a_library_out_that_has_no_such_collective(self):
        self.tutti("* 2")
        self.gloo("+ 100", lacks="all_to_all")
        done, figures = self.compare("--rounds", "1", "--collective", "all_to_all,broadcast")
        self.assertIn("left out: gloo has no all_to_all", done.stdout)
        self.assertEqual([row["best_peer"] for table in figures["tables"] for row in table["rows"]],
                         [None, None, "gloo", "gloo"])

    def test_leaves_sizes_out_that_have_no_float_for_each_rank(self):
        self.tutti("* 2")
        _, figures = self.compare("--rounds", "1", "--ranks", "4", "--collective", "all_gather,broadcast")
        self.assertEqual([[row["size_bytes"] for row in table["rows"]] for table in figures["tables"]],
                         [[1024], [8, 1024]])

    def test_measures_start_up_and_memory(self):
        self.tutti("* 2")
        self.gloo("+ 100")
        done, figures = self.compare("--tables", "startup", "--rounds", "2")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        rows = figures["tables"][0]["rows"]
        self.assertEqual([(row["library"], row["ranks"]) for row in rows],
                         [("tutti", 2), ("tutti-mem", 2), ("tutti-reg", 2), ("gloo", 2), ("tutti", 64)])
        for row in rows:
            self.assertEqual(len(row["seconds"]["rounds"]), 2)
            memory = [row["peak_mib"]["median"], row["share_mib"]["median"]]
            self.assertEqual(memory, [2, -1] if row["ranks"] == 2 else [None, None])
        self.assertRegex(done.stdout, r"(?m)^gloo +2 +[0-9.]+ +[±>0-9]+% +2\.0 +±0% +-1\.0 +±0%$")

    def test_says_first_how_long_it_takes(self):
        self.tutti("* 2")
        self.gloo("+ 100")
        self.limit("/ 2")
        seconds = {}
        for rounds in (2, 4):
            for tables in ("shm", "shm,startup"):
                done, _ = self.compare("--rounds", str(rounds), "--seconds", "0.5", "--tables", tables,
                                       "--sizes", "1M,64M")
                self.assertEqual((done.returncode, done.stderr), (0, ""))
                found = re.search(r"(?m)^This takes roughly ([0-9]+) s\.$", done.stdout)
                self.assertLess(found.start(), done.stdout.index("all_reduce, 2 ranks on"))
                seconds[rounds, tables] = int(found[1])
        # 6 libraries, of which the two limits count twice; of each size 1.4 times the seconds
        self.assertAlmostEqual(seconds[2, "shm"], 2 * 8 * (0.7 + 2 * 1.4 * 0.5), delta=6)
        self.assertAlmostEqual(seconds[4, "shm"], 2 * seconds[2, "shm"], delta=2)
        self.assertGreater(seconds[4, "shm,startup"], seconds[4, "shm"])

    def test_shows_what_a_second_worker_gains(self):
        """The driver takes half the time where it has two, on either kind of memory."""
        self.driver("tutti", "* 4 / (${TUTTI_WORKERS:-1} + $own)", before="own=0; test $1 = malloc || own=1; shift")
        self.gloo("+ 100")
        done, figures = self.compare("--tables", "workers", "--collective", "all_reduce,broadcast", "--rounds", "2")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("shared memory with 1 and 2 worker threads of each rank", done.stdout)
        self.assertRegex(done.stdout, r"(?m)^ +1 KiB +4096\.50 +±0% +2048\.50 +±0% +0\.50"
                         r" +2048\.50 +±0% +1365\.50 +±0% +0\.67$")
        self.assertNotIn("gloo", done.stdout)
        for table, collective in zip(figures["tables"], ("all_reduce", "broadcast")):
            self.assertEqual((table["table"], table["collective"]), ("workers", collective))
            self.assertEqual([library["name"] for library in table["libraries"]],
                             ["malloc-1", "malloc-2", "mem-1", "mem-2"])
            self.assertEqual(table["libraries"][1]["rounds"]["1024"], [2048.5] * 2)

    def test_tutti_and_the_limit_give_right_results(self):
        self.real("tutti")
        self.real("limit")
        for ranks in ("2", "3"):
            collectives = [name for name in COLLECTIVES if ranks == "2" or name != "send_recv"]
            done, figures = self.compare("--rounds", "1", "--seconds", "0.001", "--sizes", "16,1K,40000,256K",
                                         "--ranks", ranks, "--collective", ",".join(collectives))
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertEqual([table["collective"] for table in figures["tables"]], collectives)
            for table in figures["tables"]:
                has_limits = table["collective"] == "all_reduce"
                names = ["tutti", "tutti-mem", "tutti-reg"] + ["limit", "limit-mem"] * has_limits
                self.assertEqual([(library["name"], library["failure"], len(library["rounds"]))
                                  for library in table["libraries"]], [(name, "", 4) for name in names])

    def test_the_loop_finds_wrong_results(self):
        for collective in COLLECTIVES[:-1]:
            for wrong in ("0", "1"):
                done = subprocess.run([os.environ["PEER_WRONG"], wrong, collective, "0.001", "8", "4096"],
                                      capture_output=True, text=True, timeout=harness.LIMIT_S, check=True)
                lines = [line.split() for line in done.stdout.splitlines()]
                self.assertEqual([(size, found) for size, _, _, found in lines], [("8", wrong), ("4096", wrong)])

    def test_rank_0_says_how_many_calls_are_made_where_sums_differ_between_ranks(self):
        done = subprocess.run([os.environ["PEER_WRONG"], "2", "all_reduce", "0.02", "8", "4096"],
                              capture_output=True, text=True, timeout=harness.LIMIT_S, check=True)
        self.assertEqual([line.split()[3] for line in done.stdout.splitlines()], ["0", "0"])

    @unittest.skipIf(len(os.sched_getaffinity(0)) < 2, "only one CPU")
    def test_the_driver_that_looks_at_the_cores_has_two_figures(self):
        done = subprocess.run([os.environ["PEER_CACHE_LINE"]], capture_output=True, text=True,
                              timeout=harness.LIMIT_S, check=True)
        line_ns, both_at_once = map(float, done.stdout.split())
        self.assertGreater(line_ns, 0)
        self.assertGreater(both_at_once, 0.5)

    def test_drivers_refuse_wrong_usage(self):
        for arguments in (["sideways", "2", "all_reduce", "1", "8"], ["mapped", "0", "all_reduce", "1", "8"],
                          ["mapped", "2", "no_such", "1", "8"], ["private", "3", "send_recv", "1", "8"], []):
            done = subprocess.run([os.environ["PEER_LIMIT"], *arguments], capture_output=True, text=True,
                                  timeout=harness.LIMIT_S, check=False)
            self.assertEqual(done.returncode, 2)
            self.assertIn("usage: ", done.stderr)

    def baseline(self, content=None):
        """The path of a baseline; what is in it, if it is to be written here."""
        path = os.path.join(self.build, "baseline.json")
        if content is not None:
            with open(path, "w", encoding="utf-8") as file:
                file.write(content if isinstance(content, str) else json.dumps(content))
        return path

    def test_writes_ratios_without_anything_of_this_machine_but_its_processor(self):
        self.tutti("* 2")
        self.gloo("+ 100")
        self.limit("/ 2")
        done, _ = self.compare("--write-baseline", self.baseline(), "--sizes", "8,64K", "--tables", "shm,tcp")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        with open(self.baseline(), encoding="utf-8") as file:
            text = file.read()
        for secret in (self.build, harness.TUTTI, os.uname().nodename):
            self.assertNotIn(f"{secret}\"", text)
        written = json.loads(text)
        self.assertEqual(written["command"], "benchmarks/compare --collective all_reduce --tables shm,tcp --ranks 2 "
                         "--sizes 8,64K --rounds 5 --seconds 0.1")
        self.assertRegex(written["date"], r"^\d{4}-\d\d-\d\d$")
        rows = {(row["table"], row["library"], row["size_bytes"]): row["ratios"] for row in written["rows"]}
        self.assertEqual(len(rows), 8)
        self.assertEqual(rows["shm", "tutti", 8], {"gloo": 0.152, "limit": 3.67})
        self.assertEqual(rows["tcp", "tutti-tcp", 8], {"gloo": 0.152})
        self.assertEqual(rows["shm", "tutti-mem", 64 << 10].keys(), {"gloo", "limit", "copy"})

    def test_says_where_ratios_are_better_or_worse_than_a_baselines_and_does_not_fail(self):
        self.tutti("* 2")
        self.gloo("+ 100")
        self.limit("/ 2")
        self.compare("--write-baseline", self.baseline())
        for per_byte, word in (("* 2", "alike"), ("* 4", "worse"), ("/ 2", "better")):
            self.tutti(per_byte)
            done, _ = self.compare("--baseline", self.baseline(), "--rounds", "1", "--tables", "shm,tcp")
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            report = done.stdout[done.stdout.index("Beside the baseline of "):]
            self.assertRegex(report, fr"(?m)^tutti +1 KiB +[0-9.]+ +1\.82 {word} +[0-9.]+ +4\.00 {word}$")
            self.assertRegex(report, r"(?m)^all_reduce, 2 ranks, TCP.*\n  nothing to compare: the baseline has other ")
            self.assertRegex(report, fr"(?m)\b12 {word}\b")
            self.assertIn("differ by more than 25%", report)
            self.assertNotIn("This is a", report)
        self.compare("--write-baseline", self.baseline())
        with open(os.path.join(self.build, "CMakeCache.txt"), "w", encoding="ascii") as file:
            file.write("CMAKE_BUILD_TYPE:STRING=Debug\n")
        done, figures = self.compare("--baseline", self.baseline(), "--rounds", "1")
        self.assertEqual((done.returncode, figures["machine"]["build"]), (0, "Debug"))
        self.assertIn("unknown build, with", done.stdout)
        self.assertIn("This is a Debug build: ", done.stdout)

    def test_compares_with_those_peers_of_a_baseline_that_are_here(self):
        self.tutti("* 2")
        self.gloo("+ 100")
        self.limit("/ 2")
        row = {"collective": "all_reduce", "table": "shm", "ranks": 2, "library": "tutti", "size_bytes": 1024,
               "ratios": {"gloo": 1.8, "mpich": 90, "limit": 4}}
        content = {"command": "benchmarks/compare", "date": "2026-01-02", "cpu": "some", "load": 0, "build": "Release",
                   "rows": [row]}
        done, _ = self.compare("--baseline", self.baseline(content), "--rounds", "1")
        self.assertIn("peers that both runs have: gloo\n", done.stdout)
        self.assertRegex(done.stdout, r"(?m)^tutti +1 KiB +1\.82 +1\.80 alike +4\.00 +4\.00 alike$")
        self.assertIn("0 better, 2 alike, 0 worse", done.stdout)

    def test_refuses_what_is_no_baseline_before_it_measures(self):
        head = {"command": "", "date": "", "cpu": "", "load": 0.1, "build": ""}
        for content, sentence in ((None, "cannot be read: No such file"), ("ratios", "is no JSON"), ([], "no object"),
                                  ({"rows": []}, "has no command"), (head, "has no rows"),
                                  ({**head, "rows": [{"library": "tutti"}]}, "a row of it has no collective")):
            self.tutti("* 2")
            done, _ = self.compare("--baseline", self.baseline(content))
            self.assertEqual((done.returncode, done.stdout, done.stderr.count("\n")), (2, "", 1), done.stderr)
            self.assertIn(sentence, done.stderr)
            self.assertIn("--write-baseline FILE` makes one", done.stderr)

    def test_the_baselines_of_the_repository_can_be_read(self):
        self.tutti("* 2")
        self.limit("/ 2")
        folder = os.path.join(os.path.dirname(COMPARE), "baselines")
        for name in os.listdir(folder):
            done, _ = self.compare("--baseline", os.path.join(folder, name), "--rounds", "1")
            self.assertEqual((done.returncode, done.stderr), (0, ""), name)

    def test_has_a_color_for_each_library_of_a_plot(self):
        sys.path.insert(0, os.path.dirname(COMPARE))
        from comparison import libraries, plot  # pylint: disable=import-outside-toplevel,import-error
        names = {"tutti", "tutti-mem", "tutti-reg", "limit", "limit-mem", "copy", *libraries.PEER_NAMES}
        self.assertEqual(names - set(plot.COLORS), set())

    def test_draws_a_plot_where_matplotlib_is(self):
        self.tutti("* 2")
        self.limit("/ 2")
        picture = os.path.join(self.build, "times.svg")
        absent = os.path.join(self.build, "absent")
        os.makedirs(absent)
        with open(os.path.join(absent, "matplotlib.py"), "w", encoding="ascii") as file:
            file.write("raise ImportError\n")
        done, _ = self.compare("--plot", picture, PYTHONPATH=absent)
        self.assertEqual(done.returncode, 2)
        self.assertRegex(done.stderr, r"^compare: --plot needs matplotlib: install Debian's python3-matplotlib.*\n$")
        if importlib.util.find_spec("matplotlib"):
            done, _ = self.compare("--plot", picture, "--rounds", "1", "--tables", "shm,tcp")
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            with open(picture, encoding="utf-8") as file:
                self.assertIn("<svg", file.read())

    def test_refuses_wrong_usage_in_one_sentence(self):
        for arguments, sentence in ((["--tables", "x"], "--tables: 'x' is none of shm, tcp, workers"),
                                    (["--collective", "all_reduce,scan"], "--collective: 'scan' is none of all_reduce"),
                                    (["--sizes", "8,x"], "--sizes: 'x' is no number"),
                                    (["--sizes", "6"], "--sizes: 6 bytes are no floats"),
                                    (["--ranks", ""], "--ranks: '' is no number"),
                                    (["--ranks", "0"], "--rounds and --ranks are at least 1"),
                                    (["--rounds", "0"], "--rounds and --ranks are at least 1"),
                                    (["--seconds", "nan"], "--seconds is more than 0"),
                                    (["--collective", "send_recv", "--ranks", "4"], "send_recv is between 2 ranks"),
                                    (["--collective", "all_gather", "--ranks", "2,512"], "at least 2048 bytes"),
                                    (["--plot", "a.svg", "--tables", "startup"], "--plot is about times over sizes"),
                                    (["--line-ns", "0-9", "--tables", "startup"], "--line-ns is about rounds of times"),
                                    (["--baseline", "a", "--tables", "workers"], "--baseline is about ratios to"),
                                    (["--plot", "times.pdf"], "--plot times.pdf: the file's name ends in .svg or .png"),
                                    (["--json", "no/such/folder"], "--json: no/such/folder cannot be written"),
                                    (["--no-such"], "unrecognized arguments: --no-such")):
            done, _ = self.compare(*arguments)
            self.assertEqual((done.returncode, done.stdout, done.stderr.count("\n")), (2, "", 1), done.stderr)
            self.assertIn(sentence, done.stderr)
        self.assertIn("has no drivers", self.compare()[0].stderr)

if __name__ == "__main__":
    harness.main()
