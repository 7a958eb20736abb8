"""qperf, unmodified, with its connections made by rdma_cm (-cm 1).

It can do no other on RoCE, with any device: without -cm it gives a LID and no
GID, and for UC and UD it has no -cm. Its server uses one host name for TCP and
RDMA, so kernel and RNIC share the address; and behind each test it dies of a
null pointer (rdma_destroy_qp of its listener) without having disconnected. Its
client then waits until the connection manager gives up, for over a minute:
nothing here is part of the short set."""

import functools

import bed
import suite

TESTS = ("rc_lat", "rc_bw", "rc_bi_bw", "rc_rdma_read_lat", "rc_rdma_read_bw",
         "rc_rdma_write_lat", "rc_rdma_write_bw", "rc_rdma_write_poll_lat",
         "rc_compare_swap_mr", "rc_fetch_add_mr", "ver_rc_compare_swap",
         "ver_rc_fetch_add")


def run_qperf(context, bed_name, name):
    context.need("qperf")
    place = bed.VethBed(context.tools) if bed_name == "veth9000" \
        else bed.SocketBed(context.tools, bed_name)
    with place:
        place.share_addresses()
        port = place.next_port()
        server = place.spawn(0, ["qperf", "-lp", str(port)])
        bed.await_true(lambda: server.listens(port) or not server.running(),
                       20, "qperf listening")
        client = place.run(1, ["qperf", "10.1.0.1", "-lp", str(port), "-t",
                               "1", "-cm", "1", name], seconds=180)
        context.check_ok(client)
        lines = client.out.strip().split("\n")
        context.check(lines[0] == f"{name}:" and len(lines) > 1, client)
        context.note(" ".join(lines[1].split()))


for _bed in ("vhost", "veth9000"):
    for _name in TESTS:
        suite.add(f"{_bed}/qperf/{_name}",
                  functools.partial(run_qperf, bed_name=_bed, name=_name),
                  False)
