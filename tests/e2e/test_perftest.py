"""The distribution's perftest and ibv_rc_pingpong, unmodified, on every bed."""

import functools
import os
import re
import signal

import bed
import beds
import perftest
import suite

VERBS = ("send", "write", "read", "atomic")
# The sizes of perftest's -a: 2 B to 8 MB.
ALL_SIZES = [1 << n for n in range(1, 24)]


def gid_index(place, gid):
    """Of "v4", "v6", or either for RoCE v1: "v4-roce1", "v6-roce1"."""
    index = place.gid_v4 if gid.startswith("v4") else place.gid_v6
    return index - 1 if gid.endswith("-roce1") else index


def run_perftest(context, bed_name, argv, gid="v4", sizes=None, seconds=60):
    context.need(argv[0])
    with beds.make(context.tools, bed_name) as place:
        index = gid_index(place, gid)
        # The machine may be busy: the peer gets half a second (2^17 * 4.096 us)
        # to answer, eight times.
        server, client = place.run_pair(
            [*argv, "-x", str(index), "-F", "-u", "17"], seconds=seconds)
        table = perftest.check_report(context, server, client, sizes)
        perftest.note_last(context, argv, table)


def options_of(verb, kind):
    """The variants of one program: {name: (options, sizes)}."""
    variants = {"default": (["-n", "1000"], None)}
    # perftest refuses -e for write: nothing completes at the server.
    events = verb != "write"
    if events:
        variants["events"] = (["-n", "1000", "-e"], None)
    if verb in ("send", "write"):
        variants["inline"] = (["-n", "1000", "-I", "64", "-s", "64"], [64])
    if kind == "bw":
        variants["qps"] = (["-n", "500", "-q", "4"], None)
        variants["both-ways"] = (["-n", "500", "-b"], None)
        variants["lists"] = (["-n", "1024", "-l", "16", "-Q", "16"], None)
        if events:
            variants["qps-events"] = (["-n", "200", "-q", "4", "-e"], None)
            variants["events-both-ways"] = (["-n", "200", "-e", "-b"], None)
            # After an event perftest polls once, for at most -n receives, and
            # sleeps again. The receives that are left must wake it.
            variants["qps-events-both-ways"] = (
                ["-n", "200", "-q", "4", "-e", "-b"], None)
    if verb != "atomic":
        variants["one-byte"] = (["-n", "200", "-s", "1"], [1])
        variants["8MB"] = (["-n", "5", "-s", "8388608"], [8388608])
        variants["all-sizes"] = (["-n", "20", "-a"], ALL_SIZES)
        variants["mtu256"] = (["-n", "200", "-m", "256"], None)
    else:
        variants["compare-and-swap"] = (["-n", "1000", "-A", "CMP_AND_SWAP"],
                                        None)
    return variants


# The short set has "default" of each program, and these. (Each perftest program
# sleeps for a second before it begins.)
CORE_VHOST = ("send_bw/events", "send_bw/inline", "send_bw/qps",
              "send_bw/both-ways", "send_bw/lists", "send_lat/events",
              "write_bw/lists", "write_bw/all-sizes", "write_lat/inline",
              "read_bw/both-ways", "atomic_bw/qps")
CORE_VETH = ("send_bw/events", "read_lat/events", "write_bw/8MB", "read_bw/8MB")


def add_matrix(bed_name, more_core=(), core_verbs=VERBS, gid="v4"):
    for verb in VERBS:
        for kind in ("bw", "lat"):
            for name, (options, sizes) in options_of(verb, kind).items():
                core = (verb in core_verbs and name == "default" or
                        f"{verb}_{kind}/{name}" in more_core)
                suffix = "" if gid == "v4" else "/ipv6"
                suite.add(
                    f"{bed_name}{suffix}/ib_{verb}_{kind}/{name}",
                    functools.partial(
                        run_perftest, bed_name=bed_name, gid=gid, sizes=sizes,
                        argv=[f"ib_{verb}_{kind}", *options]), core,
                    alone=True)


add_matrix("vhost", CORE_VHOST)
add_matrix("vhost-swapped", core_verbs=("send", "write"))
add_matrix("veth9000", CORE_VETH)
add_matrix("veth9000", core_verbs=("send", "read"), gid="v6")
add_matrix("veth1500", core_verbs=("write", "read"))
add_matrix("memif", core_verbs=("send", "write"))


def run_pingpong(context, bed_name, options, gid="v4"):
    """ibv_rc_pingpong -c compares the data, which perftest does not."""
    context.need("ibv_rc_pingpong")
    with beds.make(context.tools, bed_name) as place:
        index = gid_index(place, gid)
        server, client = place.run_pair(
            ["ibv_rc_pingpong", "-g", str(index), "-c", *options])
        context.check_ok(server, client)
        for result in (server, client):
            context.check("invalid data" not in result.out + result.err,
                          result)
            context.check("Mbit/sec" in result.out, result)


for _bed in ("vhost", "vhost-swapped", "veth9000", "veth1500", "memif"):
    for _name, _options in {
            "poll": [], "events": ["-e"], "1MB": ["-s", "1048576", "-n", "50"],
            "1MB-events-mtu": ["-s", "1048576", "-n", "50", "-e", "-m",
                               "4096" if _bed != "veth1500" else "512"],
            "odd-size": ["-s", "4097", "-n", "200"]}.items():
        suite.add(f"{_bed}/ibv_rc_pingpong/{_name}",
                  functools.partial(run_pingpong, bed_name=_bed,
                                    options=_options),
                  _bed in ("vhost", "veth1500") or _name == "odd-size")
suite.add("veth9000/ipv6/ibv_rc_pingpong/events",
          functools.partial(run_pingpong, bed_name="veth9000",
                            options=["-e"], gid="v6"))


def run_service_pingpong(context, bed_name, program, options, gid="v4"):
    """The other services' ping-pong, which say how many rounds they went."""
    context.need(program)
    with beds.make(context.tools, bed_name) as place:
        server, client = place.run_pair(
            [program, "-g", str(gid_index(place, gid)), *options])
        context.check_ok(server, client)


for _bed in ("vhost", "veth9000"):
    for _program in ("ibv_uc_pingpong", "ibv_ud_pingpong", "ibv_srq_pingpong",
                     "ibv_xsrq_pingpong"):
        for _name, _options in {"poll": [], "events": ["-e"]}.items():
            suite.add(f"{_bed}/{_program}/{_name}",
                      functools.partial(run_service_pingpong, bed_name=_bed,
                                        program=_program, options=_options),
                      _bed == "vhost")


def all_sizes(context, bed_name, program, options):
    """Powers of two from 1 to 8 MB; datagrams end at the MTU."""
    context.need(program)
    with beds.make(context.tools, bed_name) as place:
        for bits in range(13 if "ud_" in program else 24):
            # Few messages of the large sizes: 16 MB in each direction.
            rounds = max(2, min(200, (16 << 20) >> bits))
            server, client = place.run_pair(
                [program, "-g", str(place.gid_v4), "-s", str(1 << bits), "-n",
                 str(rounds), *options])
            context.check_ok(server, client)


for _bed in ("vhost", "veth9000"):
    for _program in ("ibv_rc_pingpong", "ibv_uc_pingpong", "ibv_ud_pingpong",
                     "ibv_srq_pingpong", "ibv_xsrq_pingpong"):
        # Packet sockets lose packets of large messages, and UC does not
        # retransmit.
        if (_bed, _program) == ("veth9000", "ibv_uc_pingpong"):
            continue
        for _name, _options in {"poll": [], "events": ["-e"]}.items():
            if _program == "ibv_rc_pingpong":
                _options = ["-c", *_options]
            # Large messages on 16 queue pairs together overrun the packet
            # socket of a process that has lost its CPU. If the last
            # acknowledgement is lost, its sender may already have ended and
            # cannot repeat it.
            if (_bed, _program) == ("veth9000", "ibv_srq_pingpong"):
                _options = ["-q", "4", *_options]
            suite.add(f"{_bed}/{_program}/all-sizes/{_name}",
                      functools.partial(all_sizes, bed_name=_bed,
                                        program=_program, options=_options),
                      False)

# RoCE v1 has no IP header, but its GIDs are IPv4-mapped or IPv6 as well.
for _gid in ("v4-roce1", "v6-roce1"):
    for _program in ("ib_send_bw", "ib_write_bw", "ib_read_lat",
                     "ib_atomic_lat"):
        suite.add(f"veth9000/{_gid}/{_program}",
                  functools.partial(run_perftest, bed_name="veth9000",
                                    gid=_gid, argv=[_program, "-n", "500"]),
                  _gid == "v4-roce1" or _program == "ib_write_bw", alone=True)
    for _service, _options in {"UC": [], "UD": ["-s", "1024"],
                               "XRC": []}.items():
        suite.add(f"vhost/{_gid}/{_service}/ib_send_bw",
                  functools.partial(
                      run_perftest, bed_name="vhost", gid=_gid,
                      argv=["ib_send_bw", "-n", "500", "-c", _service,
                            *_options]), _gid == "v4-roce1", alone=True)
    for _program in ("ibv_uc_pingpong", "ibv_ud_pingpong", "ibv_srq_pingpong",
                     "ibv_xsrq_pingpong"):
        suite.add(f"veth9000/{_gid}/{_program}",
                  functools.partial(run_service_pingpong, bed_name="veth9000",
                                    program=_program, options=["-e"],
                                    gid=_gid), False)
    suite.add(f"veth9000/{_gid}/ibv_rc_pingpong",
              functools.partial(run_pingpong, bed_name="veth9000",
                                options=["-e"], gid=_gid),
              _gid == "v6-roce1")

# The other services, and a shared receive queue.
SERVICES = {
    "UC": (["-c", "UC"], ("ib_send_bw", "ib_send_lat", "ib_write_bw",
                          "ib_write_lat")),
    "UD": (["-c", "UD", "-s", "1024"], ("ib_send_bw", "ib_send_lat")),
    "XRC": (["-c", "XRC"], ("ib_send_bw", "ib_send_lat", "ib_write_bw",
                            "ib_write_lat", "ib_read_bw", "ib_read_lat",
                            "ib_atomic_bw", "ib_atomic_lat")),
    "srq": (["--use-srq"], ("ib_send_bw", "ib_send_lat")),
    "16-qps": (["-q", "16"], ("ib_send_bw", "ib_write_bw", "ib_read_bw")),
}
for _bed in ("vhost", "veth9000"):
    for _service, (_options, _programs) in SERVICES.items():
        for _program in _programs:
            suite.add(f"{_bed}/{_service}/{_program}",
                      functools.partial(
                          run_perftest, bed_name=_bed,
                          argv=[_program, "-n", "500", *_options]),
                      _bed == "vhost" and _program in ("ib_send_bw",
                                                       "ib_write_bw"),
                      alone=True)


# Messages of a test that spins on memory. Its average is a figure: only counts
# decide, because other programs may take our CPUs.
SPINS = 3000


def run_lat(context, tool, cpus):
    """One latency test between namespaces: its average, and the engines'
    counters of both sides."""
    with bed.VethBed(context.tools, 9000) as place:
        options = [{"env": {"URNIC_STATS": place.stats_path(side)},
                    "wrap": ["taskset", "-c", str(cpus[side])] if cpus else []}
                   for side in (0, 1)]
        server, client = place.run_pair(
            [tool, "-x", str(place.gid_v4), "-F", "-n", str(SPINS)],
            seconds=60, server_options=options[0], client_options=options[1])
        perftest.check_report(context, server, client)
        rows = re.findall(r"^ *\d+ +\d+ +[\d.].*$", client.out, re.M)
        engines = [device["engine"] for side in (0, 1)
                   for device in place.read_stats(side)]
        return float(rows[-1].split()[5]), engines


def spin_on_memory(context, pinned):
    """ib_write_lat finds the peer's write in memory, and polls only for its own
    completion. Hardly any write may wait until the helper thread looks. Before
    the helper listened to the port, more than every second one did."""
    context.need("ib_write_lat", "ib_send_lat", "taskset")
    cpus = sorted(os.sched_getaffinity(0))[:2] if pinned else None
    if cpus is not None and len(cpus) < 2:
        raise suite.Skip("one CPU: the two sides cannot both spin")
    # Other programs may take our CPUs, or put both sides on one. That makes more
    # packets late, never fewer; without wake-ups they are late in every try.
    for _ in range(3):
        rival, _ = run_lat(context, "ib_send_lat", cpus)
        average, engines = run_lat(context, "ib_write_lat", cpus)
        late = sum(engine["packets_found_late"] for engine in engines)
        again = sum(engine["requests_resent"] for engine in engines)
        context.note(f"{average} us, ib_send_lat {rival} us; of {2 * SPINS} "
                     f"writes {late} found late, {again} sent again")
        if late < SPINS / 10:
            return
    context.check(False, context.remark)


for _name, _pinned in {"pinned": True, "not-pinned": False}.items():
    suite.add(f"veth9000/ib_write_lat/wakes-who-spins-on-memory/{_name}",
              functools.partial(spin_on_memory, pinned=_pinned))


@suite.test("veth/path-mtu-follows-the-interface")
def path_mtu(context):
    """1500 bytes carry an IB MTU of 1024, 9000 one of 4096."""
    context.need("ib_write_bw")
    for mtu, expected in ((1500, 1024), (9000, 4096)):
        with bed.VethBed(context.tools, mtu) as place:
            server, client = place.run_pair(
                ["ib_write_bw", "-x", "3", "-F", "-n", "50"])
            context.check_ok(server, client)
            words = client.out.split("Mtu")[1].split("\n")[0]
            context.check(f"{expected}[B]" in words,
                          f"interface {mtu}: {words}")


@suite.test("veth9000/late-client")
def late_client(context):
    """The server waits seconds for its peer's interface, then serves it."""
    context.need("ib_send_bw")
    with bed.VethBed(context.tools) as place:
        place.set_link(1, "down")
        port = place.next_port()
        argv = ["ib_send_bw", "-x", "3", "-F", "-n", "100", "-p", str(port)]
        server = place.spawn(0, argv)
        bed.await_true(lambda: server.listens(port), 10, "listening")
        place.set_link(1, "up")
        client = place.run(1, [*argv, place.sides[0].host_address])
        perftest.check_report(context, server.wait(5), client)


@suite.test("vhost/late-start-of-either-side")
def late_vhost(context):
    """A port without its peer serves later, whichever side comes first. (A
    perftest server opens its device before it listens.)"""
    context.need("ib_send_lat")
    for kind in ("vhost", "vhost-swapped"):
        with bed.SocketBed(context.tools, kind) as place:
            port = place.next_port()
            argv = ["ib_send_lat", "-x", "3", "-F", "-n", "100", "-p",
                    str(port)]
            server = place.spawn(0, argv)
            bed.await_true(lambda: server.listens(port), 10, "listening")
            client = place.run(1, [*argv, place.sides[0].host_address])
            perftest.check_report(context, server.wait(5), client)


def run_until_stopped(context, bed_name, program):
    """--run_infinitely prints a row a second until Ctrl-C on either side; what
    comes next on the same ports finds nothing left behind."""
    context.need(program)
    with beds.make(context.tools, bed_name) as place:
        argv = [program, "-x", str(place.gid_v4), "-F", "-u", "17"]
        server, client = place.spawn_pair(
            ["stdbuf", "-oL", *argv, "--run_infinitely", "-D", "1"])
        bed.await_true(
            lambda: len(perftest.rows(client.output()[0])) > 1 or
            not client.running(), 60, "two rows")
        # perftest has no handler: it ends by the signal. A server may end by
        # itself before, when its client's TCP connection ends.
        for process in (client, server):
            process.signal(signal.SIGINT)
            result = process.wait(20)
            context.check(result.status == -signal.SIGINT or
                          process is server and
                          "Failed to exchange data" in result.out + result.err,
                          result)
        context.check("error" not in client.output()[1].lower(),
                      client.result())
        server, client = place.run_pair([*argv, "-n", "500"])
        perftest.check_report(context, server, client)


for _bed in ("vhost", "veth9000"):
    for _program in ("ib_send_bw", "ib_write_bw", "ib_read_bw"):
        suite.add(f"{_bed}/run-infinitely/{_program}",
                  functools.partial(run_until_stopped, bed_name=_bed,
                                    program=_program),
                  (_bed, _program) == ("vhost", "ib_write_bw"), alone=True)
