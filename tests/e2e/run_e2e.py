#!/usr/bin/env python3
"""End-to-end tests: unmodified programs of the distribution on our RNIC.

Prints a line for each test and ends with "N passed, N failed, N skipped".
Needs root for network namespaces; without it those tests fail to make their
bed, so run it through `./dev test`, which says so.
"""

import argparse
import pathlib
import sys

import bed
import suite
# Each adds its tests to suite.TESTS.
import test_bad_packets  # pylint: disable=unused-import
import test_cost  # pylint: disable=unused-import
import test_demo  # pylint: disable=unused-import
import test_devices  # pylint: disable=unused-import
import test_faults  # pylint: disable=unused-import
import test_perftest  # pylint: disable=unused-import
import test_rdmacm  # pylint: disable=unused-import
import test_wire  # pylint: disable=unused-import

HERE = pathlib.Path(__file__).resolve().parent


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--core", action="store_true",
                       help="the short set, some minutes (default)")
    which.add_argument("--full", action="store_true", help="everything")
    parser.add_argument("--out", default=HERE.parents[1] / "out",
                        help="the tree under test (default: out/)")
    parser.add_argument("--built", default=HERE.parents[1] /
                        "bazel-bin/tests/e2e",
                        help="where //tests/e2e:all has been built")
    parser.add_argument("--list", action="store_true",
                        help="print the names and stop")
    parser.add_argument("pattern", nargs="*",
                        help="names to run, from both sets: 'vhost/*bw*'")
    return parser.parse_args()


def main():
    arguments = parse_arguments()
    tests = suite.select(arguments)
    if arguments.list:
        print("\n".join(one.name for one in tests))
        return 0
    if not tests:
        print("no test has such a name", file=sys.stderr)
        return 2
    tools = bed.Tools(arguments.out, arguments.built)
    if tools.missing():
        print(f"missing {', '.join(tools.missing())}: run ./dev build "
              "&& bazel build //tests/e2e:all",
              file=sys.stderr)
        return 2
    bed.raise_on_signals()
    bed.sweep()
    return suite.run(tests, tools)


if __name__ == "__main__":
    sys.exit(main())
