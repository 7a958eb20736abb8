"""What changes while programs run: addresses (`urnic addr`), the MTU."""

import functools
import os

import bed
import suite
import test_rdmacm

ADDED = "10.1.0.9"


def addr(place, *words, process=None):
    """The Result of `urnic addr`, of any namespace: it looks for processes."""
    option = [] if process is None else ["--process", str(process.pid)]
    return place.run(0, [place.tools.urnic, "addr", *option, *words],
                     rnic=False)


def await_device(place, process):
    """Waits until the program has opened its device."""
    bed.await_true(
        lambda: addr(place, process=process).status == 0 or
        not process.running(), 20, "the device open")


@suite.test("veth9000/asyncwatch-and-ping-see-addresses-come-and-go")
def watched(context):
    context.need("ibv_asyncwatch", "ping")
    with bed.VethBed(context.tools) as place:
        place.add_host_address(1, "10.1.0.101/24")
        watch = place.spawn(0, ["ibv_asyncwatch"])
        await_device(place, watch)

        def ping():
            return place.run(1, ["ping", "-c", "1", "-W", "1", ADDED],
                             rnic=False).status

        def events():
            return watch.output()[0].count("IBV_EVENT_GID_CHANGE")

        context.check(ping() != 0, "answered before it was there")
        result = addr(place, "add", "urnic0", f"{ADDED}/24", process=watch)
        context.check_ok(result)
        context.check("GID  6 (RoCE v1),  7 (v2)" in result.out, result)
        bed.await_true(lambda: events() == 1, 10, "the event")
        # While its first question is unanswered, the kernel asks once a second.
        bed.await_true(lambda: ping() == 0, 10, "an answer")
        listed = addr(place, process=watch)
        for text in ("ibv_asyncwatch", "10.1.0.1/24", "fd01::1/64",
                     f"{ADDED}/24"):
            context.check(text in listed.out, listed)
        context.check_ok(addr(place, "del", "urnic0", f"{ADDED}/24",
                              process=watch))
        bed.await_true(lambda: events() == 2, 10, "the second event")
        context.check(ping() != 0, "answered when it was gone")
        context.check(watch.running(), watch.result())


@suite.test("loop/urnic-addr-and-a-program-in-another-pid-namespace")
def contained(context):
    """Its pid is another process's here, whose name must not be shown."""
    context.need("unshare", "ibv_asyncwatch")
    if os.geteuid() != 0:
        raise suite.Skip("not root: cannot make a PID namespace")
    with bed.LoopBed(context.tools) as place:
        watch = place.spawn(0, ["ibv_asyncwatch"],
                            env={"TMPDIR": place.directory,
                                 "XDG_RUNTIME_DIR": place.directory},
                            wrap=["unshare", "--pid", "--fork", "--kill-child",
                                  "--mount-proc"])

        def listed():
            return place.run(0, [place.tools.urnic, "addr"], rnic=False,
                             env={"XDG_RUNTIME_DIR": place.directory}).out

        bed.await_true(lambda: place.directory in listed(), 20,
                       "the device open")
        context.check("of another PID namespace, " + place.directory in
                      listed(), listed())
        context.check(watch.running(), watch.result())


@suite.test("veth9000/perftest-over-an-address-that-was-added-and-goes")
def perftest(context):
    """The server reads its GID when the client has come: so it can be one that
    was not there when it began. When the address goes, the client's retries
    run out."""
    context.need("ib_write_bw")
    with bed.VethBed(context.tools) as place:
        port = str(place.next_port())
        argv = ["ib_write_bw", "-F", "-D", "1", "--run_infinitely", "-p", port]
        server = place.spawn(0, [*argv, "-x", "7"])
        bed.await_true(lambda: server.listens(int(port)), 20, "listening")
        context.check_ok(addr(place, "add", "urnic0", f"{ADDED}/24",
                              process=server))
        client = place.spawn(1, [*argv, "-x", "3",
                                 place.sides[0].host_address])
        bed.await_true(lambda: "65536" in client.output()[0] or
                       not client.running(), 30, "the first result")
        context.check(client.running(), client.result())
        numbers = ADDED.split(".")
        shown = ":".join(f"{int(n):02d}" for n in numbers)
        context.check(shown in client.output()[0], client.output())
        context.check_ok(addr(place, "del", "urnic0", f"{ADDED}/24",
                              process=server))
        result = client.wait(30)
        context.check("status 12" in result.out + result.err, result)


@suite.test("veth9000/rping-calls-an-address-that-was-added")
def rping(context):
    """A listener of all addresses hears those that come later."""
    context.need("rping")
    with bed.VethBed(context.tools) as place:
        server = place.spawn(0, ["rping", "-s", "-P", "-p", "7174"])
        await_device(place, server)
        call = ["rping", "-c", "-C", "10", "-a", ADDED, "-p", "7174"]
        context.check(place.run(1, call).status != 0, "nobody has it yet")
        context.check_ok(addr(place, "add", "urnic0", f"{ADDED}/24",
                              process=server))
        context.check_ok(place.run(1, call))
        context.check_ok(addr(place, "del", "urnic0", f"{ADDED}/24",
                              process=server))
        context.check(place.run(1, call).status != 0, "it is gone")
        context.check(server.running(), server.result())


@suite.test("veth1500/a-server-that-runs-follows-the-mtu")
def mtu_changes(context):
    """Up as well as down: what is called next has packets of the new size."""
    context.need("rping")
    with bed.VethBed(context.tools, 1500) as place:
        server = place.spawn(0, ["rping", "-s", "-P", "-S", "10000", "-p",
                                 "7174"])
        await_device(place, server)
        call = ["rping", "-c", "-C", "2", "-S", "10000", "-p", "7174", "-a",
                "10.1.0.1"]

        def largest_packet():
            with place.capture() as capture:
                context.check_ok(place.run(1, call))
            return max(packet.payload_bytes for packet in capture.packets())

        for interface_mtu, path_mtu in ((1500, 1024), (9000, 4096),
                                        (1000, 512)):
            for side in (0, 1):
                place.set_mtu(side, interface_mtu)
            # The server learns of the new MTU a moment later.
            bed.await_true(lambda: largest_packet() == path_mtu, 20,
                           f"packets of {path_mtu} bytes")


# Before the MTU changes, so much has been sent.
BUSY_BYTES = 10 << 20
# Time-outs in a row after which TCP guesses that its packets are too large.
FULL_STOP = 3


def spawn_writer(context, place, *options):
    """ib_write_bw for some seconds: (server, client), in the middle of it. The
    client, of side 1, will leave its counters."""
    context.need("ib_write_bw")
    argv = ["ib_write_bw", "-F", "-D", "8", "-p", str(place.next_port()),
            *options]
    server = test_rdmacm.spawn_server(place, argv)
    stats = f"URNIC_STATS={place.stats_path(1)}"
    peer = "10.1.0.1" if "-R" in options else place.sides[0].host_address
    client = place.spawn(1, ["env", stats, *argv, peer])

    def sent():
        path = f"/sys/class/net/{place.interface}/statistics/tx_bytes"
        return int(place.run(1, ["cat", path], rnic=False).out)

    bed.await_true(lambda: sent() > BUSY_BYTES or not client.running(), 30,
                   "traffic")
    context.check(client.running(), client.result())
    return server, client


def one_side_shrinks(context, transport):
    """What the other side's interface does not take, a veth refuses. That is
    lost, and nothing else: the kernel's questions are answered all the time.
    TCP finds out what arrives. RoCE does not: its retries run out (-u: in four
    seconds, so that it is there to answer)."""
    context.need("ping")
    with bed.VethBed(context.tools) as place:
        place.transport = transport
        place.add_host_address(0, "10.1.0.101/24")
        iwarp = transport == "iwarp"
        server, client = spawn_writer(
            context, place,
            *(["-R"] if iwarp else ["-x", "3", "-m", "4096", "-u", "17"]))
        place.set_mtu(0, 1500)
        ping = place.run(0, ["ping", "-c", "10", "-i", "0.1", "-W", "5",
                             "10.1.0.2"], rnic=False)
        context.check_ok(ping)
        context.check(" 0% packet loss" in ping.out, ping)
        result = client.wait(60)
        if iwarp:
            context.check_ok(result, server.wait(20))
        else:
            context.check("status 12" in result.out + result.err, result)
        context.check(result.err.count("interface u0 refuses frames of ") == 1,
                      result)
        refused = place.read_stats(1)[-1]["port"]["tx_errors"]
        context.check(refused > 0, "not counted")
        context.note(f"{refused} frames refused")


for _transport in ("roce", "iwarp"):
    suite.add(f"veth9000/the-mtu-of-one-side-shrinks/{_transport}",
              functools.partial(one_side_shrinks, transport=_transport))


@suite.test("veth9000/live-iwarp-connections-follow-the-mtu")
def live_connections(context):
    """A device knows the MTU of its own interface: it need not find out by
    time-outs that larger packets are lost."""
    with bed.VethBed(context.tools) as place:
        place.transport = "iwarp"
        server, client = spawn_writer(context, place, "-R")
        for side in (1, 0):
            place.set_mtu(side, 1500)
        context.check_ok(client.wait(60), server.wait(20))
        stats = place.read_stats(1)[-1]
        context.check(stats["iwarp"]["timeouts"] < FULL_STOP, stats)
        # It is not the path: later connections may have more.
        context.check(stats["engine"]["path_mtu_shrunk"] == 0, stats)


@suite.test("loop/addr-says-which-process-is-meant")
def which_process(context):
    context.need("ibv_asyncwatch")
    with bed.LoopBed(context.tools) as place:
        none = addr(place, "add", "urnic6", f"{ADDED}/24")
        context.check(none.status == 1 and "no program has urnic6" in none.err,
                      none)
        watches = [place.spawn(0, ["ibv_asyncwatch"]) for _ in range(2)]
        for watch in watches:
            await_device(place, watch)
        # Other programs on this machine may have RNICs, too.
        unclear = addr(place, "add", "urnic0", f"{ADDED}/24")
        context.check(unclear.status == 1, unclear)
        for watch in watches:
            context.check(f"process {watch.pid} (ibv_asyncwatch)" in
                          unclear.err, unclear)
        for words in (("add", "urnic0"), ("dance",)):
            context.check(addr(place, *words).status == 2, words)
        wrong = addr(place, "add", "urnic0", "10.1.0.9", process=watches[0])
        context.check(wrong.status == 2 and "prefix length" in wrong.err,
                      wrong)
        context.check_ok(addr(place, "add", "urnic0", f"{ADDED}/24",
                              process=watches[0]))
        context.check(ADDED not in addr(place, process=watches[1]).out,
                      "the other one's table")
