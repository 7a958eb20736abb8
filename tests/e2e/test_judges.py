"""More programs that were not written for us, or in other languages."""

import os
import pathlib
import re

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


@suite.test("veth9000/ibacm")
def ibacm(context):
    """It resolves addresses for InfiniBand ports only, by multicast and by the
    subnet administrator, which RoCE does not have: acm_open_dev() leaves out
    every port with another link layer, and ibacm ends if none is left. So
    ib_acme finds the device and its port, ibacm opens it, reads its link layer
    and says that it is not InfiniBand, as it would of any RoCE NIC."""
    context.need("ibacm", "ib_acme")
    with bed.VethBed(context.tools) as place:
        context.check_ok(place.run(
            0, ["ib_acme", "-A", "-O", "-D", place.directory, "-V"]))
        addresses = os.path.join(place.directory, "ibacm_addr.cfg")
        options = os.path.join(place.directory, "ibacm_opts.cfg")
        with open(addresses, encoding="ascii") as file:
            text = file.read()
        context.check(re.search(r"^\S+ urnic0 1 default$", text,
                                re.MULTILINE), text)
        # Its log and its lock would be in /var/log and /run.
        with open(options, "a", encoding="ascii") as file:
            file.write("log_file stderr\nlog_level 2\n"
                       f"lock_file {place.directory}/ibacm.pid\n")
        result = place.run(0, ["ibacm", "-P", "-A", addresses, "-O", options])
        context.check(
            result.status == 255 and
            "acm_open_dev: urnic0 port 1 is not an InfiniBand port" in
            result.err and "unable to open any devices" in result.err, result)
