"""`urnic guard`: a program that keeps its device from recovering is named, and
ended only if it is meant."""

import json
import os
import shutil
import signal

import bed
import suite

# Both are qp_keeper. The first ignores SIGTERM.
STUBBORN = "keeper-a"
DOCILE = "keeper-b"


class Keepers:
    """Two hosts whose programs do not destroy their queue pairs after a
    failure of the link."""

    def __init__(self, context, place):
        self._context = context
        self._place = place
        self._env = {"XDG_RUNTIME_DIR": place.directory,
                     "URNIC_RECOVERY": "bound:1s"}
        self.ends = [self._spawn_keeper(0, STUBBORN, "stubborn"),
                     self._spawn_keeper(1, DOCILE)]
        self.pids = [end.pid for end in self.ends]
        self._await(lambda: all("ready" in end.output()[0]
                                for end in self.ends), "queue pairs")

    def _spawn_keeper(self, side, name, *words):
        path = os.path.join(self._place.directory, name)
        shutil.copy(self._context.tools.qp_keeper, path)
        return self._place.spawn(side, [path, *words], env=self._env)

    def _await(self, condition, what):
        bed.await_true(lambda: condition() or
                       not all(end.running() for end in self.ends), 30, what)
        for end in self.ends:
            self._context.check(end.running(), end.result())

    def guard(self, *words):
        return self._place.spawn(0, [self._context.tools.urnic, "guard",
                                     *words], rnic=False, env=self._env)

    def once(self, status, *words):
        """What `guard --once` tells, in a list of objects."""
        result = self.guard("--once", "-j", *words).wait(30)
        self._context.check(result.status == status and result.err == "",
                            result)
        return lines_of(result.out)

    def _shown(self, *words):
        pids = ",".join(map(str, self.pids))
        result = self._place.run(0, [self._context.tools.urnic, "show", *words,
                                     "pid", pids, "-j", "-d"], rnic=False,
                                 env=self._env)
        self._context.check_ok(result)
        return json.loads(result.out)

    def offenders(self, *words):
        """{pid: its line} of `urnic show offender`."""
        lines = self._shown("offender", *words)
        return {line["pid"]: line for line in lines}

    def fail(self):
        """Lets both devices fail, and awaits that both programs are named."""
        def failed():
            return [link["device-state"] for link in
                    self._shown("link")] == ["failed"] * 2

        self._place.set_link(0, "down")
        self._await(failed, "two failures")
        self._place.set_link(0, "up")
        self._await(lambda: set(self.offenders()) == set(self.pids),
                    "two offenders")


def lines_of(text):
    return [json.loads(line) for line in text.splitlines()]


def told(lines):
    """The pids by what is told of them."""
    events = {}
    for line in lines:
        events.setdefault(line["event"], []).append(line.get("pid"))
    return {event: sorted(pids) for event, pids in events.items()}


def await_event(process, event, pid):
    bed.await_true(lambda: pid in told(lines_of(process.output()[0]))
                   .get(event, []) or not process.running(), 20,
                   f"{event} of {pid}")


@suite.test("veth9000/guard-ends-who-is-meant")
def guard_ends_who_is_meant(context):
    """Two programs block the recovery. The one that is named is ended, though
    it ignores SIGTERM; the other is left alone until it is named, too."""
    with bed.VethBed(context.tools) as place:
        host = Keepers(context, place)
        context.check(host.once(0) == [], "all is well")
        host.fail()
        stubborn, docile = host.pids
        shown = host.offenders()
        for pid, name in ((stubborn, STUBBORN), (docile, DOCILE)):
            line = shown[pid]
            context.check(line["comm"] == name and line["dev"] == "urnic0" and
                          line["blocks"] == "recovery" and
                          line["what"].startswith("1 queue pair failed"),
                          line)
            context.check(set(host.offenders("comm", name)) == {pid}, name)
        found = host.once(1)
        context.check(told(found) == {"found": sorted(host.pids)}, found)
        context.check({line["pid"]: line["what"] for line in found} ==
                      {pid: shown[pid]["what"] for pid in shown},
                      (found, shown))

        # A name that is only the beginning of theirs means neither.
        other = host.once(1, "--policy", "kill", "--program", STUBBORN[:-1],
                          "--grace", "0s")
        context.check(told(other) == {"found": sorted(host.pids)}, other)

        guard = host.guard("-j", "--policy", "kill", "--program", STUBBORN,
                           "--grace", "1s", "--interval", "100ms")
        await_event(guard, "gone", stubborn)
        result = host.ends[0].wait(10)
        context.check(result.status == -signal.SIGKILL, result)
        context.check(host.ends[1].running(), host.ends[1].result())
        guard.signal(signal.SIGINT)
        result = guard.wait(10)
        context.check(result.status == 0 and result.err == "", result)
        lines = lines_of(result.out)
        context.check(told(lines[:-1]) == {
            "found": sorted(host.pids), "sigterm": [stubborn],
            "sigkill": [stubborn], "gone": [stubborn]}, result)
        totals = {key: value for key, value in lines[-1].items()
                  if key != "at"}
        context.check(totals == {"event": "end", "found": 2, "gone": 1,
                                 "left": 1, "sigterms": 1, "sigkills": 1},
                      totals)

        ended = host.once(0, "--policy", "term", "--program", DOCILE,
                          "--interval", "100ms")
        context.check(told(ended) == {"found": [docile], "sigterm": [docile],
                                      "gone": [docile]}, ended)
        result = host.ends[1].wait(10)
        context.check(result.status == -signal.SIGTERM, result)
        context.check(host.once(0) == [], "nobody is left")


@suite.test("veth9000/guard-of-a-program-that-does-not-answer")
def guard_of_a_silent_program(context):
    """A stopped program is told once, is not killed, and does not keep the
    guard from the other one."""
    with bed.VethBed(context.tools) as place:
        host = Keepers(context, place)
        host.fail()
        stubborn, docile = host.pids
        host.ends[0].signal(signal.SIGSTOP)
        guard = host.guard("-j", "--policy", "kill", "--program", "*",
                           "--grace", "0s", "--interval", "100ms")
        await_event(guard, "gone", docile)
        guard.signal(signal.SIGTERM)
        result = guard.wait(20)
        context.check(result.status == 0, result)
        context.check(set(told(lines_of(result.out))) >= {"found", "sigterm",
                                                          "gone"} and
                      stubborn not in sum(told(lines_of(
                          result.out)).values(), []), result)
        context.check(result.err.count("\n") == 1 and
                      "does not answer" in result.err and
                      f"process {stubborn} ({STUBBORN})" in result.err, result)
        context.check(host.ends[0].running(), host.ends[0].result())
        host.ends[0].signal(signal.SIGCONT)
        found = host.once(1)
        context.check(told(found) == {"found": [stubborn]}, found)
