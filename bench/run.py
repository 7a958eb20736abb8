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
changed is measured again, and only rows of the same distance are compared. The
processes of the rows "impaired ..." are not pinned: these are compared with each
other at whatever distance.
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

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "bench"), str(ROOT / "tests/e2e")]

import bed as beds  # noqa: E402 (the path must come first)
import clean_up  # noqa: E402
import impaired_rows  # noqa: E402

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
TRANSPORTS = {"roce": "RoCE", "iwarp": "iWARP"}  # of perftest -R
# Frame sizes: 42 before the BTH, 12 BTH, 16 RETH, payload, 4 ICRC.
FRAME_8 = 82
FRAME_4K = 42 + 12 + 4096 + 4
START_SECONDS = 1.0
CONNECTIONS = 10000  # one after another
AT_ONCE = 2000
HELD = 65532  # at the same time; with its listeners, all that librdmacm can have
HELD_IDLE = 10  # seconds
TCP_CONNECTIONS = 10000
MANY = 20000
# A cache line there and back: some 60 to 130 ns if both cores share a cache,
# 400 and more if they do not.
FAR_NS = 200
DISTANCES = ("near", "far")
UNPINNED = "near or far"
ATTEMPTS = 3


class Bench:
    def __init__(self, options):
        self.options = options
        self.bin = pathlib.Path(subprocess.check_output(
            ["bazel", "info", "bazel-bin"], cwd=ROOT, text=True, stderr=subprocess.DEVNULL).strip())
        self.port = 20000 + os.getpid() % 20000

    def pair(self, bed, server, client, pause=START_SECONDS, endless=False, patience=25):
        """Runs two commands (functions of the DEV string and the peer's
        address) on CPU 0 and 1; returns both outputs. `endless`: the server
        is stopped when the client has ended."""
        with tempfile.TemporaryDirectory(prefix="urnic-bench-") as directory:
            ports = [p.format(dir=directory) for p in BEDS[bed]]
            environment = {**os.environ, "URNIC_STATS": f"{directory}/stats"}
            log = open(f"{directory}/server", "w+", encoding="utf8")
            limit = self.options.seconds + patience
            first = subprocess.Popen(["taskset", "-c", "0", *server(ports[0], directory)], stdout=log,
                                     stderr=subprocess.STDOUT, env=environment, stdin=subprocess.DEVNULL)
            try:
                time.sleep(pause)
                second = subprocess.run(["taskset", "-c", "1", *client(ports[1], directory)], text=True,
                                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=limit,
                                        env=environment, stdin=subprocess.DEVNULL, check=False)
                if endless:
                    first.terminate()
                first.wait(limit)
            finally:
                if first.poll() is None:
                    first.kill()
                    first.wait()
            log.seek(0)
            stats = pathlib.Path(environment["URNIC_STATS"])
            if second.returncode != 0 or (first.returncode != 0 and not endless):
                raise RuntimeError(f"client ended with {second.returncode}: {second.stdout[-300:]}\n"
                                   f"server with {first.returncode}: {log.read()[-300:]}")
            return log.read(), second.stdout, stats.read_text() if stats.exists() else ""

    def raw(self, bed, server_mode, client_mode, size, *more):
        tool, seconds = self.bin / "bench/raw_port", self.options.seconds
        command = lambda mode, longer: lambda dev, _: [
            str(tool), mode, dev, f"size={size}", f"seconds={seconds + longer}", "wait=10", *more]
        server, client, _ = self.pair(bed, command(server_mode, 0.3), command(client_mode, 0))
        results = [json.loads(out.strip().splitlines()[-1]) for out in (server, client)]
        if all(r["tx_mpps"] + r["rx_mpps"] == 0 for r in results):
            raise RuntimeError(f"raw_port: no frame passed between {client_mode} and {server_mode}")
        return results

    def run_in(self, bed, program, peer, transport="roce", options=(), **how):
        """`program` on both sides under urnic run with these options, each with
        its end of `peer`; the server's address is 10.1.0.1."""
        side = lambda last, more: lambda dev, directory: [
            str(URNIC), "run", "--port", dev, "--addr", f"10.1.0.{last}/24", "--transport", transport, *options, "--",
            *[w.format(dir=directory) for w in program + more]]
        return self.pair(bed, side(1, peer[0]), side(2, peer[1]), **how)

    def perftest_text(self, bed, tool, *arguments):
        """What the client prints, and the statistics."""
        self.port += 1
        words = [tool, "-x", "3", "-F", "-p", str(self.port), *arguments]
        _, client, stats = self.run_in(bed, words, ([], ["127.0.0.1"]))
        return client, stats

    def perftest(self, bed, tool, *arguments):
        client, stats = self.perftest_text(bed, tool, *arguments)
        return self.last_row(tool, client), stats

    def perftest_by_cm(self, bed, transport, tool, *arguments, options=()):
        """perftest -R: both transports connect in the same way."""
        self.port += 1
        words = [tool, "-R", "-F", "-p", str(self.port), *arguments]
        _, client, _ = self.run_in(bed, words, ([], ["10.1.0.1"]), transport=transport, options=options)
        return self.last_row(tool, client)

    @staticmethod
    def last_row(tool, text):
        rows = [l.split() for l in text.splitlines() if re.match(r"^ \d+\s+\d+\s", l)]
        if not rows:
            raise RuntimeError(f"{tool}: " + text.strip()[-400:])
        return rows[-1]

    def verbs(self, bed, test, *arguments):
        words = [str(self.bin / "bench/verbs_bench"), test, "--seconds", str(self.options.seconds), *arguments]
        _, client, _ = self.run_in(bed, words, (["--server", "{dir}/v"], ["--client", "{dir}/v"]))
        return json.loads([l for l in client.splitlines() if l.startswith("{")][-1])

    def connections(self, bed):
        """CONNECTIONS times: connect, exchange a message, disconnect, destroy."""
        # The ring of the trace, 4 MB for a process, would fill meanwhile: 180 to
        # 260 bytes a connection that no connection keeps.
        words = ["env", "URNIC_TRACE=qp=0,cm=0,receive=0,transmit=0", str(self.bin / "tests/e2e/cm_reconnect")]
        server, client, _ = self.run_in(bed, words, (
            ["server", "10.1.0.1", "7000"], ["client", "10.1.0.1", "7000", str(CONNECTIONS)]), patience=60)
        sides = [json.loads(out.strip().splitlines()[-1]) for out in (server, client)]
        kept = lambda what: max(s[what][1] - s[what][0] for s in sides)
        return {
            (f"{bed} connections in succession", "1/s"): CONNECTIONS / sides[1]["seconds"],
            (f"{bed} rdma_connect to established", "us"): sides[1]["connect_us"]["median"],
            (f"{bed} rdma_connect to established, p99", "us"): sides[1]["connect_us"]["p99"],
            (f"{bed} kept by a connection", "bytes"): kept("rss_kb") * 1024 / CONNECTIONS,
            (f"{bed} descriptors kept by {CONNECTIONS}", ""): kept("fds"),
        }

    def cmtime(self, bed, transport="roce", name="cmtime"):
        """2000 connections, each phase for all of them at once."""
        words = ["cmtime", "-c", str(AT_ONCE)]
        _, client, _ = self.run_in(bed, words, (["-b", "10.1.0.1"], ["-s", "10.1.0.1"]), transport=transport,
                                   endless=True)
        total_ms = {m[1].strip(): float(m[2]) for m in re.finditer(r"^([a-z ]+?) *: +([\d.]+)", client, re.M)}
        rows_ = {(f"{bed} {name} {phase}, each of {AT_ONCE}", "us"): ms * 1000 / AT_ONCE
                 for phase, ms in total_ms.items()}
        rows_[f"{bed} {name} connect, {AT_ONCE} at once", "1/s"] = AT_ONCE / total_ms["connect"] * 1000
        rows_[f"{bed} {name} all phases, {AT_ONCE} at once", "1/s"] = AT_ONCE / sum(total_ms.values()) * 1000
        return rows_

    def held(self, bed):
        """HELD connections of iWARP at the same time: set up, idle, used once,
        closed. The larger of both processes' figures, as each has an RNIC."""
        words = [str(self.bin / "tests/e2e/cm_many")]
        side = lambda role: [role, "10.1.0.1", "7000", str(HELD), str(HELD_IDLE)]
        outputs = self.run_in(bed, words, (side("server"), side("client")), transport="iwarp", patience=100)
        sides = [json.loads(out.strip().splitlines()[-1]) for out in outputs[:2]]
        largest = lambda figure: max(figure(s) for s in sides)
        before, established, _, used, _ = range(5)  # of rss_kb
        return {
            (f"{bed} iWARP set up, {HELD} held", "1/s"): HELD / sides[1]["setup_seconds"],
            (f"{bed} iWARP close, {HELD} held", "1/s"): HELD / largest(lambda s: s["close_seconds"]),
            (f"{bed} iWARP a message on each of {HELD}", "1/s"): HELD / sides[1]["used_seconds"],
            (f"{bed} process with {HELD} connections", "MB"): largest(lambda s: s["rss_kb"][used]) / 1024,
            (f"{bed} one of {HELD} connections, idle", "bytes"):
                largest(lambda s: s["rss_kb"][established] - s["rss_kb"][before]) * 1024 / HELD,
            (f"{bed} {HELD} idle connections", "% CPU"):
                largest(lambda s: s["idle"]["cpu_ms"] / s["idle"]["seconds"]) / 10,
            (f"{bed} {HELD} idle connections, wake-ups", "1/s"):
                largest(lambda s: s["idle"]["wake_ups"] / s["idle"]["seconds"]),
        }

    def send_beside_bulk(self, bed):
        """64-byte sends, alone and while the same thread keeps writes of 1 MB
        under way over another queue pair of the same port."""
        found = {}
        for name, more in (("64 B send", []), ("64 B send beside 1 MB writes", ["--bulk", "1048576"])):
            one = self.verbs(bed, "send_lat", "--size", "64", *more)
            found[f"{bed} {name}", "us"] = one["median_us"]
            found[f"{bed} {name}, p99", "us"] = one["p99_us"]
            if more:
                found[f"{bed} {name}, of these", "Gb/s"] = one["bulk_gbps"]
        return found

    def namespaces(self, pinned):
        """Latencies over a veth pair, whose port wakes a program that sleeps:
        programs that poll a queue, and ib_write_lat, which spins on memory.
        Averages, as a message that waits for a look does not show in a
        median."""
        tools = beds.Tools(ROOT / "out", self.bin / "tests/e2e")
        how = "pinned" if pinned else "not pinned"
        found = {}
        for tool in ("ib_send_lat", "ib_read_lat", "ib_write_lat"):
            with beds.VethBed(tools) as place:
                options = [{"wrap": ["taskset", "-c", str(cpu)] if pinned else [],
                            "env": {"URNIC_STATS": place.stats_path(cpu)}} for cpu in (0, 1)]
                _, client = place.run_pair([tool, "-s", "8", "-n", "20000", "-x", "3", "-F"], seconds=90,
                                           server_options=options[0], client_options=options[1])
                if client.status != 0:
                    raise RuntimeError(str(client))
                engines = [device["engine"] for side in (0, 1) for device in place.read_stats(side)]
            row = f"namespaces, {how}, {tool} 8 B"
            found[row, "us"] = float(self.last_row(tool, client.out)[5])
            found[f"{row}, sent again", "packets"] = sum(engine["requests_resent"] for engine in engines)
            found[f"{row}, found late", "packets"] = sum(engine["packets_found_late"] for engine in engines)
        return found

    def many_qps(self, bed):
        """One queue pair, then MANY: rate and memory."""
        found = self.verbs(bed, "many_qps", "--size", "8", "--qps", str(MANY), "--depth", "1024")
        return {
            (f"{bed} 1 QP, lists of 32", "Mpps"): found["one_mops"],
            (f"{bed} {MANY} QPs, lists of 32", "Mpps"): found["many_mops"],
            (f"{bed} 1 QP, single writes", "Mpps"): found["single_one_mops"],
            (f"{bed} {MANY} QPs, single writes", "Mpps"): found["single_many_mops"],
            (f"{bed} process with {MANY} QPs", "MB"): found["process_mb"],
            (f"{bed} one of {MANY} QPs, connected", "bytes"): found["idle_bytes_each"],
            (f"{bed} one of {MANY} QPs, used", "bytes"): found["used_bytes_each"],
            (f"{bed} create a QP", "us"): found["create_us"],
            (f"{bed} INIT to RTS", "us"): found["connect_us"],
            (f"{bed} destroy a QP", "us"): found["destroy_us"],
        }

    def registration(self):
        command = ["taskset", "-c", "1", str(URNIC), "run", "--port", "loop", "--addr", "10.1.0.1/24", "--",
                   str(self.bin / "bench/verbs_bench"), "registration"]
        found = json.loads(subprocess.check_output(command, text=True, timeout=90).strip().splitlines()[-1])
        names = {"reg": "reg_mr", "dereg": "dereg_mr", "odp_reg": "reg_mr on demand", "odp_dereg":
                 "dereg_mr on demand", "again_reg": "reg_mr of a registered range",
                 "again_dereg": "dereg_mr of one of two", "mlock": "mlock", "munlock": "munlock"}
        return {(f"{name} {size}", "us"): found[bytes_][key + "_us"]
                for bytes_, size in (("4096", "4 KB"), (str(1 << 30), "1 GB")) for key, name in names.items()}

    def distance(self):
        ns = self.baseline("line", "60", "0", "1")["median_ns"]
        return DISTANCES[ns >= FAR_NS]

    def at_one_distance(self, measure):
        """(distance, value). RuntimeError: the CPUs moved at each attempt."""
        before = self.distance()
        for _ in range(ATTEMPTS):
            value = measure()
            after = self.distance()
            if after == before:
                return before, value
            before = after
        raise RuntimeError(f"the CPUs moved during each of {ATTEMPTS} measurements")

    def baseline(self, *words):
        out = subprocess.check_output([str(self.bin / "bench/baselines"), *words], text=True,
                                      timeout=self.options.seconds + 20)
        return json.loads(out.strip().splitlines()[-1])

    def ucx(self, test, size, count, *more):
        """One-sided puts over TCP: the numbers of the last line."""
        self.port += 1
        environment = {**os.environ, "UCX_TLS": "tcp,self", "UCX_NET_DEVICES": "lo"}
        words = ["ucx_perftest", "-t", test, "-s", str(size), "-p", str(self.port), "-n", str(count), "-f", *more]
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
    """(name, unit, measure): one number each per round; or, without a unit,
    several: {(name, unit): number}."""
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
        yield f"{bed} 64 B send", None, lambda b=bed: bench.send_beside_bulk(b)
        for tool in ("ib_send_lat", "ib_read_lat", "ib_write_lat"):
            n = "20000" if tool == "ib_write_lat" else "100000"
            yield (f"{bed} {tool} 8 B", "us",
                   lambda b=bed, t=tool, n=n: float(bench.perftest(b, t, "-s", "8", "-n", n)[0][4]))
        for transport, name in TRANSPORTS.items():
            by_cm = lambda *words, b=bed, t=transport, **how: bench.perftest_by_cm(b, t, *words, **how)
            mb = lambda m=by_cm, **how: float(
                m("ib_write_bw", "-s", "1048576", "-D", str(o.seconds), **how)[3]) * 8 * 1048576 / 1e9
            yield f"{bed} {name} write 8 B", "Mpps", lambda m=by_cm: float(m("ib_write_bw", *small)[4])
            yield f"{bed} {name} write 1 MB", "Gb/s", mb
            if transport == "iwarp":
                yield (f"{bed} {name} write 1 MB, no CRC", "Gb/s",
                       lambda mb=mb: mb(options=("--iwarp", "crc=off")))
            yield (f"{bed} {name} write latency 8 B", "us",
                   lambda m=by_cm: float(m("ib_write_lat", "-s", "8", "-n", "100000")[4]))
            yield (f"{bed} {name} send latency 8 B", "us",
                   lambda m=by_cm: float(m("ib_send_lat", "-s", "8", "-n", "100000")[4]))
        yield f"{bed} connections", None, lambda b=bed: bench.connections(b)
        yield f"{bed} cmtime", None, lambda b=bed: bench.cmtime(b)
        yield f"{bed} iWARP cmtime", None, lambda b=bed: bench.cmtime(b, "iwarp", "iWARP cmtime")
        yield f"{bed} iWARP connections held", None, lambda b=bed: bench.held(b)
        yield f"{bed} many QPs", None, lambda b=bed: bench.many_qps(b)
    for pinned in (True, False):
        yield (f"namespaces, {'pinned' if pinned else 'not pinned'}", None,
               lambda pinned=pinned: bench.namespaces(pinned))
    yield from impaired_rows.rows(beds.Tools(ROOT / "out", bench.bin / "tests/e2e"), o.seconds)
    yield "registration", None, bench.registration
    yield "same-core eventfd wake-up", "us", lambda: bench.baseline("wakeup", "1", "0")["median_us"]
    yield "TCP loopback, half round trip", "us", lambda: bench.baseline("tcp_latency", "1", "0", "1")["median_us"]
    yield ("TCP loopback, connect and accept", "1/s",
           lambda: bench.baseline("tcp_connect", str(TCP_CONNECTIONS), "0", "1")["per_second"])
    yield "TCP loopback, one stream", "Gb/s", lambda: bench.baseline("tcp_stream", "1", "0", "1")["gbps"]
    if shutil.which("ucx_perftest"):
        yield "UCX over TCP, put latency", "us", lambda: bench.ucx("ucp_put_lat", 8, 50000)[1]
        yield "UCX over TCP, put rate", "Mpps", lambda: bench.ucx("ucp_put_bw", 8, 200000)[-1] / 1e6
    if shutil.which("fi_pingpong"):
        yield "libfabric tcp, half round trip", "us", bench.fabric


def asked(bed):
    """(what, numerator, denominator, factor on the denominator, asked, better)
    as the project's issues state it; no denominator: the number itself; nothing
    asked: for comparison."""
    yield "8-byte write / raw rate", f"{bed} ib_write_bw 8 B", f"{bed} raw {FRAME_8} B", 1, 0.25, ">="
    yield "8-byte write / UCX-TCP put rate", f"{bed} ib_write_bw 8 B", "UCX over TCP, put rate", 1, 10, ">="
    yield "send latency / raw half round trip", f"{bed} ib_send_lat 8 B", f"{bed} raw 64 B round trip", 0.5, 1.6, "<="
    yield "read latency / raw round trip", f"{bed} ib_read_lat 8 B", f"{bed} raw 64 B round trip", 1, 1.6, "<="
    yield ("64 B send beside bulk / alone, p99", f"{bed} 64 B send beside 1 MB writes, p99", f"{bed} 64 B send, p99", 1,
           5, "<=")
    yield "UCX-TCP put latency / send latency", "UCX over TCP, put latency", f"{bed} ib_send_lat 8 B", 1, 5, ">="
    yield "write latency / same-core wake-up", f"{bed} ib_write_lat 8 B", "same-core eventfd wake-up", 1, 2, "<="
    for how in ("pinned", "not pinned"):
        yield (f"namespaces, {how}, write latency / send latency", f"namespaces, {how}, ib_write_lat 8 B",
               f"namespaces, {how}, ib_send_lat 8 B", 1, 3, "<=")
    yield "1 MB write / raw Gb/s", f"{bed} ib_write_bw 1 MB", f"{bed} raw {FRAME_4K} B", 1, 0.5, ">="
    yield "1 MB write / one TCP stream", f"{bed} ib_write_bw 1 MB", "TCP loopback, one stream", 1, 2, ">="
    for what, bound, sense in (("write 8 B", 0.6, ">="), ("write 1 MB", 0.7, ">="), ("send latency 8 B", 1.3, "<="),
                               ("write latency 8 B", None, "")):
        yield f"iWARP / RoCE, {what}", f"{bed} iWARP {what}", f"{bed} RoCE {what}", 1, bound, sense
    yield "iWARP / RoCE, write 1 MB, no CRC", f"{bed} iWARP write 1 MB, no CRC", f"{bed} RoCE write 1 MB", 1, 0.85, ">="
    yield "connections/s, at once", f"{bed} cmtime connect, {AT_ONCE} at once", None, 1, 2000, ">="
    yield "iWARP connections/s, at once", f"{bed} iWARP cmtime connect, {AT_ONCE} at once", None, 1, 5000, ">="
    yield f"iWARP set-ups/s, {HELD} held", f"{bed} iWARP set up, {HELD} held", None, 1, 5000, ">="
    yield f"MB of a process with {HELD}", f"{bed} process with {HELD} connections", None, 1, 8192, "<="
    yield f"% of a CPU for {HELD} idle ones", f"{bed} {HELD} idle connections", None, 1, 1, "<="
    yield "us to established, in succession", f"{bed} rdma_connect to established", None, 1, 500, "<="
    yield "bytes kept by a connection", f"{bed} kept by a connection", None, 1, 64, "<="
    yield "descriptors kept by connections", f"{bed} descriptors kept by {CONNECTIONS}", None, 1, 0, "<="
    yield f"MB of a process with {MANY} QPs", f"{bed} process with {MANY} QPs", None, 1, 4096, "<="
    yield f"rate of {MANY} QPs / of 1", f"{bed} {MANY} QPs, lists of 32", f"{bed} 1 QP, lists of 32", 1, 0.7, ">="


def checks(bench):
    """What must be true beside the figures."""
    bed = bench.options.beds[0]
    result = {"data": bench.verbs(bed, "check")}
    row, stats = bench.perftest(bed, "ib_write_bw", "-s", "8", "--post_list", "32", "-D", str(bench.options.seconds))
    frames = max((json.loads(l)["port"]["rx_packets"] for l in stats.splitlines() if l.strip()), default=0)
    # With -D, perftest counts only the middle half of the time; the port counts
    # all.
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


def print_rows(distance, units, values):
    """Prints the rows measured at `distance`; returns their medians."""
    print(f"\n{'CPUs ' + distance:44}{'median':>9} {'min':>8} {'max':>8}  unit  runs")
    medians = {}
    for name, v in values.items():
        # Of what must never happen, the worst round counts.
        middle = max if units[name] == impaired_rows.NEVER else statistics.median
        medians[name] = middle(v)
        print(f"{name:44}{medians[name]:9.3f} {min(v):8.3f} {max(v):8.3f}  {units[name]:5} {len(v)}")
    return medians


def print_ratios(distance, tables, medians):
    """`tables`: {title: what asked() returns}."""
    ratios = []
    for bed, lines in tables.items():
        print(f"\n{bed + ', CPUs ' + distance:44}{'ratio':>9} {'asked':>8}")
        for what, top, bottom, factor, bound, sense in lines:
            if top not in medians or (bottom is not None and bottom not in medians):
                continue
            ratio = medians[top] / (medians[bottom] * factor if bottom is not None else 1)
            if bound is None:
                ratios.append({"bed": bed, "distance": distance, "what": what, "ratio": ratio})
                print(f"  {what:42}{ratio:9.2f}")
                continue
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
    clean_up.raise_on_signals()  # so that namespaces are removed
    beds.sweep()
    bench = Bench(options)
    table = [r for r in rows(bench) if re.search(options.only, r[0])]
    values = {d: {} for d in (*DISTANCES, UNPINNED)}
    units = {}
    failures = {}
    for run in range(options.runs):
        for i, (name, unit, measure) in enumerate(table):
            print(f"\rround {run + 1}/{options.runs}  {i + 1}/{len(table)}  {name:48}", end="", file=sys.stderr)
            try:
                pinned = not name.startswith(impaired_rows.PREFIX)
                distance, found = bench.at_one_distance(measure) if pinned else (UNPINNED, measure())
                numbers = found if unit is None else {(name, unit): found}
                for (row, row_unit), number in numbers.items():
                    values[distance].setdefault(row, []).append(number)
                    units[row] = row_unit
            except (RuntimeError, subprocess.SubprocessError, IndexError, ValueError, KeyError, beds.Timeout,
                    beds.BedError) as error:
                failures.setdefault(name, []).append(str(error)[-900:])
    print("\r" + " " * 76, file=sys.stderr)
    medians, ratios = {}, []
    for distance in values:
        if values[distance]:
            medians[distance] = print_rows(distance, units, values[distance])
            tables = {"bad wires": impaired_rows.asked()} if distance == UNPINNED else {
                bed: asked(bed) for bed in options.beds}
            ratios += print_ratios(distance, tables, medians[distance])
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
