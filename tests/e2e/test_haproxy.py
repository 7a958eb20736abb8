"""haproxy over librspreload, the distribution's, unmodified.

Facts about librspreload and librdmacm that shape these tests:
- It leaves epoll to the kernel, so haproxy polls (`noepoll`). It does not
  splice. nginx cannot be used: Debian builds it with epoll alone.
- In rdma-core 44 it leaves accept4 to the kernel as well, and haproxy calls
  nothing else; `plain_sockets.c` turns it into accept.
- A program has at most three connections at a time before rdma-core 53: the
  thread that watches them goes on reading an array that was freed when the
  fourth was added (24061f0).
- A poll that ends by its timeout leaves rpoll's count of pollers wrong before
  rdma-core 63 (a174774). From then on rpoll looks at rsockets only and no
  longer at the kernel's descriptors. haproxy's poll times out once a second.

So with Debian 12's librdmacm haproxy answers by itself, two connections at a
time: the end of a third may not have been noticed yet. As a proxy of a server on a kernel socket it needs sid's.
"""

import os
import random
import re

import bed
import newer_verbs
import suite
import test_newer_verbs
import test_rsockets

# A reply must fit a buffer of haproxy's.
SIZES = (0, 1, 4095, 65536, 1_000_000)
BUFFER = 1_100_000

CONFIGURATION = f"""
global
  noepoll
  nosplice
  noreuseport
  nbthread 1
  maxconn 200
  tune.bufsize {BUFFER}
defaults
  mode http
  timeout connect 10s
  timeout client 30s
  timeout server 30s
frontend rsockets
  bind 10.1.0.1:{test_rsockets.PORT}
"""


def write_files(place):
    """Files to be served, as haproxy and a web server find them."""
    folder = os.path.join(place.directory, "served")
    os.mkdir(folder)
    for number, size in enumerate(SIZES):
        with open(os.path.join(folder, str(number)), "wb") as file:
            file.write(random.Random(number).randbytes(size))
    return folder


def spawn_haproxy(context, place, configuration, over):
    path = os.path.join(place.directory, "haproxy.cfg")
    with open(path, "w", encoding="ascii") as file:
        file.write(configuration)
    haproxy = over(0, ["haproxy", "-d", "-f", path])
    # Written before the last of what it says at the start.
    bed.await_true(lambda: "will use poll" in "".join(haproxy.output()) or
                   not haproxy.running(), 20, "haproxy listening")
    context.check(haproxy.running(), haproxy.result())
    return haproxy


def fetch(context, place, over, served, number, parallel):
    """Requests by one curl, so many at a time, each answer compared."""
    got = [os.path.join(place.directory, f"got.{n}") for n in range(number)]
    words = []
    for n, path in enumerate(got):
        words += ["-o", path,
                  f"http://10.1.0.1:{test_rsockets.PORT}/{n % len(SIZES)}"]
    client = over(1, ["curl", "-sS", "--no-progress-meter", "--fail",
                      "--max-time", "40", "--parallel", "--parallel-immediate",
                      "--parallel-max", str(parallel), *words])
    context.check_ok(client.wait(60))
    for n, path in enumerate(got):
        with open(path, "rb") as file, \
                open(os.path.join(served, str(n % len(SIZES))), "rb") as same:
            context.check(file.read() == same.read(),
                          f"answer {n} has other data")
        os.unlink(path)


def note_connections(context, haproxy):
    """haproxy has seen the clients' connections, from the RNIC's address."""
    context.check(haproxy.running(), haproxy.result())
    seen = re.findall(r"rsockets\.accept\(.*\)=.* from \[10\.1\.0\.2:\d+\]",
                      haproxy.output()[0])
    context.check(seen, haproxy.output())
    context.note(f"{len(seen)} connections")


@suite.test("veth9000/rsockets-haproxy")
def answers(context):
    """A connection for each request, two at a time, by two clients in turn."""
    context.need("haproxy", "curl")
    with bed.VethBed(context.tools) as place:
        served = write_files(place)
        replies = "".join(
            f"  http-request return status 200 file {served}/{n}"
            f"{' content-type application/octet-stream' if size else ''} "
            f"if {{ path /{n} }}\n" for n, size in enumerate(SIZES))

        def over(side, argv):
            return test_rsockets.spawn(context, place, side, argv,
                                       "ours-first")

        haproxy = spawn_haproxy(context, place, CONFIGURATION + replies, over)
        for _ in range(2):
            fetch(context, place, over, served, 60, 2)
        note_connections(context, haproxy)


@suite.test("veth9000/rsockets-haproxy/sid", core=False)
def proxy(context):
    """A server on a kernel socket behind it, twenty connections in front. All
    programs are the installed ones; librdmacm and the C library are sid's."""
    context.need("haproxy", "curl", "python3")
    newer = test_newer_verbs.get("sid")
    context.note(f"rdma-core {newer.release}")
    libraries = newer.root / newer_verbs.LIBRARIES
    preload = str(libraries / "rsocket" / "librspreload.so.1")
    with bed.VethBed(context.tools) as place:
        served = write_files(place)
        back = place.next_port()
        server = place.spawn(0, ["python3", "-u", "-m", "http.server",
                                 "--directory", served, "--bind", "127.0.0.1",
                                 str(back)], rnic=False)
        bed.await_true(lambda: "Serving" in server.output()[0] or
                       not server.running(), 20, "http.server listening")

        def over(side, argv):
            return place.spawn(
                side, test_rsockets.over_rsockets(
                    newer.with_libraries(argv), "ours-first"),
                env={"RSPRELOAD": preload, "PLAIN": ""})

        haproxy = spawn_haproxy(
            context, place, CONFIGURATION + "  default_backend server\n"
            f"backend server\n  server one 127.0.0.1:{back}\n", over)
        for _ in range(2):
            fetch(context, place, over, served, 100, 20)
        note_connections(context, haproxy)
