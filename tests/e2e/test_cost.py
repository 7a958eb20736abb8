"""System calls on the packet path, and what an idle RNIC costs."""

import collections
import glob
import os
import re
import time

import bed
import suite


# Not on the packet path: a poller that finds the engine held by a thread that
# has lost its CPU gives way to it, and how often depends on the machine's load.
GIVE_WAY = "clock_nanosleep"
CALL = re.compile(r"(?:<\.\.\. )?(\w+)(?:\(| resumed>)")


def calls_of(path):
    """How often each system call was made: `strace -ff -o` of one thread."""
    with open(path, encoding="utf-8", errors="replace") as file:
        found = (CALL.match(line) for line in file)
        return collections.Counter(match.group(1) for match in found if match)


def count_calls(context, place, argv, count):
    """The system calls of the main threads of server and client."""
    prefixes = [os.path.join(place.directory, f"trace-{count}-{side}")
                for side in (0, 1)]
    options = [{"wrap": ["strace", "-ff", "-o", prefix]}
               for prefix in prefixes]
    server, client = place.run_pair(
        [*argv, "-n", str(count), "-x", "3", "-F"], seconds=90,
        server_options=options[0], client_options=options[1])
    context.check_ok(server, client)
    # The first thread has the lowest id.
    return [calls_of(min(glob.glob(prefix + ".*"),
                         key=lambda path: int(path.rsplit(".", 1)[1])))
            for prefix in prefixes]


# Calls that one run may make more than another, for another reason than its
# messages. One for every 400 messages would be many more.
SLACK = 950


def no_calls(context, argv, few, many):
    """Both sides poll: twenty times the messages, the same system calls."""
    context.need("strace", argv[0])
    counts = []
    for count in (few, many):
        with bed.SocketBed(context.tools, "vhost") as place:
            counts.append(count_calls(context, place, argv, count))
    for side, less, more in zip(("server", "client"), *counts):
        grown = {name: more[name] - less[name] for name in more
                 if more[name] > less[name]}
        naps = grown.pop(GIVE_WAY, 0)
        context.note(f"{side}: {sum(less.values())} calls for {few} messages,"
                     f" {sum(more.values())} for {many}, of the difference "
                     f"{naps} naps")
        context.check(sum(grown.values()) < SLACK, f"{side}: {grown}")
        context.check(naps < many / 10, context.remark)


suite.add("vhost/no-system-call-per-message/send_lat",
          lambda context: no_calls(context, ["ib_send_lat"], 20000, 400000))
suite.add("vhost/no-system-call-per-message/send_bw",
          lambda context: no_calls(context, ["ib_send_bw", "-s", "64"], 20000,
                                   400000))


def idle(context, make):
    """A server that waits at TCP with its device open: percent of a core."""
    context.need("ibv_rc_pingpong")
    with make(context.tools) as place:
        port = place.next_port()
        server = place.spawn(0, ["ibv_rc_pingpong", "-g", "3", "-p",
                                 str(port)])
        bed.await_true(lambda: server.listens(port), 10, "listening")
        time.sleep(1)
        before, begin = server.cpu_seconds(), time.monotonic()
        time.sleep(2)
        share = (server.cpu_seconds() - before) / (time.monotonic() - begin)
        context.note(f"{100 * share:.1f} % of a core")
        # Not a benchmark: only a spinning helper fails here.
        context.check(share < 0.5, context.remark)


for _name, _make in {
        "vhost": lambda tools: bed.SocketBed(tools, "vhost"),
        "vhost-swapped": lambda tools: bed.SocketBed(tools, "vhost-swapped"),
        "veth9000": bed.VethBed, "loop": bed.LoopBed,
        "memif": lambda tools: bed.SocketBed(tools, "memif")}.items():
    suite.add(f"{_name}/idle-costs-nothing",
              lambda context, make=_make: idle(context, make))


@suite.test("vhost/idle-with-a-connected-peer")
def idle_connected(context):
    """Two processes with a connected queue pair and nothing to say: the
    client of a slow perftest sleeps between its messages."""
    context.need("ibv_rc_pingpong")
    with bed.SocketBed(context.tools) as place:
        port = place.next_port()
        argv = ["ibv_rc_pingpong", "-g", "3", "-e", "-p", str(port)]
        server = place.spawn(0, argv)
        bed.await_true(lambda: server.listens(port), 10, "listening")
        client = place.spawn(1, ["ibv_rc_pingpong", "-g", "3", "-e", "-p",
                                 str(place.next_port())])
        time.sleep(1.5)
        before = server.cpu_seconds() + client.cpu_seconds()
        time.sleep(2)
        share = (server.cpu_seconds() + client.cpu_seconds() - before) / 2
        context.note(f"{100 * share:.1f} % of a core for both")
        context.check(share < 1.0, context.remark)
