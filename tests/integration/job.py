"""What the tests of whole jobs share: ranks started without a launcher, the table of `tutti bench`, skipping by name.

A script's arguments are the path of `tutti`, the folder of the test programs, and what unittest takes.
"""

import collections
import contextlib
import os
import random
import re
import secrets
import socket
import subprocess
import sys
import tempfile
import time
import unittest

import harness

PROGRAMS = os.path.abspath(sys.argv.pop(1)) if len(sys.argv) > 1 else "."
SANITIZED = "SANITIZED" in os.environ
SKIPPED = 77

Ended = collections.namedtuple("Ended", "status out err")


def program(name):
    return os.path.join(PROGRAMS, name)


def free_port():
    """A port of the loopback address that nobody holds now; not one of those that connections and port 0 are given."""
    while True:
        port = random.randrange(20_000, 32_768)
        with socket.socket() as listener, contextlib.suppress(OSError):
            listener.bind(("127.0.0.1", port))
            return port


class JobTest(harness.ToolTest):
    maxDiff = None

    def setUp(self):
        super().setUp()
        for name in list(self.environment):
            launchers = r"TUTTI_|RANK$|WORLD_SIZE$|LOCAL_|MASTER_|SLURM_|OMPI_|PMI"
            if name != "TUTTI_CALIBRATION" and re.match(launchers, name):
                del self.environment[name]
        folder = tempfile.TemporaryDirectory(prefix="tutti-job-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def file(self, name, content):
        """A file that only this user can read; returns its path."""
        path = os.path.join(self.folder, name)
        descriptor = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content if isinstance(content, bytes) else content.encode())
        return path

    def by_hand(self, size, address=None, **variables):
        """The variables of a job without a launcher; `rank` adds one rank's."""
        return {"TUTTI_SIZE": str(size), "TUTTI_ADDRESS": address or f"127.0.0.1:{free_port()}",
                "TUTTI_SECRET_FILE": self.file("secret", secrets.token_bytes(32)), **variables}

    def rank(self, command, variables, before=()):
        """Starts one process with more variables and the words before its command (`ip netns exec`), and collects what
        it writes."""
        process = subprocess.Popen([*before, *map(str, command)], env={**self.environment, **variables}, text=True,
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for cleanup in (process.stdout.close, process.stderr.close, process.wait, process.kill):
            self.addCleanup(cleanup)
        return process

    def ranks(self, command, size, variables, ranks=None):
        return [self.rank(command, {**variables, "TUTTI_RANK": str(rank)})
                for rank in (range(size) if ranks is None else ranks)]

    def ended(self, process):
        out, err = process.communicate(timeout=harness.LIMIT_S)
        return Ended(process.returncode, out, err)

    def run_command(self, command, variables=()):
        return self.ended(self.rank(command, dict(variables)))

    def check_table(self, out, rows=None):
        """That a table of `tutti bench` has rows and none has a wrong element; returns its last column."""
        lines = [re.sub(r"^\[\d+\] ", "", line).split() for line in out.splitlines()]
        found = [line for line in lines if len(line) == 13 and line[0].isdigit()]
        self.assertTrue(found, out)
        if rows is not None:
            self.assertEqual(len(found), rows, out)
        for line in found:
            self.assertEqual((line[7], line[11]), ("0", "0"), out)
        self.assertIn("# Out of bounds values : 0 OK", out)
        return {line[12] for line in found}

    def check_sentence(self, text, pattern):
        """That an error is one line which matches."""
        self.assertRegex(text, pattern)
        self.assertEqual(len(text.strip().splitlines()), 1, text)


class Held:
    """What living processes hold of the host, to be compared with what is there when they have ended."""

    def __init__(self, pids):
        self.sockets = set()
        self.shared_files = set()
        for pid in pids:
            self.sockets |= self._sockets_of(pid)
            with open(f"/proc/{pid}/maps", encoding="utf-8", errors="replace") as file:
                self.shared_files |= set(re.findall(r"/dev/shm/\S+", file.read()))

    @staticmethod
    def _sockets_of(pid):
        found = set()
        for number in os.listdir(f"/proc/{pid}/fd"):
            try:
                target = os.readlink(f"/proc/{pid}/fd/{number}")
            except OSError:
                continue
            found |= set(re.findall(r"^socket:\[(\d+)\]", target))
        return found

    def sockets_left(self):
        left = set()
        for table, column in (("unix", 6), ("tcp", 9), ("tcp6", 9)):
            with open(f"/proc/net/{table}", encoding="ascii", errors="replace") as file:
                words = [line.split() for line in file.readlines()[1:]]
            left |= {line[column] for line in words if len(line) > column} & self.sockets
        return left


def now():
    return time.monotonic()


def main():
    result = unittest.main(exit=False).result
    if not result.wasSuccessful():
        sys.exit(1)
    if result.skipped and result.testsRun <= len(result.skipped):  # a class that is skipped has run none
        for _, reason in result.skipped:
            print(f"SKIP: {reason}")
        sys.exit(SKIPPED)
