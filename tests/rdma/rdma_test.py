"""tutti over real RDMA: soft-RoCE devices of a small guest (tests/rdma/guest-run), with loss and a link that goes down.

The guest has one processor and slow system calls, so what runs in it is small. Rank r of a job uses the device rxe(r
modulo 2), so that what ranks exchange crosses the pair of interfaces between the two.
"""

import os
import re
import subprocess
import sys
import unittest

import harness
import job

CONFORMANCE = os.path.abspath(sys.argv.pop(1)) if len(sys.argv) > 1 else "test_rdma_conformance"
GUEST_RUN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "guest-run")
COLLECTIVES = ("all_reduce", "reduce", "reduce_scatter", "broadcast", "all_gather", "gather", "scatter", "all_to_all")


def why_no_guest():
    """None where the guest can run now."""
    checked = subprocess.run([GUEST_RUN, "--check"], capture_output=True, text=True, check=False)
    if checked.returncode == 0:
        return None
    if checked.returncode == 1:
        return f"the guest's kernel is not built; {GUEST_RUN} --setup does it in some minutes"
    return checked.stdout.strip()


class GuestTest(job.JobTest):
    @classmethod
    def setUpClass(cls):
        reason = why_no_guest()
        if reason:
            raise unittest.SkipTest(reason)

    def guest(self, script, seconds=120, **variables):
        """Runs a bash script in the guest to its end."""
        environment = {**self.environment, **{name: str(value) for name, value in variables.items()}}
        environment["PATH"] = f"{os.path.dirname(harness.TUTTI)}:{environment['PATH']}"
        return subprocess.run([GUEST_RUN, "-t", str(seconds), "bash", "-c", "set -e\n" + script], capture_output=True,
                              text=True, env=environment, stdin=subprocess.DEVNULL, timeout=seconds + 60, check=False)

    def bench(self, collectives, ranks, sizes, before=""):
        """Every result of these collectives, all in one guest."""
        calls = "".join(f"echo == {collective}; tutti run -n {ranks} --no-prefix -- "
                        f"tutti bench {collective} --transport verbs {sizes}\n" for collective in collectives)
        # Most of it is starting ranks, in a guest that shares a busy machine.
        done = self.guest(f"{before}\n{calls}", 600)
        self.assertEqual((done.returncode, done.stderr), (0, ""), done)
        tables = done.stdout.split("== ")[1:]
        self.assertEqual([table.split("\n")[0] for table in tables], list(collectives))
        for table in tables:
            wrong = re.search(r"# Out of bounds values : (\d+) OK", table)
            self.assertTrue(wrong and wrong.group(1) == "0" and re.search(r"/verbs$", table, re.MULTILINE), table)


class Conformance(GuestTest):
    def test_the_suite_of_every_transport_passes(self):
        done = self.guest(CONFORMANCE, 400)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("All tests passed", done.stdout)


class Collectives(GuestTest):
    def test_are_right_at_all_sizes(self):
        for ranks in (2, 4):
            with self.subTest(ranks=ranks):
                self.bench(COLLECTIVES, ranks, "-b 4 -e 256K -f 64 -n 1 -w 0")

    def test_have_the_bits_of_a_plain_loop(self):
        done = self.guest(f"tutti run -n 4 --no-prefix -- {job.program('all_reduce_check')} 257", 300,
                          TUTTI_TRANSPORT="verbs")
        self.assertEqual((done.returncode, done.stderr), (0, ""), done)
        self.assertRegex(done.stdout, r"cases on 4 ranks: 0 wrong\n$")

    def test_go_over_one_device_as_well(self):
        self.bench(["all_reduce"], 2, "-b 64K -e 64K -n 2 -w 1", "export TUTTI_IB_DEVICE=rxe1")


class Doctor(GuestTest):
    def test_finds_nothing_in_the_guest_until_something_is_broken(self):
        done = self.guest("tutti doctor; ip link set rdv0 mtu 1500; tutti doctor || echo status $?")
        self.assertEqual((done.returncode, done.stderr), (0, ""), done)
        self.assertRegex(done.stdout, r"^\S*: nothing stands in the way\n")
        self.assertRegex(done.stdout, r"\nproblem  MTU: rdv0 has MTU 1500 and rdv1 has 4200: (?s:.)*\nstatus 1\n$")

    def test_sees_a_port_that_is_down(self):
        done = self.guest("ip link set rdv0 down; tutti doctor --json || echo status $?")
        self.assertEqual((done.returncode, done.stderr), (0, ""), done)
        self.assertRegex(done.stdout, r'"topic": "ports",\s+"fact": "rxe0 port 1 is not up(?s:.)*\nstatus 1\n$')


class Faults(GuestTest):
    def test_loss_costs_time_and_no_bit(self):
        lossy = "for end in rdv0 rdv1; do tc qdisc add dev $end root netem loss 1%; done; export TUTTI_IB_TIMEOUT=12"
        self.bench(["all_reduce", "all_to_all"], 2, "-b 4 -e 1M -f 16 -n 2 -w 1", lossy)

    def test_a_link_that_goes_down_ends_the_call_with_one_error(self):
        done = self.guest(f"""
            export TUTTI_TRANSPORT=verbs TUTTI_IB_TIMEOUT=12 TUTTI_IB_RETRIES=3
            tutti run -n 2 -- {job.program('loop_until_error')} 65536 > /tmp/out 2> /tmp/err &
            until grep -qs running /tmp/out; do sleep 0.1; done
            ip link set rdv0 down
            wait $! && echo survived; cat /tmp/out; cat /tmp/err >&2""", 150)
        self.assertNotIn("survived", done.stdout, done)
        # Whether the device notices by itself or by the silence of the other end is its own affair.
        self.assertRegex(done.stderr, r"link down\? \(completion status 2,|\(completion status 12,", done)
        self.assertRegex(done.stderr, r"rxe[01] port 1, queue pair \d+ \(RoCE v2 over IPv4 ::ffff:10\.77\.[01]\.1\)")

    def test_where_one_of_two_devices_fails_under_way_the_job_goes_on_and_no_bit_is_wrong(self):
        check = job.program("all_reduce_check")
        done = self.guest(f"""
            bash /run/guest/add-pair 2
            export TUTTI_TRANSPORT=verbs TUTTI_IB_TIMEOUT=10 TUTTI_IB_RETRIES=2 TUTTI_LOG=debug
            tutti run -n 2 --no-prefix -- bash -c \
              'TUTTI_IB_DEVICE=rxe$TUTTI_RANK,rxe$((TUTTI_RANK + 2)) exec {check} 65537' > /tmp/out 2> /tmp/err &
            until [ "$(grep -c 'is connected over verbs' /tmp/err)" -ge 4 ]; do sleep 0.1; done
            sleep 0.5
            ip link set rdv0 down
            wait $! || echo "status $?"; cat /tmp/out; cat /tmp/err >&2""", 300)
        self.assertEqual(done.returncode, 0, done)
        self.assertRegex(done.stdout, r"cases on 2 ranks: 0 wrong\n$", done)
        self.assertRegex(done.stderr, r"is reached over one queue pair less: ", done)

    def test_a_path_on_which_nothing_crosses_is_left_for_another_one_at_the_start(self):
        # What goes from a device to itself crosses no veth.
        done = self.guest("tc qdisc add dev rdv0 root netem loss 100%; export TUTTI_IB_TIMEOUT=10 TUTTI_IB_RETRIES=2\n"
                          "tutti run -n 2 --no-prefix -- tutti bench all_reduce --transport verbs -b 8 -e 8", 150)
        self.assertEqual(done.returncode, 0, done)
        self.assertRegex(done.stderr, r"rank 1 is not reached over rxe0 port 1, so other ports or addresses are tried")
        self.assertRegex(done.stdout, r"/verbs\n(?s:.)*# Out of bounds values : 0 OK")

    def test_a_wrong_device_is_an_error_that_names_those_there_are(self):
        done = self.guest("TUTTI_IB_DEVICE=mlx5_0 tutti run -n 2 --no-prefix -- "
                          "tutti bench all_reduce --transport verbs -b 8 -e 8", 150)
        self.assertNotEqual(done.returncode, 0, done)
        self.assertIn("rxe0:1 (up), rxe1:1 (up)", done.stderr)


if __name__ == "__main__":
    job.main()
