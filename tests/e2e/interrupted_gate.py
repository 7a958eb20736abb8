#!/usr/bin/env python3
"""A gate with a bed in it, which is interrupted, and what is left then.

usage: interrupted_gate.py OUT BUILT HOW

HOW is a way of WAYS. To be run in mount and network namespaces of its own, with
an empty /run: so the lists that must not change are those of this run alone.
Ends with status 0 if all is as it was; says otherwise what is left. Needs root.

The same file is the gate (`gate` in place of HOW) and the part that it runs
(`part`).
"""

import os
import pathlib
import pty
import signal
import subprocess
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
sys.path.insert(0, str(HERE))
sys.dont_write_bytecode = True

# pylint: disable=wrong-import-position
import bed  # noqa: E402
import clean_up  # noqa: E402
import gate  # noqa: E402
import suite  # noqa: E402

WORD = "URNIC_E2E_INTERRUPTED"  # in the environment: the folder of this run
SECONDS = 90
QUICK = "of a test that ended in time"
DONE = "1 passed, 0 failed, 0 skipped"


# The part: one test that ends, and one that does not.

def quick(context):
    context.note(QUICK)


def endless(context):
    """A bed with all that could stay: programs on the RNIC and beside it, one
    of them in a session of its own, a bridge, and one outside of the bed."""
    with bed.VethBed(context.tools) as place:
        bed.command("ip", "-n", place.sides[1].namespace, "link", "add", "b0",
                    "type", "bridge")
        sleeper = ["sleep", "1000"]
        programs = [place.spawn(0, ["sh", "-c", "echo up; exec sleep 1000"]),
                    place.spawn(1, ["setsid", *sleeper], rnic=False)]
        with subprocess.Popen(["setsid", "--fork", *sleeper]) as starter:
            starter.wait()
        bed.await_true(lambda: "up" in programs[0].output()[0], SECONDS,
                       "the program on the RNIC")
        pathlib.Path(os.environ[WORD], "ready").touch()
        programs[0].wait(1000)


def part(out, built):
    suite.add("quick", quick)
    suite.add("endless", endless)
    return suite.run(suite.TESTS, bed.Tools(out, built))


def run_gate(out, built):
    def beds():
        return gate.run_program([sys.executable, __file__, out, built, "part"])

    return gate.run([("beds", 1, beds), ("behind", 1, beds)])


# Around it.

def lists():
    """Namespaces, links, and where something is mounted."""
    mounts = pathlib.Path("/proc/self/mountinfo").read_text(encoding="utf8")
    return {"namespaces": bed.command("ip", "netns", "list").split(),
            "links": bed.command("ip", "-o", "link").splitlines(),
            # `ip` mounts the folder of the namespaces once.
            "mounts": sorted({line.split()[4] for line in mounts.splitlines()}
                             - {str(bed.RUN_NETNS)}),
            "files": os.listdir(os.environ["TMPDIR"])}


def processes(folder):
    """Those that descend from the gate."""
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*/environ"):
        try:
            if f"{WORD}={folder}".encode() in path.read_bytes().split(b"\0"):
                found.append(path.parent.name)
        except OSError:
            pass  # it has just ended
    return found


class Terminal:
    """The gate's, and where it writes."""

    def __init__(self, argv, env):
        self._ours, theirs = pty.openpty()
        self.text = ""
        # setsid: the terminal is that of the session.
        self.process = subprocess.Popen(  # pylint: disable=consider-using-with
            ["setsid", "--ctty", *argv], env=env, stdin=theirs, stdout=theirs,
            stderr=theirs)
        os.close(theirs)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        try:
            while data := os.read(self._ours, 4096):
                self.text += data.decode(errors="replace")
        except OSError:
            pass  # all others have closed it

    def ctrl_c(self):
        os.write(self._ours, b"\x03")

    def close(self):
        os.close(self._ours)

    def signal(self, number):
        self.process.send_signal(number)

    def end(self):
        """(status, what it has written)"""
        status = self.process.wait(SECONDS)
        self._reader.join(1)
        return status, self.text


class Pipe:
    """The same without a terminal."""

    def __init__(self, argv, env):
        self.process = subprocess.Popen(  # pylint: disable=consider-using-with
            argv, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True)

    def signal(self, number):
        self.process.send_signal(number)

    def end(self):
        text, _ = self.process.communicate(timeout=SECONDS)
        return self.process.returncode, text


# How: (where it runs, what is done to it, the signal that it sees, whether its
# last words can be read)
WAYS = {
    "ctrl-c": (Terminal, Terminal.ctrl_c, signal.SIGINT, True),
    "sigterm": (Pipe, lambda run: run.signal(signal.SIGTERM), signal.SIGTERM,
                True),
    "sighup": (Pipe, lambda run: run.signal(signal.SIGHUP), signal.SIGHUP,
               True),
    "a-closed-terminal": (Terminal, Terminal.close, signal.SIGHUP, False),
}


def watch(out, built, how):
    place, act, number, readable = WAYS[how]
    problems = []
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TMPDIR"] = os.path.join(folder, "tmp")
        os.mkdir(os.environ["TMPDIR"])
        before = lists()
        run = place([sys.executable, __file__, out, built, "gate"],
                    {**os.environ, WORD: folder})
        ready = pathlib.Path(folder, "ready")
        bed.await_true(lambda: ready.exists() or
                       run.process.poll() is not None, SECONDS, "the bed")
        during = lists()
        if len(during["namespaces"]) <= len(before["namespaces"]):
            problems.append(f"there was no bed: {during}")
        begin = time.monotonic()
        act(run)
        status, text = run.end()
        print(f"ended in {time.monotonic() - begin:.1f} s")
        if status != 128 + number:
            problems.append(f"exit status {status}")
        for words in (QUICK, f"interrupted by {number.name}; not run: behind",
                      DONE):
            if readable and words not in text:
                problems.append(f"it did not say: {words}")
        if readable and text.split("\n")[-2].strip() != DONE:
            problems.append("its last line is another")
        after = lists()
        for what, names in after.items():
            if names != before[what]:
                problems.append(f"{what}: {before[what]} before, {names} now")
        if left := processes(folder):
            problems.append(f"processes: {left}")
    if problems:
        print("\n".join([*problems, "it said:", text]))
    return 1 if problems else 0


def main():
    out, built, how = sys.argv[1:]
    if how == "part":
        clean_up.raise_on_signals()
        return part(out, built)
    return run_gate(out, built) if how == "gate" else watch(out, built, how)


if __name__ == "__main__":
    sys.exit(main())
