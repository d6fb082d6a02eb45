"""The programs of docs/python.md do what the page says."""

import importlib.util
import pathlib
import re
import unittest

import ranks

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "python.md"
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
BLOCKS = FENCE.findall(PAGE.read_text(encoding="utf-8"))
PROGRAMS = [text for language, text in BLOCKS if language == "python"]
DATA = """
import numpy
my_rows = numpy.random.default_rng(0).random((500, 4))
my_labels = my_rows[:, 0]
"""


class Programs(unittest.TestCase):
    def output_of(self, program, size):
        status, output, errors = ranks.ended(ranks.launch(program, size), limit_s=100)
        self.assertEqual(status, 0, errors)
        return output

    def test_print_what_the_page_shows(self):
        program = next(text for text in PROGRAMS if "all_reduce" in text)
        shell = next(text for language, text in BLOCKS if language == "" and "tutti run" in text)
        command, shown = shell.split("\n", 1)
        self.assertEqual(command, "$ tutti run -n 3 --no-prefix -- python sum.py")
        self.assertEqual(self.output_of(program, 3), shown)

    @unittest.skipIf(importlib.util.find_spec("lightgbm") is None, "there is no lightgbm")
    def test_trains_with_lightgbm(self):
        program = next(text for text in PROGRAMS if "lightgbm.train" in text)
        self.output_of(f"{DATA}{program}\nassert booster.num_trees() == 100", 2)

    def test_are_all_here(self):
        self.assertEqual(len(PROGRAMS), 2)


class Types(unittest.TestCase):
    @unittest.skipIf(importlib.util.find_spec("mypy") is None, "there is no mypy")
    def test_are_right_to_mypy(self):
        import mypy.api

        folder = pathlib.Path(__file__).parents[2] / "python"
        said, wrong, status = mypy.api.run(["--config-file", str(folder / "pyproject.toml"), "--no-incremental"])
        self.assertEqual(status, 0, said + wrong)
        self.assertIn("no issues found", said)
