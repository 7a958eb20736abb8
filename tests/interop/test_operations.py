"""Every operation of the reliable service, in each direction, data compared."""

import functools

import scenario
import suite
from scenario import OURS, SUCCESS, THEIRS, Pair, case
from transfers import read_all, send_all, write_all

# Lengths around the boundaries of packets of 1024 bytes, and longer ones.
SIZES = (0, 1, 3, 64, 1023, 1024, 1025, 2048, 4096, 10001)
MTUS = (256, 512, 1024, 2048, 4096)
MEGABYTE = 1 << 20


@case("rc/send")
def send(_context, lab, side):
    with Pair(lab, side) as pair:
        send_all(pair, SIZES)
        send_all(pair, (0, 5, 3000), "send-imm", imm=0x0A0B0C0D)
        send_all(pair, (4, 2000), "send-imm", imm=0xFFFFFFFF, flags="s")


@case("rc/write")
def write(_context, lab, side):
    with Pair(lab, side) as pair:
        write_all(pair, SIZES)
        write_all(pair, (0, 64, 2500), imm=0xDEADBEEF)


@case("rc/read")
def read(_context, lab, side):
    with Pair(lab, side) as pair:
        read_all(pair, SIZES)


@case("rc/inline")
def inline(_context, lab, side):
    with Pair(lab, side) as pair:
        send_all(pair, (0, 1, 64), flags="i")


@case("rc/atomic")
def atomic(_context, lab, side):
    """Fetch-and-add that wraps, compare-and-swap that hits and that misses."""
    steps = (("add", dict(compare=1), (1 << 64) - 1, 0),
             ("add", dict(compare=1 << 63), 0, 1 << 63),
             ("swap", dict(compare=1 << 63, swap=0x1122334455667788), 1 << 63,
              0x1122334455667788),
             ("swap", dict(compare=5, swap=6), 0x1122334455667788,
              0x1122334455667788))
    with Pair(lab, side) as pair:
        pair.passive.ask("put", memory="m", at=8, value=(1 << 64) - 1)
        for op, words, before, after in steps:
            pair.post(op, 8, remote_at=8, **words)
            pair.active.expect(SUCCESS)
            for end, at, wanted in ((pair.active, 0, before),
                                    (pair.passive, 8, after)):
                found = int(end.ask("get", memory="m", at=at)["value"])
                if found != wanted:
                    raise suite.Failure(f"{op} {words}: {end.name} has "
                                        f"{found:#x}, expected {wanted:#x}")


@case("rc/order")
def order(_context, lab, side):
    """Forty requests of all kinds in flight: completions in order, each read
    sees the writes before it, receives are taken in order."""
    with Pair(lab, side, bytes=65536) as pair:
        for number in range(10):
            pair.passive.ask("receive", qp="q", memory="m", id=number,
                             bytes=64, at=32768 + 64 * number)
        pair.active.ask("fill", memory="m", bytes=2000, seed=7)
        for number in range(10):
            pair.post("write", 2000, remote_at=2000 * number, id=4 * number)
            # The data of the reads is placed above the source of the writes.
            pair.post("read", 2000, at=4096 + 2000 * number, flags="f",
                      remote_at=2000 * number, id=4 * number + 1)
            pair.post("send", 50, id=4 * number + 2)
            pair.post("add", 8, at=32768, remote_at=60000, compare=3,
                      id=4 * number + 3)
        done = pair.active.expect(*[SUCCESS] * 40)
        if [wc.id for wc in done] != list(range(40)):
            raise suite.Failure(f"out of order: {done}")
        received = pair.passive.expect(*[SUCCESS] * 10)
        if [wc.id for wc in received] != list(range(10)):
            raise suite.Failure(f"out of order: {received}")
        for number in range(10):
            pair.active.ask("check", memory="m", bytes=2000, seed=7,
                            at=4096 + 2000 * number)
            pair.passive.ask("check", memory="m", bytes=50, seed=7,
                             at=32768 + 64 * number)


def path_mtu(_context, lab, side, mtu, family):
    """Packets of exactly the path MTU, and one more."""
    sizes = (mtu - 1, mtu, mtu + 1, 3 * mtu, 20001)
    with Pair(lab, side, family=family, mtu=mtu, bytes=32768) as pair:
        send_all(pair, sizes)
        write_all(pair, sizes)
        read_all(pair, sizes)


for _mtu in MTUS:
    for _family in ("v4", "v6"):
        case(f"rc/mtu-{_mtu}/ip{_family}",
             core=(_mtu, _family) in ((256, "v4"), (1024, "v6"), (4096, "v4"))
             )(functools.partial(path_mtu, mtu=_mtu, family=_family))


@case("rc/one-megabyte")
def megabyte(_context, lab, side):
    with Pair(lab, side, mtu=4096, bytes=MEGABYTE + 64) as pair:
        send_all(pair, [MEGABYTE])
        write_all(pair, [MEGABYTE], imm=1)
        read_all(pair, [MEGABYTE])


@case("rc/both-ways-at-once", sides=())
def both_ways(_context, lab):
    """Each end sends, writes and reads while the other does."""
    count = 16
    with Pair(lab, bytes=1 << 18) as pair:
        for end in pair.ends:
            for number in range(count):
                end.ask("receive", qp="q", memory="m", id=number, bytes=4096,
                        at=(1 << 17) + 4096 * number)
        for number in range(count):
            for end in pair.ends:
                where = dict(qp="q", memory="m", rkey=end.peer["rkey"])
                far = int(end.peer["address"])
                end.ask("post", op="send", id=1, bytes=4000, at=0, **where)
                end.ask("post", op="read", id=2, bytes=5000, at=1 << 16,
                        address=far, **where)
                end.ask("post", op="write", id=3, bytes=3000, at=0,
                        address=far + (1 << 17) + (1 << 16), **where)
        for end in pair.ends:
            found = end.expect(*[SUCCESS] * (4 * count))
            ids = [wc.id for wc in found
                   if wc.opcode != scenario.OP_RECEIVE]
            if ids != [1, 2, 3] * count:
                raise suite.Failure(f"{end.name}: out of order: {found}")
            other = 100 + 1 - end.side
            for at, bytes_ in (((1 << 17) + 4096 * 7, 4000),
                               (1 << 16, 5000),
                               ((1 << 17) + (1 << 16), 3000)):
                end.ask("check", memory="m", at=at, bytes=bytes_, seed=other)


@case("rc/interface-mtu-1500", sides=())
def small_interface(_context, lab):
    """The port follows its interface; path MTU 1024 still fits."""
    lab.set_mtu(1500)
    try:
        for side in (OURS, THEIRS):
            with Pair(lab, side, mtu=1024) as pair:
                send_all(pair, (1024, 5000))
                read_all(pair, (1024, 5000))
    finally:
        lab.set_mtu(lab.mtu)


def invalidate(_context, lab, side):
    """The passive end binds a window; the active one writes through it,
    invalidates it, and is refused when it writes again."""
    # The memory has only MW_BIND: writes must go through the window.
    with Pair(lab, side, accesses=("lwra", "lb")) as pair:
        passive, active = pair.passive, pair.active
        passive.ask("window", name="w")
        bound = passive.ask("post", qp="q", op="bind", window="w", memory="m",
                            bytes=4096, access="wr", id=9)
        passive.expect(SUCCESS)
        rkey = bound["rkey"]
        active.ask("fill", memory="m", bytes=2000, seed=3)
        pair.post("write", 2000, rkey=rkey)
        active.expect(SUCCESS)
        passive.ask("check", memory="m", bytes=2000, seed=3)
        passive.ask("receive", qp="q", memory="m", bytes=64, at=8192)
        pair.post("send-inv", 32, rkey=rkey)
        active.expect(SUCCESS)
        passive.expect(SUCCESS)
        pair.post("write", 100, rkey=rkey)
        active.expect(scenario.REMOTE_ACCESS)


case("rc/send-with-invalidate", sides=[OURS])(invalidate)
case("rc/send-with-invalidate", sides=[THEIRS], needs=["mw"])(invalidate)
