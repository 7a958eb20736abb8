"""UCX, the distribution's, unmodified: the verbs transports that it finds in
our RNIC, and ucx_perftest over them."""

import functools
import re

import bed
import beds
import suite


def environment(place, gid="v4", **more):
    """UCX chooses a GID by itself unless told ("any")."""
    if gid == "any":
        return {"UCX_NET_DEVICES": "urnic0:1", **more}
    index = place.gid_v4 if gid == "v4" else place.gid_v6
    return {"UCX_NET_DEVICES": "urnic0:1", "UCX_IB_GID_INDEX": str(index),
            **more}


@suite.test("loop/ucx_info")
def lists_transports(context):
    """Both verbs transports with what they can do, atomics included."""
    context.need("ucx_info")
    with bed.LoopBed(context.tools) as place:
        result = place.run(0, ["ucx_info", "-d"], env=environment(place))
        context.check_ok(result)
        ours = result.out.split("Memory domain: urnic0")[1]
        ours = ours.split("Memory domain:")[0]
        for words in ("Transport: rc_verbs", "Transport: ud_verbs",
                      "Device: urnic0:1", "put_zcopy", "get_zcopy",
                      "atomic_add: 64 bit", "atomic_cswap: 64 bit"):
            context.check(words in ours, f"{words} is missing: {ours}")


def run_perftest(context, bed_name, options, gid="v4", **tls):
    """One test of ucx_perftest; its server gets the parameters from us."""
    context.need("ucx_perftest")
    with beds.make(context.tools, bed_name) as place:
        env = {"env": environment(place, gid, **tls)}
        server, client = place.run_pair(
            ["ucx_perftest", *options], server_options=env,
            client_options=env, seconds=60)
        context.check_ok(server, client)
        final = re.search(r"^Final: +(\d+) +(\S+)", client.out, re.M)
        context.check(final is not None, client)
        context.note(f"{final[1]} messages, {final[2]} us")


# UCX_TLS=rc_verbs alone has no way to exchange addresses ("no auxiliary
# transport", on every NIC); rc_v includes ud_verbs for that.
PROTOCOL_TLS = {"rc": "rc_v", "ud": "ud_verbs",
                "rc-ud-self": "rc_verbs,ud_verbs,self"}
PROTOCOL_TESTS = ("tag_lat", "tag_bw", "tag_sync_lat", "ucp_put_lat",
                  "ucp_put_bw", "ucp_get", "ucp_add", "ucp_fadd", "ucp_swap",
                  "ucp_cswap", "stream_lat", "stream_bw", "ucp_am_lat",
                  "ucp_am_bw")
CORE_PROTOCOL = {"rc": ("tag_lat", "ucp_put_bw", "ucp_get", "ucp_cswap",
                        "stream_bw", "ucp_am_lat"),
                 "ud": ("tag_lat", "ucp_am_bw"), "rc-ud-self": ("tag_bw",)}
# The transports themselves, for one kind of message each. (rc_verbs has no
# swap, because IB has none. UCP builds it from compare-and-swap.)
TRANSPORT_TESTS = {
    "rc_verbs": ("am_lat", "am_bw", "put_lat", "put_bw", "add_mr", "fadd",
                 "cswap"),
    "ud_verbs": ("am_lat", "am_bw"),
}
CORE_TRANSPORT = {"rc_verbs": ("put_lat", "fadd"), "ud_verbs": ("am_bw",)}
FEW = ["-n", "1000", "-w", "100"]
LARGE = ["-n", "50", "-w", "5", "-s", str(1 << 20)]

for _bed in ("vhost", "veth9000"):
    for _name, _tls in PROTOCOL_TLS.items():
        for _test in PROTOCOL_TESTS:
            suite.add(f"{_bed}/ucx/{_name}/{_test}", functools.partial(
                run_perftest, bed_name=_bed, options=["-t", _test, *FEW],
                UCX_TLS=_tls), _bed == "vhost" and _test in
                CORE_PROTOCOL[_name])
        for _test in ("tag_bw", "ucp_get", "ucp_put_bw", "stream_bw"):
            suite.add(f"{_bed}/ucx/{_name}/{_test}/1MB", functools.partial(
                run_perftest, bed_name=_bed, options=["-t", _test, *LARGE],
                UCX_TLS=_tls), (_bed, _name, _test) ==
                ("veth9000", "rc", "tag_bw"))
        for _test in ("tag_lat", "ucp_am_lat"):
            suite.add(f"{_bed}/ucx/{_name}/{_test}/sleep", functools.partial(
                run_perftest, bed_name=_bed,
                options=["-t", _test, "-E", "sleep", *FEW], UCX_TLS=_tls),
                False)
        suite.add(f"{_bed}/ipv6/ucx/{_name}/tag_bw", functools.partial(
            run_perftest, bed_name=_bed, gid="v6",
            options=["-t", "tag_bw", *FEW], UCX_TLS=_tls),
            (_bed, _name) == ("veth9000", "rc-ud-self"))
    suite.add(f"{_bed}/ucx/any-gid/tag_bw", functools.partial(
        run_perftest, bed_name=_bed, gid="any",
        options=["-t", "tag_bw", *FEW], UCX_TLS="rc_v"))
    for _transport, _tests in TRANSPORT_TESTS.items():
        for _test in _tests:
            suite.add(f"{_bed}/uct/{_transport}/{_test}", functools.partial(
                run_perftest, bed_name=_bed,
                options=["-t", _test, "-x", _transport, "-d", "urnic0:1",
                         *FEW]),
                _bed == "vhost" and _test in CORE_TRANSPORT[_transport])
        for _layout in ("bcopy", "zcopy"):
            suite.add(f"{_bed}/uct/{_transport}/am_bw/{_layout}",
                      functools.partial(
                          run_perftest, bed_name=_bed,
                          options=["-t", "am_bw", "-x", _transport, "-d",
                                   "urnic0:1", "-D", _layout, "-s", "2048",
                                   *FEW]), False)
    for _test, _layout in (("get", "bcopy"), ("get", "zcopy"),
                           ("put_bw", "zcopy")):
        suite.add(f"{_bed}/uct/rc_verbs/{_test}/{_layout}", functools.partial(
            run_perftest, bed_name=_bed,
            options=["-t", _test, "-x", "rc_verbs", "-d", "urnic0:1", "-D",
                     _layout, "-s", "4096", *FEW]), False)
