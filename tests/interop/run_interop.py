#!/usr/bin/env python3
"""Our RNIC against the Linux kernel's rxe in a virtual machine.

Prints a line for each test and ends with "N passed, N failed, N skipped".
Needs root for network namespaces. Where the machine cannot be made, it says
SKIPPED and why.
"""

import os
import pathlib
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "e2e"))
sys.dont_write_bytecode = True

# pylint: disable=wrong-import-position
import bed  # noqa: E402
import image  # noqa: E402
import suite  # noqa: E402
import vm  # noqa: E402
# Each module adds its tests to suite.TESTS.
import test_cm  # noqa: E402,F401 pylint: disable=unused-import
import test_loss  # noqa: E402,F401 pylint: disable=unused-import
import test_naks  # noqa: E402,F401 pylint: disable=unused-import
import test_operations  # noqa: E402,F401 pylint: disable=unused-import
import test_programs  # noqa: E402,F401 pylint: disable=unused-import
import test_services  # noqa: E402,F401 pylint: disable=unused-import
import test_vm  # noqa: E402,F401 pylint: disable=unused-import


class Tools(bed.Tools):
    """What is under test, our end of the scenarios, and the peer."""

    def __init__(self, out, built):
        super().__init__(out, built)
        self.verbs_peer = str(pathlib.Path(built).resolve() / "verbs_peer")
        self.lab = None

    def missing(self):
        wanted = [self.urnic, self.preload, self.verbs_peer]
        return [path for path in wanted if not os.path.exists(path)]

    def repair(self):
        return self.lab.revive()


def say(text):
    print(f"# {text}", flush=True)


def skipped(reason):
    print(f"SKIPPED {reason}\n0 passed, 0 failed, 1 skipped")
    return 0


def main():
    tests, tools = suite.from_command_line(__doc__, "tests/interop", Tools)
    if os.geteuid() != 0:
        return skipped("this makes network namespaces: run it as root")
    bed.raise_on_signals()
    bed.sweep()
    begin = time.monotonic()
    try:
        with vm.Lab(tools, say) as tools.lab:
            status = suite.run(tests, tools)
    except image.Unavailable as reason:
        return skipped(f"no virtual machine: {reason}")
    say(f"{time.monotonic() - begin:.0f} s in all")
    return status


if __name__ == "__main__":
    sys.exit(main())
