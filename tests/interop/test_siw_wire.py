"""Bad wires and other TCPs: loss, reordering and the like in front of our port,
single segments lost on the way, and what the guest's TCP lacks or has."""

import functools

from connection import OF_OURS, Link, case
from test_siw_connections import transfer

SIZES = (1, 5000, 100_000)

FAULTS = {
    "loss": "loss=2%", "bursts": "burst=1%:30%", "reordering": "reorder=5%",
    "duplication": "duplicate=10%", "corruption": "corrupt=1%",
    "jitter": "jitter=2ms:reorder", "distance": "delay=20ms",
    "slow": "rate=20Mbit,buffer=32KB",
    "everything": "loss=1%,reorder=5%,duplicate=2%,corrupt=0.5%,delay=1ms",
}


def fault(_context, lab, sides, name):
    lab.fault = FAULTS[name]
    connect_and_transfer(lab, sides)


def connect_and_transfer(lab, sides):
    with Link(lab, sides, bytes=1 << 17) as link:
        link.open()
        transfer(link, SIZES)
        link.close()


for _name in FAULTS:
    case(f"wire/{_name}", core=_name in ("loss", "reordering", "duplication"),
         roles=OF_OURS)(functools.partial(fault, name=_name))


# The first segment of a kind is lost: which, and whether the client sends it.
SEGMENTS = {
    "SYN": ("tcp flags & (syn | ack) == syn", True),
    "SYN-ACK": ("tcp flags & (syn | ack) == syn | ack", False),
    # The first segments longer than a SYN with all its options.
    "MPA-request": ("ip length > 60", True),
    "MPA-reply": ("ip length > 60", False),
    "FIN": ("tcp flags & fin == fin", True),
}


def lost(context, lab, sides, name):
    which, by_client = SEGMENTS[name]
    client, server = sides
    lab.drop(server if by_client else client,
             f"{which} numgen inc mod 100000 == 0")
    with Link(lab, sides) as link:
        link.open()
        transfer(link, (1, 5000))
        link.close()
    context.check(lab.treated() == 1, f"{lab.treated()} lost")


for _name in SEGMENTS:
    case(f"wire/lost/{_name}", core=_name == "MPA-reply", roles=OF_OURS)(
        functools.partial(lost, name=_name))


# Settings of the guest's TCP.
TCP = {
    "no-sack": {"sack": 0}, "no-timestamps": {"timestamps": 0},
    "no-window-scaling": {"window_scaling": 0},
    "nothing": {"sack": 0, "timestamps": 0, "window_scaling": 0},
    "ecn": {"ecn": 1}, "reno": {"congestion_control": "reno"},
    "tiny-window": {"rmem": "4096 4096 4096"},
    "huge-window": {"rmem": "4096 33554432 33554432",
                    "wmem": "4096 33554432 33554432"},
}


def tcp(_context, lab, sides, name):
    lab.set_tcp(**TCP[name])
    connect_and_transfer(lab, sides)


for _name in TCP:
    case(f"tcp/{_name}", core=_name in ("nothing", "tiny-window"))(
        functools.partial(tcp, name=_name))


@case("tcp/ipv6")
def ipv6(_context, lab, sides):
    with Link(lab, sides, family="v6", bytes=1 << 17) as link:
        link.open()
        transfer(link, SIZES)
        link.close()


def mtu(_context, lab, sides, size):
    """FPDUs follow the MSS."""
    lab.set_mtu(size)
    try:
        connect_and_transfer(lab, sides)
    finally:
        lab.set_mtu(lab.mtu)


# The last ones: Linux takes IPv6 away from an interface with an MTU below 1280.
for _size in (600, 1500):
    case(f"tcp/mtu-{_size}", core=_size == 1500, roles=OF_OURS)(
        functools.partial(mtu, size=_size))
