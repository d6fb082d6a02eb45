"""Which rounds `benchmarks/compare` keeps where the processors are not as near as was asked for."""

import os
import sys
import tempfile
import types
import unittest
import unittest.mock

import harness

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "benchmarks"))

from comparison import rounds  # pylint: disable=wrong-import-position,import-error


def results_of(found):
    """Results of two libraries' five rounds, and how many of them were tried; found(number) says whether a try found
    near cores, and its number is its figure."""
    tried = []

    def measure(_):
        tried.append(len(tried))
        if not found(tried[-1]):
            raise rounds.NoSuchTime("found none")
        return {8: tried[-1]}

    libraries = [types.SimpleNamespace(name=name) for name in ("a", "b")]
    return list(rounds.run_rounds(libraries, 5, "test", measure).values()), len(tried)


class CompareRounds(unittest.TestCase):
    def driver(self, script):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        path = os.path.join(folder.name, "peer_cache_line")
        with open(path, "w", encoding="ascii") as file:
            file.write(f"#!/bin/sh\n{script}\n")
        os.chmod(path, 0o755)
        return path

    def test_waits_so_long_for_the_cores_that_were_asked_for(self):
        far = self.driver("echo 170 1.02")
        with unittest.mock.patch.object(rounds, "LINE_LIMIT_S", 0.1):
            self.assertEqual(rounds.beside_cache_lines(far, (100, 200), lambda: 7),
                             (7, (rounds.Processors(170, 1.02),) * 2))
            with self.assertRaisesRegex(rounds.NoSuchTime, "^found no time of 0.1 s when a cache line took 0 to 60 ns"):
                rounds.beside_cache_lines(far, (0, 60), lambda: 7)

    def test_says_what_the_driver_said_that_cannot_measure(self):
        broken = self.driver("echo broken >&2; exit 1")
        with self.assertRaisesRegex(rounds.NoSuchTime, "peer_cache_line ended with status 1: broken$"):
            rounds.beside_cache_lines(broken, (0, 60), lambda: 7)
        self.assertEqual(rounds.beside_cache_lines(broken, None, lambda: 7), (7, None))

    def test_keeps_the_rounds_that_found_near_cores(self):
        results, tried = results_of(lambda number: number not in (1, 2, 5, 6))
        self.assertEqual(tried, 10)
        self.assertEqual(sorted(figure for result in results for figure in result.of(8)), [0, 3, 4, 7, 8, 9])
        for result in results:
            self.assertEqual(result.remark(), f"has {len(result.of(8))} of the rounds; another found none")

    def test_ends_after_three_in_a_row_that_found_none(self):
        results, tried = results_of(lambda number: number < 4)
        self.assertEqual((tried, [len(result.of(8)) for result in results]), (7, [2, 2]))
        results, tried = results_of(lambda _: False)
        self.assertEqual((tried, [result.remark() for result in results]), (3, ["found none"] * 2))


if __name__ == "__main__":
    harness.main()
