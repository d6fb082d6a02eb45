"""A wheel is one for manylinux_2_28, as auditwheel sees it.

Usage: wheel_manylinux.py WHEEL. It is named for that, asks for no newer version of a function than such a system has,
and needs no library but such a system's and torch's, which come with torch.
"""

import json
import re
import subprocess
import sys

POLICY = "manylinux_2_28"
NEWEST = {"GLIBC": (2, 28), "GLIBCXX": (3, 4, 24), "CXXABI": (1, 3, 11), "GCC": (7, 0, 0)}
OF_TORCH = re.compile(r"lib(c10|torch|torch_cpu|torch_python)\.so")


def too_new(symbols):
    """Of {library: [NAME_1.2.3, ...]} what the policy does not have."""
    for library, versions in sorted(symbols.items()):
        for version in sorted(versions):
            name, _, number = version.rpartition("_")
            if name in NEWEST and tuple(int(part) for part in number.split(".")) > NEWEST[name]:
                yield f"asks {library} for {version}"


def main():
    command = [sys.executable, "-m", "auditwheel", "show", "--json", sys.argv[1]]
    said = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    upgrade = next((what for policy, what in said["policy_upgrades"].items() if policy.startswith(POLICY)), {})
    libraries = upgrade.get("libs_to_eliminate", [])
    minor = re.match(r"manylinux_2_(\d+)_", said["sym_tag"])
    faults = [f"needs {name}" for name in libraries if not OF_TORCH.fullmatch(name)]
    faults += [f"asks {name} for {symbols}" for name, symbols in upgrade.get("blacklisted_symbols", {}).items()]
    faults += too_new(said["versioned_symbols"])
    faults += ["is for processors that not every x86-64 is"] if said["unsupported_isa"] else []
    if minor is None or int(minor.group(1)) > 28:
        faults.append(f"is for {said['sym_tag']} and newer")
    if f"-{POLICY}_" not in said["wheel"]:
        faults.append("has another name")
    print(f"{said['wheel']}: its symbols are those of {said['sym_tag']}; not in it and not in {POLICY}: "
          f"{', '.join(libraries) or 'no library'}")
    for fault in faults:
        print(f"the wheel {fault}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
