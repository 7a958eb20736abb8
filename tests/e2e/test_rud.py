"""RUD between two programs, by `urnic perf rud`; and within one."""

import pathlib
import random
import re
import socket
import sys

import suite
import beds
from impaired_bed import ImpairedBed

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "rud"))
import reference  # pylint: disable=wrong-import-position

TESTS = ["write", "read", "send", "write-lat", "read-lat", "send-lat"]
SECONDS = "0.2"


def rows(result, bytes_):
    """The figures of the line for this size, of a client."""
    return [line.split()[1:] for line in result.out.splitlines()
            if re.match(rf" {bytes_} +\d", line)]


def sent_again(result):
    found = re.search(r"packets sent again (\d+)", result.out)
    return int(found[1]) if found else None


def run_pair(context, place, options, env=None):
    port = place.next_port()
    both = {"env": env} if env else {}
    server, client = place.run_pair(
        [context.tools.perf, "rud", "--tcp-port", str(port),
         "--seconds", SECONDS, *options],
        port=port, common=False, server_options=both, client_options=both)
    context.check_ok(server)
    context.check_ok(client)
    return client


def add_pair(bed):
    @suite.test(f"{bed}/rud")
    def test(context):
        with beds.make(context.tools, bed) as place:
            for name in TESTS:
                client = run_pair(context, place, ["--test", name])
                (row,) = rows(client, 8)
                context.check(int(row[0]) > 0, client)
            client = run_pair(context, place, ["--bytes", "1000000"])
            (row,) = rows(client, 1000000)
            context.check(int(row[0]) > 0, client)
    return test


for name_of_bed in ("veth1500", "memif"):
    add_pair(name_of_bed)


@suite.test("memif/rud-with-losses")
def with_losses(context):
    env = {"URNIC_FAULT": "loss=1%,reorder=5%,duplicate=1%,corrupt=1%"}
    with beds.make(context.tools, "memif") as place:
        for name in ("write", "read", "send"):
            client = run_pair(context, place,
                              ["--test", name, "--bytes", "65536"], env)
            (row,) = rows(client, 65536)
            context.check(int(row[0]) > 0, client)
            context.check(sent_again(client) > 0 or name == "read", client)


@suite.test("veth1500/rud-fragments")
def fragments(context):
    """The kernel reassembles our fragments, and we reassemble the kernel's."""
    with beds.make(context.tools, "veth1500") as place:
        kernel, ours = "10.1.0.102", "10.1.0.1"
        place.add_host_address(1, f"{kernel}/24")
        peer = place.open_socket(1, socket.AF_INET, socket.SOCK_DGRAM)
        peer.bind((kernel, reference.UDP_PORT))
        peer.settimeout(20)
        program = place.spawn(0, [context.tools.rud_packets, kernel, "40001"])
        packet = peer.recv(65536)
        covered = packet[:-reference.CRC_BYTES]
        there = reference.Path("there", ours, kernel)
        context.check(packet == there.with_crc(covered), "the CRC")
        context.check(covered[24 + 16:] ==
                      bytes(i % 251 for i in range(40001)), "the payload")
        window, key = map(int, program.output()[0].split()[:2])
        payload = bytes(i % 241 for i in range(50003))
        values = dict.fromkeys(
            (name for name, _ in reference.layout_of(reference.FIFO_TYPE)), 0)
        values |= {"version": 1, "type": reference.FIFO_TYPE, "job": 1,
                   "key": key, "window": window, "source_window": 5,
                   "payload_bytes": len(payload)}
        answer = reference.encode(
            reference.layout_of(reference.FIFO_TYPE), values) + payload
        peer.sendto(there.back().with_crc(answer), (ours, reference.UDP_PORT))
        result = program.wait(20)
        context.check_ok(result)
        context.check("50003 bytes" in result.out, result)


@suite.test("impaired/rud-distribute")
def distribute(context):
    # One member beside the sender, two behind a cable that loses packets.
    with ImpairedBed(context.tools, "loss=2%,reorder=5%", "loss=1%",
                     mtu=1500, pairs=2) as place:
        folder = pathlib.Path(place.directory)
        wanted = random.Random(14).randbytes(3_000_001)
        (folder / "file").write_bytes(wanted)
        tool = context.tools.distribute
        sender = place.spawn(0, [tool, "send", str(folder / "file"), "3"])
        members = [place.spawn(side, [tool, "receive",
                                      place.sides[0].host_address,
                                      str(folder / f"file-{side}")])
                   for side in (1, 2, 3)]
        for process in (sender, *members):
            context.check_ok(process.wait(60))
        for side in (1, 2, 3):
            context.check((folder / f"file-{side}").read_bytes() == wanted,
                          f"the file of side {side}")
        group, again = (int(word) for word in re.search(
            r"to the group (\d+), again to single members (\d+)",
            sender.result().out).groups())
        # Not as many as if each member had got its own.
        context.check(0 < again < group, sender.result())


def check_allreduce(context, place, ports, options, env=None):
    """Each rank checks its results; the times are not for tests."""
    result = place.run(0, [context.tools.urnic, "run", *ports, "--",
                           context.tools.allreduce, "--repeat", "3", *options],
                       rnic=False, env=env)
    context.check_ok(result)
    # Three times and two more, each way.
    context.check(re.search(r"^all results are right: \d ranks, 10 allreduces$",
                            result.out, re.MULTILINE), result)
    return int(re.search(r"packets sent again: (\d+)", result.out)[1])


@suite.test("loop/rud-allreduce")
def allreduce(context):
    with beds.make(context.tools, "loop") as place:
        loop = place.run_options(0)
        for name_of_op, name_of_type, ranks, count in (
                ("sum", "float", 4, 30000), ("sum", "int64", 3, 10007),
                ("min", "double", 2, 5000), ("max", "int32", 7, 10007),
                ("sum", "double", 4, 1)):
            check_allreduce(context, place, loop, [
                "--op", name_of_op, "--type", name_of_type,
                "--ranks", str(ranks), "--count", str(count)])
        for options, words in ((["--op", "avg"], "--op avg: must be sum"),
                               (["--type", "char"], "--type char: must be"),
                               (["--ranks", "1"], "--ranks 1: must be"),
                               (["--count", "x"], "--count x: must be")):
            result = place.run(0, [context.tools.allreduce, *options])
            context.check(result.status == 2 and words in result.err, result)
        # As one message, a segment is longer than a peer takes.
        result = place.run(0, [context.tools.allreduce, "--ranks", "2",
                               "--count", "10000000", "--repeat", "1"])
        context.check(result.status == 1 and "fewer --count" in result.err,
                      result)


@suite.test("loop/rud-allreduce-with-losses")
def allreduce_with_losses(context):
    # Two RNICs of one program: a loop has no wire that could lose something.
    env = {"URNIC_FAULT": "loss=1%,reorder=5%,duplicate=1%,corrupt=1%"}
    wire = ["--port", "ring:allreduce:a", "--addr", "10.9.0.1/24",
            "--port", "ring:allreduce:b", "--addr", "10.9.0.2/24"]
    with beds.make(context.tools, "loop") as place:
        for name_of_op, name_of_type in (("sum", "int64"), ("sum", "float"),
                                         ("max", "double")):
            again = check_allreduce(context, place, wire, [
                "--op", name_of_op, "--type", name_of_type,
                "--ranks", "5", "--count", "60000"], env)
            context.check(again > 0, "nothing was sent again")


@suite.test("loop/rud-in-one-program")
def in_one_program(context):
    with beds.make(context.tools, "loop") as place:
        result = place.run(0, [context.tools.perf, "rud", "--loopback",
                               "--seconds", SECONDS, "--test", "send",
                               "--bytes", "100000"])
    context.check_ok(result)
    context.check(len(rows(result, 100000)) == 1, result)


@suite.test("loop/rud-with-the-smallest-packets")
def with_small_packets(context):
    with beds.make(context.tools, "loop") as place:
        place.mtu_option = 352
        for name in ("write", "send"):
            result = place.run(0, [context.tools.perf, "rud", "--loopback",
                                   "--seconds", SECONDS, "--test", name,
                                   "--bytes", "100"])
            context.check_ok(result)
            context.check(len(rows(result, 100)) == 1, result)


# Each end has a NIC in each of two subnets.
TWO_PORTS = ["--port", "loop", "--addr", "10.9.0.1/24",
             "--port", "loop", "--addr", "10.9.1.1/24"]


@suite.test("loop/rud-over-two-nics")
def over_two_nics(context):
    with beds.make(context.tools, "loop") as place:
        result = place.run(0, [context.tools.urnic, "perf", *TWO_PORTS, "rud",
                               "--loopback", "--seconds", SECONDS,
                               "--bytes", "1000000"], rnic=False)
    context.check_ok(result)
    paths = re.findall(r"^ (\d-\d)\.\d +(\d+) ", result.out, re.MULTILINE)
    used = {pair for pair, units in paths if int(units) > 0}
    context.check(used == {"0-0", "1-1"}, result)


@suite.test("loop/rud-mistakes")
def mistakes(context):
    with beds.make(context.tools, "loop") as place:
        result = place.run(0, [context.tools.perf, "rud", "--loopback",
                               "--test", "dance"])
        context.check(result.status == 1 and "write-lat" in result.err, result)
        result = place.run(0, [context.tools.perf, "rud", "--loopback"],
                           rnic=False)
        context.check(result.status == 1 and "no RDMA device" in result.err,
                      result)
        result = place.run(0, [context.tools.urnic, "perf", "rud"], rnic=False)
        context.check(result.status == 2 and "no port" in result.err, result)
