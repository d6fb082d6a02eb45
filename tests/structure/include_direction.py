#!/usr/bin/env python3
"""Folders are layers: every #include of our own goes to a layer that the including one may know.

Also: only base/config.cpp reads the environment. Usage: include_direction.py REPOSITORY
"""

import pathlib
import re
import sys

# layer -> the layers it may include besides itself. docs/architecture.md has the picture.
API = {"api"}
ALLOWED = {
    "api": set(),
    "base": API,
    "topology": API | {"base"},
    "plan": API | {"base"},
    "discovery": API | {"base", "topology"},
    "planner": API | {"base", "topology", "plan"},
    "bootstrap": API | {"base", "topology"},
    "kernels": API | {"base"},
    "transport": API | {"base", "topology"},  # the interface: transports/*.h
    "transports/common": API | {"base", "topology", "transport"},
    "device": API | {"base", "kernels"},  # what core knows of GPUs
    "cuda": API | {"base", "device", "kernels"},  # the module
    "executor": API | {"base", "plan", "kernels", "transport"},
    "nccl": API,  # the library for programs built for NCCL
    "tools": API | {"benchmarks"},
    "benchmarks": API,
}
IMPLEMENTATIONS = API | {"base", "topology", "transport", "transports/common"}  # of a transport: transports/NAME/
# A library that only these layers may see.
LIBRARIES = {
    re.compile(r"cuda|nv(ml|rtc)"): {"kernels", "cuda", "benchmarks"},
    re.compile(r"hwloc"): {"discovery"},
    re.compile(r"expat"): {"topology"},
    re.compile(r"infiniband/"): {"discovery", "transports/verbs"},
    re.compile(r"openssl/"): {"base", "bootstrap", "transports/common"},
    re.compile(r"hwy/"): {"kernels"},
}
SUFFIXES = {".h", ".hpp", ".c", ".cpp", ".cu", ".cuh", ".inl"}
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)
GETENV = re.compile(r"\b(secure_)?getenv\s*\(")


def layer_of(path):
    """The layer of a path relative to the repository; None for what is no layer (tests, build trees)."""
    parts = path.parts
    if parts[0] == "include":
        return "api"
    if parts[0] == "src" and len(parts) > 2:
        return parts[1]
    if parts[0] == "transports":
        return "transport" if len(parts) == 2 else "transports/" + parts[1]
    if parts[0] in ("kernels", "tools", "benchmarks"):
        return parts[0]
    return None


def may_include(layer, target):
    if layer == target:
        return True
    if layer == "core":
        return target not in ("tools", "benchmarks", "nccl")
    if layer.startswith("transports/"):
        return target in IMPLEMENTATIONS
    return target in ALLOWED.get(layer, set())


def resolve(root, path, name):
    """The file of ours that an include names, relative to the repository; None for a library's."""
    own = root / path.relative_to(root).parts[0]
    for folder in (path.parent, own, root / "src", root, root / "include"):
        candidate = folder / name
        if candidate.is_file():
            return candidate.resolve().relative_to(root)
    return None


def faults_of(root, path):
    relative = path.relative_to(root)
    layer = layer_of(relative)
    text = path.read_text(encoding="utf-8")
    for match in INCLUDE.finditer(text):
        line = text.count("\n", 0, match.start(1)) + 1
        name = match[2]
        target = resolve(root, path, name)
        if target is None:
            if match[1] == '"':
                yield f'{relative}:{line}: "{name}" is no file of this repository; a library\'s header goes in <>'
            for pattern, layers in LIBRARIES.items():
                if pattern.match(name) and layer not in layers:
                    yield f"{relative}:{line}: {layer} may not see <{name}>; only {', '.join(sorted(layers))} may"
            continue
        if not may_include(layer, layer_of(target)):
            yield f"{relative}:{line}: {layer} may not include {target} ({layer_of(target)})"
    if str(relative) != "src/base/config.cpp":
        for match in GETENV.finditer(text):
            line = text.count("\n", 0, match.start()) + 1
            yield (f"{relative}:{line}: only src/base/config.cpp reads the environment; "
                   "use environment() of base/config.h")


def main():
    root = pathlib.Path(sys.argv[1]).resolve()
    files = [
        path
        for folder in ("include", "src", "transports", "kernels", "tools", "benchmarks")
        for path in sorted((root / folder).rglob("*"))
        if path.is_file() and path.suffix in SUFFIXES
    ]
    unknown = sorted({layer_of(f.relative_to(root)) or str(f.relative_to(root)) for f in files}
                     - set(ALLOWED) - {"core"})
    faults = [f"{name}: no layer of that name; add it to ALLOWED"
              for name in unknown if not name.startswith("transports/")]
    for path in files:
        faults.extend(faults_of(root, path))
    print("\n".join(faults))
    print(f"{len(files)} files, {len(faults)} faults")
    return 1 if faults or not files else 0


if __name__ == "__main__":
    sys.exit(main())
