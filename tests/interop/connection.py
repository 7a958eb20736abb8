"""Two verbs programs that are connected by rdma_cm: a client and a server, each
on our device or on siw in the guest. A scenario is written once and run for
each of these roles; "both-in-vm" is siw against itself.
"""

import functools

import suite
from cm_programs import ADDRESS
from scenario import OURS, SUCCESS, THEIRS, End

# Sides: (the client's, the server's).
ROLES = {"client-here": (OURS, THEIRS), "server-here": (THEIRS, OURS),
         "both-in-vm": (THEIRS, THEIRS)}
OF_OURS = ("client-here", "server-here")
PREFIX = "RDMA_CM_EVENT_"


class Event:
    """What an id was told."""

    def __init__(self, words):
        self.kind = words["event"].removeprefix(PREFIX)
        self.status = int(words.get("status", 0))
        self.data = words.get("data", "")
        self.reads = int(words.get("reads", 0))
        self.depth = int(words.get("depth", 0))

    def __repr__(self):
        return (f"<{self.kind}, status {self.status}, data {self.data}, "
                f"reads {self.reads}, depth {self.depth}>")


class CmEnd(End):
    """An End, and what happens to its ids."""

    def next_event(self, name="c", seconds=60):
        return Event(self.ask("event", id=name, seconds=seconds, **{"as": "c"}))

    def expect_event(self, kind, name="c", seconds=60):
        event = self.next_event(name, seconds)
        if event.kind != kind:
            raise suite.Failure(f"{self.name}: {event}, expected {kind}")
        return event


class Link:
    """The two ends, not yet connected: open() does that. Each has memory "m",
    filled with the pattern of seed 100 (the client's) and 101, and then an id
    "c" with a queue pair "q"; what each knows of the other is in `.peer`.
    `active` and `passive` are the client and the server; swap() changes that.

    `accesses`: rights on the client's and the server's memory."""

    # pylint: disable-next=too-many-arguments
    def __init__(self, lab, sides, family="v4", bytes=16384,
                 accesses=("lwr", "lwr")):
        self.lab = lab
        self.family = family
        self.port = lab.next_port()
        self.ends = [CmEnd(lab, side) for side in sides]
        self.client, self.server = self.active, self.passive = self.ends
        memories = []
        for number, (end, access) in enumerate(zip(self.ends, accesses)):
            memories.append(end.memory(bytes, access))
            end.ask("fill", memory="m", bytes=bytes, seed=100 + number)
            end.seed = 100 + number
        for end, memory in zip(self.ends, reversed(memories)):
            end.peer = memory

    # Steps of a connection.

    def listen(self):
        self.server.ask("listen", name="l", port=self.port,
                        address=ADDRESS[self.family][self.server.side])

    def ask(self, **words):
        """The client asks for a connection."""
        self.client.ask("resolve", name="c", port=self.port,
                        address=ADDRESS[self.family][self.server.side])
        self.client.ask("create", name="q", id="c")
        self.client.ask("request", id="c", **words)

    def request(self, **words):
        """The same; what the server is told."""
        self.ask(**words)
        return self.server.expect_event("CONNECT_REQUEST", "l")

    def accept(self, **words):
        """The server grants it; what both are told: (client, server)."""
        self.server.ask("create", name="q", id="c")
        self.server.ask("accept", id="c", **words)
        return (self.client.expect_event("ESTABLISHED"),
                self.expect_established())

    def expect_established(self):
        """What the server is told. siw waits for the client's first FPDU, but
        may leave one that came too soon until the next segment comes."""
        if self.server.side == THEIRS:
            event = self.server.next_event(seconds=5)
            if event.kind == "ESTABLISHED":
                return event
            self.begin()
        return self.server.expect_event("ESTABLISHED")

    def open(self, **words):
        self.listen()
        self.request(**words)
        self.accept(**words)
        self.begin()

    def begin(self):
        """The client's first FPDU. Until it comes, the server may send none;
        and siw's may miss one that comes before its own event."""
        self.client.ask("post", qp="q", op="write", id=99, bytes=0,
                        address=self.client.peer["address"],
                        rkey=self.client.peer["rkey"])
        self.client.expect(SUCCESS)

    def close(self, first=None):
        """One end disconnects; both are told, and both can say so."""
        first = first or self.client
        first.ask("disconnect", id="c")
        for end in self.ends:
            end.expect_event("DISCONNECTED")

    # Operations.

    def swap(self):
        self.active, self.passive = self.passive, self.active

    def post(self, op, bytes, at=0, remote_at=0, id=1, **words):
        """The active end posts a request against the passive end's memory."""
        peer = self.active.peer
        words.setdefault("rkey", peer["rkey"])
        self.active.ask("post", qp="q", op=op, id=id, memory="m", bytes=bytes,
                        at=at, address=peer["address"] + remote_at, **words)

    def __enter__(self):
        return self

    def __exit__(self, kind, *_unused):
        for end in self.ends:
            try:
                end.close()
            except Exception:  # pylint: disable=broad-except
                # Report only the first error.
                if kind is None:
                    raise


def ours_and_theirs(link):
    """The ends by who they are."""
    return sorted(link.ends, key=lambda end: end.side)


def need(lab, *sides):
    """Skips a test until our device can be one of the sides."""
    if OURS in sides and lab.lacks():
        raise suite.Skip(lab.lacks())


def case(name, core=True, roles=tuple(ROLES), bed=False):
    """Registers a scenario: a function of the context, the lab and the sides,
    for each of `roles`. siw against itself is in the short set only with
    `bed`: the cases that show that the bed works."""

    def register(body):
        for role in roles:
            suite.add(f"{name}/{role}",
                      functools.partial(_run, body, ROLES[role]),
                      core and (bed or OURS in ROLES[role]))
        return body

    return register


def _run(body, sides, context):
    lab = context.tools.lab
    need(lab, *sides)
    try:
        body(context, lab, sides)
    finally:
        lab.reset()
