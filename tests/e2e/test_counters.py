"""The counters in sysfs, as the distribution's programs read them."""

import re

import bed
import suite
from impaired_bed import ImpairedBed

FOLDER = "/sys/class/infiniband/urnic0/ports/1/counters"
NAMES = ["port_rcv_data", "port_rcv_errors", "port_rcv_packets",
         "port_xmit_data", "port_xmit_discards", "port_xmit_packets"]
# Of port_rcv_data and port_xmit_data.
UNIT = 4


@suite.test("veth9000/counters/perftest")
def perftest(context):
    """It opens the counters once, and reads them before and after its own
    traffic, of which it knows the size."""
    context.need("ib_write_bw")
    size, number = 65536, 1000
    listed = ",".join(f"counters/{name}" for name in NAMES)
    with bed.VethBed(context.tools) as place:
        server, client = place.run_pair(
            ["ib_write_bw", "-x", str(place.gid_v4), "-F", "-u", "17", "-s",
             str(size), "-n", str(number), f"--report-counters={listed}"])
        context.check_ok(server, client)
        for result, data, packets in (
                (client, "port_xmit_data", "port_xmit_packets"),
                (server, "port_rcv_data", "port_rcv_packets")):
            value = {name: int(text) for name, text in re.findall(
                r"counters/(\w+)=(\d+)", result.out)}
            context.check(sorted(value) == NAMES, result)
            payload = size * number
            # The rest is headers, and what was sent again.
            context.check(payload <= UNIT * value[data] < 2 * payload and
                          payload // 4096 <= value[packets], result)
        context.note(f"{UNIT * value[data] / payload:.3f} bytes per byte")


def read_all(context, place):
    """All counters of the first side, by a program that opens no device."""
    result = place.run(0, ["sh", "-c", f"cd {FOLDER} && grep . *"])
    context.check_ok(result)
    value = {name: int(text) for name, text in re.findall(
        r"^(\w+):(\d+)$", result.out, re.MULTILINE)}
    context.check(sorted(value) == NAMES, result)
    return value


@suite.test("veth9000/counters/of-another-process")
def other_process(context):
    """Programs that open no device ask the one that has the port. Without it
    there is no RNIC that could have counted."""
    context.need("rping")
    with bed.VethBed(context.tools) as place:
        path = f"{FOLDER}/port_xmit_data"
        nothing = place.run(0, ["cat", path])
        context.check(nothing.status == 1 and "No such device" in nothing.err,
                      nothing)
        size, number = 10000, 100
        options = ["-a", "10.1.0.1", "-p", str(place.next_port()), "-S",
                   str(size)]
        server = place.spawn(0, ["rping", "-s", "-P", *options])
        bed.await_true(lambda: place.run(0, ["cat", path]).status == 0 or
                       not server.running(), 20, "rping listening")
        before = read_all(context, place)
        context.check_ok(place.run(
            1, ["rping", "-c", "-V", "-C", str(number), *options]))
        after = read_all(context, place)
        # The server reads what the client offers, and writes it back.
        for data in ("port_rcv_data", "port_xmit_data"):
            moved = UNIT * (after[data] - before[data])
            context.check(size * number <= moved < 2 * size * number,
                          f"{data}: {moved} bytes, from {before} to {after}")
        server.kill()
        nothing = place.run(0, ["cat", path])
        context.check(nothing.status == 1 and "No such device" in nothing.err,
                      nothing)


HW_FOLDER = "/sys/class/infiniband/urnic0/ports/1/hw_counters"
# What the two ends of a one-way transfer count on a wire that loses and marks.
AT_RESPONDER = ("out_of_sequence", "np_ecn_marked_roce_packets", "np_cnp_sent")
AT_REQUESTER = ("packet_seq_err", "rp_cnp_handled")


def read_hw(place, side):
    """All hw_counters of a side, by a program that opens no device."""
    result = place.run(side, ["sh", "-c", f"cd {HW_FOLDER} && grep . *"])
    return {name: int(text) for name, text in re.findall(
        r"^(\w+):(\d+)$", result.out, re.MULTILINE)}


@suite.test("impaired/counters-of-roce-while-queue-pairs-live")
def hw_counters(context):
    """A shell reads what each side has counted while perftest runs. The line
    of URNIC_STATS at the end has the same names."""
    context.need("ib_write_bw")
    wire = "loss=1%,rate=200Mbit,buffer=1MB,red=8KB:32KB"
    with ImpairedBed(context.tools, wire, mtu=1500) as place:
        server, client = place.spawn_pair(
            ["ib_write_bw", "-x", str(place.gid_v4), "-F", "-s", "65536", "-D",
             "8", "-u", "14", "--tclass", "2"], server_side=1,
            server_options={"env": {"URNIC_STATS": place.stats_path(1)}},
            client_options={"env": {"URNIC_STATS": place.stats_path(0)}})
        live = [{}, {}]

        def all_counted():
            live[:] = [read_hw(place, side) for side in (0, 1)]
            return not client.running() or all(
                live[side].get(name, 0) > 0
                for side, names in ((0, AT_REQUESTER), (1, AT_RESPONDER))
                for name in names)

        bed.await_true(all_counted, 20, "counters that grow")
        context.check(client.running(), f"still 0 at the end: {live}")
        context.check_ok(client.wait(30), server.wait(30))
        for side in (0, 1):
            line, = place.read_stats(side)
            final = line["roce"]
            context.check(set(final) == set(live[side]), (final, live[side]))
            context.check(all(live[side][name] <= final[name]
                              for name in final), (live[side], final))
        context.note(f"{live[1]['out_of_sequence']} out of sequence, "
                     f"{live[1]['np_cnp_sent']} CNPs")
