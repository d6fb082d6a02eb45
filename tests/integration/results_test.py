"""Every type, operation and kind of memory at odd sizes against a plain loop: by rank count, transport, algorithm."""

import job

ALGORITHMS = ("direct_one_shot", "direct_two_shot", "double_binary_tree", "recursive_doubling", "ring")


class Checked(job.JobTest):
    def check(self, ranks, largest_count, program="all_reduce_check", **variables):
        largest_count = min(largest_count, 1001 if job.SANITIZED else largest_count)
        flags = [word for name, value in variables.items() for word in ("--env", f"{name}={value}")]
        with self.subTest(ranks=ranks, program=program, **variables):
            done = self.tutti("run", "-n", ranks, "--no-prefix", *flags, job.program(program), largest_count)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertRegex(done.stdout, rf"^\d+ cases on {ranks} ranks: 0 wrong\n$")


class Results(Checked):
    def test_are_right_over_shared_memory(self):
        for ranks in (1, 2, 3, 4, 7):
            self.check(ranks, 65537, TUTTI_TRANSPORT="shm")

    def test_are_right_over_tcp(self):
        for ranks in (2, 3, 4):
            self.check(ranks, 65537, TUTTI_TRANSPORT="tcp")

    def test_are_right_of_large_calls(self):
        self.check(2, 400003)

    def test_are_right_with_counts_and_of_messages(self):
        for transport in ("shm", "tcp"):
            for ranks in (2, 4, 5):
                self.check(ranks, 65537, "counts_check", TUTTI_TRANSPORT=transport)

    def test_are_right_in_tiny_slots_and_slices(self):
        for transport in ("shm", "tcp"):
            self.check(3, 1001, TUTTI_TRANSPORT=transport, TUTTI_SLOT_BYTES=4096, TUTTI_SLOTS=2, TUTTI_SLICE_BYTES=1000)


class Mixed(job.JobTest):
    """Ranks that reach some peers over loopback and others over shared memory or TCP."""

    def test_are_right_of_ranks_that_are_threads_of_several_processes(self):
        for transport in ("", "shm", "tcp"):
            with self.subTest(transport=transport):
                end = self.run_command([job.program("two_ranks_per_process"), 1, 1000, 65536, 1_000_000],
                                       {"TUTTI_TRANSPORT": transport})
                self.assertEqual((end.status, end.err), (0, ""), end)


class Algorithms(Checked):
    def test_are_right_over_shared_memory(self):
        for ranks in (3, 4):
            for algorithm in ALGORITHMS:
                self.check(ranks, 1001, TUTTI_ALGORITHM=algorithm, TUTTI_TRANSPORT="shm")

    def test_are_right_over_tcp(self):
        for ranks in (3, 4):
            for algorithm in ALGORITHMS:
                self.check(ranks, 1001, TUTTI_ALGORITHM=algorithm, TUTTI_TRANSPORT="tcp")
        for algorithm in ("direct_two_shot", "ring"):
            self.check(3, 65537, TUTTI_ALGORITHM=algorithm, TUTTI_TRANSPORT="tcp")

    def test_are_right_on_several_channels(self):
        for algorithm in ("direct_two_shot", "double_binary_tree", "ring"):
            self.check(3, 65537, TUTTI_ALGORITHM=algorithm, TUTTI_CHANNELS=3)


if __name__ == "__main__":
    job.main()
