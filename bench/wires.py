"""Bad wires for run.py and pictures.py: what they are, and what RoCE, iWARP
and the kernel's TCP (CUBIC and BBR) achieve over them.

Each end is in a network namespace of its own, and tests/e2e/impair_bridge joins
them. For the kernel (iperf3) and for RNICs (perftest) it is the same wire with
the same MTU, so their frames have the same size. The offloads of the kernel's
interfaces are off. Its windows may reach 16 MB; a wire and its buffer hold less
than that.

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
import perftest  # noqa: E402

# With frames of this size the bridge can carry it, also when both ends use its
# CPUs. RoCE has packets of 4096 bytes, TCP segments of 4148.
LINK_GBPS = 1
LINK = "rate=1Gbit,buffer=1MB"
MTU = 4200
LOSSES = ("0", "0.01", "0.1", "1", "5")  # percent of the frames, either way
DELAYS_MS = (0, 1)  # either way
LONG = "10 ms round trip"
# (fault, ms either way): each beside the same wire without it.
FAULTS = {
    ("reordered", 0): "reorder=5%:1ms",
    ("reordered", 1): "reorder=5%:1ms",
    ("duplicated", 0): "duplicate=5%",
    ("corrupted", 0): "corrupt=0.5%",
}
# A bottleneck that flows share; its buffer holds what one round trip carries.
SHARED = "rate=200Mbit,buffer=256KB,delay=5ms"
OTHERS = 2  # flows of the kernel there
SHARED_SECONDS = 12
# Hosts that send to one at the same time.
INCAST = "rate=1Gbit,buffer=256KB"
SENDERS = 4
INCAST_SECONDS = 6  # if all use the whole link
SAMPLE_SECONDS = 0.02
STARVED = 0.01  # of its share, in a second
WINDOW = 16 << 20
MESSAGE = 65536
LARGE = 1 << 20

# Who sends: the kernel's congestion controls, and our transports.
KERNELS = {"CUBIC": "cubic", "BBR": "bbr"}
TRANSPORTS = {"RoCE": "roce", "iWARP": "iwarp"}

# One flow: its goodput, and what the machine spends on it: processes, kernel
# and bridge.
Flow = collections.namedtuple("Flow", "gbps cpu_s_per_gb")
# Goodput of the link's rate; of the packets sent; Jain's index of the senders'
# goodputs; pairs of a second and a sender of which next to nothing arrived;
# senders that ended with an error.
Incast = collections.namedtuple(
    "Incast", "link_percent resent_percent jain starved failures")


def name_of(loss, delay_ms):
    return f"loss {loss} %, {delay_ms} ms"


def faults_of(loss=0, delay_ms=0):
    return ",".join([LINK] + [f"delay={delay_ms * 1000:.0f}us"] *
                    (delay_ms != 0) + [f"loss={loss}%"] * (float(loss) != 0))


def wires():
    """name: faults."""
    found = {name_of(loss, delay): faults_of(loss, delay)
             for delay in DELAYS_MS for loss in LOSSES}
    found[LONG] = faults_of(delay_ms=5)
    for (name, delay), fault in FAULTS.items():
        found[f"{name}, {delay} ms"] = f"{faults_of(0, delay)},{fault}"
    return found


class Wire(impaired_bed.ImpairedBed):
    """Hosts with RNICs, and the same faults either way. Side n sends to its
    peer: of the `pairs`, all use the one wire."""

    def __init__(self, tools, faults, pairs=1):
        super().__init__(tools, faults, f"{faults},seed=2", MTU, pairs)
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

    def start(self, end, seconds, count=1, size=MESSAGE):
        """[(server, client)] of writes for so long, by `count` queue pairs or
        TCP connections. RNICs poll for completions."""
        if end in KERNELS:
            # The first quarter of the time is not counted; perftest counts
            # the middle half.
            start = max(seconds // 4, 1)
            return self._start_iperf3(
                end, ["-O", str(start), "-t", str(seconds - start)], count)
        return self._start_perftest(
            end, ["ib_write_bw", "-D", str(seconds)], count, size)

    def send(self, end, messages, count=1, senders=(0,)):
        """[(server, client)] of each sender: so many messages, spread over the
        `count`. RNICs sleep until there is something to do, as the kernel's
        programs do; perftest refuses that with a time, and for writes."""
        if end in KERNELS:
            return self._start_iperf3(
                end, ["-n", str(messages * MESSAGE)], count, senders)
        test = ["ib_send_bw", "-e", "-n", str(messages // count)]
        if end == "iWARP":
            # There perftest has credits for the receives, which arrive without
            # an event. Only completions wake it, so each send has one.
            test += ["-Q", "1"]
        return self._start_perftest(end, test, count, MESSAGE, senders)

    def _start_perftest(self, end, test, count, size, senders=(0,)):
        self.transport = TRANSPORTS[end]
        by_cm = end == "iWARP"  # which knows no other way
        how = ["-R"] if by_cm else ["-x", str(self.gid_v4)]
        commands = [[*test, "-q", str(count), *how, "-F", "-s",
                     str(size), "--report_gbits", "-p", str(self.next_port())]
                    for _ in senders]
        servers = [self.spawn(self.peer(side), words)
                   for side, words in zip(senders, commands)]
        if by_cm:
            time.sleep(1.5)  # it does not say when it listens
        else:
            self._await(servers, commands)
        pairs = []
        for side, words, server in zip(senders, commands, servers):
            other = self.sides[self.peer(side)]
            address = other.addresses[0].split("/")[0] if by_cm \
                else other.host_address
            pairs.append((server, self.spawn(
                side, [*words, address],
                env={"URNIC_STATS": self.stats_path(side)})))
        return pairs

    def _start_iperf3(self, end, length, count, senders=(0,)):
        commands = [["-p", str(self.next_port())] for _ in senders]
        servers = [self.spawn(self.peer(side), ["iperf3", "-s", "-1", *words],
                              rnic=False)
                   for side, words in zip(senders, commands)]
        self._await(servers, commands)
        return [(server, self.spawn(
            side, ["iperf3", "-C", KERNELS[end], "-c",
                   self.sides[self.peer(side)].host_address, *length, "-l",
                   str(MESSAGE), "-P", str(count), *words, "-J"], rnic=False))
                for side, words, server in zip(senders, commands, servers)]

    @staticmethod
    def _await(servers, commands):
        for server, words in zip(servers, commands):
            bed.await_true(lambda s=server, p=int(words[-1]): s.listens(p) or
                           not s.running(), 10, f"port {words[-1]}")
            if not server.running():
                raise RuntimeError(server.result())

    def delivered(self):
        return self.wire_counts()[0]["delivered"]

    def resent_percent(self, end, senders):
        """Of the packets that these hosts have sent, when their programs have
        ended."""
        sent, resent = 0, 0
        for side in senders:
            if end in KERNELS:
                tcp = self._kernel_counts(side)
                sent += tcp["OutSegs"] + tcp["RetransSegs"]
                resent += tcp["RetransSegs"]
                continue
            try:
                programs = self.read_stats(side)
            except FileNotFoundError:  # it was killed
                continue
            for stats in programs:
                sent += stats["engine"]["requests_sent"]
                resent += stats["engine"]["requests_resent"]
        return 100 * resent / max(sent, 1)

    def _kernel_counts(self, side):
        text = self.run(side, ["cat", "/proc/net/snmp"], rnic=False).out
        names, values = (line.split()[1:] for line in text.splitlines()
                         if line.startswith("Tcp:"))
        return dict(zip(names, map(int, values)))


def finish(pair, seconds):
    """(Gb/s, bytes of payload) of a pair, when it has ended."""
    server, client = pair
    result = client.wait(seconds + 15)
    if result.status != 0:
        raise RuntimeError(f"{result}\n{server.result()}")
    server.wait(5)
    if result.argv[-1] == "-J":
        received = json.loads(result.out)["end"]["sum_received"]
        return received["bits_per_second"] / 1e9, received["bytes"]
    row = perftest.rows(result.out)[-1]
    # The rate of messages has more digits than that of bits.
    return row.values[2] * 1e6 * row.size * 8 / 1e9, row.iterations * row.size


def busy_seconds():
    """Of all CPUs, since they were started."""
    line = pathlib.Path("/proc/stat").read_text(encoding="ascii").split("\n")[0]
    ticks = [int(word) for word in line.split()[1:]]
    idle, iowait = ticks[3:5]
    return (sum(ticks[:8]) - idle - iowait) / 100


def one_flow(tools, faults, start, seconds):
    """The Flow that `start`, a function of a Wire, begins for so long."""
    with Wire(tools, faults) as wire:
        pair, = start(wire)
        bed.await_true(lambda: wire.delivered() > 100, 10, "data")
        time.sleep(seconds / 4)
        begin, busy = time.monotonic(), busy_seconds()
        time.sleep(seconds / 2)
        used = (busy_seconds() - busy) / (time.monotonic() - begin)
        gbps, _ = finish(pair, seconds)
        if gbps == 0:
            raise RuntimeError("nothing arrived")
        return Flow(gbps, used / (gbps / 8))


def share(tools, end, others):
    """The goodput of a flow of `end`, relative to the mean of the kernel's
    flows beside it."""
    with Wire(tools, SHARED) as wire:
        pairs = wire.start(end, SHARED_SECONDS)
        for _ in range(OTHERS):
            pairs += wire.start(others, SHARED_SECONDS)
        one, *rest = [finish(pair, SHARED_SECONDS)[0] for pair in pairs]
        return one / statistics.mean(rest)


def arrivals(wire, pairs):
    """[(seconds, bytes at each receiving host)], until all programs have
    ended."""
    found = []
    end = time.monotonic() + 4 * INCAST_SECONDS
    while any(client.running() for _, client in pairs) and \
            time.monotonic() < end:
        found.append((time.monotonic(), wire.bytes_to_hosts()))
        time.sleep(SAMPLE_SECONDS)
    return found


def judge_arrivals(found):
    """(seconds from the first data to the last, Jain's index, starved) of what
    arrivals() returned."""
    least = LINK_GBPS * 1e9 / 8 / SENDERS * STARVED  # a second
    spans, starved = [], 0
    for host in range(SENDERS):
        counts = [(at, bytes_[host]) for at, bytes_ in found]
        # Neither the exchange before the data nor that behind it.
        rises = [(before, at)
                 for (before, old), (at, new) in zip(counts, counts[1:])
                 if new - old > least * (at - before)]
        spans.append((rises[0][0], rises[-1][1]))
        starved += sum(int(before - at)
                       for (_, at), (before, _) in zip(rises, rises[1:]))
    # While all send.
    begin = max(first for first, _ in spans)
    end = min(last for _, last in spans)
    common = [bytes_ for at, bytes_ in found if begin <= at <= end]
    shares = [last - first for first, last in zip(common[0], common[-1])] \
        if common else []
    squares = sum(one * one for one in shares)
    # Where they do not overlap, one has the link at a time.
    jain = sum(shares) ** 2 / (SENDERS * squares) if squares else 1 / SENDERS
    return (max(last for _, last in spans) - min(first for first, _ in spans),
            jain, starved)


def incast(tools, end, count):
    """The Incast of SENDERS hosts with `count` queue pairs or connections
    each. They send the same number of bytes."""
    with Wire(tools, INCAST, SENDERS) as wire:
        link_bytes = INCAST_SECONDS * LINK_GBPS * 1e9 / 8
        messages = int(link_bytes / MESSAGE / SENDERS)
        pairs = wire.send(end, messages, count, range(SENDERS))
        seconds, jain, starved = judge_arrivals(arrivals(wire, pairs))
        payload, failures = 0, 0
        for pair in pairs:
            try:
                payload += finish(pair, 0)[1]
            except (RuntimeError, bed.Timeout):
                failures += 1
        return Incast(100 * payload * 8 / seconds / (LINK_GBPS * 1e9),
                      wire.resent_percent(end, range(SENDERS)), jain, starved,
                      failures)
