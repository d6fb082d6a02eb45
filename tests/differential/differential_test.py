"""The calls of tutti beside those of Open MPI, on the same data: against_mpi under mpirun, over numbers of ranks,
transports, algorithms and tunings that are drawn from a seed.

Without options a short run that is always the same. --seconds N runs N seconds of what --seed S (default: a new one)
draws, with a line for each job and one for all.
"""

import argparse
import random
import re
import shutil
import sys
import unittest

import harness
import job

RANKS = (1, 2, 3, 4, 7, 8)
TRANSPORTS = ("shm", "tcp")
ALGORITHMS = ("binomial_tree", "bruck", "chain", "direct", "direct_one_shot", "direct_two_shot", "dissemination",
              "double_binary_tree", "pairwise", "recursive_doubling", "ring", "sequential")
SMALL_PIECES = {"TUTTI_SLICE_BYTES": "1024", "TUTTI_SLOT_BYTES": "4096", "TUTTI_SLOTS": "2"}
TUNINGS = ({}, {}, {"TUTTI_CHANNELS": "3"}, SMALL_PIECES)
CASES = 10 if job.SANITIZED else 40  # of each job of the short run
JOB_SECONDS = 10

SUMMARY = re.compile(r"^seed \d+: (\d+) cases with (\d+) calls and (\d+) messages on \d+ ranks, (\d+) differences\n$")


def parsed():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, help="run this long")
    parser.add_argument("--seed", type=int, help="of what is drawn; printed when it is not given")
    options, rest = parser.parse_known_args()
    sys.argv[1:] = rest
    if options.seed is None:
        options.seed = 1 if options.seconds is None else random.SystemRandom().randrange(2**32)
    return options


OPTIONS = parsed()


def drawn_variables(draw, transport):
    """The options of one job."""
    variables = {"TUTTI_TRANSPORT": transport, **draw.choice(TUNINGS)}
    if draw.random() < 0.5:
        variables["TUTTI_ALGORITHM"] = draw.choice(ALGORITHMS)
    elif draw.random() < 0.3:
        variables["TUTTI_DETERMINISTIC"] = "1"
    return variables


class Differential(job.JobTest):
    def setUp(self):
        super().setUp()
        if not shutil.which("mpirun.openmpi"):
            self.skipTest("mpirun.openmpi is not installed")
        if not shutil.which(job.program("against_mpi")):
            self.skipTest("against_mpi was not built: it needs libopenmpi-dev, and no ThreadSanitizer")
        if job.SANITIZED:
            self.environment["ASAN_OPTIONS"] = "detect_leaks=0"  # Open MPI keeps memory to its end
        self.draw = random.Random(OPTIONS.seed)
        self.cases = self.calls = self.messages = self.differences = self.jobs = 0

    def run_job(self, ranks, transport, *bound):
        """One job of cases until `bound`; counts them."""
        # What hangs says so before the program's own limit.
        limit_ms = str(harness.LIMIT_S * 500)
        variables = {"TUTTI_TIMEOUT_MS": limit_ms, "TUTTI_BOOTSTRAP_TIMEOUT_MS": limit_ms,
                     **drawn_variables(self.draw, transport)}
        seed = self.draw.randrange(2**32)
        # Ranks that are stuck say so before; this is for mpirun itself.
        done = self.run_command(["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "--timeout",
                                 harness.LIMIT_S - 5, "-n", ranks, job.program("against_mpi"), "--seed", seed, *bound],
                                variables)
        different = [line for line in done.err.splitlines() if line.startswith("DIFFERENT")]
        summary = SUMMARY.match(done.out)
        if summary:
            self.cases, self.calls = self.cases + int(summary[1]), self.calls + int(summary[2])
            self.messages += int(summary[3])
        self.differences += int(summary[4]) if summary else len(different)
        self.jobs += 1
        if OPTIONS.seconds is not None:
            text = " ".join(f"{name}={value}" for name, value in variables.items())
            print(f"{text}: {done.out.strip() or 'no summary'}", *different, sep="\n", flush=True)
        with self.subTest(ranks=ranks, seed=seed, **variables):
            self.assertFalse(different, "\n" + "\n".join(different))
            self.assertEqual(done.status, 0, done)
            self.assertTrue(summary, done)

    @unittest.skipIf(OPTIONS.seconds is not None, "--seconds asks for the long run")
    def test_a_few_cases_on_every_number_of_ranks(self):
        for ranks in RANKS:
            for transport in TRANSPORTS:
                self.run_job(ranks, transport, "--cases", CASES)

    @unittest.skipIf(OPTIONS.seconds is None, "--seconds asks for it")
    def test_for_a_while(self):
        print(f"seed {OPTIONS.seed}", flush=True)
        end = job.now() + OPTIONS.seconds
        while job.now() < end:
            seconds = min(JOB_SECONDS, end - job.now())
            self.run_job(self.draw.choice(RANKS), self.draw.choice(TRANSPORTS), "--seconds", f"{seconds:.1f}")
        print(f"seed {OPTIONS.seed}: {self.jobs} jobs, {self.cases} cases, {self.calls} calls, "
              f"{self.messages} messages, {self.differences} differences", flush=True)


if __name__ == "__main__":
    job.main()
