"""Packets that do not arrive: one of each opcode, and a share of all."""

import functools
import socket

import rocev2
import scenario
import suite
from scenario import OURS, SUCCESS, THEIRS, Pair, case

SIZE = 1 << 17
SEQUENCE_ERROR = 0x60  # AETH syndrome

# BTH opcode: (operation, bytes, whether it is lost on the way back)
OPCODES = {
    0x00: ("send", 5000, False), 0x01: ("send", 5000, False),
    0x02: ("send", 5000, False), 0x03: ("send-imm", 5000, False),
    0x04: ("send", 64, False), 0x05: ("send-imm", 64, False),
    0x06: ("write", 5000, False), 0x07: ("write", 5000, False),
    0x08: ("write", 5000, False), 0x09: ("write-imm", 5000, False),
    0x0A: ("write", 64, False), 0x0B: ("write-imm", 64, False),
    0x0C: ("read", 5000, False), 0x0D: ("read", 5000, True),
    0x0E: ("read", 5000, True), 0x0F: ("read", 5000, True),
    0x10: ("read", 64, True), 0x11: ("write", 64, True),
    0x12: ("add", 8, True), 0x13: ("swap", 8, False), 0x14: ("add", 8, False),
}
# The first 8 bits after the UDP header.
BTH_OPCODE = "@th,64,8"


def transfer(pair, operation, size, count, before=lambda number: None):
    """`count` operations one by one, each checked where its data goes."""
    total = 0
    pair.passive.ask("put", memory="m", at=SIZE - 8, value=0)
    for number in range(count):
        before(number)
        receives = operation.startswith("send") or operation == "write-imm"
        if receives:
            pair.passive.ask("receive", qp="q", memory="m", bytes=size,
                             id=number)
        source, sink = pair.active, pair.passive
        if operation == "read":
            source, sink = sink, source
        if operation in ("add", "swap"):
            words = {"add": dict(compare=number + 1),
                     "swap": dict(compare=total, swap=total + number + 1)}
            pair.post(operation, 8, remote_at=SIZE - 8, **words[operation])
            total += number + 1
        else:
            source.ask("fill", memory="m", bytes=size, seed=number)
            pair.post(operation, size,
                      imm=number if operation.endswith("imm") else None)
        pair.active.expect(SUCCESS)
        if receives:
            got, = pair.passive.expect(SUCCESS)
            if got.id != number or got.bytes != size:
                raise suite.Failure(f"received {got}, expected {number}")
        if operation not in ("add", "swap"):
            sink.ask("check", memory="m", bytes=size, seed=number)
    # Each was executed once, however often it was sent.
    found = int(pair.passive.ask("get", memory="m", at=SIZE - 8)["value"])
    if found != total:
        raise suite.Failure(f"after {count} times {operation}: {found}, "
                            f"expected {total}")


@case("loss/one-packet-of-each-opcode")
def one_of_each(context, lab, side):
    """The first packet with the opcode in the second of three operations is
    lost; everything arrives, once."""
    with Pair(lab, side, bytes=SIZE, timeout=14) as pair:
        for opcode, (operation, size, back) in OPCODES.items():
            def lose(number, opcode=opcode, back=back):
                if number == 1:
                    lab.drop(side if back else 1 - side,
                             f"{BTH_OPCODE} {opcode} "
                             "numgen inc mod 100000 == 0")

            try:
                transfer(pair, operation, size, 3, lose)
            except suite.Failure as failure:
                raise suite.Failure(f"opcode {opcode:#04x}: {failure}") \
                    from None
            context.check(lab.treated() == 1,
                          f"opcode {opcode:#04x}: {lab.treated()} lost")
            lab.deliver_all()


def both_ways(lab):
    """Places for a rocev2.Capture: where packets of either side are seen."""
    return [(lab.open_socket(OURS, socket.AF_PACKET, socket.SOCK_RAW), name)
            for name in ("u1", "t0")]


@case("loss/a-gap-is-answered-with-a-sequence-nak")
def sequence_nak(context, lab, side):
    """One NAK for the gap, whatever comes behind it, and what was lost is sent
    again without a time-out."""
    #= IBTA 9.7.5.2.8
    # A time-out would take 17 s.
    with Pair(lab, side, bytes=SIZE, timeout=22) as pair, \
            rocev2.Capture(both_ways(lab)) as capture:
        lab.drop(1 - side, f"{BTH_OPCODE} 0x07 numgen inc mod 100000 == 3")
        pair.active.ask("fill", memory="m", bytes=30000, seed=1)
        pair.post("write", 30000)
        pair.active.expect(SUCCESS, seconds=15)
        pair.passive.ask("check", memory="m", bytes=30000, seed=1)
    naks = [packet for packet in capture.packets()
            if packet.opcode == rocev2.ACKNOWLEDGE and
            packet.l3[-8] == SEQUENCE_ERROR]
    context.check(len(naks) == 1, f"{len(naks)} sequence NAKs")


@case("loss/the-peer-ignores-the-reserved-bits")
def reserved_bits(context, lab, side):
    """A repeated packet of ours is marked in the six bits beside FECN and BECN,
    and a sequence NAK of ours counts there what is missing. The peer, which
    sends 0, takes both as if they were 0."""
    opcode = 0x08 if side == OURS else 0x07  # the end of a write, or within it

    def lose(number):
        # The first two tell us the round trip: only then is there a probe.
        if number == 2:
            lab.drop(1 - side, f"{BTH_OPCODE} {opcode} "
                     "numgen inc mod 100000 == 0")

    # A time-out would take 17 s.
    with Pair(lab, side, bytes=SIZE, timeout=22) as pair, \
            rocev2.Capture(both_ways(lab)) as capture:
        transfer(pair, "write", 5000, 4, lose)
        lab.deliver_all()
    marked = [packet for packet in capture.packets() if packet.reserved]
    wanted = opcode if side == OURS else rocev2.ACKNOWLEDGE
    context.check([(p.opcode, p.reserved) for p in marked] == [(wanted, 1)],
                  f"marked: {[(p.opcode, p.reserved) for p in marked]}")


def share_lost(context, lab, side, percent, towards):
    """Of everything, one way or both, while operations of all kinds run."""
    with Pair(lab, side, bytes=SIZE, timeout=14, mtu=1024) as pair:
        for direction in towards:
            lab.drop(direction, f"numgen random mod 100 < {percent}")
        for operation, size in (("write", 60000), ("send", 30000),
                                ("read", 60000), ("write-imm", 20000),
                                ("add", 8), ("swap", 8), ("read", 8)):
            transfer(pair, operation, size, 6)
        context.note(f"{lab.treated()} lost")


for _percent in (1, 3, 5):
    for _name, _towards in {"to-us": (OURS,), "to-them": (THEIRS,),
                            "both-ways": (OURS, THEIRS)}.items():
        case(f"loss/{_percent}-percent-{_name}",
             core=(_percent, _name) == (3, "both-ways"))(
            functools.partial(share_lost, percent=_percent,
                              towards=_towards))


@case("loss/burst-under-loss")
def burst(_context, lab, side):
    """Eight long messages in flight at once, of each kind."""
    with Pair(lab, side, bytes=SIZE, timeout=14) as pair:
        for towards in (OURS, THEIRS):
            lab.drop(towards, "numgen random mod 100 < 2")
        for number in range(8):
            pair.passive.ask("receive", qp="q", memory="m", bytes=8000,
                             at=8000 * number, id=number)
        pair.active.ask("fill", memory="m", bytes=64000, seed=9)
        for number in range(8):
            pair.post("send", 8000, at=8000 * number, id=number)
        pair.active.expect(*[SUCCESS] * 8)
        received = pair.passive.expect(*[SUCCESS] * 8)
        if [wc.id for wc in received] != list(range(8)):
            raise suite.Failure(f"out of order: {received}")
        pair.passive.ask("check", memory="m", bytes=64000, seed=9)
        pair.passive.ask("fill", memory="m", bytes=64000, seed=10)
        for number in range(8):
            pair.post("read", 8000, at=8000 * number,
                      remote_at=8000 * number)
        pair.active.expect(*[SUCCESS] * 8)
        pair.active.ask("check", memory="m", bytes=64000, seed=10)


def share_treated(context, lab, side, treat):
    """As share_lost(), with packets that come twice or changed."""
    with Pair(lab, side, bytes=SIZE, timeout=14, mtu=1024) as pair:
        for direction in (OURS, THEIRS):
            getattr(lab, treat)(direction, "numgen random mod 100 < 4")
        for operation, size in (("write", 60000), ("send", 30000),
                                ("read", 60000), ("write-imm", 20000),
                                ("add", 8), ("swap", 8), ("read", 8)):
            transfer(pair, operation, size, 6)
        context.check(lab.treated() > 0, f"no packet was met by {treat}")
        context.note(f"{lab.treated()} packets")


for _treat in ("duplicate", "corrupt"):
    case(f"loss/4-percent-{_treat}")(
        functools.partial(share_treated, treat=_treat))
