"""The rows "impaired ..." of run.py: an iwurnic0 over bad wires, beside the
kernel's CUBIC.

Each end is in a network namespace of its own, and tests/e2e/impair_bridge joins
them. For the kernel (iperf3) and for an iwurnic0 (ib_write_bw -R) it is the
same wire with the same MTU, so their segments have the same size. The offloads
of the kernel's interfaces are off. Its windows may reach 16 MB, and ours 1.5 MB
with this MTU; the wire and its buffer hold less than that.

No process is pinned: three or more share the CPUs with the kernel's softirqs.
"""

import collections
import json
import pathlib
import statistics
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "tests/e2e"))

import bed  # noqa: E402 (the path must come first)
import impaired_bed  # noqa: E402

# Less than the bridge can carry, also when both ends use its CPUs.
RATE = "rate=500Mbit,buffer=1MB"
MTU = 1500
LOSSES = ("0", "0.01", "0.1", "1")  # percent of the frames, either way
DELAYS_MS = (0, 1)  # either way
CLEAN = "loss 0 %, 0 ms"
# Beside the same wire without the reordering.
UNORDERED = "delay=1ms,reorder=5%:500us"
# A bottleneck that flows share; its buffer holds what one round trip carries.
SHARED = "rate=200Mbit,buffer=256KB,delay=5ms"
OTHERS = 2  # flows of the kernel there
SHARED_SECONDS = 12
WINDOW = 16 << 20
MESSAGE = 65536

# One flow: its goodput, and what the machine spends on it: processes, kernel
# and bridge.
Flow = collections.namedtuple("Flow", "gbps cpu_s_per_gb")


class Wire(impaired_bed.ImpairedBed):
    """Two hosts with iWARP devices, and the same faults either way."""

    def __init__(self, tools, faults):
        super().__init__(tools, faults, f"{faults},seed=2", mtu=MTU)
        self.transport = "iwarp"
        # A wire does not become slower when the machine is busy. Otherwise it
        # would wait for its turn while programs poll, which the kernel's do
        # not, and delay their frames by milliseconds.
        self.bridge_wrap = ["chrt", "-r", "1"]

    def _make(self):
        super()._make()
        for side in self.sides:
            bed.command("ip", "netns", "exec", side.namespace, "sysctl", "-qw",
                        f"net.ipv4.tcp_rmem=4096 131072 {WINDOW}",
                        f"net.ipv4.tcp_wmem=4096 131072 {WINDOW}")

    def start_ours(self, seconds):
        """(server, client) of perftest, which counts the middle half of the
        time. Both poll, so each uses a whole CPU."""
        return self._start_perftest(["ib_write_bw", "-D", str(seconds)])

    def start_ours_asleep(self, seconds, gbps):
        """The same, but both sleep until there is something to do, as the
        kernel's programs do. That excludes -D, so the number of messages
        comes from `gbps`, what is expected."""
        count = max(int(seconds * gbps * 1e9 / 8 / MESSAGE), 20)
        return self._start_perftest(["ib_send_bw", "-e", "-n", str(count)])

    def _start_perftest(self, test):
        words = [*test, "-R", "-F", "-p", str(self.next_port()),
                 "-s", str(MESSAGE), "--report_gbits"]
        server = self.spawn(1, words)
        time.sleep(1.5)  # it does not say when it listens
        address = self.sides[1].addresses[0].split("/")[0]
        return server, self.spawn(0, [*words, address])

    def start_kernel(self, seconds):
        """(server, client) of iperf3, which does not count the first
        quarter."""
        port = self.next_port()
        server = self.spawn(1, ["iperf3", "-s", "-1", "-p", str(port)],
                            rnic=False)
        bed.await_true(lambda: server.listens(port), 10, "iperf3")
        start = seconds // 4
        return server, self.spawn(
            0, ["iperf3", "-C", "cubic", "-c", self.sides[1].host_address,
                "-p", str(port), "-O", str(start), "-t", str(seconds - start), "-l",
                str(MESSAGE), "-J"], rnic=False)

    def delivered(self):
        return self.wire_counts()[0]["delivered"]


def finish(pair, seconds):
    """Gb/s of a pair, when it has ended."""
    server, client = pair
    result = client.wait(seconds + 15)
    server.wait(5)
    if result.status != 0:
        raise RuntimeError(f"{result}\n{server.result()}")
    if result.argv[-1] == "-J":
        received = json.loads(result.out)["end"]["sum_received"]
        return received["bits_per_second"] / 1e9
    # The rate of messages has more digits than that of bits.
    rows = [line.split() for line in result.out.splitlines()]
    rate = [float(words[4]) for words in rows
            if len(words) == 5 and words[0] == str(MESSAGE)]
    return rate[-1] * 1e6 * MESSAGE * 8 / 1e9


def busy_seconds():
    """Of all CPUs, since they were started."""
    line = pathlib.Path("/proc/stat").read_text(encoding="ascii").split("\n")[0]
    ticks = [int(word) for word in line.split()[1:]]
    idle, iowait = ticks[3:5]
    return (sum(ticks[:8]) - idle - iowait) / 100


def one_flow(tools, faults, start, seconds):
    """The Flow that `start` (a method of Wire) begins."""
    with Wire(tools, faults) as wire:
        pair = start(wire, seconds)
        bed.await_true(lambda: wire.delivered() > 100, 10, "data")
        time.sleep(seconds / 4)
        begin, busy = time.monotonic(), busy_seconds()
        time.sleep(seconds / 2)
        used = (busy_seconds() - busy) / (time.monotonic() - begin)
        gbps = finish(pair, seconds)
        return Flow(gbps, used / (gbps / 8))


def share(tools, start):
    """The goodput of a flow, relative to that of kernel flows beside it."""
    with Wire(tools, SHARED) as wire:
        pairs = [start(wire, SHARED_SECONDS)] + [
            wire.start_kernel(SHARED_SECONDS) for _ in range(OTHERS)]
        one, *others = [finish(pair, SHARED_SECONDS) for pair in pairs]
        return one / statistics.mean(others)



def wires():
    """name: faults."""
    found = {f"loss {loss} %, {delay} ms":
             ",".join([RATE] + [f"delay={delay}ms"] * (delay != 0) +
                      [f"loss={loss}%"] * (loss != "0"))
             for delay in DELAYS_MS for loss in LOSSES}
    found["reordered"] = f"{RATE},{UNORDERED}"
    return found


def rows(tools, seconds):
    """As the function of this name in run.py."""

    kernels = {}  # goodput by wire, in this round

    def start_asleep(name):
        # The wire's kernel row may have been left out or have failed.
        gbps = kernels.get(name, 0.1)
        return lambda wire, seconds: wire.start_ours_asleep(seconds, gbps)

    def measure(name, end, start):
        flow = one_flow(tools, wires()[name], start, seconds)
        if end == "kernel":
            kernels[name] = flow.gbps
        return {(f"impaired {name}: {end}", "Gb/s"): flow.gbps,
                (f"impaired {name}: {end}, CPU", "s/GB"): flow.cpu_s_per_gb}

    for name in wires():
        yield (f"impaired {name}: kernel", None,
               lambda n=name: measure(n, "kernel", Wire.start_kernel))
        yield (f"impaired {name}: iWARP", None,
               lambda n=name: measure(n, "iWARP", start_asleep(n)))
    yield (f"impaired {CLEAN}: iWARP polls", None,
           lambda: measure(CLEAN, "iWARP polls", Wire.start_ours))
    for end, start in (("iWARP", Wire.start_ours),
                       ("kernel", Wire.start_kernel)):
        yield (f"impaired share: {end}", "", lambda s=start: share(tools, s))


def asked():
    """As the function of this name in run.py."""
    for name in wires():
        ours, kernel = (f"impaired {name}: {end}" for end in ("iWARP", "kernel"))
        yield (f"iWARP / kernel, {name}", ours, kernel, 1,
               None if name == "reordered" else 1, ">=")
        yield "... CPU", f"{ours}, CPU", f"{kernel}, CPU", 1, None, ""
    yield ("iWARP polls / kernel, nothing lost", f"impaired {CLEAN}: iWARP polls",
           f"impaired {CLEAN}: kernel", 1, None, "")
    yield ("5 % reordered / in order", "impaired reordered: iWARP",
           "impaired loss 0 %, 1 ms: iWARP", 1, 0.9, ">=")
    yield "share of a bottleneck", "impaired share: iWARP", None, 1, 0.7, ">="
    yield "share of a bottleneck", "impaired share: iWARP", None, 1, 1.4, "<="
