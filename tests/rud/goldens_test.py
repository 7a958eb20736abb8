#!/usr/bin/env python3
"""The checked-in packets are those that goldens.py makes."""
import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
sys.dont_write_bytecode = True

import goldens  # noqa: E402 (the path must come first)
import reference  # noqa: E402


class Goldens(unittest.TestCase):
    def test_the_files_have_the_same_bytes(self):
        for path, content in goldens.files().items():
            with self.subTest(path), open(path, "rb") as file:
                self.assertEqual(file.read(), content)

    def test_the_corpus_has_no_other_files(self):
        made = {os.path.basename(path) for path in goldens.files()
                if path.startswith(goldens.CORPUS)}
        self.assertEqual(set(os.listdir(goldens.CORPUS)), made)

    def test_each_type_is_there_over_each_path(self):
        there = {(packet.values["type"], packet.path.name)
                 for packet in goldens.good()}
        self.assertEqual(len(there), 8 * len(goldens.PATHS))

    # The check value that all name, and two examples of iSCSI.
    def test_the_crc_is_castagnolis(self):
        self.assertEqual(reference.crc32c(b"123456789"), 0xE3069283)
        self.assertEqual(reference.crc32c(bytes(32)), 0x8A9136AA)
        self.assertEqual(reference.crc32c(bytes(range(32))), 0x46DD794E)

    def test_a_data_packet_is_72_bytes_and_its_payload(self):
        packet = goldens.data("size", goldens.IPV4, 0, 5)
        self.assertEqual(len(packet.bytes()), 72 + 5)

    def test_a_write_of_a_list_is_10_bytes_and_its_data(self):
        packet = goldens.listed("size", goldens.IPV4, [5, 0])
        first, second = packet.writes
        self.assertEqual(packet.bytes()[68:-4],
                         pvo_of(first) + b"\0\x05" + first.data +
                         pvo_of(second) + b"\0\0")
        self.assertEqual(packet.values["total"], 25)
        self.assertEqual(packet.bytes()[40:48], bytes(8))  # the header's PVO


def pvo_of(write):
    pvo = (write.values["write.pvo.key"] << 47 |
           write.values["write.pvo.table"] << 42 |
           write.values["write.pvo.offset"])
    return pvo.to_bytes(8, "big")


if __name__ == "__main__":
    unittest.main()
