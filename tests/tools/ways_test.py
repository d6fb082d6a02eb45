"""`benchmarks/network --ways`: the real program for small sizes over the loopback interface, and its table with a
program that only says what it would have measured. Nothing here depends on how fast anything is."""

import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import harness

NETWORK = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "benchmarks", "network")
STREAM_WAYS = os.environ["PEER_STREAM_WAYS"]
WAYS = ["plain", "spin", "reno", "streams-2", "streams-4", "threads-2", "threads-4", "zerocopy", "uring", "uring-zc",
        "uring-zc-fixed"]
LACKING = 69
HELLO_BYTES = 8 + 128  # what each connection begins with (benchmarks/peers/stream_meeting.c)
# Says that each message took as many microseconds as its bytes, of spin twice as many.
PROGRAM = """#!/bin/sh
case "$1 $2" in
  list*) echo plain one; echo spin another; echo uring a third; exit 0 ;;
  *uring*) echo "stream_ways: uring: the kernel refuses io_uring here" >&2; exit 69 ;;
  *spin*) factor=2; wrong={wrong}; lent=4; status={status} ;;
  *) factor=1; wrong=0; lent=0; status=0 ;;
esac
shift 4  # local, the way, the direction, the seconds
for size; do echo $size 10 $((size * factor)).5 0.25 $wrong $lent 1; done
exit $status
"""


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def ways(*arguments):
    return subprocess.run([STREAM_WAYS, *map(str, arguments)], capture_output=True, text=True, check=False,
                          stdin=subprocess.DEVNULL, timeout=harness.LIMIT_S)


class Program(unittest.TestCase):
    def start(self, *arguments):
        process = subprocess.Popen([STREAM_WAYS, *map(str, arguments)], text=True, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for cleanup in (process.stdout.close, process.stderr.close, process.wait, process.kill):
            self.addCleanup(cleanup)
        return process

    def check_sentence(self, text, expected):
        self.assertRegex(text, f"^stream_ways: .*{expected}.*\n$")

    def test_lists_the_ways(self):
        done = ways("list")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual([line.split()[0] for line in done.stdout.splitlines()], WAYS)

    def test_brings_every_word_of_every_message(self):
        sizes = [16, 17, 1000, 2000003, 3000001]
        for name in WAYS:
            for direction in ("one-way", "both-ways"):
                with self.subTest(way=name, direction=direction):
                    done = ways("local", name, direction, 0.001, *sizes)
                    if done.returncode == LACKING and (name.startswith("uring") or name == "zerocopy"):
                        self.check_sentence(done.stderr, f"{name}: ")
                        self.skipTest(done.stderr.strip())
                    self.assertEqual((done.returncode, done.stderr), (0, ""))
                    rows = [line.split() for line in done.stdout.splitlines()]
                    self.assertEqual([int(row[0]) for row in rows], sizes)
                    for size, messages, *_, wrong, lent, _ in rows:
                        self.assertEqual((int(wrong), int(messages) > 0), (0, True))
                        lends = int(size) >= 1024 and (name == "zerocopy" or "-zc" in name)
                        self.assertEqual(int(lent) > 0, lends)

    def test_counts_what_was_changed_on_the_way(self):
        port, words = free_port(), ("plain", "one-way", "0.001", "4096")
        with socket.create_server(("127.0.0.1", 0)) as between:
            listens = self.start("listen", "127.0.0.1", port, *words)
            connects = self.start("connect", "127.0.0.1", between.getsockname()[1], *words)
            for index in range(2):  # control, and the stream
                near, far = between.accept()[0], self.connected(port)
                change_at = HELLO_BYTES + 1000 if index == 1 else None
                self.forward(near, far, change_at)
                self.forward(far, near, None)
            out, complaint = listens.communicate(timeout=harness.LIMIT_S)
            self.assertEqual((connects.wait(harness.LIMIT_S), listens.returncode, complaint), (0, 0, ""))
        self.assertEqual(out.split()[4], "1")

    def connected(self, port):
        end = time.monotonic() + harness.LIMIT_S
        while True:
            try:
                return socket.create_connection(("127.0.0.1", port))
            except ConnectionRefusedError:
                self.assertLess(time.monotonic(), end)
                time.sleep(0.01)

    def forward(self, source, target, change_at):
        """In the background: all bytes, of which one is another."""
        def work():
            place = 0
            while data := bytearray(source.recv(65536)):
                if change_at is not None and place <= change_at < place + len(data):
                    data[change_at - place] ^= 1
                place += len(data)
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)
        thread = threading.Thread(target=work, daemon=True)
        self.addCleanup(source.close)
        self.addCleanup(thread.join, harness.LIMIT_S)
        thread.start()

    def test_says_when_the_sides_differ(self):
        port = free_port()
        listens = self.start("listen", "127.0.0.1", port, "plain", "one-way", "0.001", "64")
        connects = self.start("connect", "127.0.0.1", port, "spin", "one-way", "0.001", "64")
        self.check_sentence(listens.communicate(timeout=harness.LIMIT_S)[1], "was started for another measurement")
        self.check_sentence(connects.communicate(timeout=harness.LIMIT_S)[1], "the other side has gone")

    def test_says_who_has_connected(self):
        port = free_port()
        listens = self.start("listen", "127.0.0.1", port, "plain", "one-way", "0.001", "64")
        with self.connected(port) as stranger:
            stranger.sendall(b"GET / HTTP/1.1\r\n" + bytes(HELLO_BYTES))
            self.check_sentence(listens.communicate(timeout=harness.LIMIT_S)[1], "is not this program")

    def test_refuses_wrong_usage_in_one_sentence(self):
        for arguments in ((), ("local", "plain", "one-way", "1"), ("local", "plain", "sideways", "1", "64"),
                          ("local", "plain", "one-way", "nan", "64"), ("local", "plain", "one-way", "1", "15")):
            done = ways(*arguments)
            self.assertEqual((done.returncode, done.stdout), (2, ""))
            self.assertRegex(done.stderr, "^usage: stream_ways .*\n$")
        done = ways("local", "carrier-pigeon", "one-way", "1", "64")
        self.assertEqual(done.returncode, 2)
        self.check_sentence(done.stderr, "no way 'carrier-pigeon'")


class Table(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.build = folder.name
        self.program = os.path.join(self.build, "benchmarks", "peers", "peer_stream_ways")
        os.makedirs(os.path.dirname(self.program))

    def write_program(self, wrong=0, status=0):
        with open(self.program, "w", encoding="ascii") as file:
            file.write(PROGRAM.format(wrong=wrong, status=status))
        os.chmod(self.program, 0o755)

    def network(self, *arguments):
        """What it prints, and its figures."""
        figures = os.path.join(self.build, "figures.json")
        command = [sys.executable, NETWORK, "--no-build", "--build", self.build, "--json", figures, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL,
                              timeout=harness.LIMIT_S)
        if not os.path.exists(figures):
            return done, None
        with open(figures, encoding="utf-8") as file:
            return done, json.load(file)

    def ways(self, *arguments):
        return self.network("--ways", "--loopback", "--sizes", "16,4K", "--rounds", "2", "--seconds", "0.001",
                            *arguments)

    def test_sets_each_way_beside_the_plain_one(self):
        self.write_program()
        done, figures = self.ways()
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertRegex(done.stdout, r"(?m)^plain +16\.5 +±0% +1\.00 +4096\.5 +±0% +1\.00$")
        self.assertRegex(done.stdout, r"(?m)^spin +32\.5 +±0% +1\.97 +8192\.5 +±0% +2\.00$")
        self.assertRegex(done.stdout, r"(?m)^spin +0\.250 +±0% +1\.00 +0\.250 +±0% +1\.00$")
        self.assertIn("  left out: uring: the kernel refuses io_uring here\n", done.stdout)
        self.assertIn("spin: the kernel copied 25% of what was lent to it after all\n", done.stdout)
        self.assertEqual((figures["path"], figures["rate_gbit_per_s"]), ("loopback", None))
        self.assertEqual(figures["missing"], {"uring": "the kernel refuses io_uring here"})
        spin = figures["ways"][1]
        self.assertEqual([(row["direction"], row["size_bytes"]) for row in spin["rows"]],
                         [("one-way", 16), ("one-way", 4096), ("both-ways", 16), ("both-ways", 4096)])
        self.assertEqual(spin["rows"][0]["microseconds"],
                         {"median": 32.5, "spread": 0, "rounds": [32.5, 32.5], "to_plain": 32.5 / 16.5})
        self.assertEqual(spin["rows"][0]["copied"], 0.25)

    def test_leaves_a_way_out_that_fails_or_is_wrong_and_says_so(self):
        for options, sentence in (({"wrong": 3}, "gave 3 wrong words at 16 bytes, one-way"),
                                  ({"status": 4}, "ended with status 4: it said nothing")):
            self.write_program(**options)
            done, figures = self.ways()
            self.assertEqual((done.returncode, done.stderr), (1, ""))
            self.assertIn(f"  spin: another; {sentence}\n", done.stdout)
            self.assertRegex(done.stdout, r"(?m)^spin +- +-$")
            self.assertIsNone(figures["ways"][1]["rows"][0]["microseconds"]["median"])

    def test_measures_with_the_real_program(self):
        os.symlink(STREAM_WAYS, self.program)
        self.check_real()

    @unittest.skipIf(len(os.sched_getaffinity(0)) < 2, "there is one core")
    def test_measures_with_ends_that_share_no_core(self):
        os.symlink(STREAM_WAYS, self.program)
        self.assertTrue(self.check_real("--apart")["apart"])

    def check_real(self, *arguments):
        """Returns the figures."""
        done, figures = self.ways("--sizes", "16,512", *arguments)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual({way["name"] for way in figures["ways"]} | set(figures["missing"]), set(WAYS))
        for way in figures["ways"]:
            for row in way["rows"]:
                self.assertEqual(len(row["microseconds"]["rounds"]), 2)
        return figures

    def test_refuses_wrong_usage_in_one_sentence(self):
        for arguments, sentence in ((("--loopback",), "--no-limit, --loopback and --apart go with --ways"),
                                    (("--ways", "--sizes", "8"), "--sizes of --ways are from 16 bytes on"),
                                    (("--ways", "--loopback", "--no-limit"), "not allowed with")):
            done, _ = self.network(*arguments)
            self.assertEqual((done.returncode, done.stdout), (2, ""))
            self.assertRegex(done.stderr, f"^network: .*{sentence}.*; see --help\n$")
        done, _ = self.ways()
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, "^network: .* has no peer_stream_ways; leave --no-build out\n$")


if __name__ == "__main__":
    unittest.main()
