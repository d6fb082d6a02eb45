"""What the documentation shows: its C examples compile without a warning and print what the page says, and its tables
of algorithms are what `tutti plan` says."""

import json
import os
import re
import shutil
import subprocess

import harness
import job

COMPILER, LIBRARY, SOURCES = (os.environ[name] for name in ("C_COMPILER", "TUTTI_LIBRARY", "TUTTI_SOURCES"))
PAGES_WITH_EXAMPLE = {"README.md", "docs/reductions.md", "docs/gathering.md", "docs/exchange.md", "docs/requests.md",
                      "docs/point_to_point.md", "docs/embedding.md"}
PAGES_WITH_TABLE = {"docs/reductions.md", "docs/gathering.md", "docs/exchange.md"}

FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# The first cell of the header is the command, the others are its sizes.
TABLE = re.compile(r"^\| `tutti plan --topology (\S+)` \|(.*)\|\n\|[-:| ]+\|\n((?:\|.*\|\n)+)", re.MULTILINE)


def pages():
    """(name, text) of every page, in order."""
    names = ["README.md"] + sorted(f"docs/{name}" for name in os.listdir(f"{SOURCES}/docs") if name.endswith(".md"))
    for name in names:
        with open(os.path.join(SOURCES, name), encoding="utf-8") as file:
            yield name, file.read()


def examples(text):
    """(program, the output shown after it) of every example of a page; the output is None when there is none."""
    fences = FENCE.findall(text)
    programs = [at for at, (language, content) in enumerate(fences) if language == "c" and "int main(" in content]
    for at, end in zip(programs, programs[1:] + [len(fences)]):
        outputs = (content for language, content in fences[at + 1:end] if language == "")
        yield fences[at][1], next(outputs, None)


def cells(row):
    return [cell.strip().strip("`") for cell in row.strip().strip("|").split("|")]


class Examples(job.JobTest):
    def setUp(self):
        super().setUp()
        if not shutil.which(COMPILER):
            self.skipTest(f"there is no C compiler at {COMPILER}")

    def compiled(self, text):
        source = self.file("example.c", text)
        program = os.path.join(self.folder, "example")
        folder = os.path.dirname(LIBRARY)
        built = subprocess.run([COMPILER, *os.environ.get("C_FLAGS", "").split(), "-std=c11", "-Wall", "-Wextra",
                                "-Werror", f"-I{SOURCES}/include", source, "-o", program, LIBRARY,
                                f"-Wl,-rpath,{folder}"], capture_output=True, text=True, timeout=harness.LIMIT_S)
        self.assertEqual((built.returncode, built.stderr), (0, ""))
        return program

    def check(self, page, text, shown):
        self.assertIsNotNone(shown, f"{page}: no block with the example's output follows it")
        program = self.compiled(text)
        for transport in ("shm", "tcp"):
            with self.subTest(page=page, transport=transport):
                done = self.tutti("run", "-n", 4, "--no-prefix", "--env", f"TUTTI_TRANSPORT={transport}", program)
                self.assertEqual((done.returncode, done.stderr, done.stdout), (0, "", shown))

    def test_print_what_their_page_shows(self):
        found = set()
        for page, text in pages():
            for program, shown in examples(text):
                found.add(page)
                self.check(page, program, shown)
        self.assertEqual(PAGES_WITH_EXAMPLE - found, set(), "these pages lost their example")


class Tables(job.JobTest):
    def algorithm(self, collective, size, topology):
        planned = self.tutti("plan", collective, "--bytes", size, "--topology", topology, "--json")
        self.assertEqual(planned.returncode, 0, planned)
        return json.loads(planned.stdout)["algorithm"]

    def test_name_the_algorithms_that_run(self):
        found = set()
        for page, text in pages():
            for topology, header, body in TABLE.findall(text):
                found.add(page)
                for row in body.splitlines():
                    collective, *shown = cells(row)
                    chosen = [self.algorithm(collective, size, os.path.join(SOURCES, topology))
                              for size in cells(header)]
                    with self.subTest(page=page, topology=topology, collective=collective):
                        self.assertEqual(shown, chosen)
        self.assertEqual(PAGES_WITH_TABLE - found, set(), "these pages lost their table")


if __name__ == "__main__":
    job.main()
