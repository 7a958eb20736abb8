#!/usr/bin/env python3
"""Our RNIC against the Linux kernel's rxe in a virtual machine.

Prints a line for each test and ends with "N passed, N failed, N skipped".
Needs root for network namespaces. Where the machine cannot be made, it says
SKIPPED and why.
"""

import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "e2e"))
sys.dont_write_bytecode = True

# pylint: disable=wrong-import-position
import runner  # noqa: E402
import vm  # noqa: E402
# Each module adds its tests to suite.TESTS.
import test_cm  # noqa: E402,F401 pylint: disable=unused-import
import test_loss  # noqa: E402,F401 pylint: disable=unused-import
import test_naks  # noqa: E402,F401 pylint: disable=unused-import
import test_operations  # noqa: E402,F401 pylint: disable=unused-import
import test_programs  # noqa: E402,F401 pylint: disable=unused-import
import test_services  # noqa: E402,F401 pylint: disable=unused-import
import test_vm  # noqa: E402,F401 pylint: disable=unused-import


if __name__ == "__main__":
    sys.exit(runner.main(__doc__, vm.Lab))
