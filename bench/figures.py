#!/usr/bin/env python3
"""Figures that do not depend on the machine, and their history.

Instructions of the inner loops (bench/instructions.sh), bytes that a queue pair
occupies (bench/sizes.cc), lines that a build parses (bench/build_cost.py) and
the simulator's goodput, from its golden table, which goodput_test holds against
the simulator. history.jsonl has a line for each commit that changed them, the
newest last. A figure that is worse than there by more than 2 % fails; those of
the build have 5 %. If that is meant, append a line: it says why, and
names each figure that is worse. No line may exceed a ceiling, so that small
steps do not add up.
"""
import argparse
import datetime
import json
import os
import pathlib
import re
import subprocess
import sys

import build_cost

ROOT = pathlib.Path(__file__).resolve().parent.parent
HISTORY = ROOT / "bench" / "history.jsonl"
GOODPUT = ROOT / "tests" / "sim" / "goldens" / "goodput.txt"
LOOPS = ("wire/parse", "rc/requester_write8", "rc/responder_write8",
         "engine/write/8/list_of_32", "engine/half_trip",
         "engine/iwarp/write/8/list_of_32", "engine/iwarp/half_trip",
         "rud/upper_write_8", "engine/rud/write/8/list_of_32")
TOLERANCE = 0.02
BUILD_TOLERANCE = 0.05
MORE_RUNS = 3
# Instructions per packet, per write, and per half trip on the cheapest port.
CEILINGS = {
    "instructions, wire/parse": 111,
    "instructions, rc/requester_write8": 300,
    "instructions, rc/responder_write8": 190,
    "instructions, engine/write/8/list_of_32": 1400,
    "instructions, engine/half_trip": 5500,
    "instructions, engine/iwarp/write/8/list_of_32": 2800,
    "instructions, engine/iwarp/half_trip": 10000,
    "instructions, rud/upper_write_8": 340,
    "instructions, engine/rud/write/8/list_of_32": 750,
    "bytes, RcQp": 1152,
}


def pairs_of(text):
    """{name: number} of lines "name number"; others are headings."""
    found = re.findall(r"^(\S+) +(\d+(?:\.\d+)?)$", text, re.MULTILINE)
    return {name: float(number) for name, number in found}


def goodput_of(table):
    """The first number of each cell, by the paragraph's first line, the row's
    loss (none in tables of one row) and the column."""
    figures = {}
    for paragraph in table.split("\n\n")[1:]:
        title, columns, *rows = (paragraph + "\n").split("\n")
        title = title.split(" (")[0]
        names = re.findall(r"[a-z]+ \d+", columns)
        for row in rows:
            loss = re.match(r" *([\d.]+ %)", row)
            shares = re.findall(r"(\d+\.\d) / *\d+\.\d / *\d+", row)
            for name, share in zip(names, shares):
                parts = [title, loss.group(1) if loss else "", name]
                figures["goodput %, " + ", ".join(p for p in parts if p)] = \
                    float(share)
    return figures


def count(loops, names):
    """{name: instructions} of one run."""
    pattern = "^(" + "|".join(names) + ")$"
    counted = pairs_of(subprocess.run(
        [ROOT / "bench" / "instructions.sh", loops, pattern], check=True,
        stdout=subprocess.PIPE, text=True).stdout)
    if missing := set(names) - set(counted):
        sys.exit(f"figures: not counted: {', '.join(sorted(missing))}")
    return counted


def fewest(count_again, before):
    """An engine's loops depend on when its helper thread comes: on a busy
    machine by a tenth. What seems worse is counted again, and the fewest
    counts. `count_again`: of names."""
    counted = count_again(LOOPS)
    for _ in range(MORE_RUNS):
        high = [name for name in LOOPS
                if counted[name] > (1 + TOLERANCE) *
                before.get(f"instructions, {name}", float("inf"))]
        if not high:
            break
        again = count_again(high)
        counted.update({name: min(counted[name], again[name]) for name in high})
    return counted


def measure(loops, sizes, before):
    """All figures of the present build."""
    counted = fewest(lambda names: count(loops, names), before)
    bytes_of = pairs_of(subprocess.run([sizes], check=True, text=True,
                                       stdout=subprocess.PIPE).stdout)
    return {
        **{f"instructions, {name}": counted[name] for name in LOOPS},
        **{f"bytes, {name}": number for name, number in bytes_of.items()},
        **build_cost.figures(),
        **goodput_of(GOODPUT.read_text(encoding="utf8")),
    }


def is_better_when_more(name):
    return name.startswith("goodput")


def tolerance_of(name):
    return BUILD_TOLERANCE if name.startswith("build") else TOLERANCE


def worse(before, now):
    """What the gate refuses, a line each."""
    lines = []
    for name, old in before.items():
        if name not in now:
            lines.append(f"{name}: is no longer counted")
            continue
        new = now[name]
        limit = (old * (1 - tolerance_of(name)) if is_better_when_more(name)
                 else old * (1 + tolerance_of(name)))
        if new < limit if is_better_when_more(name) else new > limit:
            lines.append(f"{name}: {old:g} became {new:g}")
    return lines


def unfit_to_append(before, now, why):
    """Why these figures may not become the next line, a line each."""
    high = [f"{name}: {now[name]:g} exceeds the ceiling of {ceiling}"
            for name, ceiling in CEILINGS.items() if now.get(name, 0) > ceiling]
    silent = [f"{line}; WHY does not name it" for line in worse(before, now)
              if line.split(":")[0] not in why]
    return high + silent


def last_line():
    lines = HISTORY.read_text(encoding="utf8").splitlines()
    return json.loads(lines[-1])["figures"] if lines else {}


def show(before, now):
    """All but the goodput that is what it was: its table is long."""
    for name, number in now.items():
        old = before.get(name)
        if name.startswith("goodput") and old == number:
            continue
        change = "" if old is None or old == number else f"   before {old:g}"
        print(f"{name:58} {number:8g}{change}")


def main():
    parser = argparse.ArgumentParser(
        prog="./dev bench --figures", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--append", metavar="WHY",
                        help="add them to bench/history.jsonl: what changed them")
    parser.add_argument("--loops", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--sizes", required=True, help=argparse.SUPPRESS)
    options = parser.parse_args()
    before = last_line()
    now = measure(os.path.abspath(options.loops),
                  os.path.abspath(options.sizes), before)
    show(before, now)
    if options.append:
        if unfit := unfit_to_append(before, now, options.append):
            sys.exit("figures: nothing is appended\n" + "\n".join(unfit))
        line = {"date": datetime.date.today().isoformat(),
                "why": options.append, "figures": now}
        with open(HISTORY, "a", encoding="utf8") as file:
            file.write(json.dumps(line) + "\n")
        return 0
    refused = worse(before, now)
    for line in refused:
        print(f"worse by more than {tolerance_of(line):.0%}: {line}")
    if refused:
        print("If that is meant: ./dev bench --figures --append 'WHY'")
    print(f"{'FAILED' if refused else 'PASSED'} figures")
    return 1 if refused else 0


if __name__ == "__main__":
    sys.exit(main())
