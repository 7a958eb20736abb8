#!/usr/bin/env python3
"""urnic_rud.lua in tshark, over the golden packets of tests/rud."""
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, "tests/rud")
sys.dont_write_bytecode = True

import goldens  # noqa: E402 (the path must come first)

SCRIPT = "ras/wireshark/urnic_rud.lua"
PREFIX = "urnic_rud."
FLAGS = ("fifo", "answers_read", "marked", "list")
BYTES = ("tag", "payload", "write.data")
TRUTHS = {"True": 1, "False": 0}


def tshark(*words, script=("-X", "lua_script:" + SCRIPT)):
    with tempfile.TemporaryDirectory() as home:
        # The RUD packets of IPv6 have no UDP checksum, as those of RoCE.
        done = subprocess.run(
            ["tshark", *script, "-o", "udp.ignore_ipv6_zero_checksum:TRUE",
             *words],
            capture_output=True, text=True, check=False, timeout=120,
            env={**os.environ, "HOME": home, "LC_ALL": "C.UTF-8"})
    if done.returncode or "Lua" in done.stderr:
        raise AssertionError(done.stderr)
    return done.stdout.splitlines()


def fields(pcap, *names):
    """For each frame: {name: values}, of the names that it has."""
    options = [word for name in names for word in ("-e", name)]
    rows = tshark("-r", goldens.TESTDATA + pcap, "-T", "fields", "-E",
                  "occurrence=a", "-E", "aggregator=|", *options)
    return [{name: text.split("|")
             for name, text in zip(names, row.split("\t")) if text}
            for row in rows]


def as_tshark_has_it(name, text):
    """A value of the reference as a number, or as hexadecimal digits."""
    if name in BYTES:
        return text
    return int(text, 16) if name in goldens.rud.HEX else int(text)


def as_we_have_it(name, text):
    if name in BYTES:
        return text
    if name == "third.address":
        return int(goldens.rud.ipaddress.ip_address(text))
    return TRUTHS[text] if text in TRUTHS else int(text, 0)


@unittest.skipIf(shutil.which("tshark") is None, "tshark is not installed")
class Dissector(unittest.TestCase):
    def test_every_field_is_what_the_reference_put_in(self):
        packets = goldens.good()
        names = sorted({name for packet in packets
                        for name, _ in packet.fields()})
        rows = fields("rud_good.pcap", *(PREFIX + name for name in names))
        self.assertEqual(len(rows), len(packets))
        for packet, row in zip(packets, rows):
            wanted = {}
            for name, text in packet.fields():
                wanted.setdefault(name, []).append(as_tshark_has_it(name, text))
            seen = {}
            for name, texts in row.items():
                name = name[len(PREFIX):]
                seen[name] = [as_we_have_it(name, text) for text in texts]
            with self.subTest(packet.name):
                self.assertEqual(seen, wanted)

    def test_a_pvo_and_a_tid_are_also_there_whole(self):
        packets = goldens.good()
        rows = fields("rud_good.pcap", "urnic_rud.tid", "urnic_rud.pvo",
                      "urnic_rud.flags", "urnic_rud.notify")
        for packet, row in zip(packets, rows):
            values = packet.values
            with self.subTest(packet.name):
                flags = sum(values["flags." + name] << bit for bit, name in
                            enumerate(FLAGS))
                self.assertEqual(int(row["urnic_rud.flags"][0], 0), flags)
                wishes = sum(values["notify." + name] << bit for bit, name in
                             enumerate(("source", "target", "third")))
                self.assertEqual(int(row["urnic_rud.notify"][0], 0), wishes)
                if "tid.transfer" in values:
                    self.assertEqual(int(row["urnic_rud.tid"][0], 0),
                                     values["tid.transfer"] << 8 |
                                     values["tid.attempt"])
                if "pvo.key" in values and not packet.is_list:
                    self.assertEqual(int(row["urnic_rud.pvo"][0], 0),
                                     pvo_of(values, "pvo"))

    def test_a_list_has_its_writes_and_no_other_pvo(self):
        packets = goldens.good()
        rows = fields("rud_good.pcap", "urnic_rud.pvo", "urnic_rud.write.pvo",
                      "urnic_rud.write.bytes")
        for packet, row in zip(packets, rows):
            with self.subTest(packet.name):
                if packet.is_list:
                    self.assertNotIn("urnic_rud.pvo", row)
                pvos = row.get("urnic_rud.write.pvo", [])
                self.assertEqual([int(text, 0) for text in pvos],
                                 [pvo_of(write.values, "write.pvo")
                                  for write in packet.writes])
                counts = row.get("urnic_rud.write.bytes", [])
                self.assertEqual([int(text) for text in counts],
                                 [len(write.data) for write in packet.writes])

    def test_each_write_of_a_list_has_a_line_for_people(self):
        packet = next(packet for packet in goldens.good()
                      if packet.name == "list, of several, IPv6")
        lines = tshark("-r", goldens.TESTDATA + "rud_good.pcap", "-V", "-Y",
                       f"urnic_rud.key == {packet.values['key']}")
        self.assertEqual(
            [line.strip() for line in lines if "Write" in line],
            [f"Write {i}: PVO 0x{pvo_of(write.values, 'write.pvo'):016x}, "
             f"{len(write.data)} bytes"
             for i, write in enumerate(packet.writes, 1)])
        self.assertIn("1... = Payload is a list of writes: True",
                      "\n".join(lines))

    def test_a_bad_list_shows_the_writes_that_are_there(self):
        bads = goldens.bad()
        rows = fields("rud_bad.pcap", "urnic_rud.write.bytes",
                      "urnic_rud.write.data", "urnic_rud.payload")
        seen = {bad.name: row for bad, row in zip(bads, rows)}
        row = seen["list, 9 bytes after a write"]
        self.assertEqual(row["urnic_rud.write.bytes"], ["5"])
        self.assertEqual(len(row["urnic_rud.payload"][0]), 2 * 9)
        row = seen["list, the last of two says too many bytes"]
        self.assertEqual(row["urnic_rud.write.bytes"], ["5", "6"])
        self.assertEqual([len(text) for text in row["urnic_rud.write.data"]],
                         [10, 10])
        row = seen["list, 64 and a byte"]
        self.assertEqual(len(row["urnic_rud.write.bytes"]), 64)
        self.assertEqual(row["urnic_rud.payload"], ["31"])
        row = seen["list of a third party"]
        self.assertEqual(list(row), ["urnic_rud.payload"])

    def test_a_good_packet_has_no_expert_item(self):
        rows = fields("rud_good.pcap", "_ws.expert.message",
                      "urnic_rud.crc.status")
        self.assertEqual(rows, len(goldens.good()) *
                         [{"urnic_rud.crc.status": ["1"]}])

    def test_a_bad_packet_has_the_one_of_its_fault(self):
        bads = goldens.bad()
        kinds = sorted({bad.expert for bad in bads})
        rows = fields("rud_bad.pcap", "_ws.expert.severity",
                      *("urnic_rud.bad." + kind for kind in kinds))
        self.assertEqual(len(rows), len(bads))
        for bad, row in zip(bads, rows):
            with self.subTest(bad.name):
                severities = row.pop("_ws.expert.severity", [])
                self.assertEqual([int(text, 0) for text in severities],
                                 [0x800000])  # one error
                self.assertEqual(list(row), ["urnic_rud.bad." + bad.expert])

    def test_the_info_column_is_for_people(self):
        lines = tshark("-r", goldens.TESTDATA + "rud_good.pcap", "-T", "fields",
                       "-e", "_ws.col.Protocol", "-e", "_ws.col.Info")
        for packet, line in zip(goldens.good(), lines):
            self.assertTrue(line.startswith("RUD\t"), line)
            self.assertIn(f"window {packet.values['window']}", line)
            self.assertNotIn("bad", line)
        names = [packet.name for packet in goldens.good()]
        line = lines[names.index("data that is completed, IPv4")]
        self.assertRegex(line, "packet 0, 4 bytes at 0 of 4, tid 4711.2")
        line = lines[names.index("read, some of 64, IPv6")]
        self.assertIn("packets 0, 63 of 4096 bytes", line)
        line = lines[names.index("list, of several, IPv4")]
        self.assertRegex(line, "packet 0, 634 bytes at 0 of 634, .*list of 7$")
        line = lines[names.index("completion, of 32, IPv4")]
        self.assertIn("and 28 more", line)

    def test_a_completion_and_its_data_name_each_other(self):
        names = [packet.name for packet in goldens.good()]
        # Two passes: as Wireshark, which knows of later frames.
        rows = tshark("-2", "-r", goldens.TESTDATA + "rud_good.pcap", "-T",
                      "fields", "-e", "urnic_rud.completion.of", "-e",
                      "urnic_rud.completed_in")
        wanted = ["\t"] * len(names)
        for path in goldens.PATHS:
            data = names.index("data that is completed, " + path.name)
            done = names.index("completion that names it, " + path.name)
            # The paths with a tag have the addresses and the tid of those
            # without: the first completion counts, and the newest data.
            first = done if not path.vlan else names.index(
                "completion that names it, " + path.name.split()[0])
            wanted[data] = f"\t{first + 1}"
            wanted[done] = f"{data + 1}\t"
        self.assertEqual(rows, wanted)

    def test_the_port_is_a_preference(self):
        lines = tshark("-r", goldens.TESTDATA + "rud_good.pcap", "-o",
                       "urnic_rud.port:4000", "-Y", "urnic_rud")
        self.assertEqual(lines, [])

    def test_it_may_be_loaded_twice(self):
        twice = ("-X", "lua_script:" + SCRIPT) * 2
        lines = tshark("-r", goldens.TESTDATA + "rud_good.pcap", "-Y",
                       "urnic_rud", script=twice)
        self.assertEqual(len(lines), len(goldens.good()))

    def test_a_capture_that_cuts_frames_has_no_fault_and_no_error(self):
        packets = goldens.good()
        content = goldens.pcap([packet.frame() for packet in packets])
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "cut.pcap")
            for snap in (43, 60, 66, 90, 128, 147):
                with open(path, "wb") as file:
                    file.write(cut(content, snap))
                lines = tshark("-r", path, "-T", "fields", "-e",
                               "urnic_rud.crc.status", "-e",
                               "_ws.expert.message", "-e", "_ws.lua.error")
                self.assertEqual(len(lines), len(packets))
                for packet, line in zip(packets, lines):
                    with self.subTest(f"{packet.name}, {snap} bytes"):
                        whole = len(packet.frame()) <= snap
                        self.assertEqual(line, "1\t\t" if whole else "\t\t")


def pvo_of(values, name):
    return (values[name + ".key"] << 47 | values[name + ".table"] << 42 |
            values[name + ".offset"])


def cut(content, snap):
    """The capture file with at most `snap` bytes of each frame."""
    out, at = content[:24], 24
    while at < len(content):
        size = int.from_bytes(content[at + 8:at + 12], "little")
        kept = min(size, snap)
        out += (content[at:at + 8] + kept.to_bytes(4, "little") +
                content[at + 12:at + 16 + kept])
        at += 16 + size
    return out


if __name__ == "__main__":
    unittest.main()
