"""One table of one collective: times by size and library, and how tutti does beside the others and its limit."""

import dataclasses
import math
import statistics

from comparison import libraries as lib
from comparison import rounds

BLOCKS = {"reduce_scatter", "all_gather", "all_to_all"}  # a size is one block for each rank
WHERE = {"shm": "shared memory", "tcp": "TCP on the loopback interface",
         "workers": "shared memory with 1 and 2 worker threads of each rank"}


@dataclasses.dataclass
class Table:
    """What was measured for one collective, one way to move data and one number of ranks."""
    table: str
    collective: str
    ranks: int
    rounds: int
    sizes: list
    libraries: list
    missing: list
    results: dict
    beside: dict  # by name of library: rounds.Processors before and after each round; shm, or what --line-ns asks for

    def with_role(self, role):
        return [library for library in self.libraries if library.role == role]

    def best_peer(self, size):
        """Name and median; None twice where there is no peer."""
        medians = {peer.name: self.results[peer.name].median(size) for peer in self.with_role("peer")}
        medians = {name: median for name, median in medians.items() if median is not None}
        best = min(medians, key=medians.get, default=None)
        return best, medians.get(best)

    def ratio(self, library, size, other):
        """The library's median over `other`; None where one of them is missing."""
        median = self.results[library.name].median(size)
        return None if median is None or not other else median / other

    def to_best(self, library, size):
        return self.ratio(library, size, self.best_peer(size)[1])

    def to_limit(self, library, size):
        limit = self.results.get(library.limit)
        return self.ratio(library, size, limit.median(size) if limit else None)

    def wins(self, library):
        ratios = [self.to_best(library, size) for size in self.sizes]
        return sum(ratio is not None and ratio < 1 for ratio in ratios)

    def compared(self, library):
        """The number of sizes at which it and a peer have a time."""
        return sum(self.to_best(library, size) is not None for size in self.sizes)


def sizes_of(collective, ranks, arguments):
    return [size for size in arguments.sizes if collective not in BLOCKS or size >= 4 * ranks]


def duration_s(build, name, collective, ranks, arguments):
    """Roughly how long measure() takes: starting, checking three calls, choosing how many are timed, warming up and
    timing."""
    start_s, calls_in_all, most_calls = 0.7, 1.4, 100_000  # of which 0.3 settle
    s_per_byte = 5e-9 * max(1, ranks / lib.CORES)
    run_s = start_s
    for size in sizes_of(collective, ranks, arguments):
        run_s += calls_in_all * min(arguments.seconds, most_calls * (2e-7 + size * 1e-10)) + size * s_per_byte
    # Limits try several ways of each size first.
    runs = sum(2 if library.role == "limit" else 1 for library in lib.contest(build, name, collective, arguments)[0])
    return runs * arguments.rounds * run_s


def measure(build, name, collective, ranks, arguments):
    """Runs all libraries of one table."""
    libraries, missing = lib.contest(build, name, collective, arguments)
    sizes = sizes_of(collective, ranks, arguments)
    probes = lib.CORES > 1 and (name != "tcp" or arguments.line_ns)
    beside = {}

    def times_of(library):
        def run():
            return rounds.times_of(library, ranks, collective, arguments.seconds, sizes)
        if not probes:
            return run()
        times, before_and_after = rounds.beside_cache_lines(build.driver("cache_line"), arguments.line_ns, run)
        if before_and_after:
            beside.setdefault(library.name, []).append(before_and_after)
        return times

    results = rounds.run_rounds(libraries, arguments.rounds, f"{collective}, {name}, {ranks} ranks", times_of)
    for library in libraries:
        if results[library.name].lacking:
            missing.append(f"{library.name} has no {collective}")
    libraries = [library for library in libraries if not results[library.name].lacking]
    return Table(name, collective, ranks, arguments.rounds, sizes, libraries, missing, results, beside)


# ---- As text


def size_text(size):
    for shift, unit in ((20, "MiB"), (10, "KiB")):
        if size >= 1 << shift and size % (1 << shift) == 0:
            return f"{size >> shift} {unit}"
    return f"{size} B"


def cell(result, key, digits=2):
    """Median and spread, such as "16.50 ±3%", 16 wide."""
    median, spread = result.median(key), result.spread(key)
    if median is None:
        return f"{'-':>16}"
    percent = 0 if not spread else 100 * spread / abs(median) if median else math.inf
    spread_text = "" if spread is None else f"±{percent:.0f}%" if percent < 1000 else ">999%"
    return f"{median:10.{digits}f} {spread_text:>5}"


def median_text(number, is_most=False):
    """What a cell has in a table of so many rounds, or of at most so many."""
    if number == 1:
        return "one round"
    return f"median of {'up to ' if is_most else ''}{number} rounds ± half the range of the middle half"


def ratio_text(ratio, judged):
    if ratio is None:
        return f"{'-':>14}"
    verdict = ("win" if ratio < 1 else "LOSS") if judged else ""
    return f"{ratio:9.2f} {verdict:<4}"


def print_about(heading, libraries, results, missing):
    print(f"\n{heading}")
    for library in libraries:
        remark = results[library.name].remark()
        print(f"  {library.name}: {library.what}{'; ' + remark if remark else ''}")
    for sentence in missing:
        print(f"  left out: {sentence}")


def print_heading(table):
    print_about(f"{table.collective}, {table.ranks} ranks on {lib.CORES} cores, {WHERE[table.table]}: microseconds, "
                f"{median_text(table.rounds, any(table.results[each.name].missed for each in table.libraries))}",
                table.libraries, table.results, table.missing)


def print_table(table):
    print_heading(table)
    if table.table == "workers":
        print_workers(table)
        return
    own = table.with_role("own")
    limited = [library for library in own if library.limit in table.results]
    heads = [f"{library.name:>16}" for library in table.libraries] + [f"{'best peer':>12}"]
    heads += [f"{library.name + '/best':>14}" for library in own]
    heads += [f"{library.name + '/limit':>15}" for library in limited]
    print(f"\n{'size':>8} " + " ".join(heads))
    for size in table.sizes:
        cells = [cell(table.results[library.name], size) for library in table.libraries]
        cells += [f"{table.best_peer(size)[0] or '-':>12}"]
        cells += [ratio_text(table.to_best(library, size), True) for library in own]
        cells += [ratio_text(table.to_limit(library, size), False) for library in limited]
        print((f"{size_text(size):>8} " + " ".join(cells)).rstrip())
    print_cache_lines(table)
    for library in own:
        if table.compared(library):
            print(f"{library.name} is faster than every peer at {table.wins(library)} of {table.compared(library)} "
                  "sizes")


def print_workers(table):
    """Each kind of memory with one worker, with two, and the ratio of the second to the first."""
    pairs = list(zip(table.libraries[::2], table.libraries[1::2]))
    print(f"\n{'size':>8} " + " ".join(f"{one.name:>16} {two.name:>16} {two.name + '/1':>14}" for one, two in pairs))
    for size in table.sizes:
        cells = [f"{cell(table.results[one.name], size)} {cell(table.results[two.name], size)} "
                 f"{ratio_text(table.ratio(two, size, table.results[one.name].median(size)), False)}"
                 for one, two in pairs]
        print(f"{size_text(size):>8} {' '.join(cells)}".rstrip())
    print_cache_lines(table)


def print_cache_lines(table):
    """How far apart the cores were beside the rounds of each library: a virtual machine's may move."""
    beside = {library.name: table.beside[library.name] for library in table.libraries if library.name in table.beside}
    if not beside:
        return
    all_ns = {name: sorted(at.line_ns for pair in pairs for at in pair) for name, pairs in beside.items()}
    print("\na cache line from core to core before and after each round, ns, median (least to most):")
    print("  " + ", ".join(f"{name} {statistics.median(ns):.0f} ({ns[0]:.0f} to {ns[-1]:.0f})"
                           for name, ns in all_ns.items()))
    of_one_core = {name: sum(any(at.are_one_core() for at in pair) for pair in pairs)
                   for name, pairs in beside.items()}
    if any(of_one_core.values()):
        print("rounds before or after which the two processors were threads of one core, which have half of it each:")
        print("  " + ", ".join(f"{name} {number} of {len(beside[name])}"
                               for name, number in of_one_core.items() if number))


# ---- As JSON


def libraries_json(libraries, results):
    return [{"name": library.name, "what": library.what, "role": library.role,
             "failure": results[library.name].failure, "missed": results[library.name].missed,
             "rounds": {str(key): figures for key, figures in results[library.name].figures.items()}}
            for library in libraries]


def figures_json(libraries, results, key):
    return {library.name: {"median": results[library.name].median(key), "spread": results[library.name].spread(key)}
            for library in libraries}


def beside_json(table, figure):
    """By library, a pair for each round."""
    return {name: [[getattr(at, figure) for at in pair] for pair in pairs] for name, pairs in table.beside.items()}


def table_json(table):
    rows = []
    for size in table.sizes:
        best, best_us = table.best_peer(size)
        rows.append({
            "size_bytes": size, "best_peer": best, "best_peer_us": best_us,
            "microseconds": figures_json(table.libraries, table.results, size),
            "to_best": {library.name: table.to_best(library, size) for library in table.with_role("own")},
            "to_limit": {library.name: table.to_limit(library, size) for library in table.with_role("own")}})
    return {"table": table.table, "collective": table.collective, "ranks": table.ranks, "missing": table.missing,
            "rows": rows, "cache_line_ns": beside_json(table, "line_ns"),
            "both_at_once": beside_json(table, "both_at_once"),
            "libraries": libraries_json(table.libraries, table.results)}
