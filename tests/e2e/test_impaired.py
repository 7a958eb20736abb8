"""Impaired wires: between two hosts, for the kernel and the
RNICs alike (impaired_bed.py), and inside of an RNIC (`urnic run --fault`)."""

import functools
import json
import re
import time

import bed
import beds
import suite
from impaired_bed import ImpairedBed
from perftest import check_report
from test_faults import RETRY_EXCEEDED, EchoPair

# What can become of a frame (transport/impair/counts.h).
ENDS = ("delivered", "lost", "burst_lost", "overflowed", "red_dropped", "dead",
        "no_room", "failed", "under_way")


def check_sum(context, counts, at_rest=True):
    """Every frame is accounted for; when a program ends, some that came for it
    may still be under way (FaultPort)."""
    left = counts["offered"] + counts["duplicated"] - sum(
        counts.get(end, 0) for end in ENDS)
    context.check(left == 0 if at_rest else 0 <= left <= 64, counts)
    context.check(counts["offered"] > 0, counts)


def stats_of(context, place, side):
    """What the one program of that side has counted."""
    stats, = place.read_stats(side)
    for counts in stats["fault"].values():
        if counts["offered"]:
            check_sum(context, counts, at_rest=False)
    return stats


@suite.test("impaired/ping-sees-the-delay-and-the-loss")
def ping(context):
    """The kernel's own ping, as a judge of the wire."""
    context.need("ping")
    count = 100
    with ImpairedBed(context.tools, "delay=20ms", "loss=30%") as place:
        result = place.run(0, ["ping", "-q", "-c", str(count), "-i", "0.02",
                               "-W", "5", place.sides[1].host_address],
                           seconds=60, rnic=False)
        received = int(re.search(r"(\d+) received", result.out).group(1))
        fastest = float(re.search(r"= ([\d.]+)/", result.out).group(1))
        there, back = place.wire_counts()
        context.note(f"{fastest} ms, {received} of {count} came back")
        context.check(fastest >= 20, result)
        # Neighbour discovery is lost as well.
        context.check(0 < count - received <= back["lost"], (result, back))
        context.check(received <= back["delivered"], (result, back))
        context.check(there["lost"] == 0, there)
        for counts in (there, back):
            check_sum(context, counts)
            context.check(counts["missed"] == 0, counts)


def lossy_transfer(context, argv):
    """perftest over a wire that loses one frame of a hundred either way."""
    context.need(argv[0])
    count = 1000
    with ImpairedBed(context.tools, "loss=1%", "loss=1%,seed=2") as place:
        server, client = place.run_pair(
            [*argv, "-x", "3", "-F", "-s", "16384", "-u", "12"], seconds=60,
            client_options={"env": {"URNIC_STATS": place.stats_path(1)}})
        row, = check_report(context, server, client, [16384])
        if "-n" in argv:
            context.check(row.iterations == count, client)
        there, back = place.wire_counts()
        stats, = place.read_stats(1)
        context.note(f"{there['lost'] + back['lost']} frames lost, "
                     f"{stats['engine']['requests_resent']} sent again")
        context.check(there["lost"] > 0, there)
        context.check(stats["engine"]["requests_resent"] > 0, stats)
        check_sum(context, there)
        check_sum(context, back)


for _program in ("ib_write_bw", "ib_send_bw"):
    for _name, _length in (("count", ["-n", "1000"]), ("time", ["-D", "2"])):
        suite.add(f"impaired/{_program}-by-{_name}-over-1-percent-loss",
                  functools.partial(lossy_transfer,
                                    argv=[_program, *_length]),
                  _name == "count")


@suite.test("impaired/data-arrives-whole-whatever-the-wire-does")
def data_is_whole(context):
    """echo_peer compares every byte."""
    spec = ("loss=1%,burst=0.2%:30%,reorder=2%,duplicate=2%,corrupt=2%,"
            "delay=50us,jitter=20us")
    with ImpairedBed(context.tools, spec, f"{spec},seed=2") as place:
        pair = EchoPair(context, place, count=100)
        for _ in range(3):
            pair.await_more(pair.client, "ok", seconds=60)
        pair.check_alive(context)
        there, back = place.wire_counts()
        for counts in (there, back):
            check_sum(context, counts)
            for what in ("lost", "burst_lost", "reordered", "duplicated",
                         "corrupted"):
                context.check(counts[what] > 0, counts)


@suite.test("impaired/tcp-and-rdma-hear-of-a-queue-by-ecn")
def marks(context):
    """A slow wire marks what waits in front of it. The kernel's TCP is the
    judge of marks and checksums; our own packets survive them, and are
    counted."""
    context.need("iperf3", "ib_write_bw")
    spec = "rate=200Mbit,buffer=1MB,red=8KB:32KB"
    with ImpairedBed(context.tools, spec, mtu=1500) as place:
        for side in (0, 1):
            place.run(side, ["sysctl", "-qw", "net.ipv4.tcp_ecn=1"],
                      rnic=False)
        port = place.next_port()
        server = place.spawn(1, ["iperf3", "-s", "-1", "-p", str(port)],
                             rnic=False)
        bed.await_true(lambda: server.listens(port), 10, "iperf3 listening")
        client = place.run(0, ["iperf3", "-c", place.sides[1].host_address,
                               "-p", str(port), "-n", "8M"], rnic=False,
                           seconds=60)
        context.check_ok(client, server.wait(20))
        names, values = (
            line.split() for line in place.run(
                0, ["cat", "/proc/net/netstat"], rnic=False).out.splitlines()
            if line.startswith("TcpExt:"))
        delivered_ce = int(values[names.index("TCPDeliveredCE")])
        there, _ = place.wire_counts()
        context.note(f"TCP: {there['marked']} marked, {delivered_ce} heard of")
        # Without AccECN one mark may stand for a whole window.
        context.check(delivered_ce > 0 and there["marked"] > 0,
                      (there, client))
        # ECT(0) in the traffic class.
        results = place.run_pair(
            ["ib_write_bw", "-x", "3", "-F", "-s", "65536", "-n", "100", "-t",
             "16", "-u", "14", "--tclass", "2"], server_side=1, seconds=60,
            server_options={"env": {"URNIC_STATS": place.stats_path(1)}},
            client_options={"env": {"URNIC_STATS": place.stats_path(0)}})
        context.check_ok(*results)
        stats, = place.read_stats(1)
        sender, = place.read_stats(0)
        marked = place.wire_counts()[0]["marked"] - there["marked"]
        heard = stats["engine"]["ce_received"]
        told = sender["verdicts"].get("Cnp", 0)
        context.note(f"RDMA: {marked} marked, {heard} heard of, "
                     f"{told} notifications")
        context.check(0 < told <= heard, sender)
        context.check(0 < heard <= marked, stats)
        context.check("BadIcrc" not in stats["verdicts"], stats)


@suite.test("impaired/several-hosts-share-the-rate-and-buffer-of-one-wire")
def bottleneck(context):
    """Three kernels send to three others. The judges are iperf3, and the time
    that one wire needs for what it has carried."""
    context.need("iperf3", "ib_write_bw")
    pairs, mega_bits = 3, 200
    spec = f"rate={mega_bits}Mbit,buffer=64KB"
    with ImpairedBed(context.tools, spec, spec, 1500, pairs) as place:
        ports = [place.next_port() for _ in range(pairs)]
        servers = [place.spawn(place.peer(side), [
            "iperf3", "-s", "-1", "-p", str(port)], rnic=False)
            for side, port in enumerate(ports)]
        for server, port in zip(servers, ports):
            bed.await_true(functools.partial(server.listens, port), 10,
                           "iperf3 listening")
        begin = time.monotonic()
        clients = [place.spawn(side, [
            "iperf3", "-c", place.sides[place.peer(side)].host_address, "-p",
            str(port), "-n", "4M", "-J"], rnic=False)
            for side, port in enumerate(ports)]
        results = [client.wait(60) for client in clients]
        seconds = time.monotonic() - begin
        context.check_ok(*results, *(server.wait(20) for server in servers))
        arrived = sum(json.loads(result.out)["end"]["sum_received"]["bytes"]
                      for result in results)
        there, back = place.wire_counts()
        context.note(f"{arrived * 8e-6 / seconds:.0f} of {mega_bits} Mb/s, "
                     f"{there['overflowed']} frames found the buffer full")
        context.check(arrived > 0 and arrived * 8e-6 / seconds < mega_bits,
                      results)
        context.check(there["overflowed"] > 0, there)
        check_sum(context, there)
        check_sum(context, back)
        # RNICs behind the same two switches.
        context.check_ok(*place.run_pair(
            ["ib_write_bw", "-x", "3", "-F", "-s", "4096", "-n", "100"],
            server_side=pairs))


def lossy_port(context, bed_name):
    """One RNIC with faults, the other without. perftest, whose two sides wait
    for each other at the end: where one just ends, as in ibv_rc_pingpong, the
    other gets no answer when the last acknowledgement was lost."""
    context.need("ib_send_lat")
    with beds.make(context.tools, bed_name) as place:
        fault = "loss=2%,delay=200us,jitter=100us,duplicate=1%"
        results = place.run_pair(
            ["ib_send_lat", "-x", "3", "-F", "-n", "500"], seconds=60,
            client_options={"env": {
                "URNIC_FAULT": fault, "URNIC_STATS": place.stats_path(1)}})
        check_report(context, *results)
        counts = stats_of(context, place, 1)["fault"]
        for direction in ("out", "in"):
            context.check(counts[direction]["lost"] > 0, counts)
        context.note(f"{counts['out']['lost']} and {counts['in']['lost']} "
                     "frames lost")


def asleep(context, bed_name, argv, fault):
    """Both sides sleep, and are woken for frames that are due later, or that a
    timer sends again."""
    context.need(argv[0])
    with beds.make(context.tools, bed_name) as place:
        results = place.run_pair(
            argv, seconds=60, client_options={"env": {
                "URNIC_FAULT": fault, "URNIC_STATS": place.stats_path(1)}})
        context.check_ok(*results)
        counts = stats_of(context, place, 1)["fault"]
        context.check(counts["in"]["delivered"] > 0, counts)
        if "loss" in fault:
            context.check(counts["out"]["lost"] > 0, counts)


# Programs that wait for events while frames are lost. Not perftest's
# ib_send_lat: with -e it counts events of two completion queues on one channel
# as completions. After a lost acknowledgement it posts into a full queue, or
# its queue of one completion overflows, and the other side's retries run out.
SLOW = "delay=200us,jitter=100us,duplicate=1%"
ASLEEP = {
    "pingpong": (["ibv_rc_pingpong", "-g", "3", "-n", "200", "-c", "-e"], SLOW),
    "read": (["ib_read_lat", "-x", "3", "-F", "-n", "300", "-e"],
             f"loss=2%,{SLOW}"),
    "send": (["ib_send_bw", "-x", "3", "-F", "-n", "500", "-s", "4096", "-e"],
             f"loss=2%,{SLOW}"),
}

for _bed in ("veth9000", "vhost", "memif"):
    suite.add(f"{_bed}/pingpong-polling-with-a-faulty-port",
              functools.partial(lossy_port, bed_name=_bed),
              _bed == "veth9000")
    for _name, (_argv, _fault) in ASLEEP.items():
        suite.add(f"{_bed}/{_name}-asleep-with-a-faulty-port",
                  functools.partial(asleep, bed_name=_bed, argv=_argv,
                                    fault=_fault), _bed == "veth9000")


def dies(context, bed_name):
    """A port that dies without a word: both sides of a running transfer are
    told by the status of their completions."""
    context.need("ib_write_bw")
    # Both send, so both must notice. 7 timeouts of 17 ms (2^12 * 4.096 us).
    argv = ["ib_write_bw", "-x", "3", "-F", "-b", "-D", "20", "-u", "12"]
    with beds.make(context.tools, bed_name) as place:
        pair = place.spawn_pair(
            argv, client_options={"env": {"URNIC_FAULT": "die=2s"}})
        for process in pair:
            result = process.wait(30)
            context.check(result.status > 0, result)
            context.check(RETRY_EXCEEDED in result.out + result.err, result)


for _bed in ("veth9000", "vhost"):
    suite.add(f"{_bed}/a-port-that-dies-ends-with-retry-exceeded",
              functools.partial(dies, bed_name=_bed), _bed == "veth9000")


@suite.test("veth9000/a-stall-shorter-than-the-retries-is-survived")
def stall(context):
    context.need("ib_write_bw")
    with beds.make(context.tools, "veth9000") as place:
        # 7 timeouts of 134 ms (2^15 * 4.096 us).
        results = place.run_pair(
            ["ib_write_bw", "-x", "3", "-F", "-D", "3", "-u", "15"],
            seconds=60, client_options={"env": {
                "URNIC_FAULT": "stall=0s:250ms:900ms",
                "URNIC_STATS": place.stats_path(1)}})
        check_report(context, *results)
        stats = stats_of(context, place, 1)
        context.note(f"{stats['fault']['out']['stalled']} frames waited, "
                     f"{stats['engine']['timeouts']} timeouts")
        context.check(stats["fault"]["out"]["stalled"] > 0, stats)
        context.check(stats["fault"]["in"]["stalled"] > 0, stats)


@suite.test("veth9000/the-last-frames-of-a-slow-port-arrive")
def last_frames(context):
    """A program that is done has sent its last acknowledgement, though its
    wire may still have it: its peer must not wait until it fails."""
    context.need("ibv_rc_pingpong")
    with beds.make(context.tools, "veth9000") as place:
        context.check_ok(*place.run_pair(
            ["ibv_rc_pingpong", "-g", "3", "-n", "5"], seconds=60,
            client_options={"env": {
                "URNIC_FAULT": "delay=300ms,direction=out"}}))


@suite.test("loop/wrong-faults-are-refused")
def wrong_words(context):
    with bed.LoopBed(context.tools) as place:
        for fault, complaint in (
                ("loss=200%", "fault=loss=200%: this port has no wire"),
                ("delay=1ms;loop", "which separates ports")):
            result = place.run(0, [context.tools.urnic, "run", "--port",
                                   "loop", "--fault", fault, "true"],
                               rnic=False)
            context.check(result.status == 2, result)
            context.check(complaint in result.err, result)
