#!/usr/bin/python3
"""Measures what the pictures show, stores it and draws them:
`./dev bench --pictures`.

All series of all pictures, beside their rivals, in one run: the points are
interleaved, so that one round measures each once. As in run.py, a process has
one CPU with all its threads, and a value is kept with the distance that the
CPUs had; those of impaired wires are not pinned. The document that comes out is all that plot.py needs; its form is
described there.
"""
import argparse
import collections
import datetime
import json
import math
import os
import pathlib
import platform
import re
import signal
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "bench"), str(ROOT / "tests/e2e")]

import bed  # noqa: E402 (the path must come first)
import clean_up  # noqa: E402
import impaired_rows  # noqa: E402
import plot  # noqa: E402
import run  # noqa: E402
import wires  # noqa: E402

SIZES = (8, 64, 512, 4096, 65536, 1048576)
QUEUE_PAIRS = (1, 4, 16, 64, 256, 1024)
TCP_STREAMS = (1, 4, 16, 64, 128)  # the maximum of iperf3
DELAYS_MS = (0, 0.1, 0.5, 1, 5, 10)  # either way
OVER_WIRES = {  # of wires.py: (name of the series, kind, command)
    "RoCE": ("uRNIC RoCE", "urnic", "ib_write_bw -s 65536"),
    "iWARP": ("uRNIC iWARP", "urnic", "ib_write_bw -s 65536 -R"),
    "CUBIC": ("kernel TCP CUBIC", "rival", "iperf3 -C cubic -l 65536"),
    "BBR": ("kernel TCP BBR", "rival", "iperf3 -C bbr -l 65536"),
}
SAMPLES = 100000
SHARES = {"50 %": 0.5, "90 %": 0.9, "99 %": 0.99, "99.9 %": 0.999,
          "99.99 %": 0.9999}
SAMPLES_BEHIND = 10  # a percentile needs this many samples that are worse
PACKAGES = ("perftest", "ucx-utils", "libfabric-bin", "iperf3", "sockperf",
            "dpdk-dev", "libibverbs1")

# `measures`: functions that return {x: value}, each called once a round; or, for
# a series of several panels (a tuple), {x: a value for each}. `unpinned`: its
# processes run on whatever CPU.
Series = collections.namedtuple(
    "Series", "panel name kind baseline command measures unpinned",
    defaults=(False,))


def reason(error):
    """Why a measurement failed, without the paths of this machine."""
    text = str(error).replace(f"{ROOT}/", "")
    made = re.escape(tempfile.gettempdir()) + r"/urnic-bench-\w+/?"
    return re.sub(made, "", text)[-300:]


def distribution(samples):
    """{x: microseconds} of the latency picture."""
    ordered = sorted(samples)
    found = {"average": sum(ordered) / len(ordered)}
    for name, share in SHARES.items():
        if len(ordered) * (1 - share) >= SAMPLES_BEHIND - 0.001:
            found[name] = ordered[math.ceil(share * len(ordered)) - 1]
    return found


def list_of_32(size):
    return ["--post_list", "32", "--cq-mod", "32"] if size < 65536 else []


class Rivals:
    """What run.py has no use for."""

    def __init__(self, bench):
        self.bench = bench
        self.seconds = bench.options.seconds

    def pair(self, server, client, seconds):
        """What the client prints; the server ends with it, or is ended."""
        first = subprocess.Popen(
            ["taskset", "-c", "0", *server], stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            time.sleep(0.5)
            return subprocess.run(
                ["taskset", "-c", "1", *client], text=True, check=True,
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT, timeout=seconds + 20).stdout
        finally:
            first.send_signal(signal.SIGINT)
            first.wait(10)

    def iperf3(self, size, streams=1):
        """Gb/s of writes of that size over loopback."""
        self.bench.port += 1
        port = str(self.bench.port)
        text = self.pair(
            ["iperf3", "-s", "-1", "-p", port],
            ["iperf3", "-c", "127.0.0.1", "-p", port, "-l", str(size), "-P",
             str(streams), "-t", str(self.seconds), "-J"], self.seconds)
        return received_gbps(text)

    def sockperf(self):
        """Half round trips of a blocking TCP connection."""
        self.bench.port += 1
        where = ["--tcp", "-i", "127.0.0.1", "-p", str(self.bench.port)]
        text = self.pair(
            ["sockperf", "server", *where],
            ["sockperf", "ping-pong", *where, "-m", "14", "-t",
             str(self.seconds)], self.seconds)
        found = {"average": float(re.search(r"Latency is ([\d.]+)", text)[1])}
        count = int(re.search(r"Total (\d+) observations", text)[1])
        for name, share in SHARES.items():
            if count * (1 - share) >= SAMPLES_BEHIND:
                found[name] = float(re.search(
                    rf"percentile {share * 100:.3f} = +([\d.]+)", text)[1])
        return found


def received_gbps(text):
    return json.loads(text)["end"]["sum_received"]["bits_per_second"] / 1e9


def rates(bench, rivals, place):
    """Messages a second, by their size."""

    def raw(frame, sizes):
        rate = bench.raw(place, "rx", "tx", frame)[0]["rx_mpps"]
        return {size: rate / max(1, size // 4096) for size in sizes}

    def ours(size):
        row, _ = bench.perftest(
            place, "ib_write_bw", "-s", str(size), "-m", "4096", "-D",
            str(rivals.seconds), *list_of_32(size))
        return {size: float(row[4])}

    def ucx(size):
        # About the messages of one second, or fewer.
        count = int(min(200000, 3e9 / size))
        return {size: bench.ucx("ucp_put_bw", size, count)[-1] / 1e6}

    at = lambda function: [lambda s=size: function(s) for size in SIZES]
    head = run.FRAME_8 - 8  # of a frame with one whole write
    yield Series(
        "rate", "raw port", "baseline", None, "bench/raw_port tx",
        [lambda s=size: raw(head + s, [s]) for size in SIZES if size < 4096] +
        [lambda: raw(run.FRAME_4K, [s for s in SIZES if s >= 4096])])
    yield Series("rate", "uRNIC write", "urnic", "raw port",
                 f"ib_write_bw on {place}, lists of 32 below 64 KB", at(ours))
    yield Series("rate", "UCX over TCP, put", "rival", None,
                 "ucx_perftest -t ucp_put_bw, UCX_TLS=tcp, loopback", at(ucx))
    yield Series("rate", "kernel TCP, write()", "rival", None,
                 "iperf3 -l SIZE, loopback", at(
                     lambda s: {s: rivals.iperf3(s) * 1e3 / 8 / s}))


def latencies(bench, rivals, place):
    """Half round trips of 8 bytes: how they are distributed."""

    def raw():
        rtt = bench.raw(place, "echo", "ping", 64)[1]["rtt_us"]
        keys = ("average", "p50", "p90", "p99", "p999", "p9999")
        return {x: rtt[key] / 2 for x, key in zip(plot.PERCENTILES, keys)}

    def ours(tool):
        text, _ = bench.perftest_text(place, tool, "-s", "8", "-n",
                                      str(SAMPLES), "-H")
        return distribution([float(us) for us in re.findall(
            r"^\d+, ([\d.e+]+)$", text, re.MULTILINE)])

    def ucx(share):
        # The tool reports the percentile of its last 2048 iterations.
        numbers = bench.ucx("ucp_put_lat", 8, 50000, "-R", str(share * 100))
        return {"average": numbers[3], f"{share:.0%}".replace("%", " %"):
                numbers[1]}

    yield Series("latency", "raw port", "baseline", None,
                 "bench/raw_port ping, 64-byte frames", [raw])
    for verb in ("write", "send"):
        yield Series("latency", f"uRNIC {verb}", "urnic", "raw port",
                     f"ib_{verb}_lat -s 8 -H on {place}",
                     [lambda t=f"ib_{verb}_lat": ours(t)])
    yield Series("latency", "UCX over TCP, put", "rival", None,
                 "ucx_perftest -t ucp_put_lat -R, UCX_TLS=tcp, loopback",
                 [lambda s=share: ucx(s) for share in (0.5, 0.9, 0.99)])
    yield Series("latency", "kernel TCP", "rival", None,
                 "sockperf ping-pong --tcp -m 14, loopback",
                 [rivals.sockperf])
    yield Series("latency", "libfabric over TCP", "rival", None,
                 "fi_pingpong -p 'tcp;ofi_rxm' -S 8, loopback; says the "
                 "average only", [lambda: {"average": bench.fabric()}])


def queue_pairs(bench, rivals, place):
    """Rate of 8-byte messages over many connections."""

    def raw():
        rate = bench.raw(place, "rx", "tx", run.FRAME_8)[0]["rx_mpps"]
        return {x: rate for x in QUEUE_PAIRS}

    def ours(count):
        row, _ = bench.perftest(
            place, "ib_write_bw", "-s", "8", "-q", str(count), "-D",
            str(rivals.seconds), *list_of_32(8))
        return {count: float(row[4])}

    yield Series("queue_pairs", "raw port", "baseline", None,
                 "bench/raw_port tx; knows no connections", [raw])
    yield Series("queue_pairs", "uRNIC write", "urnic", "raw port",
                 f"ib_write_bw -s 8 -q COUNT on {place}, lists of 32",
                 [lambda n=count: ours(n) for count in QUEUE_PAIRS])
    yield Series("queue_pairs", "kernel TCP, write()", "rival", None,
                 "iperf3 -l 8 -P COUNT, loopback",
                 [lambda n=count: {n: rivals.iperf3(8, n) * 1e3 / 8 / 8}
                  for count in TCP_STREAMS])


def impaired(bench, tools, panel, specs):
    """Goodput over the bridge, by {x: SPEC of either direction}."""
    seconds = bench.options.seconds

    def flow(end, x, spec):
        found = wires.one_flow(tools, spec,
                               lambda wire: wire.start(end, seconds), seconds)
        return {x: found.gbps}

    yield Series(panel, "wire", "baseline", None,
                 f"what impair_bridge lets through: {wires.LINK}",
                 [lambda: {x: wires.LINK_GBPS for x in specs}], True)
    for end, (name, kind, command) in OVER_WIRES.items():
        yield Series(panel, name, kind, "wire" if kind == "urnic" else None,
                     f"{command} through impair_bridge",
                     [lambda e=end, x=x, s=spec: flow(e, x, s)
                      for x, spec in specs.items()], True)


def fairness(tools):
    """One flow beside others, and hosts that send to one."""
    beside = {f"beside {control}": control for control in wires.KERNELS}
    for end in wires.TRANSPORTS:
        name, kind, command = OVER_WIRES[end]
        yield Series("share", name, kind, None,
                     f"{command} through impair_bridge: {wires.SHARED}",
                     [lambda e=end, x=x, o=control: {
                         x: wires.share(tools, e, o)}
                      for x, control in beside.items()], True)
    yield Series("share", "kernel TCP, the same", "rival", None,
                 f"iperf3 through impair_bridge: {wires.SHARED}",
                 [lambda x=x, o=control: {x: wires.share(tools, o, o)}
                  for x, control in beside.items()], True)

    def incast(end, count):
        found = wires.incast(tools, end, count)
        return {count: (found.link_percent, found.resent_percent, found.jain)}

    for end, (name, kind, command) in OVER_WIRES.items():
        if kind == "urnic":
            command = command.replace("write_bw", "send_bw -e")
        yield Series(("incast", "incast_resent", "incast_jain"), name, kind,
                     None, f"{command} through impair_bridge: {wires.INCAST}",
                     [lambda e=end, n=count: incast(e, n)
                      for count in impaired_rows.COUNTS], True)


def all_series(bench, place):
    rivals = Rivals(bench)
    tools = bed.Tools(ROOT / "out", bench.bin / "tests/e2e")
    yield from rates(bench, rivals, place)
    yield from latencies(bench, rivals, place)
    yield from queue_pairs(bench, rivals, place)
    for panel, delay in (("loss", 0), ("loss_1ms", 1)):
        yield from impaired(bench, tools, panel, {
            float(loss): wires.faults_of(loss, delay)
            for loss in wires.LOSSES})
    yield from impaired(bench, tools, "delay", {
        ms: wires.faults_of(delay_ms=ms) for ms in DELAYS_MS})
    yield from fairness(tools)


def machine():
    model = re.search(r"^model name\s*: (.*)$", pathlib.Path(
        "/proc/cpuinfo").read_text(encoding="ascii"), re.MULTILINE)
    memory = re.search(r"MemTotal: +(\d+)", pathlib.Path(
        "/proc/meminfo").read_text(encoding="ascii"))
    versions = subprocess.run(
        ["dpkg-query", "-W", "-f", "${Package} ${Version}\n", *PACKAGES],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        check=False).stdout
    return {
        "cpu": model[1] if model else platform.machine(),
        "cpus": os.cpu_count(),
        "memory_gb": round(int(memory[1]) / 1048576),
        "kernel": platform.release(),
        "packages": dict(line.split() for line in versions.splitlines()
                         if len(line.split()) == 2),
    }


def commit():
    """The newest commit, and "+" behind it where the tree differs."""
    git = lambda *words: subprocess.run(
        ["git", *words], cwd=ROOT, check=True, text=True,
        stdout=subprocess.PIPE).stdout.strip()
    return git("rev-parse", "HEAD") + ("+" if git("status", "-s") else "")


def panels_of(series):
    return series.panel if isinstance(series.panel, tuple) else (series.panel,)


def label(series):
    return f"{' '.join(panels_of(series))}: {series.name}"


def store(into, x, distance, values):
    """`into`: {x: point} of each panel of the series."""
    if not isinstance(values, tuple):
        values = (values,)
    for points, value in zip(into, values):
        point = points.setdefault(x, {"x": x})
        point.setdefault(distance, []).append(float(f"{value:.4g}"))


def measure(bench, series, rounds):
    """The points of each series, [{x: point} of each panel]; and what
    failed."""
    points = [[{} for _ in panels_of(one)] for one in series]
    failures = []
    jobs = [(i, call) for i, one in enumerate(series)
            for call in one.measures]
    for number in range(rounds):
        for done, (i, call) in enumerate(jobs):
            name = label(series[i])
            print(f"\rround {number + 1}/{rounds}  {done + 1}/{len(jobs)}  "
                  f"{name:50}", end="", file=sys.stderr)
            try:
                distance, found = ("any", call()) if series[i].unpinned else \
                    bench.at_one_distance(call)
                for x, value in found.items():
                    store(points[i], x, distance, value)
            except (RuntimeError, OSError, subprocess.SubprocessError,
                    LookupError, TypeError, ValueError, bed.Died,
                    bed.Timeout, bed.BedError) as error:
                failures.append(f"{name}: {reason(error)}")
    print("\r" + " " * 78 + "\r", end="", file=sys.stderr)
    return points, failures


def document(options, series, points, failures):
    panels = {}
    for one, parts in zip(series, points):
        for panel, found in zip(panels_of(one), parts):
            if found:
                panels.setdefault(panel, []).append({
                    "name": one.name, "kind": one.kind,
                    "baseline": one.baseline, "command": one.command,
                    "points": list(found.values())})
    return {
        "format": plot.FORMAT,
        "date": datetime.datetime.now(datetime.timezone.utc).strftime(
            "%Y-%m-%d %H:%M UTC"),
        "commit": commit(), "machine": machine(), "bed": options.bed,
        "rounds": options.runs, "seconds": options.seconds,
        "failures": failures, "panels": panels}


def main():
    parser = argparse.ArgumentParser(
        prog="./dev bench --pictures", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=3, help="rounds")
    parser.add_argument("--seconds", type=int, default=2,
                        help="per measurement of a rate, at least 2")
    parser.add_argument("--bed", choices=run.BEDS, default="virtio<-vhost",
                        help="where both ends of the local pictures meet")
    parser.add_argument("--only", default="", metavar="REGEX",
                        help="series by 'panel: name'")
    parser.add_argument("--to", type=pathlib.Path, metavar="FILE",
                        default=plot.STORED, help="where the document and its pictures go")
    options = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("pictures: the impaired wire lies between network "
                 "namespaces: run this as root")
    clean_up.raise_on_signals()
    clean_up.sweep()
    bench = run.Bench(options)
    series = [one for one in all_series(bench, options.bed)
              if re.search(options.only, label(one))]
    points, failures = measure(bench, series, options.runs)
    for line in failures:
        print(f"FAILED {line}")
    found = document(options, series, points, failures)
    options.to.parent.mkdir(parents=True, exist_ok=True)
    options.to.write_text(plot.dump(found), encoding="utf8")
    print(f"stored in {options.to}")
    return plot.draw_file(options.to) or bool(failures)


if __name__ == "__main__":
    sys.exit(main())
