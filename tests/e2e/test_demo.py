"""`urnic demo`: it works, and leaves nothing behind, however it ends. What it
puts on the wire is judged by the same strangers as in test_wire.py."""

import collections
import glob
import os
import re
import signal
import socket
import tempfile
import time

import bed
import rocev2
import suite
import test_wire

PROGRAMS = ["ip", "ethtool", "ib_write_lat", "ib_write_bw", "qperf"]
TESTS = 10  # per bed, before those of TCP
LONGEST = 240  # seconds; a quiet machine needs 25
ROW = re.compile(r"^(ib_\w+)\s+(two hosts|shared memory)\s+(\d+)\s+(\S+)\s"
                 r"*(us|M/s|Gb/s)?$", re.MULTILINE)
BAR = re.compile(r"^  (two hosts|shared memory|) +(uRNIC|TCP) +(#+) (\S+)$",
                 re.MULTILINE)
CHARTS = 3
# The packets of each opcode that are kept of each stream: a capture of all
# would be gigabytes.
SAMPLE = 100


class Demo:
    """A running demo, recognized by a word in the environment of all that it
    starts. Leaving the block ends it as Ctrl-C would."""

    def __init__(self, context, directory):
        context.need(*PROGRAMS)
        self._word = f"URNIC_E2E_DEMO={directory}"
        name, value = self._word.split("=")
        self.process = bed.Process([context.tools.urnic, "demo"], directory,
                                   {**os.environ, name: value})

    def __enter__(self):
        return self

    def __exit__(self, *_unused):
        self.process.signal(signal.SIGINT)
        try:
            self.process.wait(30)
        except bed.Timeout as error:
            print(f"# {error}")

    def namespace(self, suffix):
        return f"urnic-demo-{self.process.pid}-{suffix}"

    def progress(self):
        """The number of the test that runs now; 0 before the first."""
        steps = re.findall(r"^\[ ?(\d+)/", self.process.output()[1],
                           re.MULTILINE)
        return int(steps[-1]) if steps else 0

    def await_step(self, number):
        bed.await_true(lambda: self.progress() >= number or
                       not self.process.running(), LONGEST,
                       f"test {number} of the demo")
        if not self.process.running():
            raise bed.Died(str(self.process.result()))

    def relatives(self):
        """Living processes that the demo has started, itself included."""
        found = []
        for path in glob.glob("/proc/[0-9]*/environ"):
            try:
                with open(path, encoding="utf-8", errors="replace") as file:
                    words = file.read().split("\0")
            except OSError:
                continue  # the process has just ended
            if self._word in words:
                found.append(int(path.split("/")[2]))
        return found

    def check_gone(self, context):
        """No process, namespace, interface or directory is left."""
        # Killed processes may take a moment to disappear.
        end = time.monotonic() + 10
        while self.relatives() and time.monotonic() < end:
            time.sleep(0.05)
        context.check(not self.relatives(),
                      f"processes left: {self.relatives()}")
        mine = f"urnic-demo-{self.process.pid}-*"
        left = [path for place in (bed.RUN_NETNS, tempfile.gettempdir())
                for path in glob.glob(os.path.join(place, mine))]
        context.check(not left, f"left behind: {left}")


class Sample:
    """Says which frames of a capture to keep."""

    def __init__(self):
        self._seen = collections.Counter()

    def __call__(self, frame):
        # Source address, queue pair and opcode. Everything except RoCEv2 over
        # IPv4 without options is left out, including the kernel's packets.
        if frame[12:15] != b"\x08\x00\x45" or frame[23] != 17:
            return False
        key = (frame[26:30], frame[47:50], frame[42])
        self._seen[key] += 1
        return self._seen[key] <= SAMPLE


def capture(demo):
    """What passes between the demo's two hosts, a sample of it."""
    names = [demo.namespace(suffix) for suffix in "ab"]
    return rocev2.Capture(
        [(bed.open_socket_in(name, socket.AF_PACKET, socket.SOCK_RAW), "u0")
         for name in names], keep=Sample(), buffer_bytes=8 << 20)


def check_table(context, result):
    """A row with a figure for every test on both beds."""
    rows = ROW.findall(result.out)
    context.check(len(rows) == 2 * TESTS, result)
    for program, where, size, figure, unit in rows:
        context.check(re.fullmatch(r"\d+\.\d+", figure) and float(figure) > 0
                      and unit, f"{program} {where} {size}: {figure}\n{result}")
    return rows


def check_charts(context, result):
    """They come last: a bar of uRNIC and one of TCP for either bed, in plain
    ASCII, as nobody looks at a terminal here. The greater has the longer."""
    bars = BAR.findall(result.out[ROW.search(result.out).start():])
    context.check(result.out.isascii() and "\033" not in result.out, result)
    context.check([bar[:2] for bar in bars] == CHARTS * [
        ("two hosts", "uRNIC"), ("", "TCP"),
        ("shared memory", "uRNIC"), ("", "TCP")], result)
    for ours, tcp in zip(bars[::2], bars[1::2]):
        figures = [float(bar[3]) for bar in (ours, tcp)]
        lengths = [len(bar[2]) for bar in (ours, tcp)]
        context.check(min(figures) > 0, result)
        context.check((figures[0] > figures[1]) == (lengths[0] > lengths[1])
                      or lengths[0] == lengths[1], result)


@suite.test("demo/runs-to-its-table-and-its-traffic-is-standard-RoCEv2",
            alone=True)
def demo_runs(context):
    context.need("tshark")
    with tempfile.TemporaryDirectory(prefix=f"{bed.PREFIX}-{os.getpid()}-") \
            as directory, Demo(context, directory) as demo:
        demo.await_step(1)
        with capture(demo) as frames:
            demo.await_step(TESTS + 1)
        result = demo.process.wait(LONGEST)
        context.check(result.status == 0, result)
        rows = check_table(context, result)
        check_charts(context, result)
        demo.check_gone(context)
        packets = frames.packets()
        opcodes = {packet.opcode for packet in packets}
        for packet in packets:
            test_wire.check_packet(context, packet, 4096)
        # Writes, sends, reads, atomics, short and long, and their responses.
        wanted = set().union(*test_wire.PROGRAMS.values()) - {0x13}
        context.check(opcodes >= wanted, f"opcodes {sorted(opcodes)}")
        test_wire.check_with_tshark(context, frames,
                                    os.path.join(directory, "demo.pcap"))
        context.note(f"{len(rows)} rows, {len(packets)} packets judged")


def interrupt(context, step, number):
    """Ctrl-C in the middle, as a terminal sends it: to all."""
    with tempfile.TemporaryDirectory(prefix=f"{bed.PREFIX}-{os.getpid()}-") \
            as directory, Demo(context, directory) as demo:
        demo.await_step(step)
        bed.await_true(lambda: len(demo.relatives()) > 1, 30,
                       "a program of the step")
        os.killpg(demo.process.pid, number)
        begin = time.monotonic()
        result = demo.process.wait(30)
        context.note(f"ended in {time.monotonic() - begin:.1f} s")
        context.check(result.status == 128 + number, result)
        context.check("all namespaces and files were removed" in result.err, result)
        context.check(not ROW.search(result.out), result)
        demo.check_gone(context)


suite.add("demo/ctrl-c-between-hosts-leaves-nothing",
          lambda context: interrupt(context, 2, signal.SIGINT))
suite.add("demo/ctrl-c-over-shared-memory-leaves-nothing",
          lambda context: interrupt(context, TESTS + 2, signal.SIGINT),
          core=False)
suite.add("demo/ctrl-c-beside-tcp-leaves-nothing",
          lambda context: interrupt(context, TESTS + 1, signal.SIGINT),
          core=False)
suite.add("demo/sigterm-leaves-nothing",
          lambda context: interrupt(context, 2, signal.SIGTERM), core=False)
