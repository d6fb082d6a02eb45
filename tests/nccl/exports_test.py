#!/usr/bin/env python3
"""libnccl.so.2 exports what NCCL 2.28.9 does, by that name, and what it cannot do it says.

Usage: exports_test.py NM READELF LIBRARY [NCCL_HEADER]
"""

import ctypes
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).parent
DEVICE_API = {"nccl" + name for name in (
    "DevCommCreate", "DevCommDestroy", "GinBarrierCreateRequirement", "LLA2ACalcSlots", "LLA2ACreateRequirement",
    "LsaBarrierCreateRequirement", "TeamLsa", "TeamRail", "TeamRankToLsa", "TeamRankToWorld", "TeamWorld")}
INVALID_ARGUMENT, INVALID_USAGE = 4, 5


class Team(ctypes.Structure):
    _fields_ = [("nranks", ctypes.c_int), ("rank", ctypes.c_int), ("stride", ctypes.c_int)]

    def __iter__(self):
        return iter((self.nranks, self.rank, self.stride))


def declared(header):
    text = re.sub(r"/\*.*?\*/", "", pathlib.Path(header).read_text(encoding="utf-8"), flags=re.DOTALL)
    return set(re.findall(r"\b(p?nccl[A-Z]\w*)\s*\([^;{]*\)\s*;", text))


def symbol_faults(nm, library, promised):
    output = subprocess.run([nm, "-D", "--defined-only", library], check=True, capture_output=True, text=True).stdout
    found = {line.split()[-1] for line in output.splitlines()}
    yield from (f"{name} is not exported" for name in sorted(promised - found))
    yield from (f"{name} is exported and is none of NCCL's" for name in sorted(found - promised))


def twin_faults(library, names):
    for name in sorted(names):
        first, second = (ctypes.cast(getattr(library, n), ctypes.c_void_p).value for n in (name, "p" + name))
        if first != second:
            yield f"p{name} is another function than {name}"


def device_api_faults(library):
    """What tutti does not have is refused in a sentence; teams are as they are without it."""
    library.ncclGetLastError.restype = ctypes.c_char_p
    for name, arguments in {"ncclDevCommCreate": [None] * 3, "ncclDevCommDestroy": [None] * 2,
                            "ncclLLA2ACreateRequirement": [1, 1, None, None]}.items():
        result = getattr(library, name)(*arguments)
        said = library.ncclGetLastError(None).decode()
        if result != INVALID_USAGE or not said.startswith(f"{name}: tutti has no device API"):
            yield f"{name} gives {result} and says {said!r}"
    for name, arguments in {"ncclLsaBarrierCreateRequirement": [Team(1, 0, 1), 1, None, None],
                            "ncclGinBarrierCreateRequirement": [None, Team(1, 0, 1), 1, None, None]}.items():
        if getattr(library, name)(*arguments) != INVALID_USAGE:
            yield f"{name} is not refused"
    if library.ncclLLA2ACalcSlots(8, 8) != 0:
        yield "ncclLLA2ACalcSlots finds slots"
    yield from team_faults(library)
    library.ncclResetDebugInit()


def team_faults(library):
    comm = (ctypes.c_void_p * 1)()
    if library.ncclCommInitAll(comm, 1, None) != 0:
        yield f"ncclCommInitAll: {library.ncclGetLastError(None).decode()}"
        return
    handle = ctypes.c_void_p(comm[0])
    for name in ("ncclTeamWorld", "ncclTeamLsa", "ncclTeamRail"):
        function = getattr(library, name)
        function.restype = Team
        if list(function(handle)) != [1, 0, 1]:
            yield f"{name} is {list(function(handle))} for one rank"
        if list(function(None)) != [0, 0, 0]:
            yield f"{name} knows a communicator that is not there"
    for name in ("ncclTeamRankToWorld", "ncclTeamRankToLsa"):
        if getattr(library, name)(handle, Team(4, 1, 2), 3) != 4:
            yield f"{name} counts otherwise"
    if library.ncclCommDestroy(handle) != 0 or library.ncclCommDestroy(handle) != INVALID_ARGUMENT:
        yield "ncclCommDestroy can be repeated"


def main():
    nm, readelf, path, *header = filter(None, sys.argv[1:])  # CMake gives "" where there is no header
    functions = set((HERE / "functions_2.28.9.txt").read_text(encoding="utf-8").split())
    promised = {prefix + name for name in functions | DEVICE_API for prefix in ("", "p")}
    faults = list(symbol_faults(nm, path, promised))
    if header:
        names = declared(header[0])
        faults += [f"{name} is in NCCL's header, and not in the list" for name in sorted(names - promised)]
        faults += [f"{name} is in the list, and not in NCCL's header"
                   for name in sorted({p + n for n in functions for p in ("", "p")} - names)]
    dynamic = subprocess.run([readelf, "-d", path], check=True, capture_output=True, text=True).stdout
    if "[libnccl.so.2]" not in dynamic:
        faults.append("the soname is not libnccl.so.2")
    library = ctypes.CDLL(path)
    faults += [*twin_faults(library, functions | DEVICE_API), *device_api_faults(library)]
    print("\n".join(faults))
    print(f"{len(promised)} functions, {len(faults)} faults" + ("" if header else "; NCCL's header is not here"))
    return 1 if faults or len(functions) != 41 else 0


if __name__ == "__main__":
    sys.exit(main())
