"""The packages in clean root file systems of Debian suites, and there in
unprivileged containers."""

import os
import pathlib
import shutil
import socket
import subprocess

import container
import root_system
from report import check, run as run_program

SUITES = ("bookworm", "trixie", "sid")
LOOP = ["run", "--port", "loop", "--addr", "10.9.0.1/24", "--"]
# Both ends of the shared-memory port, with the socket in the folder that the
# containers share.
ENDS = ("net_virtio_user0,server=1,path={},queue_size=1024",
        "net_vhost0,client=1,iface={}")


class System:
    """A suite's root file system and how to run programs in it."""

    def __init__(self, runtime, recipe, root):
        self.root = root
        self._runtime = runtime
        self.recipe = recipe

    def start(self, *words, **options):
        return self._runtime.start(
            self.root, [*self.recipe.entrypoint, *words],
            user=self.recipe.user, **options)

    def urnic(self, *words, **options):
        return container.finish(self.start(*words, **options))

    def version(self):
        status, said = self.urnic("--version")
        check(status == 0 and said.startswith("urnic "), said)

    def doctor(self):
        status, said = self.urnic(*self.recipe.command)
        check("OK    installation         /usr/lib/urnic/lib/" in said and
              "OK    libibverbs" in said, said)
        check(status == 0, said)

    def devices(self):
        status, said = self.urnic(*LOOP, "ibv_devinfo")
        check(status == 0 and "PORT_ACTIVE" in said, said)

    def two_containers(self):
        """Two containers with a folder in common; programs meet over the
        network of the host, as with --network=host."""
        path = self._runtime.shared / "port"
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = str(probe.getsockname()[1])
        words = []
        for number, end in enumerate(ENDS, 1):
            words.append(["run", "--port", end.format("/run/urnic/port"),
                          "--addr", f"10.1.0.{number}/24", "--",
                          "ibv_rc_pingpong", "-g", "3", "-p", port])
        server = self.start(*words[0], host_network=True)
        wait_for_listener(int(port), server)
        client = self.start(*words[1], "127.0.0.1", host_network=True)
        for process in (client, server):
            status, said = container.finish(process)
            check(status == 0 and "1000 iters" in said, said)
        path.unlink(missing_ok=True)

    def interface(self):
        """A port on an interface needs two capabilities in the network
        namespace, and the message says so."""
        words = ["run", "--port", "iface:lo", "--addr", "10.9.0.1/24", "--",
                 "ibv_devinfo"]
        _, said = self.urnic(*words)
        check("needs CAP_NET_RAW and CAP_NET_ADMIN" in said, said)
        status, said = self.urnic(
            *words, capabilities=("CAP_NET_RAW", "CAP_NET_ADMIN"))
        check(status == 0 and "PORT_ACTIVE" in said, said)

    def purge(self):
        """apt's way out leaves nothing."""
        run_program(["chroot", self.root, "dpkg", "--purge", "urnic-dbgsym",
                     "urnic-dev", "urnic-doc", "urnic"])
        left = [path for path in pathlib.Path(self.root).glob("usr/**/*")
                if "urnic" in path.name]
        check(not left, f"left: {left}")


def wait_for_listener(port, process):
    """Returns when somebody listens to the port, or the process has ended."""
    wanted = f":{port:04X} "
    while process.poll() is None:
        for table in ("tcp", "tcp6"):
            with open(f"/proc/net/{table}", encoding="ascii") as lines:
                if any(wanted in line and " 0A " in line for line in lines):
                    return
        try:
            process.wait(0.1)
        except subprocess.TimeoutExpired:
            pass


def run(report, folder, scratch, packages):
    """All suites, one after another; each root is removed before the next."""
    if os.geteuid() != 0:
        report.skip("systems", "root file systems are made by root")
        return
    recipe = root_system.Recipe(folder / "packaging/Containerfile")
    runtime = report.test("container/filter-of-podman", container.Runtime,
                          scratch)
    if runtime is None:
        return
    context = scratch / "context"
    (context / "out").mkdir(parents=True)
    (context / "out/packages").symlink_to(packages[0].parent)
    try:
        for suite in SUITES:
            try_suite(report, suite, System(runtime, recipe, scratch / suite),
                      context, packages)
    finally:
        runtime.kill_all()


def try_suite(report, suite, system, context, packages):
    made = report.test(f"{suite}/installs", lambda: root_system.make(
        suite, system.root, system.recipe, context, packages) or system)
    if made:
        report.test(f"{suite}/version", system.version)
        report.test(f"{suite}/doctor", system.doctor)
        report.test(f"{suite}/ibv_devinfo", system.devices)
        report.test(f"{suite}/two-containers", system.two_containers)
        report.test(f"{suite}/interface", system.interface)
        report.test(f"{suite}/purges", system.purge)
    shutil.rmtree(system.root, ignore_errors=True)
