"""libtutti_cuda.so: small, opened without CUDA's libraries, with one symbol, and with code for the GPUs that it is for.

module_test.py MODULE
"""

import os
import re
import struct
import subprocess
import sys

MOST_BYTES = 10 * 1000 * 1000
ARCHITECTURES = {80, 90, 100}

# As nvcc writes them (fatbinary): a header, then the entries, each with a header of its own.
MAGIC = struct.pack("<I", 0xBA55ED50)
ELF, PTX = 2, 1


def entries_of(image):
    """(kind, architecture) of what is in a file's fat binaries."""
    found = set()
    at = image.find(MAGIC)
    while at >= 0:
        header_bytes, = struct.unpack_from("<H", image, at + 6)
        size_bytes, = struct.unpack_from("<Q", image, at + 8)
        place, end = at + header_bytes, at + header_bytes + size_bytes
        while place + 64 <= end:
            kind, _, entry_header, payload = struct.unpack_from("<HHIQ", image, place)
            architecture, = struct.unpack_from("<I", image, place + 28)
            found.add((kind, architecture))
            place += entry_header + payload
        at = image.find(MAGIC, max(end, at + 4))
    return found


def main():
    module = sys.argv[1]
    wrong = []
    with open(module, "rb") as file:
        image = file.read()
    # Debug information is no part of what is installed.
    sections = subprocess.run(["readelf", "-SW", module], capture_output=True, text=True, check=True).stdout
    debug = sum(int(size, 16) for size in re.findall(r"\.debug_\S+\s+\S+\s+\S+\s+\S+\s+([0-9a-f]+)", sections))
    size = os.path.getsize(module) - debug
    if size >= MOST_BYTES:
        wrong.append(f"it has {size} bytes; the most is {MOST_BYTES}")
    needed = subprocess.run(["readelf", "-dW", module], capture_output=True, text=True, check=True).stdout
    libraries = re.findall(r"\(NEEDED\).*\[(.*)\]", needed)
    wrong += [f"it needs {name}" for name in libraries if name.startswith(("libcuda", "libnv"))]
    symbols = subprocess.run(["nm", "-D", "--defined-only", module], capture_output=True, text=True, check=True).stdout
    exported = sorted(line.split()[-1] for line in symbols.splitlines())
    if exported != ["tutti_open_module"]:
        wrong.append(f"it exports {exported[:20]}; what opens it looks for tutti_open_module alone")
    entries = entries_of(image)
    missing = ARCHITECTURES - {architecture for kind, architecture in entries if kind == ELF}
    if missing:
        wrong.append(f"it has no code for {sorted(missing)}, but {sorted(entries)}")
    if PTX not in {kind for kind, _ in entries}:
        wrong.append("it has no PTX for later GPUs")
    print(f"{size} bytes without debug information, needs {libraries}, has {sorted(entries)}")
    for each in wrong:
        print(f"{module}: {each}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
