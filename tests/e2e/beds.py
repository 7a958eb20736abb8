"""The beds that test tables name."""

import bed

# A bed with iWARP devices in place of RoCE's.
IWARP = "iwarp-"
SERVER_IP = {"v4": "10.1.0.1", "v6": "fd01::1"}
CLIENT_IP = {"v4": "10.1.0.2", "v6": "fd01::2"}


def make(tools, name):
    """The bed "veth1500", "veth9000" or one of bed.SocketBed's; "iwarp-vhost"
    and so on: the same bed, with `--transport iwarp`."""
    plain = name.removeprefix(IWARP)
    place = bed.VethBed(tools, mtu=int(plain[4:])) \
        if plain.startswith("veth") else bed.SocketBed(tools, plain)
    if name != plain:
        place.name = name
        place.transport = "iwarp"
    return place
