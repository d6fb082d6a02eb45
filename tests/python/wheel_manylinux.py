"""Which systems a wheel is for, as auditwheel sees it: nothing of ours may stand in the way.

Usage: wheel_manylinux.py WHEEL. A build asks for functions of the glibc that it is made on. So it has to be one for
manylinux_2_28 on a system that is no newer, and for manylinux_2_34 on one with glibc 2.35 or 2.36, whose libraries
(Debian 12's hwloc) ask for no more; what keeps it from manylinux_2_28 there is said. OpenSSL is the system's, or for
`auditwheel repair` to put into the wheel; libudev is what Debian's hwloc wants; torch's libraries come with torch.
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


def wanted_minor():
    """Of glibc 2.x, for which a build on this system has to be."""
    here = int(re.match(r"glibc 2\.(\d+)", os.confstr("CS_GNU_LIBC_VERSION")).group(1))
    return 28 if here <= 28 else 34 if here <= 36 else here


def main():
    command = [sys.executable, "-m", "auditwheel", "show", "--json", sys.argv[1]]
    said = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    upgrade = next((what for policy, what in said["policy_upgrades"].items() if policy.startswith(POLICY)), {})
    libraries = upgrade.get("libs_to_eliminate", [])
    tag, wanted = said["sym_tag"], wanted_minor()
    minor = re.match(r"manylinux_2_(\d+)_", tag)
    faults = [f"needs {name}, which is neither in it nor the system's" for name in libraries
              if not ALLOWED.fullmatch(name)]
    faults += [f"asks {name} for {symbols}" for name, symbols in upgrade.get("blacklisted_symbols", {}).items()]
    faults += ["is for processors that not every x86-64 is"] if said["unsupported_isa"] else []
    if minor is None or int(minor.group(1)) > wanted:
        faults.append(f"is for {tag} and newer, where a build on this system has to be for manylinux_2_{wanted}")
    print(f"{said['wheel']}: its symbols are those of {tag}; not in it and not in {POLICY}: "
          f"{', '.join(libraries) or 'no library'}")
    new = list(too_new(said["versioned_symbols"]))
    if new:
        print(f"not for {POLICY}, as it was made with glibc 2.{wanted} or newer: it asks for {', '.join(new)}")
    for fault in faults:
        print(f"the wheel {fault}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
