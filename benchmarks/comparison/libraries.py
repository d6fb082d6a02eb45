"""Which libraries there are on this machine, and how each is started."""

import dataclasses
import functools
import os
import shlex
import shutil
import subprocess
import sys

PEERS = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "peers")
PROGRAM = os.path.basename(sys.argv[0])
CORES = len(os.sched_getaffinity(0))
WORKERS = (1, 2)  # threads of each rank, of the table "workers"
PEER_NAMES = ("openmpi", "openmpi-ucx", "mpich", "gloo", "ucc", "oneccl", "torch-gloo")  # "-tcp" comes behind some


@dataclasses.dataclass
class Library:
    """One way to run the drivers' loop. `command` turns a number of ranks and an empty folder into the beginning of a
    command line, which what benchmarks/peers/loop.h lists completes."""
    name: str
    what: str
    command: object
    environment: dict = dataclasses.field(default_factory=dict)
    role: str = "peer"  # own: is judged; peer: is what it is judged by; limit and copy: are no libraries
    limit: str = ""  # of an own one: the name of its limit


class Build:
    """The drivers in a CMake build folder."""

    def __init__(self, folder):
        self.folder = folder
        self.tutti = os.path.join(folder, "tools", "tutti")

    def make(self, *targets):
        if not shutil.which("cmake"):
            sys.exit(f"{PROGRAM}: cmake is not installed; `tools/dev install-deps` installs it")
        if not os.path.exists(os.path.join(self.folder, "CMakeCache.txt")):
            sys.exit(f"{PROGRAM}: {self.folder} is no build folder; `tools/dev build release` makes one, "
                     "--build names another")
        configure = ["cmake", self.folder]  # finds what was installed since
        for command in (configure, ["cmake", "--build", self.folder, "--target", *targets]):
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)

    def kind(self):
        """CMake's name for how it is compiled, such as Release; "unknown" where it is no build folder of CMake's."""
        try:
            with open(os.path.join(self.folder, "CMakeCache.txt"), encoding="utf-8") as cache:
                found = [line.split("=", 1)[1].strip() for line in cache if line.startswith("CMAKE_BUILD_TYPE:")]
        except OSError:
            found = []
        return "".join(found) or "unknown"

    def driver(self, name):
        path = os.path.join(self.folder, "benchmarks", "peers", f"peer_{name}")
        return path if os.path.exists(path) else None

    def under_tutti_run(self, *command):
        """For a command that takes rank, size and an empty folder as its first arguments."""
        return lambda ranks, folder: [self.tutti, "run", "-n", str(ranks), "--no-prefix", "--", "sh", "-c",
                                      f'exec {shlex.join(command)} "$TUTTI_RANK" "$TUTTI_SIZE" "$@"', "sh", folder]


def tutti(build, name, what, memory="malloc", limit="", **environment):
    def command(ranks, _):
        return [build.tutti, "run", "-n", str(ranks), "--no-prefix", build.driver("tutti"), memory]
    # As others it is measured as it is when it is installed, whatever `tutti bench --tune` has stored here.
    environment.setdefault("TUTTI_TUNING", os.environ.get("TUTTI_TUNING", "off"))
    return Library(name, what, command, environment, "own", limit)


def limit(build, name, what, kind):
    return Library(name, what, lambda ranks, _: [build.driver("limit"), kind, str(ranks)], role="limit")


def open_mpi(build, name, what, *flags):
    def command(ranks, _):
        crowd = ["--oversubscribe"] if ranks > CORES else []
        return ["mpirun.openmpi", *crowd, *flags, "-n", str(ranks), build.driver("openmpi")]
    return Library(name, what, command, {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"})


def open_mpi_over_ucx(build, tcp):
    """It takes UCX by itself only where there is a network that UCX was made for."""
    flags = ["--mca", "pml", "ucx", "--mca", "opal_common_ucx_tls", "any", "--mca", "opal_common_ucx_devices", "any"]
    if not tcp:
        return open_mpi(build, "openmpi-ucx", "Open MPI over UCX", *flags)
    return open_mpi(build, "openmpi-ucx-tcp", "Open MPI over UCX's TCP", *flags, "-x", "UCX_TLS=tcp,self")


def mpich(build, tcp):
    def command(ranks, _):
        return ["mpiexec.mpich", "-n", str(ranks), build.driver("mpich")]
    if not tcp:
        return Library("mpich", "MPICH", command)
    # Debian's is built on UCX; what ranks of one host do by themselves is switched off.
    return Library("mpich-tcp", "MPICH over UCX's TCP", command, {"MPIR_CVAR_NOLOCAL": "1", "UCX_TLS": "tcp,self"})


@functools.cache
def torch_version(python):
    """None where it has no torch."""
    try:
        done = subprocess.run([python, "-c", "import torch; print(torch.__version__)"], capture_output=True, text=True,
                              check=False)
    except OSError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def torch_gloo(build, python):
    """The library, or None where `python` has no torch."""
    version = torch_version(python)
    if version is None:
        return None
    return Library("torch-gloo", f"Gloo inside torch {version}, in place, over TCP",
                   build.under_tutti_run(python, os.path.join(PEERS, "torch_gloo.py")))


def own(build, table):
    if table == "tcp":
        return [tutti(build, "tutti-tcp", "tutti over TCP", TUTTI_TRANSPORT="tcp")]
    return [tutti(build, "tutti", "tutti on malloc memory", limit="limit"),
            tutti(build, "tutti-mem", "tutti on memory from tutti_mem_alloc()", "tutti", limit="limit-mem"),
            tutti(build, "tutti-reg", "tutti on malloc memory that is registered", "registered", limit="limit-mem")]


def workers(build):
    """tutti with so many threads of each rank for large calls, on memory of two kinds."""
    return [tutti(build, f"{name}-{count}", f"tutti {memory_text}, TUTTI_WORKERS={count}", memory,
                  TUTTI_WORKERS=str(count))
            for name, memory, memory_text in (("malloc", "malloc", "on malloc memory"),
                                              ("mem", "tutti", "on memory from tutti_mem_alloc()"))
            for count in WORKERS]


def limits(build):
    return [limit(build, "limit", "what a bare program reaches on malloc memory, without a library", "private"),
            limit(build, "limit-mem", "what a bare program reaches on memory that all ranks have mapped", "mapped")]


def copy():
    return Library("copy", "memory copies of as many bytes on as many ranks at once",
                   lambda ranks, _: [sys.executable, os.path.join(PEERS, "memory_copy.py"), str(ranks)], role="copy")


def peers(build, table, arguments):
    """Other libraries for a table ("shm", "tcp" or "startup"), and sentences about those that are missing."""
    found, missing = installed(build, table, arguments.torch_python)
    left_out = [library for library in found if library.name.removesuffix("-tcp") in arguments.without]
    return ([library for library in found if library not in left_out],
            missing + [f"{library.name}, as --without says" for library in left_out])


def installed(build, table, python):
    """The same, whatever the flags leave out."""
    tcp = table == "tcp"
    over_tcp = " over TCP" if tcp else ""
    tcp_name = "-tcp" if tcp else ""
    found, missing = [], []

    def add(driver, library, otherwise):
        if build.driver(driver):
            found.append(library)
        else:
            missing.append(otherwise)

    add("openmpi",
        open_mpi(build, "openmpi" + tcp_name, "Open MPI" + over_tcp,
                 *(["--mca", "pml", "ob1", "--mca", "btl", "tcp,self"] if tcp else [])),
        "Open MPI is not installed (Debian: openmpi-bin, libopenmpi-dev)")
    if build.driver("openmpi") and table != "startup":
        found.append(open_mpi_over_ucx(build, tcp))
    add("mpich", mpich(build, tcp), "MPICH is not installed (Debian: mpich, libmpich-dev)")
    add("gloo", Library("gloo", "Gloo of the system, over TCP (it has no shared memory)",
                        build.under_tutti_run(build.driver("gloo") or "")),
        "Gloo is not installed (Debian: libgloo-dev)")
    add("ucc", Library("ucc" + tcp_name, "UCC" + over_tcp, build.under_tutti_run(build.driver("ucc") or ""),
                       {"UCX_TLS": "tcp,self"} if tcp else {}),
        "UCC is not installed (source: github.com/openucx/ucc; cmake -DTUTTI_UCC_ROOT=PREFIX finds it)")
    add("oneccl", Library("oneccl" + tcp_name, "oneCCL" + over_tcp, build.under_tutti_run(build.driver("oneccl") or ""),
                          {"CCL_ATL_SHM": "0"} if tcp else {}),
        "oneCCL is not installed (pip: oneccl-devel==2021.15.0; cmake -DTUTTI_ONECCL_ROOT=VENV finds it)")
    if table == "startup":
        missing.append("torch, as it starts with Python's own start-up and memory")
    elif library := torch_gloo(build, python):
        found.append(library)
    else:
        missing.append(f"torch cannot be imported by {python} (pip: torch; --torch-python names another Python)")
    return found, missing


def contest(build, table, collective, arguments):
    """The libraries of one table, tutti's own first, and sentences about those that are missing."""
    if table == "workers":
        return workers(build), []
    others, missing = peers(build, table, arguments)
    libraries = own(build, table) + others
    if table == "shm" and collective == "all_reduce":
        libraries += limits(build)
        if arguments.baseline or arguments.write_baseline:
            libraries.append(copy())
    elif table == "shm":
        missing.append("the limit is measured for all_reduce alone")
    return libraries, missing
