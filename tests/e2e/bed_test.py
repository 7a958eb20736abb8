#!/usr/bin/env python3
"""What the beds of these tests promise, without a network or root."""
import os
import signal
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
sys.dont_write_bytecode = True

import bed  # noqa: E402 (the path must come first)


class ProcessTest(unittest.TestCase):

    def test_ctrl_c_ends_it_when_we_are_in_the_background(self):
        for number in (signal.SIGINT, signal.SIGQUIT):
            before = signal.signal(number, signal.SIG_IGN)
            try:
                with tempfile.TemporaryDirectory() as directory:
                    # Prints "up" once it is no longer a copy of this process.
                    process = bed.Process(["sh", "-c", "echo up; exec tail -f /dev/null"],
                                          directory, dict(os.environ))
                    bed.await_true(lambda p=process: "up" in p.output()[0], 60,
                                   "the program runs")
                    process.signal(number)
                    self.assertEqual(process.wait(60).status, -number)
            finally:
                signal.signal(number, before)


unittest.main()
