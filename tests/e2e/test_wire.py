"""What is on the wire, judged by strangers: an ICRC of our own making in
Python, Linux's rules for the headers, and tshark."""

import os
import socket
import struct
import subprocess

import bed
import rocev2
import suite

# Heuristic payload dissectors, which find their protocols in our test data.
GUESSERS = ("rpcordma", "infiniband.eoib", "infiniband_sdp", "smb_direct",
            "nvme-rdma", "iser", "fcoib", "ipoib")
# RoCEv2 sends no UDP checksum. Over IPv6 that is allowed for tunnels, which
# this version of tshark does not know.
FORGIVEN = "Illegal checksum value (0)"

PROGRAMS = {
    # program: opcodes that must be seen, in both directions together
    ("ib_send_lat", "-n", "20", "-s", "64"): {0x04, 0x11},
    ("ib_send_bw", "-n", "20", "-s", "10001"): {0x00, 0x01, 0x02, 0x11},
    ("ib_write_bw", "-n", "20", "-s", "10001"): {0x06, 0x07, 0x08, 0x11},
    ("ib_write_lat", "-n", "20", "-s", "3"): {0x0A, 0x11},
    ("ib_read_bw", "-n", "20", "-s", "10001"): {0x0C, 0x0D, 0x0E, 0x0F},
    # With three bytes of padding. tshark takes a payload whose third and fourth
    # byte are zero for an Ethernet frame, and a random first byte of 0x81 for a
    # VLAN: so not of one byte.
    ("ib_read_lat", "-n", "20", "-s", "5"): {0x0C, 0x10},
    ("ib_atomic_lat", "-n", "20"): {0x14, 0x12},
    ("ib_atomic_bw", "-n", "20", "-A", "CMP_AND_SWAP"): {0x13, 0x12},
}
# Those with long messages, for the beds where only the MTU or the family
# differs.
LONG = [argv for argv in PROGRAMS if "10001" in argv]


def record(context, place, gid, programs):
    """The frames of the programs on one bed: {program: Capture}."""
    captures = {}
    for argv in programs:
        context.need(argv[0])
        with place.capture() as capture:
            server, client = place.run_pair([*argv, "-x", str(gid), "-F"])
            context.check_ok(server, client)
        context.check(capture.dropped == 0, "the capture lost frames")
        captures[argv] = capture
    return captures


def check_packet(context, packet, path_mtu):
    """One packet against the rules that rxe and hardware keep."""
    where = f"opcode {packet.opcode:#x} psn {packet.psn}: "
    context.check(packet.icrc_is_right, where + "ICRC")
    context.check(packet.version == 0, where + "version")
    context.check(packet.migrated, where + "MigReq must be 1 (kernel peers)")
    context.check(packet.pkey == 0xFFFF, where + "P_Key")
    context.check((packet.payload_bytes + packet.pad) % 4 == 0,
                  where + "padding")
    context.check(0 <= packet.payload_bytes <= path_mtu,
                  where + f"{packet.payload_bytes} bytes of payload")
    if packet.is_v1:
        context.check(packet.l3[0] >> 4 == 6, where + "GRH version")
        return
    source_port, _, _, checksum = struct.unpack(">HHHH", packet.udp)
    context.check(source_port >= 0xC000, where + f"source port {source_port}")
    context.check(checksum == 0, where + "UDP checksum")
    if not packet.is_ipv6:
        header = packet.l3[:20]
        context.check(rocev2.ip_checksum(header) == 0, where + "IP checksum")
        context.check(header[6] & 0x40, where + "DF")
        context.check(header[4:6] == b"\0\0", where + "identification")


def tshark(path, *options):
    disabled = [word for name in GUESSERS
                for word in ("--disable-protocol", name)]
    done = subprocess.run(["tshark", "-r", path, *disabled, *options],
                          capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise suite.Failure(f"tshark: {done.stderr}")
    return done.stdout


def check_with_tshark(context, capture, path):
    """tshark finds nothing wrong, and reads the same as we do."""
    capture.write_pcap(path)
    for line in tshark(path, "-q", "-z", "expert,warn").splitlines():
        columns = line.split(None, 2)
        if len(columns) == 3 and columns[0].isdigit():
            # The programs' TCP connections are not checked.
            context.check(FORGIVEN in line or " TCP " in line,
                          f"tshark, {path}: {line}")
    fields = ["infiniband.bth.opcode", "infiniband.bth.psn",
              "infiniband.bth.destqp", "infiniband.invariant.crc"]
    text = tshark(path, "-Y", "infiniband", "-T", "fields",
                  *[word for name in fields for word in ("-e", name)])
    theirs = [tuple(int(word, 0) for word in line.split("\t"))
              for line in text.splitlines()]
    ours = [(packet.opcode, packet.psn, packet.qpn,
             int.from_bytes(packet.l3[-4:], "big"))
            for packet in capture.packets()]
    context.check(theirs == ours, f"tshark reads {theirs[:3]}, not {ours[:3]}")


# pylint: disable-next=too-many-arguments
def judge(context, interface_mtu, path_mtu, family, programs, v1=False):
    context.need("tshark")
    with bed.VethBed(context.tools, interface_mtu) as place:
        gid = place.gid_v4 if family == 4 else place.gid_v6
        if v1:
            gid -= 1  # Linux's order: each GID as v1, then as v2
        captures = record(context, place, gid, programs)
        total = 0
        for argv, capture in captures.items():
            packets = capture.packets()
            for packet in packets:
                context.check(packet.is_v1 == v1, f"{argv}: wrong version")
                context.check(":" in packet.src if family == 6 or v1 else
                              not packet.is_ipv6,
                              f"{argv}: wrong address family")
                check_packet(context, packet, path_mtu)
            seen = {packet.opcode for packet in packets}
            context.check(seen >= PROGRAMS[argv],
                          f"{argv}: opcodes {sorted(seen)}")
            context.check(len({packet.src for packet in packets}) == 2,
                          f"{argv}: only one direction")
            full = max(packet.payload_bytes for packet in packets)
            if "10001" in argv:
                context.check(full == path_mtu, f"{argv}: packets of {full}")
            check_with_tshark(context, capture,
                              os.path.join(place.directory, "wire.pcap"))
            total += len(packets)
        context.note(f"{total} packets")


suite.add("veth9000/wire-is-standard-RoCEv2",
          lambda context: judge(context, 9000, 4096, 4, PROGRAMS))
suite.add("veth1500/wire-is-standard-RoCEv2",
          lambda context: judge(context, 1500, 1024, 4, LONG), False)
suite.add("veth9000/ipv6/wire-is-standard-RoCEv2",
          lambda context: judge(context, 9000, 4096, 6, LONG))
suite.add("veth9000/wire-is-standard-RoCE-v1",
          lambda context: judge(context, 9000, 4096, 4, LONG, v1=True))
suite.add("veth9000/wire-is-standard-RoCE-v1/all-programs",
          lambda context: judge(context, 9000, 4096, 4, PROGRAMS, v1=True),
          False)
suite.add("veth1500/ipv6/wire-is-standard-RoCE-v1",
          lambda context: judge(context, 1500, 1024, 6, LONG, v1=True), False)


@suite.test("veth9000/arp-and-solicitation-are-answered-for-the-RNIC-only")
def resolver_manners(context):
    """An RNIC shares the wire with the kernel: it must not answer for the
    kernel's address, nor the kernel for the RNIC's."""
    context.need("ping", "ibv_rc_pingpong")
    with bed.VethBed(context.tools) as place:
        place.add_host_address(0, "10.1.0.101/24")
        port = place.next_port()
        server = place.spawn(1, ["ibv_rc_pingpong", "-g", "3", "-p",
                                 str(port)])
        bed.await_true(lambda: server.listens(port), 10, "listening")
        macs = {}
        for address in ("10.1.0.2", "10.77.0.2"):
            with place.capture() as capture:
                context.check_ok(place.run(0, ["ping", "-c", "1", address],
                                           rnic=False))
            answers = [frame for _, frame in capture.frames
                       if frame[12:14] == b"\x08\x06" and frame[21] == 2 and
                       socket.inet_ntoa(frame[28:32]) == address]
            senders = {frame[22:28] for frame in answers}
            context.check(len(answers) >= 1 and len(senders) == 1,
                          f"{address} is at {senders}")
            macs[address] = senders.pop()
        context.check(len(set(macs.values())) == 2,
                      f"RNIC and kernel share a MAC: {macs}")
        context.check(macs["10.1.0.2"][0] & 3 == 2,
                      "the RNIC's MAC is not locally administered")
        # The RNIC does not answer for an unused address.
        result = place.run(0, ["ping", "-c", "1", "-W", "1", "10.1.0.77"],
                           rnic=False)
        context.check(result.status != 0, result)
