"""Which rounds `benchmarks/compare` keeps where the processors are not as near as was asked for."""

import contextlib
import io
import os
import sys
import tempfile
import types
import unittest
import unittest.mock

import harness

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "benchmarks"))

from comparison import baseline, rounds, table  # pylint: disable=wrong-import-position,import-error

SIZE = 8


def results_of(found, names="ab", lacking=()):
    """Results of five rounds of so many libraries, and how many tries these were; found(number) says whether a try
    found near cores, and its number is its figure. Tries in `lacking` find them, and no such collective."""
    tried = []

    def measure(_):
        tried.append(len(tried))
        if tried[-1] in lacking:
            raise rounds.NoSuchCollective
        if not found(tried[-1]):
            raise rounds.NoSuchTime("none")
        return {SIZE: tried[-1]}

    results = rounds.run_rounds([types.SimpleNamespace(name=name) for name in names], 5, "test", measure)
    return list(results.values()), len(tried)


def table_of(own_us, peer_us, other_us=None):
    """A table of a library of ours and one or two peers with so many microseconds in three rounds or fewer."""
    libraries = [types.SimpleNamespace(name=name, what=name, role=role, limit="")
                 for name, role in (("tutti", "own"), ("mpi", "peer"), ("gloo", "peer"))][:3 if other_us else 2]
    results = {library.name: rounds.Result(3, {SIZE: us} if us else {}, missed="" if len(us) == 3 else "none")
               for library, us in zip(libraries, (own_us, peer_us, other_us))}
    return table.Table("shm", "all_reduce", 2, 3, [SIZE], libraries, [], results, {})


def printed(what):
    with contextlib.redirect_stdout(io.StringIO()) as output:
        table.print_table(what)
    return output.getvalue()


class CompareRounds(unittest.TestCase):
    def driver(self, script):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        path = os.path.join(folder.name, "peer_cache_line")
        with open(path, "w", encoding="ascii") as file:
            file.write(f"#!/bin/sh\n{script}\n")
        os.chmod(path, 0o755)
        return path

    def test_gives_up_after_a_while_without_the_cores_that_were_asked_for(self):
        far = self.driver("echo 170 1.02")
        with unittest.mock.patch.object(rounds, "LINE_LIMIT_S", 0.1):
            self.assertEqual(rounds.beside_cache_lines(far, (100, 200), lambda: 7),
                             (7, (rounds.Processors(170, 1.02),) * 2))
            with self.assertRaisesRegex(rounds.NoSuchTime, "^within 0.1 s a cache line never took 0 to 60 ns before"):
                rounds.beside_cache_lines(far, (0, 60), lambda: 7)

    def test_says_why_nothing_tells_how_near_the_cores_are(self):
        broken = self.driver("echo broken >&2; exit 1")
        for driver, sentence in ((broken, "ended with status 1: broken"), (None, "is not built")):
            with self.assertRaisesRegex(rounds.NoSuchTime, f"^peer_cache_line {sentence}$"):
                rounds.beside_cache_lines(driver, (0, 60), lambda: 7)
            self.assertEqual(rounds.beside_cache_lines(driver, None, lambda: 7), (7, None))

    def test_keeps_the_rounds_that_found_near_cores(self):
        results, tried = results_of(lambda number: number not in (1, 2, 5, 6))
        self.assertEqual(tried, 10)
        self.assertEqual(sorted(figure for result in results for figure in result.of(SIZE)), [0, 3, 4, 7, 8, 9])
        for result in results:
            self.assertEqual(result.remark(), f"{result.measured()} of 5 rounds: none")

    def test_ends_after_three_tries_that_found_none(self):
        results, tried = results_of(lambda number: number < 4)
        self.assertEqual((tried, [result.measured() for result in results]), (7, [2, 2]))
        # Those that were not tried say so, too.
        results, tried = results_of(lambda _: False, "abcde")
        self.assertEqual((tried, [result.remark() for result in results]), (3, ["0 of 5 rounds: none"] * 5))

    def test_goes_on_after_a_try_that_found_near_cores_and_failed(self):
        results, tried = results_of(lambda number: number not in (0, 1, 3), "abcd", lacking=[2])
        self.assertEqual(tried, 4 + 3 * 4)
        self.assertEqual(sorted(result.measured() for result in results), [0, 4, 4, 4])

    def test_says_which_libraries_have_fewer_rounds(self):
        fewer = table_of([2, 3, 4], [5])
        self.assertIn("median of up to 3 rounds", printed(fewer))
        self.assertIn("\n  tutti: tutti\n  mpi: mpi; 1 of 3 rounds: none\n", printed(fewer))
        self.assertIn("tutti is faster than every peer at 1 of 1 sizes", printed(fewer))
        self.assertEqual([each["missed"] for each in table.table_json(fewer)["libraries"]], ["", "none"])
        whole = table_of([2, 3, 4], [5, 6, 7])
        self.assertIn("median of 3 rounds", printed(whole))
        self.assertNotIn("none", printed(whole))
        for unmeasured in (table_of([], [5, 6, 7]), table_of([2, 3, 4], [])):
            self.assertNotIn("faster than every peer", printed(unmeasured))

    def test_baselines_take_only_libraries_that_have_all_rounds(self):
        self.assertEqual(len(list(baseline.rows_of(table_of([2, 3, 4], [5, 6, 7])))), 1)
        self.assertEqual([row["ratios"] for row in baseline.rows_of(table_of([2, 3, 4], [5], [5, 6, 7]))],
                         [{"gloo": 0.5}])
        for fewer in (table_of([2, 3, 4], [5]), table_of([2, 3], [5, 6, 7]), table_of([], [])):
            self.assertEqual(list(baseline.rows_of(fewer)), [])
            path = self.driver("kept")
            with self.assertRaisesRegex(baseline.Unusable, "in which both have all rounds; .* stays"):
                baseline.write(path, [fewer], {}, types.SimpleNamespace(
                    collective=["all_reduce"], tables=["shm"], ranks=[2], sizes=[SIZE], rounds=3, seconds=0.1,
                    without=[], line_ns=None))
            with open(path, encoding="ascii") as file:
                self.assertIn("kept", file.read())


if __name__ == "__main__":
    harness.main()
