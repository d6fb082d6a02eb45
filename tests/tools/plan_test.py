"""`tutti plan`: what it says of a call, and that it says what is wrong."""

import harness
from harness import ToolTest


class Plan(ToolTest):
    def plan(self, *arguments):
        return self.tutti("plan", "all_reduce", *arguments)

    def test_rounds_down_to_whole_elements_as_the_benchmark_does_and_says_so(self):
        done = self.plan("-n", 2, "-b", 7)
        self.assertEqual(done.returncode, 0)
        self.assertEqual(done.stderr, "tutti plan: 7 bytes are no whole number of float32; planning for 4 bytes\n")
        self.assertIn("all_reduce of 4 B (1 float32)", done.stdout)
        done = self.plan("-n", 2, "-b", 7, "-d", "int8")
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_of_a_collective_that_is_not_there_says_which_there_are(self):
        done = self.tutti("plan", "all_redcue")
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertEqual(done.stderr,
                         'tutti plan: there is no collective "all_redcue" to plan for; there is all_reduce\n')


if __name__ == "__main__":
    harness.main()
