"""libibverbs of later Debian suites, beside the installed one.

Fetched with apt under a configuration of its own, once, into the cache
(~/.cache/urnic/newer); nothing is installed. A suite's programs run with its C
library, too: `argv()` puts its loader in front.

Standard library only.
"""

import os
import pathlib
import shutil
import subprocess
import tempfile

MIRROR = "http://deb.debian.org/debian"
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
PACKAGES = ("libibverbs1", "ibverbs-utils", "libc6", "libnl-3-200",
            "libnl-route-3-200")
LIBRARIES = "usr/lib/x86_64-linux-gnu"


class Unavailable(Exception):
    """This machine cannot get the suite; says why."""


class Suite:
    """What has been unpacked of a suite."""

    def __init__(self, root):
        self._root = pathlib.Path(root)

    def argv(self, program, *options):
        """How to run one of its programs."""
        libraries = self._root / LIBRARIES
        return [str(libraries / "ld-linux-x86-64.so.2"), "--library-path",
                str(libraries), str(self._root / "usr/bin" / program),
                *options]

    @property
    def release(self):
        """Of rdma-core: "56.1" of libibverbs.so.1.14.56.1."""
        path = (self._root / LIBRARIES / "libibverbs.so.1").resolve()
        return path.name.split(".so.1.")[1].split(".", 1)[1]


def _run(*argv, **options):
    try:
        subprocess.run(argv, check=True, capture_output=True, text=True,
                       timeout=180, **options)
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
    command = ["apt-get", "-q"]
    for option in (f"Dir::Etc::sourcelist={apt}/sources.list",
                   "Dir::Etc::sourceparts=/nonexistent",
                   f"Dir::State={apt}/state", f"Dir::Cache={apt}/cache",
                   f"Dir::State::status={apt}/status",
                   "APT::Sandbox::User=root", "Acquire::Retries=1",
                   "APT::Update::Error-Mode=any"):
        command += ["-o", option]
    _run(*command, "update")
    _run(*command, "download", *PACKAGES, cwd=scratch)
    for package in scratch.glob("*.deb"):
        _run("dpkg", "-x", package, scratch / "root")


def get(suite):
    """The Suite of that name, from the cache where possible."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    cache = pathlib.Path(base) / "urnic" / "newer"
    root = cache / suite
    if not root.exists():
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache) as scratch:
            _fetch(suite, pathlib.Path(scratch))
            try:
                shutil.move(os.path.join(scratch, "root"), root)
            except OSError as error:
                raise Unavailable(f"{root}: {error}") from None
    return Suite(root)
