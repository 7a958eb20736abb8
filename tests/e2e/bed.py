"""Test beds: where two RNICs meet, and the programs that run on them.

A bed is made of things that outlive a process (network namespaces, socket
files), so whoever makes one must remove it:

    with VethBed(tools, mtu=9000) as bed:
        server = bed.spawn(0, ["ib_write_bw", "-x", "3"])

Leaving the block kills what still runs in the bed and removes the rest, also
after an exception; main programs turn signals into exceptions, and remove what
killed harnesses have left (clean_up.py). Only processes that were started here
or that are in a bed's namespace are ever killed, by id.

Standard library only. One thread, except where a function says otherwise.
"""

import ctypes
import itertools
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time

import rocev2
# Tests have these from here, too.
from clean_up import PREFIX, RUN_NETNS, BedError, command, remove_namespace

_LIBC = ctypes.CDLL(None, use_errno=True)
_PR_SET_PDEATHSIG = 1
_CLONE_NEWNET = 0x40000000
_numbers = itertools.count()


class Died(Exception):
    """A program ended that should have gone on."""


class Timeout(Exception):
    """Something did not happen in time; a program that should have ended has
    been killed."""


class Tools:
    """The tree under test: what `./dev build` leaves in out/; and what the
    tests have built for themselves: //tests/e2e:all."""

    def __init__(self, out, built):
        self.out = pathlib.Path(out).resolve()
        self.built = built = pathlib.Path(built).resolve()
        self.echo_peer = str(built / "echo_peer")
        self.cm_many = str(built / "cm_many")
        self.cm_reconnect = str(built / "cm_reconnect")
        self.cm_survivor = str(built / "cm_survivor")
        self.late_loader = str(built / "late_loader")
        self.impair_bridge = str(built / "impair_bridge")
        self.alloc_count = str(built / "liballoc_count.so")
        self.plain_sockets = str(built / "libplain_sockets.so")
        self.qp_keeper = str(built / "qp_keeper")
        self.regcache = str(built / "regcache")
        self.allreduce = str(built / "allreduce")
        self.distribute = str(built / "distribute")
        self.rud_packets = str(built / "rud_packets")
        self.sim = str(built / "sim")
        self.urnic = str(self.out / "bin" / "urnic")
        self.perf = str(self.out / "bin" / "urnic-perf")
        self.preload = str(self.out / "lib" / "liburnic-preload.so")
        self.plugin = str(self.out / "lib" / "liburnic-rdmav34.so")

    def missing(self):
        return [path for name, path in vars(self).items()
                if not os.path.exists(path)]

    def repair(self):
        """After a test that failed: makes whole what all tests share. What
        was broken, if anything; here they share nothing."""
        return ""


class Result:
    """How a program ended. `status` is negative for a signal."""

    def __init__(self, argv, status, out, err, seconds):
        self.argv = argv
        self.status = status
        self.out = out
        self.err = err
        self.seconds = seconds

    def __str__(self):
        return (f"$ {' '.join(self.argv)}\n[status {self.status}, "
                f"{self.seconds:.1f} s]\n{self.out}{self.err}")


class Process:
    """A running program with its output in files, so that it never blocks."""

    def __init__(self, argv, directory, env=None, namespace=None):
        number = next(_numbers)
        self.argv = argv
        self._namespace = namespace
        self._started = time.monotonic()
        self._paths = [os.path.join(directory, f"{number}.{kind}")
                       for kind in ("out", "err")]
        with open(self._paths[0], "wb") as out, \
                open(self._paths[1], "wb") as err:
            # Its own process group: we pass on Ctrl-C from the terminal.
            # pylint: disable-next=consider-using-with
            self._popen = subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                env=env, process_group=0, preexec_fn=_in_child)

    @property
    def pid(self):
        return self._popen.pid

    def running(self):
        return self._popen.poll() is None

    def signal(self, number):
        """Sends a signal to this process alone, if it still runs."""
        if self.running():
            os.kill(self.pid, number)

    def output(self):
        """What it has written so far: (stdout, stderr)."""
        texts = []
        for path in self._paths:
            with open(path, "rb") as file:
                texts.append(file.read().decode(errors="replace"))
        return tuple(texts)

    def result(self):
        out, err = self.output()
        return Result(self.argv, self._popen.returncode, out, err,
                      time.monotonic() - self._started)

    def wait(self, seconds):
        """Its Result. Timeout (after killing it) if it takes longer."""
        try:
            self._popen.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            raise Timeout(f"still running after {seconds} s: "
                          f"{self.result()}") from None
        return self.result()

    def kill(self):
        """Ends it and the children it made. It may have ended already."""
        try:
            os.killpg(self.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            pass
        self._popen.wait()

    def listens(self, port):
        """True once something in its network namespace listens on TCP port.
        (`ip netns exec` starts in ours, where others may listen.)"""
        if self._namespace is not None and not _same_file(
                f"/proc/{self.pid}/ns/net", RUN_NETNS / self._namespace):
            return False
        wanted = f":{port:04X}"
        for name in ("tcp", "tcp6"):
            try:
                with open(f"/proc/{self.pid}/net/{name}",
                          encoding="ascii") as file:
                    lines = file.readlines()[1:]
            except OSError:
                continue
            for line in lines:
                field = line.split()
                if field[1].endswith(wanted) and field[3] == "0A":
                    return True
        return False

    def cpu_seconds(self):
        """User and system time of all its threads so far."""
        with open(f"/proc/{self.pid}/stat", encoding="ascii") as file:
            field = file.read().rsplit(")", 1)[1].split()
        return (int(field[11]) + int(field[12])) / os.sysconf("SC_CLK_TCK")


def _same_file(one, other):
    try:
        return os.path.samefile(one, other)
    except OSError:
        return False


def _in_child():
    """Ends with us, and by Ctrl-C as at a terminal: a shell's `&` makes what it
    starts ignore that, and their children as well."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)


def await_true(condition, seconds, what):
    """Polls `condition` every few milliseconds; Timeout names `what`."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise Timeout(f"{what}: not within {seconds} s")
        time.sleep(0.005)


class Side:
    """One end of a bed: an RNIC, and the host it lives in."""

    def __init__(self, dev, addresses, namespace, host_address):
        self.dev = dev
        self.addresses = addresses  # the RNIC's, "IP/LEN"
        self.namespace = namespace  # None: the harness's
        self.host_address = host_address  # the kernel's: for TCP


class Bed:
    """What all beds share; use one of the classes below."""

    name = ""  # for the lines of a report
    # The indices of the first IPv4 and the first IPv6 address in the GID table,
    # in Linux's order (verbs/identity/device_identity.h).
    gid_v4 = 3
    gid_v6 = 5

    def __init__(self, tools):
        self.tools = tools
        self.sides = []
        self.mtu_option = None
        self.transport = None  # urnic run's --transport
        self.directory = None
        self._id = f"{PREFIX}-{os.getpid()}-{next(_numbers)}"
        self._namespaces = []
        self._processes = []
        self._port = 20000 + os.getpid() % 20000

    def __enter__(self):
        self.directory = tempfile.mkdtemp(prefix=self._id + "-")
        try:
            self._make()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(self, *_unused):
        self.kill_all()
        for name in self._namespaces:
            try:
                remove_namespace(name)
            except BedError as error:
                print(f"# leftover {error}")
        self._namespaces = []
        if self.directory is not None:
            shutil.rmtree(self.directory, ignore_errors=True)
            self.directory = None

    def _make(self):
        raise NotImplementedError

    def _add_namespace(self, suffix):
        name = f"{self._id}-{suffix}"
        command("ip", "netns", "add", name)
        self._namespaces.append(name)
        command("ip", "-n", name, "link", "set", "lo", "up")
        return name

    def stats_path(self, side):
        """For URNIC_STATS; see verbs/control/stats_file.h."""
        return os.path.join(self.directory, f"stats.{side}")

    def read_stats(self, side):
        """The counters of each device that was closed with stats_path()."""
        with open(self.stats_path(side), encoding="ascii") as file:
            return [json.loads(line) for line in file]

    def next_port(self):
        """A TCP port nobody has used in this bed."""
        self._port += 1
        return self._port

    def peer(self, side):
        return 1 - side

    def in_namespace(self, side, argv):
        name = self.sides[side].namespace
        return ["ip", "netns", "exec", name, *argv] if name else list(argv)

    def run_options(self, side):
        """The options of `urnic run` for this side's RNIC."""
        end = self.sides[side]
        options = ["--port", end.dev]
        for address in end.addresses:
            options += ["--addr", address]
        if self.mtu_option is not None:
            options += ["--mtu", str(self.mtu_option)]
        if self.transport is not None:
            options += ["--transport", self.transport]
        return options

    def spawn(self, side, argv, env=None, wrap=(), rnic=True):
        """Starts a program on the side's RNIC (or, without `rnic`, just in its
        namespace), behind `wrap` (taskset, strace, ..)."""
        command = list(argv)
        if rnic:
            command = [self.tools.urnic, "run", *self.run_options(side), "--",
                       *command]
        command = self.in_namespace(side, [*wrap, *command])
        process = Process(command, self.directory,
                          None if env is None else {**os.environ, **env},
                          self.sides[side].namespace)
        self._processes.append(process)
        return process

    def run(self, side, argv, seconds=30, **options):
        return self.spawn(side, argv, **options).wait(seconds)

    def spawn_pair(self, argv, server_options=None, client_options=None,
                   server_side=0, seconds=20, port=None, common=True):
        """A perftest-like pair: the server, and once that listens, the client
        with the server's address behind. Returns (server, client)."""
        port = port if port is not None else self.next_port()
        options = [*argv, "-p", str(port)] if common else list(argv)
        server = self.spawn(server_side, options, **(server_options or {}))
        await_true(lambda: server.listens(port) or not server.running(),
                   seconds, f"{argv[0]} listening")
        if not server.running():
            raise Died(f"the server ended: {server.result()}")
        address = self.sides[server_side].host_address
        client = self.spawn(self.peer(server_side), [*options, address],
                            **(client_options or {}))
        return server, client

    def run_pair(self, argv, seconds=30, **options):
        """Both Results of a pair that ends by itself: (server, client)."""
        server, client = self.spawn_pair(argv, **options)
        end = time.monotonic() + seconds
        try:
            client_result = client.wait(seconds)
        except Timeout as error:
            server.kill()
            raise Timeout(f"{error}\nserver: {server.result()}") from None
        # The server of a failed client waits forever.
        rest = max(5, end - time.monotonic()) if client_result.status == 0 \
            else 3
        try:
            return server.wait(rest), client_result
        except Timeout as error:
            raise Timeout(f"{error}\nclient: {client_result}") from None

    def kill_all(self):
        for process in self._processes:
            process.kill()
        self._processes = []

    def share_addresses(self):
        """Gives the kernel the RNICs' addresses, too: for programs that make a
        socket of the address that they use for RDMA, or look for it among the
        interfaces. On an interface that leads nowhere (a dummy would do, but
        not every kernel has them). Needs root."""
        for name in dict.fromkeys(side.namespace for side in self.sides):
            command("ip", "-n", name, "link", "add", "rnic", "up", "type",
                    "veth", "peer", "name", "nobody")
            command("ip", "-n", name, "link", "set", "nobody", "up")
        for side in self.sides:
            for address in side.addresses:
                command("ip", "-n", side.namespace, "addr", "add",
                        address.split("/")[0], "dev", "rnic",
                        *(["nodad"] if ":" in address else []))

    def open_socket(self, side, family, kind, protocol=0):
        """A socket in the side's namespace."""
        name = self.sides[side].namespace
        if name is None:
            return socket.socket(family, kind, protocol)
        return open_socket_in(name, family, kind, protocol)


def open_socket_in(namespace, family, kind, protocol=0):
    """A socket in a named network namespace. (A thread of its own goes there,
    since a namespace belongs to a thread.)"""
    made = []

    def enter_and_open():
        try:
            with open(RUN_NETNS / namespace, "rb") as file:
                if _LIBC.setns(file.fileno(), _CLONE_NEWNET) != 0:
                    raise OSError(ctypes.get_errno(), f"setns {namespace}")
            made.append(socket.socket(family, kind, protocol))
        except OSError as error:
            made.append(error)

    thread = threading.Thread(target=enter_and_open)
    thread.start()
    thread.join()
    if isinstance(made[0], OSError):
        raise made[0]
    return made[0]


class VethBed(Bed):
    """Two hosts: network namespaces joined by a veth pair, the RNICs on the
    kernel's interfaces through packet sockets. Needs root. The kernel's own
    addresses on the same wire carry the programs' TCP connections."""

    interface = "u0"
    hosts = "ab"  # the last letters of their namespaces

    def __init__(self, tools, mtu=9000):
        super().__init__(tools)
        self.name = f"veth{mtu}"
        self.mtu = mtu

    def _make(self):
        names = [self._add_namespace(suffix) for suffix in self.hosts]
        self.sides = [
            Side(f"iface:{self.interface}",
                 [f"10.1.0.{n}/24", f"fd01::{n}/64"], name, f"10.77.0.{n}")
            for n, name in enumerate(names, 1)]
        self.join()

    def _add_cable(self, a, b, name_b):
        """From our interface in namespace `a` to another in `b`."""
        command("ip", "-n", a, "link", "add", self.interface, "type", "veth",
                "peer", "name", name_b, "netns", b)

    def _bring_up(self, namespace, interface):
        # The kernel's frames must look as on a wire: with checksums, and no
        # longer than the MTU.
        command("ip", "netns", "exec", namespace, "ethtool", "-K", interface,
                "tx", "off", "rx", "off", "tso", "off", "gso", "off", "gro",
                "off")
        command("ip", "-n", namespace, "link", "set", interface, "mtu",
                str(self.mtu), "up")

    def _connect(self):
        a, b = (side.namespace for side in self.sides)
        self._add_cable(a, b, self.interface)

    def join(self):
        """Makes the cable; also after unplug()."""
        self._connect()
        for n, side in enumerate(self.sides, 1):
            at = ["ip", "-n", side.namespace]
            self._bring_up(side.namespace, self.interface)
            command(*at, "addr", "add", f"10.77.0.{n}/24", "dev",
                     self.interface)
            command(*at, "addr", "add", f"fd77::{n}/64", "dev",
                     self.interface, "nodad")

    def unplug(self):
        """Removes the interfaces of both sides, as when a NIC is pulled."""
        command("ip", "-n", self.sides[0].namespace, "link", "del",
                 self.interface)

    def set_link(self, side, state):
        command("ip", "-n", self.sides[side].namespace, "link", "set",
                 self.interface, state)

    def set_mtu(self, side, mtu):
        command("ip", "-n", self.sides[side].namespace, "link", "set",
                 self.interface, "mtu", str(mtu))

    def add_host_address(self, side, address):
        command("ip", "-n", self.sides[side].namespace, "addr", "add",
                 address, "dev", self.interface,
                 *(["nodad"] if ":" in address else []))


    def share_addresses(self):
        super().share_addresses()
        for n, side in enumerate(self.sides):
            other = self.sides[1 - n]
            # By default the kernel answers on the cable for all its addresses.
            command(*self.in_namespace(n, [
                "sysctl", "-qw", "net.ipv4.conf.all.arp_ignore=1"]))
            gateways = (other.host_address, f"fd77::{2 - n}")
            for address, gateway, own in zip(other.addresses, gateways,
                                             side.addresses):
                command("ip", "-n", side.namespace, "route", "replace",
                        address.split("/")[0], "via", gateway, "src",
                        own.split("/")[0])

    def capture(self):
        """A rocev2.Capture of what passes the cable, both ways."""
        return rocev2.Capture([
            (self.open_socket(side, socket.AF_PACKET, socket.SOCK_RAW),
             self.interface) for side in (0, 1)])


class OneHostBed(VethBed):
    """Both ends of the cable in one namespace, as when two processes of one
    host have a NIC each. The programs' own connections use the loopback
    interface."""

    def __init__(self, tools, mtu=9000):
        super().__init__(tools, mtu)
        self.name = "onehost"

    def _make(self):
        name = self._add_namespace("a")
        self.sides = [
            Side(f"iface:u{n - 1}", [f"10.1.0.{n}/24", f"fd01::{n}/64"], name,
                 "127.0.0.1") for n in (1, 2)]
        self._add_cable(name, name, "u1")
        for interface in ("u0", "u1"):
            self._bring_up(name, interface)


class SocketBed(Bed):
    """Two processes of one host whose DPDK ports meet at a unix socket. As
    root in a namespace of its own, so that port claims and TCP ports do not
    meet those of other programs."""

    pairs = {
        "vhost": ("net_virtio_user0,server=1,path={},queue_size=1024",
                  "net_vhost0,iface={},client=1"),
        "vhost-swapped": ("net_vhost0,iface={},client=1",
                          "net_virtio_user0,server=1,path={},queue_size=1024"),
        "memif": ("net_memif0,role=server,socket={},socket-abstract=no",
                  "net_memif0,role=client,socket={},socket-abstract=no"),
    }

    def __init__(self, tools, kind="vhost"):
        super().__init__(tools)
        self.name = kind
        self._kind = kind

    def _make(self):
        name = self._add_namespace("a") if os.geteuid() == 0 else None
        path = os.path.join(self.directory, "port.sock")
        self.sides = [
            Side(dev.format(path), [f"10.1.0.{n}/24", f"fd01::{n}/64"], name,
                 "127.0.0.1")
            for n, dev in enumerate(self.pairs[self._kind], 1)]


class LoopBed(Bed):
    """One RNIC that only talks to itself."""

    name = "loop"

    def _make(self):
        name = self._add_namespace("a") if os.geteuid() == 0 else None
        self.sides = [Side("loop", ["10.1.0.1/24", "fd01::1/64"], name,
                           "127.0.0.1")]
