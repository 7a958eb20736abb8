"""The programs that the gate starts, one at a time, and how they end when the
gate is interrupted (SIGINT, SIGTERM, SIGHUP).

Each is the first of a process group of its own, so what a terminal sends to all
comes to the gate alone. The gate then sends SIGTERM to that group, once: every
program in it removes what it has made. What still lives after a minute is
killed.

That is the group, and what bears the mark: a word in the environment that all
inherit who were started in a part, also in sessions of their own. Those get
SIGTERM when the group has ended, and are killed soon after. The server of Bazel
bears no mark (`bazel` in ./dev), since it goes on; its client has it stop the
tests. Only processes that are found in this way are signalled, by id.

Standard library only.
"""

import os
import select
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "e2e"))
import clean_up  # noqa: E402 pylint: disable=wrong-import-position

MARK = "URNIC_GATE"
END_SECONDS = 60
ORPHAN_SECONDS = 5  # from SIGTERM to SIGKILL, for what outlives the group
KILL_SECONDS = 10  # for what does not even end then
LOOK_SECONDS = 0.5


class Children:
    def __init__(self, end_seconds=END_SECONDS):
        self.interrupted = 0  # by this signal
        self._end_seconds = end_seconds
        self._group = None  # the process whose group we would signal
        self._killed = False
        self._orphans_since = None
        self._mark = f"{os.getpid()}.{time.time_ns()}"

    def catch_signals(self):
        clean_up.on_stop_signals(self.interrupt)
        signal.signal(signal.SIGALRM, self._kill_rest)

    def run(self, argv, cwd, on_line=None):
        """The exit status. `on_line` gets each line that it prints, and now
        and then None while it prints none. Once we are interrupted, nothing is
        started any more, and None is returned."""
        if self.interrupted:
            return None
        # A gate in a test of the gate has two marks.
        marks = ":".join(filter(None, (os.environ.get(MARK), self._mark)))
        process = subprocess.Popen(  # pylint: disable=consider-using-with
            argv, cwd=cwd, stdin=subprocess.DEVNULL, process_group=0,
            stdout=subprocess.PIPE if on_line else None, env={**os.environ, MARK: marks})
        self._group = process.pid
        if self.interrupted:
            self._terminate()
        if on_line:
            for line in _lines_of(process.stdout):
                on_line(line)
                if line is None and self._killed:
                    break  # somebody else has its output
                if line is None and self.interrupted and process.poll() is not None:
                    self._end_orphans()
            process.stdout.close()
        process.wait()
        if self.interrupted:
            self._await_rest()
        self._group = None
        return None if self.interrupted else process.returncode

    def interrupt(self, number, _frame=None):
        """As by a signal; only the first one counts."""
        if not self.interrupted:
            self.interrupted = number
            if self._group is not None:
                self._terminate()

    def _terminate(self):
        _signal(-self._group, signal.SIGTERM)
        signal.alarm(self._end_seconds)

    def _await_rest(self):
        """Programs that the first one of the group has not waited for."""
        end = time.monotonic() + self._end_seconds + KILL_SECONDS
        while self._living() and time.monotonic() < end:
            self._end_orphans()
            time.sleep(LOOK_SECONDS)
        signal.alarm(0)
        clean_up.sweep()  # what the killed ones left

    def _end_orphans(self):
        living = self._living()
        if any(living.values()):
            return  # the group may still end them
        now = time.monotonic()
        first = self._orphans_since is None
        if first:
            self._orphans_since = now
        if first or now - self._orphans_since > ORPHAN_SECONDS:
            for pid in living:
                _signal(pid, signal.SIGTERM if first else signal.SIGKILL)

    def _kill_rest(self, _number, _frame):
        self._killed = True
        for pid in self._living():
            _signal(pid, signal.SIGKILL)
        signal.alarm(1)  # they may have had children in the meantime

    def _living(self):
        """{process id: whether it is in the group}"""
        found = {int(name): self._belongs(name) for name in os.listdir("/proc") if name.isdigit()}
        return {pid: in_group for pid, in_group in found.items()
                if in_group is not None and pid != os.getpid()}

    def _belongs(self, pid):
        """None: it is not ours."""
        try:
            with open(f"/proc/{pid}/stat", encoding="utf8", errors="replace") as file:
                state, _, group = file.read().rsplit(")", 1)[1].split()[:3]
            with open(f"/proc/{pid}/environ", "rb") as file:
                words = file.read().split(b"\0")
        except OSError:
            return None  # it has ended, or is another user's
        if state == "Z":
            return None  # for its parent to collect
        if int(group) == self._group:
            return True
        marks = [word for word in words if word.startswith(f"{MARK}=".encode())]
        marked = any(self._mark.encode() in mark.split(b"=", 1)[1].split(b":") for mark in marks)
        return False if marked else None


def _signal(pid, number):
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


def _lines_of(stream):
    """Its lines until it ends, and None now and then while it is silent."""
    buffer = b""
    while True:
        if not select.select([stream], [], [], LOOK_SECONDS)[0]:
            yield None
            continue
        data = os.read(stream.fileno(), 1 << 16)
        if not data:
            break
        *lines, buffer = (buffer + data).split(b"\n")
        for line in lines:
            yield line.decode("utf8", "replace")
    if buffer:
        yield buffer.decode("utf8", "replace")
