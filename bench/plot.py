#!/usr/bin/python3
"""Draws the pictures of a stored run: `./dev bench --plot [FILE]`.

    rate.svg         messages a second, by their size
    latency.svg      how half round trips are distributed
    queue_pairs.svg  the rate over many connections
    impaired.svg     goodput over a wire that loses, and over a long one
    fairness.svg     flows and hosts that share a wire

FILE is what `./dev bench --pictures` stores (bench/pictures.schema.json says
what is in it); without one it is bench/pictures/run.json. The pictures go
beside it. The same document gives the same bytes, with the same matplotlib.

A point is the median of the rounds in which the CPUs had the same distance,
near or far, whichever has more points, or of all, where processes were not
pinned; a bar reaches from the least value to the greatest.
"""
import argparse
import json
import pathlib
import re
import statistics
import sys

import jsonschema

FOLDER = pathlib.Path(__file__).resolve().parent
SCHEMA = FOLDER / "pictures.schema.json"
STORED = FOLDER / "pictures" / "run.json"
FORMAT = 1
PERCENTILES = ("average", "50 %", "90 %", "99 %", "99.9 %", "99.99 %")
BESIDE = ("beside CUBIC", "beside BBR")
# The values of x; those of the other panels are numbers.
NAMES = {"latency": PERCENTILES, "share": BESIDE}
DISTANCES = ("near", "far", "any")


class Broken(Exception):
    """A document that cannot be drawn: one sentence."""


def dump(document):
    """Its text, with a line for each point."""
    return re.sub(r'\{\s+"x":[^{}]*\}', lambda point: " ".join(point[0].split()),
                  json.dumps(document, indent=1)) + "\n"


def check(document):
    """Raises Broken where it is not as the schema says."""
    validator = jsonschema.Draft7Validator(
        json.loads(SCHEMA.read_text(encoding="utf8")))
    error = jsonschema.exceptions.best_match(validator.iter_errors(document))
    if error is not None:
        where = error.json_path.removeprefix("$").removeprefix(".")
        raise Broken(f"{where or 'the document'}: {error.message}")
    for name, panel in document["panels"].items():
        names = [series["name"] for series in panel]
        for series in panel:
            where = f"panels.{name}: series '{series['name']}'"
            if names.count(series["name"]) > 1:
                raise Broken(f"{where} is there twice")
            baseline = series["baseline"]
            if baseline is not None and baseline not in names:
                raise Broken(f"{where} has the baseline '{baseline}', which "
                             "this run did not measure")
            for point in series["points"]:
                x = point["x"]
                if x not in NAMES[name] if name in NAMES else \
                        isinstance(x, str):
                    raise Broken(f"{where} has no place for x = {x!r}")


def load(path):
    """The checked document of a file."""
    try:
        document = json.loads(pathlib.Path(path).read_text(encoding="utf8"))
    except OSError as error:
        raise Broken(error.strerror) from None
    except ValueError as error:
        raise Broken(f"not JSON: {error}") from None
    check(document)
    return document


def distance_of(panel):
    """That of more points; near, if both have as many."""
    counts = {d: sum(d in point for series in panel
                     for point in series["points"]) for d in DISTANCES}
    return max(DISTANCES, key=lambda d: counts[d])


def order_of(x):
    """A key to sort the values of x of one panel."""
    return (PERCENTILES + BESIDE).index(x) if isinstance(x, str) else x


def points_of(series, distance):
    """[(x, median, least, greatest)] of those measured at that distance, in
    the order of x."""
    found = [(p["x"], statistics.median(p[distance]), min(p[distance]),
              max(p[distance])) for p in series["points"] if distance in p]
    return sorted(found, key=lambda point: order_of(point[0]))


def ratios(document):
    """Lines: each series of ours beside its baseline."""
    for name, panel in document["panels"].items():
        distance = distance_of(panel)
        by_name = {series["name"]: series for series in panel}
        for series in panel:
            if series["baseline"] is None:
                continue
            below = {x: y for x, y, *_ in points_of(
                by_name[series["baseline"]], distance)}
            shares = [f"{x}: {y / below[x]:.2f}" for x, y, *_ in
                      points_of(series, distance) if below.get(x)]
            yield (f"{name}, CPUs {distance}: {series['name']} / "
                   f"{series['baseline']}: {', '.join(shares)}")


def draw_file(path):
    """Draws what is stored there, and prints the ratios. The exit status."""
    try:
        document = load(path)
    except Broken as error:
        print(f"plot: {path}: {error}", file=sys.stderr)
        return 1
    # Takes a second to load, and only drawing needs it.
    import drawing  # pylint: disable=import-outside-toplevel
    for picture in drawing.draw(document, path.parent):
        print(f"drawn: {picture}")
    for line in ratios(document):
        print(line)
    return 0


def main():
    parser = argparse.ArgumentParser(
        prog="./dev bench --plot", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", nargs="?", type=pathlib.Path, default=STORED)
    return draw_file(parser.parse_args().file)


if __name__ == "__main__":
    sys.exit(main())
