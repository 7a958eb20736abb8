#!/usr/bin/env python3
"""Checks the whole source tree against STYLE.md; also runs without Bazel."""

import os
import sys

# Bazel runs this file through symbolic links; the tree is where they lead.
HERE = os.path.dirname(os.path.realpath(__file__))
sys.path.insert(0, HERE)
sys.dont_write_bytecode = True

import citations  # noqa: E402 (the path must come first)
import tidy  # noqa: E402


def main():
    root = os.path.dirname(os.path.dirname(HERE))
    if not os.path.exists(os.path.join(root, "WORKSPACE")):
        sys.exit("tidy_test: no WORKSPACE above %s" % HERE)
    with open(os.path.join(HERE, "ratchet.txt"), encoding="utf-8") as handle:
        ratchet = tidy.read_ratchet(handle.read())
    found = tidy.check_tree(root) + citations.check_tree(root)
    problems = tidy.apply_ratchet(found, ratchet)
    for problem in problems:
        print(problem)
    print("%d files, %d problems" %
          (len(tidy.source_paths(root)), len(problems)))
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
