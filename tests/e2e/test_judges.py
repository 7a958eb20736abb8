"""More programs that were not written for us, or in other languages."""

import os
import pathlib

import bed
import suite

HERE = pathlib.Path(__file__).parent


@suite.test("loop/go")
def go(context):
    """The Go runtime has handlers for SIGSEGV (nil pointers) and SIGURG
    (preemption) on alternate stacks, and starts a thread for each call of C
    that blocks. Neither disturbs the other: see go_exchange.go. Its own open()
    is a raw system call, so only what it does through C sees the devices."""
    context.need("go", "gcc")
    with bed.LoopBed(context.tools) as place:
        program = os.path.join(place.directory, "go_exchange")
        context.check_ok(place.run(
            0, ["go", "build", "-o", program, str(HERE / "go_exchange.go")],
            seconds=180, rnic=False, env={"GOPROXY": "off"}))
        for processors in ("1", "8"):
            result = place.run(0, [program, str(place.gid_v4)], seconds=60,
                               env={"GOMAXPROCS": processors})
            context.check_ok(result)
            context.check("ok:" in result.out, result)
        context.note(result.out.strip())


@suite.test("loop/pyverbs-threads")
def pyverbs_threads(context):
    """Eight threads on one context, two of them on one completion queue: see
    pyverbs_threads.py."""
    with bed.LoopBed(context.tools) as place:
        # The distribution's, which has pyverbs.
        python = "/usr/bin/python3"
        if place.run(0, [python, "-c", "import pyverbs.cq"],
                     rnic=False).status != 0:
            raise suite.Skip("python3-pyverbs is not installed")
        result = place.run(0, [python, str(HERE / "pyverbs_threads.py"),
                               str(place.gid_v4)], seconds=60)
        context.check_ok(result)
        context.check("ok:" in result.out and not result.err, result)
        context.note(result.out.strip())
