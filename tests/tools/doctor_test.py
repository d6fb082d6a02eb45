"""`tutti doctor`: what it prints, and its exit status."""

import json
import os
import tempfile

from harness import ToolTest
import harness


class Doctor(ToolTest):
    def recorded(self, folder, **files):
        """A recording of this host, with more files and without limits; returns its path."""
        path = os.path.join(folder, "host.json")
        captured = self.tutti("topo", "--capture", path)
        self.assertEqual(captured.returncode, 0, captured.stderr)
        with open(path, encoding="utf-8") as file:
            machine = json.load(file)
        for name in list(machine["files"]):
            if name.startswith(("/sys/class/infiniband", "/sys/bus/pci/devices")):
                del machine["files"][name]
        machine["files"].update(files)
        with open(path, "w", encoding="utf-8") as file:
            json.dump(machine, file)
        return path

    def test_of_this_host_says_the_same_of_its_recording(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "host.json")
            self.assertEqual(self.tutti("topo", "--capture", path).returncode, 0)
            live, recorded = self.tutti("doctor", "--json"), self.tutti("doctor", "--json", "--topology", path)
        self.assertEqual((live.returncode, live.stdout), (recorded.returncode, recorded.stdout))
        self.assertEqual(live.returncode, 1 if json.loads(live.stdout)["problems"] else 0)

    def test_notes_are_no_failure(self):
        with tempfile.TemporaryDirectory() as folder:
            done = self.tutti("doctor", "--topology", self.recorded(folder))
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertRegex(done.stdout, r": 0 problems, 1 note\nnote     devices: there is no RDMA device, .*; .*rxe")

    def test_problems_are(self):
        with tempfile.TemporaryDirectory() as folder:
            done = self.tutti("doctor", "--json", "--topology", self.recorded(folder, **{
                "/sys/bus/pci/devices/0000:01:00.0/class": "0x020700\n",
                "/sys/bus/pci/devices/0000:01:00.0/vendor": "0x15b3\n"}))
        self.assertEqual((done.returncode, done.stderr), (1, ""))
        self.assertEqual([finding["topic"] for finding in json.loads(done.stdout)["findings"]], ["kernel modules"])

    def test_a_file_that_is_no_host_is_named(self):
        done = self.tutti("doctor", "--topology", "/nowhere/host.json")
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertRegex(done.stderr, r"^tutti doctor: .*/nowhere/host\.json")
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            file.write("{}")
            file.flush()
            done = self.tutti("doctor", "--topology", file.name)
        self.assertEqual(done.returncode, 1)
        self.assertIn(file.name, done.stderr)


if __name__ == "__main__":
    harness.main()
