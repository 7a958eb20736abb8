"""The choices of `--iwarp`, as tshark reads their effects on the wire, and what
the iWARP device counts."""

import functools
import os
import re
import time

import bed
import suite
import test_rdmacm
import test_vanish
import tshark

SERVER = "10.1.0.1"
# Flags of the IRD and ORD fields, with which the private data of revision 2
# begin.
PEER_TO_PEER, ZERO, WRITE, READ = 0x80000000, 0x40000000, 0x8000, 0x4000


class OptionsBed(bed.VethBed):
    """Two iWARP devices with options of `urnic run` for (server, client)."""

    def __init__(self, tools, options=((), ())):
        super().__init__(tools, mtu=1500)
        self.mtu_option = self.mtu
        self.transport = "iwarp"
        self._options = options

    def run_options(self, side):
        return [*super().run_options(side), *self._options[side]]


def exchange(context, place, size=20000, number=5):
    """rping between the devices. Returns where the capture of it is."""
    context.need("rping", "tshark")
    words = ["-a", SERVER, "-S", str(size), "-C", str(number), "-V"]
    with place.capture() as capture:
        server = test_rdmacm.spawn_server(place, ["rping", "-s", *words])
        stats = f"URNIC_STATS={place.stats_path(1)}"
        test_rdmacm.run_client(context, place, server,
                               ["env", stats, "rping", "-c", *words], 30)
        context.check_ok(server.wait(10))
    path = os.path.join(place.directory, "wire.pcap")
    capture.write_pcap(path)
    return path


def set_up_frames(context, path, kind):
    """(markers, CRC, revision, IRD and ORD with their flags) of each request
    ("req") or reply ("rep")."""
    frames = tshark.fields(path, f"iwarp_mpa.{kind}", "iwarp_mpa.marker_flag",
                    "iwarp_mpa.crc_flag", "iwarp_mpa.rev",
                    "iwarp_mpa.privatedata")
    context.check(frames, f"tshark finds no {kind} in {path}")
    return [(markers in ("1", "True"), crc in ("1", "True"), int(revision, 0),
             int(data.replace(":", "")[:8] or "0", 16))
            for markers, crc, revision, data in frames]


def with_options(context, server, client):
    """The last request and the last reply, and the capture, of an exchange
    between devices with these values of --iwarp."""
    options = [("--iwarp", value) if value else ()
               for value in (server, client)]
    with OptionsBed(context.tools, options) as place:
        path = exchange(context, place)
        markers = {
            source for (source,) in tshark.fields(path, "iwarp_mpa.marker_fpduptr",
                                           "ip.src")}
        requests = set_up_frames(context, path, "req")
        return requests, set_up_frames(context, path, "rep")[-1], markers


@suite.test("iwarp-options/defaults")
def defaults(context):
    (request,), reply, marked = with_options(context, "", "")
    for markers, crc, revision, depths in (request, reply):
        context.check(not markers and crc and revision == 2 and
                      depths & PEER_TO_PEER, f"{request}, {reply}")
    kinds = request[3] & (ZERO | WRITE | READ)
    context.check(kinds == ZERO | WRITE | READ, f"{request[3]:#x}")
    context.check(not marked, f"markers from {marked}")


@suite.test("iwarp-options/crc")
def crc(context):
    """It is used unless neither side asks for it."""
    for server, client, expected in (("crc=off", "crc=off", False),
                                     ("", "crc=off", True)):
        (request,), reply, _ = with_options(context, server, client)
        context.check(not request[1] and reply[1] == expected,
                      f"{request}, {reply}")


@suite.test("iwarp-options/markers")
def markers(context):
    """They are in the stream to the side that asks for them, and tshark finds
    them where they should be."""
    (request,), reply, marked = with_options(context, "markers=on", "")
    context.check(not request[0] and reply[0], f"{request}, {reply}")
    context.check(marked == {"10.1.0.2"}, f"markers from {marked}")


@suite.test("iwarp-options/mpa-revision-1")
def revision_1(context):
    """The client that knows only it asks for nothing else; one that knows both
    asks a server that knows only it again."""
    requests, reply, _ = with_options(context, "", "mpa=1")
    context.check([r[2] for r in requests] == [1] and reply[2] == 1,
                  f"{requests}, {reply}")
    requests, reply, _ = with_options(context, "mpa=1", "")
    context.check([r[2] for r in requests] == [2, 1] and reply[2] == 1,
                  f"{requests}, {reply}")


@suite.test("iwarp-options/rtr")
def rtr(context):
    for value, kinds in (("zero", ZERO), ("write", WRITE), ("read", READ)):
        (request,), reply, _ = with_options(context, "", f"rtr={value}")
        for frame in (request, reply):
            context.check(frame[3] & (ZERO | WRITE | READ) == kinds and
                          frame[3] & PEER_TO_PEER, f"{value}: {frame[3]:#x}")
    # The client of rping sends first anyway.
    (request,), _, _ = with_options(context, "", "rtr=none")
    context.check(not request[3] & PEER_TO_PEER, f"none: {request[3]:#x}")


def ecn(context, mode):
    """The SYNs agree on it, a congested wire marks, the receiver echoes, and
    the sender slows down before anything is lost."""
    options = ("--iwarp", f"ecn={mode}")
    # Only the data of the client meet the queue. What is not marked, such as
    # plain acknowledgements, is lost there.
    slow = ("--fault",
            "direction=out,rate=200Mbit,buffer=4MB,red=4KB:12KB:100%")
    with OptionsBed(context.tools, (options, (*options, *slow))) as place:
        path = exchange(context, place, size=60000, number=20)
        syns = tshark.fields(path, "tcp.flags.syn==1 && ip.addr==10.1.0.0/24",
                      "tcp.flags.ack", "tcp.flags.ece", "tcp.flags.cwr")
        texts = [["1" if word in ("1", "True") else "0" for word in syn]
                 for syn in syns]
        context.check(["0", "1", "1"] in texts and ["1", "1", "0"] in texts,
                      f"SYNs: {syns}")
        at_rnics = "ip.addr==10.1.0.0/24"
        for what, chosen in (("marks", f"{at_rnics} && ip.dsfield.ecn==3"),
                             ("echoes", f"{at_rnics} && tcp.flags.ece==1 && "
                              "tcp.flags.syn==0"),
                             ("CWR", f"{at_rnics} && tcp.flags.cwr==1 && "
                              "tcp.flags.syn==0")):
            context.check(tshark.fields(path, chosen, "frame.number"),
                          f"no {what} in {path}")
        stats = place.read_stats(1)[-1]
        context.check(stats["device"] == "iwurnic0", f"{stats}")
        tcp = stats["iwarp"]
        # A peer that is slow to answer gets tail probes, which repeat a segment
        # that was not lost.
        context.check(tcp["ecn_reductions"] > 0 and tcp["timeouts"] == 0 and
                      tcp["fast_recoveries"] == 0 and
                      tcp["retrans_segs"] <= tcp["loss_probes"], f"{stats}")
        context.note(f"{tcp['ecn_reductions']} reductions")


@suite.test("iwarp-options/ecn-classic")
def ecn_classic(context):
    ecn(context, "classic")


@suite.test("iwarp-options/ecn-dctcp")
def ecn_dctcp(context):
    ecn(context, "dctcp")


@suite.test("iwarp-options/a-wrong-value-is-refused")
def refused(context):
    with OptionsBed(context.tools, (("--iwarp", "crc=no"), ())) as place:
        result = place.run(0, ["true"])
        context.check(result.status == 2 and "write crc=on or off" in
                      result.err, result)


def silence(context, how):
    """A program is told that its peer was killed, also if it sends nothing."""
    with OptionsBed(context.tools, ((), ("--iwarp", "timeout=2"))) as place:
        server = test_vanish.spawn_server(context, place)
        client = test_vanish.spawn(context, place, 1, "one-client", how)
        bed.await_true(lambda: test_vanish.count(client, "up"), 30,
                       "a connection")
        time.sleep(3)
        context.check(test_vanish.count(client, "down") == 0, client.result())
        server.kill()
        bed.await_true(lambda: test_vanish.count(client, "down") or
                       not client.running(), 30, "the end is noticed")
        context.check(client.running(), client.result())


for _how in ("stay", "quiet"):
    suite.add(f"iwarp-options/timeout-of-a-silent-peer/{_how}",
              functools.partial(silence, how=_how), _how == "quiet")


@suite.test("iwarp-options/counters")
def counters(context):
    """The statistics at the end name the device that was used, and another
    program reads the counters of a running one from sysfs."""
    context.need("rping")
    folder = "/sys/class/infiniband/iwurnic0/ports/1/hw_counters"
    with OptionsBed(context.tools) as place:
        place.transport = "both"
        place.sides[0].addresses = [f"{SERVER}/24,iwarp"]
        place.sides[1].addresses = ["10.1.0.2/24,iwarp"]
        words = ["-a", SERVER, "-C", "10", "-V"]
        server = test_rdmacm.spawn_server(place, ["rping", "-s", "-P", *words])
        read = ["sh", "-c", f"cd {folder} && grep . *"]
        stats = f"URNIC_STATS={place.stats_path(1)}"
        test_rdmacm.run_client(context, place, server,
                               ["env", stats, "rping", "-c", *words], 30)
        result = place.run(0, read)
        value = {name: int(text) for name, text in re.findall(
            r"^iwarp_(\w+):(\d+)$", result.out, re.MULTILINE)}
        # A client that comes before the server listens is run again.
        clients = [line for line in place.read_stats(1)
                   if line["device"] == "iwurnic0"]
        context.check(1 <= value["passive_opens"] <= len(clients) and
                      value["active_opens"] == 0, f"{result}, {clients}")
        stats = clients[-1]
        context.check(stats["iwarp"]["active_opens"] == 1 and
                      stats["engine"]["bytes_acked"] > 0, f"{stats}")
        context.check(set(value) == set(stats["iwarp"]) - {"terminates"},
                      f"{sorted(value)}, {sorted(stats['iwarp'])}")
