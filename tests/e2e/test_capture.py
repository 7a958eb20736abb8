"""What `urnic capture` writes of programs of the distribution, as tshark reads
it."""

import functools
import os
import re
import signal

import bed
import beds
import suite
import test_show
import tshark


def capture(context, place, path, *options):
    result = place.run(1, [context.tools.urnic, "capture", "--output", path,
                           *options], rnic=False,
                       env={"XDG_RUNTIME_DIR": place.directory})
    context.check_ok(result)
    context.check(", 0 lost" in result.err, result)
    return path


def capture_of_a_transfer(context, bed_name):
    """Frames of both ends are there, with their interface, their direction and
    the verdict on each."""
    context.need("rping", "tshark")
    is_iwarp = bed_name.startswith(beds.IWARP)
    frames = "tcp" if is_iwarp else "infiniband"
    with beds.make(context.tools, bed_name) as place:
        server, client = test_show.begin_rping(context, place)
        path = capture(context, place, os.path.join(place.directory, "all"),
                       "--count", "1000")
        context.check(os.stat(path).st_mode & 0o777 == 0o600, path)
        seen = tshark.fields(path, frames, "frame.interface_name",
                      "frame.packet_flags_direction", "frame.comment",
                      "frame.interface_description")
        context.check(len(seen) >= 100, seen)
        context.check({name for name, *_ in seen} and
                      {int(text.split()[1]) for *_, text in seen} ==
                      {server.pid, client.pid}, seen)
        qps = {end.pid: test_show.one(test_show.shown(
            context, place, 1, "qp", "pid", str(end.pid)), context)["lqpn"]
            for end in (server, client)}
        # On a busy machine, some are sent twice: duplicates, stale ACKs.
        verdicts = {"0x00000001": r"\w+, ", "0x00000002": ""}
        for frame in seen:
            _, direction, comment, text = frame
            wanted = f"{verdicts[direction]}qp {qps[int(text.split()[1])]}"
            context.check(re.fullmatch(wanted, comment), (frame, wanted))
        context.check(sum(comment.startswith("Accept, ")
                          for _, _, comment, _ in seen) > len(seen) / 4, seen)

        # One end's queue pair.
        path = capture(context, place, os.path.join(place.directory, "one"),
                       "--lqpn", str(qps[client.pid]), "--seconds", "1",
                       "--process", str(client.pid), "--snap", "64")
        lengths = {int(length) for (length,) in
                   tshark.fields(path, frames, "frame.cap_len")}
        context.check(lengths and max(lengths) <= 64, lengths)

        # Nobody has this address.
        path = capture(context, place, os.path.join(place.directory, "none"),
                       "--peer", "10.77.0.0/16", "--seconds", "0.5")
        context.check(not tshark.fields(path, "frame", "frame.number"), path)
        path = capture(context, place, os.path.join(place.directory, "peer"),
                       "--peer", beds.SERVER_IP["v4"], "--seconds", "0.5")
        context.check(tshark.fields(path, frames, "frame.number"), path)


for _bed in ("vhost", "iwarp-vhost"):
    suite.add(f"{_bed}/capture-of-a-transfer",
              functools.partial(capture_of_a_transfer, bed_name=_bed))


@suite.test("vhost/capture-from-the-start")
def capture_from_the_start(context):
    """A capture that waits for programs has their first frames and their last:
    how they connect and disconnect."""
    context.need("rping", "tshark")
    with beds.make(context.tools, "vhost") as place:
        path = os.path.join(place.directory, "frames")
        env = {"XDG_RUNTIME_DIR": place.directory}
        capturing = place.spawn(1, [context.tools.urnic, "capture", "--output",
                                    path], rnic=False, env=env)

        def interfaces():
            if not os.path.exists(path):  # not opened yet
                return 0
            with open(path, "rb") as file:
                return file.read().count(b"urnic0")

        argv = ["rping", "-a", beds.SERVER_IP["v4"], "-p", "7999", "-C", "5"]
        # It stays, so that its last frames are fetched.
        server = place.spawn(0, [*argv, "-s", "-P"], env=env)
        bed.await_true(lambda: interfaces() == 1, 10, "the server's interface")
        client = place.spawn(1, [*argv, "-c"], env=env)
        context.check_ok(client.wait(20))
        capturing.signal(signal.SIGINT)
        context.check_ok(capturing.wait(20))
        server.signal(signal.SIGINT)
        server.wait(20)
        mads = {int(attribute, 16) for (attribute,) in tshark.fields(
            path, "infiniband.mad", "infiniband.mad.attributeid")}
        # ConnectRequest, ConnectReply, ReadyToUse, DisconnectRequest
        context.check(mads >= {0x10, 0x13, 0x14, 0x15}, mads)
