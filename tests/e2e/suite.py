"""A list of named tests and the loop that runs them.

A test is a function of one argument, the Context; it passes by returning,
fails by raising, and is skipped by raising Skip, which says what is missing.
"""

import argparse
import contextlib
import fnmatch
import pathlib
import re
import shutil
import sys
import time
import traceback

import bed
import clean_up
import workers
from tally import Tally


class Skip(Exception):
    """This machine cannot run the test."""


class Failure(Exception):
    """What was expected and what came instead."""


class Context:
    """What a test gets: the tree under test and a place for a remark."""

    def __init__(self, tools):
        self.tools = tools
        self.remark = ""

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
        failed."""
        for attempt in range(1, attempts + 1):
            try:
                result = once()
            except (bed.Timeout, Failure) as failure:
                if attempt == attempts or not re.search(symptom, str(failure)):
                    raise
                continue
            if attempt > 1:
                self.note(f"attempt {attempt}")
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
    def __init__(self, name, body, core, alone):
        self.name = name
        self.body = body
        self.core = core
        self.alone = alone


TESTS = []


def test(name, core=True, alone=False):
    """Registers the function below. `core`: part of the short set. `alone`: it
    measures, counts, or polls on both processors, and never runs beside another
    test."""

    def register(body):
        add(name, body, core, alone)
        return body

    return register


def add(name, body, core=True, alone=False):
    TESTS.append(Test(name, body, core, alone))


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
    parser.add_argument("--jobs", type=int, default=1, metavar="N",
                        help="tests at a time, where they share nothing "
                        "(default: 1)")
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
    """The tests that the command line asks for, what they are to use, and how
    many at a time. Ends the program where there is nothing to run. From
    here on signals raise."""
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
    clean_up.raise_on_signals()
    return tests, tools, arguments.jobs


def _run_one(one, context):
    """(outcome, text) of one test."""
    try:
        one.body(context)
    except Skip as reason:
        return "skipped", str(reason)
    except (Failure, bed.Died, bed.Timeout) as reason:
        return "FAILED", str(reason)
    except bed.BedError as reason:
        return "FAILED", f"the bed could not be made: {reason}"
    except Exception:  # pylint: disable=broad-except
        return "FAILED", traceback.format_exc()
    return "passed", context.remark


def _run_and_repair(one, tools):
    """(outcome, text, seconds) of one test. What it has broken of the bed is
    whole again, and in the text."""
    begin = time.monotonic()
    outcome, text = _run_one(one, Context(tools))
    broken = tools.repair() if outcome == "FAILED" else ""
    if broken:
        text += f"\n{broken}"
    return outcome, text, time.monotonic() - begin


def run(tests, tools, jobs=1):
    """Runs them, one line each, and those that failed once more when all
    others have ended; the exit status for main(). With more `jobs` than one,
    first come those that need not be alone, each in a process of its own."""
    tally = Tally()
    tally.expect(len(tests))
    named = {one.name: one for one in tests}
    together = [one for one in tests if jobs > 1 and not one.alone]
    try:
        with contextlib.closing(workers.run(
                jobs, len(together),
                lambda number: tally.begin(together[number].name),
                lambda number: _run_and_repair(together[number], tools))
                                ) as results:
            for number, result in results:
                tally.first(together[number].name, *result)
        for one in tests:
            if one not in together:
                tally.begin(one.name)
                tally.first(one.name, *_run_and_repair(one, tools))
        tally.expect(len(tally.waiting))
        for name in list(tally.waiting):
            tally.begin(name)
            tally.second(name, *_run_and_repair(named[name], tools))
    finally:
        # The gate reads these lines, also of a run that was interrupted.
        status = tally.close()
    return status
