"""The programs of librdmacm and perftest -R, unmodified, between two RNICs.

They find each other by the RNICs' own addresses; no kernel address is in use.
"""

import suite
from test_perftest import make_bed

# How often a client may come before its server listens: an RDMA listener
# cannot be seen from outside, and without it the client is rejected.
TRIES = 50


def run_programs(context, bed_name, server, client, ends=True):
    """`ends`: the server ends with its client."""
    context.need(server[0])
    with make_bed(context.tools, bed_name) as place:
        process = place.spawn(0, server)
        for _ in range(TRIES):
            result = place.run(1, client, seconds=30)
            if result.status == 0 or not process.running():
                break
        if not ends:
            context.check_ok(result)
            return
        if result.status != 0:
            process.kill()
        context.check_ok(result, process.wait(20))


# name: server, client
PROGRAMS = {
    "rping": ("rping -s -a 10.1.0.1 -C 10 -V",
              "rping -c -a 10.1.0.1 -C 10 -V"),
    "rping-v6": ("rping -s -a fd01::1 -C 10 -V",
                 "rping -c -a fd01::1 -C 10 -V"),
    "ucmatose": ("ucmatose -c 10", "ucmatose -c 10 -s 10.1.0.1"),
    "ucmatose-v6": ("ucmatose -b fd01::1", "ucmatose -s fd01::1"),
    "udaddy": ("udaddy -c 3", "udaddy -c 3 -s 10.1.0.1"),
    "udaddy-v6": ("udaddy -b fd01::1", "udaddy -s fd01::1"),
    "rdma_client": ("rdma_server", "rdma_client -s 10.1.0.1"),
    "rdma_xclient": ("rdma_xserver", "rdma_xclient -s 10.1.0.1"),
    "rstream": ("rstream -S 4096 -I 100",
                "rstream -s 10.1.0.1 -S 4096 -I 100"),
    "riostream": ("riostream -S 4096 -I 100",
                  "riostream -s 10.1.0.1 -S 4096 -I 100"),
}
PROGRAMS.update({
    f"{program}-R": (f"{program} -R -F -n 1000",
                     f"{program} -R -F -n 1000 10.1.0.1")
    for program in ("ib_send_bw", "ib_write_bw", "ib_read_lat")})

for _bed in ("memif", "veth9000"):
    for _name, (_server, _client) in PROGRAMS.items():
        suite.add(f"{_bed}/{_name}",
                  lambda context, b=_bed, s=_server.split(),
                  c=_client.split(): run_programs(context, b, s, c),
                  core=_bed == "memif" or _name.startswith("rping"))
# Its server serves for ever.
suite.add("memif/cmtime",
          lambda context: run_programs(
              context, "memif", ["cmtime", "-c", "100"],
              ["cmtime", "-c", "100", "-s", "10.1.0.1"], ends=False))
