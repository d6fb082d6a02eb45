"""`tutti bench --device`, on the tests' driver, which the environment names."""

import json
import os
import re
import subprocess
import tempfile
import unittest

TUTTI = os.environ["TUTTI"]
LIMIT_S = 60


class BenchOnGpu(unittest.TestCase):
    def bench(self, collective, *arguments, **environment):
        command = [TUTTI, "bench", collective, "-n", "2", "-w", "1", *map(str, arguments)]
        environment = dict(os.environ, TUTTI_CALIBRATION="off", TUTTI_TUNING="off", **environment)
        return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=LIMIT_S, check=False)

    def rows(self, text):
        return [line.split() for line in text.splitlines() if line and not line.startswith("#")]

    def test_ranks_of_one_gpu_take_launches_and_are_compared_with_copies(self):
        for collective in ("all_reduce", "reduce_scatter", "all_gather", "broadcast", "all_to_all", "gather"):
            with self.subTest(collective):
                done = self.bench(collective, "--ranks", 3, "--device", "cuda:0", "-b", 96, "-e", "300K", "-f", 16)
                self.assertEqual((done.returncode, done.stderr), (0, ""))
                self.assertRegex(done.stdout, r"(?m)^#  Rank +2 Pid +\d+ on .+ device cuda:0 fake$")
                self.assertIn("# Out of bounds values : 0 OK\n", done.stdout)
                self.assertRegex(done.stdout, r"# Copy within the GPU  : [\d.]+ GB/s, of 64 MiB;")
                self.assertEqual({row[-1] for row in self.rows(done.stdout)}, {"fused/gpu"})
                self.assertTrue(all(row[-3].endswith("%") for row in self.rows(done.stdout)), done.stdout)

    def test_json_says_where_the_ranks_are_and_what_of_a_copy_is_reached(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "result.json")
            done = self.bench("all_reduce", "--ranks", 2, "--device", "cuda:1", "-b", "64K", "-e", "64K",
                              "--json", path)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            with open(path, encoding="utf-8") as file:
                result = json.load(file)
        placement = result["results"][0]["out_of_place"]
        self.assertEqual([rank["device"] for rank in result["ranks"]], ["cuda:1 fake"] * 2)
        self.assertEqual(result["gpu_copy_bytes"], 64 << 20)
        copied_us = 2 * 65536 / result["gpu_copy_gbps"] / 1e3
        self.assertAlmostEqual(placement["of_copy"], copied_us / placement["time_us"])

    def test_ranks_with_a_gpu_each_run_plans_there(self):
        for ranks in (2, 4):
            for collective in ("all_reduce", "reduce_scatter", "all_gather", "broadcast", "all_to_all", "gather"):
                with self.subTest(collective, ranks=ranks):
                    done = self.bench(collective, "--ranks", ranks, "--device", "cuda", "-b", 96, "-e", "100K",
                                      "-f", 32)
                    self.assertEqual((done.returncode, done.stderr), (0, ""))
                    self.assertIn("# Out of bounds values : 0 OK\n", done.stdout)
                    ways = {row[-1].partition("/")[2] for row in self.rows(done.stdout)}
                    self.assertEqual(ways, {"gpu"}, done.stdout)

    def test_ranks_may_be_threads_of_one_process(self):
        for device, way in (("cuda:0", "fused/gpu"), ("cuda", None), ("cuda:0,cpu", None), ("cpu", None)):
            with self.subTest(device):
                done = self.bench("all_reduce", "--ranks", 4, "--threads", "--device", device, "-b", 96, "-e", "300K",
                                  "-f", 16)
                self.assertEqual((done.returncode, done.stderr), (0, ""))
                self.assertEqual(len(set(re.findall(r"(?m)^#  Rank +\d+ Pid +(\d+) on", done.stdout))), 1)
                self.assertIn("# Out of bounds values : 0 OK\n", done.stdout)
                if way is not None:
                    self.assertEqual({row[-1] for row in self.rows(done.stdout)}, {way})

    def test_a_thread_that_fails_ends_the_others_by_one_sentence(self):
        done = self.bench("all_reduce", "--ranks", 3, "--threads", "--device", "cuda:0", "-e", "64K",
                          FAKE_CUDA_FAIL="cuLaunchKernel:1:719")
        self.assertEqual(done.returncode, 1)
        self.assertIn("cuLaunchKernel", done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)

    def test_ranks_may_be_on_several_gpus_or_on_the_host(self):
        for devices in ("cuda", "cuda:0,cpu", "cpu,cuda:1,cuda:0"):
            with self.subTest(devices):
                done = self.bench("all_reduce", "--ranks", 3, "--device", devices, "-b", 8, "-e", "64K", "-f", 64)
                self.assertEqual((done.returncode, done.stderr), (0, ""))
                self.assertIn("# Out of bounds values : 0 OK\n", done.stdout)
                self.assertNotIn("%", done.stdout)

    def test_each_call_may_be_timed_alone(self):
        done = self.bench("all_reduce", "--ranks", 2, "--device", "cuda:0", "-b", "4K", "-e", "4K", "-z", 1)
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_a_barrier_has_a_stream(self):
        done = self.bench("barrier", "--ranks", 2, "--device", "cuda:0")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertRegex(done.stdout, r"(?m)^ +[\d.]+ +0  fused/gpu$")

    def test_what_is_not_there_is_one_sentence(self):
        for flags, environment, status, sentence in (
                (["--device", "cuda:4"], {}, 1, "--device cuda:4: this host's GPUs are cuda:0 to cuda:3"),
                (["--device", "gpu"], {}, 2, "--device gpu: expected cpu, cuda, or cuda:0"),
                (["--device", "cuda", "--memory", "tutti"], {}, 2, "--memory tutti is memory of the host"),
                (["--device", "cuda"], {"TUTTI_CUDA_DRIVER": "libnone.so"}, 1,
                 "cannot open the CUDA driver: libnone.so"),
                # Streams that cannot wait for words.
                (["--device", "cuda", "--ranks", 1], {"FAKE_CUDA_FAIL": "cuStreamBatchMemOp:0:801"}, 1,
                 "this driver has no stream memory operations, by which streams wait for calls"),
                (["--device", "cuda", "--ranks", 1], {"FAKE_CUDA_LACKS": "cuStreamBatchMemOp"}, 1,
                 "has no cuStreamBatchMemOp of CUDA 11.7; tutti needs a driver for CUDA 12 or newer")):
            with self.subTest(flags):
                done = self.bench("all_reduce", "-e", "1K", *flags, **environment)
                self.assertEqual(done.returncode, status, done.stderr)
                self.assertIn(sentence, done.stderr)
                told = [line for line in done.stderr.splitlines() if not line.startswith("[tutti 0] warning: ")]
                self.assertEqual(len(told), 1, done.stderr)


if __name__ == "__main__":
    unittest.main()
