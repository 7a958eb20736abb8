#!/usr/bin/env python3
"""rdma-core's own tests, as the distribution ships them, on our RNIC.

They run on the RoCE device, and then on the iWARP device. Prints a line for
each test and ends with "N passed, N failed, N skipped". A test may be skipped
for the reasons listed in pyverbs.md, and on the iWARP device also for those in
pyverbs_iwarp.md, and for no other. Both ends are queue pairs of one device that
talks to itself. Needs no root.
"""

import argparse
import fnmatch
import gzip
import json
import os
import pathlib
import re
import selectors
import shutil
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "e2e"))
import newer_verbs  # noqa: E402 pylint: disable=wrong-import-position

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
    """Counts outcomes, one line each, as tests/e2e does."""

    def __init__(self, device):
        self.device = device
        self.reasons = Reasons(device)
        self.count = {"passed": 0, "FAILED": 0, "skipped": 0}
        self.failed = []
        self.table = []

    def report(self, test, outcome, text, seconds, raised=""):
        """`raised`: the text of the exception that ended the test."""
        if outcome == "skipped" and not self.reasons.allow(test, text):
            outcome, text = "failed", f"skipped for a reason that is not listed: {text}"
        elif outcome == "failed" and raised and self.reasons.allow(test, FAILS + raised):
            outcome, text = "skipped", FAILS + raised
        outcome = {"failed": "FAILED"}.get(outcome, outcome)
        self.count[outcome] += 1
        if outcome == "FAILED":
            self.failed.append(test)
        separator = ":\n" if "\n" in text else ": " if text else ""
        print(f"{outcome:8}{self.device.name}/{test} ({seconds:.1f} s){separator}{text}", flush=True)

    def module(self, name, left_out, command):
        """One module in a process of its own, which is killed when it takes
        too long: what has not ended by then has failed."""
        before = dict(self.count)
        for row in left_out:
            self.leave_out(row)
        begin = time.monotonic()
        running = None
        done = False
        with tempfile.TemporaryFile() as errors, \
                subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                 stderr=errors, start_new_session=True) as process:
            for line in lines_of(process, begin + MODULE_SECONDS):
                if line is None:
                    os.killpg(process.pid, 9)
                    break
                try:
                    event = json.loads(line)
                except ValueError:
                    continue  # the tests print, too
                if event["event"] == "begin":
                    running, since = event["test"], time.monotonic()
                elif event["event"] == "end":
                    self.report(event["test"].removeprefix("tests."), event["outcome"],
                                event["text"], time.monotonic() - since, event["raised"])
                    running = None
                else:
                    done = True
            status = process.wait()
            errors.seek(0)
            said = errors.read()[-4000:].decode("utf8", "replace")
        if not done:
            what = running.removeprefix("tests.") if running else f"test_{name}"
            self.report(what, "failed", f"the process ended with status {status}, what came "
                        f"behind this test did not run; it said:\n{said}",
                        time.monotonic() - begin)
        self.table.append((name, *(self.count[k] - before[k] for k in self.count)))

    def leave_out(self, row):
        self.count["skipped"] += 1
        print(f"skipped {self.device.name}/{row.glob}: {NOT_RUN}: {row.why}", flush=True)

    def judge_rows(self):
        """A reason that no test gives any more has no place in the list."""
        for row in self.reasons.unused():
            self.count["FAILED"] += 1
            self.failed.append(row.glob)
            print(f"FAILED  {self.device.name}/{row.glob}: {row.table} has a reason that no test "
                  f"gives: {row.says}")

    def print_table(self):
        print(f"\n{'on ' + self.device.name:18}{'passed':>8}{'failed':>8}{'skipped':>8}")
        for name, *counts in [*self.table, ("all", *self.count.values())]:
            print(f"{name:18}" + "".join(f"{n:8}" for n in counts))
        print()


def close(runs):
    """The last lines, about all devices."""
    failed = [f"{run.device.name}/{test}" for run in runs for test in run.failed]
    if failed:
        print("failed: " + " ".join(failed))
    print(", ".join(f"{sum(run.count[key] for run in runs)} {key.lower()}" for key in runs[0].count))
    return 1 if failed else 0


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
        runs = [Run(DEVICES[transport]) for transport in options.transport or DEVICES]
        for run in runs:
            device = run.device
            for module in options.module:
                left_out = run.reasons.not_run(module)
                run.module(module, left_out,
                           [urnic, "run", *device.options, "--", *python, HERE / "pyverbs_child.py",
                            folder, f"test_{module}", *device.for_child,
                            f"*{options.only or ''}*", *(row.glob for row in left_out)])
            if options.module == MODULES and not options.only:
                run.judge_rows()
            run.print_table()
        return close(runs)


if __name__ == "__main__":
    sys.exit(main())
