"""P_Keys: who may talk to whom, seen by perftest and on the wire."""

import bed
import suite


@suite.test("veth9000/partition-of-a-full-and-a-limited-member")
def partition(context):
    """Each side's packets bear its own membership of partition 1."""
    context.need("ib_send_bw")
    keys = [0x8001, 0x0001]
    with bed.VethBed(context.tools) as place:
        options = [{"env": {"URNIC_PKEYS": hex(key)}} for key in keys]
        for side, key in enumerate(keys):
            result = place.run(
                side, ["cat", "/sys/class/infiniband/urnic0/ports/1/pkeys/0",
                       "/sys/class/infiniband/urnic0/ports/1/pkeys/1"],
                **options[side])
            context.check(result.out.split() == ["0xffff", f"0x{key:04x}"],
                          result)
        with place.capture() as capture:
            server, client = place.run_pair(
                ["ib_send_bw", "-x", "3", "-F", "-n", "100", "--pkey_index=1"],
                server_options=options[0], client_options=options[1])
            context.check_ok(server, client)
        seen = {(packet.src, packet.pkey) for packet in capture.packets()}
        context.check(seen == {("10.1.0.1", 0x8001), ("10.1.0.2", 0x0001)},
                      f"{seen}")
