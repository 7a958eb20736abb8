#!/usr/bin/env python3
"""Runs all packetdrill scripts below a folder against our TCP, and holds the outcomes against
the tables of docs/packetdrill.md.

    ./dev packetdrill DIR            DIR: a checkout of scripts of others
    ./dev packetdrill --list DIR     only the outcomes, without the tables

Prints a line for each script that is not as its table says, and ends with the totals. A row of a
table is: a path, or a pattern of paths; the outcome; the line where the script differs, or
nothing; the reason. The first row that fits the end of a script's path counts.
"""

import argparse
import collections
import fnmatch
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
TABLE = ROOT / "docs" / "packetdrill.md"
PROGRAM = "bazel-bin/tests/packetdrill/packetdrill"
OUTCOMES = ("passes", "differs", "not applicable")
SCRIPTS_AT_ONCE = 200

Row = collections.namedtuple("Row", "pattern outcome line")
Run = collections.namedtuple("Run", "path outcome line text skipped")


def rows_of(text):
    """The rows of all tables whose second column is an outcome."""
    rows = []
    for line in text.split("\n"):
        cells = [cell.strip().strip("`") for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if len(cells) >= 3 and cells[1] in OUTCOMES:
            rows.append(Row(cells[0], cells[1], int(cells[2]) if cells[2] else None))
    return rows


def row_for(rows, path):
    """The first row that fits `path`, or its end, without .pkt; None."""
    parts = path.removesuffix(".pkt").split("/")
    ends = ["/".join(parts[i:]) for i in range(len(parts))]
    for row in rows:
        if any(fnmatch.fnmatchcase(end, row.pattern) for end in ends):
            return row
    return None


def problem_of(run, row):
    """What is not as the table says; "" if all is."""
    if row is None:
        return "has no row"
    if run.outcome != row.outcome:
        return f"is in the table as: {row.outcome}"
    if row.line is not None and run.line != row.line:
        return f"differs in another line than {row.line}"
    return ""


def run_scripts(paths):
    """One Run for each script, in order."""
    for begin in range(0, len(paths), SCRIPTS_AT_ONCE):
        result = subprocess.run([ROOT / PROGRAM, *paths[begin:begin + SCRIPTS_AT_ONCE]],
                                check=True, capture_output=True, text=True)
        for line in result.stdout.splitlines():
            path, outcome, number, text, skipped = line.split("\t")
            yield Run(path, outcome, int(number), text, skipped)


def show(run, problem=""):
    line = f"{run.outcome}: {run.path}"
    if run.text:
        line += f":{run.line}: {run.text}"
    if run.skipped:
        line += f" (not checked: {run.skipped})"
    if problem:
        line += f" -- {problem}"
    print(line)


def main():
    parser = argparse.ArgumentParser(prog="dev packetdrill")
    parser.add_argument("--list", action="store_true", help="only show the outcomes")
    parser.add_argument("folder", help="its scripts, *.pkt, are run")
    args = parser.parse_args()
    paths = sorted(str(path) for path in pathlib.Path(args.folder).rglob("*.pkt"))
    if not paths:
        sys.exit(f"dev packetdrill: no scripts in {args.folder}")
    rows = [] if args.list else rows_of(TABLE.read_text(encoding="utf8"))
    totals = collections.Counter()
    failed = 0
    for run in run_scripts(paths):
        totals[run.outcome] += 1
        problem = "" if args.list else problem_of(
            run, row_for(rows, os.path.relpath(run.path, args.folder)))
        failed += problem != ""
        if args.list or problem:
            show(run, problem)
    print(", ".join(f"{totals[outcome]} {outcome}" for outcome in OUTCOMES))
    if not args.list:
        print(f"{len(paths) - failed} as in the table, {failed} not")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
