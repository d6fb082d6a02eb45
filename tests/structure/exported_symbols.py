#!/usr/bin/env python3
"""libtutti.so exports what the public headers declare, and nothing else.

Usage: exported_symbols.py NM LIBRARY HEADER...
"""

import pathlib
import re
import subprocess
import sys


def declared(headers):
    names = set()
    for header in headers:
        text = re.sub(r"/\*.*?\*/", "", pathlib.Path(header).read_text(encoding="utf-8"), flags=re.DOTALL)
        names |= set(re.findall(r"TUTTI_API[^;(]*?\b(tutti_\w+)\s*\(", text))
    return names


def exported(nm, library):
    output = subprocess.run([nm, "-D", "--defined-only", library], check=True, capture_output=True, text=True).stdout
    return {line.split()[-1] for line in output.splitlines()}


def main():
    nm, library, *headers = sys.argv[1:]
    promised, found = declared(headers), exported(nm, library)
    faults = [f"{name} is declared but not exported" for name in sorted(promised - found)]
    faults += [f"{name} is exported but in no public header" for name in sorted(found - promised)]
    print("\n".join(faults))
    print(f"{len(promised)} functions declared, {len(found)} exported")
    return 1 if faults or not promised else 0


if __name__ == "__main__":
    sys.exit(main())
