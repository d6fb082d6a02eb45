"""`benchmarks/compare` with drivers that only say what they would have measured."""

import json
import os
import subprocess
import sys
import tempfile
import unittest

import harness

COMPARE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "benchmarks", "compare")
# Prints "BYTES CALLS MICROSECONDS WRONG" for every size, as the real drivers do on rank 0.
DRIVER = """#!/bin/sh
{shift}
test "$TUTTI_RANK" = 0 || exit 0
shift  # the seconds
for size; do echo $size 10 $((size {per_byte})).5 {wrong}; done
exit {status}
"""


class Compare(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.build = folder.name
        os.makedirs(os.path.join(self.build, "tools"))
        os.makedirs(os.path.join(self.build, "benchmarks", "peers"))
        os.symlink(harness.TUTTI, os.path.join(self.build, "tools", "tutti"))

    def driver(self, name, per_byte, shift="", wrong=0, status=0):
        path = os.path.join(self.build, "benchmarks", "peers", f"peer_{name}")
        with open(path, "w", encoding="ascii") as file:
            file.write(DRIVER.format(shift=shift, per_byte=per_byte, wrong=wrong, status=status))
        os.chmod(path, 0o755)

    def gloo(self, *arguments, **options):
        self.driver("gloo", *arguments, shift="shift; shift; shift  # rank, size, folder", **options)

    def compare(self, *arguments):
        figures = os.path.join(self.build, "figures.json")
        command = [sys.executable, COMPARE, "--no-build", "--build", self.build, "--torch-python", "no-such-python",
                   "--sizes", "8,1K", "--ranks", "2", "--tables", "shm", "--json", figures, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=harness.LIMIT_S, check=False,
                              env=dict(os.environ, TUTTI_CALIBRATION="off"))
        if not os.path.exists(figures):
            return done, None
        with open(figures, encoding="utf-8") as file:
            return done, json.load(file)

    def test_marks_wins_and_losses_by_the_ratio_of_the_medians(self):
        self.driver("tutti", "* 2")
        self.gloo("+ 100")
        done, figures = self.compare()
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertRegex(done.stdout, r"(?m)^ +8 B +16\.50 +108\.50 +gloo +0\.15  win$")
        self.assertRegex(done.stdout, r"(?m)^ +1 KiB +2048\.50 +1124\.50 +gloo +1\.82  LOSS$")
        self.assertIn("tutti is the fastest at 1 of 2 sizes", done.stdout)
        rows = figures["tables"][0]["rows"]
        self.assertEqual([(row["size_bytes"], row["tutti_us"], row["best_peer_us"]) for row in rows],
                         [(8, 16.5, 108.5), (1024, 2048.5, 1124.5)])
        self.assertEqual(figures["tables"][0]["libraries"][0]["rounds_us"]["8"], [16.5] * 5)

    def test_says_what_is_not_installed(self):
        self.driver("tutti", "* 2")
        done, _ = self.compare()
        for name in ("Open MPI is not installed", "MPICH is not installed", "Gloo is not installed",
                     "torch cannot be imported"):
            self.assertIn(f"left out: {name}", done.stdout)

    def test_leaves_a_library_out_that_fails_or_is_wrong_and_says_so(self):
        for options, sentence in (({"wrong": 3}, "gave 3 wrong elements at 8 bytes"),
                                  ({"status": 4}, "ended with status 4")):
            self.driver("tutti", "* 2")
            self.gloo("+ 100", **options)
            done, _ = self.compare("--rounds", "1")
            self.assertEqual(done.returncode, 0)
            self.assertIn(sentence, done.stdout)
            self.assertRegex(done.stdout, r"(?m)^ +8 B +16\.50 +-$")

    def test_refuses_wrong_usage(self):
        self.assertIn("--tables x", self.compare("--tables", "x")[0].stderr)
        self.assertIn("has no drivers", self.compare()[0].stderr)


if __name__ == "__main__":
    harness.main()
