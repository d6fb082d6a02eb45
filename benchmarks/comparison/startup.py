"""The table of what a library costs before and beside its calls: time to start up, and memory."""

import dataclasses

from comparison import libraries as lib
from comparison import rounds
from comparison.table import cell, median_text, print_about

RANKS = 2
MANY_RANKS = 64
SIZE = 64 << 20
FIGURES = ("seconds", "peak_mib", "share_mib")


@dataclasses.dataclass
class Row:
    library: object
    ranks: int
    result: object


def measured(library, ranks):
    """Figures of one run; no memory with many ranks, whose buffers would fill the machine's."""
    _, seconds = rounds.output_of(library, ranks, "nothing")
    if ranks > RANKS:
        return {"seconds": seconds}
    lines, _ = rounds.output_of(library, ranks, "memory", 0, SIZE)
    if len(lines) != 1:
        raise RuntimeError("did not measure its memory")
    _, peak_kib, share_kib = lines[0]
    return {"seconds": seconds, "peak_mib": float(peak_kib) / 1024, "share_mib": float(share_kib) / 1024}


def contest(build, arguments):
    """tutti's own, the others, and sentences about libraries that are missing."""
    return lib.own(build, "shm"), *lib.peers(build, "startup", arguments)


def duration_s(build, arguments):
    """Roughly how long measure() takes."""
    own, peers, _ = contest(build, arguments)
    return arguments.rounds * (len(own + peers) * 0.3 + 0.4)


def measure(build, arguments):
    """Rows, and sentences about libraries that are missing."""
    own, peers, missing = contest(build, arguments)
    rows = []
    for ranks, libraries in ((RANKS, own + peers), (MANY_RANKS, own[:1])):
        results = rounds.run_rounds(libraries, arguments.rounds, f"start-up, {ranks} ranks",
                                    lambda library, ranks=ranks: measured(library, ranks))
        rows += [Row(library, ranks, results[library.name]) for library in libraries]
    return rows, missing


def print_table(rows, missing, number_of_rounds):
    results = {row.library.name: row.result for row in reversed(rows)}  # of 2 ranks, which come first
    print_about(f"Start-up and memory on {lib.CORES} cores: {median_text(number_of_rounds)}",
                [row.library for row in rows if row.ranks == RANKS], results, missing)
    print("  seconds: from launching to the end of a program that makes a communicator and destroys it\n"
          "  peak MiB: the most memory of a rank in an all-reduce of 64 MiB, beyond the two buffers and what the\n"
          "            process had when it was started; pages that several ranks touch count in each\n"
          "  share MiB: the same after the calls, where a page of k ranks counts a k-th in each\n")
    print(f"{'library':<12} {'ranks':>5} {'seconds':>16} {'peak MiB':>16} {'share MiB':>16}")
    for row in rows:
        cells = [cell(row.result, figure, digits) for figure, digits in zip(FIGURES, (3, 1, 1))]
        print(f"{row.library.name:<12} {row.ranks:>5} {' '.join(cells)}".rstrip())


def table_json(rows, missing):
    return {"table": "startup", "missing": missing, "size_bytes": SIZE, "rows": [
        {"library": row.library.name, "ranks": row.ranks, "failure": row.result.failure,
         **{figure: {"median": row.result.median(figure), "spread": row.result.spread(figure),
                     "rounds": row.result.of(figure)} for figure in FIGURES}} for row in rows]}
