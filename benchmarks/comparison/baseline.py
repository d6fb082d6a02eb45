"""Ratios of an earlier run, and how those of this run compare with them.

Times differ from machine to machine and from day to day; the ratio of tutti's time to another one of the same run
differs less. A baseline has the ratios of each own library to each peer, to its limit and to a memory copy.
"""

import json

from comparison.table import WHERE, size_text

NOISE = 0.25  # a difference that is not called one; on a busy machine ratios of short runs differ by more
COPY_FROM_BYTES = 64 << 10  # a smaller copy takes no longer than calling it
REMEDY = "`benchmarks/compare --quick --write-baseline FILE` makes one"
ABOUT = "tutti's time over the time of what is named, by library and size, in one run; below 1 tutti is faster"
WORDS = ("best peer", "limit", "copy")  # headings of the report
KEYS = ("collective", "table", "ranks", "library", "size_bytes")


class Unusable(Exception):
    """The file is no baseline, or there is nothing for one; the text is one sentence."""


def number_text(number):
    """As on the command line: 8, 64K, 16M."""
    for shift, unit in ((20, "M"), (10, "K")):
        if number % (1 << shift) == 0:
            return f"{number >> shift}{unit}"
    return str(number)


def command_of(arguments):
    """The command line that measures the same again."""
    return (f"benchmarks/compare --collective {','.join(arguments.collective)} --tables {','.join(arguments.tables)} "
            f"--ranks {','.join(map(str, arguments.ranks))} --sizes {','.join(map(number_text, arguments.sizes))} "
            f"--rounds {arguments.rounds} --seconds {arguments.seconds:g}"
            + (f" --without {','.join(arguments.without)}" if arguments.without else "")
            + (f" --line-ns {arguments.line_ns[0]:g}-{arguments.line_ns[1]:g}" if arguments.line_ns else ""))


def references(table, library):
    """Names of what the library is compared with, by what is written for it."""
    named = {peer.name: peer.name for peer in table.with_role("peer")}
    if library.limit in table.results:
        named["limit"] = library.limit
    named.update({copy.name: copy.name for copy in table.with_role("copy")})
    return named


def rows_of(table):
    """Ratios of one table, a dictionary for each own library and size, of those that have all rounds."""
    for library in table.with_role("own"):
        for size in table.sizes:
            ratios = {word: table.ratio(library, size, table.results[name].median(size))
                      for word, name in references(table, library).items()
                      if (word != "copy" or size >= COPY_FROM_BYTES) and
                      not table.results[library.name].missed and not table.results[name].missed}
            ratios = {word: float(f"{ratio:.3g}") for word, ratio in ratios.items() if ratio is not None}
            if ratios:
                values = (table.collective, table.table, table.ranks, library.name, size)
                yield {**dict(zip(KEYS, values)), "ratios": ratios}


def key_of(row):
    return tuple(row[key] for key in KEYS)


# ---- The file


def write(path, tables, about, arguments):
    rows = [f"  {json.dumps(row)}" for table in tables for row in rows_of(table)]
    if not rows:
        raise Unusable("--write-baseline: there is no ratio to a peer or a limit in which both have all rounds; "
                       f"{path} stays as it was")
    head = {"about": ABOUT, "command": command_of(arguments), "date": about["date"][:10], "cpu": about["cpu"],
            "cores": about["cores"], "load": round(about["load"], 1), "build": about["build"]}
    lines = [f" {json.dumps(name)}: {json.dumps(value)}," for name, value in head.items()]
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(["{", *lines, ' "rows": [', ",\n".join(rows), " ]", "}", ""]))


def is_row(row):
    return (isinstance(row, dict) and all(isinstance(row.get(key), (str, int)) for key in KEYS) and
            isinstance(row.get("ratios"), dict) and
            all(isinstance(ratio, (int, float)) and ratio > 0 for ratio in row["ratios"].values()))


def read(path):
    try:
        with open(path, encoding="utf-8") as file:
            baseline = json.load(file)
    except OSError as absent:
        raise Unusable(f"the baseline {path} cannot be read: {absent.strerror}; {REMEDY}") from absent
    except (ValueError, RecursionError) as wrong:
        raise Unusable(f"{path} is no baseline: it is no JSON ({wrong}); {REMEDY}") from wrong
    if not isinstance(baseline, dict):
        raise Unusable(f"{path} is no baseline: it has no object; {REMEDY}")
    for name, fits in (("command", str), ("date", str), ("cpu", str), ("load", (int, float)), ("build", str),
                       ("rows", list)):
        if not isinstance(baseline.get(name), fits):
            raise Unusable(f"{path} is no baseline: it has no {name}; {REMEDY}")
    if not all(map(is_row, baseline["rows"])):
        raise Unusable(f"{path} is no baseline: a row of it has no {', '.join(KEYS)} or ratios; {REMEDY}")
    return baseline


# ---- The report


def verdict(now, then):
    if now > then * (1 + NOISE):
        return "worse"
    return "better" if now * (1 + NOISE) < then else "alike"


def pairs_of(now, then):
    """Ratios that both runs have, this run's and the earlier one's, by heading. Of the peers that both have the best is
    that to which the ratio is largest."""
    both = now.keys() & then.keys()
    peers = both - set(WORDS)
    found = {"best peer": (max(now[peer] for peer in peers), max(then[peer] for peer in peers))} if peers else {}
    return {**found, **{word: (now[word], then[word]) for word in WORDS if word in both}}


def print_report(baseline, tables, about):
    print(f"\nBeside the baseline of {baseline['date']}, measured on {baseline['cpu']}, load {baseline['load']}, "
          f"{baseline['build']} build, with\n"
          f"  {baseline['command']}\n"
          f"tutti's time over others' of the same run, now and then: better or worse if they differ by more than "
          f"{NOISE:.0%}, else\nalike. One run beside other work decides nothing.")
    if about["build"] != baseline["build"]:
        print(f"This is a {about['build']} build: that alone may make small sizes slower or quicker.")
    earlier = {key_of(row): row["ratios"] for row in baseline["rows"]}
    verdicts = []
    for table in tables:
        rows = [(row, earlier.get(key_of(row), {})) for row in rows_of(table)]
        peers = [peer.name for peer in table.with_role("peer") if any(peer.name in then for _, then in rows)]
        rows = [(row, pairs_of(row["ratios"], then)) for row, then in rows]
        print(f"\n{table.collective}, {table.ranks} ranks, {WHERE[table.table]}; peers that both runs have: "
              f"{', '.join(peers) or 'none'}")
        print_rows([(row, pairs) for row, pairs in rows if pairs], verdicts)
    print("\n" + ", ".join(f"{verdicts.count(word)} {word}" for word in ("better", "alike", "worse")))


def print_rows(rows, verdicts):
    if not rows:
        print("  nothing to compare: the baseline has other sizes or libraries, or not this table, or some lack rounds")
        return
    words = [word for word in WORDS if any(word in pairs for _, pairs in rows)]
    print(f"{'library':<10} {'size':>8}" + "".join(f"   {word:>9} {'then':>6} {'':<6}" for word in words).rstrip())
    for row, pairs in rows:
        line = f"{row['library']:<10} {size_text(row['size_bytes']):>8}"
        for word in words:
            if word in pairs:
                now, then = pairs[word]
                verdicts.append(verdict(now, then))
                line += f"   {now:9.2f} {then:6.2f} {verdicts[-1]:<6}"
            else:
                line += f"   {'-':>9} {'-':>6} {'':<6}"
        print(line.rstrip())
