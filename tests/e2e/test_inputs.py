"""What queue pairs of the distribution's programs were given, again: logged in
a running program, replayed by the simulator."""

import os
import re
import signal

import bed
import beds
import suite
import test_recorder
import test_show


def replay(context, place, path, *options):
    """Returns the numbers of the summary, as a list of one for each queue
    pair: calls, received, sent, completions, errors."""
    result = place.run(1, [context.tools.sim, "--replay", path, *options],
                       rnic=False)
    context.check_ok(result)
    found = re.findall(r"queue pair 0x\w+: (\d+) calls, (\d+) packets received, "
                       r"(\d+) sent, (\d+) completions \((\d+) with an error\); "
                       r"as in the program", result.out)
    return [[int(number) for number in one] for one in found], result.out


@suite.test("vhost/inputs-of-a-failure-are-replayed")
def inputs_of_a_failure(context):
    """The peer is killed; the client's recording has what its queue pair was
    given until it failed."""
    argv = ["ib_write_bw", "-x", "3", "-F", "-D", "30", "-u", "10", "-t", "16"]
    context.need(argv[0])
    with beds.make(context.tools, "vhost") as place:
        server, client = test_show.begin_transfer(
            context, place, argv,
            {"URNIC_RECORDER": f"keep,dir:{place.directory}",
             "URNIC_INPUTS": "qps:4"})
        server.signal(signal.SIGKILL)
        client.wait(30)
        path = test_show.one(test_recorder.recordings(place, client.pid),
                             context)
        runs, text = replay(context, place, path, "--verbose")
        calls, _, sent, _, errors = test_show.one(runs, context)
        context.check(calls > 16 and sent > 8 and errors >= 1, text[-2000:])
        context.check("RETRY_EXC_ERR" in text and "  timer" in text,
                      text[-2000:])
        context.check(text.rstrip().split("\n")[-2].endswith("end: ERR"),
                      text[-500:])
        result = place.run(1, [context.tools.sim, "--replay", path, "--qpn",
                               "1"], rnic=False)
        context.check(result.status == 1 and
                      "no log of that queue pair" in result.err, result)
        context.note(f"{calls} calls")


@suite.test("vhost/inputs-of-a-running-program")
def inputs_of_a_running_program(context):
    """The log of a busy queue pair begins in the middle of its work, and a dump
    has it if it is asked for payload."""
    argv = ["ib_send_bw", "-x", "3", "-F", "-D", "30", "-s", "3000", "-b"]
    context.need(argv[0])
    with beds.make(context.tools, "vhost") as place:
        env = {"XDG_RUNTIME_DIR": place.directory}
        server, client = test_show.begin_transfer(context, place, argv)
        qp = test_show.one(test_show.shown(context, place, 1, "qp", "pid",
                                           str(client.pid)), context)

        def urnic(*words):
            return place.run(1, [context.tools.urnic, *words], rnic=False,
                             env=env)

        number = str(qp["lqpn"])
        context.check_ok(urnic("inputs", "start", number, "--kib", "1024"))

        def segments():
            return test_show.one(test_show.shown(
                context, place, 1, "inputs", "lqpn", number), context)

        bed.await_true(lambda: segments()["segments"] == 2, 20, "two segments")
        context.check(segments()["queue-pair"] == "lives", segments())
        path = os.path.join(place.directory, "dump")
        context.check_ok(urnic("dump", "--pid", str(client.pid), "--output",
                               path))
        result = place.run(1, [context.tools.sim, "--replay", path], rnic=False)
        context.check(result.status == 1 and "no log of inputs" in result.err,
                      result)
        context.check_ok(urnic("dump", "--pid", str(client.pid), "--output",
                               path, "--payload"))
        runs, text = replay(context, place, path)
        calls, received, sent, _, errors = test_show.one(runs, context)
        context.check(calls > 100 and received > 100 and sent > 100 and
                      errors == 0, text)
        context.note(f"{calls} calls, {received} packets received, {sent} sent")
        context.check_ok(urnic("inputs", "stop", number))
        context.check(test_show.shown(context, place, 1, "inputs", "pid",
                                      str(client.pid)) == [], text)
        for words, message in (
                (("inputs", "stop", number), "are not logged"),
                (("inputs", "start", "2"), "there is no queue pair 2"),
                (("inputs", "start", number, "--kib", "1"), "--kib")):
            result = urnic(*words)
            context.check(result.status != 0 and message in result.err, result)
        for end in (client, server):
            end.signal(signal.SIGINT)
            end.wait(20)


@suite.test("iwarp-vhost/inputs-of-a-connection")
def inputs_of_a_connection(context):
    """The log of a connection of iWARP, from its beginning, in a dump of the
    running program and in the recording of one that was killed."""
    context.need("rping")
    with beds.make(context.tools, "iwarp-vhost") as place:
        env = {"XDG_RUNTIME_DIR": place.directory}
        server, client = test_show.begin_rping(
            context, place,
            {"URNIC_RECORDER": f"keep,dir:{place.directory},size:4M",
             "URNIC_INPUTS": "qps:4"})
        path = os.path.join(place.directory, "dump")
        context.check_ok(place.run(
            1, [context.tools.urnic, "dump", "--pid", str(client.pid),
                "--output", path, "--payload"], rnic=False, env=env))
        runs, text = replay(context, place, path)
        calls, received, sent, done, errors = test_show.one(runs, context)
        context.check(calls > 20 and received > 5 and sent > 5 and done > 5 and
                      errors == 0, text)
        context.note(f"{calls} calls, {received} segments received")

        def segments():
            return test_show.one(test_show.shown(
                context, place, 1, "inputs", "pid", str(client.pid)),
                context)["segments"]

        bed.await_true(lambda: segments() == 2, 20, "two segments of the log")
        path = test_show.one(test_recorder.recordings(place, client.pid),
                             context)
        bed.await_true(
            lambda: place.run(1, [context.tools.sim, "--replay", path],
                              rnic=False).status == 0,
            20, "a recording with the log")
        client.signal(signal.SIGKILL)
        client.wait(20)
        runs, text = replay(context, place, path, "--verbose")
        context.check(test_show.one(runs, context)[0] > 20, text[-2000:])
        context.check("of iWARP, with a connection: RTS" in text, text[:2000])
        server.signal(signal.SIGINT)
        server.wait(20)
