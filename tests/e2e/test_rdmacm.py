"""The distribution's rdma_cm programs, unmodified: connection management through
the emulated character device, on shared memory and between hosts."""

import functools
import json
import os
import pathlib
import time

import bed
import beds
import perftest
import suite

# How long a server may take from opening its device to rdma_listen.
LISTENING_SECONDS = 15
ATTEMPTS = 3
# What perftest prints when its second connection is rejected; datagrams (SIDR)
# have an event of their own.
REJECTED = r"RDMA_CM_EVENT_(REJECTED; error: 8|UNREACHABLE; error: 1)\b"
# What perftest prints when its first connection is rejected: its server has not
# called rdma_listen yet.
FIRST_REJECTED = "Unexpected CM event bl blka 8"


def has_open_device(process):
    """Its RNIC runs: the helper thread of an engine is there."""
    for task in pathlib.Path(f"/proc/{process.pid}/task").glob("*/comm"):
        try:
            if task.read_text(encoding="ascii").strip() == "urnic-helper":
                return True
        except OSError:
            pass
    return False


def spawn_server(place, argv, ready=None):
    """A program that has written `ready`, or else has its device open."""
    server = place.spawn(0, ["stdbuf", "-oL", *argv])
    bed.await_true(lambda: not server.running() or
                   (ready in server.output()[0] if ready
                    else has_open_device(server)), 20,
                   f"{argv[0]}: {ready or 'its device'}")
    return server


def run_client(context, place, server, argv, seconds, turned_away=""):
    """A client's Result. Most programs do not tell when they have called
    rdma_listen, so one that is turned away is run again. `turned_away`: the
    text by which such a client is known, if its failures differ."""
    end = time.monotonic() + LISTENING_SECONDS
    while True:
        client = place.run(1, argv, seconds=seconds)
        if client.status == 0 or not server.running() or \
                time.monotonic() > end or \
                turned_away not in client.out + client.err:
            break
    context.check_ok(client)
    return client


def run_programs(context, bed_name, server_argv, client_argv, ends,
                 family="v4", seconds=40):
    """`ends`: the server ends when its client has; else it is stopped."""
    context.need(server_argv[0], client_argv[0])
    words = {"SERVER": beds.SERVER_IP[family], "CLIENT": beds.CLIENT_IP[family]}
    with beds.make(context.tools, bed_name) as place:
        fill = lambda argv: [words.get(word, word) for word in argv]
        server = spawn_server(place, fill(server_argv))
        client = run_client(context, place, server, fill(client_argv), seconds)
        if ends:
            context.check_ok(server.wait(10))
        else:
            context.check(server.running(), f"{server.result()}")
        return client, server.result()


# name: (server, client, whether the server ends by itself)
PROGRAMS = {
    "rping": (["rping", "-s", "-a", "SERVER", "-C", "10", "-V"],
              ["rping", "-c", "-a", "SERVER", "-C", "10", "-V"], True),
    "ucmatose": (["ucmatose", "-b", "SERVER"], ["ucmatose", "-s", "SERVER"],
                 True),
    "udaddy": (["udaddy", "-b", "SERVER"], ["udaddy", "-s", "SERVER"], True),
    "cmtime": (["cmtime", "-b", "SERVER", "-c", "50"],
               ["cmtime", "-s", "SERVER", "-c", "50"], False),
    "rdma_client": (["rdma_server", "-s", "SERVER"],
                    ["rdma_client", "-s", "SERVER"], True),
    "rdma_xclient": (["rdma_xserver"], ["rdma_xclient", "-s", "SERVER"], True),
    "rdma_xclient-xrc": (["rdma_xserver", "-c", "x"],
                         ["rdma_xclient", "-s", "SERVER", "-c", "x"], True),
    "rstream": (["rstream", "-b", "SERVER", "-S", "4096", "-C", "100"],
                ["rstream", "-s", "SERVER", "-S", "4096", "-C", "100"], True),
    "riostream": (["riostream", "-b", "SERVER", "-S", "64", "-C", "20"],
                  ["riostream", "-s", "SERVER", "-S", "64", "-C", "20"], True),
}
# With no option except the address. riostream then makes up to 100000 round
# trips, with writes into memory that both programs poll. On two CPUs, with two
# pollers and two helper threads, that takes half a minute.
DEFAULTS = {
    "cmtime": (["cmtime", "-b", "SERVER"], ["cmtime", "-s", "SERVER"], False),
    "rstream": (["rstream", "-b", "SERVER"], ["rstream", "-s", "SERVER"],
                True),
    "riostream": (["riostream", "-b", "SERVER"],
                  ["riostream", "-s", "SERVER"], True),
}
BEDS = ("vhost", "veth9000", "iwarp-vhost", "iwarp-veth9000")
CORE_VETH = ("rping", "udaddy", "rdma_client")
CORE_VETH_V6 = ("rping", "rstream")
# rdma_xserver listens on the first address that getaddrinfo() returns without a
# name: 0.0.0.0.
ONLY_V4 = ("rdma_xclient", "rdma_xclient-xrc")
# iWARP has no datagrams and no XRC.
NOT_IWARP = ("udaddy", "rdma_xclient-xrc")


def is_iwarp(bed_name):
    return bed_name.startswith(beds.IWARP)


def is_core(bed_name, name, family):
    if bed_name.endswith("vhost"):
        return family == "v4"
    return name in (CORE_VETH if family == "v4" else CORE_VETH_V6)


for _bed in BEDS:
    for _name, (_server, _client, _ends) in PROGRAMS.items():
        if is_iwarp(_bed) and _name in NOT_IWARP:
            continue
        for _family in ("v4",) if _name in ONLY_V4 else ("v4", "v6"):
            suite.add(f"{_bed}{'/ipv6' if _family == 'v6' else ''}/{_name}",
                      functools.partial(run_programs, bed_name=_bed,
                                        server_argv=_server,
                                        client_argv=_client, ends=_ends,
                                        family=_family),
                      is_core(_bed, _name, _family))
    for _name, (_server, _client, _ends) in DEFAULTS.items():
        suite.add(f"{_bed}/{_name}/defaults",
                  functools.partial(run_programs, bed_name=_bed,
                                    server_argv=_server, client_argv=_client,
                                    ends=_ends, seconds=200), False)


def multicast(context, bed_name, group, family):
    """One sends to a group, the other has joined it."""
    context.need("mckey")
    with beds.make(context.tools, bed_name) as place:
        receiver = spawn_server(
            place,
            ["mckey", "-m", group, "-b", beds.SERVER_IP[family]],
            "receiving data transfers")
        sender = place.run(1, ["mckey", "-m", group, "-b",
                               beds.CLIENT_IP[family], "-s"])
        context.check_ok(sender, receiver.wait(10))


for _bed in ("vhost", "veth9000"):
    suite.add(f"{_bed}/mckey", functools.partial(
        multicast, bed_name=_bed, group="239.1.1.1", family="v4"),
        _bed == "vhost")
    suite.add(f"{_bed}/ipv6/mckey", functools.partial(
        multicast, bed_name=_bed, group="ff0e::1:1", family="v6"),
        _bed == "veth9000")


def rcopy(context, bed_name, family):
    """A file goes through rsockets and is the same on the other side. (rcopy
    has one colon to part the address from the name: IPv6 needs a host name.)
    """
    context.need("rcopy")
    with beds.make(context.tools, bed_name) as place:
        source = os.path.join(place.directory, "source")
        target = os.path.join(place.directory, "target")
        data = os.urandom(3_000_001)
        pathlib.Path(source).write_bytes(data)
        server = spawn_server(place, ["rcopy"], "waiting for connection")
        run_client(context, place, server,
                   ["rcopy", source, f"{beds.SERVER_IP[family]}:{target}"], 40)
        context.check(pathlib.Path(target).read_bytes() == data,
                      "the copy differs")


for _bed in BEDS:
    suite.add(f"{_bed}/rcopy", functools.partial(rcopy, bed_name=_bed,
                                                 family="v4"),
              _bed.endswith("vhost"))


@suite.test("veth9000/udpong-is-refused", core=False)
def udpong(context):
    """Datagram rsockets address a peer by LID, without a GRH (ds_add_qp_dest
    of rdma-core 44 and 65), which no RoCE device takes: libmlx5 and the kernel
    answer EINVAL. With the kernel's addresses in place it comes so far."""
    context.need("udpong")
    with bed.VethBed(context.tools) as place:
        place.share_addresses()
        debug = os.path.join(place.directory, "debug")
        client = place.run(1, ["udpong", "-s", beds.SERVER_IP["v4"]],
                           env={"URNIC_DEBUG": debug})
        context.check(client.status != 0, client)
        text = pathlib.Path(debug).read_text(encoding="utf-8")
        context.check("create_ah: ah_attr.is_global is 0" in text,
                      f"{client}\n{text}")


def perftest_by_cm(context, bed_name, argv):
    """perftest -R: the connection is made by rdma_cm, too. Its server listens
    again between its two connections. A request that arrives in between waits
    for the second listener, but not forever: a server that loses the CPU that
    long rejects it, and both programs are run again.
    """
    context.need(argv[0])
    words = [*argv, "-R", "-F", "-n", "500"]
    with beds.make(context.tools, bed_name) as place:
        def once():
            port = ["-p", str(place.next_port())]
            server = spawn_server(place, [*words, *port])
            try:
                client = run_client(context, place, server,
                                    [*words, *port, beds.SERVER_IP["v4"]], 15,
                                    FIRST_REJECTED)
                context.check_ok(client, server.wait(10))
                return client
            finally:
                server.kill()

        client = context.try_again(ATTEMPTS, REJECTED, once)
        perftest.note_last(context, argv, perftest.rows(client.out))


for _bed in BEDS:
    _more = [["ib_write_lat"], ["ib_read_bw"],
             ["ib_send_bw", "--use-srq"]] if is_iwarp(_bed) else [
                 ["ib_atomic_bw"], ["ib_send_bw", "-c", "UD", "-s", "1024"],
                 ["ib_send_lat", "-c", "UD", "-s", "1024"]]
    for _argv in (["ib_send_bw"], ["ib_send_lat"], ["ib_write_bw"],
                  ["ib_read_lat"], *_more):
        suite.add(f"{_bed}/rdma-cm/{'-'.join(_argv)}",
                  functools.partial(perftest_by_cm, bed_name=_bed, argv=_argv),
                  _bed.endswith("vhost") and len(_argv) == 1)


def nobody_listens(context, bed_name, status):
    """The peer is there, its port is not: rejected."""
    context.need("rping")
    with beds.make(context.tools, bed_name) as place:
        spawn_server(place, ["rping", "-s", "-a", beds.SERVER_IP["v4"], "-p",
                             "7999"])
        client = place.run(1, ["rping", "-c", "-a", beds.SERVER_IP["v4"], "-C",
                               "1"])
        context.check(client.status != 0, client)
        context.check(f"RDMA_CM_EVENT_REJECTED, error {status}" in
                      client.out + client.err, client)


# The reason of InfiniBand's connection manager, and what Linux makes of a TCP
# that is refused: -ECONNREFUSED.
for _bed, _status in (("vhost", 8), ("iwarp-vhost", -111)):
    suite.add(f"{_bed}/connecting-to-nobody-is-told", functools.partial(
        nobody_listens, bed_name=_bed, status=_status))


# What an RNIC with 65536 connections may need, in the process that has it, for
# each connection: rings, completion queues, and librdmacm's memory as well.
HELD_BYTES = 8 * 2**30 // 65536
# The memory that a connection may leave behind; and the memory of connections
# in TIMEWAIT, which lasts a second: 600 bytes for each connection of the last
# second.
KEPT_BYTES = 16
TIMEWAIT_KB = 2048
# The heap is exact, but for connections in TIMEWAIT and for what other threads
# hold at the moment: measured -4 to 30 KB.
HEAP_SLACK = 96 * 1024
HEAP_BYTES = 2


def connections_leave_nothing(context, bed_name, count):
    """Connect, exchange, disconnect, destroy, `count` times: afterwards both
    processes hold what they held before."""
    with beds.make(context.tools, bed_name) as place:
        # The ring of the trace would fill meanwhile: 4 MB.
        words = ["env", "URNIC_TRACE=qp=0,cm=0,receive=0,transmit=0",
                 context.tools.cm_reconnect]
        server = spawn_server(place, [*words, "server", beds.SERVER_IP["v4"],
                                      "7000"], "listening")
        client = place.run(1, [*words, "client", beds.SERVER_IP["v4"], "7000",
                               str(count)], seconds=60 + count // 50)
        server = server.wait(20)
        context.check_ok(client, server)
        for result in (server, client):
            report = json.loads(result.out.splitlines()[-1])
            context.check(report["connections"] == count, report)
            before, after = report["fds"]
            context.check(after == before, f"descriptors: {report}")
            before, after = report["rss_kb"]
            context.check(after - before <= TIMEWAIT_KB +
                          count * KEPT_BYTES // 1024, f"memory: {report}")
            context.note(f"{after - before} KB more")
            before, after = report["heap"]
            context.check(after - before <= HEAP_SLACK + count * HEAP_BYTES,
                          f"heap: {report}")
            context.note(f"heap {after - before} bytes more")
        context.note(f"{count / report['seconds']:.0f}/s")


for _bed in BEDS:
    suite.add(f"{_bed}/1000-connections-leave-nothing", functools.partial(
        connections_leave_nothing, bed_name=_bed, count=1000),
        _bed.endswith("vhost"))
    suite.add(f"{_bed}/10000-connections-leave-nothing", functools.partial(
        connections_leave_nothing, bed_name=_bed, count=10000), False)


def connections_at_a_time(context, bed_name, count):
    """All exist at the same time; then each carries a message."""
    with beds.make(context.tools, bed_name) as place:
        words = [context.tools.cm_many]
        arguments = [beds.SERVER_IP["v4"], "7000", str(count), "0.2"]
        server = spawn_server(place, [*words, "server", *arguments],
                              "listening")
        client = place.run(1, [*words, "client", *arguments],
                           seconds=30 + count // 500)
        server = server.wait(20)
        context.check_ok(client, server)
        for result in (server, client):
            report = json.loads(result.out.splitlines()[-1])
            context.check(report["connections"] == count, report)
            before, established = report["rss_kb"][:2]
            each = (established - before) * 1024 // count
            context.check(each <= HELD_BYTES, report)
            context.note(f"{each} bytes each")
        context.note(f"{count / report['setup_seconds']:.0f}/s")


# librdmacm has 65536 ids for a process, with its four listeners.
for _count, _core in ((2000, True), (65532, False)):
    suite.add(f"iwarp-vhost/{_count}-connections-at-a-time", functools.partial(
        connections_at_a_time, bed_name="iwarp-vhost", count=_count), _core)
