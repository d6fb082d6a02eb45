"""A rank that waits leaves its core to others. What is bounded is CPU time, which other work on the machine does not
change, as a share of what is measured in the same test."""

import os

import job

CALLS = 200
# Ranks that keep a core until their time slice ends pay milliseconds for each step, more than a hundred times as much.
COLLAPSE = 10


class Waiting(job.JobTest):
    def check_cpu_share(self, ranks, transport):
        done = self.tutti("run", "-n", ranks, "--no-prefix", "--env", f"TUTTI_TRANSPORT={transport}",
                          job.program("wait_for_late_rank"), 2500)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        lines = done.stdout.splitlines()
        self.assertEqual(len(lines), ranks - 1)
        for line in lines:
            wall, cpu = map(int, line.split())
            self.assertGreater(wall, 2_000_000)
            self.assertLess(cpu, 0.05 * wall)

    def test_over_shared_memory_burns_no_core(self):
        self.check_cpu_share(2, "shm")

    def test_over_tcp_burns_no_core(self):
        self.check_cpu_share(2, "tcp")

    def test_of_4_ranks_burns_no_core(self):
        self.check_cpu_share(4, "shm")


class Oversubscribed(job.JobTest):
    def cpu_us(self, transport, *flags):
        """CPU time of 8 ranks on 2 cores for some calls."""
        cores = sorted(os.sched_getaffinity(0))[:2]
        done = self.tutti("run", "-n", 8, "--no-prefix", "--env", f"TUTTI_TRANSPORT={transport}", *flags,
                          job.program("cpu_of_calls"), CALLS, preexec_fn=lambda: os.sched_setaffinity(0, cores))
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        spent = [int(line) for line in done.stdout.splitlines()]
        self.assertEqual(len(spent), 8)
        return sum(spent)

    def check(self, transport):
        asleep = self.cpu_us(transport, "--env", "TUTTI_SPIN_US=0", "--env", "TUTTI_YIELD_US=0")
        self.assertLess(self.cpu_us(transport), COLLAPSE * asleep, "beside ranks that go to sleep at once")

    def test_8_ranks_on_2_cores_do_not_collapse_over_shared_memory(self):
        self.check("shm")

    def test_8_ranks_on_2_cores_do_not_collapse_over_tcp(self):
        self.check("tcp")


if __name__ == "__main__":
    job.main()
