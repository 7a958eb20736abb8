"""gdb commands that list the RNIC's objects in a live program or a core file,
and printers for its types.

gdb loads this file with the plugin (it is installed as its -gdb.py). Otherwise:
source urnic_gdb.py. The commands need no debug information: they find the
objects by the marks around them (ras/marks), and read what libibverbs' structs
say, whose layout is fixed. Only the counts of posted requests depend on this
version of the plugin.
"""

import re
import struct

import gdb
import gdb.printing

STATES = ("RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR")
TYPES = {2: "RC", 3: "UC", 4: "UD", 9: "XRC_INI", 10: "XRC_TGT"}

# The part of an object that libibverbs leaves free for a plugin begins here;
# its first word points to the rings (verbs/provider/objects.h).
POSTING = 384


def _words(address, layout):
    """The values of a struct at that address."""
    inferior = gdb.selected_inferior()
    return struct.unpack(
        layout, inferior.read_memory(address, struct.calcsize(layout)))


def _text(address):
    return gdb.selected_inferior().read_memory(
        address, 64).tobytes().split(b"\0")[0].decode(errors="replace")


def _device(address):
    """The name of the device that an object's first word leads to. None: these
    bytes are the text of marks, which the plugin has as well."""
    try:
        (context,) = _words(address, "<Q")
        (device,) = _words(context, "<Q")
        name = _text(device + 24)
    except gdb.MemoryError:
        return None
    return name if re.fullmatch(r"[a-z]*urnic\d+", name) else None


def _waiting(posting, ring):
    """How many entries of a work queue the RNIC has not taken."""
    try:
        _, indices = _words(posting + 32 * ring, "<QQ")
        (posted,) = _words(indices, "<I")
        (taken,) = _words(indices + 64, "<I")
        return (posted - taken) & 0xFFFFFFFF
    except gdb.MemoryError:
        return "?"


def _qp(at):
    _, _, pd, send_cq, recv_cq, srq, _, number, state, kind = _words(
        at, "<6Q2I2I")
    (posting,) = _words(at + POSTING, "<Q")
    facts = {"lqpn": number, "type": TYPES.get(kind, kind),
             "state": STATES[state] if state < len(STATES) else state,
             "waiting-sends": _waiting(posting, 0),
             "waiting-receives": _waiting(posting, 1),
             "pd": hex(pd), "send-cq": hex(send_cq), "recv-cq": hex(recv_cq)}
    if srq:
        facts["srq"] = hex(srq)
    return facts


def _cq(at):
    _, channel, _, _, cqe = _words(at, "<3QIi")
    return {"cqe": cqe, "channel": hex(channel)}


def _mr(at):
    _, pd, address, length, _, lkey, rkey = _words(at, "<4Q3I")
    return {"lkey": hex(lkey), "rkey": hex(rkey), "addr": hex(address),
            "length": length, "pd": hex(pd)}


def _mw(at):
    _, pd, rkey, _, kind = _words(at, "<2Q3I")
    return {"rkey": hex(rkey), "type": kind, "pd": hex(pd)}


def _of_pd(at):
    return {"pd": hex(_words(at, "<2Q")[1])}


def _srq(at):
    return {"pd": hex(_words(at, "<3Q")[2])}


def _numbered(at):
    return {"number": _words(at, "<QI")[1]}


def _nothing(_at):
    return {}


# Kind: what stands in the marks, and what libibverbs' struct says.
KINDS = {
    "qp": ("QP", _qp), "cq": ("CQ", _cq), "srq": ("SRQ", _srq),
    "pd": ("PD", _numbered), "td": ("TD", _nothing), "mr": ("MR", _mr),
    "mw": ("MW", _mw), "ah": ("AH", _of_pd), "xrcd": ("XD", _nothing),
}


def _writable_ranges():
    """The memory in which objects may be, of a process or a core file: what is
    shared, as DPDK's half a gigabyte, has none."""
    inferior = gdb.selected_inferior()
    try:
        if inferior.pid and not _is_core():
            with open(f"/proc/{inferior.pid}/maps", encoding="ascii") as maps:
                for line in maps:
                    span, rights = line.split()[:2]
                    if rights.startswith("rw-p"):
                        low, high = span.split("-")
                        yield int(low, 16), int(high, 16)
                return
    except OSError:
        pass
    shared = {int(low, 16) for low in re.findall(
        r"(0x[0-9a-f]+) .* /memfd:",
        gdb.execute("info proc mappings", to_string=True))}
    for low, high in re.findall(
            r"(0x[0-9a-f]+) - (0x[0-9a-f]+) is load\d+",
            gdb.execute("info files", to_string=True)):
        if int(low, 16) not in shared:
            yield int(low, 16), int(high, 16)


def _is_core():
    return "core dump file" in gdb.execute("info target", to_string=True)


class _Object:
    """An object at an address, between its marks or what is left of them."""

    def __init__(self, letters, address, device, is_fenced, end):
        self.letters = letters
        self.device = device
        self.address = address
        # A verb has noticed it, or its end shows it.
        self.is_damaged = is_fenced or end is None


# At the beginning of a cache line stands the mark of an object, or that of one
# that was fenced off.
_MARK = re.compile(rb"uRNIC-([A-Z]{2})|uRNIC([A-Z]{3})|"
                   rb"BAD---([A-Z]{2})|BAD--([A-Z]{3})")
# What stands before the next object of a slab.
_NEXT = re.compile(rb"uRNIC-[A-Z]{2}|uRNIC[A-Z]{3}|ended--?-?[A-Z]{2,3}|"
                   rb"BAD---?[A-Z]{2,3}")
_CHUNK = 1 << 22
# No heap, but a sanitizer's shadow of the address space.
_HUGE = 1 << 36
_LONGEST = 4096


def _objects():
    """All objects in the memory of the program, in one pass."""
    inferior = gdb.selected_inferior()
    for low, high in _writable_ranges():
        if high - low > _HUGE:
            continue
        for at in range(low, high, _CHUNK):
            end = min(at + _CHUNK, high)
            try:
                # With what an object at the end of the chunk extends to.
                memory = inferior.read_memory(
                    at, min(end + _LONGEST, high) - at).tobytes()
            except gdb.MemoryError:  # not all of it is in the file
                continue
            for mark in _MARK.finditer(memory, 0, end - at):
                yield from _object(at, memory, mark)


def _object(at, memory, mark):
    if (at + mark.start()) % 64 != 0:
        return
    letters = next(group for group in mark.groups() if group)
    behind = (letters + b"-uRNIC")[-8:] if len(letters) == 2 \
        else letters + b"uRNIC"
    begin = mark.end()
    limit = next((other.start() for other in
                  _NEXT.finditer(memory, begin, begin + _LONGEST)
                  if (at + other.start()) % 64 == 0), begin + _LONGEST)
    end = memory.find(behind, begin, limit)
    device = _device(at + begin)
    if device is not None:
        yield _Object(letters.decode(), at + begin, device,
                      mark.group(0).startswith(b"BAD"),
                      end if end >= 0 else None)


def _line(kind, address, facts):
    words = " ".join(f"{name} {value}" for name, value in facts.items())
    return f"{kind} {address:#x} {words}".rstrip()


class Urnic(gdb.Command):
    """The objects of the RNIC, found by their marks: urnic objects counts them;
urnic qp, cq, srq, pd, td, mr, mw, ah and xrcd list those of a kind."""

    def __init__(self):
        super().__init__("urnic", gdb.COMMAND_DATA, gdb.COMPLETE_NONE, True)


class UrnicObjects(gdb.Command):
    """How many objects of each kind there are, and those that were written over.
Usage: urnic objects"""

    def __init__(self):
        super().__init__("urnic objects", gdb.COMMAND_DATA)

    def invoke(self, argument, from_tty):
        found = list(_objects())
        for kind, (letters, _) in KINDS.items():
            of_kind = [one for one in found if one.letters == letters]
            intact = [one for one in of_kind if not one.is_damaged]
            line = f"{kind} {len(intact)}"
            if len(intact) != len(of_kind):
                line += " written over: " + " ".join(
                    hex(one.address) for one in of_kind if one.is_damaged)
            print(line)


class UrnicKind(gdb.Command):
    """Lists the {} of the program: address, device, and what libibverbs knows.
The state is the one that the program set last. Usage: urnic {} [NUMBER]"""

    def __init__(self, kind):
        self.__doc__ = UrnicKind.__doc__.format(kind, kind)
        self._kind = kind
        super().__init__("urnic " + kind, gdb.COMMAND_DATA)

    def invoke(self, argument, from_tty):
        letters, read = KINDS[self._kind]
        wanted = argument.strip()
        count = 0
        for one in _objects():
            if one.letters != letters:
                continue
            try:
                facts = {"dev": one.device, **read(one.address)}
            except gdb.MemoryError:
                facts = {"unreadable": "yes"}
            if wanted and wanted not in map(str, facts.values()):
                continue
            if one.is_damaged:
                facts["written-over"] = "yes"
            print(_line(self._kind, one.address, facts))
            count += 1
        if count == 0:
            print(f"no {self._kind}" + (f" with {wanted}" if wanted else ""))


# --- Printers, with debug information ----------------------------------------

class _Printer:
    def __init__(self, value):
        self._value = value

    def _bytes(self):
        elements = self._value["bytes"]["_M_elems"]
        low, high = elements.type.strip_typedefs().range()
        return [int(elements[i]) for i in range(low, high + 1)]


class PsnPrinter(_Printer):
    def to_string(self):
        return str(int(self._value["v_"]))


class DurationPrinter(_Printer):
    """With the unit in which it is read best."""

    def to_string(self):
        nanoseconds = int(self._value["ns_"])
        if nanoseconds == 2**63 - 1:
            return "infinite"
        for unit, size in (("s", 10**9), ("ms", 10**6), ("us", 10**3)):
            if abs(nanoseconds) >= size:
                return f"{nanoseconds / size:g} {unit}"
        return f"{nanoseconds} ns"


class MacPrinter(_Printer):
    def to_string(self):
        return ":".join(f"{byte:02x}" for byte in self._bytes())


class GidPrinter(_Printer):
    def to_string(self):
        gid = self._bytes()
        if gid[:12] == [0] * 10 + [0xFF, 0xFF]:
            return ".".join(map(str, gid[12:]))
        return ":".join(f"{gid[i]:02x}{gid[i + 1]:02x}"
                        for i in range(0, 16, 2))


class CodePrinter(_Printer):
    def to_string(self):
        return f"URN{int(self._value)}"


class MarkPrinter(_Printer):
    """Marks as the text that they are in memory."""

    def to_string(self):
        return ", ".join(
            f"{name} '" + struct.pack("<Q", int(self._value[name])).decode(
                errors="replace") + "'" for name in ("start", "end"))


def _printers():
    printers = gdb.printing.RegexpCollectionPrettyPrinter("urnic")
    for name, types, printer in (
            ("psn", "Psn", PsnPrinter), ("time", "(Duration|Time)",
                                         DurationPrinter),
            ("mac", "wire::MacAddress", MacPrinter),
            ("gid", "wire::Gid", GidPrinter),
            ("code", "ErrorCode", CodePrinter),
            ("marks", "Marks", MarkPrinter)):
        printers.add_printer(name, f"^urnic::{types}$", printer)
    return printers


Urnic()
UrnicObjects()
for _kind in KINDS:
    UrnicKind(_kind)
gdb.printing.register_pretty_printer(gdb.current_objfile(), _printers(),
                                     replace=True)
