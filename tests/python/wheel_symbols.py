"""A wheel's libraries clash with nobody's: fmt, spdlog, Highway, expat, hwloc and OpenSSL are inside and hidden.

Usage: wheel_symbols.py WHEEL [PATH...]. It has libraries or programs whose paths begin so. Nothing of fmt and so on is
exported, asked for, or a library that is needed. What else is needed is in the wheel, or every system has it. The
libraries of the C API have their own C++ library, and export tutti_* alone; torch's module uses that of torch.
"""

import pathlib
import re
import subprocess
import sys
import tempfile
import zipfile

# As they are mangled (_ZN3fmt..., _ZNK6spdlog..., also as parts of other names' types), and C's.
HIDDEN = re.compile(r"N[KVO]*(3fmt|6spdlog|3hwy)|^(XML_|hwloc_|SSL_|EVP_|OPENSSL_|CRYPTO_|BIO_)")
NEEDED = re.compile(r"^(libtutti\.so\.0|libstdc\+\+\.so\.6|libgcc_s\.so\.1|ld-linux.*|lib(c|m|dl|rt|pthread)\.so\.\d|"
                    r"lib(c10|torch_cpu|torch_python|torch)\.so)$")


OF_C_API = re.compile(r"^(libtutti(_cuda)?\.so.*|tutti)$")


def output_of(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def is_elf(path):
    with open(path, "rb") as file:
        return file.read(4) == b"\x7fELF"


def faults_of(path, carried):
    """Sentences on what is wrong with one library or program."""
    needed = re.findall(r"NEEDED.*\[(.*)\]", output_of("readelf", "-dW", path))
    yield from (f"needs {name}" for name in needed if name not in carried and not NEEDED.match(name))
    for line in output_of("nm", "-D", path).splitlines():
        kind, name = line.split()[-2:]
        if HIDDEN.search(name):
            yield f"{'asks for' if kind == 'U' else 'exports'} {name}"
    if OF_C_API.match(path.name):
        yield from (f"needs {name}" for name in needed if name.startswith("libstdc++"))
        for line in output_of("nm", "-D", "--defined-only", path).splitlines():
            name = line.split()[-1]
            if path.suffix and not name.startswith("tutti_"):
                yield f"exports {name}"


def main():
    with tempfile.TemporaryDirectory() as folder:
        with zipfile.ZipFile(sys.argv[1]) as wheel:
            wheel.extractall(folder)
        binaries = [path for path in sorted(pathlib.Path(folder).rglob("*")) if path.is_file() and is_elf(path)]
        carried = {path.name for path in binaries}
        found = [str(path.relative_to(folder)) for path in binaries]
        faults = [f"{path.name} {fault}" for path in binaries for fault in faults_of(path, carried)]
    print("\n".join(faults[:20]))
    print(f"{len(binaries)} libraries and programs ({', '.join(found)}), {len(faults)} faults")
    wanted = ["tutti/libtutti.so.0", *sys.argv[2:]]
    missing = [name for name in wanted if not any(path.startswith(name) for path in found)]
    if missing:
        print(f"the wheel lacks {', '.join(missing)}")
    return 1 if faults or missing else 0


if __name__ == "__main__":
    sys.exit(main())
