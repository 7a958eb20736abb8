"""The peer: a virtual machine whose Linux kernel has rxe, and the wire to it.

    namespace   u0 ---- u1 [bridge b0] t0 ---- QEMU: eth0, rxe0
                RNIC    ^ us to them   ^ them to us

siw_vm.py has the same machine with siw.

Our programs run with `--port iface:u0` as on the veth bed of tests/e2e. The
bridge stands between because what a packet socket sends and receives passes no
filter on its own interface: loss happens where frames enter the bridge.
"""

import json
import os
import pathlib
import select
import shlex
import socket
import stat
import subprocess
import time

import bed
import image
import suite

HERE = pathlib.Path(__file__).resolve().parent
AGENT_PORT = 7000  # guest/agent.py
GUEST = 1  # the number of the side; 0 is ours
BOOT_SECONDS = 180
MOST_BOOTS = 4
CONSOLE_LINES = 60  # an oops of the kernel and what led to it
CORRUPT_AT = 8 + 10  # from the UDP header on: the middle of the PSN
OFFLOADS = ("csum", "gso", "guest_csum", "guest_tso4", "guest_tso6",
            "guest_ecn", "guest_ufo", "host_tso4", "host_tso6", "host_ecn",
            "host_ufo")


class GuestGone(Exception):
    """The guest does not answer any more."""


class GuestProcess:
    """A shell script that runs in the guest; like bed.Process."""

    def __init__(self, lab, script, seconds):
        self.argv = ["guest:", script]
        self._begin = time.monotonic()
        self._seconds = seconds
        self._lab = lab
        self._connection = lab.connect()
        request = {"run": script, "seconds": seconds}
        self._connection.sendall(json.dumps(request).encode() + b"\n")

    def wait(self, _seconds=None):
        """Its Result; Timeout if the agent had to kill it, which keeps the
        time from its start."""
        try:
            self._await_answer()
            # The answer comes in one piece when the script has ended.
            self._connection.settimeout(30)
            with self._connection.makefile("rb") as stream:
                head = stream.readline()
                text = stream.read().decode(errors="replace")
        except OSError as error:
            raise GuestGone(f"{self.argv}: {error}") from None
        finally:
            self._connection.close()
        if not head:
            raise GuestGone(f"{self.argv}: the connection closed")
        result = bed.Result(self.argv, json.loads(head)["status"], text, "",
                            time.monotonic() - self._begin)
        if result.status == 124:
            raise bed.Timeout(str(result))
        return result

    def _await_answer(self):
        """A guest that panics ends without a word to its connections."""
        end = self._begin + self._seconds + 30  # the agent has killed it by
        while self.running(1):
            if not self._lab.qemu.running():
                raise OSError("the machine has ended")
            if time.monotonic() > end:
                raise OSError("the agent does not answer")

    def running(self, patience=0):
        # The agent answers when the script has ended.
        return not select.select([self._connection], [], [], patience)[0]

    def kill(self):
        self._connection.close()


class Lab(bed.Bed):
    """The bed of all tests: one guest, started once, and again when it dies.
    reset() between them."""

    interface = "u0"
    mtu = 9000
    peer = "rxe"  # the driver of the guest's device; that has a 0 behind it
    packets = "udp dport 4791"  # what the two RNICs send each other, for nft
    # What the agent is told for a scenario's program: README.md.
    verbs_program = {"verbs": True}

    def __init__(self, tools, say):
        super().__init__(tools)
        self.name = self.peer
        self.guest_gid = {}  # "v4", "v6": index in the guest's table
        self.qemu = None
        self.abilities = None  # for scenario.abilities()
        self._say = say
        self._files = None
        self._boots = 0
        self._guests = []

    # Making it.

    def _make(self):
        self._files = self._build_image()
        name = self._add_namespace("a")
        self.sides = [
            bed.Side(f"iface:{self.interface}", ["10.1.0.1/24", "fd01::1/64"],
                     name, "10.77.0.1"),
            bed.Side(f"{self.peer}0", ["10.1.0.2/24", "fd01::2/64"], None,
                     "10.77.0.2")]
        self._ip("link", "add", "b0", "type", "bridge", "mcast_snooping", "0")
        self._ip("link", "add", self.interface, "type", "veth", "peer",
                 "name", "u1")
        self._ip("tuntap", "add", "t0", "mode", "tap")
        # Frames as on a wire: with checksums, and no longer than the MTU.
        bed.command(*self.in_namespace(0, [
            "ethtool", "-K", self.interface, "tx", "off", "rx", "off", "tso",
            "off", "gso", "off", "gro", "off"]))
        for port in ("u1", "t0"):
            self._ip("link", "set", port, "master", "b0")
        self._set_mtu_here(self.mtu)
        for port in ("u1", "t0", "b0", self.interface):
            self._ip("link", "set", port, "up")
        self._ip("addr", "add", "10.77.0.1/24", "dev", self.interface)
        self._boot()

    def _build_image(self):
        return image.build(self._say)

    def _ip(self, *argv):
        bed.command("ip", "-n", self.sides[0].namespace, *argv)

    def _set_mtu_here(self, mtu):
        for port in ("u1", "t0", "b0", self.interface):
            self._ip("link", "set", port, "mtu", str(mtu))

    def _boot(self):
        initrd = os.path.join(self.directory, "initrd")
        with open(initrd, "wb") as out:
            for path in self._files.archives:
                out.write(path.read_bytes())
            out.write(self._guest_archive())
        addresses = ["10.77.0.2/24", *self.sides[GUEST].addresses]
        # Not KVM: TCG is the same everywhere, and fast enough. Without CX16: in
        # QEMU 7.2, CMPXCHG16B, with which Linux allocates packets, may leave an
        # address in EFLAGS, and the next interrupt is a double fault
        # (README.md).
        argv = [
            "qemu-system-x86_64", "-M", "q35", "-accel", "tcg,tb-size=128",
            "-cpu", "max,-cx16", "-smp", "1", "-m", "512", "-nodefaults",
            "-no-user-config", "-display", "none", "-no-reboot",
            "-kernel", str(self._files.vmlinux), "-initrd", initrd,
            "-serial", f"file:{self.directory}/console",
            "-netdev", "tap,id=n0,ifname=t0,script=no,downscript=no",
            "-device", "virtio-net-pci,netdev=n0,mac=52:54:00:00:00:02,"
            f"romfile=,host_mtu={self.mtu}," +
            ",".join(f"{name}=off" for name in OFFLOADS),
            # An oops may leave the driver half dead: a panic is noticed.
            "-append", "console=ttyS0 quiet oops=panic panic=-1 nokaslr "
            "mitigations=off "
            "tsc=reliable no_timer_check random.trust_cpu=on "
            f"vm.rdma={self.peer} vm.mtu={self.mtu} "
            f"vm.address={','.join(addresses)}"]
        begin = time.monotonic()
        self._boots += 1
        self.qemu = self.spawn(0, argv, rnic=False)
        self._await_agent()
        os.unlink(initrd)
        self._await_device()
        self._say(f"{self._files.package}, {self.peer}: booted in "
                  f"{time.monotonic() - begin:.1f} s")

    def _await_agent(self):
        end = time.monotonic() + BOOT_SECONDS
        while True:
            try:
                if self.run_guest("true", 20).status == 0:
                    return
            except (OSError, GuestGone):
                pass
            if not self.qemu.running() or time.monotonic() > end:
                raise bed.BedError("the guest does not come up: "
                                   f"{self.qemu.result()}\n"
                                   f"{self.console()[-3000:]}")
            time.sleep(0.2)

    def _await_device(self):
        """The kernel fills the table some time after the address is there."""
        wanted = {"v4": "10.1.0.2", "v6": "fd01::2"}

        def complete():
            said = self.run_guest("cd /guest && python3 gids.py")
            if said.status != 0:
                raise bed.BedError(str(said))
            found = json.loads(said.out)
            self.guest_gid = {family: found.get(address)
                              for family, address in wanted.items()}
            return None not in self.guest_gid.values()

        bed.await_true(complete, 60, "the guest's GIDs")

    def _guest_archive(self):
        """guest/ as it is now: changes there need no new image."""
        cpio = image.Cpio()
        cpio.copy("init", HERE / "guest" / "init")
        for path in (HERE / "guest").glob("*.py"):
            cpio.file(f"guest/{path.name}", path.read_bytes(), stat.S_IRUSR)
        return cpio.bytes()

    # Using it.

    def console(self):
        """What the guest's kernel and its agent have said."""
        path = pathlib.Path(self.directory, "console")
        return path.read_text(errors="replace")

    def gid_index(self, side, family):
        if side == GUEST:
            return self.guest_gid[family]
        return self.gid_v4 if family == "v4" else self.gid_v6

    def connect(self):
        """A connection to the guest's agent."""
        if not self.qemu.running():
            raise GuestGone("the machine has ended")
        connection = bed.open_socket_in(
            self.sides[0].namespace, socket.AF_INET, socket.SOCK_STREAM)
        connection.settimeout(20)
        try:
            connection.connect((self.sides[GUEST].host_address, AGENT_PORT))
        except OSError:
            connection.close()
            raise
        connection.settimeout(None)
        return connection

    def spawn_guest(self, script, seconds=120):
        process = GuestProcess(self, script, seconds)
        self._guests.append(process)
        return process

    def run_guest(self, script, seconds=120):
        return self.spawn_guest(script, seconds).wait()

    def await_guest_listens(self, port, seconds=30):
        """Waits until something in the guest listens on a TCP port."""
        wait = (f"until grep -q ':{port:04X} 0*:0000 0A' /proc/net/tcp "
                "/proc/net/tcp6; do sleep 0.1; done")
        self.run_guest(wait, seconds)

    def run_two(self, server_side, argv, client_argv=None, seconds=120,
                port=None):
        """The Results (server, client) of a pair of programs, one here and
        one in the guest. `argv` is a function of the side; the server's
        address is put behind the client's."""
        port = port if port is not None else self.next_port()
        server = argv(server_side, port)
        client = (client_argv or argv)(1 - server_side, port)
        client = [*client, self.sides[server_side].host_address]
        if server_side == GUEST:
            peer = self.spawn_guest(shlex.join(server), seconds)
            self.await_guest_listens(port)
            ours = self.run(0, client, seconds)
            return peer.wait(), ours
        ours = self.spawn(0, server)
        bed.await_true(lambda: ours.listens(port) or not ours.running(), 30,
                       f"{server[0]} listening")
        peer = self.run_guest(shlex.join(client), seconds)
        return ours.wait(20), peer

    # Trouble.

    def treat(self, towards, rule):
        """Applies nftables' `rule` to `packets` on their way to a side. No
        others, so that the harness keeps its connections."""
        device = "u1" if towards == GUEST else "t0"
        script = (f"table netdev rules_{device} {{ chain in {{ type filter "
                  f"hook ingress device {device} priority 0; {self.packets} "
                  f"{rule}; }}; }}")
        bed.command(*self.in_namespace(0, ["nft", script]))

    def drop(self, towards, which):
        """Drops those that `which`, an expression of nftables, matches."""
        self.treat(towards, f"{which} counter drop")

    def duplicate(self, towards, which):
        """Delivers those twice, the copy first."""
        out = "t0" if towards == GUEST else "u1"
        self.treat(towards, f'{which} counter dup to "{out}"')

    def corrupt(self, towards, which):
        """Overwrites a byte of the BTH or behind it. There is no UDP checksum
        that would tell."""
        self.treat(towards, f"{which} @th,{8 * CORRUPT_AT},8 set 0x5a counter")

    def treated(self):
        """How many frames the rules have met so far."""
        said = json.loads(bed.command(*self.in_namespace(
            0, ["nft", "-j", "list", "ruleset"])))
        return sum(part["counter"]["packets"]
                   for item in said["nftables"] if "rule" in item
                   for part in item["rule"]["expr"] if "counter" in part)

    def deliver_all(self):
        bed.command(*self.in_namespace(0, ["nft", "flush", "ruleset"]))

    def set_mtu(self, mtu):
        self._set_mtu_here(mtu)
        self.run_guest(f"/usr/bin/ip link set eth0 mtu {mtu}")

    def revive(self):
        """Boots the guest again if it has died: a fault of its kernel or of
        the emulator that runs it must not take the tests behind with it. What
        it last said, or nothing if it lives. A peer that our packets kill dies
        again when the test is repeated."""
        try:
            self.run_guest("true", 20)
            return ""
        except (OSError, GuestGone, bed.Timeout):
            pass
        last = "\n".join(self.console().splitlines()[-CONSOLE_LINES:])
        if self._boots == MOST_BOOTS:
            raise bed.BedError(f"the guest has died {MOST_BOOTS} times:\n"
                               f"{last}")
        self.reset()
        self.qemu.kill()
        self._processes.remove(self.qemu)
        self._set_mtu_here(self.mtu)
        self._boot()
        return f"the guest has died; its last words:\n{last}"

    def reset(self):
        """As after the start: nothing runs, nothing is lost."""
        for process in self._guests:
            process.kill()
        self._guests = []
        for process in self._processes:
            if process is not self.qemu:
                process.kill()
        self._processes = [self.qemu]
        self.deliver_all()
