"""Networks with routers between them: routes given and the kernel's, changed
while connections live; smaller MTUs on the way."""

import os

import bed
import suite
from routed_bed import RoutedBed
from test_addresses import await_device

FAR = ("10.2.0.1", "fd02::1")


def give_routes(place, router=254):
    """By --route instead of the kernel's table."""
    for side in (0, 1):
        place.routes[side][:] = [f"default via 10.{side + 1}.0.{router}",
                                 f"default via fd0{side + 1}::{router}"]


def lose_kernel_routes(place, side):
    """TCP needs the other host alone."""
    at = ["ip", "-n", place.sides[side].namespace]
    other = f"10.{2 - side}.0.101"
    bed.command(*at, "route", "replace", other, "via",
                f"10.{side + 1}.0.254")
    bed.command(*at, "route", "del", "default")
    bed.command(*at, "-6", "route", "del", "default")


def route(place, process, *words):
    return place.run(0, [place.tools.urnic, "route", "--process",
                         str(process.pid), *words], rnic=False)


def perftest(context, given):
    context.need("ib_send_bw")
    with RoutedBed(context.tools) as place:
        if given:
            give_routes(place)
            for side in (0, 1):
                lose_kernel_routes(place, side)
        for gid in (place.gid_v4, place.gid_v6):
            with place.capture() as capture:
                context.check_ok(*place.run_pair(
                    ["ib_send_bw", "-F", "-n", "50", "-s", "10001", "-x",
                     str(gid)]))
            packets = capture.packets()
            hops = {p.l3[7 if p.is_ipv6 else 8] for p in packets}
            # perftest asks for 255.
            context.check(packets and hops == {254}, f"hop limits {hops}")
            context.check(all(p.icrc_is_right for p in packets), "ICRC")


@suite.test("routed/perftest-by-the-kernels-routes")
def by_kernel(context):
    perftest(context, given=False)


@suite.test("routed/perftest-by-routes-that-were-given")
def by_option(context):
    perftest(context, given=True)


def running_pair(context, place):
    """perftest that never ends, once it has shown a result."""
    server, client = place.spawn_pair(
        ["ib_send_bw", "-F", "-D", "1", "--run_infinitely", "-x",
         str(place.gid_v4), "-u", "17"])
    await_result(context, client, server)
    return server, client


def results(process):
    return process.output()[0].count("65536")


def await_result(context, client, server):
    """One whole second of traffic more than before."""
    wanted = results(client) + 2
    bed.await_true(lambda: results(client) >= wanted or
                   not client.running(), 20, "results")
    context.check(client.running() and server.running(),
                  f"{client.result()}\n{server.result()}")


@suite.test("routed/a-connection-follows-the-kernels-route")
def follows_kernel(context):
    """To the other router, whereupon the first one forwards nothing any
    more."""
    context.need("ib_send_bw")
    with RoutedBed(context.tools) as place:
        server, client = running_pair(context, place)
        for side in (0, 1):
            place.set_kernel_route(side, 253)
        # perftest's TCP connection is idle in the meantime.
        listed = route(place, client)
        bed.await_true(lambda: "default via 10.2.0.253 proto kernel" in
                       route(place, client).out, 10, f"the route: {listed}")
        place.stop_router(0)
        await_result(context, client, server)
        client.kill()


@suite.test("routed/a-connection-follows-urnic-route")
def follows_command(context):
    context.need("ib_send_bw")
    with RoutedBed(context.tools) as place:
        give_routes(place)
        server, client = running_pair(context, place)
        for side, process in ((0, server), (1, client)):
            near = f"10.{side + 1}.0"
            far = f"10.{2 - side}.0.0/24"
            context.check_ok(route(place, process, "add", "urnic0", far, "via",
                                   f"{near}.253", "metric", "5"))
            listed = route(place, process)
            for text in (f"{far} via {near}.253 metric 5 proto static",
                         f"default via {near}.254 proto static"):
                context.check(text in listed.out, listed)
        place.stop_router(0)
        await_result(context, client, server)
        # There is no route with this metric.
        wrong = route(place, client, "del", "urnic0", "10.1.0.0/24", "via",
                      "10.2.0.253")
        context.check(wrong.status == 1 and "has no route" in wrong.err, wrong)
        client.kill()


@suite.test("routed/rping-finds-its-way")
def rping(context):
    """librdmacm chooses the device and the source by the routes."""
    context.need("rping")
    with RoutedBed(context.tools) as place:
        # A server listens in one family.
        for any_address, address in zip(("0.0.0.0", "::"), FAR):
            server = place.spawn(1, ["rping", "-s", "-a", any_address,
                                     "-p", "7174"])
            await_device(place, server)
            context.check_ok(place.run(0, ["rping", "-c", "-C", "5", "-a",
                                           address, "-p", "7174"]))
            server.kill()


@suite.test("routed/a-smaller-mtu-on-the-way-is-said")
def smaller_mtu(context):
    """No connection can help itself, for its peer knows the size of its
    packets: it fails, with the reason, and one with smaller ones does not."""
    context.need("ib_write_bw")
    with RoutedBed(context.tools, 9000, 1500) as place:
        log = os.path.join(place.directory, "debug.log")
        env = {"URNIC_DEBUG": log, "URNIC_STATS": place.stats_path(0)}
        for gid, address in ((place.gid_v4, FAR[0]), (place.gid_v6, FAR[1])):
            argv = ["ib_write_bw", "-F", "-n", "5", "-s", "65536", "-x",
                    str(gid), "-u", "12", "-m"]
            _, client = place.spawn_pair([*argv, "4096"], server_side=1,
                                         client_options={"env": env})
            result = client.wait(20)
            context.check("status 12" in result.out + result.err, result)
            place.kill_all()
            with open(log, encoding="utf-8") as file:
                said = file.read()
            context.check(f"on the way to {address} takes 1500 bytes at "
                          "most; queue pairs with a path_mtu above 1024" in
                          said, said)
            context.check_ok(*place.run_pair([*argv, "1024"], server_side=1))
        shrunk = [c["engine"]["path_mtu_shrunk"] for c in place.read_stats(0)]
        context.check(shrunk == [1, 1], shrunk)
