"""The distribution's programs that connect by rdma_cm: librdmacm's own,
perftest -R and qperf; with our device at one end, or with siw at both."""

import functools

import perftest
import suite
from cm_programs import ADDRESS, fill_in, run_at, start_server
from connection import ROLES, need
from scenario import OURS, THEIRS

# name: (server, client, port, whether the server ends by itself).
PROGRAMS = {
    "rping": ("rping -s -a ADDRESS -C 10 -V",
              "rping -c -a ADDRESS -C 10 -V", 7174, True),
    "rping/long": ("rping -s -a ADDRESS -C 5 -V -S 20000",
                   "rping -c -a ADDRESS -C 5 -V -S 20000", 7174, True),
    "ucmatose": ("ucmatose -b ADDRESS", "ucmatose -s ADDRESS", 7471, True),
    "ucmatose/many": ("ucmatose -b ADDRESS -c 20 -C 5",
                      "ucmatose -s ADDRESS -c 20 -C 5", 7471, True),
    "rdma_client": ("rdma_server -s ADDRESS", "rdma_client -s ADDRESS", 7471,
                    True),
    "cmtime": ("cmtime -b ADDRESS -c 20", "cmtime -s ADDRESS -c 20", 7471,
               False),
    "rstream": ("rstream -b ADDRESS -S 4096 -C 50 -I 4 -T v",
                "rstream -s ADDRESS -S 4096 -C 50 -I 4 -T v", 7471, True),
    "rstream/1MB": ("rstream -b ADDRESS -S 1048576 -C 5 -I 1",
                    "rstream -s ADDRESS -S 1048576 -C 5 -I 1", 7471, True),
    "riostream": ("riostream -b ADDRESS -S 65536 -C 20 -I 1",
                  "riostream -s ADDRESS -S 65536 -C 20 -I 1", 7471, True),
}
CORE = ("rping", "ucmatose", "rdma_client", "rstream")
# Their servers send first. A responder of MPA must not do so before it has heard
# from the initiator, and siw initiates without a word unless it is told to.
SERVER_SENDS_FIRST = ("ucmatose", "ucmatose/many", "ib_write_lat")
# siw says that a send has failed (status 2) whose answer, with the end of the
# connection, comes before siw has left the function that sent it. perftest's
# server ends at once after its last answer, so it is put further away. So are
# siw's servers that send first: siw may not notice a first FPDU that comes
# within a millisecond of its reply, and their clients send nothing more.
FAR = "delay=2ms"
# Between the server's last message and our second connection, for the server to
# listen again.
FARTHER = "delay=20ms"
# What perftest prints when its second connection is refused.
REFUSED = r"RDMA_CM_EVENT_REJECTED; error: -111\b"
ATTEMPTS = 10
RCOPY_PORT = 7427
QPERF_PORT = 19765


def await_listens(lab, side, port, family="v4"):
    """siw listens by a socket of its kernel. Ours is asked for a connection,
    which ends before its program would hear of it. (A client of siw that is
    refused by a port where nobody listens may not end: rping.)"""
    if side == THEIRS:
        lab.await_guest_listens(port)
        return
    lab.run_guest(f"until nc -w 2 {ADDRESS[family][side]} {port} -e true; "
                  "do sleep 0.2; done", 40)


def run_both(context, sides, server_argv, client_argv, port, family="v4"):
    """(the server, the client's result) of programs of rdma_cm."""
    client_side, server_side = sides
    lab = context.tools.lab
    server = start_server(lab, server_side, server_argv)
    await_listens(lab, server_side, port, family)
    client = run_at(lab, client_side, client_argv)
    context.check_ok(client)
    return server, client


def case(name, body, core, sides_of=ROLES, **words):
    """Adds a test for each role; its programs end with it. siw against itself
    is in the short set only with rping."""

    def run(context, sides):
        lab = context.tools.lab
        need(lab, *sides)
        try:
            body(context, lab, sides, **words)
        finally:
            lab.reset()

    for role, sides in sides_of.items():
        suite.add(f"programs/{name}/{role}",
                  functools.partial(run, sides=sides),
                  core and (OURS in sides or name == "rping/ipv4"))


def let_server_speak(lab, program, sides):
    """The client says something first if the server waits for that."""
    if program not in SERVER_SENDS_FIRST:
        return
    lab.set_parameters(peer_to_peer="Y")
    if sides == (OURS, THEIRS):
        lab.fault = FAR


def run_programs(context, lab, sides, program, family):
    client_side, server_side = sides
    let_server_speak(lab, program, sides)
    server_argv, client_argv, port, ends = PROGRAMS[program]
    context.need(server_argv.split()[0])
    server, _ = run_both(
        context, sides, fill_in(server_argv, family, server_side, server_side),
        fill_in(client_argv, family, client_side, server_side), port, family)
    if ends:
        context.check_ok(server.wait(30))


for _name in PROGRAMS:
    for _family in ("v4", "v6"):
        case(f"{_name}/ip{_family}", run_programs,
             _name in CORE and (_family == "v4" or _name == "rping"),
             program=_name, family=_family)


def run_perftest(context, lab, sides, program):
    """-R: perftest's own connection is made by rdma_cm, too. Its server listens
    again between its two connections: a client that comes in between is refused,
    and both are run again. Too many such attempts, and Linux's iw_cm ends with a
    BUG; so siw's server is put far away from our client."""
    context.need(program)
    let_server_speak(lab, program, sides)
    if sides[0] == THEIRS:
        lab.fault = FAR
    elif sides[1] == THEIRS:
        lab.fault = FARTHER

    def once():
        port = lab.next_port()
        argv = [program, "-R", "-F", "-n", "100", "-p", str(port)]
        server, client = run_both(context, sides, argv,
                                  [*argv, ADDRESS["v4"][sides[1]]], port)
        return perftest.check_report(context, server.wait(30), client)

    table = context.try_again(ATTEMPTS, REFUSED, once)
    perftest.note_last(context, [program], table)


# In the short set only as server: siw's end listens again too late for most
# clients.
for _verb in ("send", "write", "read"):
    for _kind in ("bw", "lat"):
        for _role, _sides in ROLES.items():
            case(f"ib_{_verb}_{_kind}", run_perftest,
                 _verb == "send" and _role == "server-here",
                 {_role: _sides}, program=f"ib_{_verb}_{_kind}")


def run_rcopy(context, lab, sides):
    client_side, server_side = sides
    context.need("rcopy")
    # The guest has a folder of the same name.
    source, copy = f"{lab.directory}/source", f"{lab.directory}/copy"
    run_shell(lab, THEIRS, f"mkdir -p {lab.directory}")
    run_shell(lab, client_side, f"seq 1 200000 > {source}")
    run_both(context, sides, ["rcopy"],
             ["rcopy", source, f"{ADDRESS['v4'][server_side]}:{copy}"],
             RCOPY_PORT)
    sent = run_shell(lab, client_side, f"md5sum < {source}")
    found = run_shell(lab, server_side, f"md5sum < {copy}")
    context.check(found.out == sent.out, f"{found}\n{sent}")


def run_shell(lab, side, script):
    """A script on a side, without an RNIC."""
    if side == THEIRS:
        return lab.run_guest(script)
    return lab.run(OURS, ["sh", "-c", script], rnic=False)


def run_qperf(context, lab, sides):
    """Its own connection is of the kernels' TCP, to the same address. (Its
    other tests create a queue pair that siw refuses.)"""
    context.need("qperf")
    lab.route_to_guest()
    _, client = run_both(context, sides, ["qperf"],
                         ["qperf", "-t", "1", "-cm", "1",
                          ADDRESS["v4"][sides[1]], "rc_lat"], QPERF_PORT)
    context.check("latency" in client.out, client)


# What ibv_devinfo must say of both devices.
ALIKE = ("transport", "phys_port_cnt", "max_ah", "max_mcast_grp", "max_pkeys",
         "state", "sm_lid", "port_lid", "link_layer", "pkey_tbl_len",
         "gid_tbl_len")


def run_devinfo(context, lab, sides):
    """Our device looks like siw's, where the verbs give no choice."""
    found = []
    for side in sides:
        said = run_at(lab, side, ["ibv_devinfo", "-v"])
        context.check_ok(said)
        lines = [line.split(":", 1) for line in said.out.splitlines()
                 if ":" in line]
        values = {key.strip(): value.strip() for key, value in lines}
        found.append({key: values.get(key) for key in ALIKE})
    context.check(found[0] == found[1], found)


case("devinfo", run_devinfo, True, {"here-and-in-vm": (OURS, THEIRS)})
case("rcopy", run_rcopy, core=False)
case("qperf", run_qperf, False,
     {role: sides for role, sides in ROLES.items() if sides[1] == THEIRS})
