"""Two verbs programs, driven step by step: one on our RNIC (verbs_peer.cc) and
one on the guest's rxe (guest/verbs_peer.py). A scenario is written once, for
an active and a passive end, and run with either of them on our side.
"""

import functools
import json
import os
import socket

import bed
import suite
import vm

# ibv_wc_status, by what the tests expect.
SUCCESS, LOCAL_LENGTH, LOCAL_QP, LOCAL_PROTECTION, FLUSHED = 0, 1, 2, 4, 5
BIND, BAD_RESPONSE = 6, 7
INVALID_REQUEST, REMOTE_ACCESS, REMOTE_OPERATION = 9, 10, 11
RETRIES_EXCEEDED, RNR_EXCEEDED = 12, 13
STATUS_NAMES = {
    0: "success", 1: "local length error", 2: "local QP operation error",
    4: "local protection error", 5: "flushed", 6: "memory window bind error",
    7: "bad response", 8: "local access error",
    9: "remote invalid request error", 10: "remote access error",
    11: "remote operation error", 12: "retries exceeded",
    13: "RNR retries exceeded", 21: "general error"}

# ibv_wc_opcode.
OP_SEND, OP_WRITE, OP_READ, OP_SWAP, OP_ADD, OP_BIND = 0, 1, 2, 3, 4, 5
OP_LOCAL_INV = 6
OP_RECEIVE, OP_RECEIVE_IMM = 128, 129

OURS, THEIRS = 0, vm.GUEST
PSN = (0xFFFFF0, 0x123456)  # of each side; ours wraps soon


class Completion:
    """One work completion."""

    def __init__(self, text):
        fields = text.split(":")
        self.id, self.status, self.opcode, self.bytes = map(int, fields[:4])
        self.imm = int(fields[4]) if fields[4] else None

    def __repr__(self):
        return (f"<{self.id}: {STATUS_NAMES.get(self.status, self.status)}, "
                f"opcode {self.opcode}, {self.bytes} bytes, imm {self.imm}>")


class End:
    """A verbs program. ask() is one request to it; see README.md."""

    def __init__(self, lab, side):
        self.lab = lab
        self.side = side
        self.name = ("urnic", lab.peer)[side]
        self._process = None
        if side == THEIRS:
            self._connection = lab.connect()
            self._connection.sendall(
                json.dumps(lab.verbs_program).encode() + b"\n")
        else:
            self._connection = self._start()
        self._connection.settimeout(180)
        self._stream = self._connection.makefile("rb")

    def _start(self):
        path = os.path.join(self.lab.directory, f"{self.lab.next_port()}.sock")
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(path)
            listener.listen(1)
            listener.settimeout(60)
            self._process = self.lab.spawn(
                OURS, [self.lab.tools.verbs_peer, path])
            try:
                return listener.accept()[0]
            except TimeoutError:
                raise bed.Timeout("verbs_peer does not come: "
                                  f"{self._process.result()}") from None

    def begin(self, verb, **words):
        """Sends a request whose answer() comes later."""
        text = " ".join([verb, *(f"{key}={value}"
                                 for key, value in words.items()
                                 if value is not None)])
        self._asked = text
        self._connection.sendall(text.encode() + b"\n")

    def answer(self):
        """Its words; Failure if it was refused."""
        try:
            line = self._stream.readline().decode().strip()
        except TimeoutError:
            raise bed.Timeout(f"{self.name}: no answer to {self._asked}") \
                from None
        except ConnectionError:
            line = ""
        if not line:
            raise suite.Failure(f"{self.name} ended at: {self._asked}\n" +
                                self._last_words())
        if not line.startswith("ok"):
            raise suite.Failure(f"{self.name}: {self._asked}: {line}")
        return dict(word.split("=", 1) for word in line.split()[1:])

    def ask(self, verb, **words):
        self.begin(verb, **words)
        return self.answer()

    def _last_words(self):
        if self._process is None:
            return self.lab.console()[-2000:]
        return str(self._process.wait(5))

    def memory(self, bytes, access="lwra", name="m"):
        """Registers memory and returns how others find it."""
        found = self.ask("memory", name=name, bytes=bytes, access=access)
        return {"address": int(found["address"]), "rkey": int(found["rkey"])}

    def poll(self, count=1, seconds=60, qp="q"):
        """`count` completions, or as many as came in time."""
        self.begin("poll", qp=qp, count=count, seconds=seconds)
        return self.polled()

    def polled(self):
        return [Completion(text) for text in self.answer().values()]

    def expect(self, *statuses, qp="q", seconds=60):
        """Polls one completion for each status, and returns them."""
        return self.check(self.poll(len(statuses), seconds, qp), statuses)

    def check(self, found, statuses):
        if [wc.status for wc in found] != list(statuses):
            names = [STATUS_NAMES[status] for status in statuses]
            raise suite.Failure(f"{self.name}: completions {found}, expected "
                                f"{names}")
        return found

    def expect_quiet(self, qp="q", seconds=0.2):
        found = self.poll(1, seconds, qp)
        if found:
            raise suite.Failure(f"{self.name}: unexpected {found}")

    def expect_state(self, state, qp="q"):
        found = self.ask("state", qp=qp)["state"]
        if found != state:
            raise suite.Failure(f"{self.name}: queue pair in {found}, not "
                                f"{state}")

    def close(self):
        self._stream.close()
        self._connection.close()
        if self._process is not None:
            result = self._process.wait(30)
            if result.status != 0:
                raise suite.Failure(str(result))


class Pair:
    """Two connected queue pairs "q", and memory "m" on each side, filled with
    the pattern of seed 100 + side. `active` and `passive` are the ends; what
    each knows of the other is in `.peer`.

    `accesses`: rights on the active and the passive end's memory. `shared`:
    the passive end receives through a shared queue "s". What else is given
    goes to the request "connect", for one end alone as {side: value}."""

    # pylint: disable-next=too-many-arguments
    def __init__(self, lab, active_side=OURS, family="v4", type="rc",
                 bytes=16384, accesses=("lwra", "lwra"), shared=False,
                 **connect):
        self.family = family
        self.type = type
        self._connect = connect
        self.ends = [End(lab, side) for side in (OURS, THEIRS)]
        self.active = self.ends[active_side]
        self.passive = self.ends[1 - active_side]
        memories = []
        for end in self.ends:
            access = accesses[0 if end is self.active else 1]
            memories.append(end.memory(bytes, access))
            end.ask("fill", memory="m", bytes=bytes, seed=100 + end.side)
        if shared:
            self.passive.ask("shared", name="s")
        for end, memory, queue in zip(self.ends, reversed(memories),
                                      self.add("q", shared)):
            end.peer = {**memory, **queue}

    def add(self, name, shared=False):
        """Another connected queue pair; what each end knows of its peer."""
        made = [end.ask("create", name=name, type=self.type,
                        gid_index=end.lab.gid_index(end.side, self.family),
                        shared="s" if shared and end is self.passive
                        else None)
                for end in self.ends]
        made.reverse()
        for end, peer in zip(self.ends, made):
            words = {"qpn": peer["qpn"], "gid": peer["gid"],
                     "psn": PSN[end.side], "peer_psn": PSN[1 - end.side],
                     "gid_index": end.lab.gid_index(end.side, self.family)}
            for key, value in self._connect.items():
                words[key] = (value[end.side] if isinstance(value, dict)
                              else value)
            end.ask("connect", qp=name, **words)
        return made

    def __enter__(self):
        return self

    def __exit__(self, kind, *_unused):
        for end in self.ends:
            try:
                end.close()
            except (suite.Failure, bed.Timeout):
                # Report only the first error.
                if kind is None:
                    raise

    def post(self, op, bytes, at=0, remote_at=0, id=1, qp="q", **words):
        """The active end posts a request against the passive end's memory."""
        peer = self.active.peer
        words.setdefault("rkey", peer["rkey"])
        self.active.ask("post", qp=qp, op=op, id=id, memory="m", bytes=bytes,
                        at=at, address=int(peer["address"]) + remote_at,
                        **words)


def case(name, core=True, needs=(), sides=(OURS, THEIRS)):
    """Registers a scenario: a function of the context, the lab and the side
    that is active, for each of `sides`; or, without sides, a function of
    context and lab. `needs`: what our RNIC must be able to do."""

    def register(body):
        for side in sides or (None,):
            suffix = {None: "", OURS: "/to-rxe", THEIRS: "/from-rxe"}[side]
            suite.add(name + suffix,
                      functools.partial(_run, body, side, needs), core)
        return body

    return register


# The abilities that our RNIC must have: a test that needs them always runs. A
# test with other needs is skipped until the RNIC has them.
ALWAYS = frozenset(["rc", "uc", "ud", "srq"])


def need(lab, needs):
    """Skips a test until our RNIC can do all of `needs`."""
    for ability in needs:
        if ability not in ALWAYS | abilities(lab):
            raise suite.Skip(f"uRNIC has no {ability} yet")


def _run(body, side, needs, context):
    lab = context.tools.lab
    need(lab, needs)
    try:
        if side is None:
            body(context, lab)
        else:
            body(context, lab, side)
    finally:
        lab.reset()


def abilities(lab):
    """What our RNIC lets a program create, asked once."""
    if lab.abilities is None:
        end = End(lab, OURS)
        lab.abilities = frozenset(end.ask("hello")["can"].split(","))
        end.close()
    return lab.abilities
