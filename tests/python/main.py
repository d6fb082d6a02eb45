"""Runs one file of tests with unittest, or says what is missing for that (77: skipped, for CTest)."""

import importlib
import importlib.util
import os
import sys
import unittest

if importlib.util.find_spec("numpy") is None:
    print(f"skipped: {sys.executable} has no numpy; pip install numpy, or -DTUTTI_PYTHON=another Python")
    sys.exit(77)
needed = sys.argv[2:]
missing = [package for package in needed if importlib.util.find_spec(package) is None]
if missing:
    print(f"skipped: {sys.executable} lacks {' '.join(missing)} (pip install)")
    sys.exit(77)
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
suite = unittest.defaultTestLoader.loadTestsFromModule(importlib.import_module(sys.argv[1]))
sys.exit(not unittest.TextTestRunner(verbosity=2).run(suite).wasSuccessful())
