"""`tutti bench all_reduce` under every way of starting ranks: 0 wrong."""

import shutil
import uuid

import harness
import job

BENCH = (harness.TUTTI, "bench", "all_reduce", "-b", "8", "-e", "512K", "-f", "16", "-n", "3", "-w", "1")
ROWS = 5


class Launched(job.JobTest):
    def check(self, *launcher, flags=(), transport=None):
        done = self.run_command([*launcher, *BENCH, *flags])
        self.assertEqual(done.status, 0, done)
        for path in self.check_table(done.out, ROWS):
            self.assertTrue(path.endswith(f"/{transport or 'shm'}"), done.out)

    def check_inside(self, *launcher):
        """Two jobs of two ranks, with rows of their own."""
        done = self.run_command([*launcher, harness.TUTTI, "run", "-n", "2", "--no-prefix", *BENCH])
        self.assertEqual(done.status, 0, done)
        self.check_table(done.out, 2 * ROWS)
        self.assertEqual(done.out.count(" 2 ranks,"), 2)
        self.assertIn("there are 2 jobs of 2 ranks", done.err)

    def check_ranks(self, size, variables_of, flags=()):
        started = [self.rank([*BENCH, *flags], variables_of(rank)) for rank in range(size)]
        done = [self.ended(process) for process in started]
        self.assertEqual([(end.status, end.err) for end in done], [(0, "")] * size)
        self.check_table(done[0].out, ROWS)
        self.assertIn(f" {size} ranks,", done[0].out)
        self.assertEqual([end.out for end in done[1:]], [""] * (size - 1))


class TuttiRun(Launched):
    def test_of_8_ranks(self):
        self.check(harness.TUTTI, "run", "-n", "8", "--")

    def test_of_8_ranks_over_tcp(self):
        self.check(harness.TUTTI, "run", "-n", "8", "--", flags=("--transport", "tcp"), transport="tcp")

    def test_is_what_ranks_of_the_benchmark_itself_are_started_by(self):
        done = self.tutti("bench", "all_reduce", "--ranks", 3, *BENCH[3:])
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.check_table(done.stdout, ROWS)


class OpenMpi(Launched):
    def setUp(self):
        super().setUp()
        if not shutil.which("mpirun.openmpi"):
            self.skipTest("mpirun.openmpi is not installed")
        self.launcher = ("mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "-n", "4")

    def test_of_4_ranks(self):
        self.check(*self.launcher)

    def test_of_4_ranks_over_tcp(self):
        self.check(*self.launcher, flags=("--transport", "tcp"), transport="tcp")

    def test_of_jobs_of_their_own(self):
        self.check_inside(*self.launcher[:-1], "2")


class Mpich(Launched):
    def setUp(self):
        super().setUp()
        if not shutil.which("mpiexec.mpich"):
            self.skipTest("mpiexec.mpich is not installed")

    def test_of_3_ranks(self):
        self.check("mpiexec.mpich", "-n", "3")

    def test_of_3_ranks_over_tcp(self):
        self.check("mpiexec.mpich", "-n", "3", flags=("--transport", "tcp"), transport="tcp")

    def test_of_ranks_that_do_not_know_that_they_share_a_host(self):
        self.check("mpiexec.mpich", "-n", "3", "env", "-u", "MPI_LOCALNRANKS")

    def test_without_one_rank_names_it(self):
        script = '[ "$PMI_RANK" = 1 ] && exec sleep 4; exec "$@"'
        end = self.run_command(["mpiexec.mpich", "-n", "3", "sh", "-c", script, "sh", *BENCH],
                               {"TUTTI_BOOTSTRAP_TIMEOUT_MS": "1500"})
        self.assertNotEqual(end.status, 0)
        self.assertRegex(end.err, r"rank 1 of 3 has not joined")

    def test_of_jobs_of_their_own(self):
        self.check_inside("mpiexec.mpich", "-n", "2")


class ByHand(Launched):
    """The variables of launchers, without them."""

    def test_torchruns_variables(self):
        shared = {"WORLD_SIZE": "3", "LOCAL_WORLD_SIZE": "3",
                  "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(job.free_port()),
                  "TORCHELASTIC_RUN_ID": str(uuid.uuid4()), "TORCHELASTIC_RESTART_COUNT": "0"}
        self.check_ranks(3, lambda rank: {**shared, "RANK": str(rank), "LOCAL_RANK": str(rank)})

    def test_slurms_variables(self):
        shared = {"SLURM_JOB_ID": str(uuid.uuid4().int % 2**31), "SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "3",
                  "SLURM_NTASKS": "3", "SLURM_STEP_NUM_NODES": "1", "SLURM_STEP_NODELIST": "localhost"}
        self.check_ranks(3, lambda rank: {**shared, "SLURM_PROCID": str(rank)})

    def test_tuttis_own_variables(self):
        shared = self.by_hand(3)
        self.check_ranks(3, lambda rank: {**shared, "TUTTI_RANK": str(rank)})

    def test_tuttis_own_variables_over_tcp(self):
        shared = self.by_hand(3)
        self.check_ranks(3, lambda rank: {**shared, "TUTTI_RANK": str(rank)}, flags=("--transport", "tcp"))


if __name__ == "__main__":
    job.main()
