"""What is not a reliable connection with its own receive queue. Each case is
skipped until our RNIC lets a program create what it needs. (rxe has no XRC.)
"""

import functools
import struct

import scenario
import suite
from scenario import OURS, SUCCESS, THEIRS, Pair, case
from test_operations import SIZES
from transfers import check_received, send_all, write_all

GRH_BYTES = 40  # before every received datagram
ADDRESS = {"v4": (bytes([10, 1, 0, 1]), bytes([10, 1, 0, 2])),
           "v6": (bytes.fromhex("fd01" + "0" * 26 + "01"),
                  bytes.fromhex("fd01" + "0" * 26 + "02"))}


@case("uc/operations", needs=["uc"])
def unreliable(_context, lab, side):
    with Pair(lab, side, type="uc") as pair:
        send_all(pair, SIZES)
        send_all(pair, (0, 5, 3000), "send-imm", imm=0x0A0B0C0D)
        write_all(pair, SIZES, followed=True)
        write_all(pair, (0, 64, 2500), imm=0xDEADBEEF)


@case("uc/a-lost-packet-loses-its-message-alone", needs=["uc"])
def unreliable_loss(context, lab, side):
    """Nobody is told, and the message behind it arrives. Of a message's
    packets (first, middle, last) rxe forgives only the first: it takes nothing
    more after it has missed another."""
    #= IBTA 9.8.2.2.1
    opcodes = (0x20,) if side == OURS else (0x20, 0x21, 0x22)
    for opcode in opcodes:
        with Pair(lab, side, type="uc") as pair:
            for number in range(3):
                pair.passive.ask("receive", qp="q", memory="m", bytes=5000,
                                 at=5000 * number, id=number)
            for seed in range(3):
                if seed == 1:
                    lab.drop(1 - side, f"@th,64,8 {opcode} "
                             "numgen inc mod 100000 == 0")
                pair.active.ask("fill", memory="m", bytes=5000, seed=seed)
                pair.post("send", 5000)
                pair.active.expect(SUCCESS)
            got = pair.passive.expect(SUCCESS, SUCCESS)
            pair.passive.expect_quiet()
            context.check(lab.treated() == 1, f"{lab.treated()} lost")
            for wc, seed in zip(got, (0, 2)):
                pair.passive.ask("check", memory="m", bytes=5000,
                                 at=5000 * wc.id, seed=seed)
            lab.deliver_all()


def check_grh(end, family, sender):
    """The GRH, or the IPv4 header in its last 20 bytes, has both addresses."""
    at = 8 if family == "v6" else 32
    wanted = ADDRESS[family][sender] + ADDRESS[family][1 - sender]
    found = b""
    while len(found) < len(wanted):
        value = int(end.ask("get", memory="m", at=at + len(found))["value"])
        found += struct.pack("<Q", value)
    if found != wanted:
        raise suite.Failure(f"{end.name}: addresses {found.hex()}, expected "
                            f"{wanted.hex()}")


def datagrams(_context, lab, side, family):
    with Pair(lab, side, type="ud", family=family) as pair:
        peer = pair.active.peer
        pair.active.ask("handle", name="h", gid=peer["gid"],
                        gid_index=lab.gid_index(side, family))
        for number, (size, imm) in enumerate(
                [(0, None), (1, None), (63, None), (1024, None), (4096, None),
                 (0, 1), (1000, 0xDEADBEEF)]):
            pair.active.ask("fill", memory="m", bytes=size, seed=number)
            pair.passive.ask("receive", qp="q", memory="m", id=number,
                             bytes=GRH_BYTES + 4096)
            pair.post("send" if imm is None else "send-imm", size, handle="h",
                      qpn=peer["qpn"], imm=imm)
            pair.active.expect(SUCCESS)
            got, = pair.passive.expect(SUCCESS)
            check_received(got, number, scenario.OP_RECEIVE,
                           GRH_BYTES + size, imm)
            check_grh(pair.passive, family, side)
            pair.passive.ask("check", memory="m", at=GRH_BYTES, bytes=size,
                             seed=number)
        # A packet with a wrong Q_Key is dropped silently.
        #= IBTA 10.2.5
        pair.passive.ask("receive", qp="q", memory="m", bytes=4096, id=50)
        pair.post("send", 64, handle="h", qpn=peer["qpn"], qkey=0x22222222)
        pair.active.expect(SUCCESS)
        pair.passive.expect_quiet()
        pair.post("send", 65, handle="h", qpn=peer["qpn"])
        pair.active.expect(SUCCESS)
        got, = pair.passive.expect(SUCCESS)
        check_received(got, 50, scenario.OP_RECEIVE, GRH_BYTES + 65, None)


for _family in ("v4", "v6"):
    case(f"ud/datagrams/ip{_family}", needs=["ud"])(
        functools.partial(datagrams, family=_family))


def shared_queue(_context, lab, side):
    """Two queue pairs take from one queue, in the order of arrival."""
    with Pair(lab, side, shared=True) as pair:
        pair.add("r", shared=True)
        for number in range(8):
            pair.passive.ask("receive", qp="s", memory="m", bytes=1500,
                             at=1500 * number, id=number)
        for number in range(8):
            queue = "qr"[number % 2]
            pair.active.ask("fill", memory="m", bytes=1400, seed=number)
            pair.post("send", 1400, qp=queue)
            pair.active.expect(SUCCESS, qp=queue)
            got, = pair.passive.expect(SUCCESS, qp=queue)
            check_received(got, number, scenario.OP_RECEIVE, 1400, None)
            pair.passive.ask("check", memory="m", at=1500 * number,
                             bytes=1400, seed=number)
        # The shared queue is empty: not ready until it gets a receive.
        pair.post("send", 100)
        pair.active.expect_quiet()
        pair.passive.ask("receive", qp="s", memory="m", bytes=100, id=99)
        pair.active.expect(SUCCESS)
        pair.passive.expect(SUCCESS)


case("srq/two-queue-pairs", sides=[OURS])(shared_queue)
case("srq/two-queue-pairs", sides=[THEIRS], needs=["srq"])(shared_queue)
