#!/usr/bin/env python3
"""rdma-core's own tests, as the distribution ships them, on our RNIC.

They run on the RoCE device, and then on the iWARP device. Prints a line for
each test and ends with "N passed, N failed, N skipped". A test may be skipped
for the reasons listed in pyverbs.md, and on the iWARP device also for those in
pyverbs_iwarp.md, and for no other. Both ends are queue pairs of one device that
talks to itself. Needs no root.
"""

import argparse
import collections
import fnmatch
import gzip
import json
import os
import pathlib
import re
import selectors
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "e2e"))
# pylint: disable=wrong-import-position
import clean_up  # noqa: E402
import newer_verbs  # noqa: E402
from tally import Tally  # noqa: E402

SHIPPED = pathlib.Path("/usr/share/doc/rdma-core/tests")
PACKAGE = "rdma-core"  # the package that ships them

# The modules of the suite that test the verbs. This release has no module srq;
# its tests of shared receive queues are in the others.
MODULES = ["addr", "atomic", "cq", "cq_events", "cqex", "device", "fork", "mr",
           "odp", "parent_domain", "pd", "qp", "qpex", "rdmacm",
           "relaxed_ordering", "shared_pd"]
ADDRESS = "10.77.0.1"
PORT = ["--port", "loop", "--addr", f"{ADDRESS}/24"]
PYTHON = "/usr/bin/python3"  # the distribution's, for which its pyverbs is built
MODULE_SECONDS = 120


class Device:
    """What the tests run on, and the files that say which of them may be
    skipped."""

    def __init__(self, name, transport, gid_index, cm_address, *tables):
        self.name = name
        self.options = ["--transport", transport, *PORT]
        self.for_child = [name, gid_index, cm_address]
        self.tables = tables


DEVICES = {
    # The GID is RoCE v2 of the first IPv4 address.
    "roce": Device("urnic0", "roce", "3", "", "pyverbs.md"),
    "iwarp": Device("iwurnic0", "iwarp", "0", ADDRESS, "pyverbs.md", "pyverbs_iwarp.md"),
}

NOT_RUN = "not run"
FAILS = "fails: "  # then the text of the exception that ends the test


class Reasons:
    """The tables of a device: which test may be skipped for what reason."""

    class Row:
        def __init__(self, table, glob, says, why, depends):
            self.table = table
            self.glob = glob
            self.says = says
            self.why = why
            self.depends = depends
            self.used = False

        def matches(self, test):
            return fnmatch.fnmatchcase(test, self.glob)

    def __init__(self, device):
        row = re.compile(r"\| `([^`]+)` \| `([^`]+)` \| ([^|]*) \| ?([^|]*)\|$")
        self.rows = []
        for table in device.tables:
            text = (HERE / table).read_text(encoding="utf8").replace("DEVICE", device.name)
            found = map(row.match, text.splitlines())
            self.rows += [self.Row(table, *match.groups()) for match in found if match]

    def allow(self, test, reason):
        """`reason` need only begin as the table says."""
        for row in self.rows:
            if row.matches(test) and reason.startswith(row.says):
                row.used = True
                return True
        return False

    def not_run(self, module):
        """Patterns of tests of the module that are left out."""
        return [row for row in self.rows if row.says == NOT_RUN
                and row.glob.startswith(f"test_{module}.")]

    def unused(self):
        return [row for row in self.rows
                if not row.used and not row.depends.strip() and row.says != NOT_RUN]


def unpack(target, source=SHIPPED):
    """Puts the suite into `target`. False if it is not available."""
    if not source.is_dir():
        # Images without documentation lack this folder.
        packed = target / "package"
        packed.mkdir()
        got = subprocess.run(["apt-get", "-q", "-q", "download", PACKAGE], cwd=packed, check=False)
        files = list(packed.glob("*.deb"))
        if got.returncode != 0 or not files:
            return False
        subprocess.run(["dpkg-deb", "-x", files[0], packed / "root"], check=True)
        source = packed / "root" / SHIPPED.relative_to("/")
    for path in source.iterdir():
        if path.suffix == ".gz":
            with gzip.open(path) as packed_file:
                (target / path.stem).write_bytes(packed_file.read())
        else:
            shutil.copy(path, target / path.name)
    return True


def without_rdma_link(folder):
    """Prefix of a command for which `rdma link show -j` finds no link: later
    tests ask it for a device's interface and do not take its failure, and it
    asks the kernel."""
    program = pathlib.Path(folder, "bin", "rdma")
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho '[]'\n", encoding="ascii")
    program.chmod(0o755)
    return ["env", f"PATH={program.parent}:{os.environ['PATH']}"]


def lines_of(process, end):
    """What the process prints, line by line, until it ends or `end` passes;
    None stands for the latter."""
    os.set_blocking(process.stdout.fileno(), False)
    selector = selectors.DefaultSelector()
    selector.register(process.stdout, selectors.EVENT_READ)
    buffer = b""
    while True:
        left = end - time.monotonic()
        if left <= 0:
            yield None
            return
        if not selector.select(left):
            continue
        data = process.stdout.read()
        if not data:
            return
        *lines, buffer = (buffer + data).split(b"\n")
        for line in lines:
            yield line.decode("utf8", "replace")


class Run:
    """The suite on one device: a module at a time, in a process of its own."""

    def __init__(self, device, tally, command):
        """`command`: what is put before the module's name, the device, the
        tests and those that are left out (pyverbs_child.py)."""
        self.device = device
        self.reasons = Reasons(device)
        self.tally = tally
        self.command = command
        self.outcomes = {}  # test: (its module, what became of it)

    def name(self, test):
        return f"{self.device.name}/{test}"

    def report(self, tell, module, test, outcome, text, seconds, raised=""):
        """`tell`: Tally's method of this try. `raised`: the text of the
        exception that ended the test."""
        if outcome == "skipped" and not self.reasons.allow(test, text):
            outcome, text = "failed", f"skipped for a reason that is not listed: {text}"
        elif outcome == "failed" and raised and self.reasons.allow(test, FAILS + raised):
            outcome, text = "skipped", FAILS + raised
        outcome = {"failed": "FAILED"}.get(outcome, outcome)
        self.outcomes[test] = module, outcome
        tell(self.name(test), outcome, text, seconds)

    def first(self, module, only):
        left_out = self.reasons.not_run(module)
        for row in left_out:
            self.report(self.tally.last, module, row.glob, "skipped", f"{NOT_RUN}: {row.why}", 0)
        self.run(self.tally.first, module, f"*{only or ''}*", [row.glob for row in left_out])

    def second(self, module, only):
        """Once more what has not passed and was not skipped: a process that
        dies takes what is behind with it."""
        self.run(self.tell_second, module, f"*{only or ''}*",
                 [test for test, said in self.outcomes.items()
                  if said in ((module, "passed"), (module, "skipped"))])

    def tell_second(self, name, *rest):
        (self.tally.second if name in self.tally.waiting else self.tally.last)(name, *rest)

    def run(self, tell, module, names, not_names):
        """It is killed when it takes too long: what has not ended by then has
        failed."""
        self.tally.begin(self.name(f"test_{module}"))
        begin = time.monotonic()
        running = None
        done = False
        with tempfile.TemporaryFile() as errors, \
                subprocess.Popen([*self.command, f"test_{module}", *self.device.for_child, names,
                                  *not_names], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                 stderr=errors, start_new_session=True) as process:
            try:
                for line in lines_of(process, begin + MODULE_SECONDS):
                    if line is None:
                        os.killpg(process.pid, signal.SIGKILL)
                        break
                    try:
                        event = json.loads(line)
                    except ValueError:
                        continue  # the tests print, too
                    if event["event"] == "begin":
                        running, since = event["test"], time.monotonic()
                    elif event["event"] == "end":
                        self.report(tell, module, event["test"].removeprefix("tests."),
                                    event["outcome"], event["text"], time.monotonic() - since,
                                    event["raised"])
                        running = None
                    else:
                        done = True
            except SystemExit:  # by a signal
                os.killpg(process.pid, signal.SIGKILL)
                raise
            status = process.wait()
            errors.seek(0)
            said = errors.read()[-4000:].decode("utf8", "replace")
        process_name = f"test_{module}"  # of what happens between tests
        if done and self.name(process_name) in self.tally.waiting:
            self.report(tell, module, process_name, "passed", "", time.monotonic() - begin)
        if not done:
            what = running.removeprefix("tests.") if running else process_name
            self.report(tell, module, what, "failed", f"the process ended with status {status}, "
                        f"what came behind this test did not run; it said:\n{said}",
                        time.monotonic() - begin)

    def failed_modules(self):
        return sorted({module for module, outcome in self.outcomes.values()
                       if outcome == "FAILED"})

    def judge_rows(self):
        """A reason that no test gives any more has no place in the list."""
        for row in self.reasons.unused():
            self.tally.last(self.name(row.glob), "FAILED",
                            f"{row.table} has a reason that no test gives: {row.says}", 0)

    def print_table(self):
        kinds = ("passed", "FAILED", "skipped")
        print(f"\n{'on ' + self.device.name:18}" + "".join(f"{kind.lower():>8}" for kind in kinds))
        by_module = {}
        for module, outcome in self.outcomes.values():
            for line in (module, "all"):
                by_module.setdefault(line, collections.Counter())[outcome] += 1
        by_module["all"] = by_module.pop("all", collections.Counter())  # the last line
        for line, counts in by_module.items():
            print(f"{line:18}" + "".join(f"{counts[kind]:8}" for kind in kinds))
        print()


def run_all(runs, tally, modules, only):
    """All modules on all devices, and then those that failed once more."""
    tally.expect(len(runs) * len(modules))
    for run in runs:
        for module in modules:
            run.first(module, only)
    failed = [(run, module) for run in runs for module in run.failed_modules()]
    tally.expect(len(failed))
    for run, module in failed:
        run.second(module, only)
    for run in runs:
        if modules == MODULES and not only:
            run.judge_rows()
        run.print_table()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--out", default=HERE.parents[1] / "out", type=pathlib.Path,
                        help="the tree under test (default: out/)")
    parser.add_argument("--transport", choices=DEVICES, action="append",
                        help="on the device of this transport only")
    parser.add_argument("--only", help="a part of the tests' names")
    parser.add_argument("--suite", help="with libibverbs, pyverbs and tests of this Debian suite")
    parser.add_argument("module", nargs="*", default=MODULES, help=f"of {' '.join(MODULES)}")
    options = parser.parse_args()
    clean_up.raise_on_signals()
    urnic = options.out / "bin" / "urnic"
    if not urnic.exists():
        print(f"missing {urnic}: run ./dev build", file=sys.stderr)
        return 2
    python, shipped = [PYTHON], SHIPPED
    if options.suite:
        try:
            newer = newer_verbs.get(options.suite)
        except newer_verbs.Unavailable as reason:
            print(f"SKIPPED everything: no libibverbs of {options.suite}: {reason}")
            print("0 passed, 0 failed, 1 skipped")
            return 0
        python, shipped = newer.python(), newer.root / SHIPPED.relative_to("/")
    with tempfile.TemporaryDirectory(prefix="urnic-pyverbs-") as folder:
        suite = pathlib.Path(folder)
        if not unpack(suite, shipped):
            print(f"FAILED the tests of rdma-core: neither in {SHIPPED} nor in package {PACKAGE}")
            return 1
        if options.suite:
            python = [*without_rdma_link(folder), *python]
        tally = Tally()
        runs = [Run(device, tally, [urnic, "run", *device.options, "--", *python,
                                    HERE / "pyverbs_child.py", folder])
                for device in (DEVICES[transport] for transport in options.transport or DEVICES)]
        try:
            run_all(runs, tally, options.module, options.only)
        finally:
            # The gate reads these lines, also of a run that was interrupted.
            status = tally.close()
        return status


if __name__ == "__main__":
    sys.exit(main())
