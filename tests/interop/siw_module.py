"""The kernel module siw, which Debian's kernels leave out: made from Debian's
sources of the same kernel. Its constants become parameters that a test can
change while the guest runs (/sys/module/siw/parameters); nothing else changes.
"""

import hashlib
import lzma
import pathlib
import re
import subprocess
import tarfile
import tempfile

import image

FOLDER = "/drivers/infiniband/sw/siw/"
# Those that are "const bool" in its sources.
FLAGS = ("zcopy_tx", "try_gso", "loopback_enabled", "mpa_crc_required",
         "mpa_crc_strict", "siw_tcp_nagle", "peer_to_peer")
# The kinds of RTR that siw offers and takes, as they are in the frame: a
# big-endian number, which the parameter shows in the machine's order.
RTR_WRITE, RTR_READ = 0x0080, 0x0040


def build(files, say):
    """The path of an archive with lib/modules/siw.ko for the kernel of
    `files`, an image.Image; image.Unavailable if it cannot be made."""
    cache = image.cache_directory()
    key = hashlib.sha256(pathlib.Path(__file__).read_bytes())
    key.update(f"{files.package} {files.version}".encode())

    def make():
        say(f"building siw for {files.package}")
        image.forget_old(cache, "siw-*.cpio")
        with tempfile.TemporaryDirectory(dir=cache) as scratch:
            return _make(pathlib.Path(scratch), files.package, files.version)

    return image.cached(cache / f"siw-{key.hexdigest()[:16]}.cpio", make)


def _make(scratch, package, version):
    kernel = package.removeprefix("linux-image-")
    series = re.match(r"\d+\.\d+", kernel)[0]
    headers, source = image.download(
        scratch, f"linux-headers-{kernel}={version}",
        f"linux-source-{series}={version}")
    # The headers of all flavours, and the programs that kbuild runs.
    depends = image.run("dpkg-deb", "-f", headers, "Depends").decode()
    common = re.search(r"linux-headers-\S+-common", depends)[0]
    kbuild = re.search(r"linux-kbuild-[^ ,|]+", depends)[0]
    others = image.download(scratch, f"{common}={version}",
                            f"{kbuild}={version}")
    for deb in (headers, *others):
        image.run("dpkg-deb", "-x", deb, str(scratch))
    tree = scratch / "usr" / "src" / f"linux-headers-{kernel}"
    makefile = tree / "Makefile"
    makefile.write_text(makefile.read_text().replace("/usr/src",
                                                     f"{scratch}/usr/src"))
    # Without it, kbuild makes no BTF, which would need pahole.
    (tree / "vmlinux").unlink(missing_ok=True)
    module = scratch / "siw"
    module.mkdir()
    _unpack_source(source, module)
    _make_parameters(module)
    image.run("make", "-s", "-j2", "-C", str(tree), f"M={module}",
              "CONFIG_RDMA_SIW=m", "modules")
    image.run("strip", "--strip-debug", str(module / "siw.ko"))
    cpio = image.Cpio()
    cpio.copy("lib/modules/siw.ko", module / "siw.ko")
    return cpio.bytes()


def _unpack_source(deb, into):
    """Reads the package's archive no further than siw."""
    with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", deb],
                          stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL) as process:
        with tarfile.open(fileobj=process.stdout, mode="r|") as outer:
            for member in outer:
                if member.name.endswith(".tar.xz"):
                    _unpack_folder(outer.extractfile(member), into)
                    break
        process.kill()
    if not (into / "siw_main.c").exists():
        raise image.Unavailable(f"no {FOLDER} in {deb}")


def _unpack_folder(compressed, into):
    with lzma.open(compressed) as stream, \
            tarfile.open(fileobj=stream, mode="r|") as inner:
        for member in inner:
            if FOLDER in member.name and member.isfile():
                path = into / member.name.rsplit("/", 1)[1]
                path.write_bytes(inner.extractfile(member).read())
            elif any(into.iterdir()):
                break


def _make_parameters(module):
    main, header = module / "siw_main.c", module / "siw.h"
    connect = module / "siw_cm.c"
    for flag in FLAGS:
        _replace(header, rf"extern const bool {flag};", f"extern bool {flag};")
        _replace(main, rf"const (bool {flag}( = true)?;)",
                 rf"\1\nmodule_param({flag}, bool, 0644);")
    _replace(main, r"(u_char mpa_version = .*;)",
             r"\1\nmodule_param(mpa_version, byte, 0644);")
    _replace(connect, r"static __be16 (rtr_type = .*;)",
             r"static ushort \1\nmodule_param(rtr_type, ushort, 0644);")


def _replace(path, pattern, text):
    """One place, or this is not the source that we know."""
    changed, count = re.subn(rf"^{pattern}", text, path.read_text(),
                             flags=re.M)
    if count != 1:
        raise image.Unavailable(f"{path.name}: {count} times {pattern}")
    path.write_text(changed)
