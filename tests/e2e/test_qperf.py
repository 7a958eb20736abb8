"""qperf 0.4.11, unmodified, with its connections made by rdma_cm (-cm 1).

It can do no other on RoCE, on any device: without -cm its address vectors have
a LID and no GRH (ib_prep() in its rdma.c), which libmlx5 and the kernel
(rdma_check_ah_attr) refuse as we do, and it has no option for a GID. -cm is for
RC only: the other tests warn that they do not use it. Its server uses one host
name for TCP and RDMA, so kernel and RNIC share the address.

It also says on which port it listens before it does (118a571 fixes that): a
client that comes too early is rejected, and has another try.

Its server dies behind each test, on any device: it makes its queue pair of the
id of the request and destroys that of its listener, which has none (cm_close;
qperf's own 83bc16e, after the release, fixes it). The kernel would answer the
client's DREQ, or its FIN, for the dead; here the RNIC has died with its
process, and the client would wait for a minute. So somebody else takes the RNIC
over then: who is asked to disconnect what he does not know says that it is.

The tests in FLOODS send as fast as they can, and write with immediate data. If
the receiving program posts receives more slowly, RoCE waits and tries again.
iWARP has no such answer: a message without a receive ends the connection. So
they fail there, unless the machine is slow, and do so with any device.
"""

import functools
import pathlib

import bed
import beds
import suite

TESTS = ("rc_lat", "rc_bw", "rc_bi_bw", "rc_rdma_read_lat", "rc_rdma_read_bw",
         "rc_rdma_write_lat", "rc_rdma_write_bw", "rc_rdma_write_poll_lat",
         "rc_compare_swap_mr", "rc_fetch_add_mr", "ver_rc_compare_swap",
         "ver_rc_fetch_add")

FLOODS = ("rc_bw", "rc_bi_bw", "rc_rdma_write_bw")

ATTEMPTS = 5


def children(process):
    """Those that run: a dead one has no memory."""
    path = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children")
    alive = []
    for pid in path.read_text(encoding="ascii").split():
        try:
            status = pathlib.Path(f"/proc/{pid}/statm").read_text(
                encoding="ascii")
        except OSError:
            continue
        if not status.startswith("0 "):
            alive.append(pid)
    return alive


def run_qperf(context, bed_name, name):
    context.need("qperf", "rping")
    for _ in range(ATTEMPTS):
        client = run_client(context, bed_name, name)
        if "Event rejected" not in client.out + client.err:
            break
    context.check_ok(client)
    lines = client.out.strip().split("\n")
    context.check(lines[0] == f"{name}:" and len(lines) > 1, client)
    context.note(" ".join(lines[1].split()))


def run_client(context, bed_name, name):
    """The client's Result, however it ended."""
    with beds.make(context.tools, bed_name) as place:
        place.share_addresses()
        port = place.next_port()
        server = place.spawn(0, ["qperf", "-lp", str(port)])
        bed.await_true(lambda: server.listens(port) or not server.running(),
                       20, "qperf listening")
        client = place.spawn(1, ["qperf", "10.1.0.1", "-lp", str(port), "-t",
                                 "1", "-cm", "1", name])
        bed.await_true(lambda: children(server) or not client.running(), 20,
                       "a server for the test")
        bed.await_true(lambda: not children(server) or not client.running(),
                       40, "the end of the server for the test")
        place.spawn(0, ["rping", "-s", "-a", beds.SERVER_IP["v4"], "-p",
                        str(place.next_port())])
        return client.wait(120)


for _bed in ("vhost", "veth9000", "iwarp-vhost", "iwarp-veth9000"):
    for _name in TESTS:
        if _name in FLOODS and _bed.startswith("iwarp"):
            continue
        suite.add(f"{_bed}/qperf/{_name}",
                  functools.partial(run_qperf, bed_name=_bed, name=_name),
                  _bed.endswith("vhost") and _name == "rc_rdma_read_bw")
