"""What a harness leaves behind, and how it is removed; and its end by a signal.

Namespaces and directories bear the process id of the harness that made them. It
removes them, also when a signal ends it; those of a killed one are swept by the
next. Standard library only.
"""

import atexit
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile

PREFIX = "urnic-e2e"
RUN_NETNS = pathlib.Path("/run/netns")
STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def on_stop_signals(handler):
    """For those that are not ignored: nohup and a shell's `&` ignore some."""
    for number in STOP_SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, handler)


def raise_on_signals():
    """Makes Ctrl-C, SIGTERM and SIGHUP unwind the stack, once: what unwinds is
    not disturbed by a second signal. Whatever the beds of this process then
    leave is removed when it ends."""

    def stop(number, _frame):
        on_stop_signals(signal.SIG_IGN)
        sys.exit(128 + number)

    on_stop_signals(stop)
    atexit.register(remove_own)


class BedError(Exception):
    """The bed could not be created: a fault of the machine, not of uRNIC."""


def command(*argv):
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise BedError(f"{' '.join(argv)}: {done.stderr.strip()}")
    return done.stdout


def _alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def remove_namespace(name):
    """With the programs in it, also those in sessions of their own."""
    for pid in command("ip", "netns", "pids", name).split():
        try:
            os.kill(int(pid), signal.SIGKILL)
        except ProcessLookupError:
            pass
    command("ip", "netns", "del", name)


def _remove_left(of_harness):
    """Removes namespaces and directories of the harnesses for whose process
    ids `of_harness` is true."""
    places = [(RUN_NETNS, lambda path: remove_namespace(path.name)),
              (pathlib.Path(tempfile.gettempdir()), shutil.rmtree)]
    for place, remove in places:
        for path in place.glob(f"{PREFIX}-*"):
            pid = path.name[len(PREFIX) + 1:].split("-")[0]
            if pid.isdigit() and of_harness(int(pid)):
                try:
                    remove(path)
                except (BedError, OSError) as error:
                    print(f"# leftover {path}: {error}")


def sweep():
    """Removes what dead harnesses left. In Bazel's sandbox, the process ids of
    others are unknown, so that all would look dead."""
    if "TEST_TMPDIR" in os.environ:
        return
    _remove_left(lambda pid: not _alive(pid))


def remove_own():
    """Removes what the beds of this process left: a signal may come while a bed
    is made or removed."""
    _remove_left(lambda pid: pid == os.getpid())
