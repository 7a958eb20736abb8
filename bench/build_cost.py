#!/usr/bin/env python3
"""What a build costs: our own lines that compilations parse, their number, and
the CPU seconds of `./dev build` from nothing.

The first two need no build and depend on no machine. figures.py holds them
against bench/history.jsonl. CPU seconds differ by machine, so they are only
recorded: `./dev bench --build` prints a line for bench/BUDGET.md.
"""
import functools
import pathlib
import re
import resource
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include "([^"]+)"', re.MULTILINE)


def sources():
    """The C and C++ files that git tracks, relative to the root."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--", "*.h", "*.c", "*.cc", "*.def"],
        cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout
    return [name for name in listed.split("\0") if name]


def parsed_lines(texts):
    """(compilations, lines): of each .c and .cc file, its own lines and those
    of each file of ours that it includes, directly or not, once."""
    @functools.cache
    def included(name):
        return [other for other in INCLUDE.findall(texts[name])
                if other in texts]

    lengths = {name: text.count("\n") for name, text in texts.items()}
    compilations = lines = 0
    for name in texts:
        if not name.endswith((".c", ".cc")):
            continue
        seen, left = set(), [name]
        while left:
            current = left.pop()
            if current not in seen:
                seen.add(current)
                left += included(current)
        compilations += 1
        lines += sum(lengths[one] for one in seen)
    return compilations, lines


def figures():
    """{name: number} for figures.py."""
    texts = {name: (ROOT / name).read_text(encoding="utf8")
             for name in sources() if (ROOT / name).exists()}
    compilations, lines = parsed_lines(texts)
    return {"build, sources": compilations, "build, parsed own lines": lines}


def main(targets):
    """Builds the targets without a cache, and says what it took."""
    with tempfile.TemporaryDirectory() as folder:
        start = time.monotonic()
        # Without a server, all that it starts is a child of ours.
        status = subprocess.run(
            ["bazel", "--batch", f"--output_base={folder}", "build",
             "--disk_cache=", "--noshow_progress", "--ui_event_filters=-info",
             *targets], cwd=ROOT, check=False).returncode
        minutes = (time.monotonic() - start) / 60
        subprocess.run(["chmod", "-R", "u+w", folder], check=True)
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"CPU seconds {spent.ru_utime + spent.ru_stime:.0f}, "
          f"minutes {minutes:.1f}")
    for name, number in figures().items():
        print(f"{name:40} {number:8}")
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
