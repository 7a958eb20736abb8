"""Names of ports and ordinals that another user holds: any user may bind them,
and no RNIC may be kept from starting by that."""

import bed
import suite

NOBODY = 65534
SQUATTER = """
import os, socket, sys, time
os.setgid({nobody})
os.setuid({nobody})
held = []
for name in sys.argv[1:]:
    held.append(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
    held[-1].bind("\\0" + name)
    held[-1].listen(1)
print("held", flush=True)
time.sleep(1000)
""".format(nobody=NOBODY)


def squat(place, names):
    """A process of another user that holds the names in side 0."""
    process = place.spawn(0, ["python3", "-c", SQUATTER, *names], rnic=False)
    bed.await_true(lambda: "held" in process.output()[0]
                   or not process.running(), 10, "the squatter")
    if not process.running():
        raise bed.Died(f"the squatter ended: {process.result()}")
    return process


@suite.test("veth9000/squatted-names-keep-no-rnic-from-its-port")
def squatted(context):
    context.need("ibv_devinfo", "ibv_rc_pingpong", "python3")
    with bed.VethBed(context.tools) as place:
        squatter = squat(place, [f"urnic-port-iface:{place.interface}"]
                         + [f"urnic-ordinal-{n}" for n in range(8)])
        first = place.run(0, ["ibv_devinfo"])
        context.check_ok(first)
        for words in (f"urnic: urnic0: the name that claims port "
                      f"iface:{place.interface} is held by a process of user "
                      f"{NOBODY}, pid {squatter.pid};",
                      "urnic: urnic0: all 8 RNIC ordinals are taken; ordinal 0"
                      f" is held by a process of user {NOBODY}"):
            context.check(words in first.err, first)
        doctor = place.spawn(
            0, [context.tools.urnic, "doctor", *place.run_options(0)],
            rnic=False).wait(30)
        context.check(f"iface:{place.interface} by user {NOBODY}; all 8 RNIC "
                      "ordinals are taken, 8 by other users" in doctor.out,
                      doctor)
        # Processes with a right to the port still exclude each other.
        port = place.next_port()
        holder = place.spawn(0, ["ibv_rc_pingpong", "-g", "3", "-p",
                                 str(port)])
        bed.await_true(lambda: holder.listens(port), 10, "listening")
        second = place.run(0, ["ibv_devinfo"])
        context.check(second.status != 0 and f"pid {holder.pid}" in second.err,
                      second)
        # The same when the plain name is free again.
        squatter.kill()
        second = place.run(0, ["ibv_devinfo"])
        context.check(second.status != 0 and f"pid {holder.pid}" in second.err,
                      second)
        holder.kill()
        last = place.run(0, ["ibv_devinfo"])
        context.check_ok(last)
        context.check("held by" not in last.err, last)
