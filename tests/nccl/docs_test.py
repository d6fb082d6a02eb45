#!/usr/bin/env python3
"""The program in docs/nccl.md prints what the page says. Usage: docs_test.py PAGE FOLDER_OF_THE_LIBRARY"""

import os
import pathlib
import re
import subprocess
import sys


def main():
    text = pathlib.Path(sys.argv[1]).read_text(encoding="utf-8")
    fences = re.findall(r"^```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    program = next(content for language, content in fences if language == "python")
    shown = next(content for language, content in fences if language == "")
    environment = {**os.environ, "LD_LIBRARY_PATH": sys.argv[2], "TUTTI_NCCL_HOST_MEMORY": "1"}
    ran = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=60)
    print(ran.stdout + ran.stderr, end="")
    return 0 if (ran.returncode, ran.stdout, ran.stderr) == (0, shown, "") else 1


if __name__ == "__main__":
    sys.exit(main())
