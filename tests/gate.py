#!/usr/bin/env python3
"""The gate behind `./dev test`: runs every part, prints each with its time and
ends with one line "N passed, N failed, N skipped", counted from real results.

A part is a list of commands. Bazel parts are counted by the test cases in
their test.xml files; the others print PASSED/FAILED/SKIPPED lines, one per
test, or end with a line of the form above.
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
QUIET = ["--noshow_progress", "--ui_event_filters=-info", "--test_output=errors"]


class Count:
    def __init__(self, passed=0, failed=0, skipped=0):
        self.passed, self.failed, self.skipped = passed, failed, skipped

    def add(self, other):
        self.passed += other.passed
        self.failed += other.failed
        self.skipped += other.skipped

    def __str__(self):
        return f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped"


def cases_of(path):
    """The cases of one test.xml; a target without gtest counts as one."""
    count = Count()
    for case in xml.parse(path).getroot().iter("testcase"):
        if case.find("failure") is not None or case.find("error") is not None:
            count.failed += 1
        elif case.find("skipped") is not None or case.get("status") == "notrun":
            count.skipped += 1
            print(f"SKIPPED {case.get('classname')}.{case.get('name')}")
        else:
            count.passed += 1
    return count


def run_bazel(args):
    """Runs `bazel test` and counts by what it says it did."""
    with tempfile.NamedTemporaryFile(suffix=".json") as events:
        status = subprocess.run(
            ["bazel", "test", *QUIET, "--flaky_test_attempts=3", f"--build_event_json_file={events.name}", *args],
            cwd=ROOT, stdin=subprocess.DEVNULL).returncode
        lines = [json.loads(l) for l in open(events.name, encoding="utf8") if l.strip()]
    # A test that fails is tried again, as the machine is shared and some tests
    # run real peers against their time-outs: the last attempt counts, and the
    # others are named.
    last = {}
    for event in lines:
        result = event.get("testResult")
        if not result:
            continue
        label = event["id"]["testResult"]["label"]
        count = Count()
        for output in result.get("testActionOutput", []):
            if output["name"] == "test.xml":
                path = urllib.parse.unquote(urllib.parse.urlparse(output["uri"]).path)
                if os.path.exists(path):
                    count = cases_of(path)
        if result["status"] != "PASSED" and count.failed == 0:
            count = Count(failed=1)
        if label in last:
            print(f"TRIED AGAIN {label}")
        last[label] = count
    total = Count()
    for label, count in last.items():
        if count.failed:
            print(f"FAILED {label}")
        total.add(count)
    # 4: no test in the pattern. Any other failure without a failed test is a
    # build that broke.
    if status not in (0, 3, 4) and total.failed == 0:
        total.failed += 1
    return total


def run_program(args):
    """Runs a program and counts what it reports."""
    count, closing = Count(), None
    with subprocess.Popen(args, cwd=ROOT, stdin=subprocess.DEVNULL, text=True,
                          errors="replace", stdout=subprocess.PIPE) as process:
        for line in process.stdout:
            sys.stdout.write(line)
            sys.stdout.flush()
            end = re.fullmatch(r"(\d+) passed, (\d+) failed, (\d+) skipped", line.strip())
            if end:
                closing = Count(*map(int, end.groups()))
            word = line.split(" ", 1)[0].strip()
            count.passed += word == "PASSED"
            count.failed += word == "FAILED"
            count.skipped += word == "SKIPPED"
    count = closing or count
    if process.returncode != 0 and count.failed == 0:
        count.failed += 1
    elif count.passed + count.failed + count.skipped == 0:
        count.passed = 1  # a program that only succeeds or fails
    return count


def end_to_end(args):
    if os.geteuid() != 0:
        print("SKIPPED this part makes network namespaces: run it as root")
        return Count(skipped=1)
    built = subprocess.run(["bazel", "build", *QUIET[:2], "//tests/e2e:echo_peer"], cwd=ROOT, check=False)
    return run_program(args) if built.returncode == 0 else Count(failed=1)


def parts(full):
    """(name, minutes allowed, function). The minutes are the project's budget
    for a fresh machine with two cores; they are printed, not enforced."""
    fuzz_seconds = "600" if full else "40"
    e2e = ["python3", "tests/e2e/run_e2e.py", "--full" if full else "--core"]
    sim = ["--test_arg=--seconds=600"] if full else []
    yield "format", 1, lambda: run_program(["./dev", "format", "--check"])
    yield "build", 7, lambda: run_program(["./dev", "build"])
    yield "unit, golden, lint", 2, lambda: run_bazel(["--", "//...", "-//tests/sim/..."])
    yield "simulator", 3, lambda: run_bazel(["//tests/sim/...", *sim])
    # Before the sanitizers: all builds share one output tree.
    yield "end to end", 6, lambda: end_to_end(e2e)
    yield "fuzzers", 3, lambda: run_program(["./dev", "fuzz", fuzz_seconds])
    yield "ASan + UBSan", 8, lambda: run_bazel(["--config=asan", "//..."])
    yield "TSan", 5, lambda: run_bazel(["--config=tsan", "--build_tests_only", "//..."])


def main():
    parser = argparse.ArgumentParser(prog="./dev test", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--full", action="store_true", help="long seeds and fuzzing, every size, every judge")
    parser.add_argument("--part", help="only the part with this name")
    options = parser.parse_args()
    total, table = Count(), []
    for name, minutes, run in parts(options.full):
        if options.part and name != options.part:
            continue
        print(f"\n== {name}", flush=True)
        start = time.monotonic()
        count = run()
        took = (time.monotonic() - start) / 60
        total.add(count)
        table.append(f"{name:20} {took:5.1f} of {minutes} min   {count}")
        print(table[-1], flush=True)
    print("\n== summary")
    print("\n".join(table))
    print(total, flush=True)
    return 1 if total.failed or total.passed == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
