"""Runs the tests of one module of rdma-core's own suite, in the process that
`urnic run` has prepared, and prints one JSON object per line for each test:
{"event": "begin", "test": ID} and {"event": "end", "test": ID, "outcome":
"passed" | "failed" | "skipped", "text": WHY, "raised": EXCEPTION}. EXCEPTION is
the text of the one that ended a failed test.

usage: pyverbs_child.py TESTS_FOLDER MODULE DEVICE GID_INDEX CM_ADDRESS NAMES
                        [NOT_NAMES..]

With CM_ADDRESS, an address of the device, rdma_cm connects the queue pairs
(connect_by_cm.py); it may be empty. NAMES is a pattern of the tests to run, without "tests.", and each of NOT_NAMES
one of those not to.

The suite's own runner loads all of its modules, also those for other vendors'
extensions, and has no output for machines.
"""

import fnmatch
import importlib
import json
import os
import sys
import types
import unittest

import connect_by_cm

OUT = os.fdopen(os.dup(1), "w")


def say(**what):
    OUT.write(json.dumps(what) + "\n")
    OUT.flush()


class Report(unittest.TestResult):
    """Prints the outcome of each test as it is known."""

    def __init__(self):
        super().__init__()
        self.outcome = self.raised = None

    def startTest(self, test):
        super().startTest(test)
        self.outcome, self.raised = ("passed", ""), ""
        say(event="begin", test=test.id())

    def stopTest(self, test):
        super().stopTest(test)
        say(event="end", test=test.id(), outcome=self.outcome[0],
            text=self.outcome[1], raised=self.raised)

    def addSkip(self, test, reason):
        self.outcome = ("skipped", reason)

    def addFailure(self, test, err):
        # A test that fails twice, as in its clean-up, has no one exception.
        self.raised = "" if self.outcome[0] == "failed" else str(err[1])
        self.outcome = ("failed", self._exc_info_to_string(err, test))

    addError = addFailure

    def addSubTest(self, test, subtest, err):
        if err is not None:
            self.addFailure(test, err)


def each(tests):
    """The tests in a suite of suites."""
    for test in tests:
        if isinstance(test, unittest.TestSuite):
            yield from each(test)
        else:
            yield test


def main():
    folder, module, device, gid, cm_address, names, *not_names = sys.argv[1:]
    sys.argv[1:] = ["--dev", device, "--gid", gid]
    sys.path.insert(0, folder)
    # Replaces the package's own code, which would load every module.
    package = types.ModuleType("tests")
    package.__path__ = [folder]
    sys.modules["tests"] = package
    importlib.import_module("args_parser").parser.parse_args()
    if cm_address:
        connect_by_cm.replace_to_rts(importlib.import_module("tests.base"), cm_address)
    loaded = unittest.defaultTestLoader.loadTestsFromModule(
        importlib.import_module("tests." + module))
    wanted = unittest.TestSuite()
    for test in each(loaded):
        name = test.id().removeprefix("tests.")
        if fnmatch.fnmatchcase(name, names) and not any(
                fnmatch.fnmatchcase(name, other) for other in not_names):
            wanted.addTest(test)
    wanted.run(Report())
    say(event="done")


if __name__ == "__main__":
    main()
