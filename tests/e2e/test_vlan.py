"""VLANs: `--port 'iface:u0|vlan=7'` in a world where the kernel has them, too."""

import ipaddress
import os
import socket
import struct
import time

import bed
import rocev2
import suite
from test_addresses import await_device
from test_wire import check_with_tshark, tshark

VLAN = 7
# DSCP CS3, whose class selector is priority 3.
TRAFFIC_CLASS = 0x60
PRIORITY = 3


class VlanBed(bed.VethBed):
    """The RNICs talk in a VLAN, the kernels beside it."""

    def _make(self):
        super()._make()
        for side in self.sides:
            side.dev += f"|vlan={VLAN}"

    def add_kernel_vlan(self, side, vlan, *addresses):
        """A VLAN interface of the kernel's, on the same cable."""
        name = f"{self.interface}.{vlan}"
        at = ["ip", "-n", self.sides[side].namespace]
        bed.command(*at, "link", "add", "link", self.interface, "name", name,
                    "type", "vlan", "id", str(vlan))
        for address in addresses:
            bed.command(*at, "addr", "add", address, "dev", name,
                        *(["nodad"] if ":" in address else []))
        bed.command(*at, "link", "set", name, "up")
        return name


def fields(path, chosen, *names):
    """What tshark says of the frames that it would show for `chosen`."""
    options = [word for name in names for word in ("-e", name)]
    return [line.split("\t") for line in
            tshark(path, "-Y", chosen, "-T", "fields", *options).splitlines()]


@suite.test("veth1500/vlan-frames-are-tagged-and-say-their-priority")
def tagged(context):
    context.need("ib_send_bw", "tshark")
    with VlanBed(context.tools, 1500) as place:
        for gid in (place.gid_v4, place.gid_v6):
            with place.capture() as capture:
                server, client = place.run_pair(
                    ["ib_send_bw", "-F", "-n", "20", "-s", "10001", "-x",
                     str(gid), "--tclass", str(TRAFFIC_CLASS)])
                context.check_ok(server, client)
            packets = capture.packets()
            context.check(all(p.icrc_is_right for p in packets), "ICRC")
            path = os.path.join(place.directory, "vlan.pcap")
            check_with_tshark(context, capture, path)
            roce = fields(path, "infiniband.bth", "vlan.id", "vlan.priority",
                          "infiniband.bth.opcode")
            context.check({0, 1, 2, 0x11} <= {int(r[2], 0) for r in roce},
                          f"opcodes {roce}")
            context.check({(r[0], r[1]) for r in roce} ==
                          {(str(VLAN), str(PRIORITY))}, f"tags {roce}")
            asked = "arp || icmpv6.type == 135 || icmpv6.type == 136"
            # The kernel's questions, for the addresses of TCP, have no tag.
            ours = [r for r in fields(path, asked, "vlan.id", "vlan.priority")
                    if r != ["", ""]]
            context.check(ours and {tuple(r) for r in ours} ==
                          {(str(VLAN), "0")}, f"neighbours {ours}")


def stranger(place, vlan):
    """What a host 10.1.0.101 sends to 10.1.0.1 in this VLAN (None: untagged):
    who has it, and a ping."""
    source = ipaddress.ip_address("10.1.0.101").packed
    dest = ipaddress.ip_address("10.1.0.1").packed
    mac = bytes.fromhex("020000000101")
    tag = b"" if vlan is None else struct.pack(">HH", rocev2.ETHERTYPE_VLAN,
                                               vlan)
    arp = (b"\xff" * 6 + mac + tag + struct.pack(">HHHBBH", 0x0806, 1, 0x0800,
                                                 6, 4, 1) +
           mac + source + bytes(6) + dest)
    echo = struct.pack(">BBHHH", 8, 0, 0, 1, vlan or 0) + bytes(range(56))
    echo = echo[:2] + struct.pack(">H", rocev2.ip_checksum(echo)) + echo[4:]
    ip = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(echo), 0, 0x4000, 64, 1,
                     0) + source + dest
    ip = ip[:10] + struct.pack(">H", rocev2.ip_checksum(ip)) + ip[12:]
    return arp, b"\xff" * 6 + mac + tag + struct.pack(">H", 0x0800) + ip + echo


@suite.test("veth1500/who-is-in-another-vlan-is-not-heard")
def foreign(context):
    """A stranger in our VLAN is answered, in it; one in another is not, and one
    in none."""
    context.need("ib_send_bw", "tshark")
    with VlanBed(context.tools, 1500) as place:
        port = place.next_port()
        server = place.spawn(
            0, ["ib_send_bw", "-F", "-x", "3", "-n", "5", "-p", str(port)],
            env={"URNIC_STATS": place.stats_path(0)})
        await_device(place, server)
        bed.await_true(lambda: server.listens(port), 20, "listening")
        wire = place.open_socket(1, socket.AF_PACKET, socket.SOCK_RAW)
        wire.bind((place.interface, 0))
        path = os.path.join(place.directory, "vlan.pcap")

        def answers(vlan):
            with place.capture() as capture:
                for frame in stranger(place, vlan):
                    wire.send(frame)
                time.sleep(0.2)
            capture.write_pcap(path)
            return fields(path, "arp.opcode == 2 || icmp.type == 0",
                          "vlan.id", "arp.src.proto_ipv4", "icmp.seq")

        bed.await_true(lambda: answers(VLAN), 10, "an answer")
        ours = answers(VLAN)
        context.check([str(VLAN), "10.1.0.1", ""] in ours and
                      [str(VLAN), "", str(VLAN)] in ours, ours)
        for vlan in (VLAN + 1, None):
            context.check(not answers(vlan), f"answered in VLAN {vlan}")
        wire.close()
        context.check_ok(
            place.run(1, ["ib_send_bw", "-F", "-x", "3", "-n", "5", "-p",
                          str(port), place.sides[0].host_address]),
            server.wait(20))
        counters, = place.read_stats(0)
        # The kernel asks for its neighbours, too.
        context.check(counters["verdicts"]["ForeignVlan"] >= 4, counters)


@suite.test("veth1500/a-kernel-vlan-interface-pings-us")
def interop(context):
    context.need("ping", "ibv_asyncwatch")
    with VlanBed(context.tools, 1500) as place:
        try:
            name = place.add_kernel_vlan(1, VLAN, "10.1.0.101/24",
                                         "fd01::101/64")
        except bed.BedError as error:
            raise suite.Skip(f"no VLANs in this kernel: {error}") from None
        watch = place.spawn(0, ["ibv_asyncwatch"])
        await_device(place, watch)
        # The tag does not reduce the MTU.
        for size, address in (("1472", "10.1.0.1"), ("1448", "fd01::1")):
            bed.await_true(lambda s=size, a=address: place.run(
                1, ["ping", "-c", "1", "-W", "1", "-M", "do", "-s", s, "-I",
                    name, a], rnic=False).status == 0, 10,
                           f"an answer of {address}")
