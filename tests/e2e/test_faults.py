"""Deaths, restarts and missing cables: nobody crashes, nobody hangs."""

import functools
import glob
import os
import pathlib
import signal
import time

import bed
import beds
import suite

# IBV_WC_RETRY_EXC_ERR, as perftest prints it.
RETRY_EXCEEDED = "status 12"


def kill_in_transfer(context, bed_name, victim):
    """One side of a running transfer dies by SIGKILL. The other hears of it
    as "retry exceeded" within the time that its retries take, and a new pair
    on the same ports works."""
    context.need("ib_write_bw")
    # Both send, so both must notice. 7 timeouts of 17 ms (2^12 * 4.096 us).
    argv = ["ib_write_bw", "-x", "3", "-F", "-b", "-D", "1", "-u", "12",
            "--run_infinitely"]
    with beds.make(context.tools, bed_name) as place:
        pair = place.spawn_pair(argv)
        bed.await_true(lambda: "65536" in pair[1].output()[0], 30,
                       "the first result")
        dying, other = pair[victim], pair[1 - victim]
        dying.signal(signal.SIGKILL)
        begin = time.monotonic()
        result = other.wait(20)
        context.note(f"noticed in {time.monotonic() - begin:.1f} s")
        context.check(result.status > 0, result)
        context.check(RETRY_EXCEEDED in result.out + result.err, result)
        server, client = place.run_pair(["ib_write_bw", "-x", "3", "-F", "-n",
                                         "200"])
        context.check_ok(server, client)


for _bed in ("vhost", "vhost-swapped", "veth9000"):
    for _victim, _name in enumerate(("server", "client")):
        suite.add(f"{_bed}/kill-the-{_name}-in-transfer",
                  functools.partial(kill_in_transfer, bed_name=_bed,
                                    victim=_victim), _bed == "vhost")


class EchoPair:
    """echo_peer on both sides: programs that go on when a peer is lost."""

    def __init__(self, context, place, count=20, size=5000, server_env=None):
        self.place = place
        self.program = context.tools.echo_peer
        self.port = str(place.next_port())
        self.message = [str(size), str(count)]
        self.server_env = server_env
        self.server = self.start_server()
        self.client = self.start_client()

    def start_server(self):
        return self.place.spawn(0, [self.program, "server", self.port],
                                env=self.server_env)

    def start_client(self):
        return self.place.spawn(1, [self.program, "client", self.port,
                                    self.place.sides[0].host_address,
                                    *self.message])

    @staticmethod
    def lines(process):
        return process.output()[0].splitlines()

    def await_more(self, process, start, seconds=15):
        """Waits until `process` prints a line beginning with `start`, in
        addition to those it has printed so far."""
        seen = len(self.lines(process))

        def more():
            if not process.running():
                raise suite.Failure(process.result())
            return any(line.startswith(start)
                       for line in self.lines(process)[seen:])

        bed.await_true(more, seconds, f"{process.argv[-6:]} printing {start}, "
                       f"after {self.lines(process)[-3:]}")

    def check_alive(self, context):
        for process in (self.server, self.client):
            context.check(process.running(), process.result())
            context.check("WRONG" not in process.output()[0],
                          process.result())


def restart_peer(context, bed_name):
    """Each side in turn is killed and started again, while the other keeps
    its device open and carries on with the newcomer."""
    with beds.make(context.tools, bed_name) as place:
        pair = EchoPair(context, place)
        pair.await_more(pair.client, "ok")
        for _ in range(2):
            pair.server.kill()
            pair.await_more(pair.client, "failed")
            pair.server = pair.start_server()
            pair.await_more(pair.client, "ok")
            pair.client.kill()
            pair.client = pair.start_client()
            pair.await_more(pair.client, "ok")
            pair.await_more(pair.server, "ok")
        pair.check_alive(context)


for _bed in ("vhost", "vhost-swapped", "veth9000"):
    suite.add(f"{_bed}/peer-restarts-under-a-living-device",
              functools.partial(restart_peer, bed_name=_bed))


@suite.test("veth9000/interface-removed-and-made-again")
def interface_returns(context):
    with bed.VethBed(context.tools) as place:
        pair = EchoPair(context, place)
        pair.await_more(pair.client, "ok")
        for _ in range(2):
            place.unplug()
            pair.await_more(pair.client, "failed")
            place.join()
            pair.await_more(pair.client, "ok")
        pair.check_alive(context)


@suite.test("veth9000/link-down-and-up")
def link_flaps(context):
    with bed.VethBed(context.tools) as place:
        pair = EchoPair(context, place)
        pair.await_more(pair.client, "ok")
        for side in (0, 1):
            place.set_link(side, "down")
            pair.await_more(pair.client, "failed")
            place.set_link(side, "up")
            pair.await_more(pair.client, "ok")
        pair.check_alive(context)


@suite.test("veth9000/1MB-writes-do-not-collapse")
def no_collapse(context):
    """af_packet drops silently when it is overrun; the sender's window must
    keep that rare. Counted by the sender itself."""
    context.need("ib_write_bw")
    with bed.VethBed(context.tools) as place:
        server, client = place.run_pair(
            ["ib_write_bw", "-x", "3", "-F", "-s", "1048576", "-n", "1000"],
            seconds=60,
            client_options={"env": {"URNIC_STATS": place.stats_path(1)}})
        context.check_ok(server, client)
        stats, = place.read_stats(1)
        engine = stats["engine"]
        share = engine["requests_resent"] / max(1, engine["requests_sent"])
        context.note(f"{100 * share:.2f} % of {engine['requests_sent']} "
                     f"packets sent again, {engine['timeouts']} timeouts, "
                     f"{engine['sequence_naks']} sequence NAKs")
        context.check(engine["requests_sent"] >= 1000 * 256, stats)
        context.check(share < 0.1, stats)


def sysfs_state(process):
    """What the process would read of its port."""
    above = os.environ.get("XDG_RUNTIME_DIR") or "/tmp"
    (path,) = glob.glob(f"{above}/urnic-*-{process.pid}-*/sys/class/infiniband"
                        "/urnic0/ports/1/state")
    return pathlib.Path(path).read_text(encoding="ascii").strip()


@suite.test("veth9000/a-link-that-goes-down-is-a-port-event")
def port_events(context):
    """Programs that wait for asynchronous events hear of the cable."""
    context.need("ibv_asyncwatch")
    with beds.make(context.tools, "veth9000") as place:
        watch = place.spawn(0, ["ibv_asyncwatch", "-d", "urnic0"])

        def said(text):
            return lambda: text in watch.output()[0]

        bed.await_true(said("async event FD"), 30, "the device is open")
        context.check(sysfs_state(watch) == "4: ACTIVE", sysfs_state(watch))
        place.set_link(0, "down")
        bed.await_true(said("IBV_EVENT_PORT_ERR"), 30, "the port is down")
        bed.await_true(lambda: sysfs_state(watch) == "1: DOWN", 5, "sysfs")
        place.set_link(0, "up")
        bed.await_true(said("IBV_EVENT_PORT_ACTIVE"), 30, "the port is up")
        bed.await_true(lambda: sysfs_state(watch) == "4: ACTIVE", 5, "sysfs")
        context.check(watch.running(), watch.output())


@suite.test("veth9000/a-port-without-a-cable-is-down-from-the-start")
def down_from_the_start(context):
    context.need("ibv_asyncwatch")
    with beds.make(context.tools, "veth9000") as place:
        place.set_link(0, "down")
        watch = place.spawn(0, ["ibv_asyncwatch", "-d", "urnic0"])
        bed.await_true(lambda: "async event FD" in watch.output()[0] or
                       not watch.running(), 30, "the device is open")
        context.check(sysfs_state(watch) == "1: DOWN", sysfs_state(watch))
