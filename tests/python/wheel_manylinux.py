"""What auditwheel says of a wheel and manylinux_2_28: nothing of ours may stand in the way.

Usage: wheel_manylinux.py WHEEL. A build asks for the glibc and libstdc++ of the system that it is made on: on one no
newer than manylinux_2_28's they must be old enough, on others it is said what is too new. OpenSSL is for `auditwheel
repair` to put into the wheel; libudev is what Debian's hwloc wants; torch's libraries come with torch.
"""

import json
import os
import re
import subprocess
import sys

POLICY = "manylinux_2_28"
NEWEST = {"GLIBC": (2, 28), "GLIBCXX": (3, 4, 24), "CXXABI": (1, 3, 11), "GCC": (7, 0, 0)}
ALLOWED = re.compile(r"lib(ssl|crypto)\.so\.3|libudev\.so\.1|lib(c10|torch|torch_cpu|torch_python)\.so")


def too_new(symbols):
    """Of {library: [NAME_1.2.3, ...]} what the policy does not have."""
    for library, versions in sorted(symbols.items()):
        for version in sorted(versions):
            name, _, number = version.rpartition("_")
            if name in NEWEST and tuple(int(part) for part in number.split(".")) > NEWEST[name]:
                yield f"{version} of {library}"


def main():
    command = [sys.executable, "-m", "auditwheel", "show", "--json", sys.argv[1]]
    said = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    upgrade = next((what for policy, what in said["policy_upgrades"].items() if policy.startswith(POLICY)), {})
    libraries = upgrade.get("libs_to_eliminate", [])
    faults = [f"needs {name}" for name in libraries if not ALLOWED.fullmatch(name)]
    faults += [f"asks {name} for {symbols}" for name, symbols in upgrade.get("blacklisted_symbols", {}).items()]
    faults += ["is for processors that not every x86-64 is"] if said["unsupported_isa"] else []
    new = list(too_new(said["versioned_symbols"]))
    libc = os.confstr("CS_GNU_LIBC_VERSION")
    if tuple(int(part) for part in libc.split()[1].split(".")) <= NEWEST["GLIBC"]:
        faults += [f"asks for {each}" for each in new]
    print(f"{said['wheel']}: {said['sym_tag']}; outside of {POLICY}: {', '.join(libraries) or 'no library'}")
    if new:
        print(f"made with {libc}, so not yet for {POLICY}: asks for {', '.join(new)}")
    for fault in faults:
        print(f"not for {POLICY}: {fault}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
