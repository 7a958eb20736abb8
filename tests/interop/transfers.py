"""Operations of two connected queue pairs, data compared. `pair` is a
scenario.Pair or a connection.Link: its active end posts, its passive end's
memory is written and read."""

import scenario
import suite
from scenario import SUCCESS

# The bytes after the data that must not change.
GUARD = 8


def send_all(pair, sizes, op="send", imm=None, **words):
    """Each size by one request; the receives have room for more."""
    room = max(sizes) + GUARD
    for number, size in enumerate(sizes):
        pair.active.ask("fill", memory="m", bytes=size, seed=number)
        pair.passive.ask("fill", memory="m", bytes=room, seed=number + 100)
        pair.passive.ask("receive", qp="q", memory="m", bytes=room, id=number)
        pair.post(op, size, imm=imm, **words)
        pair.active.expect(SUCCESS)
        got, = pair.passive.expect(SUCCESS)
        check_received(got, number, scenario.OP_RECEIVE, size, imm)
        check_arrived(pair.passive, size, number)


def write_all(pair, sizes, imm=None, followed=False):
    """Each size by one write, `remote_at` off the page. With an immediate
    value the receive that it takes is not written to. `followed`: an empty
    send behind it tells that it has arrived, where no completion does."""
    remote_at = 24
    room = max(sizes) + GUARD + remote_at
    for number, size in enumerate(sizes):
        pair.active.ask("fill", memory="m", bytes=size, seed=number)
        pair.passive.ask("fill", memory="m", bytes=room, seed=number + 100)
        if imm is not None or followed:
            pair.passive.ask("receive", qp="q", memory="m", bytes=1,
                             id=number)
        pair.post("write" if imm is None else "write-imm", size,
                  remote_at=remote_at, imm=imm)
        pair.active.expect(SUCCESS)
        if imm is not None:
            got, = pair.passive.expect(SUCCESS)
            check_received(got, number, scenario.OP_RECEIVE_IMM, size, imm)
        if followed:
            pair.post("send", 0)
            pair.active.expect(SUCCESS)
            pair.passive.expect(SUCCESS)
        # The bytes before the data are unchanged.
        pair.passive.ask("check", memory="m", bytes=remote_at,
                         seed=number + 100)
        check_arrived(pair.passive, size, number, remote_at)


def read_all(pair, sizes):
    for number, size in enumerate(sizes):
        pair.passive.ask("fill", memory="m", bytes=max(size, 1), seed=number)
        pair.active.ask("fill", memory="m", bytes=size + GUARD,
                        seed=number + 100)
        pair.post("read", size)
        pair.active.expect(SUCCESS)
        check_arrived(pair.active, size, number)


def check_arrived(end, size, number, at=0):
    """`size` bytes of seed `number`, and behind them the old ones."""
    end.ask("check", memory="m", bytes=size, at=at, seed=number)
    end.ask("check", memory="m", bytes=GUARD, at=at + size, begin=at + size,
            seed=number + 100)


def check_received(got, number, opcode, size, imm):
    wanted = (number, opcode, size, imm)
    if (got.id, got.opcode, got.bytes, got.imm) != wanted:
        raise suite.Failure(f"received {got}, expected (id, opcode, bytes, "
                            f"imm) {wanted}")
