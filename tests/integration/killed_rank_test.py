"""Ranks that are killed in the middle of a call, in jobs that no launcher tidies up: the others say who died, end soon
and leave nothing behind."""

import os
import random
import re
import signal
import time

import harness
import job

BOUND_S = 10 if job.SANITIZED else 2
ROUNDS = 1 if job.SANITIZED else 4


class Killed(job.JobTest):
    def check_round(self, chance, ranks, victims, transport, size, memory):
        shared = self.by_hand(ranks, TUTTI_TRANSPORT=transport)
        started = self.ranks([job.program("loop_until_error"), size, memory], ranks, shared)
        for process in started:
            self.assertEqual(process.stdout.readline(), "running\n", started)
        held = job.Held(process.pid for process in started)
        self.assertEqual(held.shared_files, set())

        time.sleep(chance.uniform(0, 0.1))
        killed_at = job.now()
        for victim in victims:
            os.kill(started[victim].pid, signal.SIGKILL)
        for process in started:
            process.wait(harness.LIMIT_S)
        self.assertLess(job.now() - killed_at, BOUND_S)

        for rank, process in enumerate(started):
            end = self.ended(process)
            if end.status == -signal.SIGKILL and rank in victims:
                continue
            self.assertNotEqual(rank, victims[0])  # a later victim may have seen the first one die
            self.assertEqual(end.status, 3, end)
            self.check_sentence(end.err, r"^rank \d+ \(pid \d+ on \S+\) has died")
            named, pid = map(int, re.match(r"rank (\d+) \(pid (\d+)", end.err).groups())
            self.assertIn(named, victims, end.err)
            self.assertEqual(pid, started[named].pid)
        self.assertEqual(self.living(), [])
        self.eventually(lambda: not held.sockets_left(), "their sockets are gone")

    def check(self, victims, ranks=4, **how):
        seed = random.randrange(2**32)
        chance = random.Random(seed)
        for round_number in range(ROUNDS):
            with self.subTest(victims=victims, seed=seed, round=round_number, **how):
                self.check_round(chance, ranks, victims, **how)

    def test_one_of_4_over_shared_memory(self):
        for size, memory in ((8, "malloc"), (4_000_000, "malloc"), (4_000_000, "tutti")):
            for victim in (0, 2):
                self.check([victim], transport="shm", size=size, memory=memory)

    def test_one_of_4_over_tcp(self):
        for size in (8, 4_000_000):
            for victim in (0, 3):
                self.check([victim], transport="tcp", size=size, memory="malloc")

    def test_two_of_4_over_shared_memory(self):
        for victims in ([0, 1], [1, 3]):
            self.check(victims, transport="shm", size=100_000, memory="malloc")

    def test_two_of_4_over_tcp(self):
        for victims in ([0, 1], [1, 3]):
            self.check(victims, transport="tcp", size=100_000, memory="malloc")

    def test_one_of_2(self):
        for transport in ("shm", "tcp"):
            self.check([0], ranks=2, transport=transport, size=8, memory="malloc")

    def test_one_whose_child_holds_its_connections(self):
        for transport in ("shm", "tcp"):
            shared = self.by_hand(2, TUTTI_TRANSPORT=transport)
            started = self.ranks([job.program("loop_until_error"), 8, "malloc", -1, "child"], 2, shared)
            children = [int(process.stdout.readline().split()[1]) for process in started]
            for process in started:
                self.assertEqual(process.stdout.readline(), "running\n")
            killed_at = job.now()
            started[1].kill()
            end = self.ended(started[0])
            self.assertLess(job.now() - killed_at, BOUND_S)
            self.assertEqual(end.status, 3, end)
            self.check_sentence(end.err, rf"^rank 1 \(pid {started[1].pid} on \S+\) has died")
            for child in children:
                os.kill(child, signal.SIGKILL)
            self.eventually(lambda: self.living() == [], "the children are gone")

    def test_all_but_one_of_7(self):
        self.check([0, 1, 2, 3, 4, 6], ranks=7, transport="shm", size=8, memory="malloc")


if __name__ == "__main__":
    job.main()
