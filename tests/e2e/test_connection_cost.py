"""What a connection costs besides time: system calls, page faults. Unlike
connects a second, these numbers are nearly the same on every machine.

Each is the difference between a run with MANY connections and one with FEW,
divided by the difference of their numbers: of one whole life of a connection
with its queues (cm_many: rdma_create_id() to rdma_destroy_id()), on each side.
"""

import functools
import json
import os

import beds
import suite
from test_rdmacm import spawn_server

FEW, MANY = 100, 1100

# How often a thread waits, gives way or is woken depends on the machine, and so
# does how often DPDK looks for the peer's socket.
WAITS = {"futex", "ppoll", "poll", "epoll_wait", "epoll_pwait", "sched_yield",
         "clock_nanosleep", "restart_syscall", "rt_sigreturn", "access",
         "getsockname", "getpeername", "socket", "connect", "accept",
         "sched_getaffinity"}


# (transport, side): the most system calls and page faults that a connection may
# need. More than was measured: a thread that sleeps before an event comes needs
# four calls more.
LIMITS = {
    ("roce", "server"): (28, 6),
    ("roce", "client"): (42, 6.3),
    ("iwarp", "server"): (28, 7),
    ("iwarp", "client"): (30, 7),
}


def calls_of(path):
    """{name: count} of the table of `strace -c`."""
    count = {}
    with open(path, encoding="utf-8") as file:
        for line in file:
            word = line.split()
            if len(word) >= 5 and word[3].isdigit() and word[-1] != "total":
                count[word[-1]] = int(word[3])
    return count


def cost_of(context, bed_name, count):
    """[server, client], each: ({name: system calls}, page faults)."""
    with beds.make(context.tools, bed_name) as place:
        paths = [os.path.join(place.directory, f"calls-{side}")
                 for side in (0, 1)]
        words = lambda side: ["strace", "-f", "-c", "-o", paths[side],
                              context.tools.cm_many]
        arguments = [beds.SERVER_IP["v4"], "7000", str(count), "0.1"]
        server = spawn_server(place, [*words(0), "server", *arguments],
                              "listening")
        client = place.run(1, [*words(1), "client", *arguments], seconds=120)
        server = server.wait(20)
        context.check_ok(client, server)
        faults = [json.loads(result.out.splitlines()[-1])["faults"]
                  for result in (server, client)]
        return list(zip(map(calls_of, paths), faults))


def connection_cost(context, bed_name, transport):
    context.need("strace")
    few, many = (cost_of(context, bed_name, count) for count in (FEW, MANY))
    problems = []
    for side, less, more in zip(("server", "client"), few, many):
        each = {name: (count - less[0].get(name, 0)) / (MANY - FEW)
                for name, count in more[0].items() if name not in WAITS}
        calls = sum(each.values())
        faults = (more[1] - less[1]) / (MANY - FEW)
        most_calls, most_faults = LIMITS[transport, side]
        table = ", ".join(f"{name} {number:.1f}" for name, number in
                          sorted(each.items(), key=lambda item: -item[1])
                          if abs(number) >= 0.05)
        text = f"{side}: {calls:.1f} system calls ({table}), {faults:.2f} faults"
        context.note(text)
        if calls > most_calls or faults > most_faults:
            problems.append(f"{text}; at most {most_calls} and {most_faults}")
    context.check(not problems, "; ".join(problems))


for _bed, _transport in (("memif", "roce"), ("iwarp-memif", "iwarp")):
    suite.add(f"{_bed}/system-calls-and-faults-of-a-connection",
              functools.partial(connection_cost, bed_name=_bed,
                                transport=_transport))
