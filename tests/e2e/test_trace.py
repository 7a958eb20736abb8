"""What `urnic trace` keeps and prints of programs of the distribution."""

import functools
import json
import os
import re

import bed
import beds
import suite
import test_show

LEVELS = "all=4,cm=5,receive=9,transmit=8,completion=8"


def urnic(context, place, *words):
    result = place.run(1, [context.tools.urnic, *words], rnic=False,
                       env={"XDG_RUNTIME_DIR": place.directory})
    context.check_ok(result)
    return result.out


def traced(context, place, *filters):
    return json.loads(urnic(context, place, "trace", *filters, "-j", "-d"))


def trace_of_a_transfer(context, bed_name):
    """Levels change while a transfer runs, in one of two programs. Its packets,
    completions and calls are kept, with their places in the source, and
    babeltrace2 reads the same events."""
    context.need("rping")
    context.need("babeltrace2")
    packets = "segment" if bed_name.startswith(beds.IWARP) else "packet"
    with beds.make(context.tools, bed_name) as place:
        server, client = test_show.begin_rping(context, place)
        pid = str(client.pid)
        urnic(context, place, "trace", "--set", LEVELS, "pid", pid)
        levels = json.loads(urnic(context, place, "trace", "--levels", "-j",
                                  "pid", f"{server.pid},{client.pid}"))
        context.check({(level["pid"], level["level"]) for level in levels
                       if level["component"] == "receive"} ==
                      {(client.pid, 9), (server.pid, 2)}, levels)
        qp = test_show.one(test_show.shown(context, place, 1, "qp", "pid",
                                           pid), context)

        def kept():
            levels = json.loads(urnic(context, place, "trace", "--levels",
                                      "-j", "-d", "pid", pid))
            return levels[0]["kept-of-all"] > 2000

        bed.await_true(kept, 20, "2000 events")
        urnic(context, place, "trace", "--set", "all=2", "pid", pid)
        events = traced(context, place, "pid", pid)
        points = {event["point"] for event in events}
        context.check(points >= {f"{packets}-received", f"{packets}-sent",
                                 "frame-received", "burst-received",
                                 "burst-processed", "burst-begins",
                                 "burst-sent", "send-completed",
                                 "receive-completed", "verb-begins",
                                 "verb-ends"}, points)
        context.check(len(events) == len(traced(context, place, "pid", pid)),
                      "the trace is not quiet")
        times = [event["at-ns"] for event in events]
        context.check(times == sorted(times), times)
        for event in events:
            context.check(event["line"] > 0 and event["function"] != "" and
                          event["file"].endswith((".h", ".cc")) and
                          event["cpu"] < os.cpu_count(), event)
        accepted = [event for event in events
                    if event["point"] == f"{packets}-received" and
                    event["verdict"] == "Accept"]
        context.check(accepted and all(event["lqpn"] == qp["lqpn"]
                                       for event in accepted), events)
        completed = [event for event in events
                     if event["point"] == "send-completed"]
        context.check(all(event["wc-status"] == "SUCCESS"
                          for event in completed), completed)
        verbs = {event["verb"] for event in events if "verb" in event}
        context.check("ReqNotifyCq" in verbs, verbs)
        read_as_ctf(context, place, events, pid)


def read_as_ctf(context, place, events, pid):
    directory = os.path.join(place.directory, "ctf")
    urnic(context, place, "trace", "--ctf", directory, "pid", pid)
    result = place.run(1, ["babeltrace2", directory], rnic=False)
    context.check_ok(result)
    names = [f"{event['component']}:{event['point']}:" for event in events]
    lines = result.out.splitlines()
    context.check(len(lines) == len(names), (len(lines), len(names)))
    context.check(all(name in line for name, line in zip(names, lines)),
                  result.out)


for _bed in ("vhost", "iwarp-vhost"):
    suite.add(f"{_bed}/trace-of-a-transfer",
              functools.partial(trace_of_a_transfer, bed_name=_bed))


@suite.test("vhost/trace-by-bpftrace")
def trace_by_bpftrace(context):
    """The USDT probe is listed, and passes the names of what the program does
    at its levels."""
    context.need("rping")
    context.need("bpftrace")
    probe = f"usdt:{context.tools.plugin}:urnic:trace"
    with beds.make(context.tools, "vhost") as place:
        client = test_show.begin_rping(context, place)[1]
        pid = str(client.pid)
        listed = place.run(1, ["bpftrace", "-l", probe], rnic=False)
        context.check(listed.out.strip() == probe, listed)
        urnic(context, place, "trace", "--set", "transmit=8", "pid", pid)
        counted = place.run(1, [
            "bpftrace", "-p", pid, "-e",
            probe + " { @[str(arg0)] = count(); } interval:s:1 { exit(); }"],
            rnic=False)
        if counted.status != 0:
            raise suite.Skip(f"bpftrace: {counted.err.strip()}")
        found = dict(re.findall(r"@\[(\S+)\]: (\d+)", counted.out))
        context.check(int(found.get("packet-sent", 0)) > 0, counted)


@suite.test("vhost/trace-from-the-start")
def trace_from_the_start(context):
    """URNIC_TRACE sets the levels of a program before its first verb. A
    mistake in it is told, and the program runs."""
    argv = ["ib_write_bw", "-x", "3", "-F", "-D", "5"]
    context.need(argv[0])
    with beds.make(context.tools, "vhost") as place:
        runtime = {"XDG_RUNTIME_DIR": place.directory}
        server, client = place.spawn_pair(
            argv, {"env": runtime | {"URNIC_TRACE": "verbs=4,qp=5"}},
            {"env": runtime | {"URNIC_TRACE": "verbs=44"}})

        def connected():
            events = traced(context, place, "pid", str(server.pid))
            return any(event["point"] == "qp-modified" and
                       event["state"] == "RTR" for event in events)

        bed.await_true(connected, 20, "a connection")
        verbs = [event["verb"]
                 for event in traced(context, place, "pid", str(server.pid),
                                     "point", "verb-ends")]
        made = ["AllocPd", "RegMr", "CreateCq", "CreateQp"]
        context.check([verb for verb in verbs if verb in made] == made, verbs)
        result = client.wait(30)
        context.check_ok(result)
        context.check('URNIC_TRACE: "verbs=44": a level is a digit' in
                      result.err, result)
