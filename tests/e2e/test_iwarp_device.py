"""What programs see of an iWARP device, alone and beside the RoCE device of its
port, and what `urnic state` shows of it."""

import functools
import re
import time

import bed
import beds
import suite
import test_rdmacm

MARKED = "10.1.0.2/24,iwarp"


class TransportBed(bed.LoopBed):
    """A loopback port with the options `extra` of `urnic run`."""

    def __init__(self, tools, *extra):
        super().__init__(tools)
        self._extra = extra

    def run_options(self, side):
        return [*super().run_options(side), *self._extra]


def devinfo(context, place, device):
    context.need("ibv_devinfo")
    result = place.run(0, ["ibv_devinfo", "-v", "-d", device])
    context.check_ok(result)
    pairs = re.findall(r"^\s*([\w\[\] ]+?):\s+(.*?)\s*$", result.out,
                       re.MULTILINE)
    return result.out, dict(pairs)


@suite.test("iwarp/devices")
def devices(context):
    """Which devices there are, and that RoCE alone is the default."""
    context.need("ibv_devices")
    for extra, expected in (((), ["urnic0"]),
                            (("--transport", "roce"), ["urnic0"]),
                            (("--transport", "iwarp"), ["iwurnic0"]),
                            (("--transport", "both"), ["urnic0", "iwurnic0"]),
                            (("--addr", MARKED), ["urnic0", "iwurnic0"])):
        with TransportBed(context.tools, *extra) as place:
            result = place.run(0, ["ibv_devices"])
            context.check_ok(result)
            found = re.findall(r"^\s+(\w+)\s+[0-9a-f]{16}$", result.out,
                               re.MULTILINE)
            context.check(sorted(found) == sorted(expected), result)
            result = place.run(0, ["ls", "/dev/infiniband"])
            nodes = [f"uverbs{n}" for n in range(len(expected))]
            context.check(result.out.split() == ["rdma_cm", *nodes], result)


@suite.test("iwarp/devinfo")
def devinfo_of_both(context):
    """As ibv_devinfo shows siw: an RNIC with one GID, which is its MAC. It
    prints only GIDs whose second half is not zero."""
    with TransportBed(context.tools, "--transport", "both") as place:
        text, value = devinfo(context, place, "iwurnic0")
        for name, expected in {"transport": "iWARP (1)",
                               "state": "PORT_ACTIVE (4)",
                               "link_layer": "Ethernet",
                               "phys_port_cnt": "1",
                               "max_pkeys": "0",
                               "max_ah": "0",
                               "max_mcast_grp": "0",
                               "atomic_cap": "ATOMIC_HCA (1)",
                               "port_lid": "0"}.items():
            context.check(value[name] == expected, f"{name} in\n{text}")
        context.check(value["gid_tbl_len"] == "1" and "GID" not in text, text)
        result = place.run(0, ["cat", "/sys/class/infiniband/iwurnic0/ports/1/"
                               "gids/0"])
        context.check_ok(result)
        guid = value["node_guid"].replace(":", "")
        context.check(guid.endswith("0000") and guid + "0" * 16 ==
                      result.out.strip().replace(":", ""), f"{result}\n{text}")
        text, value = devinfo(context, place, "urnic0")
        context.check(value["transport"] == "InfiniBand (0)", text)
        context.check(value["GID[  3]"].startswith("::ffff:10.1.0.1"), text)
        result = place.run(0, ["ibv_devinfo"])
        context.check_ok(result)
        context.check(result.out.count("PORT_ACTIVE") == 2, result)


PYVERBS = """
from pyverbs.device import Context
from pyverbs.pd import PD
from pyverbs.cq import CQ
from pyverbs.qp import QP, QPInitAttr, QPCap
from pyverbs.pyverbs_error import PyverbsRDMAError
from pyverbs import enums
context = Context(name="iwurnic0")
port = context.query_port(1)
print("gids", port.gid_tbl_len, "pkeys", port.pkey_tbl_len)
print("gid", context.query_gid(1, 0))
domain, queue = PD(context), CQ(context, 10)
try:
    QP(domain, QPInitAttr(qp_type=enums.IBV_QPT_UD, scq=queue, rcq=queue,
                          cap=QPCap(1, 1, 1, 1, 0)))
except PyverbsRDMAError as error:
    print("datagrams", error.error_code)
"""


@suite.test("iwarp/pyverbs-queries")
def pyverbs_queries(context):
    with TransportBed(context.tools, "--transport", "both") as place:
        python = "/usr/bin/python3"  # the distribution's, which has pyverbs
        if place.run(0, [python, "-c", "import pyverbs.cq"],
                     rnic=False).status != 0:
            raise suite.Skip("python3-pyverbs is not installed")
        result = place.run(0, [python, "-c", PYVERBS])
        context.check_ok(result)
        context.check("gids 1 pkeys 0" in result.out, result)
        context.check(re.search(r"gid [0-9a-f:]+:0000:0000:0000:0000:0000",
                                result.out), result)
        context.check("datagrams 95" in result.out, result)  # EOPNOTSUPP


@suite.test("iwarp/doctor-prints-the-rule-of-rdma_cm")
def doctor(context):
    for extra, expected in (
            ((), None),
            (("--addr", MARKED), "takes iwurnic0 for addresses marked iwarp "
             "(10.1.0.2) and urnic0 for all others; listeners at 0.0.0.0 or "
             ":: serve both"),
            (("--transport", "both"), "-> to connect by iwurnic0, mark the "
             "local address: --addr IP/LEN,iwarp"),
            (("--transport", "iwarp"), "takes iwurnic0 for all addresses: the "
             "port has no RoCE device")):
        with TransportBed(context.tools, *extra) as place:
            result = place.run(0, [context.tools.urnic, "doctor",
                                   *place.run_options(0)], rnic=False)
            if expected is None:
                context.check("rdma_cm " not in result.out, result)
            else:
                context.check(expected in result.out, result)


def clients_of_both_kinds(context, bed_name, family):
    """A server whose port has both devices, and no mark, listens at all
    addresses. A RoCE client and then an iWARP client call one of them."""
    context.need("rping")
    everywhere = {"v4": "0.0.0.0", "v6": "::"}[family]
    with beds.make(context.tools, bed_name) as place:
        place.transport = "both"
        server = test_rdmacm.spawn_server(
            place, ["rping", "-s", "-P", "-a", everywhere, "-V"])
        for transport, device in (("roce", "urnic0"), ("iwarp", "iwurnic0")):
            place.transport = transport
            test_rdmacm.run_client(
                context, place, server,
                ["env", f"URNIC_STATS={place.stats_path(1)}", "rping", "-c",
                 "-a", beds.SERVER_IP[family], "-C", "10", "-V"], 30)
            used = place.read_stats(1)[-1]["device"]
            context.check(used == device, f"{used}, not {device}")
        context.check(server.running(), f"{server.result()}")


for _bed, _family in (("vhost", "v4"), ("veth1500", "v6")):
    suite.add(f"{_bed}/one-listener-serves-roce-and-iwarp/{_family}",
              functools.partial(clients_of_both_kinds, bed_name=_bed,
                                family=_family))


@suite.test("iwarp/a-port-with-two-devices-is-listed-once")
def listed_once(context):
    context.need("ibv_rc_pingpong")
    with TransportBed(context.tools, "--transport", "both") as place:
        port = place.next_port()
        env = {"XDG_RUNTIME_DIR": place.directory}
        holder = place.spawn(0, ["ibv_rc_pingpong", "-d", "urnic0", "-g", "3",
                                 "-p", str(port)], env=env)
        bed.await_true(lambda: holder.listens(port), 10, "listening")

        def urnic(*words):
            result = place.run(0, [context.tools.urnic, *words,
                                   "--process", str(holder.pid)], rnic=False,
                               env=env)
            context.check_ok(result)
            return result

        result = urnic("addr")
        context.check(result.out.count("10.1.0.1/24") == 1 and
                      result.out.startswith("urnic0, process"), result)
        result = urnic("addr", "add", "iwurnic0", "10.1.0.9/24,iwarp")
        context.check("10.1.0.9/24,iwarp" in result.out, result)
        context.check("10.1.0.9/24,iwarp" in urnic("addr").out, result)
        for words in (("state",), ("state", "iwurnic0")):
            result = urnic(*words)
            context.check(len(re.findall("^  ", result.out, re.MULTILINE)) == 1,
                          result)


# A queue pair of ib_write_bw between two of its completions.
MID_TRANSFER = re.compile(
    r"^  QP (0x[0-9a-f]{6}) iWARP RTS +TCP ESTABLISHED port \d+ peer "
    r"10\.1\.0\.1:\d+  MPA 2, CRC  out: [1-9]\d* requests and [1-9]\d* bytes "
    r"unacknowledged, cwnd \d+, MSS \d+, RTT [\d.]+ ms  in: MSN \d+, ",
    re.MULTILINE)
CONNECTS_SECONDS = 15


def state_in_mid_transfer(context, bed_name):
    """A client that writes all the time, and its server."""
    argv = ["ib_write_bw", "-R", "-F", "-D", "30"]
    context.need(argv[0])
    with beds.make(context.tools, bed_name) as place:
        env = {"XDG_RUNTIME_DIR": place.directory}
        server = place.spawn(0, argv, env=env)
        bed.await_true(lambda: test_rdmacm.has_open_device(server), 20,
                       "the server's device")

        def state(side, process, *words):
            return place.run(side, [context.tools.urnic, "state", "--process",
                                    str(process.pid), *words], rnic=False,
                             env=env)

        def shown():
            """The state of a client that transfers; None: it was rejected, the
            server does not listen yet."""
            client = place.spawn(1, [*argv, beds.SERVER_IP["v4"]], env=env)
            while client.running():
                result = state(1, client)
                match = MID_TRANSFER.search(result.out)
                if match:
                    return client, result, match
                time.sleep(0.05)
            return None

        end = time.monotonic() + CONNECTS_SECONDS
        found = shown()
        while not found and server.running() and time.monotonic() < end:
            found = shown()
        context.check(found, server.result())
        client, result, match = found
        context.check(result.status == 0, result)
        result = state(1, client, "--qp", match.group(1))
        context.check_ok(result)
        for line in ("endpoint.phase running", "tcp.state ESTABLISHED",
                     "qp.state RTS", "requester.failed no"):
            context.check(line in result.out.split("\n"), result)
        result = state(0, server)
        context.check(re.search(r"iWARP RTS +TCP ESTABLISHED port \d+ peer "
                                r"10\.1\.0\.2:", result.out), result)


for _bed in ("iwarp-vhost", "iwarp-veth9000"):
    suite.add(f"{_bed}/state-in-mid-transfer",
              functools.partial(state_in_mid_transfer, bed_name=_bed), True)
