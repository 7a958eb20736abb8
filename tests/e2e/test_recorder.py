"""What the flight recorder leaves of programs of the distribution."""

import functools
import glob
import json
import os
import signal

import bed
import beds
import suite
import test_show


def recordings(place, pid):
    return glob.glob(os.path.join(place.directory, f"*-{pid}-*.rec"))


def told(context, place, path, *words, side=1):
    result = place.run(side, [context.tools.urnic, "show", *words, "--from",
                              path, "-j", "-d"], rnic=False)
    context.check_ok(result)
    context.check("recorded at 2" in result.err, result)
    return json.loads(result.out)


def after_a_kill(context, bed_name):
    """Both ends are killed in mid-transfer. Their recordings name each
    other."""
    context.need("rping")
    with beds.make(context.tools, bed_name) as place:
        ends = test_show.begin_rping(
            context, place, {"URNIC_RECORDER": f"dir:{place.directory}"})
        paths = []

        def recorded():
            paths[:] = [path for end in ends
                        for path in recordings(place, end.pid)]
            return len(paths) == 2 and all(
                any("dst-addr" in qp and qp.get("packets-received", 1) > 0
                    for qp in told(context, place, path, "qp"))
                for path in paths)

        bed.await_true(recorded, 20, "two recordings")
        for end in ends:
            end.signal(signal.SIGKILL)
        for end in ends:
            end.wait(10)
        sides = [test_show.one(told(context, place, path, "qp"), context)
                 for path in paths]
        context.check(sides[0]["dst-addr"] == sides[1]["src-addr"], sides)
        for end, path, qp in zip(ends, paths, sides):
            context.check(qp["pid"] == end.pid and qp["comm"] == "rping" and
                          qp["state"] == "RTS", qp)
            context.check(":" in qp["round-trips"], qp)
            picked = told(context, place, path, "qp", "lqpn", str(qp["lqpn"]))
            context.check(picked == [qp], picked)
            for kind in ("dev", "link", "pd", "cq", "mr", "event", "stat"):
                context.check(told(context, place, path, kind), kind)
            ids = told(context, place, path, "cm_id", "state", "CONNECT")
            context.check(test_show.one(ids, context)["lqpn"] == qp["lqpn"],
                          ids)
            result = place.run(1, [context.tools.urnic, "state", "--from", path,
                                   "--qp", str(qp["lqpn"])], rnic=False)
            context.check_ok(result)
            context.check("config" in result.out, result)


@suite.test("vhost/recording-of-a-failure")
def recording_of_a_failure(context):
    """The peer is killed; the client fails, and ends by itself. Its recording
    has the error, and the state of that moment."""
    argv = ["ib_write_bw", "-x", "3", "-F", "-D", "30", "-u", "10"]
    context.need(argv[0])
    with beds.make(context.tools, "vhost") as place:
        server, client = test_show.begin_transfer(
            context, place, argv,
            {"URNIC_RECORDER": f"dir:{place.directory}"})
        server.signal(signal.SIGKILL)
        client.wait(30)
        path = test_show.one(recordings(place, client.pid), context)
        error = told(context, place, path, "error", "code", "URN1001")[0]
        context.check(error["peer"].endswith(f" of {beds.SERVER_IP['v4']}"),
                      error)
        snapshot = told(context, place, path, "snapshot", "failed-lqpn",
                        str(error["lqpn"]))
        context.check({line["object"] for line in snapshot} ==
                      {"qp", "cq", "pd", "mr", "image"}, snapshot)
        qp = test_show.one([line for line in snapshot
                            if line["object"] == "qp"], context)
        context.check(qp["state"] == "RTS" and qp["timeouts"] >= 8, qp)


@suite.test("vhost/recordings-come-and-go")
def recordings_come_and_go(context):
    """A program that ends by itself leaves nothing; files that are not
    recordings are refused."""
    argv = ["ib_write_bw", "-x", "3", "-F", "-n", "100"]
    context.need(argv[0])
    with beds.make(context.tools, "vhost") as place:
        env = {"XDG_RUNTIME_DIR": place.directory,
               "URNIC_RECORDER": f"dir:{place.directory}"}
        for end in place.spawn_pair(argv, {"env": env}, {"env": env}):
            context.check_ok(end.wait(30))
        left = glob.glob(os.path.join(place.directory, "*.rec"))
        context.check(left == [], left)
        for path, message in (
                (__file__, "this is not a recording"),
                (os.path.join(place.directory, "gone"), "No such file")):
            result = place.run(1, [context.tools.urnic, "show", "--from",
                                   path], rnic=False)
            context.check(result.status == 1 and message in result.err, result)


_COLLECTOR = """
import socket, sys
listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)
taken, _ = listener.accept()
with open(sys.argv[1], "wb") as file:
    while part := taken.recv(65536):
        file.write(part)
"""


def dump_in_mid_transfer(context, bed_name):
    """A transfer goes on after each dump. Dumps are read as recordings are, in
    a file and from a collector, and have no keys."""
    context.need("rping")
    with beds.make(context.tools, bed_name) as place:
        ends = test_show.begin_rping(context, place)
        env = {"XDG_RUNTIME_DIR": place.directory}

        def packets():
            return [test_show.one(test_show.shown(
                context, place, 1, "qp", "pid", str(end.pid)),
                context)["bytes-acked"] for end in ends]

        for side, end in enumerate(ends):
            path = os.path.join(place.directory, f"{side}.dump")
            result = place.run(1, [context.tools.urnic, "dump", "--pid",
                                   str(end.pid), "--output", path], rnic=False,
                               env=env)
            context.check_ok(result)
            context.check("the RNIC stood still for" in result.err, result)
            context.check(os.stat(path).st_mode & 0o777 == 0o600, path)
            qp = test_show.one(told(context, place, path, "qp"), context)
            context.check(qp["pid"] == end.pid and qp["state"] == "RTS", qp)
            keys = {region["rkey"]
                    for region in told(context, place, path, "mr")}
            context.check(keys == {"masked"}, keys)
            with open(path, "rb") as file:
                dump = file.read()
            for region in test_show.shown(context, place, 1, "mr", "pid",
                                          str(end.pid)):
                context.check(region["rkey"][2:].encode() not in dump and
                              int(region["rkey"], 16).to_bytes(4, "little")
                              not in dump, region)
            before = packets()
            bed.await_true(lambda then=before: all(
                now > old for now, old in zip(packets(), then)), 20,
                "more traffic")

        path = os.path.join(place.directory, "remote.dump")
        collector = place.spawn(1, ["python3", "-c", _COLLECTOR, path],
                                rnic=False)
        bed.await_true(lambda: collector.output()[0].strip(), 20, "a collector")
        result = place.run(1, [context.tools.urnic, "dump", "--pid",
                               str(ends[0].pid), "--to",
                               f"127.0.0.1:{collector.output()[0].strip()}"],
                           rnic=False, env=env)
        context.check_ok(result)
        context.check_ok(collector.wait(10))
        context.check(told(context, place, path, "qp"), path)
        result = place.run(1, [context.tools.urnic, "dump"], rnic=False,
                           env=env)
        context.check(result.status == 1 and "choose one" in result.err, result)


for _bed in ("vhost", "iwarp-vhost"):
    suite.add(f"{_bed}/after-a-kill",
              functools.partial(after_a_kill, bed_name=_bed))
    suite.add(f"{_bed}/dump-in-mid-transfer",
              functools.partial(dump_in_mid_transfer, bed_name=_bed))
