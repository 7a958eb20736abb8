#!/usr/bin/env python3
"""The benchmark table behind `./dev bench`: raw port, uRNIC through perftest and
through our own verbs program, and what a user would pick instead, side by side
in one run. bench/README.md says what each row is and how to read it.

Every process is pinned to one CPU with all its threads. Rows are interleaved:
one round measures each once, and the table shows minimum, median and maximum
over the rounds, and ratios of medians.

The two CPUs of a virtual machine may be near (cores of one cache) or far from
each other, and change over within seconds. So the time that a cache line takes
between them is measured before and after each row; a row during which it
changed is measured again, and only rows of the same distance are compared.
"""
import argparse
import json
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
URNIC = ROOT / "out/bin/urnic"
VIRTIO = "net_virtio_user0,server=1,path={dir}/s,queue_size=1024"
VHOST = "net_vhost0,client=1,iface={dir}/s"
MEMIF = ("net_memif0,role=server,socket={dir}/m,socket-abstract=no,bsize=9216",
         "net_memif0,role=client,socket={dir}/m,socket-abstract=no,bsize=9216")
# server's port, client's port
BEDS = {
    "virtio<-vhost": (VIRTIO, VHOST),  # the client's side pays for the copies
    "vhost<-virtio": (VHOST, VIRTIO),
    "memif": MEMIF,
}
# Frame sizes: 42 before the BTH, 12 BTH, 16 RETH, payload, 4 ICRC.
FRAME_8 = 82
FRAME_4K = 42 + 12 + 4096 + 4
START_SECONDS = 1.0
# A cache line there and back: some 60 to 130 ns where both cores share a cache,
# 400 and more where they do not.
FAR_NS = 200
DISTANCES = ("near", "far")
ATTEMPTS = 3


class Bench:
    def __init__(self, options):
        self.options = options
        self.bin = pathlib.Path(subprocess.check_output(
            ["bazel", "info", "bazel-bin"], cwd=ROOT, text=True, stderr=subprocess.DEVNULL).strip())
        self.port = 20000 + os.getpid() % 20000

    def pair(self, bed, server, client, pause=START_SECONDS):
        """Runs two commands (functions of the DEV string and the peer's
        address) on CPU 0 and 1; returns both outputs."""
        with tempfile.TemporaryDirectory(prefix="urnic-bench-") as directory:
            ports = [p.format(dir=directory) for p in BEDS[bed]]
            environment = {**os.environ, "URNIC_STATS": f"{directory}/stats"}
            log = open(f"{directory}/server", "w+", encoding="utf8")
            limit = self.options.seconds + 25
            first = subprocess.Popen(["taskset", "-c", "0", *server(ports[0], directory)], stdout=log,
                                     stderr=subprocess.STDOUT, env=environment, stdin=subprocess.DEVNULL)
            try:
                time.sleep(pause)
                second = subprocess.run(["taskset", "-c", "1", *client(ports[1], directory)], text=True,
                                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=limit,
                                        env=environment, stdin=subprocess.DEVNULL, check=False)
                first.wait(limit)
            finally:
                if first.poll() is None:
                    first.kill()
                    first.wait()
            log.seek(0)
            stats = pathlib.Path(environment["URNIC_STATS"])
            if second.returncode != 0 or first.returncode != 0:
                raise RuntimeError(f"client ended with {second.returncode}: {second.stdout[-300:]}\n"
                                   f"server with {first.returncode}: {log.read()[-300:]}")
            return log.read(), second.stdout, stats.read_text() if stats.exists() else ""

    def raw(self, bed, server_mode, client_mode, size, *more):
        tool, seconds = self.bin / "bench/raw_port", self.options.seconds
        command = lambda mode, longer: lambda dev, _: [
            str(tool), mode, dev, f"size={size}", f"seconds={seconds + longer}", "wait=10", *more]
        server, client, _ = self.pair(bed, command(server_mode, 0.3), command(client_mode, 0))
        return [json.loads(out.strip().splitlines()[-1]) for out in (server, client)]

    def run_in(self, bed, program, peer):
        """`program` on both sides under urnic run; the client gets `peer`."""
        side = lambda last, more: lambda dev, directory: [
            str(URNIC), "run", "--port", dev, "--addr", f"10.1.0.{last}/24", "--",
            *[w.format(dir=directory) for w in program + more]]
        return self.pair(bed, side(1, peer[0]), side(2, peer[1]))

    def perftest(self, bed, tool, *arguments):
        self.port += 1
        words = [tool, "-x", "3", "-F", "-p", str(self.port), *arguments]
        _, client, stats = self.run_in(bed, words, ([], ["127.0.0.1"]))
        rows = [l.split() for l in client.splitlines() if re.match(r"^ \d+\s+\d+\s", l)]
        if not rows:
            raise RuntimeError(f"{tool}: " + client.strip()[-400:])
        return rows[-1], stats

    def verbs(self, bed, test, *arguments):
        words = [str(self.bin / "bench/verbs_bench"), test, "--seconds", str(self.options.seconds), *arguments]
        _, client, _ = self.run_in(bed, words, (["--server", "{dir}/v"], ["--client", "{dir}/v"]))
        return json.loads([l for l in client.splitlines() if l.startswith("{")][-1])

    def distance(self):
        ns = self.baseline("line", "60", "0", "1")["median_ns"]
        return DISTANCES[ns >= FAR_NS]

    def at_one_distance(self, measure):
        """(distance, value), or None when the CPUs moved at each attempt."""
        before = self.distance()
        for _ in range(ATTEMPTS):
            value = measure()
            after = self.distance()
            if after == before:
                return before, value
            before = after
        return None

    def baseline(self, *words):
        out = subprocess.check_output([str(self.bin / "bench/baselines"), *words], text=True,
                                      timeout=self.options.seconds + 20)
        return json.loads(out.strip().splitlines()[-1])

    def ucx(self, test, size):
        """One-sided puts over TCP: (microseconds, operations per second)."""
        self.port += 1
        environment = {**os.environ, "UCX_TLS": "tcp,self", "UCX_NET_DEVICES": "lo"}
        words = ["ucx_perftest", "-t", test, "-s", str(size), "-p", str(self.port), "-n",
                 "200000" if "bw" in test else "50000", "-f"]
        server = subprocess.Popen(["taskset", "-c", "0", *words], env=environment, stdin=subprocess.DEVNULL,
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            time.sleep(0.5)
            out = subprocess.check_output(["taskset", "-c", "1", *words, "127.0.0.1"], env=environment, text=True,
                                          stderr=subprocess.DEVNULL, timeout=60)
            server.wait(20)
        finally:
            if server.poll() is None:
                server.kill()
                server.wait()
        numbers = [float(w) for w in out.strip().splitlines()[-1].split() if re.fullmatch(r"[\d.]+", w)]
        return numbers

    def fabric(self):
        """fi_pingpong over the tcp provider: microseconds per transfer."""
        self.port += 1
        words = ["fi_pingpong", "-p", "tcp;ofi_rxm", "-e", "rdm", "-S", "8", "-I", "20000", "-B", str(self.port)]
        server = subprocess.Popen(["taskset", "-c", "0", *words], stdin=subprocess.DEVNULL,
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            time.sleep(0.5)
            client = [*words[:-2], "-P", str(self.port), "127.0.0.1"]
            out = subprocess.check_output(["taskset", "-c", "1", *client], text=True, stderr=subprocess.DEVNULL,
                                          timeout=60)
            server.wait(20)
        finally:
            if server.poll() is None:
                server.kill()
                server.wait()
        return float(out.strip().splitlines()[-1].split()[-2])


def rows(bench):
    """(name, unit, measure): one number each per round."""
    o = bench.options
    small = ["-s", "8", "--post_list", "32", "--cq-mod", "32", "-D", str(o.seconds)]
    large = ["-s", "1048576", "-m", "4096", "-D", str(o.seconds)]
    for bed in o.beds:
        yield f"{bed} raw {FRAME_8} B", "Mpps", lambda b=bed: bench.raw(b, "rx", "tx", FRAME_8)[0]["rx_mpps"]
        yield (f"{bed} ib_write_bw 8 B", "Mpps",
               lambda b=bed: float(bench.perftest(b, "ib_write_bw", *small)[0][4]))
        yield (f"{bed} verbs_bench write 8 B", "Mpps", lambda b=bed: bench.verbs(
            b, "write_bw", "--size", "8", "--post-list", "32", "--cq-mod", "32")["mops"])
        yield (f"{bed} raw {FRAME_4K} B", "Gb/s",
               lambda b=bed: bench.raw(b, "rx", "tx", FRAME_4K)[0]["rx_gbps"])
        yield (f"{bed} raw {FRAME_4K} B, all of it written", "Gb/s",
               lambda b=bed: bench.raw(b, "rx", "tx", FRAME_4K, "fill=frame")[0]["rx_gbps"])
        yield (f"{bed} ib_write_bw 1 MB", "Gb/s",
               lambda b=bed: float(bench.perftest(b, "ib_write_bw", *large)[0][3]) * 8 * 1048576 / 1e9)
        yield (f"{bed} raw 64 B round trip", "us",
               lambda b=bed: bench.raw(b, "echo", "ping", 64)[1]["rtt_us"]["p50"])
        yield (f"{bed} raw 66 B round trip of two frames", "us",
               lambda b=bed: bench.raw(b, "echo", "ping", 66, "turn=2")[1]["rtt_us"]["p50"])
        for tool in ("ib_send_lat", "ib_read_lat", "ib_write_lat"):
            n = "20000" if tool == "ib_write_lat" else "100000"
            yield (f"{bed} {tool} 8 B", "us",
                   lambda b=bed, t=tool, n=n: float(bench.perftest(b, t, "-s", "8", "-n", n)[0][4]))
    yield "same-core eventfd wake-up", "us", lambda: bench.baseline("wakeup", "1", "0")["median_us"]
    yield "TCP loopback, half round trip", "us", lambda: bench.baseline("tcp_latency", "1", "0", "1")["median_us"]
    yield "TCP loopback, one stream", "Gb/s", lambda: bench.baseline("tcp_stream", "1", "0", "1")["gbps"]
    if shutil.which("ucx_perftest"):
        yield "UCX over TCP, put latency", "us", lambda: bench.ucx("ucp_put_lat", 8)[1]
        yield "UCX over TCP, put rate", "Mpps", lambda: bench.ucx("ucp_put_bw", 8)[-1] / 1e6
    if shutil.which("fi_pingpong"):
        yield "libfabric tcp, half round trip", "us", bench.fabric


def asked(bed):
    """(what, numerator, denominator, factor on the denominator, asked, better)
    as the project's issue states it."""
    yield "8-byte write / raw rate", f"{bed} ib_write_bw 8 B", f"{bed} raw {FRAME_8} B", 1, 0.25, ">="
    yield "8-byte write / UCX-TCP put rate", f"{bed} ib_write_bw 8 B", "UCX over TCP, put rate", 1, 10, ">="
    yield "send latency / raw half round trip", f"{bed} ib_send_lat 8 B", f"{bed} raw 64 B round trip", 0.5, 1.6, "<="
    yield "read latency / raw round trip", f"{bed} ib_read_lat 8 B", f"{bed} raw 64 B round trip", 1, 1.6, "<="
    yield "UCX-TCP put latency / send latency", "UCX over TCP, put latency", f"{bed} ib_send_lat 8 B", 1, 5, ">="
    yield "write latency / same-core wake-up", f"{bed} ib_write_lat 8 B", "same-core eventfd wake-up", 1, 2, "<="
    yield "1 MB write / raw Gb/s", f"{bed} ib_write_bw 1 MB", f"{bed} raw {FRAME_4K} B", 1, 0.5, ">="
    yield "1 MB write / one TCP stream", f"{bed} ib_write_bw 1 MB", "TCP loopback, one stream", 1, 2, ">="


def checks(bench):
    """What must be true beside the figures."""
    bed = bench.options.beds[0]
    result = {"data": bench.verbs(bed, "check")}
    row, stats = bench.perftest(bed, "ib_write_bw", "-s", "8", "--post_list", "32", "-D", str(bench.options.seconds))
    frames = max((json.loads(l)["port"]["rx_packets"] for l in stats.splitlines() if l.strip()), default=0)
    # With -D, perftest counts the middle half of the time only; the port all.
    result["frames_per_counted_operation"] = round(frames / int(row[1]), 2)
    idle = subprocess.Popen([str(URNIC), "run", "--port", "ring:idle:a", "--addr", "10.1.0.1/24", "--",
                             "ib_write_bw", "-F", "-p", str(bench.port + 1)], stdout=subprocess.DEVNULL,
                            stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
    try:
        time.sleep(2)
        ticks = lambda: sum(map(int, pathlib.Path(f"/proc/{idle.pid}/stat").read_text().rsplit(")", 1)[1].split()[11:13]))
        before = ticks()
        time.sleep(5)
        result["idle_cpu_percent"] = (ticks() - before) / os.sysconf("SC_CLK_TCK") / 5 * 100
    finally:
        idle.terminate()
        idle.wait()
    return result


def print_rows(distance, table, values):
    """Prints the rows measured at `distance`; returns their medians."""
    print(f"\n{'CPUs ' + distance:44}{'median':>9} {'min':>8} {'max':>8}  unit  runs")
    medians = {}
    for name, unit, _ in table:
        v = values[name]
        if v:
            medians[name] = statistics.median(v)
            print(f"{name:44}{medians[name]:9.3f} {min(v):8.3f} {max(v):8.3f}  {unit:5} {len(v)}")
    return medians


def print_ratios(distance, beds, medians):
    ratios = []
    for bed in beds:
        print(f"\n{bed + ', CPUs ' + distance:44}{'ratio':>9} {'asked':>8}")
        for what, top, bottom, factor, bound, sense in asked(bed):
            if top not in medians or bottom not in medians:
                continue
            ratio = medians[top] / (medians[bottom] * factor)
            met = ratio >= bound if sense == ">=" else ratio <= bound
            ratios.append({"bed": bed, "distance": distance, "what": what, "ratio": ratio,
                           "asked": f"{sense} {bound}", "met": met})
            print(f"  {what:42}{ratio:9.2f} {sense:>4} {bound:<5} {'met' if met else 'MISSED'}")
    return ratios


def main():
    parser = argparse.ArgumentParser(prog="./dev bench", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--seconds", type=int, default=5, help="per measurement of a rate")
    parser.add_argument("--beds", nargs="+", choices=BEDS, default=list(BEDS))
    parser.add_argument("--only", default="", help="regular expression: rows by name")
    options = parser.parse_args()
    bench = Bench(options)
    table = [r for r in rows(bench) if re.search(options.only, r[0])]
    values = {d: {name: [] for name, _, _ in table} for d in DISTANCES}
    failures = {}
    for run in range(options.runs):
        for i, (name, _, measure) in enumerate(table):
            print(f"\rround {run + 1}/{options.runs}  {i + 1}/{len(table)}  {name:48}", end="", file=sys.stderr)
            try:
                found = bench.at_one_distance(measure)
                if found is None:
                    raise RuntimeError(f"the CPUs moved during each of {ATTEMPTS} measurements")
                values[found[0]][name].append(found[1])
            except (RuntimeError, subprocess.SubprocessError, IndexError, ValueError, KeyError) as error:
                failures.setdefault(name, []).append(str(error)[-900:])
    print("\r" + " " * 76, file=sys.stderr)
    medians, ratios = {}, []
    for distance in DISTANCES:
        if any(values[distance].values()):
            medians[distance] = print_rows(distance, table, values[distance])
            ratios += print_ratios(distance, options.beds, medians[distance])
    facts = {} if options.only else checks(bench)
    for name, fact in facts.items():
        print(f"{name}: {fact}")
    if facts and facts["frames_per_counted_operation"] < 1:
        failures["frames"] = ["fewer frames than operations"]
    for name, errors in failures.items():
        print(f"FAILED {len(errors)} of {options.runs}: {name}: {errors[0]}")
    results = ROOT / "bench/results"
    results.mkdir(exist_ok=True)
    path = results / time.strftime("%Y%m%d-%H%M%S.json")
    path.write_text(json.dumps({"runs": options.runs, "values": values, "medians": medians, "ratios": ratios,
                                "checks": facts, "failures": failures,
                                "case": "one CPU per process"}, indent=1) + "\n", encoding="utf8")
    print(f"\nstored in {path.relative_to(ROOT)}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
