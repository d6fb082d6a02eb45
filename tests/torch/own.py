"""Runs files of tests with pytest, or says what is missing for that. Arguments: the files, flags of pytest."""

import os
import sys

import needs

needs.exit_if_missing()
os.chdir(os.path.dirname(os.path.abspath(__file__)))
os.environ.setdefault("OMP_NUM_THREADS", "1")
import pytest  # noqa: E402  it may not be there

sys.exit(pytest.main(["-q", "-p", "no:cacheprovider", *sys.argv[1:]]))
