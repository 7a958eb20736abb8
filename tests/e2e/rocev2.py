"""RoCE packets on the wire, seen by somebody else.

An implementation that shares no line with the project's: the tests judge our
packets with it and make wrong ones on purpose. Slow and plain. Standard
library only; the CRC is zlib's.

Source: the InfiniBand Architecture Specification 1.4, for the BTH, the ICRC and
the GRH, with its annexes on RoCE. RoCEv2: UDP port 4791, the ICRC's pseudo
header of eight 0xff bytes in the place of the LRH, and which fields count as
ones. RoCE v1: EtherType 0x8915, a GRH, no UDP.
"""

import errno
import ipaddress
import select
import socket
import struct
import threading
import time
import zlib

UDP_PORT = 4791
ETHERTYPE_IPV4 = 0x0800
ETHERTYPE_IPV6 = 0x86DD
ETHERTYPE_VLAN = 0x8100
ETHERTYPE_ROCE_V1 = 0x8915
GRH_NEXT_HEADER = 0x1B

_SO_TIMESTAMPNS = 35
_SO_RCVBUFFORCE = 33
_SOL_PACKET = 263
_PACKET_STATISTICS = 6
_PACKET_AUXDATA = 8
_TP_STATUS_VLAN_VALID = 1 << 4
_PACKET_OUTGOING = 4
_ETH_P_ALL = 3

# BTH opcodes of the RC service that the tests use.
SEND_ONLY = 0x04
WRITE_FIRST = 0x06
WRITE_ONLY = 0x0A
READ_REQUEST = 0x0C
READ_RESPONSE_FIRST = 0x0D
READ_RESPONSE_ONLY = 0x10
ACKNOWLEDGE = 0x11
CNP = 0x81
# The bytes of extended headers after the BTH, by opcode.
EXTENDED_BYTES = {
    0x06: 16, 0x0A: 16, 0x0B: 20, 0x0C: 16, 0x0D: 4, 0x0F: 4, 0x10: 4,
    0x11: 4, 0x12: 12, 0x13: 28, 0x14: 28, 0x03: 4, 0x05: 4, 0x09: 4,
    0x16: 4, 0x17: 4,
}


def icrc(l3):
    """The ICRC over `l3`, the packet from its IP header or GRH on, without the
    ICRC itself; four bytes as they stand in the packet."""
    masked = bytearray(l3)
    is_v1 = masked[0] >> 4 == 6 and masked[6] == GRH_NEXT_HEADER
    if masked[0] >> 4 == 4:
        header_bytes = (masked[0] & 15) * 4
        masked[1] = 0xFF  # DSCP and ECN
        masked[8] = 0xFF  # time to live
        masked[10:12] = b"\xff\xff"  # header checksum
    else:
        header_bytes = 40
        masked[0] |= 0x0F  # traffic class, flow label
        masked[1:4] = b"\xff\xff\xff"
        masked[7] = 0xFF  # hop limit
    if not is_v1:
        masked[header_bytes + 6:header_bytes + 8] = b"\xff\xff"  # checksum
        header_bytes += 8
    masked[header_bytes + 4] = 0xFF  # FECN, BECN, reserved
    return struct.pack("<I", zlib.crc32(b"\xff" * 8 + bytes(masked)))


def ip_checksum(header):
    total = sum(struct.unpack(f">{len(header) // 2}H", header))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def gid(address):
    """The GID of an address, 16 bytes."""
    prefix = b"" if address.version == 6 else b"\0" * 10 + b"\xff\xff"
    return prefix + address.packed


class Packet:
    """A received RoCE packet; None from parse() for anything else. Of RoCE v1
    `is_ipv6` says that there is a GRH, which has that shape."""

    def __init__(self, frame, l3, header_bytes):
        self.frame = frame
        self.l3 = l3
        self.is_ipv6 = l3[0] >> 4 == 6
        self.is_v1 = self.is_ipv6 and l3[6] == GRH_NEXT_HEADER
        self.ecn = (l3[1] & 3) if not self.is_ipv6 else (l3[1] >> 4) & 3
        udp_bytes = 0 if self.is_v1 else 8
        self.udp = l3[header_bytes:header_bytes + udp_bytes]
        header_bytes += udp_bytes
        bth = l3[header_bytes:header_bytes + 12]
        self.opcode, flags, self.pkey, qpn, ack_psn = struct.unpack(
            ">BBHII", bth)
        self.pad = flags >> 4 & 3
        self.migrated = bool(flags & 0x40)
        self.version = flags & 15
        self.reserved = qpn >> 24 & 63  # beside FECN and BECN
        self.qpn = qpn & 0xFFFFFF
        self.psn = ack_psn & 0xFFFFFF
        self.ack_requested = bool(ack_psn >> 31)
        extended = EXTENDED_BYTES.get(self.opcode, 0)
        self.payload_bytes = (len(l3) - header_bytes - 12 - extended - 4 -
                              self.pad)
        addresses = l3[8:40] if self.is_ipv6 else l3[12:20]
        half = len(addresses) // 2
        self.src = str(ipaddress.ip_address(addresses[:half]))
        self.dst = str(ipaddress.ip_address(addresses[half:]))
        self.icrc_is_right = icrc(l3[:-4]) == l3[-4:]

    @classmethod
    def parse(cls, frame):
        ethertype, = struct.unpack(">H", frame[12:14])
        if ethertype == ETHERTYPE_VLAN:
            return cls.parse(frame[:12] + frame[16:])
        if ethertype == ETHERTYPE_IPV4:
            length, = struct.unpack(">H", frame[16:18])
            header_bytes, protocol = (frame[14] & 15) * 4, frame[23]
        elif ethertype in (ETHERTYPE_IPV6, ETHERTYPE_ROCE_V1):
            length = 40 + struct.unpack(">H", frame[18:20])[0]
            header_bytes, protocol = 40, frame[20]
        else:
            return None
        l3 = frame[14:14 + length]
        if ethertype == ETHERTYPE_ROCE_V1:
            good = protocol == GRH_NEXT_HEADER and len(l3) >= 40 + 16
            return cls(frame, l3, header_bytes) if good else None
        if protocol != 17 or len(l3) < header_bytes + 24:
            return None
        port, = struct.unpack(">H", l3[header_bytes + 2:header_bytes + 4])
        return cls(frame, l3, header_bytes) if port == UDP_PORT else None


class Maker:
    """Makes frames from one host to another: right ones by default, and wrong
    in exactly the fields that the caller names. `v1`: RoCE v1, whose GIDs are
    IPv4-mapped for IPv4 addresses."""

    def __init__(self, src_mac, dst_mac, src, dst, source_port=0xC123,
                 v1=False):
        self.src_mac = src_mac
        self.dst_mac = dst_mac
        self.src = ipaddress.ip_address(src)
        self.dst = ipaddress.ip_address(dst)
        self.source_port = source_port
        self.v1 = v1

    # pylint: disable-next=too-many-arguments,too-many-locals
    def frame(self, opcode, qpn, psn, body=b"", *, pad=0, pkey=0xFFFF,
              version=0, ack=False, ecn=0, ip_options=b"", fragment=0x4000,
              udp_length_error=0, crc_error=0, trailer=b""):
        bth = struct.pack(">BBHII", opcode, 0x40 | pad << 4 | version, pkey,
                          qpn, (0x80000000 if ack else 0) | psn)
        covered = bth + body
        udp_bytes = 8 + len(covered) + 4
        udp = struct.pack(">HHHH", self.source_port, UDP_PORT,
                          udp_bytes + udp_length_error, 0)
        if self.v1:
            udp = b""
            head = struct.pack(">IHBB", 6 << 28, len(covered) + 4,
                               GRH_NEXT_HEADER, 64)
            head += gid(self.src) + gid(self.dst)
            ethertype = ETHERTYPE_ROCE_V1
        elif self.src.version == 4:
            words = 5 + len(ip_options) // 4
            head = struct.pack(
                ">BBHHHBBH", 0x40 | words, ecn, 4 * words + udp_bytes, 0,
                fragment, 64, 17, 0)
            head += self.src.packed + self.dst.packed + ip_options
            check = struct.pack(">H", ip_checksum(head))
            head = head[:10] + check + head[12:]
            ethertype = ETHERTYPE_IPV4
        else:
            head = struct.pack(">IHBB", 6 << 28 | ecn << 20, udp_bytes, 17, 64)
            head += self.src.packed + self.dst.packed
            ethertype = ETHERTYPE_IPV6
        l3 = head + udp + covered
        crc, = struct.unpack("<I", icrc(l3))
        return (self.dst_mac + self.src_mac + struct.pack(">H", ethertype) +
                l3 + struct.pack("<I", crc ^ crc_error) + trailer)


def _with_tag(frame, extra):
    """The frame as it came: the kernel keeps its VLAN tag beside it."""
    for level, kind, data in extra:
        if (level, kind) == (_SOL_PACKET, _PACKET_AUXDATA):
            status, tci = struct.unpack("IIIHHHH", data[:20])[::5]
            if status & _TP_STATUS_VLAN_VALID:
                tag = struct.pack(">HH", ETHERTYPE_VLAN, tci)
                return frame[:12] + tag + frame[12:]
    return frame


def _arrival(extra):
    """When the kernel got the frame: the order in which Python reads several
    sockets is not that of the wire."""
    for level, kind, data in extra:
        if (level, kind) == (socket.SOL_SOCKET, _SO_TIMESTAMPNS):
            seconds, nanoseconds = struct.unpack("qq", data[:16])
            return seconds + nanoseconds / 1e9
    return time.time()


class Capture:
    """Records what arrives at interfaces while the block runs. Frames sent by
    a packet socket that bypasses queueing, as DPDK's do, are seen by other
    sockets only where they arrive: for both ways, record both ends.

    with Capture([(socket, "u0"), ..]) as capture: ..
    capture.frames  # afterwards: [(seconds, bytes)], in order of time

    `keep` says of each frame whether to record it. `buffer_bytes`: room for a
    burst that comes faster than Python reads.
    """

    def __init__(self, sockets_and_interfaces, keep=lambda frame: True,
                 buffer_bytes=256 << 20):
        self.frames = []
        self._keep = keep
        self.dropped = 0  # frames that the kernel could not store
        self._sockets = []
        for packet_socket, interface in sockets_and_interfaces:
            packet_socket.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE,
                                     buffer_bytes)
            packet_socket.setsockopt(_SOL_PACKET, _PACKET_AUXDATA, 1)
            packet_socket.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
            packet_socket.bind((interface, _ETH_P_ALL))
            packet_socket.setblocking(False)
            self._sockets.append(packet_socket)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_unused):
        self._stop.set()
        self._thread.join()
        for packet_socket in self._sockets:
            stats = packet_socket.getsockopt(_SOL_PACKET, _PACKET_STATISTICS,
                                             8)
            self.dropped += struct.unpack("II", stats)[1]
            packet_socket.close()
        self.frames.sort(key=lambda timed: timed[0])

    def _run(self):
        stopping = False
        while True:
            ready = select.select(self._sockets, [], [], 0.05)[0]
            for packet_socket in ready:
                self._drain(packet_socket)
            # Drain once more after the stop, for frames that arrived before it.
            if stopping:
                return
            stopping = self._stop.is_set()

    def _drain(self, packet_socket):
        try:
            # Bounded: there are other sockets, and frames may keep arriving.
            for _ in range(1000):
                frame, extra, _, address = packet_socket.recvmsg(65536, 128)
                frame = _with_tag(frame, extra)
                if address[2] != _PACKET_OUTGOING and self._keep(frame):
                    self.frames.append((_arrival(extra), frame))
        except BlockingIOError:
            pass
        except OSError as error:
            if error.errno != errno.ENETDOWN:  # the interface is gone
                raise

    def packets(self):
        """The RoCE packets among the frames."""
        parsed = (Packet.parse(frame) for _, frame in self.frames)
        return [packet for packet in parsed if packet is not None]

    def write_pcap(self, path, keep=lambda frame: True):
        with open(path, "wb") as file:
            file.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 262144,
                                   1))
            for when, frame in self.frames:
                if keep(frame):
                    file.write(struct.pack("<IIII", int(when),
                                           int(when % 1 * 1000000), len(frame),
                                           len(frame)) + frame)
