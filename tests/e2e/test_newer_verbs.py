"""libibverbs of later Debian suites, with their programs: ours is loaded, or
one sentence says why it is not."""

import re

import bed
import newer_verbs
import suite


def get(name):
    try:
        return newer_verbs.get(name)
    except newer_verbs.Unavailable as reason:
        raise suite.Skip(f"no libibverbs of {name}: {reason}") from None


@suite.test("vhost/newer-libibverbs/trixie", core=False)
def trixie(context):
    """rdma-core 56: the same private interface, a longer ibv_qp_ex."""
    newer = get("trixie")
    context.note(f"rdma-core {newer.release}")
    with bed.SocketBed(context.tools, "vhost") as place:
        result = place.run(0, newer.argv("ibv_devinfo", "-v"))
        context.check_ok(result)
        context.check("PORT_ACTIVE" in result.out and
                      "GID[  3]:\t\t::ffff:10.1.0.1, RoCE v2" in result.out,
                      result)
    for program, *options in (
            ("ibv_rc_pingpong", "-c"), ("ibv_rc_pingpong", "-c", "-e"),
            ("ibv_rc_pingpong", "-N", "-t"), ("ibv_uc_pingpong",),
            ("ibv_ud_pingpong",), ("ibv_srq_pingpong", "-e"),
            ("ibv_xsrq_pingpong",)):
        with bed.SocketBed(context.tools, "vhost") as place:
            server, client = place.run_pair(newer.argv(
                program, "-g", str(place.gid_v4), *options))
            context.check_ok(server, client)


@suite.test("loop/newer-libibverbs/sid", core=False)
def sid(context):
    """Whatever it is today: it works, or it is refused in one sentence. (65.0
    has the private interface 65.)"""
    newer = get("sid")
    context.note(f"rdma-core {newer.release}")
    with bed.LoopBed(context.tools) as place:
        result = place.run(0, newer.argv("ibv_devinfo"))
        if result.status == 0 and "PORT_ACTIVE" in result.out:
            context.note("works")
            return
        said = re.findall(r"^urnic: .*private interface \d+, .*hidden$",
                          result.err, re.MULTILINE)
        context.check(result.status != 0 and len(said) == 1, result)
        context.note("refused")
