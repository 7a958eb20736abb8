"""How connections begin and end: private data, depths, refusals, disconnects,
and the ways of setting up MPA that siw knows."""

import functools

import siw_module
import suite
from connection import OF_OURS, Link, case
from scenario import FLUSHED, OURS, SUCCESS, THEIRS
from transfers import read_all, send_all, write_all

SIZES = (0, 3, 4096, 20001)


def transfer(link, sizes=SIZES):
    """Each operation in each direction."""
    for _ in link.ends:
        send_all(link, sizes)
        write_all(link, sizes, followed=True)
        read_all(link, sizes)
        link.swap()


def data(count, seed):
    """Private data, in hexadecimal digits."""
    return bytes((seed + i) % 256 for i in range(count)).hex()


# What siw can receive and send. A frame has four more bytes: 256 are its limit,
# above which its kernel dies of a reply; what it sends must fit a byte.
LONGEST = {OURS: 252, THEIRS: 251}


@case("connections/private-data", bed=True)
def private_data(context, lab, sides):
    for family in ("v4", "v6"):
        for count in (0, 1, 200, 252):
            with Link(lab, sides, family) as link:
                asked, granted = (data(min(count, LONGEST[end.side]), end.seed)
                                  for end in link.ends)
                link.listen()
                request = link.request(data=asked or None)
                client, _ = link.accept(data=granted or None)
                context.check(request.data == asked, f"{count}: {request}")
                context.check(client.data == granted, f"{count}: {client}")


@case("connections/answer-that-siw-would-die-of",
      roles=("server-here",))
def answer_too_long(context, lab, sides):
    """Our device refuses it, and the guest's kernel lives. As in Linux, an
    accept that fails is a reject."""
    too_long = data(LONGEST[OURS] + 1, 1)
    with Link(lab, sides) as link:
        link.listen()
        for answer in ("accept", "reject"):
            link.request()
            link.server.ask("create", name="q", id="c")
            try:
                link.server.ask(answer, id="c", data=too_long)
            except suite.Failure as failure:
                context.check("Invalid argument" in str(failure), failure)
            else:
                raise suite.Failure(f"{answer}: not refused")
            if answer == "reject":
                link.server.ask("reject", id="c")
            link.client.expect_event("REJECTED")
            for end in link.ends:
                end.ask("destroy", name="q")
                end.ask("destroy", id="c")
        link.request()
        link.accept()
        link.begin()
        transfer(link, (100,))


@case("connections/depths")
def depths(context, lab, sides):
    """What the client asks for is the server's to see, with the names changed
    over: what one may have under way the other answers."""
    with Link(lab, sides) as link:
        link.listen()
        request = link.request(reads=3, depth=2)
        context.check((request.reads, request.depth) == (2, 3), request)
        client, server = link.accept(reads=2, depth=3)
        # siw exchanges the two in one of these events.
        for event in (client, server):
            context.check({event.reads, event.depth} == {2, 3}, event)
        link.begin()
        transfer(link, (64, 5000))


@case("connections/rejected-by-the-program", bed=True)
def rejected(context, lab, sides):
    with Link(lab, sides) as link:
        link.listen()
        for count in (0, 100):
            wanted = data(count, 7)
            link.request()
            link.server.ask("reject", id="c", data=wanted or None)
            event = link.client.expect_event("REJECTED")
            context.check(event.data == wanted, event)
            link.server.ask("destroy", id="c")
            link.client.ask("destroy", name="q")
            link.client.ask("destroy", id="c")
        # The listener goes on.
        link.request()
        link.accept()
        link.begin()
        transfer(link, (100,))


@case("connections/nobody-listens")
def nobody(context, lab, sides):
    """siw's program is told at once, ours by an event."""
    with Link(lab, sides) as link:
        try:
            link.ask()
        except suite.Failure as failure:
            context.check("Connection refused" in str(failure), failure)
        else:
            link.client.expect_event("REJECTED")


def disconnect(_context, lab, sides, first):
    """Receives are flushed, and both programs are told once."""
    with Link(lab, sides) as link:
        link.open()
        for end in link.ends:
            for number in range(3):
                end.ask("receive", qp="q", memory="m", bytes=64, id=number)
        ends = {"client": [link.client], "server": [link.server],
                "both": link.ends}[first]
        for end in ends:
            end.ask("disconnect", id="c")
        for end in link.ends:
            end.expect_event("DISCONNECTED")
            end.expect(FLUSHED, FLUSHED, FLUSHED)
            if end.side == OURS:  # siw's queue pair remains in SQD
                end.expect_state("err")


for _first in ("client", "server", "both"):
    case(f"connections/disconnected-by-{_first}")(
        functools.partial(disconnect, first=_first))


@case("connections/everything-sent-before-a-disconnect-arrives")
def orderly(_context, lab, sides):
    size = 200_000
    with Link(lab, sides, bytes=size) as link:
        link.open()
        link.passive.ask("receive", qp="q", memory="m", bytes=size)
        link.active.ask("fill", memory="m", bytes=size, seed=5)
        link.post("send", size)
        link.active.expect(SUCCESS)
        link.active.ask("disconnect", id="c")
        link.passive.expect(SUCCESS)
        link.passive.ask("check", memory="m", bytes=size, seed=5)
        link.passive.expect_event("DISCONNECTED")


@case("connections/server-goes-away-before-it-answers")
def unanswered(context, lab, sides):
    with Link(lab, sides) as link:
        link.listen()
        link.request()
        link.server.close()
        event = link.client.next_event()
        context.check(event.kind in ("REJECTED", "UNREACHABLE",
                                     "CONNECT_ERROR"), event)
        link.ends.remove(link.server)


@case("connections/one-after-the-other")
def many(_context, lab, sides):
    """On one listener, with queue pairs and ids that come and go."""
    with Link(lab, sides) as link:
        link.listen()
        for _ in range(10):
            link.request()
            link.accept()
            link.begin()
            transfer(link, (1000,))
            link.close()
            for end in link.ends:
                end.ask("destroy", name="q")
                end.ask("destroy", id="c")


# siw's parameters for each.
SETUPS = {
    "crc-required": {"mpa_crc_required": "Y"},
    "revision-1": {"mpa_version": 1},
    "revision-1-with-crc": {"mpa_version": 1, "mpa_crc_required": "Y"},
    "peer-to-peer": {"peer_to_peer": "Y"},
    "rtr-write": {"peer_to_peer": "Y", "rtr_type": siw_module.RTR_WRITE},
    "rtr-read": {"peer_to_peer": "Y", "rtr_type": siw_module.RTR_READ},
    "copies": {"zcopy_tx": "N"},
    "gso": {"try_gso": "Y"},
    "nagle": {"siw_tcp_nagle": "Y"},
}


def setup(_context, lab, sides, name):
    lab.set_parameters(**SETUPS[name])
    with Link(lab, sides, bytes=1 << 15) as link:
        link.open()
        transfer(link)
        link.close()


for _name in SETUPS:
    case(f"setup/{_name}", core=_name not in ("copies", "gso", "nagle"),
         bed=_name == "crc-required")(
        functools.partial(setup, name=_name))


def server_first(_context, lab, sides, rtr):
    """With an RTR, the server need not wait for the client's program."""
    lab.set_parameters(peer_to_peer="Y", rtr_type=rtr)
    with Link(lab, sides) as link:
        link.listen()
        link.request()
        link.accept()
        link.swap()
        transfer(link, (100, 3000))


for _name, _rtr in (("write", siw_module.RTR_WRITE),
                    ("read", siw_module.RTR_READ)):
    case(f"setup/server-sends-first-after-rtr-{_name}",
         roles=("server-here", "both-in-vm"))(
        functools.partial(server_first, rtr=_rtr))


@case("setup/siw-refuses-crc", roles=OF_OURS)
def refuses_crc(context, lab, sides):
    """We ask for CRCs; siw rejects the request, or does not take our reply."""
    lab.set_parameters(mpa_crc_required="N", mpa_crc_strict="Y")
    with Link(lab, sides) as link:
        link.listen()
        if sides[0] == OURS:
            link.ask()
        else:
            link.request()
            link.server.ask("create", name="q", id="c")
            link.server.ask("accept", id="c")
        event = link.client.next_event()
        context.check(event.kind == "REJECTED", event)
