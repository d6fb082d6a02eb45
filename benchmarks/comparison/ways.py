"""The table of `benchmarks/network --ways`: ways to move messages over TCP, each beside the plain one of its round."""

import dataclasses
import os
import shutil
import socket
import statistics
import subprocess

from comparison import rounds
from comparison import two_hosts as net
from comparison.table import median_text, size_text

SIZES = [4 << 10, 64 << 10, 1 << 20, 16 << 20, 64 << 20]
SECONDS = 0.2
LEAST_BYTES = 16
DIRECTIONS = {"one-way": "one direction: a message, and 8 bytes back",
              "both-ways": "both directions at once: a message each way"}
PLAIN = "plain"
LOOPBACK = "127.0.0.1"
PORT = "29502"  # in namespaces of their own it is free
LACKING = 69  # kLacking of benchmarks/peers/stream_ways.c


class Lacking(Exception):
    """This machine does not have the way."""


@dataclasses.dataclass
class Way:
    """Its figures' keys are (direction, size, "us"), "cpu" for nanoseconds of processor time per byte, "copied" for the
    share of zero-copy sends that the kernel copied after all."""
    name: str
    what: str


def listed(program):
    """The ways that the program knows, the plain one first."""
    done = subprocess.run([program, "list"], capture_output=True, text=True, stdin=subprocess.DEVNULL, check=True)
    return [Way(*line.split(" ", 1)) for line in done.stdout.splitlines()]


def halves_of_the_cores():
    """The words before a command that keep it on one half, and on the other. Raises net.Unavailable."""
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        raise net.Unavailable("there is one core, so that --apart has no second one for the other end")
    if not shutil.which("taskset"):
        raise net.Unavailable("taskset is not installed (Debian: util-linux)")
    middle = len(cores) // 2
    return [["taskset", "-c", ",".join(map(str, half))] for half in (cores[:middle], cores[middle:])]


def free_port(address):
    with socket.socket() as listener:
        listener.bind((address, 0))
        return str(listener.getsockname()[1])


@dataclasses.dataclass
class Path:
    """How the two ends of a measurement are started: `ends` are the words before either's command."""
    program: str
    address: str
    ends: list

    def commands(self, words):
        if not any(self.ends):
            return [[self.program, "local", *words]]  # which finds a free port
        port = free_port(self.address) if self.address == LOOPBACK else PORT
        return [[*end, self.program, side, self.address, port, *words]
                for end, side in zip(self.ends, ("listen", "connect"))]


def path_of(program, hosts, apart):
    """`hosts` is None for the loopback interface. With `apart` each end keeps to its half of the cores."""
    halves = halves_of_the_cores() if apart else [[], []]
    ends = [[*host, *half] for host, half in zip(hosts or [[], []], halves)]
    return Path(program, net.ADDRESSES[0] if hosts else LOOPBACK, ends)


def measure(path, way, arguments):
    """One way in both directions. Raises RuntimeError and Lacking."""
    figures = {}
    for direction in DIRECTIONS:
        words = [way.name, direction, str(arguments.seconds), *map(str, arguments.sizes)]
        try:
            outputs = rounds.outputs_of_all(path.commands(words))
        except rounds.Ended as end:
            if end.status == LACKING:
                raise Lacking(end.last.rsplit(": ", 1)[-1]) from end
            raise
        lines = [line.split() for output in outputs for line in output.splitlines()]
        for size, _, microseconds, nanoseconds, wrong, lent, copied in lines:
            if int(wrong):
                raise RuntimeError(f"gave {wrong} wrong words at {size} bytes, {direction}")
            key = direction, int(size)
            figures[(*key, "us")] = float(microseconds)
            figures[(*key, "cpu")] = float(nanoseconds)
            if int(lent):
                figures[(*key, "copied")] = int(copied) / int(lent)
        if [int(line[0]) for line in lines] != arguments.sizes:
            raise RuntimeError("did not measure every size")
    return figures


def run(path, arguments):
    """Ways, results by name, and sentences about the ways that are missing."""
    missing = {}

    def measured(way):
        try:
            return measure(path, way, arguments)
        except Lacking as why:
            missing[way.name] = str(why)
            raise RuntimeError("is missing") from why
    ways = listed(path.program)
    results = rounds.run_rounds(ways, arguments.rounds, "ways", measured)
    return [way for way in ways if way.name not in missing], results, missing


# ---- The report


def ratios(results, way, key):
    """To the plain way of the same round; none where one of them has failed."""
    return [figure / plain for figure, plain in zip(results[way.name].of(key), results[PLAIN].of(key)) if plain]


def ratio_text(results, way, key):
    found = ratios(results, way, key)
    return f"{statistics.median(found):5.2f}" if found else f"{'-':>5}"


def cell(results, way, key, digits):
    """Median, spread and ratio, such as "1034.2 ±3%  0.98", 22 wide."""
    median, spread = results[way.name].median(key), results[way.name].spread(key)
    if median is None:
        return f"{'-':>22}"
    percent = "" if spread is None or not median else f"±{min(999, 100 * spread / median):.0f}%"
    return f"{median:10.{digits}f} {percent:>5} {ratio_text(results, way, key)}"


def print_table(heading, direction, unit, digits, ways, results, sizes):
    print(f"\n{heading}\n\n{'way':<14}" + "".join(f"{size_text(size):>22}" for size in sizes))
    for way in ways:
        cells = [cell(results, way, (direction, size, unit), digits) for size in sizes]
        print((f"{way.name:<14}" + "".join(cells)).rstrip())


def print_report(where, ways, results, missing, arguments):
    print(f"\n{where}\nEach figure: {median_text(arguments.rounds)}, and the median ratio to the {PLAIN} way of the "
          "same round\n")
    for way in ways:
        failure = results[way.name].failure
        print(f"  {way.name}: {way.what}{'; ' + failure if failure else ''}")
    for name, why in missing.items():
        print(f"  left out: {name}: {why}")
    for direction, text in DIRECTIONS.items():
        print_table(f"{text}: microseconds", direction, "us", 1, ways, results, arguments.sizes)
        print_table(f"{text}: nanoseconds of processor time per byte, both processes", direction, "cpu", 3, ways,
                    results, arguments.sizes)
    print()
    for way in ways:
        shares = [figure for (*_, unit), figures in results[way.name].figures.items() if unit == "copied"
                  for figure in figures]
        if shares:
            print(f"{way.name}: the kernel copied {100 * statistics.mean(shares):.0f}% of what was lent to it after "
                  "all")


def report_json(ways, results, missing, arguments):
    def figures(way, direction, size):
        row = {"direction": direction, "size_bytes": size}
        for unit, name in (("us", "microseconds"), ("cpu", "processor_ns_per_byte")):
            key = direction, size, unit
            found = ratios(results, way, key)
            row[name] = {"median": results[way.name].median(key), "spread": results[way.name].spread(key),
                         "rounds": results[way.name].of(key), "to_plain": statistics.median(found) if found else None}
        row["copied"] = results[way.name].median((direction, size, "copied"))
        return row
    return {"missing": missing,
            "ways": [{"name": way.name, "what": way.what, "failure": results[way.name].failure,
                      "rows": [figures(way, direction, size) for direction in DIRECTIONS for size in arguments.sizes]}
                     for way in ways]}
