"""A list of named tests and the loop that runs them.

A test is a function of one argument, the Context; it passes by returning,
fails by raising, and is skipped by raising Skip, which says what is missing.
"""

import argparse
import fnmatch
import pathlib
import re
import shutil
import sys
import time
import traceback

import bed


class Skip(Exception):
    """This machine cannot run the test."""


class Failure(Exception):
    """What was expected and what came instead."""


class Context:
    """What a test gets: the tree under test and a place for a remark."""

    def __init__(self, tools):
        self.tools = tools
        self.remark = ""
        self.again = False  # something had to be tried again

    def note(self, text):
        """A measured value for the test's line."""
        self.remark = f"{self.remark}, {text}" if self.remark else text

    @staticmethod
    def check(condition, message):
        if not condition:
            raise Failure(str(message))

    @staticmethod
    def need(*programs):
        """Skips unless all are installed."""
        for program in programs:
            if shutil.which(program) is None:
                raise Skip(f"{program} is not installed")

    def try_again(self, attempts, symptom, once):
        """What `once` returns when it does not fail; for programs that now and
        then lose a race of their own, of which `symptom` is the sign: a regular
        expression for the text of the failure. Whatever fails otherwise has
        failed. The gate counts who needed more than one attempt."""
        for attempt in range(1, attempts + 1):
            try:
                result = once()
            except (bed.Timeout, Failure) as failure:
                if attempt == attempts or not re.search(symptom, str(failure)):
                    raise
                continue
            if attempt > 1:
                self.note(f"attempt {attempt}")
                self.again = True
            return result

    def check_ok(self, *results):
        """Every program ended well; those that did not are shown first, for
        logs may be cut."""
        if not all(map(ended_well, results)):
            ordered = sorted(results, key=ended_well)
            raise Failure("\n".join(map(str, ordered)))


def ended_well(result):
    """Status 0. Or an rping that had done all its work: nothing in rping joins
    the thread that reads its event channel, and that thread ends the program
    with -1 if it comes back to the channel after main() has closed it."""
    if result.status == 0:
        return True
    if "rping" not in result.argv or result.status != 255:
        return False
    race = RPING_CLIENT_RACE if "-c" in result.argv else RPING_RACE
    return bool(race.search(result.err))


# A server's main thread may say first that the client has gone.
RPING_RACE = re.compile(r"DISCONNECT EVENT\.\.\.\n"
                        r"(wait for RDMA_READ_ADV state 10\n)?"
                        r"rdma_get_cm_event: Bad file descriptor\n\Z")
# A client may also have closed the channel before it was told of the end. It
# says so of everything that fails earlier, so this line alone is not a failure.
RPING_CLIENT_RACE = re.compile(r"(\A|DISCONNECT EVENT\.\.\.\n)"
                               r"rdma_get_cm_event: Bad file descriptor\n\Z")


class Test:
    def __init__(self, name, body, core):
        self.name = name
        self.body = body
        self.core = core


TESTS = []


def test(name, core=True):
    """Registers the function below. `core`: part of the short set."""

    def register(body):
        TESTS.append(Test(name, body, core))
        return body

    return register


def add(name, body, core=True):
    TESTS.append(Test(name, body, core))


def parse_arguments(description, folder):
    """The command line that every runner has; `folder` is where it lives."""
    root = pathlib.Path(__file__).resolve().parents[2]
    parser = argparse.ArgumentParser(description=description.split("\n")[0])
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--core", action="store_true",
                       help="the short set, some minutes (default)")
    which.add_argument("--full", action="store_true", help="everything")
    parser.add_argument("--out", default=root / "out",
                        help="the tree under test (default: out/)")
    parser.add_argument("--built", default=root / "bazel-bin" / folder,
                        help=f"where //{folder}:all has been built")
    parser.add_argument("--list", action="store_true",
                        help="print the names and stop")
    parser.add_argument("pattern", nargs="*",
                        help="names to run, from both sets: '*/*bw*'")
    return parser.parse_args()


def select(arguments):
    """The tests that `--full`, `--core` or the patterns ask for."""
    if arguments.pattern:
        return [one for one in TESTS
                if any(fnmatch.fnmatch(one.name, pattern)
                       for pattern in arguments.pattern)]
    return [one for one in TESTS if arguments.full or one.core]


def from_command_line(description, folder, make_tools):
    """The tests that the command line asks for, and what they are to use.
    Ends the program where there is nothing to run."""
    arguments = parse_arguments(description, folder)
    tests = select(arguments)
    if arguments.list:
        print("\n".join(one.name for one in tests))
        sys.exit(0)
    if not tests:
        print("no test has such a name", file=sys.stderr)
        sys.exit(2)
    tools = make_tools(arguments.out, arguments.built)
    if tools.missing():
        print(f"missing {', '.join(tools.missing())}: run ./dev build "
              f"&& bazel build //{folder}:all", file=sys.stderr)
        sys.exit(2)
    return tests, tools


def _run_one(one, context):
    """(outcome, text) of one test; the outcome may be TIMED_OUT."""
    try:
        one.body(context)
    except Skip as reason:
        return "skipped", str(reason)
    except bed.Timeout as reason:
        return TIMED_OUT, str(reason)
    except (Failure, bed.Died) as reason:
        return "FAILED", str(reason)
    except bed.BedError as reason:
        return "FAILED", f"the bed could not be made: {reason}"
    except Exception:  # pylint: disable=broad-except
        return "FAILED", traceback.format_exc()
    return "passed", context.remark


TIMED_OUT = "timed out"


def _run_and_repair(one, tools):
    """(outcome, text, what was broken in the bed and is whole again, whether a
    program was tried again)."""
    context = Context(tools)
    outcome, text = _run_one(one, context)
    broken = "" if outcome in ("passed", "skipped") else tools.repair()
    return outcome, text, broken, context.again


def run(tests, tools):
    """Runs them, one line each; the exit status for main()."""
    count = {"passed": 0, "FAILED": 0, "skipped": 0}
    failed = []
    again = []
    for one in tests:
        begin = time.monotonic()
        outcome, text, broken, tried_again = _run_and_repair(one, tools)
        # On a shared machine a program may not have got enough CPU time, and a
        # bed may break during its test. Only these are tried again, once, and
        # listed at the end. A test with a wrong result has failed, except where
        # it called Context.try_again().
        if outcome == TIMED_OUT or broken:
            again.append(one.name)
            print(f"again   {one.name}, after:\n{text}\n{broken}", flush=True)
            outcome, text, broken, _ = _run_and_repair(one, tools)
            if broken:
                text += f"\n{broken}"
        elif tried_again:
            again.append(one.name)
        if outcome == TIMED_OUT:
            outcome = "FAILED"
        seconds = time.monotonic() - begin
        count[outcome] += 1
        separator = ":\n" if "\n" in text else ": " if text else ""
        print(f"{outcome:8}{one.name} ({seconds:.1f} s){separator}{text}",
              flush=True)
        if outcome == "FAILED":
            failed.append(one.name)
    if failed:
        print("failed: " + " ".join(failed))
    # The gate reads this line and counts its names.
    if again:
        print("AGAIN " + " ".join(again))
    print(f"{count['passed']} passed, {count['FAILED']} failed, "
          f"{count['skipped']} skipped")
    return 1 if failed else 0
