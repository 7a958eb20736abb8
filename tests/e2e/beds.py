"""The beds that test tables name."""

import bed

# A bed with iWARP devices in place of RoCE's.
IWARP = "iwarp-"
SERVER_IP = {"v4": "10.1.0.1", "v6": "fd01::1"}
CLIENT_IP = {"v4": "10.1.0.2", "v6": "fd01::2"}


def make(tools, name):
    """The bed "loop", "veth1500", "veth9000" or one of bed.SocketBed's;
    "iwarp-vhost" and so on: the same bed, with `--transport iwarp`."""
    plain = name.removeprefix(IWARP)
    if plain == "loop":
        place = bed.LoopBed(tools)
    elif plain.startswith("veth"):
        place = bed.VethBed(tools, mtu=int(plain[4:]))
    else:
        place = bed.SocketBed(tools, plain)
    if name != plain:
        place.name = name
        place.transport = "iwarp"
    return place
