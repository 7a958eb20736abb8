"""What run_interop.py and run_siw.py have in common: the command line, the
loop over the tests, and what they say where the machine cannot be made."""

import os
import pathlib
import time

import bed
import clean_up
import image
import suite


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


def main(description, make_lab):
    """Runs the tests of suite.TESTS that the command line asks for, in the lab
    that `make_lab` makes; the exit status."""
    # One at a time: they share the guest.
    tests, tools, _ = suite.from_command_line(description, "tests/interop",
                                              Tools)
    if os.geteuid() != 0:
        return skipped("this makes network namespaces: run it as root")
    clean_up.sweep()
    begin = time.monotonic()
    try:
        with make_lab(tools, say) as tools.lab:
            status = suite.run(tests, tools)
    except image.Unavailable as reason:
        return skipped(f"no virtual machine: {reason}")
    say(f"{time.monotonic() - begin:.0f} s in all")
    return status
