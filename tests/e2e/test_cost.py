"""System calls on the packet path, and what an idle RNIC costs."""

import collections
import concurrent.futures
import functools
import glob
import os
import re
import signal
import statistics
import time

import bed
import suite


# Not on the packet path: a poller that has been refused the engine 4096 times
# in a row gives way to the holder, which has probably lost its CPU
# (Engine::Progress(), datapath/guest/give_way.h).
NAP = re.compile(r"clock_nanosleep\(.*tv_sec=0, tv_nsec=1}")
# Before the connection: waiting for the peer's port and its ARP reply
# (Nic::ResolvePath()).
RESOLVER = re.compile(r"clock_nanosleep\(.*tv_sec=0, tv_nsec=(50000|2000000)}")
# Not on the packet path either: a sleeping peer is woken through its event
# descriptor. Between two peers that poll, this happens when one has not begun
# or has lost its CPU.
KICK = re.compile(r'write\(\d+, "\\1(?:\\0){7}", 8\)')
CALL = re.compile(r"(?:<\.\.\. )?(\w+)(?:\(| resumed>)")


def calls_of(path):
    """How often each system call was made: `strace -ff -o` of one thread."""
    count = collections.Counter()
    with open(path, encoding="utf-8", errors="replace") as file:
        for line in file:
            call = CALL.match(line)
            if KICK.match(line):
                count["kick"] += 1
            elif NAP.match(line):
                count["nap"] += 1
            elif call and not RESOLVER.match(line):
                count[call.group(1)] += 1
    return count


def apart(context):
    """What the two sides run behind, so that each has a CPU of its own."""
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) < 2:
        raise suite.Skip("one CPU: the two sides cannot both poll")
    context.need("taskset")
    return [["taskset", "-c", str(cpu)] for cpu in cpus[:2]]


def count_calls(context, place, argv, count):
    """The system calls of the main threads of server and client."""
    prefixes = [os.path.join(place.directory, f"trace-{count}-{side}")
                for side in (0, 1)]
    options = [{"wrap": [*cpu, "strace", "-ff", "-o", prefix]}
               for cpu, prefix in zip(apart(context), prefixes)]
    server, client = place.run_pair(
        [*argv, "-n", str(count), "-x", "3", "-F"], seconds=90,
        server_options=options[0], client_options=options[1])
    context.check_ok(server, client)
    # The first thread has the lowest id.
    return [calls_of(min(glob.glob(prefix + ".*"),
                         key=lambda path: int(path.rsplit(".", 1)[1])))
            for prefix in prefixes]


# Calls by which two runs may differ for other reasons than their messages. One
# call for every thousand messages would be more.
SLACK = 950
# Other programs on the machine take CPUs away from us, for some milliseconds
# each time, which causes naps and kicks. If they belonged to the packet path,
# there would be one for every message, or for every burst of 32.
NAPS = 400
KICKS = 10000
FEW, MANY = 20000, 1000000
# Interference causes more calls, never fewer. Calls of the packet path appear
# in every try.
TRIES = 3


def no_calls(context, kind, argv):
    """Both sides poll: fifty times the messages, the same system calls."""
    context.need("strace", argv[0])
    for _ in range(TRIES):
        problems = grown_calls(context, kind, argv)
        if not problems:
            return
    context.check(False, "; ".join(problems))


def grown_calls(context, kind, argv, few=FEW, many=MANY):
    """What more messages have made more than they may: a list of texts."""
    counts = []
    for count in (few, many):
        with bed.SocketBed(context.tools, kind) as place:
            counts.append(count_calls(context, place, argv, count))
    problems = []
    for side, less, more in zip(("server", "client"), *counts):
        grown = {name: more[name] - less[name] for name in more
                 if more[name] > less[name]}
        naps, kicks = grown.pop("nap", 0), grown.pop("kick", 0)
        text = (f"{side}: {sum(less.values())} calls for {few} messages,"
                f" {sum(more.values())} for {many}, of the difference "
                f"{naps} naps and {kicks} kicks")
        context.note(text)
        if sum(grown.values()) >= SLACK or naps >= NAPS or kicks >= KICKS:
            problems.append(f"{text}; {grown}")
    return problems


def no_allocations(context, kind, argv, few=FEW, many=MANY):
    """Fifty times the messages, the same allocations: of the program, of
    libibverbs, of the provider and DPDK, in all their threads."""
    context.need(argv[0])
    counts = []
    for count in (few, many):
        with bed.SocketBed(context.tools, kind) as place:
            paths = [os.path.join(place.directory, f"allocations-{side}")
                     for side in (0, 1)]
            options = [{"wrap": cpu,
                        "env": {"LD_PRELOAD": context.tools.alloc_count,
                                "URNIC_ALLOC_COUNT": path}}
                       for cpu, path in zip(apart(context), paths)]
            server, client = place.run_pair(
                [*argv, "-n", str(count), "-x", "3", "-F"], seconds=90,
                server_options=options[0], client_options=options[1])
            context.check_ok(server, client)
            counts.append([read_number(path) for path in paths])
    for side, less, more in zip(("server", "client"), *counts):
        context.note(f"{side}: {less} allocations for {few} messages, {more} "
                     f"for {many}")
        # Some hundreds of allocations on a busy machine depend on time, not on
        # messages (attempts to reach a peer that starts late, perftest's clock
        # calibration).
        context.check(less > 100, "the counter saw nothing")
        context.check(more - less < (many - few) / 1000, context.remark)


def read_number(path):
    with open(path, encoding="ascii") as file:
        return int(file.read())


for _kind in ("vhost", "vhost-swapped", "memif"):
    for _name, _argv in {"send_lat": ["ib_send_lat"],
                         "send_bw": ["ib_send_bw", "-s", "64"]}.items():
        _core = _kind == "vhost" or (_kind == "memif" and _name == "send_bw")
        suite.add(f"{_kind}/no-system-call-per-message/{_name}",
                  functools.partial(no_calls, kind=_kind, argv=_argv), _core,
                  alone=True)
        suite.add(f"{_kind}/no-allocation-per-message/{_name}",
                  functools.partial(no_allocations, kind=_kind, argv=_argv),
                  _kind == "vhost" and _name == "send_bw", alone=True)


# An idle RNIC should need less than 1 %. But CPU time is counted in hundredths
# of a second, so a window of one second is only exact to 1 %.
IDLE_SHARE = 0.05


def idle_share(process):
    """The part of a CPU that an idle process uses, from one second on: the
    median of three windows of a second."""
    time.sleep(1)
    shares = []
    for _ in range(3):
        before, begin = process.cpu_seconds(), time.monotonic()
        time.sleep(1)
        shares.append((process.cpu_seconds() - before) /
                      (time.monotonic() - begin))
    return statistics.median(shares)


def check_idle(context, limit=IDLE_SHARE, **processes):
    """All at the same time."""
    with concurrent.futures.ThreadPoolExecutor() as pool:
        shares = dict(zip(processes, pool.map(idle_share,
                                              processes.values())))
    for name, share in shares.items():
        context.note(f"{name} {100 * share:.1f} % of a core")
    for process in processes.values():
        context.check(process.running(), process.result())
    context.check(max(shares.values()) < limit, context.remark)


def idle(context, make):
    """A server that waits at TCP with its device open."""
    context.need("ibv_rc_pingpong")
    with make(context.tools) as place:
        port = place.next_port()
        server = place.spawn(0, ["ibv_rc_pingpong", "-g", "3", "-p",
                                 str(port)])
        bed.await_true(lambda: server.listens(port), 10, "listening")
        check_idle(context, server=server)


def idle_connected(context, make):
    """Two RNICs with a connection that has carried a message; both programs
    wait for the event of another."""
    with make(context.tools) as place:
        program = context.tools.echo_peer
        port = place.next_port()
        server = place.spawn(0, [program, "sleeping-server", str(port)])
        bed.await_true(lambda: server.listens(port), 30, "listening")
        client = place.spawn(1, [program, "sleeping-client", str(port),
                                 place.sides[0].host_address])
        for process in (server, client):
            bed.await_true(lambda: "asleep" in process.output()[0], 30,
                           "both asleep")
        check_idle(context, server=server, client=client)
        for process in (server, client):
            process.signal(signal.SIGTERM)
            result = process.wait(10)
            context.check_ok(result)
            context.check("failed" not in result.out, result)


def stopped_peer(context, kind):
    """A sender that sleeps until its packets are gone, while nobody takes
    them."""
    context.need("ib_send_bw")
    with bed.SocketBed(context.tools, kind) as place:
        server, client = place.spawn_pair(
            ["ib_send_bw", "-c", "UD", "-e", "-s", "1024", "-n", "100000000",
             "-x", "3", "-F"])
        bed.await_true(lambda: server.cpu_seconds() > 0.5, 30, "traffic")
        server.signal(signal.SIGSTOP)
        # The sender checks for room every millisecond, later every third one.
        # Before it did that, it used 98 %.
        check_idle(context, limit=5 * IDLE_SHARE, client=client)


for _kind in ("vhost", "vhost-swapped", "memif"):
    suite.add(f"{_kind}/a-peer-that-is-stopped-costs-nothing",
              functools.partial(stopped_peer, kind=_kind),
              core=_kind == "memif", alone=True)


for _name, _make in {
        "vhost": lambda tools: bed.SocketBed(tools, "vhost"),
        "vhost-swapped": lambda tools: bed.SocketBed(tools, "vhost-swapped"),
        "veth9000": bed.VethBed, "loop": bed.LoopBed,
        "memif": lambda tools: bed.SocketBed(tools, "memif")}.items():
    # In the short set only for the port that no connection test covers.
    suite.add(f"{_name}/idle-costs-nothing",
              lambda context, make=_make: idle(context, make),
              core=_name == "loop", alone=True)
    if _name != "loop":
        suite.add(f"{_name}/idle-with-a-connected-peer-costs-nothing",
                  lambda context, make=_make: idle_connected(context, make),
                  core=_name in ("vhost", "veth9000"), alone=True)
