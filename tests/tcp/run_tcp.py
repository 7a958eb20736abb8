#!/usr/bin/env python3
"""Our TCP against the kernel's, through a TUN interface.

Prints a line for each test and ends with "N passed, N failed, N skipped".
Needs root: each test has a network namespace of its own, which ends with it.
"""

import os
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "e2e"))
sys.dont_write_bytecode = True

# pylint: disable=wrong-import-position
import bed  # noqa: E402
import suite  # noqa: E402

MB = 1000 * 1000
ROLES = ("client", "server", "cookies")
# name, what the wire does, megabytes in each direction, in the short set
WIRES = (
    ("clean", "", 20, True),
    ("loss", "loss=1%", 10, True),
    ("heavy-loss", "loss=5%", 2, False),
    ("bursts-of-loss", "burst=0.2%:20%", 5, False),
    ("reorder", "reorder=5%:2ms,delay=1ms", 10, True),
    ("duplicates", "duplicate=5%", 10, False),
    ("everything", "loss=1%,reorder=5%:1ms,duplicate=2%,delay=200us,"
     "jitter=300us:reorder", 5, True),
    ("slow", "rate=200Mbit,buffer=128KB,delay=2ms", 10, True),
    ("marked", "rate=500Mbit,buffer=512KB,red=64KB:256KB,delay=1ms", 10,
     False),
    ("stalls", "stall=100ms:400ms:1s", 5, False),
)
SECONDS = 100


class Tools:
    """What is under test."""

    def __init__(self, _out, built):
        self.program = str(pathlib.Path(built).resolve() / "against_kernel")

    def missing(self):
        return [] if os.path.exists(self.program) else [self.program]

    def repair(self):
        """Tests share nothing."""
        return ""


def run(context, *options):
    """Runs the program; returns what it printed."""
    argv = [context.tools.program, f"seconds={SECONDS}", *options]
    try:
        result = subprocess.run(argv, capture_output=True, text=True,
                                timeout=SECONDS + 20, check=False)
    except subprocess.TimeoutExpired as late:
        raise bed.Timeout(f"{argv}: {late.stdout}") from None
    if result.returncode == 77:
        raise suite.Skip(result.stderr.strip())
    said = f"$ {' '.join(argv)}\n{result.stdout}{result.stderr}"
    context.check(result.returncode == 0, said)
    context.note(result.stdout.strip().splitlines()[-1])
    return result.stdout


def add_exchanges():
    """Every byte arrives, in both directions at the same time, and both ends
    close."""
    for name, fault, megabytes, core in WIRES:
        for role in ROLES:
            options = [f"role={role}", f"up={megabytes * MB}",
                       f"down={megabytes * MB}"]
            if fault:
                options.append(f"fault={fault}")
            suite.add(f"tcp/{name}/{role}",
                      lambda context, options=options: run(context, *options),
                      core and role != "cookies")


add_exchanges()


def add_changes():
    """Wires that --fault does not have."""
    for name, megabytes, options, core in (
            ("damage", 10, ["flip=200"], True),
            ("narrows", 10, ["narrow=800"], True),
            ("narrows-silently", 10, ["silent=800"], False),
            ("gigabytes", 2000, [], False)):
        for role in ("client", "server"):
            words = [f"role={role}", f"up={megabytes * MB}",
                     f"down={megabytes * MB}", *options]
            suite.add(f"tcp/{name}/{role}",
                      lambda context, words=words: run(context, *words),
                      core and role == "client")


add_changes()


@suite.test("tcp/jumbo-frames")
def jumbo(context):
    run(context, "mtu=9000", f"up={50 * MB}", f"down={50 * MB}")


@suite.test("tcp/a-small-window")
def small_window(context):
    run(context, "window=3000", f"up={MB}", f"down={MB}", "role=server")


@suite.test("tcp/a-kernel-without-options")
def without_options(context):
    """No window scaling, no timestamps, no SACK: what is old still works."""
    run(context, "sysctl=tcp_sack=0", "sysctl=tcp_timestamps=0",
        "sysctl=tcp_window_scaling=0", "fault=loss=0.5%", f"up={2 * MB}",
        f"down={2 * MB}")


@suite.test("tcp/tshark-finds-nothing-to-complain-about")
def analysed(context):
    """Wireshark's analysis of a run without loss: every checksum holds, and
    nothing was sent twice or out of order."""
    context.need("tshark")
    with tempfile.TemporaryDirectory() as directory:
        capture = os.path.join(directory, "run.pcap")
        run(context, f"up={5 * MB}", f"down={5 * MB}", "fault=delay=1ms",
            f"pcap={capture}")
        found = subprocess.run(
            ["tshark", "-r", capture, "-o", "tcp.check_checksum:TRUE", "-o",
             "ip.check_checksum:TRUE", "-Y",
             "ip.src == 10.77.0.2 && (tcp.analysis.retransmission || "
             "tcp.analysis.spurious_retransmission || "
             "tcp.analysis.out_of_order || tcp.analysis.lost_segment || "
             "tcp.checksum.status == 0 || ip.checksum.status == 0 || "
             "_ws.malformed)"],
            capture_output=True, text=True, check=True).stdout
        context.check(not found, found)


def main():
    tests, tools, jobs = suite.from_command_line(__doc__, "tests/tcp", Tools)
    if os.geteuid() != 0:
        print("SKIPPED this makes network namespaces: run it as root\n"
              "0 passed, 0 failed, 1 skipped")
        return 0
    return suite.run(tests, tools, jobs)


if __name__ == "__main__":
    sys.exit(main())
