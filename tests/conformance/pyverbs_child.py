"""Runs the tests of one module of rdma-core's own suite, in the process that
`urnic run` has prepared, and prints one JSON object per line for each test:
{"event": "begin", "test": ID} and {"event": "end", "test": ID, "outcome":
"passed" | "failed" | "skipped", "text": WHY}.

usage: pyverbs_child.py TESTS_FOLDER MODULE DEVICE GID_INDEX [PART_OF_NAMES]

The suite's own runner loads all of its modules, also those for other vendors'
extensions, and has no output for machines.
"""

import importlib
import json
import os
import sys
import types
import unittest

OUT = os.fdopen(os.dup(1), "w")


def say(**what):
    OUT.write(json.dumps(what) + "\n")
    OUT.flush()


class Report(unittest.TestResult):
    """Prints the outcome of each test as it is known."""

    def __init__(self):
        super().__init__()
        self.outcome = None

    def startTest(self, test):
        super().startTest(test)
        self.outcome = ("passed", "")
        say(event="begin", test=test.id())

    def stopTest(self, test):
        super().stopTest(test)
        say(event="end", test=test.id(), outcome=self.outcome[0],
            text=self.outcome[1])

    def addSkip(self, test, reason):
        self.outcome = ("skipped", reason)

    def addFailure(self, test, err):
        self.outcome = ("failed", self._exc_info_to_string(err, test))

    addError = addFailure

    def addSubTest(self, test, subtest, err):
        if err is not None:
            self.addFailure(test, err)


def main():
    folder, module, device, gid, *only = sys.argv[1:]
    sys.argv[1:] = ["--dev", device, "--gid", gid]
    sys.path.insert(0, folder)
    # A package without the code that loads every module.
    package = types.ModuleType("tests")
    package.__path__ = [folder]
    sys.modules["tests"] = package
    importlib.import_module("args_parser").parser.parse_args()
    loader = unittest.TestLoader()
    loader.testNamePatterns = [f"*{part}*" for part in only] or None
    tests = loader.loadTestsFromModule(
        importlib.import_module("tests." + module))
    tests.run(Report())
    say(event="done")


if __name__ == "__main__":
    main()
