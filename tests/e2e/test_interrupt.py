"""`./dev test` that is interrupted: it says what it had done, and leaves
nothing."""

import functools
import pathlib
import subprocess
import sys

import interrupted_gate
import suite

HERE = pathlib.Path(__file__).resolve().parent
SECONDS = 200
# Without the namespaces of others, which go when those remove them.
APART = """
while umount --lazy --recursive /run/netns 2> /dev/null; do :; done
mount -t tmpfs none /run
exec "$@"
"""


def interrupt(context, how):
    context.need("unshare", "setsid")
    tools = context.tools
    done = subprocess.run(
        ["unshare", "--mount", "--net", "--propagation", "private", "sh", "-ec",
         APART, "sh", sys.executable, HERE / "interrupted_gate.py", tools.out,
         tools.built, how],
        capture_output=True, text=True, timeout=SECONDS, check=False)
    context.check(done.returncode == 0, done.stdout + done.stderr)
    context.note(done.stdout.strip())


for _how in interrupted_gate.WAYS:
    suite.add(f"interrupt/{_how}-leaves-nothing",
              functools.partial(interrupt, how=_how))
