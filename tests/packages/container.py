"""Unprivileged containers: crun, started by a user who is not root, with
nothing that `podman run` or `docker run` would not give by default.

Standard library only.
"""

import json
import os
import pathlib
import subprocess

# The user id that starts the containers: `nobody`.
HOST_ID = 65534
ARCHITECTURE = "amd64"
# The distribution's package with the seccomp filter of podman and docker.
SECCOMP_PACKAGE = "golang-github-containers-common"
SECCOMP_FILE = "usr/share/containers/seccomp.json"


def _tmpfs(place, *options):
    return {"destination": place, "type": "tmpfs", "source": "tmpfs",
            "options": ["nosuid", "nodev", *options]}


def seccomp(profile):
    """The part of podman's profile that holds without capabilities, as the OCI
    runtime specification wants it."""
    rules = []
    for rule in profile["syscalls"]:
        includes = rule.get("includes") or {}
        excludes = rule.get("excludes") or {}
        if (includes.get("caps") or
                ARCHITECTURE not in includes.get("arches", [ARCHITECTURE]) or
                ARCHITECTURE in excludes.get("arches", [])):
            continue
        rules.append({key: rule[key] for key in
                      ("names", "action", "args", "errnoRet")
                      if rule.get(key) is not None})
    return {"defaultAction": profile["defaultAction"],
            "defaultErrnoRet": profile["defaultErrnoRet"],
            "architectures": ["SCMP_ARCH_X86_64"], "syscalls": rules}


class Runtime:
    """Starts containers; keeps its files in `scratch`, which everyone may
    enter."""

    def __init__(self, scratch):
        self._scratch = pathlib.Path(scratch)
        self._started = []
        self.shared = self._scratch / "shared"
        self.shared.mkdir()
        os.chown(self.shared, HOST_ID, HOST_ID)
        subprocess.run(["apt-get", "-q", "-o", "APT::Sandbox::User=root",
                        "download", SECCOMP_PACKAGE], cwd=scratch, check=True,
                       capture_output=True, timeout=120)
        for package in self._scratch.glob(SECCOMP_PACKAGE + "*.deb"):
            subprocess.run(["dpkg", "-x", package, scratch], check=True)
        self._seccomp = seccomp(json.loads(
            (self._scratch / SECCOMP_FILE).read_text(encoding="utf8")))

    def _config(self, root, argv, user, capabilities, host_network):
        spaces = ["pid", "ipc", "uts", "user", "mount"]
        if not host_network:
            spaces.append("network")
        kinds = ("bounding", "effective", "inheritable", "permitted", "ambient")
        ids = [{"containerID": user, "hostID": HOST_ID, "size": 1}]
        return {
            "ociVersion": "1.0.2",
            "hostname": "container",
            "root": {"path": str(root), "readonly": True},
            "process": {
                "terminal": False, "cwd": "/", "args": argv,
                "user": {"uid": user, "gid": user},
                "env": ["PATH=/usr/sbin:/usr/bin:/sbin:/bin"],
                "noNewPrivileges": True,
                "capabilities": {kind: list(capabilities) for kind in kinds},
            },
            "mounts": [
                {"destination": "/proc", "type": "proc", "source": "proc"},
                {"destination": "/dev", "type": "tmpfs", "source": "tmpfs",
                 "options": ["nosuid", "mode=755"]},
                _tmpfs("/dev/shm", "noexec", "mode=1777", "size=65536k"),
                _tmpfs("/tmp", "mode=1777"),
                _tmpfs("/run", "mode=1777"),
                {"destination": "/run/urnic", "type": "bind",
                 "source": str(self.shared), "options": ["bind", "nosuid"]},
            ],
            "linux": {
                "namespaces": [{"type": space} for space in spaces],
                "uidMappings": ids, "gidMappings": ids,
                "seccomp": self._seccomp,
                "maskedPaths": ["/proc/acpi", "/proc/kcore", "/proc/keys"],
                "readonlyPaths": ["/proc/bus", "/proc/fs", "/proc/irq",
                                  "/proc/sys", "/proc/sysrq-trigger"],
            },
        }

    def start(self, root, argv, user=1000, capabilities=(),
              host_network=False):
        """A Popen of the program in a container on `root`, which it cannot
        write. /run/urnic is shared by all containers."""
        number = len(self._started) + 1
        bundle = self._scratch / f"bundle{number}"
        bundle.mkdir()
        (bundle / "state").mkdir()
        os.chown(bundle / "state", HOST_ID, HOST_ID)
        (bundle / "config.json").write_text(
            json.dumps(self._config(root, argv, user, capabilities,
                                    host_network)), encoding="utf8")
        # crun refuses a host with both versions of cgroups, so it is shown only
        # version 2. In a process namespace of its own, whose first process is
        # the shell: so the container ends with the process that is returned, in
        # whatever way.
        process = subprocess.Popen(
            ["unshare", "--mount", "--pid", "--fork", "--kill-child",
             "--mount-proc", "sh", "-ec",
             'mount -t cgroup2 none /sys/fs/cgroup; "$@"; exit', "sh",
             "setpriv", f"--reuid={HOST_ID}", f"--regid={HOST_ID}",
             "--clear-groups", "--no-new-privs",
             "crun", "--root", bundle / "state", "--cgroup-manager=disabled",
             "run", "--bundle", bundle, f"urnic-test-{os.getpid()}-{number}"],
            env={"PATH": os.environ["PATH"],
                 "XDG_RUNTIME_DIR": str(bundle / "state")},
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, errors="replace")
        self._started.append(process)
        return process

    def kill_all(self):
        """What still runs of all that were started."""
        for process in self._started:
            process.kill()

    def run(self, root, argv, **options):
        """(exit status, what it said)."""
        process = self.start(root, argv, **options)
        return finish(process)


def finish(process, seconds=60):
    """(exit status, what it said) of a container; -1 for one that hangs."""
    try:
        said, _ = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        said, _ = process.communicate()
        return -1, said + f"[no end after {seconds} s]\n"
    return process.returncode, said
