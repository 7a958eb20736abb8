"""libfabric, the distribution's, unmodified: fi_info and fi_pingpong over our
RNIC with the verbs provider, by itself and below ofi_rxm.

The provider looks for RDMA addresses among those of the kernel's interfaces,
other than lo: Bed.share_addresses(). Its datagram endpoints want a LID, which
RoCE does not have, on any device."""

import functools

import bed
import beds
import suite

ATTEMPTS = 3
LOST_END = "Work Request Flushed Error|still running after"
# name: (provider, kind of endpoint)
PROVIDERS = {"msg": ("verbs", "msg"), "rdm": ("verbs;ofi_rxm", "rdm")}


def lists_endpoints(context, bed_name, device):
    """Connected endpoints, and reliable datagrams on top of them."""
    context.need("fi_info")
    with beds.make(context.tools, bed_name) as place:
        place.share_addresses()
        for provider, kind in PROVIDERS.values():
            result = place.run(0, ["fi_info", "-p", provider, "-t",
                                   f"FI_EP_{kind.upper()}"])
            context.check_ok(result)
            context.check(f"domain: {device}\n" in result.out, result)


for _bed, _device in (("loop", "urnic0"), ("iwarp-loop", "iwurnic0")):
    suite.add(f"{_bed}/fi_info", functools.partial(
        lists_endpoints, bed_name=_bed, device=_device))


def run_pingpong(context, bed_name, name, family="v4", options=()):
    """With the data compared (-c). When ofi_rxm hears that its peer has
    disconnected, it destroys the queue pair, and with it the completions that
    it has not read (rxm_close_conn of 1.17). A thread that loses the CPU
    between its looks at the two queues loses the end of the last exchange, on
    any RNIC: such a pair is run again."""
    context.need("fi_pingpong")
    provider, kind = PROVIDERS[name]
    argv = ["fi_pingpong", "-p", provider, "-e", kind, "-c",
            *(["-6"] if family == "v6" else []), *options]
    control_port = 47592
    with beds.make(context.tools, bed_name) as place:
        place.share_addresses()

        def once():
            server = place.spawn(0, argv)
            try:
                bed.await_true(lambda: server.listens(control_port) or
                               not server.running(), 20,
                               "fi_pingpong listening")
                client = place.run(1, [*argv, beds.SERVER_IP[family]],
                                   seconds=60)
                context.check_ok(client, server.wait(10))
                return client
            finally:
                server.kill()

        client = context.try_again(ATTEMPTS if name == "rdm" else 1,
                                   LOST_END, once)
        context.note(client.out.strip().split("\n")[-1].strip())


for _bed in ("vhost", "veth9000", "iwarp-vhost", "iwarp-veth9000"):
    for _name in PROVIDERS:
        suite.add(f"{_bed}/fi_pingpong/{_name}", functools.partial(
            run_pingpong, bed_name=_bed, name=_name))
        suite.add(f"{_bed}/ipv6/fi_pingpong/{_name}", functools.partial(
            run_pingpong, bed_name=_bed, name=_name, family="v6"),
            (_bed, _name) == ("veth9000", "msg"))
        for _size in ("1", "4097", "4194304"):
            suite.add(f"{_bed}/fi_pingpong/{_name}/{_size}", functools.partial(
                run_pingpong, bed_name=_bed, name=_name,
                options=["-S", _size, "-I", "20"]), False)
    suite.add(f"{_bed}/fi_pingpong/rdm/tagged", functools.partial(
        run_pingpong, bed_name=_bed, name="rdm", options=["-m", "tagged"]),
        False)
