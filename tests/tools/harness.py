"""What the tests of the `tutti` command share. The path of the command is the first argument of every test script."""

import os
import signal
import subprocess
import sys
import time
import unittest
import uuid

TUTTI = os.path.abspath(sys.argv.pop(1)) if len(sys.argv) > 1 else "tutti"
LIMIT_S = 60


class ToolTest(unittest.TestCase):
    """Marks every process that it starts through the environment, and checks that none is left."""

    def setUp(self):
        self.mark = f"TOOL_TEST_MARK={uuid.uuid4()}"
        name, value = self.mark.split("=")
        # Else a test would measure the host, or depend on what was measured before.
        self.environment = dict(os.environ, **{name: value, "TUTTI_CALIBRATION": "off", "TUTTI_TUNING": "off"})
        self.addCleanup(self.check_nothing_left)  # runs last

    def check_nothing_left(self):
        left = self.living()
        for pid in left:
            os.kill(pid, signal.SIGKILL)
        self.assertEqual(left, [], "processes were left behind")

    def tutti(self, *arguments, **options):
        """Runs the command to its end; returns the CompletedProcess with text output."""
        options.setdefault("stdin", subprocess.DEVNULL)
        if "input" in options:
            options.pop("stdin")
        return subprocess.run([TUTTI, *map(str, arguments)], capture_output=True, text=True, env=self.environment,
                              timeout=LIMIT_S, **options)

    def start(self, *arguments, **options):
        """Starts the command; its standard output is a pipe."""
        options.setdefault("stdin", subprocess.DEVNULL)
        process = subprocess.Popen([TUTTI, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   text=True, env=self.environment, **options)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def living(self):
        """Process ids that carry this test's mark, zombies left out."""
        found = []
        for entry in os.listdir("/proc"):
            if not entry.isdigit() or int(entry) == os.getpid():
                continue
            try:
                with open(f"/proc/{entry}/environ", "rb") as file:
                    if self.mark.encode() in file.read():
                        found.append(int(entry))
            except OSError:
                continue
        return found

    def eventually(self, condition, what):
        deadline = time.monotonic() + LIMIT_S
        while not condition():
            self.assertLess(time.monotonic(), deadline, f"never happened: {what}")
            time.sleep(0.01)

    def expect_lines(self, process, count):
        """The next `count` lines of a started command's output, sorted."""
        return sorted(process.stdout.readline().rstrip("\n") for _ in range(count))


def main():
    unittest.main()
