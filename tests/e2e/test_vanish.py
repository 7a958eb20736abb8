"""Peers of rdma_cm that vanish: killed in the middle of a connection, or ended
without a word. Who stays has what he had before, and the next one connects."""

import functools
import os
import pathlib
import random
import signal
import time

import bed
import beds
import suite

# A REP without an answer is repeated sixteen times, 4.3 s apart.
REPLY_SECONDS = 75
# Memory that the allocator keeps for later.
SLACK_KB = 1024


def spawn(context, place, side, role, *more, family="v4"):
    address = beds.SERVER_IP[family]
    return place.spawn(side, [context.tools.cm_survivor, role, address, "7471",
                              *more])


def lines(process):
    return process.output()[0].splitlines()


def count(process, start):
    return sum(line.startswith(start) for line in lines(process))


def holdings(process):
    """What it has: descriptors, and resident memory in KB."""
    status = pathlib.Path(f"/proc/{process.pid}/status").read_text(
        encoding="ascii")
    rss = next(line for line in status.splitlines()
               if line.startswith("VmRSS:"))
    return len(os.listdir(f"/proc/{process.pid}/fd")), int(rss.split()[1])


def spawn_server(context, place, family="v4"):
    server = spawn(context, place, 0, "server", family=family)
    bed.await_true(lambda: count(server, "listening") or not server.running(),
                   20, "the server listens")
    return server


def connect_once(context, place, server):
    """A connection that comes up and ends as it should."""
    ups, downs = count(server, "up"), count(server, "down")
    client = spawn(context, place, 1, "one-client", "stay")
    bed.await_true(lambda: count(server, "up") > ups or not server.running(),
                   30, "a connection")
    client.signal(signal.SIGTERM)
    client.wait(10)
    bed.await_true(lambda: count(server, "down") > downs or
                   not server.running(), 30, "its end")
    context.check(server.running(), server.result())


def exit_without_a_word(context, bed_name, family="v4"):
    """The client calls exit() with its connection established: the server
    hears of it as it would from the kernel, by a DREQ."""
    with beds.make(context.tools, bed_name) as place:
        server = spawn_server(context, place, family)
        for number in range(1, 4):
            client = spawn(context, place, 1, "one-client", "exit",
                           family=family)
            context.check_ok(client.wait(20))
            bed.await_true(lambda: count(server, "down") >= number or
                           not server.running(), 20, "the end is noticed")
        context.check(server.running(), server.result())
        context.check(count(server, "down RDMA_CM_EVENT_DISCONNECTED") == 3,
                      server.output()[0])


def next_program_resets(context, bed_name, victim):
    """TCP of a killed program says nothing to its peer, which sends again for
    100 s. The next program with its address answers by a RST."""
    with beds.make(context.tools, bed_name) as place:
        pair = [spawn_server(context, place), spawn(context, place, 1,
                                                    "client")]
        dying, other = pair[victim], pair[1 - victim]
        bed.await_true(lambda: count(other, "up"), 30, "a connection")
        dying.kill()
        time.sleep(1)
        context.check(count(other, "down") == 0, other.result())
        begin = time.monotonic()
        spawn(context, place, victim, ("server", "client")[victim])
        bed.await_true(lambda: count(other, "down") or not other.running(),
                       60, "the end is noticed")
        context.note(f"noticed in {time.monotonic() - begin:.1f} s")
        bed.await_true(lambda: count(other, "up") > 1 or not other.running(),
                       30, "a connection with the next program")
        context.check(other.running(), other.result())


def killed_clients(context, bed_name, rounds):
    """Clients are killed at moments that nobody chose: before they ask, while
    they are answered, with the answer unread, established."""
    with beds.make(context.tools, bed_name) as place:
        server = spawn_server(context, place)
        for _ in range(3):
            connect_once(context, place, server)
        files, memory = holdings(server)
        for number in range(rounds):
            how = ("ask", "stay")[number % 2]
            client = spawn(context, place, 1, "one-client", how)
            if number % 3 == 0:
                bed.await_true(lambda: count(client, "asked") or
                               count(client, "down") or not client.running(),
                               20, "the client asks")
                context.check(count(client, "asked"), client.result())
            else:
                time.sleep(random.uniform(0.1, 0.6))
            client.kill()
        connect_once(context, place, server)

        def as_before():
            now_files, now_memory = holdings(server)
            return (now_files <= files and now_memory <= memory + SLACK_KB and
                    count(server, "request") ==
                    count(server, "down") or not server.running())

        bed.await_true(as_before, REPLY_SECONDS + 15,
                       "the server is as before")
        context.check(server.running(), server.result())
        context.note(f"{count(server, 'request')} requests, descriptors "
                     f"{files}, {holdings(server)[1] - memory:+} KB")
        server.signal(signal.SIGTERM)
        context.check_ok(server.wait(10))


def killed_servers(context, bed_name, rounds):
    """The client stays, and finds each new server."""
    with beds.make(context.tools, bed_name) as place:
        server = spawn_server(context, place)
        client = spawn(context, place, 1, "client")
        bed.await_true(lambda: count(client, "up"), 30, "a connection")
        files, memory = holdings(client)
        for _ in range(rounds):
            server.kill()
            ups = count(client, "up")
            server = spawn_server(context, place)
            bed.await_true(lambda: count(client, "up") > ups or
                           not client.running(), REPLY_SECONDS + 15,
                           "the client is back")
            context.check(client.running(), client.result())
            time.sleep(random.uniform(0, 0.2))
        now_files, now_memory = holdings(client)
        context.check(now_files <= files and now_memory <= memory + SLACK_KB,
                      f"{files} descriptors and {memory} KB before, "
                      f"{now_files} and {now_memory} after")
        for process in (client, server):
            process.signal(signal.SIGTERM)
            context.check_ok(process.wait(10))


suite.add("veth9000/vanish/exit-without-a-word-v6",
          functools.partial(exit_without_a_word, bed_name="veth9000",
                            family="v6"), False)
for _bed in ("vhost", "veth9000"):
    suite.add(f"{_bed}/vanish/exit-without-a-word",
              functools.partial(exit_without_a_word, bed_name=_bed),
              _bed == "veth9000")
    suite.add(f"{_bed}/vanish/killed-servers",
              functools.partial(killed_servers, bed_name=_bed, rounds=3),
              _bed == "veth9000")
    suite.add(f"{_bed}/vanish/killed-clients",
              functools.partial(killed_clients, bed_name=_bed, rounds=12),
              False)
for _bed in ("iwarp-vhost", "iwarp-veth9000"):
    suite.add(f"{_bed}/vanish/exit-without-a-word",
              functools.partial(exit_without_a_word, bed_name=_bed),
              _bed == "iwarp-veth9000")
    for _victim, _name in enumerate(("server", "client")):
        suite.add(f"{_bed}/vanish/the-next-{_name}-resets",
                  functools.partial(next_program_resets, bed_name=_bed,
                                    victim=_victim),
                  _bed == "iwarp-veth9000")
