"""Programs of sockets over RDMA: librspreload (librdmacm) stands in front of
libc beside our preload, and takes every TCP socket."""

import functools
import glob
import hashlib
import os
import random
import re

import bed
import beds
import suite

PORT = 5001


def rspreload():
    """The library that makes rsockets of sockets."""
    found = glob.glob("/usr/lib/*/rsocket/librspreload.so.1")
    if not found:
        raise suite.Skip("librspreload.so.1 is not installed (librdmacm1)")
    return found[0]


def over_rsockets(argv, order):
    """The words that run a program with both libraries, in this order. (What
    `urnic run` has set up is the first of them.)"""
    words = {"ours-first": '$LD_PRELOAD:$RSPRELOAD',
             "ours-second": '$RSPRELOAD:$LD_PRELOAD'}
    return ["sh", "-c", f'LD_PRELOAD="$PLAIN:{words[order]}" exec "$@"', "sh",
            *argv]


def spawn(context, place, side, argv, order):
    env = {"RSPRELOAD": rspreload(), "PLAIN": context.tools.plain_sockets}
    return place.spawn(side, over_rsockets(argv, order), env=env)


def iperf(context, bed_name, order):
    """Both ends count the bytes; TCP sees none of them."""
    context.need("iperf")
    with beds.make(context.tools, bed_name) as place:
        server = spawn(context, place, 0, ["stdbuf", "-oL", "iperf", "-s"],
                       order)
        bed.await_true(lambda: "listening" in server.output()[0] or
                       not server.running(), 20, "iperf listening")
        client = spawn(context, place, 1,
                       ["iperf", "-c", "10.1.0.1", "-n", "64M", "-f", "m"],
                       order).wait(60)
        context.check_ok(client)
        moved = re.search(r"([\d.]+) MBytes +([\d.]+) Mbits/sec", client.out)
        context.check(moved and float(moved.group(1)) >= 64, client)
        context.note(f"{moved.group(2)} Mb/s")
        bed.await_true(lambda: "Bytes" in server.output()[0] or
                       not server.running(), 20, "iperf's report")
        context.check(server.running(), server.result())
        text, words = server.output()
        moved = re.search(r"([\d.]+) MBytes", text)
        context.check(moved and float(moved.group(1)) >= 64, text + words)
        server.kill()


def http(context, bed_name, order):
    """A file through python3 -m http.server, compared."""
    context.need("curl", "python3")
    with beds.make(context.tools, bed_name) as place:
        data = random.Random(order).randbytes(5_000_000)
        served = os.path.join(place.directory, "served")
        os.mkdir(served)
        with open(os.path.join(served, "file"), "wb") as file:
            file.write(data)
        server = spawn(context, place, 0,
                       ["python3", "-u", "-m", "http.server", "--directory",
                        served, "--bind", "10.1.0.1", str(PORT)], order)
        bed.await_true(lambda: "Serving" in server.output()[0] or
                       not server.running(), 20, "http.server listening")
        context.check(server.running(), server.result())
        for number in range(3):
            got = os.path.join(place.directory, f"got.{number}")
            client = spawn(context, place, 1,
                           ["curl", "-sS", "--max-time", "40", "-o", got,
                            f"http://10.1.0.1:{PORT}/file"], order).wait(60)
            context.check_ok(client)
            with open(got, "rb") as file:
                digest = hashlib.sha256(file.read()).hexdigest()
            context.check(digest == hashlib.sha256(data).hexdigest(),
                          "other data")
        context.check(server.running(), server.result())


for _bed in ("veth9000", "iwarp-veth9000"):
    for _order in ("ours-first", "ours-second"):
        for _body in (iperf, http):
            suite.add(f"{_bed}/rsockets-{_body.__name__}-{_order}",
                      functools.partial(_body, bed_name=_bed, order=_order),
                      _bed == "veth9000" or _order == "ours-first")
