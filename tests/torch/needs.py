"""What the tests need of this Python."""

import importlib.util
import sys

SKIPPED = 77  # for CTest
NEEDED = {"torch": "torch", "tutti_torch": "./python", "pytest": "pytest", "expecttest": "expecttest", "numpy": "numpy"}


def exit_if_missing():
    missing = [package for module, package in NEEDED.items() if importlib.util.find_spec(module) is None]
    if missing:
        print(f"skipped: {sys.executable} lacks what pip install {' '.join(missing)} installs")
        sys.exit(SKIPPED)
