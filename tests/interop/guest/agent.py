"""The guest's end of the control channel: a TCP server, a child for each
connection. The first line says what it is for:

    {"run": SCRIPT, "seconds": N}   runs it in a shell; the answer is a line
                                    {"status": N} and what it wrote. Closing
                                    the connection kills it.
    {"verbs": true}                 verbs_peer.py's language from here on
    {"program": [PATH, ..]}         becomes that program, with the connection
                                    as its standard input and output

What the children need is imported before: that takes seconds under emulation.
verbs_peer.py needs rxe.
"""

import importlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
import traceback

PORT = 7000
TIMED_OUT = 124  # as in timeout(1)
VERBS_PEER = (importlib.import_module("verbs_peer")
              if os.path.exists("/sys/class/infiniband/rxe0") else None)


def run(connection, script, seconds):
    """Runs `script` in a process group of its own."""
    with tempfile.TemporaryFile() as out:
        # pylint: disable-next=consider-using-with
        process = subprocess.Popen(
            ["/bin/sh", "-c", script], stdin=subprocess.DEVNULL, stdout=out,
            stderr=subprocess.STDOUT, start_new_session=True, cwd=tempfile.gettempdir())
        end = time.monotonic() + seconds
        status = TIMED_OUT
        while time.monotonic() < end:
            if process.poll() is not None:
                status = process.returncode
                break
            # If the connection is readable, the harness has closed it.
            if select.select([connection], [], [], 0.02)[0]:
                break
        # Kill what the script has left running, too.
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()
        out.seek(0)
        text = out.read()
    connection.sendall(json.dumps({"status": status}).encode() + b"\n" + text)


def serve(connection):
    # Unbuffered: the rest may be for the program.
    asked = json.loads(connection.makefile("rb", buffering=0).readline())
    if "verbs" in asked:
        VERBS_PEER.Peer(connection.makefile("rwb")).serve()
    elif "program" in asked:
        os.dup2(connection.fileno(), 0)
        os.dup2(connection.fileno(), 1)
        os.execv(asked["program"][0], asked["program"])
    else:
        run(connection, asked["run"], asked["seconds"])


def main():
    listener = socket.create_server(("", PORT), backlog=16)
    print("agent: ready", flush=True)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        connection, _ = listener.accept()
        if os.fork() == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            listener.close()
            try:
                serve(connection)
            except BrokenPipeError:
                pass
            except Exception:  # pylint: disable=broad-except
                traceback.print_exc()
            finally:
                sys.stderr.flush()
                os._exit(0)
        connection.close()


if __name__ == "__main__":
    main()
