#!/usr/bin/env python3
"""The gate behind `./dev test` and `./dev check`: runs every part, prints each with its time and
ends with one line "N passed, N failed, N skipped", counted from real results.

Bazel parts are counted by the test cases in their test.xml files; the others
print PASSED/FAILED/SKIPPED lines, one per test, or end with a line of the form
above. A line "[n/m] what" (or "[n] what") is progress: a terminal shows the
newest; elsewhere it is printed after ten seconds of silence.

A test that fails is run once more, alone, at the end of its part, if it uses
more than one process or thread: end to end, TCP, virtual machines, TSan, judges
(e2e/tally.py; TSan: run_bazel()). If it passes then, it counts as passed, and its
name stands behind AGAIN, in its part and in the summary. More than three such
names fail the gate. Its first failure is printed as "FIRST TRY FAILED". Nothing
else is tried again, no build either.

An interrupted gate ends its programs (children.py) and prints the summary of
what it has done.
"""
import argparse
import json
import os
import pathlib
import re
import shutil
import signal
import sys
import tempfile
import time
import urllib.parse
import xml.etree.ElementTree as xml

from children import MARK, Children

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Seconds for a test of each size: these are for what hangs, not for what is
# slow on a machine that others share.
TEST = ["--test_output=errors", "--test_timeout=300,600,1200,3600"]
TESTS_FAILED = 3  # Bazel's exit status when all was built
ALONE = ["--jobs=1", "--local_test_jobs=1", "--cache_test_results=no"]
# Tests that run without sanitizers: what they test reads no packets and no
# memory of programs, so ASan would pay least there. (`--full` has them twice.)
PLAIN_TESTS = ["//bench/...", "//tests:all", "//tests/e2e/...", "//tests/interop/...", "//tests/lint/...",
               "//tests/packetdrill/...", "//tests/scripts/...", "//verbs/cli/...", "//verbs/perf/..."]
PACKAGES_MINUTES = 7
MOST_AGAIN = 3
SILENCE_SECONDS = 10
PROGRESS = re.compile(r"\[\d+(/\d+)?\] ")
CHILDREN = Children()


class Count:
    def __init__(self, passed=0, failed=0, skipped=0):
        self.passed, self.failed, self.skipped = passed, failed, skipped
        self.again = []  # names of those that passed at their second try

    def add(self, other):
        self.passed += other.passed
        self.failed += other.failed
        self.skipped += other.skipped
        self.again += other.again

    def __str__(self):
        return f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped"

    def with_again(self):
        return f"{self}, {len(self.again)} of them again" if self.again else str(self)


class Screen:
    """Standard output: lines that stay, and one of progress."""

    def __init__(self):
        self._terminal = sys.stdout.isatty()
        self._progress, self._since, self._written = "", 0, 0

    def say(self, text=""):
        self._clear()
        self._write(f"{text}\n")
        self._draw()

    def progress(self, text):
        """Until the next one; "": none."""
        self._clear()
        self._progress, self._since = text, time.monotonic()
        self._draw()

    def silence(self):
        """To be called now and then while there is no line."""
        now = time.monotonic()
        if self._progress and now - max(self._since, self._written) > SILENCE_SECONDS:
            text = f"{self._progress}, {now - self._since:.0f} s"
            if self._terminal:
                self._draw(text)
            else:
                self._write(f"{text}\n")

    def _clear(self):
        if self._terminal and self._progress:
            self._write("\r\033[K")

    def _draw(self, text=None):
        if self._terminal and self._progress:
            width = shutil.get_terminal_size().columns - 1
            self._write(f"\r\033[K{(text or self._progress)[:width]}")

    def _write(self, text):
        self._written = time.monotonic()
        try:
            sys.stdout.write(text)
            sys.stdout.flush()
        except OSError:
            # The terminal or the reader has gone, which may come before SIGHUP.
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, sys.stdout.fileno())
            os.close(nowhere)
            CHILDREN.interrupt(signal.SIGHUP)


SCREEN = Screen()
say = SCREEN.say


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
            say(f"SKIPPED {case.get('classname')}.{case.get('name')}: {why}")
        else:
            count.passed += 1
    return count


def bazel(command, *options):
    """A command line of Bazel, as `bazel` in ./dev has it. Its own line of
    progress is for terminals. For Bazel, what a failed test says is "info"."""
    rate = [] if sys.stderr.isatty() else ["--show_progress_rate_limit=10"]
    quiet = [] if command == "test" else ["--ui_event_filters=-info"]
    return ["env", "-u", MARK, "bazel", command, "--ui_actions_shown=1", *quiet, *rate, *options]


def events_of(path):
    """What Bazel has written there; its last line is cut off if it was killed."""
    events = []
    with open(path, encoding="utf8") as lines:
        for line in lines:
            try:
                events.append(json.loads(line))
            except ValueError:
                pass
    return events


def test_by_bazel(targets, options):
    """(exit status, {label: Count}) of `bazel test`, by what it says it did."""
    with tempfile.NamedTemporaryFile(suffix=".json") as events:
        status = CHILDREN.run(bazel("test", *TEST, f"--build_event_json_file={events.name}",
                                    *options, "--", *targets), ROOT)
        said = events_of(events.name)
    counts = {}
    for event in said:
        result = event.get("testResult")
        if not result or status is None and result["status"] not in ("PASSED", "FAILED"):
            continue
        count = Count()
        for output in result.get("testActionOutput", []):
            if output["name"] == "test.xml":
                path = urllib.parse.unquote(urllib.parse.urlparse(output["uri"]).path)
                if os.path.exists(path):
                    count = cases_of(path)
        if result["status"] != "PASSED" and count.failed == 0:
            count = Count(failed=1)
        counts.setdefault(event["id"]["testResult"]["label"], Count()).add(count)
    return status, counts


def run_bazel(*targets, options=(), again=False):
    """`again`: whether those that fail are run once more, one at a time."""
    status, counts = test_by_bazel(targets, options)
    failed = [label for label, count in counts.items() if count.failed]
    passed_again = []
    if again and status == TESTS_FAILED and failed:
        for label in failed:
            say(f"FIRST TRY FAILED {label}: see its output above")
        status, second = test_by_bazel(failed, [*options, *ALONE])
        counts.update(second)
        passed_again = [label for label in failed
                        if label in second and not second[label].failed]
    total = Count()
    for label, count in counts.items():
        if count.failed:
            say(f"FAILED {label}")
        total.add(count)
    if passed_again:
        say(f"AGAIN {' '.join(passed_again)}")
        total.again = passed_again
    # 4: no test in the pattern. Any other failure without a failed test is a
    # build that broke.
    if status not in (None, 0, TESTS_FAILED, 4) and total.failed == 0:
        total.failed += 1
    return total


def run_program(args):
    """Runs a program and counts what it reports."""
    count, closing, again = Count(), None, []

    def on_line(line):
        nonlocal closing
        if line is None:
            SCREEN.silence()
            return
        if PROGRESS.match(line):
            SCREEN.progress(line)
            return
        say(line)
        end = re.fullmatch(r"(\d+) passed, (\d+) failed, (\d+) skipped", line.strip())
        if end:
            closing = Count(*map(int, end.groups()))
        word, *names = line.rstrip().split(" ")
        if word == "AGAIN":
            again.extend(names)
        count.passed += word == "PASSED"
        count.failed += word == "FAILED"
        count.skipped += word == "SKIPPED"

    status = CHILDREN.run(args, ROOT, on_line)
    SCREEN.progress("")
    result = closing or count
    result.again = again
    if status is None:
        return result  # of what was done before we were interrupted
    if status != 0 and result.failed == 0:
        result.failed += 1
    elif result.passed + result.failed + result.skipped == 0:
        result.passed = 1  # a program that only succeeds or fails
    return result


def with_namespaces(folder, program, full):
    """tests/`folder`/`program`, with what it needs built. out/ may be old if
    only this part runs."""
    if os.geteuid() != 0:
        say("SKIPPED this part makes network namespaces: run it as root")
        return Count(skipped=1)
    for build in (["./dev", "build"], bazel("build", f"//tests/{folder}:all")):
        if CHILDREN.run(build, ROOT) not in (None, 0):
            return Count(failed=1)
    return run_program(["python3", f"tests/{folder}/{program}", "--full" if full else "--core"])


def simulator(full):
    """Without `full`: not the long seeds, nor the mutations that take long."""
    which = [] if full else ["--test_tag_filters=-root,-manual,-full"]
    count = run_bazel("//tests/sim/...", options=["--build_tests_only", *which])
    if full:
        count.add(run_program(["./dev", "sim", "--seconds", "600"]))
    return count


def unit(full):
    """Our style is part of lint, and clang-format no part of Bazel's. Without
    `full`, a test is compiled once: here, or for ASan + UBSan. On a machine
    without a cache, the gate has no time for both."""
    count = run_program(["./dev", "format", "--check"])
    which = ["//...", "-//tests/sim/..."] if full else [*PLAIN_TESTS, "//verbs/provider:fork_test"]
    count.add(run_bazel(*which))
    count.add(run_program(["./dev", "bench", "--figures"]))
    if full:
        count.add(run_bazel("//verbs/provider:limits_test", options=["--test_tag_filters="]))
    return count


def asan(full):
    """Without `full`, not the simulators either: their engine in virtual time is
    compiled for nothing else, and under Clang's ASan its fuzzer runs it."""
    which = [] if full else [f"-{folder}" for folder in [*PLAIN_TESTS, "//tests/sim/..."]]
    return run_bazel("//...", *which, options=["--config=asan"])


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
    yield "ASan + UBSan", 10, lambda: asan(full)
    yield "TSan", 3, lambda: run_bazel(
        "//...", options=["--config=tsan", "--build_tests_only"], again=True)


def check_parts():
    """As parts(): what needs neither root nor anything that is not there, in
    two minutes once it is built."""
    yield "format", 0.1, lambda: run_program(["./dev", "format", "--check"])
    yield "lint", 0.2, lambda: run_bazel("//tests/lint/...")
    yield "unit", 1.1, lambda: run_bazel(
        "//...", "-//tests/sim/...", "-//tests/lint/...", "-//tests/scripts/...")
    yield "scripts", 0.1, lambda: run_bazel("//tests/scripts/...")
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


def run_part(name, minutes, function):
    """(Count, minutes that it took, its line of the summary)"""
    say(f"\n== {name}")
    start = time.monotonic()
    count = function()
    if count.passed + count.failed + count.skipped == 0 and not CHILDREN.interrupted:
        say(f"FAILED {name}: it ran nothing")
        count.failed = 1
    took = (time.monotonic() - start) / 60
    line = f"{name:20} {took:5.1f} of {minutes:4} min   {count.with_again()}"
    return count, took, line + ", then interrupted" * bool(CHILDREN.interrupted)


def run(chosen, packages_seconds=None):
    """Runs parts, as of parts(), and prints the summary; the exit status."""
    CHILDREN.catch_signals()
    total, table, spent, allowed = Count(), [], 0, 0
    if packages_seconds is not None:
        spent, allowed = packages_seconds / 60, PACKAGES_MINUTES
        table.append(f"{'packages':20} {spent:5.1f} of {allowed:4.4g} min")
    not_run = []
    for name, minutes, function in chosen:
        if CHILDREN.interrupted:
            not_run.append(name)
            continue
        count, took, line = run_part(name, minutes, function)
        total.add(count)
        spent, allowed = spent + took, allowed + minutes
        table.append(line)
        say(line)
    say("\n== summary")
    say("\n".join(table))
    say(f"{'all':20} {spent:5.1f} of {allowed:4.4g} min")
    if total.again:
        say(f"AGAIN {' '.join(total.again)}")
    if len(total.again) > MOST_AGAIN:
        say(f"FAILED: {len(total.again)} tests passed only at their second try, and {MOST_AGAIN} "
            "may")
        total.failed += 1
    if CHILDREN.interrupted:
        say(f"interrupted by {signal.Signals(CHILDREN.interrupted).name}; "
            f"not run: {', '.join(not_run) or 'nothing else'}")
    say(total)
    if CHILDREN.interrupted:
        return 128 + CHILDREN.interrupted
    return 1 if total.failed or total.passed == 0 else 0


def main():
    check = sys.argv[1:2] == ["--check"]
    options = read_options(check, sys.argv[2 if check else 1:])
    chosen = check_parts() if check else parts(options.full)
    return run([part for part in chosen if options.part in (None, part[0])],
               options.packages_seconds)


if __name__ == "__main__":
    sys.exit(main())
