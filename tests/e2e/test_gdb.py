"""gdb's commands (ras/gdb): what a program has, while it runs and in its core.
Neither the program nor the plugin has debug information."""

import os
import re
import signal

import bed
import beds
import suite
import test_show


def told(context, place, target, *commands):
    """What gdb prints of a process or a core. It loads the commands by itself,
    as it trusts the folder."""
    argv = ["gdb", "-nx", "-q", "-batch", "-iex", "set debuginfod enabled off",
            "-iex", f"add-auto-load-safe-path {context.tools.out}",
            # "ip netns exec" gives the program a mount namespace of its own.
            "-iex", "set sysroot /", *target]
    for command in commands:
        argv += ["-ex", command]
    result = place.run(1, argv, rnic=False, seconds=120)
    context.check_ok(result)
    return result.out


def check_objects(context, text, qps):
    """The text lists these queue pairs, as `urnic show` tells them."""
    lines = re.findall(r"^qp 0x\S+ dev (\S+) lqpn (\d+) type (\S+) "
                       r"state (\S+) waiting-sends (\d+)", text, re.M)
    context.check({(qp["link"].split("/")[0], str(qp["lqpn"]), "RC", "RTS")
                   for qp in qps} == {line[:4] for line in lines}, (text, qps))
    context.check(re.search(rf"^qp {len(qps)}$", text, re.M), text)
    context.check(re.search(r"^cq 1$", text, re.M), text)
    context.check("written over" not in text, text)


@suite.test("vhost/gdb-of-a-program-and-its-core")
def gdb_of_a_program_and_its_core(context):
    argv = ["ib_write_bw", "-x", "3", "-F", "-D", "60", "-q", "2"]
    context.need("gdb", argv[0])
    if os.geteuid() != 0:
        raise suite.Skip("needs root, to look into another process")
    with beds.make(context.tools, "vhost") as place:
        env = {"XDG_RUNTIME_DIR": place.directory}
        _, client = place.spawn_pair(argv, {"env": env}, {"env": env})
        pid = str(client.pid)

        def of_client():
            return test_show.shown(context, place, 1, "qp", "type", "RC",
                                   "state", "RTS", "pid", pid)

        bed.await_true(lambda: len(of_client()) == 2, 20, "two connections")
        qps = of_client()
        # Without what is shared, as DPDK's half a gigabyte.
        with open(f"/proc/{pid}/coredump_filter", "w",
                  encoding="ascii") as kinds:
            kinds.write("0x31")
        core = os.path.join(place.directory, "core")
        live = told(context, place, ["-p", pid], "urnic objects", "urnic qp",
                    f"urnic qp {qps[0]['lqpn']}", "urnic mr",
                    f"generate-core-file {core}")
        check_objects(context, live, qps)
        context.check(live.count(f"lqpn {qps[0]['lqpn']} ") == 2, live)
        regions = test_show.shown(context, place, 1, "mr", "pid", pid)
        for region in regions:
            context.check(f"lkey {region['lkey']} " in live, (live, regions))
        program = os.readlink(f"/proc/{pid}/exe")
        client.signal(signal.SIGKILL)
        client.wait(10)
        dead = told(context, place, [program, core], "urnic objects",
                    "urnic qp")
        check_objects(context, dead, qps)
