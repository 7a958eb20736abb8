"""tshark judges the TCP of two iWARP devices on a wire that loses nothing."""

import functools
import os
import socket

import bed
import suite
from test_wire import tshark

# What tshark finds when a segment was sent again, or not in its turn. A tail
# loss probe repeats the last segment, which has PSH, when its acknowledgement
# is late: on a busy machine that happens without any loss.
RESENT = " || ".join(f"tcp.analysis.{kind}" for kind in (
    "retransmission", "fast_retransmission", "spurious_retransmission",
    "out_of_order", "lost_segment"))
ATTEMPTS = 3
IP_TCP_HEADERS = 40
# Few bytes are under way at a time: no queue of the wire overflows.
PROGRAMS = (["ib_write_bw", "-s", "16384", "-t", "4", "-n", "500"],
            ["ib_send_lat", "-s", "10001", "-n", "100"])


def judge(context, capture, path, side, mtu):
    """Judges what the device of that side has sent; returns the number of
    segments with data. Each way by itself: frames that two interfaces receive
    are not recorded in their order."""
    source = socket.inet_aton(side.addresses[0].split("/")[0])
    capture.write_pcap(path, lambda frame: frame[26:30] == source)
    sizes = tshark(path, "-Y", "tcp.flags.syn == 1", "-T", "fields", "-e",
                   "tcp.options.mss_val").split()
    context.check(set(sizes) == {str(mtu - IP_TCP_HEADERS)}, sizes)
    resent = tshark(path, "-Y", f"({RESENT}) && tcp.flags.push == 0")
    context.check(not resent, f"sent again: {resent}")
    return tshark(path, "-Y", "tcp.len > 0").count("\n")


def resends_nothing(context, mtu):
    """Also, the segments fit the MTU of the interfaces, which is less than the
    devices could send; were it not so, the first of them would be lost."""
    context.need("tshark", *(argv[0] for argv in PROGRAMS))
    with bed.VethBed(context.tools, mtu) as place:
        place.transport = "iwarp"
        address = place.sides[0].addresses[0].split("/")[0]
        path = os.path.join(place.directory, "wire.pcap")

        def once(argv):
            words = [*argv, "-R", "-F", "-p", str(place.next_port())]
            with place.capture() as capture:
                server = place.spawn(0, words)
                client = place.run(1, [*words, address])
                while client.status != 0 and server.running():
                    # The server has not called rdma_listen yet.
                    client = place.run(1, [*words, address])
                context.check_ok(client, server.wait(10))
            return sum(judge(context, capture, path, side, mtu)
                       for side in place.sides)

        # A machine that stops a program for longer than its peer waits for an
        # acknowledgement makes it send again: then it is not without fault.
        count = sum(context.try_again(ATTEMPTS, "sent again",
                                      functools.partial(once, argv))
                    for argv in PROGRAMS)
        context.note(f"{count} segments with data")


for _mtu in (1500, 4000):
    suite.add(f"veth{_mtu}/iwarp-resends-nothing-without-loss",
              functools.partial(resends_nothing, mtu=_mtu), _mtu == 1500)
