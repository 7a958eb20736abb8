#!/usr/bin/env python3
"""The cache lines of a queue pair that a write touches.

    bench/lines.py [--map] bazel-bin/bench/inner_loops

valgrind's DHAT counts the accesses to each byte of small heap blocks, and an RC
queue pair is one. The difference between two numbers of iterations is what the
steady flow does: a line is touched by each packet if one of its bytes is
accessed once a packet or more, by each burst if once a burst. Two engines on a
ring exchange 8-byte writes one by one, and in lists of 32 with one
acknowledgement. The same on every machine.
"""
import argparse
import json
import subprocess
import sys
import tempfile

LINE = 64
FEW, MANY = 20, 220
OBJECT = "QpOf<urnic::rc::Qp>"
SIDES = ("requester", "responder")


def bytes_of(runs):
    """A count for each byte: "-n, count" stands for n bytes."""
    counts = []
    repeat = 1
    for number in runs:
        if number < 0:
            repeat = -number
            continue
        counts += [number] * repeat
        repeat = 1
    return counts


def accesses(loops, name, iterations):
    """For each queue pair, in the order of their creation, its bytes' counts."""
    with tempfile.NamedTemporaryFile() as out:
        subprocess.run(
            ["valgrind", "--tool=dhat", f"--dhat-out-file={out.name}", loops,
             f"--iterations={iterations}", f"--benchmark_filter=^{name}/"],
            check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        profile = json.load(out)
    frames = profile["ftbl"]
    found = []
    for point in profile["pps"]:
        calls = [frames[f] for f in point["fs"]]
        if OBJECT in calls[1] and "acc" in point:
            # The calls that made them differ in the address they return to.
            found.append((calls, bytes_of(point["acc"])))
    if len(found) != len(SIDES):
        sys.exit(f"{len(found)} queue pairs with counts; an object of more than"
                 " 1024 bytes has none")
    return [counts for _, counts in sorted(found)]


def touched(before, after, times):
    """The indices of the lines with a byte that is accessed so many times."""
    growth = [b - a for a, b in zip(before, after)]
    return [at // LINE for at in range(0, len(growth), LINE)
            if max(growth[at:at + LINE]) >= times]


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("loops")
    parser.add_argument("--map", action="store_true",
                        help="name the lines, by index")
    options = parser.parse_args()
    for packets in (1, 32):
        name = f"engine/write/8/list_of_{packets}"
        few = accesses(options.loops, name, FEW)
        many = accesses(options.loops, name, MANY)
        for side, before, after in zip(SIDES, few, many):
            bursts = MANY - FEW
            kinds = {"burst": touched(before, after, bursts)}
            if packets > 1:
                kinds["packet"] = touched(before, after, bursts * packets)
            for kind, lines in kinds.items():
                title = f"{side}, list of {packets}, each {kind}"
                which = f"   {lines}" if options.map else ""
                print(f"{title:40} {len(lines):3} of {len(after) // LINE}{which}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
