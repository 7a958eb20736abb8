"""`urnic clean`: what killed programs left, and nothing else. In a mount
namespace of its own, because it removes what it finds on the machine."""

import json
import os
import signal

import bed
import suite

# The argument is the tree under test, which may be in one of these places.
FRESH = """
mount -t tmpfs none /run
mkdir /run/tree
mount --bind "$1" /run/tree
for place in /tmp /dev/shm; do mount -t tmpfs none $place; done
mkdir -p "$1"
mount --bind /run/tree "$1"
echo ready
exec sleep 1000
"""
RUNTIME = "/run/runtime"
SOCKET = "/run/urnic-0/memif.sock"


class Clean:
    """Commands and programs in the namespace."""

    def __init__(self, context, place):
        self._context = context
        self._place = place
        holder = place.spawn(0, ["unshare", "-m", "sh", "-ec", FRESH, "sh",
                                 str(context.tools.out)], rnic=False)
        bed.await_true(lambda: "ready" in holder.output()[0] or
                       not holder.running(), 10, "a mount namespace")
        context.check(holder.running(), holder.result())
        self._options = {
            "wrap": ["nsenter", "-m", "-t", str(holder.pid)],
            "env": {"XDG_RUNTIME_DIR": RUNTIME, "TMPDIR": "/tmp"}}
        context.check_ok(place.run(0, ["mkdir", RUNTIME], rnic=False,
                                   **self._options))

    def spawn(self, side, argv, **env):
        options = {**self._options, "env": {**self._options["env"], **env}}
        return self._place.spawn(side, argv, **options)

    def read(self, path):
        result = self._place.run(0, ["cat", path], rnic=False,
                                 **self._options)
        self._context.check_ok(result)
        return result.out

    def _run(self, *words):
        return self._place.run(0, [self._context.tools.urnic, *words],
                               rnic=False, **self._options)

    def urnic(self, *words):
        result = self._run(*words)
        self._context.check_ok(result)
        return result.out

    def found(self, *words):
        """{what: its line} of `urnic clean`."""
        lines = json.loads(self.urnic("clean", "--json", *words))
        kinds = {line["what"]: line for line in lines}
        self._context.check(len(kinds) == len(lines), lines)
        return kinds

    def recordings(self):
        """The pids of those that have contents."""
        return {line["pid"] for line in json.loads(
            self.urnic("show", "recording", "-j")) if "pid" in line}

    def devices(self):
        """The pids of programs with an RNIC."""
        result = self._run("show", "dev", "-j", "-d")
        return {line["pid"] for line in json.loads(result.out or "[]")}


@suite.test("memif/clean-after-a-kill")
def clean_after_a_kill(context):
    """A program is killed and another lives: all that the first left is named
    and removed, and the second keeps what it has."""
    context.need("ib_write_bw", "nsenter", "unshare")
    if os.geteuid() != 0:
        raise suite.Skip("needs root")
    with bed.SocketBed(context.tools, "memif") as place:
        place.sides[0].dev = "net_memif0,role=server"
        place.sides[1].dev = "loop"
        host = Clean(context, place)
        argv = ["ib_write_bw", "-x", "3", "-F", "-p"]
        ends = [host.spawn(side, [*argv, str(place.next_port())])
                for side in (0, 1)]
        dead, alive = (end.pid for end in ends)
        bed.await_true(lambda: host.recordings() == host.devices() ==
                       {dead, alive} or
                       not all(end.running() for end in ends), 20,
                       "two recordings")
        for end in ends:
            context.check(end.running(), end.result())
        context.check(host.found("--recordings") == {}, "all of it is in use")

        ends[0].signal(signal.SIGKILL)
        ends[0].wait(10)
        for _ in range(2):
            left = host.found("--dry-run")
            context.check(set(left) == {"run-directory", "socket"}, left)
            directory = left["run-directory"]
            context.check(directory["pid"] == dead and
                          directory["comm"] == "ib_write_bw" and
                          directory["path"].startswith(f"{RUNTIME}/urnic-"),
                          left)
            context.check(left["socket"]["path"] == SOCKET, left)
        text = host.urnic("clean")
        context.check(text.count(" result removed\n") == 2 and text.endswith(
            "\n2 removed; kept on purpose: 1 recordings of ended programs "
            "(--recordings)\n"), text)
        context.check(host.found() == {}, "all of it is removed")
        context.check(host.devices() == {alive}, ends[1].output())
        context.check(host.recordings() == {dead, alive}, "they are kept")

        left = host.found("--recordings")
        context.check(set(left) == {"recording"} and
                      left["recording"]["pid"] == dead and
                      left["recording"]["comm"] == "ib_write_bw", left)
        context.check(host.recordings() == {alive}, "it is in use")
        # The next server has the same socket.
        ends[0] = host.spawn(0, [*argv, str(place.next_port())])
        bed.await_true(lambda: host.devices() == {ends[0].pid, alive} or
                       not ends[0].running(), 20, "the next program")
        context.check(all(end.running() for end in ends), ends[0].result())


@suite.test("loop/the-next-start-cleans")
def next_start(context):
    """What the first program left, the second removes."""
    context.need("ib_write_bw", "ibv_devinfo", "nsenter", "unshare")
    if os.geteuid() != 0:
        raise suite.Skip("needs root")
    with bed.LoopBed(context.tools) as place:
        host = Clean(context, place)
        first = host.spawn(0, ["ib_write_bw", "-x", "3", "-F", "-p",
                               str(place.next_port())])
        bed.await_true(lambda: first.pid in host.recordings() or
                       not first.running(), 20, "a recording")
        first.signal(signal.SIGKILL)
        first.wait(10)
        context.check("run-directory" in host.found("-n"), first.result())
        left = host.found("-n")["run-directory"]["path"]
        log = f"{RUNTIME}/errors"
        result = host.spawn(0, ["ibv_devinfo"], URNIC_DEBUG="-",
                            URNIC_LOG=f"json:{log}").wait(20)
        context.check_ok(result)
        what = f"run directory {left} of process {first.pid}, ib_write_bw"
        context.check(what in result.err and "URN1918" in result.err, result)
        lines = host.read(log)
        context.check(lines.count('"code":"URN1918"') == 1 and what in lines,
                      lines)
        context.check(host.found("-n") == {}, "the next start removes it")
        context.check(first.pid in host.recordings(), "it is kept")
