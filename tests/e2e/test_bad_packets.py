"""Wrong packets from the wire, while a connection runs: each is counted under
its reason, nothing crashes, and the connection goes on undisturbed."""

import random
import signal
import socket
import struct
import time

import bed
import rocev2
import suite
from test_faults import EchoPair

REPEAT = 10
DEST = "10.1.0.1"
SOURCE = "10.1.0.2"


class Victim:
    """The queue pair of the side 0 server, as its peer's packets show it."""

    def __init__(self, packets):
        requests = [p for p in packets if p.dst == DEST and
                    p.opcode == rocev2.SEND_ONLY]
        answers = [p for p in packets if p.src == DEST and
                   p.opcode == rocev2.SEND_ONLY]
        if not requests or not answers:
            raise suite.Failure("the connection does not run: "
                                f"{len(packets)} packets seen")
        last = requests[-1]
        self.qpn = last.qpn
        self.psn = last.psn
        self.own_psn = answers[-1].psn
        self.mac, self.peer_mac = last.frame[:6], last.frame[6:12]
        self.source_port, = struct.unpack(">H", last.udp[:2])


def find_victim(place):
    """Once its connection is seen to run."""
    with place.capture() as capture:
        def seen():
            try:
                return Victim(capture.packets()) is not None
            except suite.Failure:
                return False

        bed.await_true(seen, 30, "requests and answers on the wire")
    return Victim(capture.packets())


def frames_by_reason(victim):
    """[(frame, verdict that must count it)], from a peer that goes wrong."""
    right = rocev2.Maker(victim.peer_mac, victim.mac, SOURCE, DEST,
                         victim.source_port)
    stranger = rocev2.Maker(victim.peer_mac, victim.mac, "10.1.0.77", DEST)
    misled = rocev2.Maker(victim.peer_mac, victim.mac, SOURCE, "10.1.0.99")
    # Far behind the expected PSN: harmless even if a check is missing.
    psn = (victim.psn - 1000) & 0xFFFFFF
    stale = (victim.own_psn - 1000) & 0xFFFFFF

    def send(maker=right, qpn=victim.qpn, body=b"four", **wrong):
        return maker.frame(rocev2.SEND_ONLY, qpn, psn, body, **wrong)

    whole = send()
    ack = struct.pack(">I", 0x1F << 24 | 5)
    return [
        (send(crc_error=1), "BadIcrc"),
        (send(qpn=victim.qpn ^ 0x1000), "UnknownQp"),
        (send(pkey=0x1234), "BadPkey"),
        (send(body=b"odd"), "BadPadding"),
        (send(body=b"odd", pad=2), "BadPadding"),
        (send(version=3), "BadBthVersion"),
        (send(ip_options=b"\1\1\1\1"), "IpOptions"),
        # The first fragment of a packet, not a multiple of eight bytes, and a
        # later one.
        (send(fragment=0x2000), "BadFragment"),
        (send(fragment=0x0009), "IpFragment"),
        (send(udp_length_error=8), "BadUdpLength"),
        (send(udp_length_error=-4), "BadUdpLength"),
        (send(maker=stranger), "WrongPeer"),
        (send(maker=misled, qpn=victim.qpn ^ 0x1000), "NotForUs"),
        (right.frame(0x1F, victim.qpn, psn), "UnknownOpcode"),
        # UC send, UD send.
        (right.frame(0x24, victim.qpn, psn, b"four"), "WrongTransport"),
        (right.frame(0x64, victim.qpn, psn, bytes(8) + b"four"),
         "WrongTransport"),
        # An acknowledgement with data.
        (right.frame(rocev2.ACKNOWLEDGE, victim.qpn, stale, ack + b"more"),
         "BadPayloadLength"),
        (right.frame(rocev2.CNP, victim.qpn, 0, bytes(16)), "Cnp"),
        # A congestion mark on a packet that otherwise has no effect.
        (right.frame(rocev2.ACKNOWLEDGE, victim.qpn, stale, ack, ecn=3),
         "StaleAck"),
        # The IP header announces more bytes than the frame has.
        (whole[:-8], "Truncated"),
        # No room for a BTH.
        (short_roce(right), "Truncated"),
        (whole[:24] + b"\xde\xad" + whole[26:], "BadIpChecksum"),
        (whole[:12] + b"\x88\xcc" + whole[14:], "UnknownEtherType"),
        # Padding of the frame is not part of the packet: this is a valid old
        # duplicate.
        (send(trailer=bytes(20)), "Duplicate"),
    ]


def short_roce(maker):
    """UDP to port 4791 with 8 bytes in it."""
    payload = bytes(8)
    udp = struct.pack(">HHHH", 0xC000, rocev2.UDP_PORT, 8 + len(payload), 0)
    head = struct.pack(">BBHHHBBH", 0x45, 0, 28 + len(payload), 0, 0x4000, 64,
                       17, 0) + maker.src.packed + maker.dst.packed
    check = struct.pack(">H", rocev2.ip_checksum(head))
    return (maker.dst_mac + maker.src_mac + b"\x08\x00" + head[:10] + check +
            head[12:] + udp + payload)


def garbage(victim, generator):
    """Frames of noise behind an Ethernet header, some behind an IP one."""
    noise = generator.randbytes(generator.randrange(0, 300))
    head = victim.mac + victim.peer_mac
    kind = generator.choice([b"\x08\x00", b"\x86\xdd", b"\x08\x06",
                             generator.randbytes(2)])
    return head + kind + noise


def stop_and_read_stats(context, pair):
    """Ends both programs in good order; the server's counters."""
    pair.client.signal(signal.SIGTERM)
    context.check_ok(pair.client.wait(10))
    pair.server.signal(signal.SIGTERM)
    context.check_ok(pair.server.wait(10))
    stats, = pair.place.read_stats(0)
    return stats


@suite.test("veth9000/bad-packets-are-counted-by-reason")
def bad_packets(context):
    with bed.VethBed(context.tools) as place:
        pair = EchoPair(context, place, count=1 << 30, size=500,
                        server_env={"URNIC_STATS": place.stats_path(0)})
        victim = find_victim(place)
        expected = {}
        with place.open_socket(1, socket.AF_PACKET,
                               socket.SOCK_RAW) as injector:
            injector.bind((place.interface, 0))
            for frame, verdict in frames_by_reason(victim):
                expected[verdict] = expected.get(verdict, 0) + REPEAT
                for _ in range(REPEAT):
                    injector.send(frame.ljust(60, b"\0"))
                # The receive ring is shared with the connection.
                time.sleep(0.01)
            generator = random.Random(4791)
            for _ in range(500):
                injector.send(garbage(victim, generator).ljust(60, b"\0"))
        after = find_victim(place)
        context.check(after.qpn == victim.qpn and after.psn != victim.psn,
                      "the connection stopped or was set up again")
        pair.check_alive(context)
        stats = stop_and_read_stats(context, pair)
        verdicts = stats["verdicts"]
        short = {name: (verdicts.get(name, 0), count)
                 for name, count in expected.items()
                 if verdicts.get(name, 0) < count}
        context.check(not short, f"counted, expected: {short}\n{verdicts}")
        context.check(stats["engine"]["ce_received"] == REPEAT, stats)
        context.note(f"{sum(expected.values())} packets, "
                     f"{len(expected)} reasons")


@suite.test("veth9000/flood-of-bad-packets-does-not-stop-a-connection")
def flood(context):
    """20000 wrong packets as fast as a raw socket sends them."""
    with bed.VethBed(context.tools) as place:
        pair = EchoPair(context, place, count=200, size=500)
        pair.await_more(pair.client, "ok")
        victim = find_victim(place)
        maker = rocev2.Maker(victim.peer_mac, victim.mac, SOURCE, DEST)
        frame = maker.frame(rocev2.SEND_ONLY, victim.qpn, 0, bytes(64),
                            crc_error=1)
        with place.open_socket(1, socket.AF_PACKET,
                               socket.SOCK_RAW) as injector:
            injector.bind((place.interface, 0))
            for _ in range(20000):
                injector.send(frame)
        pair.await_more(pair.client, "ok")
        pair.check_alive(context)
