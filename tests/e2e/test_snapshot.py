"""What is kept of queue pairs at the moment when they fail."""

import functools
import json
import os
import pathlib
import signal

import bed
import suite
import test_recorder
import test_show

HERE = pathlib.Path(__file__).parent


def check_snapshots(context, failures, snapshots, masked=False):
    """Each failure has the memory that it is about, and an image."""
    for failure in failures:
        own = [line for line in snapshots
               if (line["failed-lqpn"], line["code"]) ==
               (failure["lqpn"], failure["code"])]
        by_kind = {}
        for line in own:
            by_kind.setdefault(line["object"], []).append(line)
        context.check({"qp", "cq", "pd", "mr"} <= set(by_kind), own)
        region = test_show.one(by_kind["mr"], context)
        context.check(region["rkey"] ==
                      ("masked" if masked else failure["key"]) and
                      region["mrlen"] == 4096, (failure, region))
        if masked:
            context.check("image" not in by_kind, own)
            continue
        image = test_show.one(by_kind["image"], context)
        context.check("problem" not in image and
                      image["summary"].startswith(
                          f"QP 0x{failure['lqpn']:06x}") and
                      image["qp.state"] in ("RTS", "ERR", "SQE"), image)


@suite.test("loop/snapshots")
def snapshots(context):
    """Of a program that lives, of a dump, and of what a kill leaves. See
    failing_pairs.py."""
    with bed.LoopBed(context.tools) as place:
        python = "/usr/bin/python3"
        if place.run(0, [python, "-c", "import pyverbs.cq"],
                     rnic=False).status != 0:
            raise suite.Skip("python3-pyverbs is not installed")
        program = place.spawn(
            0, [python, str(HERE / "failing_pairs.py"), str(place.gid_v4)],
            env={"XDG_RUNTIME_DIR": place.directory,
                 "URNIC_RECORDER": f"dir:{place.directory}"})
        bed.await_true(lambda: "ready" in program.output()[0] or
                       not program.running(), 30, "failures")
        lines = program.output()[0].splitlines()
        context.check(lines and lines[-1] == "ready", program.output())
        failures = [json.loads(line) for line in lines[:-1]]

        of = ("pid", str(program.pid))
        found = test_show.shown(context, place, 0, "snapshot", *of)
        check_snapshots(context, failures, found)
        errors = test_show.shown(context, place, 0, "error", *of)
        for failure in failures:
            error = test_show.one(
                [e for e in errors if (e.get("lqpn"), e["code"]) ==
                 (failure["lqpn"], failure["code"])], context)
            context.check(error["operation"] == failure["what"], error)
            if failure["code"] != "URN1001":
                context.check(" bytes at 0x" in error["why"], error)
        uc = test_show.one(test_show.shown(
            context, place, 0, "qp", "lqpn", str(failures[-1]["lqpn"]), *of),
                            context)
        context.check(uc["writes-refused"] == 2, uc)

        dump = os.path.join(place.directory, "dump")
        context.check_ok(place.run(
            0, [context.tools.urnic, "dump", "--pid", str(program.pid),
                "--output", dump], rnic=False,
            env={"XDG_RUNTIME_DIR": place.directory}))
        told = functools.partial(test_recorder.told, context, place, side=0)
        check_snapshots(context, failures, told(dump, "snapshot"), masked=True)
        with open(dump, "rb") as file:
            contents = file.read()
        for failure in failures:
            context.check(failure["key"][2:].encode() not in contents, failure)

        def recorded():
            paths = test_recorder.recordings(place, program.pid)
            return paths and len(told(paths[0], "snapshot")) == len(found)

        bed.await_true(recorded, 20, "a recording of all snapshots")
        program.signal(signal.SIGKILL)
        program.wait(10)
        path = test_show.one(test_recorder.recordings(place, program.pid),
                             context)
        check_snapshots(context, failures, told(path, "snapshot"))
        context.note(f"{len(failures)} failures, {len(found)} objects")
