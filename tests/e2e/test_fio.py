"""fio's rdma engine, the distribution's, unmodified: its connections are made
by rdma_cm, its completions waited for by events.

The client says `rw=write` whatever the verb is, the server `rw=read`. A server
of sends needs a receive for each of them from the start: the client asks for no
retry where there is none (rnr_retry_count 0), on every NIC.
"""

import functools
import json

import bed
import beds
import suite

BLOCKS = 128


def run_fio(context, bed_name, verb, block, depth):
    context.need("fio")
    with beds.make(context.tools, bed_name) as place:
        options = ["fio", "--ioengine=rdma", f"--port={place.next_port()}",
                   f"--bs={block}", f"--size={BLOCKS * block}", "--thread",
                   "--output-format=json"]
        server = place.spawn(0, [*options, "--name=server", "--rw=read",
                                 f"--iodepth={BLOCKS}"])
        bed.await_true(lambda: "waiting for connection" in server.output()[0]
                       or not server.running(), 20, "fio listening")
        client = place.run(1, [*options, "--name=client", "--rw=write",
                               f"--iodepth={depth}", f"--verb={verb}",
                               "--hostname=10.1.0.1"], seconds=60)
        context.check_ok(client, server.wait(20))
        job = json.loads(client.out[client.out.index("{"):])["jobs"][0]
        context.check(job["error"] == 0 and
                      job["write"]["total_ios"] == BLOCKS and
                      job["write"]["io_bytes"] == BLOCKS * block, client)
        context.note(f"{job['write']['bw'] / 1024:.0f} MiB/s")


for _bed in ("vhost", "veth9000", "iwarp-vhost", "iwarp-veth9000"):
    for _verb in ("write", "read", "send"):
        for _block, _depth in ((512, 1), (4096, 32), (1 << 18, 8)):
            suite.add(f"{_bed}/fio/{_verb}/{_block}", functools.partial(
                run_fio, bed_name=_bed, verb=_verb, block=_block,
                depth=_depth), _bed.endswith("vhost") and _block == 4096)
