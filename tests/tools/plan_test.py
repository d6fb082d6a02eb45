"""`tutti plan`: what it says of a call, and that it says what is wrong."""

import json
import os
import tempfile

import harness
from harness import ToolTest

NCCL_HOSTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "topology", "nccl")


class Plan(ToolTest):
    def plan(self, *arguments):
        return self.tutti("plan", "all_reduce", *arguments)

    def test_of_one_rank_is_a_copy_as_in_the_benchmark(self):
        for arguments in ((), ("-n", 1, "--explain", "--steps"), ("-n", 1, "--algorithm", "ring")):
            done = self.plan(*arguments)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertEqual(done.stdout, "all_reduce of 1 MiB (262144 float32), sum, 1 rank on 1 host\n"
                                          "  choice     copy: one rank has nobody to exchange with; --ranks N plans "
                                          "for more\n")
        choice = json.loads(self.plan("--json", "--steps").stdout)
        self.assertEqual((choice["algorithm"], choice["candidates"], choice["plan"]), ("copy", [], None))

    def test_says_which_rate_it_predicts(self):
        self.assertRegex(self.plan("-n", 4).stdout, r"\n  predicted  [\d.]+ us, algbw [\d.]+ GB/s\n")

    def test_as_json_holds_a_plan_file(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "plan.json")
            with open(path, "w", encoding="utf-8") as file:
                json.dump(json.loads(self.plan("-n", 3, "--json", "--steps").stdout)["plan"], file)
            done = self.plan("--validate", path)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn(" is a valid plan: all_reduce by ", done.stdout)
        self.assertNotIn("parts", json.loads(self.plan("-n", 3, "--json").stdout)["plan"])

    def test_rounds_down_to_whole_elements_as_the_benchmark_does_and_says_so(self):
        done = self.plan("-n", 2, "-b", 7)
        self.assertEqual(done.returncode, 0)
        self.assertEqual(done.stderr, "tutti plan: 7 bytes are no whole number of float32; planning for 4 bytes\n")
        self.assertIn("all_reduce of 4 B (1 float32)", done.stdout)
        done = self.plan("-n", 2, "-b", 7, "-d", "int8")
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_of_hosts_with_gpus_as_nccl_describes_them(self):
        dump = os.path.join(NCCL_HOSTS, "eight-gpus-nvswitch.xml")
        done = self.plan("-b", "1G", "--topology", dump, "--hosts", 4)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertTrue(done.stdout.startswith("all_reduce of 1 GiB (268435456 float32), sum, 32 ranks on 4 hosts\n"))
        for piece in ("  link       nvswitch: 424 GB/s (spec)", "  link       rdma: 47 GB/s (spec)", "  assumed    "):
            self.assertIn(piece, done.stdout)
        self.assertNotIn("assumed", self.plan("--topology", dump, "--device", "cpu", "-n", 8).stdout)
        self.assertEqual(json.loads(self.plan("--topology", dump, "-n", 4, "--json").stdout)["nranks"], 4)
        # As communicators do them whose ranks each have a GPU of one host.
        alone = self.plan("-b", "64M", "--topology", dump).stdout
        self.assertIn("  shape      32 channels, 8 chunks, slices of at most 64 KiB", alone)
        self.assertNotIn("stages", alone)
        # The same by way of a topology.
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "cluster.json")
            with open(path, "w", encoding="utf-8") as file:
                file.write(self.tutti("topo", "--topology", dump, "--hosts", 4, "--json").stdout)
            self.assertEqual(self.plan("-b", "1G", "--topology", path).stdout, done.stdout)
            refused = self.plan("-b", "1G", "--topology", path, "--hosts", 2)
            self.assertEqual(refused.returncode, 1)
            self.assertIn("it says itself which hosts there are and where their ranks sit", refused.stderr)

    def test_of_ranks_that_cannot_be_placed_says_why(self):
        dump = os.path.join(NCCL_HOSTS, "four-gpus-nvlink.xml")
        for arguments, reason in ((("--topology", dump, "--hosts", 3, "-n", 8), "8 ranks cannot be spread evenly"),
                                  (("--topology", os.devnull, "--device", "cuda"), "/dev/null: ")):
            with self.subTest(arguments=arguments):
                done = self.plan(*arguments)
                self.assertEqual((done.returncode, done.stdout), (1, ""))
                self.assertIn(reason, done.stderr)

    def test_of_a_file_that_is_not_right_says_what_to_do(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "file.json")
            for flag, text, reason, document in (("--topology", "{", "line 1: ", "docs/topology.md"),
                                                 ("--topology", "<system/>", "line 1: <system> ", "topology.md"),
                                                 ("--topology", '{"format": "tutti.plan"}', "line 1: ", "topology.md"),
                                                 ("--validate", "nonsense", "no valid plan: line 1: ", "docs/plans.md"),
                                                 ("--validate", "[]", "no valid plan: line 1: ", "docs/plans.md")):
                with self.subTest(flag=flag, text=text):
                    with open(path, "w", encoding="utf-8") as file:
                        file.write(text)
                    done = self.plan("-n", 2, flag, path)
                    self.assertEqual((done.returncode, done.stdout), (1, ""))
                    self.assertRegex(done.stderr, rf"^tutti plan: {path}.*{reason}.*; correct the file, .*{document} "
                                                  r"has its format\n$")

    def test_of_a_collective_that_is_not_there_says_which_there_are(self):
        for word, sentence in (("all_redcue", "did you mean all_reduce?"), ("allgather", "did you mean all_gather?"),
                               ("sort", "there are all_reduce, reduce, broadcast, all_gather, reduce_scatter, "
                                        "all_to_all, gather, scatter, barrier, all_gather_v, reduce_scatter_v, "
                                        "all_to_all_v, gather_v, scatter_v")):
            done = self.tutti("plan", word)
            self.assertEqual((done.returncode, done.stdout), (2, ""))
            self.assertEqual(done.stderr, f'tutti plan: there is no collective "{word}"; {sentence}\n')

    def test_of_every_collective_says_what_it_has(self):
        size = "of 1 MiB (262144 float32)"
        for name, what in (("all_reduce", f" {size}, sum"), ("reduce", f" {size}, sum, root 2"),
                           ("broadcast", f" {size}, root 2"), ("all_gather", f" {size}"),
                           ("reduce_scatter_v", f" {size}, sum"), ("all_to_all", f" {size}"),
                           ("gather_v", f" {size}, root 2"), ("scatter", f" {size}, root 2"), ("barrier", "")):
            with self.subTest(collective=name):
                root = ("--root", 2) if "root" in what else ()
                done = self.tutti("plan", name, "-n", 4, "-b", "1M", *root)
                self.assertEqual((done.returncode, done.stderr), (0, ""))
                self.assertTrue(done.stdout.startswith(f"{name}{what}, 4 ranks on 1 host\n"), done.stdout)
                self.assertEqual("algbw" in done.stdout, name != "barrier")
                explained = self.tutti("plan", name, "-n", 4, "-b", "1M", *root, "--explain")
                self.assertEqual((explained.returncode, explained.stderr), (0, ""))
                self.assertIn("\nCandidates, with the time predicted for ", explained.stdout)
                request = json.loads(self.tutti("plan", name, "-n", 4, *root, "--json").stdout)["request"]
                self.assertEqual((request["op"], request["root"]), ("sum" if "sum" in what else None,
                                                                    2 if root else None))

    def test_divides_the_size_among_the_ranks_of_the_topology(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "topology.json")
            with open(path, "w", encoding="utf-8") as file:
                file.write(self.tutti("topo", "--ranks", 3, "--json").stdout)
            for flags in (("-n", 3), ("--topology", path)):
                done = self.tutti("plan", "all_gather", *flags, "-b", 100)
                self.assertEqual((done.returncode, done.stderr),
                                 (0, "tutti plan: 100 bytes are no whole number of float32 in each of 3 blocks; "
                                     "planning for 96 bytes\n"))
                self.assertTrue(done.stdout.startswith("all_gather of 96 B (24 float32), 3 ranks"), done.stdout)
        done = self.tutti("plan", "gather", "-n", 8, "-b", 8)
        self.assertIn("planning for 32 bytes", done.stderr)  # an element each

    def test_refuses_what_the_collective_does_not_have(self):
        for arguments, sentence in ((("broadcast", "--op", "sum"), "broadcast combines nothing; leave --op out"),
                                    (("all_to_all", "--root", 1), "all_to_all has no root; leave --root out")):
            done = self.tutti("plan", *arguments)
            self.assertEqual((done.returncode, done.stdout, done.stderr), (2, "", f"tutti plan: {sentence}\n"))
        self.assertIn("root 4 is no rank; ranks are 0 to 3", self.tutti("plan", "reduce", "-n", 4, "--root", 4).stderr)


if __name__ == "__main__":
    harness.main()
