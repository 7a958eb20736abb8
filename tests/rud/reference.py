"""RUD, a second time: packets as the tables of docs/design/0014-rud.md say.

It shares no code with transport/wire/rud.h. Where the two differ, one of them
has misread the note.
"""
import hashlib
import ipaddress
import struct

UDP_PORT = 54791
CRC_BYTES = 4

# Each header: (field, bits), the most significant bit first.
CONTEXT = (("number", 32), ("key", 32))
TID = (("transfer", 56), ("attempt", 8))
PVO = (("key", 17), ("table", 5), ("offset", 42))


def part(name, layout):
    return tuple((f"{name}.{field}", bits) for field, bits in layout)


BASE = (
    ("version", 4), ("type", 4),
    ("flags.unknown", 4), ("flags.list", 1), ("flags.marked", 1),
    ("flags.answers_read", 1), ("flags.fifo", 1),
    ("path", 8),
    ("notify.unknown", 5), ("notify.third", 1), ("notify.target", 1),
    ("notify.source", 1),
    ("job", 32), ("key", 32),
    ("reserved.window", 8), ("window", 24),
    ("reserved.source_window", 8), ("source_window", 24),
    ("payload_bytes", 16), ("reserved.base", 16))
TRANSFER = part("context", CONTEXT) + part("tid", TID)
DATA = part("pvo", PVO) + (
    ("total", 32), ("offset", 32), ("stride", 16), ("number", 8),
    ("reserved.data", 8)) + part("source", CONTEXT)
READ = part("source_pvo", PVO) + part("target_pvo", PVO) + (
    ("total", 32), ("stride", 16), ("reserved.read", 16)) + part(
        "target", CONTEXT) + (("packets", 64),)
THIRD = (("third.address", 128), ("reserved.third_window", 8),
         ("third.window", 24), ("reserved.third", 32)) + part(
             "third.context", CONTEXT)
TAG = (("tag", 128),)
NOTICE = part("notice.sender", CONTEXT) + (
    ("notice.reason", 8), ("reserved.notice", 56),
    ("notice.arrived", 64)) + part("notice.pvo", PVO)
ASKER = part("asker", CONTEXT)
COMPLETION = part("completion.source", CONTEXT) + part(
    "completion.tid", TID) + (("completion.status", 8), ("completion.path", 8),
                              ("completion.reserved", 16))
COMPLETION_BYTES = 20
# One of a list; its data follows.
WRITE = part("write.pvo", PVO) + (("write.bytes", 16),)
WRITE_BYTES = 10
MAX_WRITES = 64

(DATA_TYPE, READ_TYPE, THIRD_READ_TYPE, THIRD_DATA_TYPE, FIFO_TYPE,
 COMPLETION_TYPE, NOTICE_TYPE, STATE_TYPE) = range(1, 9)
AFTER_BASE = {
    DATA_TYPE: TRANSFER + DATA,
    READ_TYPE: TRANSFER + READ,
    THIRD_READ_TYPE: TRANSFER + READ + THIRD,
    THIRD_DATA_TYPE: TRANSFER + DATA + THIRD,
    FIFO_TYPE: TAG,
    COMPLETION_TYPE: (),
    NOTICE_TYPE: TRANSFER + NOTICE,
    STATE_TYPE: TRANSFER + ASKER,
}
HEX = {"packets": 16, "notice.arrived": 16, "tag": 32, "third.address": 32}


def is_reserved(field):
    return "reserved" in field


def layout_of(kind):
    # An unknown type has the base header only.
    return BASE + AFTER_BASE.get(kind, ())


def encode(layout, values):
    number, width = 0, 0
    for field, bits in layout:
        value = values[field]
        if not 0 <= value < 1 << bits:
            raise ValueError(f"{field}: {value} does not fit {bits} bits")
        number, width = number << bits | value, width + bits
    return number.to_bytes(width // 8, "big")


def any_value(packet, field, bits):
    """A value that no other field has, and that is always the same."""
    digest = hashlib.sha256(f"{packet}: {field}".encode()).digest()
    return int.from_bytes(digest, "big") % (1 << bits)


def any_bytes(packet, count):
    out = b""
    while len(out) < count:
        out += hashlib.sha256(f"{packet}: {len(out)}".encode()).digest()
    return out[:count]


class Write:
    """One of a list. `says` is its length on the wire, if that is wrong."""
    def __init__(self, name, count, says=None):
        self.values = {field: any_value(name, field, bits)
                       for field, bits in WRITE}
        self.values["write.bytes"] = count if says is None else says
        self.data = any_bytes(f"{name} data", count)

    def bytes(self):
        return encode(WRITE, self.values) + self.data

    def fields(self):
        lines = list(self.values.items())
        return lines + [("write.data", self.data.hex())] * bool(self.data)


def any_writes(name, counts):
    """A list of writes that have so many bytes of data."""
    return [Write(f"{name} {i}", count) for i, count in enumerate(counts)]


def crc32c(data):
    """Castagnoli's polynomial, reflected, a bit at a time."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def in_16_bytes(address):
    """As the CRC and the third header have it."""
    packed = address.packed
    return packed if len(packed) == 16 else bytes(10) + b"\xff\xff" + packed


class Path:
    """What is below the base header."""
    # pylint: disable-next=too-many-arguments
    def __init__(self, name, source, target, *, vlan=None, traffic_class=0,
                 source_port=0xC0DE):
        self.name = name
        self.source = ipaddress.ip_address(source)
        self.target = ipaddress.ip_address(target)
        self.vlan = vlan
        self.traffic_class = traffic_class
        self.source_port = source_port

    def back(self):
        return Path(self.name, str(self.target), str(self.source),
                    vlan=self.vlan, traffic_class=self.traffic_class,
                    source_port=self.source_port)

    def addresses(self):
        return in_16_bytes(self.source) + in_16_bytes(self.target)

    def with_crc(self, covered):
        crc = crc32c(self.addresses() + covered)
        return covered + struct.pack("<I", crc)

    def frame(self, packet):
        """Ethernet, one 802.1Q tag, IP and UDP around `packet`."""
        udp_bytes = 8 + len(packet)
        udp = struct.pack(">HHHH", self.source_port, UDP_PORT, udp_bytes, 0)
        if self.source.version == 4:
            ethertype = 0x0800
            ip = struct.pack(">BBHHHBBH", 0x45, self.traffic_class,
                             20 + udp_bytes, 0, 0x4000, 64, 17, 0)
            ip += self.source.packed + self.target.packed
            ip = ip[:10] + struct.pack(">H", ip_checksum(ip)) + ip[12:]
        else:
            ethertype = 0x86DD
            ip = struct.pack(">IHBB", 6 << 28 | self.traffic_class << 20,
                             udp_bytes, 17, 64)
            ip += self.source.packed + self.target.packed
        tag = b"" if self.vlan is None else struct.pack(
            ">HH", 0x8100, self.vlan)
        frame = (bytes.fromhex("020000000002 020000000001") + tag +
                 struct.pack(">H", ethertype) + ip + udp + packet)
        return frame.ljust(60, b"\0")  # the shortest of Ethernet


def ip_checksum(header):
    total = sum(struct.unpack(f">{len(header) // 2}H", header))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total ^ 0xFFFF


class Packet:
    """One packet: its fields, its payload, and what is on the wire."""
    # pylint: disable-next=too-many-arguments
    def __init__(self, name, path, kind, payload=b"", entries=(), writes=(),
                 **fields):
        """`fields`: "__" in a name stands for a dot. Those that are not given
        have any value, flags and what is reserved are 0. A packet with
        `entries` or `writes` has them as its payload."""
        self.name = f"{name}, {path.name}"
        self.path = path
        given = {key.replace("__", "."): value
                 for key, value in fields.items()}
        self.is_list = kind == DATA_TYPE and bool(given.get("flags.list"))
        self.values = self._filled(layout_of(kind), {"version": 1, "type": kind,
                                                     **given})
        self.entries = []
        for i, entry in enumerate(entries):
            entry = {f"completion.{key}": value for key, value in entry.items()}
            self.entries.append(self._filled(COMPLETION, entry, i))
        if self.entries:
            payload = b"".join(encode(COMPLETION, entry)
                               for entry in self.entries)
        self.writes = writes
        if writes:
            payload = b"".join(write.bytes() for write in writes)
        self.payload = payload
        if "payload_bytes" not in given:
            self.values["payload_bytes"] = len(payload)
        unused = set(given) - set(self.values)
        if unused:
            raise ValueError(f"{self.name} has no {unused}")

    def _filled(self, layout, given, extra=""):
        values = {}
        for field, bits in layout:
            if field in given:
                values[field] = given[field]
            elif self._is_0(field):
                values[field] = 0
            else:
                values[field] = any_value(f"{self.name} {extra}", field, bits)
        return values

    def _means_nothing(self, field):
        # Each write of a list has a PVO of its own.
        return is_reserved(field) or (self.is_list and
                                      field.startswith("pvo."))

    def _is_0(self, field):
        """Unless it is given."""
        return (self._means_nothing(field) or
                field.startswith(("flags.", "notify.")))

    def covered(self):
        """From the base header to the payload."""
        return encode(layout_of(self.values["type"]),
                      self.values) + self.payload

    def bytes(self):
        return self.path.with_crc(self.covered())

    def frame(self):
        return self.path.frame(self.bytes())

    def fields(self):
        """(name, text) of all that means something, in their order."""
        lines = [(field, text_of(field, value))
                 for field, value in self.values.items()
                 if not self._means_nothing(field)]
        for entry in self.entries:
            lines += [(field, text_of(field, value))
                      for field, value in entry.items()
                      if not is_reserved(field)]
        for write in self.writes:
            lines += [(field, str(value)) for field, value in write.fields()]
        if self.payload and not self.entries and not self.writes:
            lines.append(("payload", self.payload.hex()))
        crc, = struct.unpack("<I", self.bytes()[-CRC_BYTES:])
        return lines + [("crc", str(crc))]


def text_of(field, value):
    return f"{value:0{HEX[field]}x}" if field in HEX else str(value)
