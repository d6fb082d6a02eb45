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
# On both ends of the first pair of devices; lost packets are sent again after 16 ms, or when the next one comes. Where
# none was lost, the script fails.
LOSSY = """for end in rdv0 rdv1; do tc qdisc add dev $end root netem loss 1%; done; export TUTTI_IB_TIMEOUT=12
trap 'status=$?; tc -s qdisc show dev rdv0 | grep -q "dropped [1-9]" || { echo nothing was lost >&2; status=1; }
exit $status' EXIT
"""

# Ranks meet over TCP, and go on over it, on an interface that stays when that of a device is taken away.
TCP_BESIDE = """ip link add tcp0 type dummy; ip addr add 10.99.0.1/24 dev tcp0; ip link set tcp0 up
            export TUTTI_INTERFACE=tcp0"""

# Makes /tmp/rank, which runs a rank with one device, and with an identity of its own, so that it takes the others for
# ranks of other hosts: `tutti run -n 4 -- unshare -m bash /tmp/rank ...`.
APART = """for rank in {0..3}; do cat /proc/sys/kernel/random/uuid > /tmp/boot$rank; done
cat > /tmp/rank <<'RANK'
mount --bind /tmp/boot$TUTTI_RANK /proc/sys/kernel/random/boot_id
unset TUTTI_HOST_FD
TUTTI_IB_DEVICE=rxe$((TUTTI_RANK % 2)) exec "$@"
RANK
"""


def why_no_guest():
    """None where the guest can run now."""
    checked = subprocess.run([GUEST_RUN, "--check"], capture_output=True, text=True, check=False)
    if checked.returncode == 0:
        return None
    if checked.returncode == 1:
        return "the guest's kernel is not built; the test rdma_guest does it (tests/rdma/guest-run --setup)"
    return checked.stdout.strip()


class GuestTest(job.JobTest):
    @classmethod
    def setUpClass(cls):
        reason = why_no_guest()
        if reason:
            raise unittest.SkipTest(reason)

    def guest(self, script, seconds=120, memory_mib=512, **variables):
        """Runs a bash script in a guest to its end."""
        environment = {**self.environment, **{name: str(value) for name, value in variables.items()}}
        environment["PATH"] = f"{os.path.dirname(harness.TUTTI)}:{environment['PATH']}"
        return subprocess.run([GUEST_RUN, "-m", str(memory_mib), "-t", str(seconds), "bash", "-c", "set -e\n" + script],
                              capture_output=True, text=True, env=environment, stdin=subprocess.DEVNULL,
                              timeout=seconds + 60, check=False)

    def bench(self, collectives, ranks, flags, before="", **guest):
        """Every result of these collectives, all in one guest."""
        calls = "".join(f"echo == {collective}; tutti run -n {ranks} --no-prefix -- "
                        f"tutti bench {collective} --transport verbs {flags if collective != 'barrier' else ''}\n"
                        for collective in collectives)
        # Most of it is starting ranks, in a guest that shares a busy machine.
        done = self.guest(f"{before}\n{calls}", **{"seconds": 600, **guest})
        self.assertEqual((done.returncode, done.stderr), (0, ""), done)
        tables = done.stdout.split("== ")[1:]
        self.assertEqual([table.split("\n")[0] for table in tables], list(collectives))
        for table in tables:
            wrong = re.search(r"# Out of bounds values : (\d+) OK", table)
            self.assertTrue(wrong and wrong.group(1) == "0" and re.search(r"/verbs$", table, re.MULTILINE), table)
        return tables

    def check_counts(self, ranks, before=""):
        """The calls with counts and messages."""
        done = self.guest(f"{before}\ntutti run -n {ranks} --no-prefix -- {job.program('counts_check')} 65537", 600,
                          TUTTI_TRANSPORT="verbs")
        self.assertEqual((done.returncode, done.stderr), (0, ""), done)
        self.assertRegex(done.stdout, rf"^\d\d+ cases on {ranks} ranks: 0 wrong\n$")


class Conformance(GuestTest):
    def test_the_suite_of_every_transport_passes(self):
        done = self.guest(CONFORMANCE, 400)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("All tests passed", done.stdout)


class Collectives(GuestTest):
    def test_are_right_at_all_sizes(self):
        for ranks in (2, 4):
            with self.subTest(ranks=ranks):
                self.bench([*COLLECTIVES, "barrier"], ranks, "-b 4 -e 256K -f 64 -n 1 -w 0")

    def test_are_right_with_counts_and_so_are_messages(self):
        for ranks in (2, 4):
            with self.subTest(ranks=ranks):
                self.check_counts(ranks)

    def test_have_the_bits_of_a_plain_loop(self):
        for ranks in (2, 4):
            with self.subTest(ranks=ranks):
                done = self.guest(f"tutti run -n {ranks} --no-prefix -- {job.program('all_reduce_check')} 257", 300,
                                  TUTTI_TRANSPORT="verbs")
                self.assertEqual((done.returncode, done.stderr), (0, ""), done)
                self.assertRegex(done.stdout, rf"cases on {ranks} ranks: 0 wrong\n$")

    def test_go_over_one_device_as_well(self):
        self.bench(["all_reduce"], 2, "-b 64K -e 64K -n 2 -w 1", "export TUTTI_IB_DEVICE=rxe1")


    def test_go_over_all_devices_that_are_named(self):
        # Each sends far more than what it takes to join and to say what has come.
        packets = "cat /sys/class/infiniband/rxe{0..3}/ports/1/hw_counters/sent_pkts"
        done = self.guest(f"""
            bash /run/guest/add-pair 2
            {packets}
            tutti run -n 2 --no-prefix -- bash -c 'TUTTI_IB_DEVICE=rxe$TUTTI_RANK,rxe$((TUTTI_RANK + 2)) exec tutti \\
              bench all_reduce --transport verbs -b 4M -e 4M -n 5 -w 0' >&2
            {packets}""", 150)
        self.assertEqual(done.returncode, 0, done)
        counts = [int(word) for word in done.stdout.split()]
        self.assertEqual(len(counts), 8, done)
        for device, (before, after) in enumerate(zip(counts[:4], counts[4:])):
            with self.subTest(device=f"rxe{device}"):
                self.assertGreater(after - before, 1000, done)


class Sizes(GuestTest):
    """`tutti bench` as it is without flags: from 8 bytes to 128 MiB."""
    MEMORY_MIB = 3072

    def check(self, before=""):
        with open("/proc/meminfo", encoding="ascii") as file:
            available_kib, = re.findall(r"^MemAvailable: +(\d+) kB", file.read(), re.MULTILINE)
        if int(available_kib) < (self.MEMORY_MIB + 512) * 1024:
            self.skipTest(f"a guest of {self.MEMORY_MIB} MiB does not fit into this machine's free memory")
        table, = self.bench(["all_reduce"], 4, "", before, seconds=1200, memory_mib=self.MEMORY_MIB)
        self.assertRegex(table, r"(?m)^ +8 +2 .*/verbs$")
        self.assertRegex(table, r"(?m)^ +134217728 +33554432 .*/verbs$")

    def test_are_right(self):
        self.check()

    def test_are_right_with_loss(self):
        self.check(LOSSY)


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


    def test_sees_a_device_file_that_may_not_be_opened(self):
        done = self.guest("chmod 600 /dev/infiniband/uverbs0\n"
                          "setpriv --reuid 65534 --regid 65534 --clear-groups tutti doctor || echo status $?")
        self.assertEqual((done.returncode, done.stderr), (0, ""), done)
        self.assertRegex(done.stdout, r"\nproblem  device files: this process may not open /dev/infiniband/uverbs0, "
                                      r"by which rxe0 is reached; (?s:.)*\nstatus 1\n$")


class Faults(GuestTest):
    def test_loss_costs_time_and_no_bit(self):
        for ranks in (2, 4):
            with self.subTest(ranks=ranks):
                self.bench(["all_reduce", "all_to_all", "barrier"], ranks, "-b 4 -e 1M -f 16 -n 2 -w 1", LOSSY)
                self.check_counts(ranks, LOSSY)

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

    def check_both_end(self, lose, **variables):
        """Two ranks without a launcher, which would end one when the other one has failed, all-reduce until `lose` ends
        that; what each says."""
        done = self.guest(f"""
            head -c 32 /dev/urandom > /tmp/secret; chmod 600 /tmp/secret
            export TUTTI_TRANSPORT=verbs TUTTI_SIZE=2 TUTTI_ADDRESS=127.0.0.1:23456 TUTTI_SECRET_FILE=/tmp/secret
            for rank in 0 1; do
              TUTTI_RANK=$rank TUTTI_IB_DEVICE=rxe$rank timeout 60 {job.program('loop_until_error')} 1000000 \\
                > /tmp/out$rank 2> /tmp/err$rank & pid[rank]=$!
            done
            until grep -qs running /tmp/out0 && grep -qs running /tmp/out1; do sleep 0.1; done
            sleep 0.5
            {lose}
            for rank in 0 1; do
              wait ${{pid[rank]}} && status=0 || status=$?
              echo "== status $status"; cat /tmp/err$rank
            done""", 150, **variables)
        self.assertEqual((done.returncode, done.stderr), (0, ""), done)
        ends = done.stdout.split("== ")[1:]
        self.assertEqual(len(ends), 2, done)
        for end in ends:
            self.assertRegex(end, r"^status 3\n.+\n$", done)  # one sentence
        return ends

    def test_a_link_that_goes_down_in_a_call_is_told_on_both_ranks(self):
        ends = self.check_both_end("ip link set rdv0 down", TUTTI_IB_TIMEOUT=12, TUTTI_IB_RETRIES=3,
                                   TUTTI_TIMEOUT_MS=30_000)
        self.assertRegex("".join(ends), r"\(completion status \d+, vendor code \d+\); from rxe[01] port 1")

    def test_where_nothing_crosses_any_more_a_call_ends_on_both_ranks_when_its_time_is_over(self):
        # By itself the device would try for minutes.
        ends = self.check_both_end("tc qdisc add dev rdv0 root netem loss 100%", TUTTI_IB_TIMEOUT=22,
                                   TUTTI_IB_RETRIES=7, TUTTI_TIMEOUT_MS=3000)
        self.assertRegex("".join(ends), r"did not finish within 3000 ms: rank \d waits for rank \d")

    def test_where_one_of_two_devices_fails_under_way_the_job_goes_on_and_no_bit_is_wrong(self):
        check = job.program("all_reduce_check")
        done = self.guest(f"""
            bash /run/guest/add-pair 2
            export TUTTI_TRANSPORT=verbs TUTTI_IB_TIMEOUT=10 TUTTI_IB_RETRIES=2 TUTTI_LOG=debug
            tutti run -n 2 --no-prefix -- bash -c \
              'TUTTI_IB_DEVICE=rxe$TUTTI_RANK,rxe$((TUTTI_RANK + 2)) exec {check} 65537 /tmp/lost' \
              > /tmp/out 2> /tmp/err &
            until [ "$(grep -c 'is connected over verbs' /tmp/err)" -ge 4 ]; do
              kill -0 $! || {{ cat /tmp/err >&2; exit 1; }}; sleep 0.1
            done
            sleep 0.5
            ip link set rdv0 down; touch /tmp/lost
            wait $! || echo "status $?"; cat /tmp/out; cat /tmp/err >&2""", 300)
        self.assertEqual(done.returncode, 0, done)
        self.assertRegex(done.stdout, r"cases on 2 ranks: 0 wrong\n$", done)
        self.assertRegex(done.stderr, r"is reached over one queue pair less: ", done)

    def test_a_lane_is_lost_also_while_the_tcp_connection_is_silent(self):
        # All that goes from an address of the guest to another one goes over lo, but for what rxe sends.
        check = job.program("all_reduce_check")
        done = self.guest(f"""
            bash /run/guest/add-pair 2
            export TUTTI_TRANSPORT=verbs TUTTI_IB_TIMEOUT=10 TUTTI_IB_RETRIES=2 TUTTI_LOG=debug
            tutti run -n 2 --no-prefix -- bash -c \
              'TUTTI_IB_DEVICE=rxe$TUTTI_RANK,rxe$((TUTTI_RANK + 2)) exec stdbuf -oL {check} 65537 /tmp/lost' \
              > /tmp/out 2> /tmp/err & job=$!
            until [ "$(grep -c 'is connected over verbs' /tmp/err)" -ge 4 ]; do
              kill -0 $job || {{ cat /tmp/err >&2; exit 1; }}; sleep 0.1
            done
            sleep 0.5
            tc qdisc add dev lo root netem loss 100%
            ip link set rdv0 down; touch /tmp/lost
            for i in {{1..80}}; do grep -q 'case' /tmp/out && break; sleep 0.1; done
            grep -q 'case' /tmp/out && echo done in silence
            tc qdisc del dev lo root
            wait $job || echo "status $?"; cat /tmp/out; cat /tmp/err >&2""", 300)
        self.assertRegex(done.stdout, r"^done in silence\n", done)
        self.assertRegex(done.stdout, r"cases on 2 ranks: 0 wrong\n$", done)
        self.assertRegex(done.stderr, r"is reached over one queue pair less: ", done)

    def check_while(self, lose, ranks, seconds=300):
        """Ranks on hosts of their own that check all-reduces while `lose` takes RDMA away from them."""
        done = self.guest(f"""
            {APART}
            {TCP_BESIDE}
            export TUTTI_IB_TIMEOUT=10 TUTTI_IB_RETRIES=2 TUTTI_LOG=debug
            tutti run -n {ranks} --no-prefix -- unshare -m bash /tmp/rank {job.program("all_reduce_check")} 65537 \
              /tmp/lost > /tmp/out 2> /tmp/err & job=$!
            until [ "$(grep -c 'debug: connected to rank .* over verbs' /tmp/err)" -ge {ranks} ]; do
              kill -0 $job; sleep 0.1
            done
            sleep 0.5
            {lose}
            touch /tmp/lost
            wait $job || echo "status $?"; cat /tmp/out; cat /tmp/err >&2""", seconds)
        self.assertEqual(done.returncode, 0, done)
        self.assertRegex(done.stdout, rf"cases on {ranks} ranks: 0 wrong\n$", done)
        return done

    def test_where_the_only_device_fails_under_way_the_job_goes_on_over_tcp_and_no_bit_is_wrong(self):
        for ranks in (2, 4):
            with self.subTest(ranks=ranks):
                done = self.check_while("ip link set rdv0 down", ranks)
                told = re.findall(r"warning: rank \d is reached over tcp from now on, since no queue pair is left: "
                                  r".*from rxe[01] port 1", done.stderr)
                self.assertGreaterEqual(len(told), 2, done)

    def test_the_bench_says_what_carried_its_data(self):
        done = self.guest(f"""
            {APART}
            {TCP_BESIDE}
            export TUTTI_IB_TIMEOUT=10 TUTTI_IB_RETRIES=2
            tutti run -n 2 --no-prefix -- unshare -m bash /tmp/rank stdbuf -oL tutti bench all_reduce \\
              -b 64K -e 1M -i 1K -n 1 -w 0 --placement in > /tmp/out & job=$!
            until [ "$(grep -c /verbs /tmp/out)" -ge 3 ]; do kill -0 $job; sleep 0.1; done
            ip link set rdv0 down
            wait $job || echo "status $?"; cat /tmp/out""", 300)
        self.assertEqual(done.returncode, 0, done)
        carried = re.findall(r"(?m)^ +\d+ .*/(\w+)$", done.stdout)
        self.assertEqual(sorted(set(carried)), ["tcp", "verbs"], done)
        self.assertEqual(carried, sorted(carried, reverse=True), done)  # it stays so
        self.assertIn("# Out of bounds values : 0 OK", done.stdout)

    def test_a_device_that_is_deleted_under_way_is_left_for_tcp(self):
        # The kernel waits with it until nobody has the device open, but takes the interface down first.
        down = 'until [ "$(cat /sys/class/net/rdv0/operstate 2>&1)" != up ]; do sleep 0.1; done'
        done = self.check_while(f"timeout 100 ip link delete rdv0 & {down}", 2)
        self.assertIn("is reached over tcp from now on", done.stderr, done)

    def test_a_device_whose_deletion_waits_for_the_job_goes_on_with_it(self):
        self.check_while("timeout 100 rdma link delete rxe0 &", 2)

    def test_a_path_on_which_nothing_crosses_is_left_for_another_one_at_the_start(self):
        # What goes from a device to itself crosses no veth.
        done = self.guest("tc qdisc add dev rdv0 root netem loss 100%; export TUTTI_IB_TIMEOUT=10 TUTTI_IB_RETRIES=2\n"
                          "tutti run -n 2 --no-prefix -- tutti bench all_reduce --transport verbs -b 8 -e 8", 150)
        self.assertEqual(done.returncode, 0, done)
        self.assertRegex(done.stderr, r"rank 1 is not reached over rxe0 port 1, so other ports or addresses are tried")
        self.assertRegex(done.stdout, r"/verbs\n(?s:.)*# Out of bounds values : 0 OK")

    def test_the_transport_is_told_of_pairs_that_are_connected_not_of_those_that_might_be(self):
        # In a ring all packets would cross the pair of interfaces; ranks 0 and 2 could use RDMA, but need not.
        done = self.guest(f"""{APART}
            tc qdisc add dev rdv0 root netem loss 100%; export TUTTI_IB_TIMEOUT=10 TUTTI_IB_RETRIES=2
            tutti run -n 4 --no-prefix -- unshare -m bash /tmp/rank \
              tutti bench all_reduce --algorithm ring -b 8 -e 8 -n 1 -w 0""", 150)
        self.assertEqual(done.returncode, 0, done)
        self.assertRegex(done.stdout, r"ring\S*/tcp\n(?s:.)*# Out of bounds values : 0 OK")

    def test_a_wrong_device_is_an_error_that_names_those_there_are(self):
        done = self.guest("TUTTI_IB_DEVICE=mlx5_0 tutti run -n 2 --no-prefix -- "
                          "tutti bench all_reduce --transport verbs -b 8 -e 8", 150)
        self.assertNotEqual(done.returncode, 0, done)
        self.assertIn("rxe0:1 (up), rxe1:1 (up)", done.stderr)


if __name__ == "__main__":
    job.main()
