"""Other libibverbs than the installed one, with programs of their release: ours
is loaded, or one sentence says why it is not."""

import os
import re

import bed
import newer_verbs
import suite
import test_rdmacm

# The ones in both the builds of rdma-core and ibverbs-utils.
PING_PONGS = (("ibv_rc_pingpong", "-c"), ("ibv_rc_pingpong", "-c", "-e"),
              ("ibv_rc_pingpong", "-N", "-t"), ("ibv_uc_pingpong",),
              ("ibv_ud_pingpong",), ("ibv_srq_pingpong", "-e"),
              ("ibv_xsrq_pingpong",))
PERFTEST = (("ib_write_bw", "-n", "1000"), ("ib_read_bw", "-n", "1000"),
            ("ib_send_bw", "-n", "1000", "-e"), ("ib_atomic_bw", "-n", "1000"),
            ("ib_write_lat", "-n", "1000"), ("ib_send_lat", "-c", "UD"))
RDMA_CM = ("rping", "ucmatose", "udaddy")
BUILDS = "URNIC_RDMA_CORE"


def get(name):
    try:
        return newer_verbs.get(name)
    except newer_verbs.Unavailable as reason:
        raise suite.Skip(f"no libibverbs of {name}: {reason}") from None


def devinfo(context, newer):
    """True if it shows the device; False if the library is refused."""
    context.note(f"rdma-core {newer.release}")
    with bed.LoopBed(context.tools) as place:
        result = place.run(0, newer.argv("ibv_devinfo", "-v"))
    if result.status != 0:
        said = re.findall(r"^urnic: .*private interface \d+, .*hidden$",
                          result.err, re.MULTILINE)
        context.check(len(said) == 1, result)
        return False
    context.check("PORT_ACTIVE" in result.out and
                  "GID[  3]:\t\t::ffff:10.1.0.1, RoCE v2" in result.out,
                  result)
    return True


def ping_pongs(context, newer):
    for program, *options in PING_PONGS:
        with bed.SocketBed(context.tools, "vhost") as place:
            context.check_ok(*place.run_pair(newer.argv(
                program, "-g", str(place.gid_v4), *options)))


def perftest(context, newer):
    for program, *options in PERFTEST:
        with bed.SocketBed(context.tools, "vhost") as place:
            context.check_ok(*place.run_pair(newer.argv(
                program, "-F", "-x", str(place.gid_v4), *options)))


def rdma_cm(context, newer):
    for name in RDMA_CM:
        server, client, ends = test_rdmacm.PROGRAMS[name]
        test_rdmacm.run_programs(context, "vhost", newer.argv(*server),
                                 newer.argv(*client), ends)


@suite.test("vhost/newer-libibverbs/trixie", core=False)
def trixie(context):
    """rdma-core 56: the same private interface, a longer ibv_qp_ex."""
    newer = get("trixie")
    context.check(devinfo(context, newer), "56 is refused")
    ping_pongs(context, newer)
    perftest(context, newer)
    rdma_cm(context, newer)


@suite.test("vhost/newer-libibverbs/sid", core=False)
def sid(context):
    """Whatever it is today: it works, or it is refused in one sentence. (65.0
    works.)"""
    newer = get("sid")
    if not devinfo(context, newer):
        context.note("refused")
        return
    ping_pongs(context, newer)
    perftest(context, newer)
    rdma_cm(context, newer)


@suite.test("vhost/newer-libibverbs/builds", core=False)
def builds(context):
    """Releases that no suite of Debian has."""
    places = os.environ.get(BUILDS, "").split()
    if not places:
        raise suite.Skip(f"{BUILDS} names no build of rdma-core (README.md)")
    for place in places:
        newer = newer_verbs.Build(place)
        context.check(devinfo(context, newer), f"{newer.release} is refused")
        ping_pongs(context, newer)
        rdma_cm(context, newer)
