"""Other libibverbs than the installed one, with programs of their release.

Those of later Debian suites are fetched with apt under a configuration of its
own, once, into the cache (~/.cache/urnic/newer); nothing is installed. A suite's
programs run with its C library, too: `argv()` puts its loader in front. Others
are builds of rdma-core that somebody has made (`Build`).

Standard library only.
"""

import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import zlib

MIRROR = "http://deb.debian.org/debian"
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
PACKAGES = ("libibverbs1", "ibverbs-utils", "ibverbs-providers",
            "librdmacm1t64", "rdmacm-utils",
            "perftest", "libibumad3", "libpci3", "libudev1", "libcap2",
            "zlib1g", "libc6", "libnl-3-200", "libnl-route-3-200")
# For rdma-core's own tests: rdma-core ships them, and pyverbs is built for one
# release of Python.
PYVERBS = ("python3-pyverbs", "rdma-core", "libexpat1", "libffi8", "libuuid1",
           "libbz2-1.0", "liblzma5", "libzstd1")
PYTHON = ("python{}-minimal", "libpython{}", "libpython{}-stdlib",
          "libpython{}-minimal")
LIBRARIES = "usr/lib/x86_64-linux-gnu"


class Unavailable(Exception):
    """This machine cannot get the suite; says why."""


def _release(libraries):
    """Of rdma-core: "56.1" of libibverbs.so.1.14.56.1."""
    path = (libraries / "libibverbs.so.1").resolve()
    return path.name.split(".so.1.")[1].split(".", 1)[1]


class Suite:
    """What has been unpacked of a suite."""

    def __init__(self, root):
        self.root = pathlib.Path(root)
        self.release = _release(self.root / LIBRARIES)

    def argv(self, program, *options):
        """How to run one of its programs."""
        return self.with_libraries([str(self.root / "usr/bin" / program),
                                    *options])

    def with_libraries(self, argv):
        """How to run an installed program with its libraries, where it has
        them."""
        libraries = self.root / LIBRARIES
        return [str(libraries / "ld-linux-x86-64.so.2"), "--library-path",
                str(libraries), shutil.which(argv[0]), *argv[1:]]

    def python(self):
        """How to run its Python, with its pyverbs."""
        home = self.root / "usr"
        program = next((home / "bin").glob("python3.*"))
        return ["env", f"PYTHONHOME={home}",
                f"PYTHONPATH={home / 'lib/python3/dist-packages'}",
                "PYTHONDONTWRITEBYTECODE=1", *self.argv(program.name)]


class Build:
    """A build of rdma-core, in its build folder or installed under a prefix,
    for the C library of this machine."""

    def __init__(self, root):
        self._root = pathlib.Path(root)
        if not (self._root / "lib/libibverbs.so.1").exists():
            raise Unavailable(f"{root} has no lib/libibverbs.so.1")
        self.release = _release(self._root / "lib")

    def argv(self, program, *options):
        """How to run one of its programs."""
        return ["env", f"LD_LIBRARY_PATH={self._root / 'lib'}",
                str(self._root / "bin" / program), *options]


def _run(*argv, **options):
    try:
        return subprocess.run(argv, check=True, capture_output=True, text=True,
                              timeout=180, **options).stdout
    except FileNotFoundError:
        raise Unavailable(f"{argv[0]} is not installed") from None
    except subprocess.TimeoutExpired:
        raise Unavailable(f"{argv[0]} took more than 180 s") from None
    except subprocess.CalledProcessError as error:
        last = (error.stderr.strip() or "no message").split("\n")[-1]
        raise Unavailable(f"{argv[0]}: {last}") from None


def _fetch(suite, scratch):
    apt = scratch / "apt"
    for name in ("state/lists/partial", "cache/archives/partial"):
        (apt / name).mkdir(parents=True)
    (apt / "status").touch()
    (apt / "sources.list").write_text(
        f"deb [signed-by={KEYRING}] {MIRROR} {suite} main\n",
        encoding="ascii")
    options = []
    for option in (f"Dir::Etc::sourcelist={apt}/sources.list",
                   "Dir::Etc::sourceparts=/nonexistent",
                   f"Dir::State={apt}/state", f"Dir::Cache={apt}/cache",
                   f"Dir::State::status={apt}/status",
                   "APT::Sandbox::User=root", "Acquire::Retries=1",
                   "APT::Update::Error-Mode=any"):
        options += ["-o", option]
    _run("apt-get", "-q", *options, "update")
    needs = _run("apt-cache", *options, "show", "python3-pyverbs")
    python = re.search(r"libpython(3\.\d+)", needs).group(1)
    _run("apt-get", "-q", *options, "download", *PACKAGES, *PYVERBS,
         *(name.format(python) for name in PYTHON), cwd=scratch)
    for package in scratch.glob("*.deb"):
        _run("dpkg", "-x", package, scratch / "root")


def get(suite):
    """The Suite of that name, from the cache where possible."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    cache = pathlib.Path(base) / "urnic" / "newer"
    wanted = zlib.crc32(" ".join((*PACKAGES, *PYVERBS, *PYTHON)).encode())
    root = cache / f"{suite}-{wanted:08x}"
    if not root.exists():
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache) as scratch:
            _fetch(suite, pathlib.Path(scratch))
            try:
                shutil.move(os.path.join(scratch, "root"), root)
            except OSError as error:
                raise Unavailable(f"{root}: {error}") from None
    return Suite(root)
