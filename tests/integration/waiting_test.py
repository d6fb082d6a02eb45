"""A rank that waits leaves its core to others."""

import os

import harness
import job

BENCH = (harness.TUTTI, "bench", "all_reduce", "-b", "8", "-e", "8", "-n", "50", "-w", "5")


class Waiting(job.JobTest):
    def check_cpu_share(self, ranks, transport):
        done = self.tutti("run", "-n", ranks, "--no-prefix", "--env", f"TUTTI_TRANSPORT={transport}",
                          job.program("wait_for_late_rank"), 1500)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        lines = done.stdout.splitlines()
        self.assertEqual(len(lines), ranks - 1)
        for line in lines:
            wall, cpu = map(int, line.split())
            self.assertGreater(wall, 1_000_000)
            self.assertLess(cpu, 0.2 * wall)

    def test_over_shared_memory_burns_no_core(self):
        self.check_cpu_share(2, "shm")

    def test_over_tcp_burns_no_core(self):
        self.check_cpu_share(2, "tcp")

    def test_of_4_ranks_burns_no_core(self):
        self.check_cpu_share(4, "shm")


class Oversubscribed(job.JobTest):
    def check(self, transport):
        cores = sorted(os.sched_getaffinity(0))[:2]
        done = self.tutti("run", "-n", 8, *BENCH, "--transport", transport,
                          preexec_fn=lambda: os.sched_setaffinity(0, cores))
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.check_table(done.stdout, 1)

    def test_8_ranks_on_2_cores_finish_over_shared_memory(self):
        self.check("shm")

    def test_8_ranks_on_2_cores_finish_over_tcp(self):
        self.check("tcp")


if __name__ == "__main__":
    job.main()
