"""Ranks in different namespaces. Two network namespaces joined by a veth pair are two hosts, as far as sockets and
their addresses can tell; those of processes, mounts and users are what containers of one host have of their own."""

import json
import os
import shutil
import subprocess

import harness
import job

BENCH = (harness.TUTTI, "bench", "all_reduce", "-b", "8", "-e", "512K", "-f", "16", "-n", "3", "-w", "1")


def ip(*arguments):
    return subprocess.run(["ip", *arguments], capture_output=True, text=True, stdin=subprocess.DEVNULL,
                          timeout=harness.LIMIT_S)


class TwoHosts(job.JobTest):
    def setUp(self):
        super().setUp()
        if not shutil.which("ip"):
            self.skipTest("ip (iproute2) is not installed")
        self.hosts = [f"tutti-{os.getpid()}-{side}" for side in "ab"]
        for host in self.hosts:
            made = ip("netns", "add", host)
            if made.returncode != 0:
                self.skipTest(f"no privilege to make network namespaces: {made.stderr.strip()}")
            self.addCleanup(ip, "netns", "del", host)
        self.configure("link", "add", "tutti0", "netns", self.hosts[0], "type", "veth",
                       "peer", "name", "tutti0", "netns", self.hosts[1])
        for number, host in enumerate(self.hosts, 1):
            # The first address is one that the other side does not reach.
            self.configure("-n", host, "addr", "add", f"10.79.0.{number}/32", "dev", "tutti0")
            self.configure("-n", host, "addr", "add", f"10.77.0.{number}/24", "dev", "tutti0")
            self.configure("-n", host, "addr", "add", f"fd77::{number}/64", "dev", "tutti0", "nodad")
            self.configure("-n", host, "link", "set", "lo", "up")
            self.configure("-n", host, "link", "set", "tutti0", "up")
        for host in self.hosts:  # the kernel may take a second to call it up
            self.eventually(lambda: '"operstate":"UP"' in ip("-json", "-n", host, "link", "show", "tutti0").stdout,
                            "tutti0 is up")

    def configure(self, *arguments):
        done = ip(*arguments)
        if done.returncode != 0:
            self.skipTest(f"ip {' '.join(arguments)}: {done.stderr.strip()}")

    def run_ranks(self, command, address="10.77.0.1:29500", **variables):
        """Two ranks on each side; returns how each ended."""
        shared = self.by_hand(4, address=address, **variables)
        started = [self.rank(command, {**shared, "TUTTI_RANK": str(rank)},
                             before=("ip", "netns", "exec", self.hosts[rank // 2]))
                   for rank in range(4)]
        return [self.ended(process) for process in started]

    def check_bench(self, *flags, **variables):
        done = self.run_ranks([*BENCH, *flags], **variables)
        self.assertEqual([(end.status, end.err) for end in done], [(0, "")] * 4)
        return self.check_table(done[0].out, 5)

    def test_all_reduce(self):
        self.check_bench()

    def test_all_reduce_by_every_algorithm(self):
        for algorithm in ("direct_one_shot", "direct_two_shot", "double_binary_tree", "recursive_doubling", "ring"):
            with self.subTest(algorithm=algorithm):
                paths = self.check_bench("--algorithm", algorithm)
                self.assertTrue(all(path.startswith(algorithm + "/") for path in paths), paths)

    def test_all_reduce_over_tcp_alone(self):
        for path in self.check_bench("--transport", "tcp"):
            self.assertTrue(path.endswith("/tcp"), path)

    def test_all_reduce_through_ipv6(self):
        self.check_bench(address="[fd77::1]:29500")

    def test_all_reduce_through_the_interface_that_is_asked_for(self):
        self.check_bench(TUTTI_INTERFACE="tutti0")

    def test_an_interface_that_is_not_there_is_one_sentence(self):
        for end in self.run_ranks(BENCH, TUTTI_INTERFACE="tutti7", TUTTI_BOOTSTRAP_TIMEOUT_MS="3000"):
            self.assertNotEqual(end.status, 0)
            self.check_sentence(end.err, r'TUTTI_INTERFACE is "tutti7", but this host has only .*tutti0')

    def test_the_topology_has_tcp_between_them_and_shared_memory_within(self):
        done = self.run_ranks([harness.TUTTI, "topo", "--json"])
        self.assertEqual([(end.status, end.err) for end in done], [(0, "")] * 4)
        topology = json.loads(done[0].out)
        self.assertEqual({link["kind"]: link["pairs"] for link in topology["links"]}, {"shm": 2, "tcp": 4})
        self.assertEqual([rank["host"] for rank in topology["ranks"]], [0, 0, 1, 1])


class Containers(job.JobTest):
    """Rank 0 on the host, each other rank in namespaces of its own; all in one network namespace."""
    RANKS = 3
    PROCESSES = ("--pid", "--fork", "--kill-child")
    MOUNTS = ("--mount",)
    USERS = ("--user", "--map-root-user")
    # Nothing is left of the host's shared memory, and nothing can be put there.
    EMPTY_SHM = ("sh", "-c", 'mount -t tmpfs -o size=4k,ro none /dev/shm && exec "$@"', "sh")

    def inside(self, *flags, then=()):
        if not shutil.which("unshare"):
            self.skipTest("unshare (util-linux) is not installed")
        before = ("unshare", *flags, *then)
        tried = self.run_command([*before, "true"])
        if tried.status != 0:
            self.skipTest(f"no privilege for {' '.join(before[:2])}: {tried.err.strip()}")
        return before

    def run_ranks(self, command, before, **variables):
        """Returns what rank 0 has written."""
        shared = self.by_hand(self.RANKS, **variables)
        started = [self.rank(command, {**shared, "TUTTI_RANK": str(rank)}, before=before if rank > 0 else ())
                   for rank in range(self.RANKS)]
        done = [self.ended(process) for process in started]
        self.assertEqual([(end.status, end.err) for end in done], [(0, "")] * self.RANKS)
        return done[0].out

    def links(self, before):
        topology = json.loads(self.run_ranks([harness.TUTTI, "topo", "--json"], before))
        return [(link["kind"], link["pairs"], link["pull"]) for link in topology["links"]]

    def check(self, before, pull):
        self.assertEqual(self.links(before), [("shm", 3, pull)])
        for transport, memory in (("shm", "malloc"), ("shm", "tutti"), ("tcp", "malloc")):
            with self.subTest(transport=transport, memory=memory):
                out = self.run_ranks([*BENCH, "--memory", memory], before, TUTTI_TRANSPORT=transport)
                for path in self.check_table(out, 5):
                    self.assertTrue(path.endswith(f"/{transport}"), path)

    def test_of_processes_share_memory_but_do_not_read_each_others(self):
        self.check(self.inside(*self.PROCESSES), pull=False)

    def test_of_users_share_memory_but_do_not_read_each_others(self):
        self.check(self.inside(*self.USERS), pull=False)

    def test_of_mounts_with_an_empty_dev_shm_are_as_if_there_were_none(self):
        (_, _, pull), = self.links(before=())
        self.check(self.inside(*self.MOUNTS, then=self.EMPTY_SHM), pull)

    def test_of_all_three_share_memory(self):
        flags = (*self.PROCESSES, *self.MOUNTS, *self.USERS, "--mount-proc")
        self.check(self.inside(*flags, then=self.EMPTY_SHM), pull=False)


if __name__ == "__main__":
    job.main()
