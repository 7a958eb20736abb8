"""Connections made by rdma_cm: librdmacm's own programs and perftest -R, one
end on our RNIC, the other in the guest.
"""

import functools

import perftest
import suite
import vm
from cm_programs import (ADDRESS, fill_in, run_at, run_client, run_pair,
                         start_server)
from scenario import OURS, need

ROLES = {"server-here": OURS, "server-in-vm": vm.GUEST}

# name: (server, client, whether the server ends by itself).
PROGRAMS = {
    "rping": ("rping -s -a ADDRESS -C 10 -V",
              "rping -c -a ADDRESS -C 10 -V", True),
    "rping/long": ("rping -s -a ADDRESS -C 5 -V -S 20000",
                   "rping -c -a ADDRESS -C 5 -V -S 20000", True),
    "ucmatose": ("ucmatose -b ADDRESS", "ucmatose -s ADDRESS", True),
    "ucmatose/many": ("ucmatose -b ADDRESS -c 20 -C 5",
                      "ucmatose -s ADDRESS -c 20 -C 5", True),
    "udaddy": ("udaddy -b ADDRESS", "udaddy -s ADDRESS", True),
    "rdma_client": ("rdma_server -s ADDRESS", "rdma_client -s ADDRESS", True),
    "cmtime": ("cmtime -b ADDRESS -c 20", "cmtime -s ADDRESS -c 20", False),
    # By default they transfer gigabytes, which takes minutes in the guest.
    "rstream": ("rstream -b ADDRESS -S 4096 -C 50 -I 4 -T v",
                "rstream -s ADDRESS -S 4096 -C 50 -I 4 -T v", True),
    "rstream/1MB": ("rstream -b ADDRESS -S 1048576 -C 10 -I 1",
                    "rstream -s ADDRESS -S 1048576 -C 10 -I 1", True),
    "riostream": ("riostream -b ADDRESS -S 65536 -C 50 -I 1",
                  "riostream -s ADDRESS -S 65536 -C 50 -I 1", True),
    # The kernel has no IPv6 groups for RoCE.
    "mckey": ("mckey -b OWN -m 239.1.1.1", "mckey -b OWN -m 239.1.1.1 -s",
              True),
}
NOT_CORE = ("mckey", "cmtime", "ucmatose/many", "rping/long", "rstream/1MB",
            "riostream")


def run_programs(context, name, server_side, family):
    server_argv, client_argv, ends = PROGRAMS[name]
    lab = context.tools.lab
    context.need(server_argv.split()[0])
    need(lab, ["cm"])
    server_argv = fill_in(server_argv, family, server_side, server_side)
    client_side = 1 - server_side
    client_argv = fill_in(client_argv, family, client_side, server_side)
    try:
        server, client = run_pair(lab, server_side, server_argv, client_argv,
                                  name == "mckey")
        context.check_ok(client)
        if ends:
            context.check_ok(server.wait(30))
    finally:
        lab.reset()


for _name in PROGRAMS:
    for _role, _side in ROLES.items():
        for _family in ("v4",) if _name == "mckey" else ("v4", "v6"):
            suite.add(f"cm/{_name}/ip{_family}/{_role}",
                      functools.partial(run_programs, name=_name,
                                        server_side=_side, family=_family),
                      core=_name not in NOT_CORE)


# Where the rules of nftables find a packet to QP1 and the kind of its CM
# message, counted from the UDP header.
TO_QP1 = "@th,104,24 1"
MESSAGE = "@th,352,16"
MESSAGES = {"REQ": (0x10, "ucmatose"), "REP": (0x13, "ucmatose"),
            "RTU": (0x14, "ucmatose"), "DREQ": (0x15, "ucmatose"),
            "DREP": (0x16, "ucmatose"), "SIDR_REQ": (0x17, "udaddy")}
MRA = 0x11
REJ = 0x12


def run_perftest(context, program, server_side):
    """-R: perftest's own connection is made by rdma_cm, too."""
    lab = context.tools.lab
    context.need(program)
    need(lab, ["cm"])
    argv = [program, "-R", "-F", "-n", "100", "-p", str(lab.next_port())]
    client_argv = [*argv, ADDRESS["v4"][server_side]]
    if server_side == vm.GUEST:
        # perftest's server listens twice (tests/e2e/README.md). One in the
        # guest is slower than a client on this side and calls listen too late
        # the second time. So every second REQ is dropped.
        lab.drop(vm.GUEST, f"{TO_QP1} {MESSAGE} {MESSAGES['REQ'][0]} "
                           "numgen inc mod 2 == 1")
    try:
        server = start_server(lab, server_side, argv)
        client = run_client(lab, 1 - server_side, client_argv)
        table = perftest.check_report(context, server.wait(30), client)
        perftest.note_last(context, [program], table)
    finally:
        lab.reset()


for _verb in ("send", "write", "read"):
    for _kind in ("bw", "lat"):
        for _role, _side in ROLES.items():
            suite.add(f"cm/ib_{_verb}_{_kind}/{_role}",
                      functools.partial(run_perftest,
                                        program=f"ib_{_verb}_{_kind}",
                                        server_side=_side),
                      core=_kind == "lat" and _side == OURS)


def drop_first(lab, attribute):
    for towards in (OURS, vm.GUEST):
        lab.drop(towards, f"{TO_QP1} {MESSAGE} {attribute} "
                          "numgen inc mod 100000 == 0")


def run_without(context, message, server_side):
    """The first of a kind is lost, whoever sends it."""
    attribute, program = MESSAGES[message]
    drop_first(context.tools.lab, attribute)
    run_treated(context, program, server_side)


def run_impatient(context):
    """Each REQ comes twice: before its program has answered, Linux asks for
    patience, and the first word of that is lost."""
    lab = context.tools.lab
    lab.duplicate(vm.GUEST, f"{TO_QP1} {MESSAGE} {MESSAGES['REQ'][0]}")
    lab.drop(OURS, f"{TO_QP1} {MESSAGE} {MRA} numgen inc mod 100000 == 0")
    run_treated(context, "ucmatose", vm.GUEST, at_least=2)


def run_refused(context, server_side):
    """Nobody listens, and the first word of it is lost: the client asks again
    and is told again."""
    lab = context.tools.lab
    drop_first(lab, REJ)
    try:
        if server_side == OURS:  # a program must have the RNIC open
            start_server(lab, OURS, ["rping", "-s", "-P", "-p", "7180"])
        client = run_at(lab, 1 - server_side, [
            "rdma_client", "-s", ADDRESS["v4"][server_side], "-p", "7181"])
        context.check(client.status != 0 and
                      "Connection refused" in client.out + client.err, client)
        context.check(lab.treated() == 1, f"{lab.treated()} lost")
    finally:
        lab.reset()


def run_doubled(context, program, server_side):
    """Every message of the CM comes twice."""
    for towards in (OURS, vm.GUEST):
        context.tools.lab.duplicate(towards, TO_QP1)
    run_treated(context, program, server_side)


def run_treated(context, program, server_side, at_least=1):
    lab = context.tools.lab
    server_argv, client_argv, _ = PROGRAMS[program]
    try:
        server = start_server(lab, server_side, fill_in(
            server_argv, "v4", server_side, server_side))
        client = run_client(lab, 1 - server_side, fill_in(
            client_argv, "v4", 1 - server_side, server_side))
        context.check_ok(client, server.wait(60))
        context.check(lab.treated() >= at_least, "no message was met")
        context.note(f"{lab.treated()} messages")
    finally:
        lab.reset()


suite.add("cm/lost/MRA/server-in-vm", run_impatient, core=False)
for _role, _side in ROLES.items():
    suite.add(f"cm/lost/REJ/{_role}",
              functools.partial(run_refused, server_side=_side), core=False)
    for _message in MESSAGES:
        suite.add(f"cm/lost/{_message}/{_role}",
                  functools.partial(run_without, message=_message,
                                    server_side=_side),
                  core=_message in ("REQ", "RTU") and _side == OURS)
    for _name in ("ucmatose", "udaddy", "rdma_client"):
        suite.add(f"cm/doubled/{_name}/{_role}",
                  functools.partial(run_doubled, program=_name,
                                    server_side=_side),
                  core=_name == "ucmatose")
