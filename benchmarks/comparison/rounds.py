"""Runs libraries in rounds, in turn, and keeps what they measured."""

import dataclasses
import os
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time
import typing

RUN_LIMIT_S = 900
PAIR_LIMIT_S = 300
LINE_LIMIT_S = 120  # in which a virtual machine's cores come as near as wanted, if ever
MISSES_TO_STOP = 3  # tries one after the other for which they did not
ONE_CORE = 1.5  # times as long on both at once: two cores take about 1, two threads of one core about 2
# Some libraries have warnings to say, also on the standard output.
FIGURES = re.compile(r"[0-9]+( -?[0-9.]+)+")
NO_SUCH_COLLECTIVE = 69  # kNoSuchCollective of benchmarks/peers/loop.h


class NoSuchCollective(Exception):
    """The library has none."""


class NoSuchTime(Exception):
    """The processors were never as near each other as was asked for, or nothing says how near they were."""


class Ended(RuntimeError):
    """A program failed; `last` is the last line of what it had to say."""

    def __init__(self, status, complaint):
        self.status = status
        self.last = (complaint.strip().splitlines() or ["it said nothing"])[-1]
        super().__init__(f"ended with status {status}: {self.last}")


class Processors(typing.NamedTuple):
    """How near two processors were at a time (benchmarks/peers/cache_line.c)."""
    line_ns: float  # a cache line from one to the other
    both_at_once: float  # how many times as long a loop takes on both at once as on one alone

    def are_one_core(self):
        return self.both_at_once >= ONE_CORE


@dataclasses.dataclass
class Result:
    """Figures by key, such as a size, one for each round; or why there are none."""
    rounds: int  # that were asked for
    figures: dict = dataclasses.field(default_factory=dict)
    failure: str = ""
    lacking: bool = False  # the failure is that the library has no such collective
    missed: str = ""  # why some rounds have no figures, though the library has not failed

    def of(self, key):
        return [] if self.failure else self.figures.get(key, [])

    def measured(self):
        """The number of rounds that have figures."""
        return 0 if self.failure else max(map(len, self.figures.values()), default=0)

    def remark(self):
        """What there is to say besides the figures, or ""."""
        if self.failure or not self.missed:
            return self.failure
        return f"{self.measured()} of {self.rounds} rounds: {self.missed}"

    def median(self, key):
        return statistics.median(self.of(key)) if self.of(key) else None

    def spread(self, key):
        """Half the range of the middle half of the rounds; None for a single round."""
        if len(self.of(key)) < 2:
            return None
        lower, _, upper = statistics.quantiles(self.of(key), n=4, method="inclusive")
        return (upper - lower) / 2


def output_of(library, ranks, *arguments):
    """The figures that rank 0 of the library's driver prints, line by line, and the seconds from its launch to its end.
    Raises RuntimeError with one sentence, and NoSuchCollective."""
    with tempfile.TemporaryDirectory(prefix="tutti-compare-") as folder:
        command = [*library.command(ranks, folder), *map(str, arguments)]
        start = time.perf_counter()
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=RUN_LIMIT_S, check=False,
                                  stdin=subprocess.DEVNULL, env=dict(os.environ, **library.environment))
        except subprocess.TimeoutExpired as late:
            raise RuntimeError(f"did not finish within {RUN_LIMIT_S} s") from late
        except OSError as absent:
            raise RuntimeError(f"cannot be started: {absent}") from absent
        seconds = time.perf_counter() - start
    if done.returncode == NO_SUCH_COLLECTIVE:
        raise NoSuchCollective
    if done.returncode != 0:
        raise Ended(done.returncode, done.stderr)
    return [line.split() for line in done.stdout.splitlines() if FIGURES.fullmatch(line)], seconds


def outputs_of_all(commands, environments=None):
    """Runs the commands at once, each with more variables; returns what they print. Raises RuntimeError with one
    sentence."""
    started = [subprocess.Popen(command, env={**os.environ, **environment}, text=True, stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE)
               for command, environment in zip(commands, environments or [{}] * len(commands))]
    try:
        outputs = [process.communicate(timeout=PAIR_LIMIT_S) for process in started]
    except subprocess.TimeoutExpired as late:
        raise RuntimeError(f"did not finish within {PAIR_LIMIT_S} s") from late
    finally:
        for process in started:
            process.kill()
            process.wait()
    for process, (_, complaint) in zip(started, outputs):
        if process.returncode != 0:
            raise Ended(process.returncode, complaint)
    return [output for output, _ in outputs]


def times_of(library, ranks, collective, seconds, sizes):
    """Microseconds by size. Raises as output_of() does."""
    lines, _ = output_of(library, ranks, collective, seconds, *sizes)
    times = {}
    for size, _, microseconds, wrong in lines:
        if int(wrong):
            raise RuntimeError(f"gave {wrong} wrong elements at {size} bytes")
        times[int(size)] = float(microseconds)
    if sorted(times) != sorted(sizes):
        raise RuntimeError("did not measure every size")
    return times


def processors(driver):
    """How near they are just now. Raises RuntimeError with one sentence where the driver does not say, such as one of
    an earlier build, or none."""
    if not driver:
        raise RuntimeError("is not built")
    try:
        done = subprocess.run([driver], capture_output=True, text=True, timeout=PAIR_LIMIT_S, check=False,
                              stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired as late:
        raise RuntimeError(f"did not finish within {PAIR_LIMIT_S} s") from late
    except OSError as absent:
        raise RuntimeError(f"cannot be started: {absent}") from absent
    if done.returncode != 0:
        raise Ended(done.returncode, done.stderr)
    try:
        return Processors(*map(float, done.stdout.split()))
    except (ValueError, TypeError) as other:
        raise RuntimeError(f"printed {done.stdout.strip()!r} instead of two figures") from other


def beside_cache_lines(driver, wanted, run):
    """What run() returns, and the Processors before and after it (None: not measured). With `wanted`, least and most
    nanoseconds of a cache line, it runs again until both are so and on two cores. Raises NoSuchTime after
    LINE_LIMIT_S, or when that cannot be measured."""
    def now():
        try:
            return processors(driver)
        except RuntimeError as failure:
            if wanted:
                raise NoSuchTime(f"peer_cache_line {failure}") from failure
            return None

    def is_wanted(pair):
        return not wanted or (wanted[0] <= pair.line_ns <= wanted[1] and not pair.are_one_core())

    end = time.monotonic() + LINE_LIMIT_S
    while True:
        before = now()
        if is_wanted(before):
            result = run()
            after = now()
            if is_wanted(after):
                return result, (before, after) if before and after else None
        if time.monotonic() > end:
            raise NoSuchTime(f"within {LINE_LIMIT_S} s a cache line never took {wanted[0]:g} to {wanted[1]:g} ns "
                             "before and after one, between two cores, not threads of one")
        time.sleep(0.05)


def run_rounds(libraries, rounds, what, measure):
    """Results by name of library. `measure` turns a library into a dictionary of figures. Who has failed once is left
    out. Every round has another order, the same ones in every run: who runs first leaves the processors in a state.
    A try that raises NoSuchTime has no figures; MISSES_TO_STOP of them one after the other end all rounds."""
    results = {library.name: Result(rounds) for library in libraries}
    misses, sentence = 0, ""
    for number in range(rounds):
        for library in random.Random(number).sample(libraries, len(libraries)):
            result = results[library.name]
            if result.failure:
                continue
            if misses == MISSES_TO_STOP:
                result.missed = sentence
                continue
            progress(f"{what}, round {number + 1} of {rounds}: {library.name}")
            try:
                for key, figure in measure(library).items():
                    result.figures.setdefault(key, []).append(figure)
            except NoSuchTime as none:
                result.missed = sentence = str(none)
                misses += 1
                continue
            except NoSuchCollective:
                result.failure, result.lacking, result.missed = "has no such collective", True, ""
            except RuntimeError as failure:
                result.failure, result.missed = str(failure), ""
            misses = 0
    progress("")
    return results


def progress(text):
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)
