#!/usr/bin/env python3
"""No line of our sources is wider than 120 columns. Usage: line_length.py REPOSITORY"""

import pathlib
import sys

COLUMNS = 120
FOLDERS = ("include", "src", "transports", "kernels", "tools", "benchmarks", "tests", "cmake")
SUFFIXES = {".h", ".hpp", ".c", ".cpp", ".cu", ".cuh", ".inl", ".py", ".sh", ".cmake"}


def is_source(path):
    if path.suffix in SUFFIXES or path.name == "CMakeLists.txt":
        return True
    if path.suffix or not path.is_file():
        return False
    with path.open("rb") as file:  # a script such as tools/dev
        return file.read(2) == b"#!"


def faults_of(root, path):
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if len(line) > COLUMNS:
            yield f"{path.relative_to(root)}:{number}: {len(line)} columns; wrap it, the most is {COLUMNS}"


def main():
    root = pathlib.Path(sys.argv[1]).resolve()
    files = [root / "CMakeLists.txt"]
    files += [path for folder in FOLDERS for path in sorted((root / folder).rglob("*")) if is_source(path)]
    faults = [fault for path in files for fault in faults_of(root, path)]
    print("\n".join(faults))
    print(f"{len(files)} files, {len(faults)} faults")
    return 1 if faults or len(files) == 1 else 0


if __name__ == "__main__":
    sys.exit(main())
