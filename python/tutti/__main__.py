"""The `tutti` command, as the wheel carries it: python -m tutti run -n 4 -- python program.py."""

import os
import sys
from pathlib import Path


def main() -> None:
    """Becomes the command. Exits with 127 where the package has none."""
    command = Path(__file__).with_name("tutti")
    if not command.exists():
        print(f"tutti: {command} is missing: this package was built without the command; use that of the tutti "
              "which it was built with", file=sys.stderr)
        sys.exit(127)
    os.execv(command, ["tutti", *sys.argv[1:]])


if __name__ == "__main__":
    main()
