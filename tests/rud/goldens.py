#!/usr/bin/env python3
"""The golden packets of RUD: writes transport/wire/testdata/rud_* and
tests/fuzz/corpus/rud, the same bytes each time.

    tests/rud/goldens.py [FOLDER]     the root to write below, default here

rud_good.txt names each packet of rud_good.pcap, and has the value of each of
its fields. rud_bad.txt names each packet of rud_bad.pcap, the verdict that it
gets, and the expert item that the dissector attaches to it.
"""
import os
import struct
import sys

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
sys.dont_write_bytecode = True

import reference as rud  # noqa: E402 (the path must come first)

ROOT = os.path.join(os.path.dirname(os.path.realpath(__file__)), "../..")
TESTDATA = "transport/wire/testdata/"
CORPUS = "tests/fuzz/corpus/rud/"

PATHS = (
    rud.Path("IPv4", "10.1.0.1", "10.1.0.2"),
    rud.Path("IPv6", "fd01::1", "fd01::2", traffic_class=2, source_port=0xC0DF),
    rud.Path("IPv4 with a tag", "10.1.0.1", "10.1.0.2", vlan=0x6005,
             traffic_class=3),
    rud.Path("IPv6 with a tag", "fd01::1", "fd01::2", vlan=7,
             source_port=0xFFFF),
)
IPV4 = PATHS[0]
IPV6 = PATHS[1]
STRIDE = 64
ALL = (1 << 64) - 1


def data(name, path, number, total, *, kind=rud.DATA_TYPE, stride=STRIDE,
         **fields):
    """A packet of a transfer that agrees with itself, if `fields` do."""
    values = {"total": total, "offset": number * stride, "stride": stride,
              "number": number, **fields}
    payload = values.pop("payload", None)
    if payload is None:
        payload = rud.any_bytes(name, min(stride, total - number * stride))
    return rud.Packet(name, path, kind, payload, **values)


def listed(name, path, counts, *, number=0, stride=1024, **fields):
    """A packet that is a list of writes with so many bytes each."""
    writes = rud.any_writes(f"{name}, {path.name}", counts)
    return list_of(name, path, payload_of(writes), number=number,
                   stride=stride, writes=writes, **fields)


def payload_of(writes):
    return b"".join(write.bytes() for write in writes)


def list_of(name, path, payload, *, number=0, stride=1024, **fields):
    """A data packet with the flag of a list, and any payload."""
    values = {"total": number * stride + len(payload), "flags__list": 1,
              **fields}
    return data(name, path, number, stride=stride, payload=payload, **values)


def read(name, path, total, packets, *, kind=rud.READ_TYPE, stride=STRIDE,
         **fields):
    return rud.Packet(name, path, kind, total=total, stride=stride,
                      packets=packets, **fields)


def third(address):
    if ":" not in address:
        address = "::ffff:" + address
    packed = rud.ipaddress.ip_address(address).packed
    return int.from_bytes(packed, "big")


def good_on(path):
    yield data("data, first", path, 0, 150, notify__source=1)
    yield data("data, first with reserved bits", path, 0, 150, notify__source=1,
               reserved__window=255, reserved__source_window=1,
               reserved__base=0xABCD, reserved__data=0x77)
    yield data("data, middle", path, 1, 150, flags__fifo=1, notify__target=1)
    yield data("data, last", path, 2, 150, notify__source=1, notify__target=1)
    yield data("data, last and full", path, 1, 128, flags__answers_read=1)
    yield data("data, shorter than the stride", path, 0, 5, stride=4096)
    yield data("data, a transfer without bytes", path, 0, 0, notify__third=1)
    yield data("data, last of 64", path, 63, 190, stride=3,
               flags__answers_read=1, flags__marked=1)
    yield read("read, a packet of one", path, 8, 1)
    yield read("read, some of 64", path, 64 * 64, 0x8000_0000_0000_0001,
               notify__source=1, flags__fifo=1)
    yield read("read, all of 64", path, 63 * 64 + 1, ALL)
    yield read("read, a transfer without bytes", path, 0, 1, stride=65535)
    yield read("third-party read, IPv4", path, 100, 2,
               kind=rud.THIRD_READ_TYPE, third__address=third("10.9.8.7"))
    yield read("third-party read, IPv6", path, 100, 3,
               kind=rud.THIRD_READ_TYPE, notify__third=1,
               third__address=third("2001:db8::5"))
    yield read("third-party read with reserved bits", path, 100, 3,
               kind=rud.THIRD_READ_TYPE, third__address=third("2001:db8::5"),
               reserved__read=0xFFFF, reserved__third_window=0x80,
               reserved__third=0xFFFFFFFF)
    yield data("third-party data, first", path, 0, 65,
               kind=rud.THIRD_DATA_TYPE, notify__third=1, flags__fifo=1,
               third__address=third("10.9.8.7"))
    yield data("third-party data, last", path, 1, 65,
               kind=rud.THIRD_DATA_TYPE, notify__source=1, notify__target=1,
               notify__third=1, third__address=third("2001:db8::5"))
    yield rud.Packet("FIFO, empty", path, rud.FIFO_TYPE, flags__fifo=1)
    yield rud.Packet("FIFO, long", path, rud.FIFO_TYPE,
                     rud.any_bytes("FIFO", 301), flags__fifo=1)
    yield rud.Packet("completion, of one", path, rud.COMPLETION_TYPE,
                     entries=[{"status": 0}])
    yield rud.Packet("completion, of 32", path, rud.COMPLETION_TYPE,
                     flags__marked=1,
                     entries=[{"status": 0} for _ in range(32)])
    yield rud.Packet("completion with reserved bits", path, rud.COMPLETION_TYPE,
                     entries=[{"status": 0, "reserved": 0xFFFF}] * 2)
    yield rud.Packet("notice, state", path, rud.NOTICE_TYPE, notice__reason=0)
    yield rud.Packet("notice, access", path, rud.NOTICE_TYPE, notice__reason=1,
                     flags__marked=1)
    yield rud.Packet("notice with reserved bits", path, rud.NOTICE_TYPE,
                     notice__reason=1, reserved__notice=(1 << 56) - 1)
    yield rud.Packet("state request", path, rud.STATE_TYPE)
    yield from good_lists(path)
    yield from completed(path)


def good_lists(path):
    yield listed("list, of one", path, [8], notify__source=1)
    yield listed("list, of one without data", path, [0], flags__marked=1)
    yield listed("list, of several", path, [8, 0, 300, 0, 0, 1, 255],
                 notify__source=1, notify__target=1)
    yield listed("list, of 64", path, [i % 8 for i in range(rud.MAX_WRITES)],
                 notify__source=1)
    yield listed("list, of 64 without data", path, [0] * rud.MAX_WRITES,
                 stride=640)
    yield listed("list with reserved bits", path, [3, 5], reserved__data=0x77,
                 pvo__key=0x1FFFF, pvo__table=1, pvo__offset=1 << 41)
    # Each packet of a transfer is a list in itself.
    yield listed("list, middle", path, [22, 22], number=1, stride=STRIDE,
                 total=150, notify__source=1)
    yield listed("list, last", path, [12], number=2, stride=STRIDE,
                 notify__source=1)
    ignored = {"flags__list": 1}
    yield read("read, not a list", path, 8, 1, flags__fifo=1, **ignored)
    yield read("third-party read, not a list", path, 100, 2,
               kind=rud.THIRD_READ_TYPE, third__address=third("10.9.8.7"),
               **ignored)
    yield rud.Packet("FIFO, not a list", path, rud.FIFO_TYPE,
                     rud.any_bytes("FIFO", 11), flags__fifo=1, **ignored)
    yield rud.Packet("completion, not a list", path, rud.COMPLETION_TYPE,
                     entries=[{"status": 0}], **ignored)
    yield rud.Packet("notice, not a list", path, rud.NOTICE_TYPE,
                     notice__reason=1, **ignored)
    yield rud.Packet("state request, not a list", path, rud.STATE_TYPE,
                     **ignored)


def completed(path):
    """A transfer, and the completion that names it."""
    ours = {"source__number": 77, "source__key": 0x01000002,
            "tid__transfer": 4711, "tid__attempt": 2}
    yield data("data that is completed", path, 0, 4, notify__source=1, **ours)
    yield rud.Packet("completion that names it", path.back(),
                     rud.COMPLETION_TYPE,
                     entries=[{"status": 0}, {
                         "source.number": 77, "source.key": 0x01000002,
                         "tid.transfer": 4711, "tid.attempt": 2, "status": 0}])


def good():
    packets = [packet for path in PATHS for packet in good_on(path)]
    packets.append(data("data, large", IPV4, 3, 4 * 4096, stride=4096))
    return packets


class Bad:
    """A packet with one fault."""
    def __init__(self, name, verdict, expert, packet):
        self.name, self.verdict, self.expert = name, verdict, expert
        if isinstance(packet, rud.Packet):
            self.path, self.bytes = packet.path, packet.bytes()
        else:
            self.path, self.bytes = packet

    def frame(self):
        return self.path.frame(self.bytes)


def bad_bases():
    for version in (0, 2, 15):
        yield Bad(f"version {version}", "RudBadVersion", "version",
                  data("v", IPV4, 0, 4, version=version))
    for kind in (0, 9, 15):
        yield Bad(f"type {kind}", "RudMalformed", "type",
                  rud.Packet("t", IPV4, kind, rud.any_bytes("t", 60)))
    for flag in (1, 2, 4, 8):
        yield Bad(f"unknown flag {flag << 4}", "RudMalformed", "flag",
                  data("f", IPV4, 0, 4, flags__unknown=flag))
    for wish in (1, 16):
        yield Bad(f"unknown wish {wish << 3}", "RudMalformed", "wish",
                  data("w", IPV6, 0, 4, notify__unknown=wish))


def one_of(kind, path):
    """A good packet of this type, without payload where that is allowed."""
    fields = {"third__address": 1} if kind in (3, 4) else {}
    if kind in (rud.DATA_TYPE, rud.THIRD_DATA_TYPE):
        return data("d", path, 0, 0, kind=kind, **fields)
    if kind in (rud.READ_TYPE, rud.THIRD_READ_TYPE):
        return read("r", path, 8, 1, kind=kind, **fields)
    if kind == rud.NOTICE_TYPE:
        fields["notice__reason"] = 0
    return rud.Packet("o", path, kind, **fields)


def bad_lengths():
    for count in (1, 23, 27):
        whole = one_of(rud.FIFO_TYPE, IPV4).covered()
        cut = whole[:count - 4] if count > 4 else whole[:count]
        yield Bad(f"{count} bytes", "Truncated", "truncated",
                  (IPV4, IPV4.with_crc(cut) if count > 4 else cut))
    for kind in rud.AFTER_BASE:
        packet = one_of(kind, IPV6)
        if kind != rud.COMPLETION_TYPE:
            yield Bad(f"headers of type {kind} cut", "Truncated", "truncated",
                      (IPV6, IPV6.with_crc(packet.covered()[:-1])))
        if kind in (rud.READ_TYPE, rud.THIRD_READ_TYPE, rud.NOTICE_TYPE,
                    rud.STATE_TYPE):
            packet.payload = b"12345678"
            packet.values["payload_bytes"] = 8
            yield Bad(f"payload of type {kind}", "RudMalformed",
                      "payload_bytes", packet)
    for error, which in ((-1, "one byte too few"), (1, "one byte too many")):
        yield Bad(f"{which}, says data", "RudMalformed",
                  "payload_bytes", data("p", IPV4, 0, 4, payload_bytes=4 + error))
        yield Bad(f"{which}, says FIFO", "RudMalformed",
                  "payload_bytes", rud.Packet("p", IPV4, rud.FIFO_TYPE, b"1234",
                                              payload_bytes=4 + error))
    # A router that cuts: the length of UDP agrees, the base header does not.
    yield Bad("bytes of payload that are not there", "RudMalformed",
              "payload_bytes", rud.Packet("p", IPV4, rud.FIFO_TYPE,
                                          payload_bytes=65535))


def bad_data():
    for kind, path in ((rud.DATA_TYPE, IPV4), (rud.THIRD_DATA_TYPE, IPV6)):
        extra = {"kind": kind}

        def one(name, expert, *args, _extra=extra, _path=path, **fields):
            return Bad(f"{name}, type {_extra['kind']}", "RudMalformed", expert,
                       data(name, _path, *args, **fields, **_extra))

        yield one("offset before the number's", "offset", 2, 300, offset=64)
        yield one("offset after the number's", "offset", 1, 300, offset=65)
        yield one("offset in 16 bits", "offset", 60, 64 * 1100, stride=1100,
                  offset=60 * 1100 % 65536)
        yield one("number at the end of the transfer", "number", 2, 128,
                  payload=b"")
        yield one("number after the end of the transfer", "number", 3, 128,
                  payload=b"")
        yield one("number 64", "number", 64, 64, stride=1, payload=b"")
        yield one("number 255", "number", 255, 64, stride=1, payload=b"")
        yield one("65 packets", "packets", 0, 64 * 64 + 1)
        yield one("2^26 packets", "packets", 0, (1 << 32) - 1)
        yield one("stride 0", "stride", 0, 4, stride=0, payload=b"1234")
        yield one("stride 0, no bytes", "stride", 0, 0, stride=0, payload=b"")
        yield one("a full packet that is short", "payload", 0, 150,
                  payload=bytes(63))
        yield one("a full packet that is long", "payload", 0, 150,
                  payload=bytes(65))
        yield one("the last packet is short", "payload", 2, 150,
                  payload=bytes(21))
        yield one("the last packet is full", "payload", 2, 150,
                  payload=bytes(64))
        yield one("bytes in a transfer without any", "payload", 0, 0,
                  payload=b"1")


def bad_lists():
    def one(name, payload, path=IPV4):
        return Bad(f"list, {name}", "RudMalformed", "list",
                   list_of(name, path, payload))

    write, empty = rud.Write("w", 5).bytes(), rud.Write("e", 0).bytes()
    yield one("of none", b"")
    for count in (1, 7, 8, rud.WRITE_BYTES - 1):
        yield one(f"{count} bytes", write[:count])
        yield one(f"{count} bytes after a write", write + write[:count], IPV6)
        yield one(f"{count} bytes after an empty write", empty + empty[:count])
    for error, which in ((-1, "too few"), (1, "too many")):
        wrong = rud.Write("w", 5, says=5 + error).bytes()
        yield one(f"the last of two says {which} bytes", write + wrong)
        yield one(f"the first of two says {which} bytes", wrong + empty)
        yield one(f"one that says {which} bytes", wrong)
    # The CRC has 4 bytes.
    yield one("the CRC as data", rud.Write("w", 0, says=4).bytes())
    yield one("of 65535 bytes", write + rud.Write("w", 5, says=65535).bytes())
    for count in (65, 66, 100):
        yield one(f"of {count}", empty * count)
    yield one("65 with data", write * 65, IPV6)
    yield one("64 and a byte", empty * 64 + b"1")
    yield one("64, the last of which says too many bytes",
              empty * 63 + rud.Write("w", 5, says=6).bytes())
    # The rules of any transfer hold for lists, too.
    two = rud.any_writes("two", [22, 22])
    yield Bad("list, longer than the stride", "RudMalformed", "payload",
              list_of("l", IPV4, payload_of(two), stride=63))
    yield Bad("list, of another offset", "RudMalformed", "offset",
              list_of("l", IPV6, payload_of(two), number=1, stride=64,
                      offset=0))
    yield from bad_list_flags()


def bad_list_flags():
    writes = payload_of(rud.any_writes("flags", [4, 0, 7]))
    third_party = {"kind": rud.THIRD_DATA_TYPE, "third__address": 1}
    for name, payload, fields in (
            ("to the FIFO", writes, {"flags__fifo": 1}),
            ("that answers a read", writes, {"flags__answers_read": 1}),
            ("of a third party", writes, third_party),
            # The flag is refused, whatever the payload is.
            ("of a third party with other data", b"1234", third_party)):
        yield Bad(f"list {name}", "RudMalformed", "list_flags",
                  list_of("l", IPV4, payload, **fields))


def bad_others():
    for kind, path in ((rud.READ_TYPE, IPV6), (rud.THIRD_READ_TYPE, IPV4)):
        for name, expert, total, packets, stride in (
                ("read of no packet", "mask", 150, 0, 64),
                ("read of a packet after the last", "mask", 150, 8, 64),
                ("read of packet 63 of 63", "mask", 63 * 64, 1 << 63, 64),
                ("second packet without bytes", "mask", 0, 2, 64),
                ("read of 65 packets", "packets", 64 * 64 + 1, 1, 64),
                ("read with stride 0", "stride", 64, 1, 0)):
            yield Bad(f"{name}, type {kind}", "RudMalformed", expert,
                      read(name, path, total, packets, kind=kind,
                           stride=stride))
    entries = bytes(33 * rud.COMPLETION_BYTES)
    for count in (0, 1, 19, 21, 33 * 20, 32 * 20 - 1, 32 * 20 + 1):
        yield Bad(f"completion of {count} bytes", "RudMalformed", "completions",
                  rud.Packet("c", IPV4, rud.COMPLETION_TYPE, entries[:count]))
    for status in (1, 255):
        yield Bad(f"completion of status {status}", "RudMalformed", "status",
                  rud.Packet("c", IPV6, rud.COMPLETION_TYPE, entries=[
                      {"status": 0}, {"status": status}]))
    for reason in (2, 255):
        yield Bad(f"notice of reason {reason}", "RudMalformed", "reason",
                  rud.Packet("n", IPV4, rud.NOTICE_TYPE,
                             notice__reason=reason))


def bad_crcs():
    for path in (IPV4, IPV6):
        packet = data("crc", path, 0, 40)
        covered, right = packet.covered(), packet.bytes()[-4:]
        swapped = path.addresses()[16:] + path.addresses()[:16]
        for name, wrong in (
                ("one bit", bytes([right[0] ^ 1]) + right[1:]),
                ("most significant byte first", right[::-1]),
                ("without addresses",
                 struct.pack("<I", rud.crc32c(covered))),
                ("addresses swapped",
                 struct.pack("<I", rud.crc32c(swapped + covered)))):
            yield Bad(f"CRC: {name}, {path.name}", "Accept", "crc",
                      (path, covered + wrong))
        flipped = covered[:-1] + bytes([covered[-1] ^ 0x80])
        yield Bad(f"CRC: a bit of the payload, {path.name}", "Accept", "crc",
                  (path, flipped + right))


def bad():
    return [*bad_bases(), *bad_lengths(), *bad_data(), *bad_lists(),
            *bad_others(), *bad_crcs()]


def pcap(frames):
    out = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 262144, 1)
    for i, frame in enumerate(frames):
        out += struct.pack("<IIII", 0, i, len(frame), len(frame)) + frame
    return out


def file_name(name):
    kept = "".join(c if c.isalnum() else " " for c in name.lower())
    return "_".join(kept.split())


def files():
    """{path: bytes} of all that this script makes."""
    goods, bads = good(), bad()
    made = {
        TESTDATA + "rud_good.pcap": pcap([p.frame() for p in goods]),
        TESTDATA + "rud_good.txt": "\n".join(
            p.name + "\n" + "".join(f"{name} {text}\n"
                                    for name, text in p.fields())
            for p in goods).encode(),
        TESTDATA + "rud_bad.pcap": pcap([b.frame() for b in bads]),
        TESTDATA + "rud_bad.txt": "".join(
            f"{b.name}: {b.verdict}, {b.expert}\n" for b in bads).encode(),
    }
    # The fuzzer's inputs are packets without frames.
    for packet in good_on(IPV4):
        made[CORPUS + file_name(packet.name[:-6])] = packet.bytes()
    for packet in bads:
        path = CORPUS + "bad_" + file_name(packet.name)
        assert path not in made, path
        made[path] = packet.bytes
    return made


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else ROOT
    for path, content in files().items():
        path = os.path.join(root, path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(content)


if __name__ == "__main__":
    main()
