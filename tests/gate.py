#!/usr/bin/env python3
"""The gate behind `./dev test` and `./dev check`: runs every part, prints each with its time and
ends with one line "N passed, N failed, N skipped", counted from real results.

Bazel parts are counted by the test cases in their test.xml files; the others
print PASSED/FAILED/SKIPPED lines, one per test, or end with a line of the form
above. Nothing is tried again, but for end-to-end tests that ran into a
time-out and those whose virtual machine died: these print their names behind
AGAIN, and the summary repeats them.
"""
import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import urllib.parse
import xml.etree.ElementTree as xml

ROOT = pathlib.Path(__file__).resolve().parent.parent
QUIET = ["--noshow_progress", "--ui_event_filters=-info"]
# Seconds for a test of each size: these are for what hangs, not for what is
# slow on a machine that others share.
TEST = [*QUIET, "--test_output=errors", "--test_timeout=300,600,1200,3600"]
PACKAGES_MINUTES = 7


class Count:
    def __init__(self, passed=0, failed=0, skipped=0):
        self.passed, self.failed, self.skipped = passed, failed, skipped
        self.again = []  # names of those that passed or failed at a second try

    def add(self, other):
        self.passed += other.passed
        self.failed += other.failed
        self.skipped += other.skipped
        self.again += other.again

    def __str__(self):
        return f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped"

    def with_again(self):
        return f"{self}, {len(self.again)} of them again" if self.again else str(self)


def cases_of(path):
    """The cases of one test.xml; a target without gtest counts as one."""
    count = Count()
    for case in xml.parse(path).getroot().iter("testcase"):
        if case.find("failure") is not None or case.find("error") is not None:
            count.failed += 1
        elif case.get("status") == "notrun":
            pass  # DISABLED_: a program for another case to start
        elif (skipped := case.find("skipped")) is not None:
            count.skipped += 1
            why = " ".join((skipped.get("message") or "").split())
            print(f"SKIPPED {case.get('classname')}.{case.get('name')}: {why}")
        else:
            count.passed += 1
    return count


def run_bazel(args):
    """Runs `bazel test` and counts by what it says it did."""
    with tempfile.NamedTemporaryFile(suffix=".json") as events:
        status = subprocess.run(
            ["bazel", "test", *TEST, f"--build_event_json_file={events.name}", *args],
            cwd=ROOT, stdin=subprocess.DEVNULL).returncode
        lines = [json.loads(l) for l in open(events.name, encoding="utf8") if l.strip()]
    total = Count()
    for event in lines:
        result = event.get("testResult")
        if not result:
            continue
        count = Count()
        for output in result.get("testActionOutput", []):
            if output["name"] == "test.xml":
                path = urllib.parse.unquote(urllib.parse.urlparse(output["uri"]).path)
                if os.path.exists(path):
                    count = cases_of(path)
        if result["status"] != "PASSED" and count.failed == 0:
            count = Count(failed=1)
        if count.failed:
            print(f"FAILED {event['id']['testResult']['label']}")
        total.add(count)
    # 4: no test in the pattern. Any other failure without a failed test is a
    # build that broke.
    if status not in (0, 3, 4) and total.failed == 0:
        total.failed += 1
    return total


def run_program(args):
    """Runs a program and counts what it reports."""
    count, closing, again = Count(), None, []
    with subprocess.Popen(args, cwd=ROOT, stdin=subprocess.DEVNULL, text=True,
                          errors="replace", stdout=subprocess.PIPE) as process:
        for line in process.stdout:
            sys.stdout.write(line)
            sys.stdout.flush()
            end = re.fullmatch(r"(\d+) passed, (\d+) failed, (\d+) skipped", line.strip())
            if end:
                closing = Count(*map(int, end.groups()))
            word, *names = line.rstrip().split(" ")
            if word == "AGAIN":
                again += names
            count.passed += word == "PASSED"
            count.failed += word == "FAILED"
            count.skipped += word == "SKIPPED"
    count = closing or count
    count.again = again
    if process.returncode != 0 and count.failed == 0:
        count.failed += 1
    elif count.passed + count.failed + count.skipped == 0:
        count.passed = 1  # a program that only succeeds or fails
    return count


def with_namespaces(folder, program, full):
    """tests/`folder`/`program`, with what it needs built. out/ may be old if
    only this part runs."""
    if os.geteuid() != 0:
        print("SKIPPED this part makes network namespaces: run it as root")
        return Count(skipped=1)
    for build in (["./dev", "build"], ["bazel", "build", *QUIET, f"//tests/{folder}:all"]):
        if subprocess.run(build, cwd=ROOT, check=False).returncode != 0:
            return Count(failed=1)
    return run_program(["python3", f"tests/{folder}/{program}", "--full" if full else "--core"])


def simulator(full):
    """Without `full`: not the long seeds, nor the mutations that take long."""
    which = [] if full else ["--test_tag_filters=-root,-manual,-full"]
    count = run_bazel(["--build_tests_only", *which, "//tests/sim/..."])
    if full:
        count.add(run_program(["./dev", "sim", "--seconds", "600"]))
    return count


def unit(full):
    """Our style is part of lint, and clang-format no part of Bazel's. Without
    `full`, the tests of the libraries run only under ASan + UBSan, but for the
    one that cannot: on a machine without a cache, to compile them twice takes
    longer than the gate has."""
    count = run_program(["./dev", "format", "--check"])
    which = (["//...", "-//tests/sim/..."] if full else
             ["//tests/lint/...", "//tests/scripts/...", "//verbs/provider:fork_test"])
    count.add(run_bazel(["--", *which]))
    count.add(run_program(["./dev", "bench", "--figures"]))
    if full:
        count.add(run_bazel(["--test_tag_filters=", "//verbs/provider:limits_test"]))
    return count


def judges(full):
    """rdma-core's own tests: the distribution's and, with `full`, sid's."""
    count = run_program(["python3", "tests/conformance/run_pyverbs.py"])
    if full:
        count.add(run_program(["python3", "tests/conformance/run_pyverbs.py", "--suite", "sid"]))
    return count


def parts(full):
    """(name, minutes allowed, function). The minutes are the project's budget
    for a fresh machine with two cores; they are printed, not enforced."""
    fuzz = ["300"] if full else ["60", "--together"]
    yield "build", 7, lambda: run_program(["./dev", "build"])
    yield "unit, golden, lint", 3, lambda: unit(full)
    yield "simulator", 4, lambda: simulator(full)
    # Before the sanitizers: all builds share one output tree.
    yield "end to end", 9, lambda: with_namespaces("e2e", "run_e2e.py", full)
    yield "TCP against the kernel's", 2, lambda: with_namespaces("tcp", "run_tcp.py", full)
    yield "packages", 1, lambda: run_program(
        ["python3", "tests/packages/run_packages.py", "--full" if full else "--core"])
    yield "rxe VM", 4, lambda: with_namespaces("interop", "run_interop.py", full)
    yield "siw VM", 4, lambda: with_namespaces("interop", "run_siw.py", full)
    yield "foreign judges", 1, lambda: judges(full)
    yield "fuzzers", 3, lambda: run_program(["./dev", "fuzz", *fuzz])
    yield "ASan + UBSan", 10, lambda: run_bazel(["--config=asan", "//..."])
    yield "TSan", 3, lambda: run_bazel(["--config=tsan", "--build_tests_only", "//..."])


def check_parts():
    """As parts(): what needs neither root nor anything that is not there, in
    two minutes once it is built."""
    yield "format", 0.1, lambda: run_program(["./dev", "format", "--check"])
    yield "lint", 0.2, lambda: run_bazel(["//tests/lint/..."])
    yield "unit", 1.1, lambda: run_bazel(
        ["--", "//...", "-//tests/sim/...", "-//tests/lint/...", "-//tests/scripts/..."])
    yield "scripts", 0.1, lambda: run_bazel(["//tests/scripts/..."])
    yield "figures", 0.5, lambda: run_program(["./dev", "bench", "--figures"])


def read_options(check, words):
    """Those of `./dev check`, or of `./dev test`."""
    parser = argparse.ArgumentParser(prog="./dev check" if check else "./dev test", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [name for name, *_ in (check_parts() if check else parts(full=False))]
    parser.add_argument("--part", choices=names, help="only the part with this name")
    if not check:
        parser.add_argument("--full", action="store_true", help="long seeds and fuzzing, every size, every judge")
    parser.add_argument("--packages-seconds", type=float, metavar="N",
                        help=argparse.SUPPRESS if check else
                        "what ./dev spent on installing packages, for the summary")
    return parser.parse_args(words)


def main():
    check = sys.argv[1:2] == ["--check"]
    options = read_options(check, sys.argv[2 if check else 1:])
    chosen = check_parts() if check else parts(options.full)
    total, table, spent, allowed = Count(), [], 0, 0
    if options.packages_seconds is not None:
        spent, allowed = options.packages_seconds / 60, PACKAGES_MINUTES
        table.append(f"{'packages':20} {spent:5.1f} of {allowed:4.4g} min")
    for name, minutes, run in chosen:
        if options.part and name != options.part:
            continue
        print(f"\n== {name}", flush=True)
        start = time.monotonic()
        count = run()
        if count.passed + count.failed + count.skipped == 0:
            print(f"FAILED {name}: it ran nothing")
            count.failed = 1
        took = (time.monotonic() - start) / 60
        total.add(count)
        spent, allowed = spent + took, allowed + minutes
        table.append(f"{name:20} {took:5.1f} of {minutes:4} min   {count.with_again()}")
        print(table[-1], flush=True)
    print("\n== summary")
    print("\n".join(table))
    print(f"{'all':20} {spent:5.1f} of {allowed:4.4g} min")
    if total.again:
        print(f"{len(total.again)} tried again after a time-out: {' '.join(total.again)}")
    print(total, flush=True)
    return 1 if total.failed or total.passed == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
