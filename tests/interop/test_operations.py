"""Every operation of the reliable service, in each direction, data compared."""

import scenario
import suite
from scenario import Pair, case

# Around the edges of packets of 1024, and a long one.
SIZES = (0, 1, 3, 64, 1023, 1024, 1025, 2048, 4096, 10001)
MIXED = (1, 4097, 100000)


def send_all(pair, sizes, op="send", imm=None, **words):
    """Each size by one request; the receives have room for more."""
    room = max(sizes) + 8
    for number, size in enumerate(sizes):
        seed = number + 1
        pair.active.ask("fill", memory="m", bytes=size, seed=seed)
        pair.passive.ask("fill", memory="m", bytes=room, seed=seed + 100)
        pair.passive.ask("receive", qp="q", memory="m", bytes=room,
                         id=number)
        pair.post(op, size, imm=imm, **words)
        pair.active.expect(scenario.SUCCESS)
        got, = pair.passive.expect(scenario.SUCCESS)
        check_received(got, number, size, imm)
        pair.passive.ask("check", memory="m", bytes=size, seed=seed)
        # Not a byte more.
        pair.passive.ask("check", memory="m", bytes=8, at=size, begin=size,
                         seed=seed + 100)


def check_received(got, number, size, imm):
    right = (got.id, got.bytes, got.imm) == (number, size, imm)
    if not right or got.opcode != scenario.OP_RECEIVE:
        raise suite.Failure(f"received {got}, expected {number}, {size} "
                            f"bytes, imm {imm}")


@case("rc/send")
def send(_context, lab, side):
    with Pair(lab, side) as pair:
        send_all(pair, SIZES)
