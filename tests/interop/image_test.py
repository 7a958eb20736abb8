#!/usr/bin/env python3
"""What the guest's image is made of, without a network or root."""
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
sys.dont_write_bytecode = True

import image  # noqa: E402 (the path must come first)
import siw_module  # noqa: E402

MAIN = """
/* transmit from user buffer, if possible */
const bool zcopy_tx = true;
const bool try_gso;
const bool loopback_enabled = true;
const bool mpa_crc_required;
const bool mpa_crc_strict;
const bool siw_tcp_nagle;
u_char mpa_version = MPA_REVISION_2;
const bool peer_to_peer;
"""
CM = """
static __be16 rtr_type = MPA_V2_RDMA_READ_RTR | MPA_V2_RDMA_WRITE_RTR;
static const bool relaxed_ird_negotiation = true;
"""


class CacheTest(unittest.TestCase):

    def setUp(self):
        self._folder = tempfile.TemporaryDirectory()
        self.cache = pathlib.Path(self._folder.name)

    def tearDown(self):
        self._folder.cleanup()

    def test_a_part_is_made_once(self):
        made = []

        def make():
            made.append(1)
            return b"part"

        for _ in range(2):
            path = image.cached(self.cache / "programs-1.cpio", make)
        self.assertEqual(path.read_bytes(), b"part")
        self.assertEqual(made, [1])

    def test_only_what_is_not_used_any_more_is_removed(self):
        now = time.time()
        for name, age in (("programs-old.cpio", 2), ("programs-new.cpio", 0.5),
                          ("siw-old.cpio", 2)):
            path = self.cache / name
            path.touch()
            then = now - age * image.KEPT_SECONDS
            os.utime(path, (then, then))
        image.forget_old(self.cache, "programs-*.cpio")
        self.assertEqual(sorted(path.name for path in self.cache.iterdir()),
                         ["programs-new.cpio", "siw-old.cpio"])

    def test_use_makes_a_part_young(self):
        path = self.cache / "programs-1.cpio"
        path.touch()
        os.utime(path, (0, 0))
        image.cached(path, self.fail)
        image.forget_old(self.cache, "programs-*.cpio")
        self.assertTrue(path.exists())

    def test_the_archive_is_a_cpio_with_folders(self):
        cpio = image.Cpio()
        cpio.file("guest/a.py", b"12345", 0o400)
        cpio.link("bin/sh", "busybox")
        names = []
        data = cpio.bytes()
        at = 0
        while not names or names[-1] != "TRAILER!!!":
            self.assertEqual(data[at:at + 6], b"070701")
            size, length = (int(data[at + 6 + 8 * field:at + 14 + 8 * field],
                                16) for field in (6, 11))
            name_at = at + 110
            names.append(data[name_at:name_at + length - 1].decode())
            body_at = (name_at + length + 3) // 4 * 4
            at = (body_at + size + 3) // 4 * 4
        self.assertEqual(names, ["guest", "guest/a.py", "bin", "bin/sh",
                                 "TRAILER!!!"])
        self.assertEqual(at, len(data))

    def test_what_fails_says_why(self):
        with self.assertRaisesRegex(image.Unavailable, "not installed"):
            image.run("no-such-program")
        with self.assertRaisesRegex(image.Unavailable, "no reason"):
            image.run("sh", "-c", "echo no reason >&2; exit 1")


class SiwModuleTest(unittest.TestCase):

    def setUp(self):
        self._folder = tempfile.TemporaryDirectory()
        self.source = pathlib.Path(self._folder.name)
        (self.source / "siw_main.c").write_text(MAIN)
        (self.source / "siw_cm.c").write_text(CM)
        (self.source / "siw.h").write_text("".join(
            f"extern const bool {flag};\n" for flag in siw_module.FLAGS))

    def tearDown(self):
        self._folder.cleanup()

    def test_each_constant_becomes_a_parameter(self):
        siw_module._make_parameters(self.source)
        main = (self.source / "siw_main.c").read_text()
        self.assertNotIn("const bool", main)
        self.assertIn("bool zcopy_tx = true;\n"
                      "module_param(zcopy_tx, bool, 0644);\n", main)
        self.assertIn("module_param(mpa_version, byte, 0644);", main)
        self.assertNotIn("const", (self.source / "siw.h").read_text())
        connect = (self.source / "siw_cm.c").read_text()
        self.assertIn("static ushort rtr_type", connect)
        self.assertIn("static const bool relaxed", connect)
        for flag in siw_module.FLAGS:
            self.assertIn(f"module_param({flag}, bool, 0644);", main)

    def test_other_sources_are_refused(self):
        (self.source / "siw_main.c").write_text(
            MAIN.replace("const bool peer_to_peer;", ""))
        with self.assertRaisesRegex(image.Unavailable, "peer_to_peer"):
            siw_module._make_parameters(self.source)

    def test_only_the_folder_of_siw_is_unpacked(self):
        tree = self.source / "linux-source-6.12"
        for name in ("drivers/infiniband/sw/rxe/rxe.c",
                     "drivers/infiniband/sw/siw/siw_main.c",
                     "drivers/infiniband/sw/siw/siw.h", "net/siw/net.c"):
            path = tree / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(name)
        archive = self.source / "source.tar.xz"
        subprocess.run(["tar", "-cJf", archive, "-C", self.source, "--sort=name",
                        tree.name], check=True)
        into = self.source / "into"
        into.mkdir()
        with archive.open("rb") as compressed:
            siw_module._unpack_folder(compressed, into)
        self.assertEqual(sorted(path.name for path in into.iterdir()),
                         ["siw.h", "siw_main.c"])


unittest.main()
