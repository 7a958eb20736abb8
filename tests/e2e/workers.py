"""Tests side by side, each in a process of its own: the names of beds contain
the process id, so two of them share none."""

import contextlib
import ctypes
import io
import json
import os
import select
import signal
import sys

import clean_up

_PR_SET_PDEATHSIG = 1


def run(jobs, count, begin, function):
    """Calls function(0), function(1), .. in processes, `jobs` at a time, and
    yields (number, what it has returned) as they end; begin(number) is called
    here before each. What a function prints is put before the text, which is
    the second thing that it returns. A process that dies has FAILED."""
    running = {}  # the end of its pipe: (process id, number)
    numbers = iter(range(count))
    try:
        while True:
            while len(running) < jobs:
                number = next(numbers, None)
                if number is None:
                    break
                begin(number)
                _start(running, number, function)
            if not running:
                return
            for pipe in select.select(list(running), [], [])[0]:
                answer = pipe.read()
                pid, number = running[pipe]
                status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
                del running[pipe]
                pipe.close()
                yield number, json.loads(answer) if answer else (
                    "FAILED", f"the test's process ended with {status}", 0)
    finally:
        # They clean up, as we do.
        for pid, _ in running.values():
            os.kill(pid, signal.SIGTERM)
        for pid, _ in running.values():
            os.waitpid(pid, 0)


def _start(running, number, function):
    sys.stdout.flush()
    ours, theirs = os.pipe()
    parent = os.getpid()
    # A signal must find the child in `running`, and in the child no code of
    # its parent.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, clean_up.STOP_SIGNALS)
    pid = os.fork()
    if pid == 0:
        try:
            os.close(ours)
            _end_with(parent)
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            with open(theirs, "w", encoding="utf8") as pipe:
                json.dump(_printed_first(function, number), pipe)
            status = 0
        except SystemExit as end:  # a signal
            status = end.code
        except BaseException:  # pylint: disable=broad-except
            sys.excepthook(*sys.exc_info())
            status = 1
        finally:
            signal.pthread_sigmask(signal.SIG_BLOCK, clean_up.STOP_SIGNALS)
            clean_up.remove_own()
            os._exit(status)
    os.close(theirs)
    # pylint: disable-next=consider-using-with
    running[open(ours, encoding="utf8")] = (pid, number)
    signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _end_with(parent):
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:
        sys.exit(1)


def _printed_first(function, number):
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        outcome, text, seconds = function(number)
    return outcome, (said.getvalue() + text).rstrip("\n"), seconds
