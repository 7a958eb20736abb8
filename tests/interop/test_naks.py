"""Requests that the other side refuses, in each direction: what the requester
is told, what the responder is told, and that nothing was touched.

Where rxe does not answer as IBTA's rules have it, the case says so and expects
rxe's answer from rxe and the rule's from us.
"""

import functools

import bed
import scenario
import suite
from scenario import (FLUSHED, INVALID_REQUEST, LOCAL_LENGTH, LOCAL_QP, OURS,
                      REMOTE_ACCESS, REMOTE_OPERATION, RETRIES_EXCEEDED,
                      RNR_EXCEEDED, SUCCESS, Pair, case)

SIZE = 16384  # of the memory
WRONG_KEY = 0xDEAD00


def refused(pair, status, post, passive=(), kept=0):
    """`post` is refused with `status`, and what stands behind it is flushed,
    in order; so is the requester's receive. The responder completes with the
    statuses in `passive`; both queue pairs are in error, and the responder's
    memory is as it was from byte `kept` on."""
    pair.active.ask("receive", qp="q", memory="m", bytes=64, id=90)
    pair.passive.ask("receive", qp="q", memory="m", bytes=64, id=91)
    post()
    pair.active.expect(status)
    pair.active.expect_state("err")
    pair.post("send", 8, id=80)
    pair.post("write", 8, id=81)
    flushed = pair.active.expect(FLUSHED, FLUSHED, FLUSHED)
    if sorted(wc.id for wc in flushed) != [80, 81, 90]:
        raise suite.Failure(f"flushed: {flushed}")
    pair.passive.expect(*passive, FLUSHED)
    pair.passive.expect_state("err")
    untouched(pair, kept)


def untouched(pair, begin=0):
    pair.passive.ask("check", memory="m", bytes=SIZE - begin, at=begin,
                     begin=begin, seed=100 + pair.passive.side)


# name: (operation, bytes, remote offset, other words)
ACCESS = {
    "write-wrong-key": ("write", 64, 0, {"rkey": WRONG_KEY}),
    "read-wrong-key": ("read", 64, 0, {"rkey": WRONG_KEY}),
    "atomic-wrong-key": ("add", 8, 0, {"rkey": WRONG_KEY, "compare": 1}),
    "write-beyond-the-end": ("write", 64, SIZE - 63, {}),
    "write-of-packets-beyond-the-end": ("write", 5000, SIZE - 4000, {}),
    "write-before-the-start": ("write", 64, -1, {}),
    "read-beyond-the-end": ("read", 5000, SIZE - 4999, {}),
    "atomic-beyond-the-end": ("add", 8, SIZE, {"compare": 1}),
}


def access(_context, lab, side, name):
    operation, size, at, words = ACCESS[name]
    with Pair(lab, side, bytes=SIZE) as pair:
        refused(pair, REMOTE_ACCESS,
                lambda: pair.post(operation, size, remote_at=at, **words))


for _name in ACCESS:
    case(f"nak/{_name}")(functools.partial(access, name=_name))


# name: (operation, bytes, rights of the responder's memory)
RIGHTS = {"write": ("write", 64, "lra"), "read": ("read", 64, "lwa"),
          "atomic": ("add", 8, "lwr")}


def memory_rights(_context, lab, side, name):
    operation, size, rights = RIGHTS[name]
    with Pair(lab, side, bytes=SIZE, accesses=("lwra", rights)) as pair:
        refused(pair, REMOTE_ACCESS, lambda: pair.post(operation, size))


# name: (operation, bytes, rights of the responder's queue pair)
QP_RIGHTS = {"write": ("write", 64, "ra"), "read": ("read", 64, "wa"),
             "atomic": ("add", 8, "wr")}


def queue_rights(_context, lab, side, name):
    """An operation that the queue pair is not set up for is an invalid
    request."""
    #= IBTA 9.7.4.1.4
    operation, size, rights = QP_RIGHTS[name]
    with Pair(lab, side, bytes=SIZE,
              access={side: "wra", 1 - side: rights}) as pair:
        refused(pair, INVALID_REQUEST, lambda: pair.post(operation, size))


for _name in RIGHTS:
    case(f"nak/{_name}-without-right-on-the-memory")(
        functools.partial(memory_rights, name=_name))
    case(f"nak/{_name}-without-right-on-the-queue-pair")(
        functools.partial(queue_rights, name=_name))


# rxe refuses to post such a request.
@case("nak/atomic-not-aligned", sides=[OURS])
def not_aligned(_context, lab, side):
    with Pair(lab, side, bytes=SIZE) as pair:
        refused(pair, INVALID_REQUEST,
                lambda: pair.post("add", 8, remote_at=4, compare=1))


@case("nak/send-longer-than-the-receive")
def too_long(_context, lab, side):
    """An invalid request to the requester, a local length error to the
    responder. rxe calls both an operation error. The receive's own buffer may
    have been written to."""
    #= IBTA 9.9.3.1.3
    to_rxe = side == OURS
    for size, room in ((1001, 1000), (5000, 4999), (5000, 2048)):
        with Pair(lab, side, bytes=SIZE) as pair:
            pair.passive.ask("receive", qp="q", memory="m", bytes=room, id=7)
            refused(pair, REMOTE_OPERATION if to_rxe else INVALID_REQUEST,
                    functools.partial(pair.post, "send", size),
                    [LOCAL_QP if to_rxe else LOCAL_LENGTH], kept=room)


@case("nak/read-of-a-responder-without-resources")
def no_resources(_context, lab, side):
    with Pair(lab, side, bytes=SIZE, reads={side: 4, 1 - side: 0}) as pair:
        refused(pair, INVALID_REQUEST, lambda: pair.post("read", 64))


@case("nak/zero-bytes-need-no-key")
def zero_bytes(_context, lab, side):
    """No check of a key that nothing uses."""
    #= IBTA 9.7.4.1.5
    with Pair(lab, side, bytes=SIZE) as pair:
        pair.post("write", 0, rkey=WRONG_KEY)
        pair.active.expect(SUCCESS)
        pair.post("read", 0, rkey=WRONG_KEY)
        pair.active.expect(SUCCESS)
        untouched(pair)


@case("rnr/receive-comes-late")
def late_receive(_context, lab, side):
    """For a send, a long one, and a write with an immediate value."""
    with Pair(lab, side, bytes=SIZE) as pair:
        for op, size in (("send", 64), ("send", 5000), ("write-imm", 3000)):
            pair.post(op, size, imm=5 if op == "write-imm" else None)
            pair.active.expect_quiet(seconds=0.3)
            pair.passive.ask("receive", qp="q", memory="m", bytes=8000)
            pair.active.expect(SUCCESS)
            pair.passive.expect(SUCCESS)
            pair.passive.ask("check", memory="m", bytes=size,
                             seed=100 + side)


@case("rnr/retries-exceeded")
def rnr_exceeded(_context, lab, side):
    """rnr_retry 2, then the requester gives up; the responder never knew."""
    with Pair(lab, side, bytes=SIZE, rnr_retries=2) as pair:
        pair.post("send", 64)
        pair.active.expect(RNR_EXCEEDED)
        pair.active.expect_state("err")
        pair.passive.expect_state("rts")
        untouched(pair)


@case("vanish/queue-pair-in-error")
def peer_in_error(_context, lab, side):
    """A queue pair in error is silent."""
    #= IBTA 10.3.1.7
    with Pair(lab, side, bytes=SIZE, timeout=12, retries=3) as pair:
        pair.passive.ask("error", qp="q")
        pair.post("send", 64)
        pair.active.expect(RETRIES_EXCEEDED)
        pair.active.expect_state("err")


@case("vanish/queue-pair-destroyed")
def peer_destroyed(_context, lab, side):
    with Pair(lab, side, bytes=SIZE, timeout=12, retries=3) as pair:
        pair.passive.ask("destroy", name="q")
        pair.post("write", 5000)
        pair.active.expect(RETRIES_EXCEEDED)


@case("vanish/cable-pulled")
def cable(_context, lab, side):
    """In the middle of reads and writes; what waits is flushed."""
    with Pair(lab, side, bytes=SIZE, timeout=12, retries=3) as pair:
        pair.post("write", 5000)
        pair.active.expect(SUCCESS)
        lab.drop(1 - side, "")
        for _ in range(4):
            pair.post("read", 5000)
            pair.post("write", 5000)
        pair.active.expect(RETRIES_EXCEEDED, *[FLUSHED] * 7)


@case("vanish/comes-back-in-time")
def comes_back(_context, lab, side):
    """Silence for less than the retries last (268 ms, 7 times)."""
    with Pair(lab, side, bytes=SIZE, timeout=16, retries=7) as pair:
        lab.drop(1 - side, "")
        pair.post("write", 5000)
        pair.post("read", 5000, at=8192)
        # More packets than the requests have: some were sent again.
        bed.await_true(lambda: lab.treated() > 6, 10, "a retransmission")
        lab.deliver_all()
        pair.active.expect(SUCCESS, SUCCESS)
        pair.passive.ask("check", memory="m", bytes=5000, seed=100 + side)
        pair.active.ask("check", memory="m", bytes=5000, at=8192,
                        seed=100 + side)
