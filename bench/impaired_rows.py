"""The rows "impaired ..." of run.py: RoCE and iWARP over bad wires, beside the
kernel's CUBIC and BBR. wires.py says what the wires are."""

import wires

PREFIX = "impaired "  # of their names
CLEAN = wires.name_of("0", 0)
RNICS = tuple(wires.TRANSPORTS)
KERNELS = tuple(wires.KERNELS)
ENDS = RNICS + KERNELS
LARGE = "RoCE 1 MB"  # RoCE with messages of this size; else 64 KB
# What a loss must leave of the goodput without one, and a fault of that of a
# clean wire.
LEFT = {"0.01": 0.95, "0.1": 0.9, "1": 0.7, "5": 0.3}
LEFT_BY_FAULT = 0.9
IWARP_FAULT = ("reordered", 1)  # the only one with a target for iWARP
COUNTS = (1, 16)  # queue pairs, or TCP connections, of each host of an incast
# Here the CPU does not limit the goodput, so it is compared.
ASLEEP_GBPS = 0.9
# The unit of what must never happen.
NEVER = "times"


def start(end, seconds):
    """For wires.one_flow()."""
    if end == LARGE:
        return lambda wire: wire.start("RoCE", seconds, size=wires.LARGE)
    return lambda wire: wire.start(end, seconds)


def start_asleep(end, seconds):
    messages = int(seconds * ASLEEP_GBPS * 1e9 / 8 / wires.MESSAGE)
    return lambda wire: wire.send(end, messages)


def ends_on(wire):
    """Who is measured there."""
    found = [*KERNELS, *RNICS]
    if wire.startswith("corrupted"):
        # One damaged segment of a hundred passes TCP's checksum, and MPA's CRC
        # ends the connection (docs/faults.md).
        found.remove("iWARP")
    if wire.startswith("loss") or wire == wires.LONG:
        found.append(LARGE)
    return found


def ours_on(wire):
    return [end for end in ends_on(wire) if end not in KERNELS]


def rows(tools, seconds):
    """As the function of this name in run.py."""

    def flow(name, begin):
        found = wires.one_flow(tools, wires.wires()[name], begin, seconds)
        return found.gbps

    def asleep(row, end):
        found = wires.one_flow(tools, wires.wires()[CLEAN],
                               start_asleep(end, seconds), seconds)
        return {(row, "Gb/s"): found.gbps,
                (f"{row}, CPU", "s/GB"): found.cpu_s_per_gb}

    def incast(row, end, count):
        found = wires.incast(tools, end, count)
        return {(f"{row}: {end}", "%"): found.link_percent,
                (f"{row}, resent: {end}", "%"): found.resent_percent,
                (f"{row}, Jain: {end}", ""): found.jain,
                (f"{row}, starved: {end}", NEVER): found.starved,
                (f"{row}, failed: {end}", NEVER): found.failures}

    for name in wires.wires():
        for end in ends_on(name):
            yield (f"impaired {name}: {end}", "Gb/s",
                   lambda n=name, e=end: flow(n, start(e, seconds)))
    for end in ENDS:
        row = f"impaired {CLEAN}, asleep: {end}"
        yield row, None, lambda r=row, e=end: asleep(r, e)
    for count in COUNTS:
        row = incast_row(count)
        for end in ENDS:
            yield (f"{row}: {end}", None,
                   lambda r=row, e=end, c=count: incast(r, e, c))
    for others in KERNELS:
        for end in (*RNICS, *KERNELS):
            yield (share_row(end, others), "",
                   lambda e=end, o=others: wires.share(tools, e, o))


def incast_row(count):
    return f"impaired incast, {count} QP{'s' * (count > 1)}"


def share_row(end, others):
    return f"impaired share beside {others}: {end}"


def asked():
    """As the function of this name in run.py."""
    for name in wires.wires():
        row = f"impaired {name}"
        for end in ours_on(name):
            must = name.startswith("loss") and (
                end != "iWARP" or not name.startswith("loss 5 %"))
            yield (f"{end} / CUBIC, {name}", f"{row}: {end}", f"{row}: CUBIC", 1,
                   1 if must else None, ">=")
            yield "... / BBR", f"{row}: {end}", f"{row}: BBR", 1, None, ""
    yield from asked_beside_clean()
    for end in ("RoCE", LARGE):
        yield (f"Gb/s of {end}, {wires.LONG}", f"impaired {wires.LONG}: {end}",
               None, 1, 0.95 * wires.LINK_GBPS, ">=")
    row = f"impaired {CLEAN}, asleep"
    for end in RNICS:
        yield (f"{end} / CUBIC, asleep", f"{row}: {end}", f"{row}: CUBIC", 1,
               None, "")
        yield ("... CPU", f"{row}: {end}, CPU", f"{row}: CUBIC, CPU", 1, None,
               "")
    yield from asked_of_incast()
    for others in KERNELS:
        for end in RNICS:
            least, most = (0.7, 1.4) if end == "iWARP" else (0.5, 1.5)
            for bound, sense in ((least, ">="), (most, "<=")):
                yield (f"{end}'s share beside {others}", share_row(end, others),
                       None, 1, bound, sense)
            if others != "CUBIC":
                yield ("... / CUBIC's", share_row(end, others),
                       share_row("CUBIC", others), 1, None, "")


def asked_beside_clean():
    """Each wire relative to the same wire without its fault."""

    def lines(name, delay, bound_of):
        clean = f"impaired {wires.name_of('0', delay)}"
        for end in ours_on(name):
            yield (f"{end}, {name} / clean", f"impaired {name}: {end}",
                   f"{clean}: {end}", 1, bound_of(end), ">=")

    for delay in wires.DELAYS_MS:
        for loss, bound in LEFT.items():
            yield from lines(wires.name_of(loss, delay), delay,
                             lambda end, b=bound: b if end != "iWARP" else None)
    for fault, delay in wires.FAULTS:
        must = (fault, delay) == IWARP_FAULT
        yield from lines(
            f"{fault}, {delay} ms", delay,
            lambda end, m=must: LEFT_BY_FAULT if m or end != "iWARP" else None)


def asked_of_incast():
    for count in COUNTS:
        row = incast_row(count)
        short = row.removeprefix("impaired ")
        for what, bound, sense in (("", 90, ">="), (", resent", 5, "<="),
                                   (", Jain", 0.9, ">="), (", starved", 0, "<="),
                                   (", failed", 0, "<=")):
            for end in RNICS:
                yield (f"{short}{what}: {end}", f"{row}{what}: {end}", None, 1,
                       bound if end == "RoCE" else None, sense)
