"""Ports that go down under living connections, and addresses that go."""

import functools
import re
import time

import bed
import suite
import test_addresses
import test_show

# How long the interface is down, in seconds.
FLAP = 1


def spawn_writers(context, place, options, env=None):
    """ib_write_bw in the middle of its transfer: (server, client), the client
    with `env`."""
    context.need("ib_write_bw")
    argv = ["ib_write_bw", "-F", "-D", "5", *options]
    at_server = {"env": {"XDG_RUNTIME_DIR": place.directory}}
    at_client = {"env": {**at_server["env"], **(env or {})}}
    if "-R" in options:
        port = str(place.next_port())
        server = place.spawn(0, [*argv, "-p", port], **at_server)
        time.sleep(1)  # it tells nobody when it listens
        client = place.spawn(1, [*argv, "-p", port, "10.1.0.1"], **at_client)
    else:
        server, client = place.spawn_pair(argv, at_server, at_client)

    def moving():
        qps = shown(context, place, "qp", "pid", str(client.pid))
        return any(qp.get("bytes-acked", 0) > 0 for qp in qps)

    bed.await_true(lambda: not client.running() or moving(), 30, "traffic")
    context.check(client.running(), client.result())
    return server, client


def shown(context, place, *words):
    return test_show.shown(context, place, 1, *words)


def flap(context, transport):
    """A link that is down for less than the bound: the transfer goes on, though
    RoCE's retries last half a second."""
    with bed.VethBed(context.tools) as place:
        place.transport = transport
        options = ["-R"] if transport == "iwarp" else ["-x", "3"]
        server, client = spawn_writers(context, place, options)
        place.set_link(1, "down")
        time.sleep(FLAP)
        qps = shown(context, place, "qp", "pid", str(client.pid))
        context.check([qp["state"] for qp in qps] == ["RTS"], qps)
        place.set_link(1, "up")
        context.check_ok(client.wait(30), server.wait(20))


for _transport in ("roce", "iwarp"):
    suite.add(f"veth9000/a-flap-keeps-connections/{_transport}",
              functools.partial(flap, transport=_transport))


def fails(context, transport):
    """Down for longer: the device fails, its program hears of it at once, and
    a dump tells how everything was."""
    with bed.VethBed(context.tools) as place:
        place.transport = transport
        options = ["-R"] if transport == "iwarp" else ["-x", "3"]
        log = f"{place.directory}/log"
        _, client = spawn_writers(context, place, options, {
            "URNIC_RECOVERY": "bound:1s", "URNIC_LOG": f"json:{log}"})
        begin = time.monotonic()
        place.set_link(1, "down")
        result = client.wait(20)
        context.check(time.monotonic() - begin < 10, result)
        # IBV_WC_WR_FLUSH_ERR, or the refusal of a post.
        context.check(re.search("status (-- )?5|post send", result.out + result.err),
                      result)
        with open(log, encoding="utf-8") as lines:
            text = lines.read()
        context.check("URN1913" in text, text)
        dump = re.search(r"dump: (\S+?\.rec)", text).group(1)
        qps = shown(context, place, "qp", "--from", dump)
        context.check([qp["state"] for qp in qps] == ["RTS"], qps)


for _transport in ("roce", "iwarp"):
    suite.add(f"veth9000/a-device-fails/{_transport}",
              functools.partial(fails, transport=_transport))


@suite.test("veth9000/a-removed-interface-is-a-fatal-event")
def removed(context):
    context.need("ibv_asyncwatch")
    with bed.VethBed(context.tools) as place:
        watch = place.spawn(0, ["ibv_asyncwatch", "-d", "urnic0"])

        def said(text):
            return lambda: text in watch.output()[0]

        bed.await_true(said("async event FD"), 30, "the device is open")
        place.unplug()
        bed.await_true(said("IBV_EVENT_DEVICE_FATAL"), 10, "the failure")
        place.join()
        bed.await_true(said("IBV_EVENT_PORT_ACTIVE"), 10, "the recovery")
        context.check(watch.running(), watch.output())


@suite.test("veth9000/a-frozen-device-is-replaced")
def frozen(context):
    """It would be frozen for a minute; the transfer takes five seconds."""
    with bed.VethBed(context.tools) as place:
        log = f"{place.directory}/log"
        server, client = spawn_writers(context, place, ["-x", "3"], {
            "URNIC_FAULT": "freeze=2s:60s", "URNIC_LOG": f"json:{log}"})
        context.check_ok(client.wait(30), server.wait(20))
        with open(log, encoding="utf-8") as lines:
            context.check("URN1912" in lines.read(), "not told")


def address_goes(context, transport):
    """The peer hears of it at once: a DREQ, or the end of the TCP
    connection."""
    context.need("rping")
    with bed.VethBed(context.tools) as place:
        place.transport = transport
        server = place.spawn(0, ["rping", "-s", "-P", "-p", "7174"])
        test_addresses.await_device(place, server)
        client = place.spawn(1, ["rping", "-c", "-C", "100000000", "-a",
                                 "10.1.0.1", "-p", "7174"])
        qps = []

        def connected():
            qps[:] = [line for line in
                      place.run(1, [place.tools.urnic, "show", "qp", "pid",
                                    str(client.pid), "state", "RTS"],
                                rnic=False).out.splitlines() if line]
            return qps or not client.running()

        bed.await_true(connected, 30, "a connection")
        context.check(client.running(), client.result())
        device = "iwurnic0" if transport == "iwarp" else "urnic0"
        begin = time.monotonic()
        context.check_ok(test_addresses.addr(place, "del", device,
                                             "10.1.0.1/24", process=server))
        result = client.wait(5)
        context.note(f"noticed in {time.monotonic() - begin:.2f} s")
        context.check("DISCONNECT" in result.out + result.err or
                      result.status != 0, result)
        context.check(server.running(), server.result())
        errors = place.run(0, [place.tools.urnic, "show", "error", "pid",
                               str(server.pid)], rnic=False).out
        context.check("URN1916" in errors, errors)


for _transport in ("roce", "iwarp"):
    suite.add(f"veth9000/an-address-goes/{_transport}",
              functools.partial(address_goes, transport=_transport))
