"""What the Python commands of benchmarks/ share: arguments, the build folder, and which machine this is."""

import argparse
import os
import platform
import time

from comparison import libraries

REPOSITORY = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


class Parser(argparse.ArgumentParser):
    """Says what is wrong in one line."""

    def error(self, message):
        self.exit(2, f"{self.prog}: {message}; see --help\n")


def default_build():
    for name in ("release", "dev"):
        folder = os.path.join(REPOSITORY, "build", name)
        if os.path.exists(os.path.join(folder, "CMakeCache.txt")):
            return folder
    return os.path.join(REPOSITORY, "build", "release")


def number(text):
    units = {"K": 10, "M": 20, "G": 30}
    shift = units.get(text[-1:].upper())
    digits = text if shift is None else text[:-1]
    if not (digits.isascii() and digits.isdigit()):
        raise argparse.ArgumentTypeError(f"'{text}' is no number such as 8, 64K or 1M")
    return int(digits) << (shift or 0)


def numbers(text):
    return [number(word) for word in text.split(",")]


def sizes(text):
    found = sorted(set(numbers(text)))
    for size in found:
        if size == 0 or size % 4:
            raise argparse.ArgumentTypeError(f"{size} bytes are no floats: a size is a multiple of 4")
    return found


def span(text):
    """Two numbers."""
    low, _, high = text.partition("-")
    try:
        found = (float(low), float(high))
    except ValueError:
        found = (1.0, 0.0)
    if not 0 <= found[0] <= found[1]:
        raise argparse.ArgumentTypeError(f"'{text}' is not two numbers such as 0-60")
    return found


def choices(known):
    def parse(text):
        words = text.split(",")
        for word in words:
            if word not in known:
                raise argparse.ArgumentTypeError(f"'{word}' is none of {', '.join(known)}")
        return list(dict.fromkeys(words))
    return parse


def writable(path):
    folder = os.path.dirname(os.path.abspath(path))
    if os.path.isdir(path) or not os.access(folder, os.W_OK):
        raise argparse.ArgumentTypeError(f"{path} cannot be written")
    return path


def machine(build):
    """What the figures are of: this machine, now, and the kind of build."""
    model = platform.processor()
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            model = next((line.split(":", 1)[1].strip() for line in file if line.startswith("model name")), model)
    except OSError:
        pass
    return {"cpu": model, "cores": libraries.CORES, "kernel": platform.release(), "load": os.getloadavg()[0],
            "build": build.kind(), "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}


def print_title(about):
    """Prints and returns one line about machine()'s figures, and warns where it is busy."""
    title = (f"{about['cpu']}, {about['cores']} cores, Linux {about['kernel']}, load {about['load']:.2f}, "
             f"{about['build']} build, {about['date']}")
    print(title)
    if about["load"] > 0.5:
        print("This machine has other work to do (see the load): the figures will be unsteady.")
    return title
