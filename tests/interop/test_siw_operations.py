"""Every operation that siw has, data compared, and the errors that end a
connection: each with the client and with the server as the active end."""

import functools

import scenario
import suite
from connection import OF_OURS, Link, case, ours_and_theirs
from scenario import (FLUSHED, INVALID_REQUEST, LOCAL_LENGTH,
                      LOCAL_PROTECTION, LOCAL_QP, REMOTE_ACCESS,
                      REMOTE_OPERATION, SUCCESS, THEIRS)
from transfers import read_all, send_all, write_all

# Lengths around a multiple of four (padding) and around what one FPDU carries
# at the bed's MTU: 8960 less headers and CRC.
SIZES = (0, 1, 2, 3, 4, 5, 64, 1447, 4096, 8935, 8936, 8937, 8960, 30003)
MEGABYTE = 1 << 20
MEMORY = 16384
WRONG_KEY = 0xDEAD00


def in_both_directions(link, body):
    for _ in link.ends:
        body()
        link.swap()


@case("operations/send", bed=True)
def send(_context, lab, sides):
    with Link(lab, sides, bytes=1 << 16) as link:
        link.open()
        in_both_directions(link, lambda: send_all(link, SIZES))


@case("operations/send-solicited-and-inline")
def solicited(_context, lab, sides):
    with Link(lab, sides) as link:
        link.open()

        def body():
            send_all(link, (0, 3, 2000), flags="s")
            send_all(link, (0, 1, 64), flags="i")

        in_both_directions(link, body)


@case("operations/write")
def write(_context, lab, sides):
    with Link(lab, sides, bytes=1 << 16) as link:
        link.open()
        in_both_directions(link,
                           lambda: write_all(link, SIZES, followed=True))


@case("operations/read", bed=True)
def read(_context, lab, sides):
    with Link(lab, sides, bytes=1 << 16) as link:
        link.open()
        in_both_directions(link, lambda: read_all(link, SIZES))


@case("operations/one-megabyte", core=False)
def megabyte(_context, lab, sides):
    with Link(lab, sides, bytes=MEGABYTE + 64) as link:
        link.open()

        def body():
            send_all(link, [MEGABYTE])
            write_all(link, [MEGABYTE], followed=True)
            read_all(link, [MEGABYTE])

        in_both_directions(link, body)


def check_order(end, found, wanted):
    """Completions of the send queue: siw's have their own order."""
    if end.side == scenario.THEIRS:
        found, wanted = sorted(found), sorted(wanted)
    if found != wanted:
        raise suite.Failure(f"{end.name}: completed {found}, not {wanted}")


@case("operations/many-outstanding")
def outstanding(_context, lab, sides):
    """Thirty requests of all kinds at once, more reads than may be under way.
    siw does not let a read wait for others (a fence), and completes what stands
    behind a read before it."""
    rounds = 10
    with Link(lab, sides, bytes=1 << 16) as link:
        link.open()

        def body():
            link.active.ask("fill", memory="m", bytes=2000, seed=7)
            for number in range(rounds):
                link.passive.ask("receive", qp="q", memory="m", id=number,
                                 bytes=64, at=32768 + 64 * number)
            for number in range(rounds):
                link.post("write", 2000, remote_at=2000 * number,
                          id=3 * number)
                # Above the source of the writes.
                link.post("read", 2000, at=4096 + 2000 * number,
                          remote_at=2000 * number, id=3 * number + 1)
                link.post("send", 50, id=3 * number + 2)
            done = link.active.expect(*[SUCCESS] * (3 * rounds))
            received = link.passive.expect(*[SUCCESS] * rounds)
            check_order(link.active, [wc.id for wc in done],
                        list(range(len(done))))
            if [wc.id for wc in received] != list(range(rounds)):
                raise suite.Failure(f"out of order: {received}")
            for number in range(rounds):
                link.active.ask("check", memory="m", bytes=2000, seed=7,
                                at=4096 + 2000 * number)
                link.passive.ask("check", memory="m", bytes=50, seed=7,
                                 at=32768 + 64 * number)

        in_both_directions(link, body)


@case("operations/both-ways-at-once")
def both_ways(_context, lab, sides):
    """Each end sends, writes and reads while the other does."""
    count = 10
    with Link(lab, sides, bytes=1 << 18) as link:
        link.open()
        for end in link.ends:
            for number in range(count):
                end.ask("receive", qp="q", memory="m", id=number, bytes=4096,
                        at=(1 << 17) + 4096 * number)
        for _ in range(count):
            for end in link.ends:
                where = dict(qp="q", memory="m", rkey=end.peer["rkey"])
                far = end.peer["address"]
                end.ask("post", op="send", id=1, bytes=4000, at=0, **where)
                end.ask("post", op="read", id=2, bytes=5000, at=1 << 16,
                        address=far, **where)
                end.ask("post", op="write", id=3, bytes=3000, at=0,
                        address=far + (1 << 17) + (1 << 16), **where)
        for end, other in zip(link.ends, reversed(link.ends)):
            found = end.expect(*[SUCCESS] * (4 * count))
            ids = [wc.id for wc in found if wc.opcode != scenario.OP_RECEIVE]
            check_order(end, ids, [1, 2, 3] * count)
            end.ask("check", memory="m", at=(1 << 17) + 4096 * 7, bytes=4000,
                    seed=other.seed)
            end.ask("check", memory="m", at=1 << 16, bytes=5000,
                    seed=other.seed)
        # All writes have been placed when a send behind them has arrived.
        for end, other in zip(link.ends, reversed(link.ends)):
            other.ask("receive", qp="q", memory="m", bytes=1)
            end.ask("post", qp="q", op="send", id=4, memory="m", bytes=0)
        for end in link.ends:
            end.expect(SUCCESS, SUCCESS)
        for end, other in zip(link.ends, reversed(link.ends)):
            end.ask("check", memory="m", at=(1 << 17) + (1 << 16), bytes=3000,
                    seed=other.seed)


# What ends a connection: (operation, bytes, remote offset, other words, the
# passive end's rights).
ERRORS = {
    "write-wrong-key": ("write", 64, 0, {"rkey": WRONG_KEY}, "lwr"),
    "read-wrong-key": ("read", 64, 0, {"rkey": WRONG_KEY}, "lwr"),
    "write-beyond-the-end": ("write", 5000, MEMORY - 4999, {}, "lwr"),
    "read-beyond-the-end": ("read", 5000, MEMORY - 4999, {}, "lwr"),
    "write-before-the-start": ("write", 64, -1, {}, "lwr"),
    "read-before-the-start": ("read", 64, -1, {}, "lwr"),
    "write-without-right": ("write", 64, 0, {}, "lr"),
    "read-without-right": ("read", 64, 0, {}, "lw"),
    "send-without-receive": ("send", 64, 0, {}, "lwr"),
    "send-too-long": ("send", 65, 0, {}, "lwr"),
}


# The errors in the peer's Terminate that are not about access.
TOLD = {"send-without-receive": REMOTE_OPERATION,
        "send-too-long": INVALID_REQUEST}


def outcomes(active, name, op):
    """The statuses that the request may have. siw tells its program nothing of
    a Terminate: a read is flushed, and what TCP has taken has succeeded, unless
    the connection's end has overtaken the function that sends. Our write or
    send may have completed before the Terminate comes."""
    if active.side == THEIRS:
        return (FLUSHED if op == "read" else SUCCESS, LOCAL_QP)
    told = TOLD.get(name, REMOTE_ACCESS)
    return (told,) if op == "read" else (SUCCESS, told)


# pylint: disable-next=too-many-arguments
def error(_context, lab, sides, name, by_server):
    op, size, at, words, access = ERRORS[name]
    rights = [access, "lwr"] if by_server else ["lwr", access]
    with Link(lab, sides, bytes=MEMORY, accesses=rights) as link:
        link.open()
        if by_server:
            link.swap()
        active, passive = link.active, link.passive
        if name != "send-without-receive":
            passive.ask("receive", qp="q", memory="m", bytes=64, id=90)
        active.ask("receive", qp="q", memory="m", bytes=64, id=91)
        link.post(op, size, remote_at=at, id=80, **words)
        if name == "read-without-right" and passive.side == THEIRS:
            active.expect(SUCCESS)  # siw does not look at this right
            return
        found, flushed = active.poll(2)
        one_of(active, found, outcomes(active, name, op))
        active.check([flushed], [FLUSHED])
        for end in link.ends:
            end.expect_event("DISCONNECTED")
        # siw flushes nothing after a read that it has refused, until its
        # program says so.
        passive.ask("error", qp="q")
        if name == "send-too-long":
            passive.expect(LOCAL_LENGTH)
        elif name != "send-without-receive":
            passive.expect(FLUSHED)
        for end in link.ends:
            end.expect_state("err")
            # The memory of a receive may have been written, and that of a
            # write's first FPDUs, if these are within the bounds.
            last = at if op == "write" and at > 0 else MEMORY
            end.ask("check", memory="m", bytes=last - 64, at=64, begin=64,
                    seed=end.seed)


def one_of(end, found, statuses):
    if found.status not in statuses:
        names = [scenario.STATUS_NAMES[status] for status in statuses]
        raise suite.Failure(f"{end.name}: {found}, expected one of {names}")


for _name in ERRORS:
    for _by in ("client", "server"):
        case(f"errors/{_name}/by-{_by}",
             core=_name in ("write-wrong-key", "read-beyond-the-end",
                            "send-too-long"),
             bed=_name == "read-beyond-the-end")(
            functools.partial(error, name=_name, by_server=_by == "server"))


@case("errors/read-into-memory-without-right", roles=OF_OURS)
def bad_sink(_context, lab, sides):
    """Our own memory is at fault: the peer is not asked."""
    with Link(lab, sides, accesses=("r", "r")) as link:
        link.open()
        link.active, link.passive = ours_and_theirs(link)
        link.post("read", 64)
        found, = link.active.poll()
        one_of(link.active, found, [LOCAL_PROTECTION])


@case("operations/send-with-invalidate", roles=OF_OURS)
def invalidate(_context, lab, sides):
    """siw invalidates the region, and refuses the next write. (Its programs
    cannot post this request.)"""
    with Link(lab, sides) as link:
        link.open()
        link.active, link.passive = ours_and_theirs(link)
        rkey = link.active.peer["rkey"]
        link.post("write", 100)
        link.active.expect(SUCCESS)
        link.passive.ask("receive", qp="q", memory="m", bytes=64, at=8192)
        link.post("send-inv", 32, rkey=rkey)
        link.active.expect(SUCCESS)
        # Its receive is in the region that is invalid now.
        link.passive.expect(SUCCESS)
        link.post("write", 100, rkey=rkey)
        one_of(link.active, link.active.poll()[0],
               outcomes(link.active, "write-wrong-key", "write"))
        link.active.expect_event("DISCONNECTED")


# What siw does not know: (operation, bytes).
UNKNOWN = {"fetch-and-add": ("add", 8), "compare-and-swap": ("swap", 8),
           "write-with-immediate": ("write-imm", 64),
           "send-with-immediate": ("send-imm", 64)}


def unknown(_context, lab, sides, name):
    """It fails, and siw is not told what would end the connection in a way
    that nobody sees."""
    op, size = UNKNOWN[name]
    with Link(lab, sides) as link:
        link.open()
        link.active, link.passive = ours_and_theirs(link)
        link.passive.ask("receive", qp="q", memory="m", bytes=64)
        link.post(op, size)
        found, = link.active.poll()
        if found.status == SUCCESS:
            raise suite.Failure(f"{found}")


for _name in UNKNOWN:
    case(f"unknown/{_name}", roles=OF_OURS)(functools.partial(unknown,
                                                               name=_name))
