"""The distribution's perftest and ibv_*_pingpong: one end on our RNIC, the
other in the guest, unmodified on both."""

import functools

import perftest
import suite
import vm
from scenario import need

ROLES = {"server-here": 0, "server-in-vm": vm.GUEST}
# The guest is slow, and the machine may be busy: half a second (2^17 * 4.096
# us) for an acknowledgement, eight times.
PATIENCE = ["-F", "-u", "17"]


def device_options(lab, side, gid_option, family):
    options = [gid_option, str(lab.gid_index(side, family))]
    return [*options, "-d", "rxe0"] if side == vm.GUEST else options


# pylint: disable-next=too-many-arguments
def run_perftest(context, program, options, server_side, family="v4",
                 sizes=None, needs=()):
    lab = context.tools.lab
    context.need(program)
    need(lab, needs)

    def argv(side, port):
        return [program, *options, *PATIENCE, "-p", str(port),
                *device_options(lab, side, "-x", family)]

    try:
        server, client = lab.run_two(server_side, argv)
        table = perftest.check_report(context, server, client, sizes)
        perftest.note_last(context, [program], table)
    finally:
        lab.reset()


def add_perftest(name, verb, kind, options, core=True, **more):
    for role, side in ROLES.items():
        program = f"ib_{verb}_{kind}"
        suite.add(f"{program}/{name}/{role}",
                  functools.partial(run_perftest, program=program,
                                    options=options, server_side=side,
                                    **more), core)


for _verb in ("send", "write", "read"):
    for _kind in ("bw", "lat"):
        for _name, _size, _count in (("1B", 1, 200), ("4KB", 4096, 200),
                                     ("1MB", 1 << 20, 5)):
            add_perftest(_name, _verb, _kind,
                         ["-s", str(_size), "-n", str(_count)],
                         core=(_kind, _name) in (("bw", "1MB"), ("lat", "1B"),
                                                 ("bw", "4KB")),
                         sizes=[_size])
        add_perftest("ipv6", _verb, _kind, ["-n", "100"], core=False,
                     family="v6")
        add_perftest("mtu256", _verb, _kind,
                     ["-n", "50", "-m", "256", "-s", "10000"], core=False)
    add_perftest("both-ways", _verb, "bw", ["-n", "100", "-b"], core=False)
    add_perftest("four-queue-pairs", _verb, "bw", ["-n", "50", "-q", "4"],
                 core=False)
    add_perftest("lists", _verb, "bw", ["-n", "128", "-l", "16"], core=False)
for _kind in ("bw", "lat"):
    add_perftest("fetch-and-add", "atomic", _kind, ["-n", "100"])
    add_perftest("compare-and-swap", "atomic", _kind,
                 ["-n", "100", "-A", "CMP_AND_SWAP"], core=False)
    for _verb in ("send", "read"):
        add_perftest("events", _verb, _kind, ["-n", "100", "-e"], core=False)
    # Unreliable services: no more packets in flight than the tap holds, because
    # the server waits forever for a lost message.
    for _verb in ("send", "write"):
        add_perftest("uc", _verb, _kind,
                     ["-n", "100", "-c", "UC", "-s", "1000"], needs=["uc"])
    add_perftest("ud", "send", _kind, ["-n", "100", "-c", "UD", "-s", "512"],
                 needs=["ud"])
    add_perftest("srq", "send", _kind, ["-n", "100", "--use-srq"],
                 needs=["srq"])


# pylint: disable-next=too-many-arguments
def run_pingpong(context, program, options, server_side, family="v4",
                 needs=()):
    """-c compares the data, which perftest does not."""
    lab = context.tools.lab
    context.need(program)
    need(lab, needs)

    def argv(side, port):
        return [program, *options, "-c", "-p", str(port),
                *device_options(lab, side, "-g", family)]

    try:
        server, client = lab.run_two(server_side, argv)
        context.check_ok(server, client)
        for result in (server, client):
            context.check("invalid data" not in result.out + result.err,
                          result)
            context.check("Mbit/sec" in result.out, result)
    finally:
        lab.reset()


def add_pingpong(name, service, options, core=True, **more):
    for role, side in ROLES.items():
        program = f"ibv_{service}_pingpong"
        suite.add(f"{program}/{name}/{role}",
                  functools.partial(run_pingpong, program=program,
                                    options=options, server_side=side,
                                    **more), core)


add_pingpong("poll", "rc", ["-n", "200"])
add_pingpong("events", "rc", ["-n", "200", "-e"])
add_pingpong("1MB", "rc", ["-n", "5", "-s", str(1 << 20), "-m", "4096"])
add_pingpong("odd-size", "rc", ["-n", "50", "-s", "4097"], core=False)
add_pingpong("ipv6", "rc", ["-n", "100"], family="v6")
add_pingpong("poll", "uc", ["-n", "100"], needs=["uc"])
add_pingpong("poll", "ud", ["-n", "100", "-s", "1000"], needs=["ud"])
add_pingpong("ipv6", "ud", ["-n", "100", "-s", "1000"], needs=["ud"],
             family="v6")
add_pingpong("poll", "srq", ["-n", "100", "-q", "4"], needs=["srq"])
