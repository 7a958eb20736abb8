"""tshark judges the TCP of two iWARP devices on a wire that loses nothing."""

import functools
import os
import socket

import bed
import suite
import test_rdmacm
from test_iwarp_options import SERVER, OptionsBed
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
                server = test_rdmacm.spawn_server(place, words)
                test_rdmacm.run_client(context, place, server,
                                       [*words, address], 30)
                context.check_ok(server.wait(10))
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
              functools.partial(resends_nothing, mtu=_mtu), _mtu == 1500,
              alone=True)


def behind_holes(context, words, at_once):
    """Segments that overtake others. perftest registers its memory for relaxed
    ordering: it does not mind in which order bytes are written. Then they are
    placed at once; otherwise their frames are held."""
    late = ("--fault", "direction=in,reorder=3%:1ms")
    with OptionsBed(context.tools, (late, ())) as place:
        words = ["ib_write_bw", "-R", "-F", "-s", "65536", "-n", "500", *words,
                 "-p", str(place.next_port())]
        context.need(words[0])
        stats = f"URNIC_STATS={place.stats_path(0)}"
        server = test_rdmacm.spawn_server(place, ["env", stats, *words])
        test_rdmacm.run_client(context, place, server, [*words, SERVER], 30)
        context.check_ok(server.wait(10))
        tcp = place.read_stats(0)[-1]["iwarp"]
        context.note(f"{tcp['early_segs']} of {tcp['out_of_order_segs']} "
                     "placed at once")
        context.check(tcp["out_of_order_segs"] > 0 and
                      (tcp["early_segs"] > 0) == at_once, tcp)


for _name, _words, _at_once in (
        ("relaxed-ordering", [], True),
        ("strict-ordering", ["--disable_pcie_relaxed"], False)):
    suite.add(f"veth1500/iwarp-places-behind-holes/{_name}",
              functools.partial(behind_holes, words=_words, at_once=_at_once))
