#!/usr/bin/env python3
"""The printers of urnic_gdb.py, in gdb."""

import os
import shutil
import subprocess
import unittest

FOLDER = "ras/gdb/"


def printed(*expressions):
    """What gdb prints for members of `printed`."""
    commands = ["set debuginfod enabled off", "break urnic::Stop", "run",
                f"source {FOLDER}urnic_gdb.py"]
    commands += [f"output urnic::printed.{name}" if not name.startswith("@")
                 else name[1:] for name in expressions]
    argv = ["gdb", "-nx", "-q", "-batch", FOLDER + "printed"]
    for command in commands:
        argv += ["-ex", command, "-ex", "echo \\n"]
    out = subprocess.run(argv, capture_output=True, text=True, check=False,
                         timeout=60, env={**os.environ, "HOME": "/nowhere"})
    return out.stdout + out.stderr


@unittest.skipIf(shutil.which("gdb") is None, "gdb is not installed")
class Printers(unittest.TestCase):
    def test_each_type_reads_as_people_write_it(self):
        text = printed("psn", "timeout", "never", "mac", "ipv4", "ipv6", "code",
                       "marks")
        for wanted in ("16777200", "67.5 ms", "infinite", "02:00:00:ab:cd:01",
                       "10.1.0.2", "fd01:0000:0000:0000:0000:0000:0000:0002",
                       "URN1001", "start 'uRNIC-QP', end 'QP-uRNIC'"):
            self.assertIn(wanted, text)

    def test_a_program_without_objects_has_none(self):
        text = printed("@urnic qp", "@urnic objects", "@urnic qp 17")
        self.assertIn("no qp\n", text)
        self.assertIn("qp 0\n", text)
        self.assertIn("no qp with 17", text)


if __name__ == "__main__":
    unittest.main()
