"""`benchmarks/network`, briefly and at a rate that every machine keeps up with: what it prints, and that the link has
the limit that it says."""

import json
import os
import subprocess
import sys

import harness
import job

BENCHMARKS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "benchmarks")
sys.path.insert(0, BENCHMARKS)

from comparison import two_hosts  # pylint: disable=wrong-import-position

RATE_GBIT = 0.5


class NetworkBenchmark(job.JobTest):
    """What both classes of tests need."""

    def setUp(self):
        super().setUp()
        self.figures = os.path.join(self.folder, "figures.json")
        build = os.path.join(self.folder, "build", "tools")
        os.makedirs(build)
        os.symlink(harness.TUTTI, os.path.join(build, "tutti"))

    def network(self, *arguments):
        """Returns the process that is started."""
        command = [sys.executable, os.path.join(BENCHMARKS, "network"), "--no-build", "--build",
                   os.path.join(self.folder, "build"), "--json", self.figures, *arguments]
        return self.rank(command, {})


class Usage(NetworkBenchmark):
    def test_refuses_wrong_usage_in_one_sentence(self):
        for arguments, sentence in ((["--rate", "0"], r"--rate is from 0\.01 to 1000 Gbit/s"),
                                    (["--mtu", "100"], "--mtu is from 576 to 65535 bytes"),
                                    (["--rounds", "0"], "--rounds is at least 1"),
                                    (["--congestion", "none"], "--congestion: invalid choice: 'none'"),
                                    (["--ways", "--loopback", "--congestion", "reno"],
                                     "--congestion goes with a link"),
                                    (["--seconds", "nan"], "--seconds is more than 0"),
                                    (["--sizes", "1M,x"], "--sizes: 'x' is no number"),
                                    (["--json", "no/such/folder"], "--json: no/such/folder cannot be written")):
            done = self.ended(self.network(*arguments))
            self.assertEqual((done.status, done.out), (2, ""))
            self.check_sentence(done.err, f"^network: .*{sentence}.*; see --help$")

    def test_says_what_is_missing_where_there_are_no_such_hosts(self):
        self.environment["PATH"] = self.folder
        done = self.ended(self.network())
        self.assertEqual(done.status, 1)
        self.check_sentence(done.err, r"^network: ip is not installed \(Debian: iproute2\)$")


class Measuring(NetworkBenchmark):
    def setUp(self):
        super().setUp()
        try:
            with two_hosts.two_hosts(RATE_GBIT, 1500):
                pass
        except two_hosts.Unavailable as absent:
            self.skipTest(str(absent))

    def test_gives_both_hosts_the_congestion_control(self):
        for congestion in two_hosts.congestion_controls():
            with two_hosts.two_hosts(RATE_GBIT, 1500, congestion) as hosts:
                for host in hosts:
                    done = subprocess.run([*host, "cat", "/proc/sys/net/ipv4/tcp_congestion_control"],
                                          capture_output=True, text=True, check=True)
                    self.assertEqual(done.stdout.strip(), congestion)

    def test_measures_streams_messages_and_all_reduces_through_the_same_limit(self):
        process = self.network("--rate", str(RATE_GBIT), "--sizes", "256K,1M", "--rounds", "2", "--seconds", "0.5",
                               "--congestion", "reno")
        done = self.ended(process)
        self.assertEqual((done.status, done.err), (0, ""))
        left = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True).stdout
        self.assertNotIn(f"tutti-{process.pid}-", left)
        self.assertIn("0.5 Gbit/s each way, MTU 1500, congestion control reno: 0.060 GB/s of payload, the limit\n",
                      done.out)
        for name in ("one-way", "both-ways"):
            self.assertRegex(done.out, fr"(?m)^bare {name} +0\.0[0-9]+ +±[0-9]+% +[0-9.]+% of the limit$")
        for size in ("256 KiB", "1 MiB"):
            self.assertRegex(done.out, fr"(?m)^ +{size}( +0\.0[0-9]+ +±[0-9]+% +[0-9.]+% +[0-9.]+%){{2}}$")

        with open(self.figures, encoding="utf-8") as file:
            figures = json.load(file)
        limit = figures["limit_bytes_per_s"]
        self.assertAlmostEqual(limit, 0.5e9 / 8 * 1448 / 1514)
        self.assertEqual(figures["congestion_control"], "reno")
        self.assertEqual([program["name"] for program in figures["programs"]],
                         ["bare one-way", "bandwidth", "bare both-ways", "all_reduce"])
        for program in figures["programs"]:
            for row in program["bytes_per_s"]:
                # What the token bucket has saved before a call goes faster.
                self.assertLess(row["median"], 1.1 * limit, (program["name"], row))
                self.assertEqual(len(row["rounds"]), 2)
            if program["name"] in ("bandwidth", "all_reduce"):
                reached = sum(row["median"] >= 0.95 * limit for row in program["bytes_per_s"])
                self.assertIn(f"\n{program['name']} reaches 95% of the limit at {reached} of 2 sizes\n", done.out)


if __name__ == "__main__":
    job.main()
