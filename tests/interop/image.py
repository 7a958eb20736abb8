"""The guest's image, built from the distribution's packages.

Two parts, each cached and built again when what it is made of has changed:

    vmlinux, modules.cpio   out of a kernel package (apt-get download: needs a
                            network, but only once)
    programs.cpio           out of what is installed here: Python with pyverbs,
                            perftest, the tools of rdma-core, busybox

siw_module.py adds a third for the guest of siw. Nothing on this machine is changed but the cache directory. Standard library
only.
"""

import glob
import hashlib
import io
import lzma
import os
import pathlib
import re
import shutil
import stat
import subprocess
import tarfile
import tempfile
import time

# The first one that apt knows is used. rxe has FLUSH and ATOMIC_WRITE in 6.12.
KERNELS = ("linux-image-6.12-amd64", "linux-image-amd64")
# siw needs libcrc32c, which finds an algorithm by its name. guest/init loads the
# driver of the guest's device.
MODULES = ("virtio_net", "crc32_pclmul", "crc32c_generic", "libcrc32c",
           "ib_uverbs", "rdma_ucm", "rdma_rxe")

PROGRAMS = (
    "busybox", "ip", "rdma", "python3.11",
    "ibv_devinfo", "ibv_rc_pingpong", "ibv_uc_pingpong", "ibv_ud_pingpong",
    "ibv_srq_pingpong",
    "rping", "ucmatose", "udaddy", "mckey", "cmtime", "rstream", "riostream",
    "rcopy", "udpong", "rdma_server", "rdma_client",
    "ib_write_bw", "ib_write_lat", "ib_read_bw", "ib_read_lat", "ib_send_bw",
    "ib_send_lat", "ib_atomic_bw", "ib_atomic_lat", "qperf")
PROVIDERS = ("rxe", "siw")
# libstdc++ is for ../verbs_peer.cc, which siw_vm.py takes to the guest.
LIBRARIES = (*(f"libibverbs/lib{name}-rdmav34.so" for name in PROVIDERS),
             "libgcc_s.so.1", "libstdc++.so.6")
LIBRARY_FOLDERS = ("usr/lib/x86_64-linux-gnu", "lib/x86_64-linux-gnu", "lib64")
PROGRAM_FOLDERS = ("usr/bin", "bin", "usr/sbin", "sbin")
PYTHON = "usr/lib/python3.11"
# Left out: modules that our scripts do not import, and large ones.
PYTHON_WITHOUT = re.compile(
    r"/(config-[^/]*|test|tests|unittest|idlelib|lib2to3|ensurepip|tkinter|"
    r"turtle[^/]*|distutils|pydoc[^/]*|sqlite3|curses|dbm|wsgiref|xmlrpc|venv|"
    r"asyncio|email|xml|multiprocessing|html|http|_pydecimal[^/]*|"
    r"_(codecs|tkinter|sqlite|curses|decimal|ssl|hashlib|dbm|test|ctypes_test)"
    r"[^/]*\.so|mlx5|efa)(/|$)")
PYVERBS = "usr/lib/python3/dist-packages/pyverbs"
# Other checkouts share the cache: what they used a short time ago stays.
KEPT_SECONDS = 7 * 24 * 3600


class Unavailable(Exception):
    """This machine cannot make the image; says what is missing."""


class Cpio:
    """A cpio archive (newc), as the kernel unpacks it into its first root."""

    def __init__(self):
        self._out = io.BytesIO()
        self._names = set()

    def add(self, name, mode, data=b""):
        if name in self._names:
            return
        parent = os.path.dirname(name)
        if parent:
            self.folder(parent)
        self._names.add(name)
        self._entry(name, mode, data)

    def folder(self, name):
        self.add(name, stat.S_IFDIR | 0o755)

    def file(self, name, data, mode=0o644):
        self.add(name, stat.S_IFREG | mode, data)

    def link(self, name, target):
        self.add(name, stat.S_IFLNK | 0o777, target.encode())

    def copy(self, name, path):
        path = pathlib.Path(path)
        self.file(name, path.read_bytes(), path.stat().st_mode & 0o777)

    def bytes(self):
        """The finished archive. The kernel takes several, one behind the
        other; each begins at a multiple of four bytes."""
        self._entry("TRAILER!!!", 0, b"")
        return self._out.getvalue()

    def _entry(self, name, mode, data):
        fields = [len(self._names), mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0,
                  len(name) + 1, 0]
        head = b"070701" + b"".join(b"%08x" % field for field in fields)
        self._out.write(head + name.encode() + b"\0")
        self._pad()
        self._out.write(data)
        self._pad()

    def _pad(self):
        self._out.write(b"\0" * (-self._out.tell() % 4))


def cache_directory():
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return pathlib.Path(base) / "urnic" / "vm"


def run(*argv, **options):
    """What it has written; Unavailable if it cannot be run, or fails."""
    try:
        return subprocess.run(argv, check=True, capture_output=True,
                              **options).stdout
    except FileNotFoundError:
        raise Unavailable(f"{argv[0]} is not installed") from None
    except subprocess.CalledProcessError as error:
        raise Unavailable(f"{' '.join(argv)}: "
                          f"{error.stderr.decode().strip()}") from None


def download(folder, *packages):
    """Their paths in `folder`, in this order; "NAME=VERSION" is allowed."""
    run("apt-get", "-q", "-o", "APT::Sandbox::User=root", "download",
        *packages, cwd=folder)
    return [glob.glob(f"{folder}/{package.split('=')[0]}_*.deb")[0]
            for package in packages]


def write(path, data):
    """All or nothing: another run may be doing the same."""
    with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
        file.write(data)
    os.replace(file.name, path)


def forget_old(cache, pattern):
    """Removes what no run has used lately."""
    for path in cache.glob(pattern):
        try:
            if path.stat().st_mtime < time.time() - KEPT_SECONDS:
                path.unlink()
        except FileNotFoundError:
            pass  # another run has removed it


def cached(path, make):
    """`path`, with the bytes that `make` returns unless it is there."""
    if path.exists():
        os.utime(path)
    else:
        write(path, make())
    return path


class Image:
    """Paths of a finished image."""

    def __init__(self, kernel, programs):
        self.vmlinux = kernel / "vmlinux"
        self.archives = [kernel / "modules.cpio", programs]
        # The kernel's package: linux-image-.., and its version.
        self.package, self.version = kernel.name.split("_")[:2]


def build(say):
    """The Image, from the cache where possible; `say` is told of what takes
    its time. Unavailable where it cannot be made."""
    cache = cache_directory()
    cache.mkdir(parents=True, exist_ok=True)
    kernel = _kernel(cache, say)
    return Image(kernel, _programs(cache, say))


# The kernel.

def _wanted_kernel():
    """Name and version of the newest kernel package apt knows, or None."""
    for meta in KERNELS:
        found = subprocess.run(
            ["apt-cache", "--no-all-versions", "show", meta],
            capture_output=True, text=True, check=False).stdout
        name = re.search(r"^Depends: (linux-image-[^ ,]+)", found, re.M)
        version = re.search(r"^Version: (\S+)", found, re.M)
        if name and version:
            return name.group(1), version.group(1)
    return None


def _kernel(cache, say):
    """The directory of the kernel's two files: NAME_VERSION_MODULES."""
    modules = hashlib.sha256(" ".join(MODULES).encode()).hexdigest()[:8]
    wanted = _wanted_kernel()
    if wanted:
        directory = cache / f"{wanted[0]}_{wanted[1]}_{modules}"
        if directory.exists():
            return directory
        try:
            return _unpack_kernel(cache, directory, wanted[0], say)
        except Unavailable as error:
            reason = f"{error} (apt-get update?)"
    else:
        reason = f"apt knows none of {', '.join(KERNELS)} (apt-get update?)"
    # Without a network, an older kernel is used.
    older = sorted(cache.glob(f"linux-image-*_{modules}"),
                   key=os.path.getmtime)
    if not older:
        raise Unavailable(reason)
    say(f"the newest kernel is not available ({reason}): {older[-1].name}")
    return older[-1]


def _unpack_kernel(cache, directory, package, say):
    say(f"downloading {package}")
    with tempfile.TemporaryDirectory(dir=cache) as scratch:
        contents = run("dpkg-deb", "--fsys-tarfile",
                       *download(scratch, package))
        made = pathlib.Path(tempfile.mkdtemp(dir=cache))
        try:
            _unpack_into(made, contents)
            made.rename(directory)
        except OSError:
            # Another run has created it in the meantime.
            if not directory.exists():
                raise
        finally:
            shutil.rmtree(made, ignore_errors=True)
    return directory


def _unpack_into(directory, contents):
    modules, builtin, vmlinux = {}, set(), None
    with tarfile.open(fileobj=io.BytesIO(contents)) as tar:
        for member in tar:
            base = os.path.basename(member.name)
            if base.startswith("vmlinuz"):
                vmlinux = _decompress(tar.extractfile(member).read())
            elif base == "modules.builtin":
                text = tar.extractfile(member).read().decode()
                builtin = {_module_name(line) for line in text.split()}
            elif ".ko" in base and member.isfile():
                modules[_module_name(base)] = member
        if vmlinux is None:
            raise Unavailable("no kernel in the package")
        cpio, order = Cpio(), []
        for name in MODULES:
            _add_module(tar, modules, builtin, name, cpio, order)
    cpio.file("lib/modules/order",
              "".join(f"{name}.ko\n" for name in order).encode())
    write(directory / "modules.cpio", cpio.bytes())
    write(directory / "vmlinux", vmlinux)


def _module_name(path):
    return os.path.basename(path).split(".ko")[0].replace("-", "_")


def _add_module(tar, modules, builtin, name, cpio, order):
    """Adds a module behind those that it needs."""
    if name in order or name in builtin:
        return
    if name not in modules:
        raise Unavailable(f"the kernel package has no module {name}")
    data = tar.extractfile(modules[name]).read()
    if modules[name].name.endswith(".xz"):
        data = lzma.decompress(data)
    depends = re.search(rb"\0depends=([^\0]*)\0", data)
    for needed in depends.group(1).decode().split(",") if depends else ():
        if needed:
            _add_module(tar, modules, builtin, needed.replace("-", "_"), cpio,
                        order)
    order.append(name)
    cpio.file(f"lib/modules/{name}.ko", data)


def _decompress(vmlinuz):
    """The ELF file in a bzImage. QEMU starts it directly (PVH), which saves
    unpacking it under emulation."""
    for magic, argv in ((b"\x28\xb5\x2f\xfd", ["zstd", "-dcq"]),
                        (b"\xfd7zXZ\0", ["xz", "-dcq"])):
        at = vmlinuz.find(magic)
        while at >= 0:
            # Both complain about the bytes after the payload.
            out = subprocess.run(argv, input=vmlinuz[at:], check=False,
                                 capture_output=True).stdout
            if out.startswith(b"\x7fELF"):
                return out
            at = vmlinuz.find(magic, at + 1)
    raise Unavailable("no payload found in the kernel (is zstd installed?)")


# The programs.

def _programs(cache, say):
    """The archive of what is installed here, by the packages' versions."""
    key = hashlib.sha256(pathlib.Path(__file__).read_bytes())
    key.update(run("dpkg-query", "-W"))

    def make():
        say("packing programs")
        forget_old(cache, "programs-*.cpio")
        return _pack_programs()

    return cached(cache / f"programs-{key.hexdigest()[:16]}.cpio", make)


def _pack_programs():
    cpio = Cpio()
    for folder in ("proc", "sys", "dev", "tmp", "run", "root", "bin", "sbin"):
        cpio.folder(folder)
    cpio.file("etc/passwd", b"root:x:0:0:root:/root:/bin/sh\n")
    cpio.file("etc/group", b"root:x:0:\n")
    cpio.file("etc/hosts", b"127.0.0.1 localhost\n")
    for name in PROVIDERS:
        path = f"etc/libibverbs.d/{name}.driver"
        cpio.copy(path, f"/{path}")
    done = set()
    for name in PROGRAMS:
        _add_object(cpio, _find(PROGRAM_FOLDERS, name), f"usr/bin/{name}",
                    done)
    for name in LIBRARIES:
        _add_object(cpio, _find(LIBRARY_FOLDERS, name),
                    f"{LIBRARY_FOLDERS[0]}/{name}", done)
    cpio.link("usr/bin/python3", "python3.11")
    for top in (PYTHON, PYVERBS):
        if not os.path.isdir(f"/{top}"):
            raise Unavailable(f"/{top} is not there: python3-pyverbs?")
        for folder, _, files in os.walk(f"/{top}"):
            for name in files:
                path = os.path.join(folder, name)
                if PYTHON_WITHOUT.search(path):
                    continue
                if name.endswith(".so"):
                    _add_object(cpio, path[1:], None, done)
                else:
                    cpio.copy(path[1:], path)
    return cpio.bytes()


def _find(folders, name):
    for folder in folders:
        if os.path.exists(f"/{folder}/{name}"):
            return f"{folder}/{name}"
    raise Unavailable(f"{name} is not installed: ./dev packages vm")


def _add_object(cpio, path, name, done):
    """Adds a program or library, and the libraries it is linked to."""
    if path in done:
        return
    done.add(path)
    cpio.copy(name or path, f"/{path}")
    said = run("readelf", "-dlW", f"/{path}").decode()
    interpreter = re.search(r"interpreter: /(.*)\]", said)
    if interpreter:
        _add_object(cpio, interpreter.group(1), None, done)
    for needed in re.findall(r"NEEDED.*\[(.*)\]", said):
        _add_object(cpio, _find(LIBRARY_FOLDERS, needed),
                    f"{LIBRARY_FOLDERS[0]}/{needed}", done)
