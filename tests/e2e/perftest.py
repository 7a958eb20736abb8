"""Reading what the programs of perftest and ibv_rc_pingpong print."""

import re

import suite

# perftest prints the deviation of a noisy run as "-nan".
ROW = re.compile(r"^\s*\d+\s+\d+(\s+-?(?:[\d.]+|nan|inf))+\s*$")
# perftest prints this when its clock calibration has failed on a busy machine.
# Then its figures mean nothing, not even 0.
NO_CLOCK = "Correlation coefficient"


class Row:
    """A line of the table: one message size."""

    def __init__(self, line):
        fields = line.split()
        self.size = int(fields[0])
        self.iterations = int(fields[1])
        self.values = [float(field) for field in fields[2:]]


def rows(text):
    return [Row(line) for line in text.splitlines() if ROW.match(line)]


def check_report(context, server, client, sizes=None):
    """Both ended well and the client's table is believable: one line for each
    size, all figures positive. Returns the client's rows."""
    context.check_ok(server, client)
    table = rows(client.out)
    if not table:
        raise suite.Failure(f"no result in:\n{client}")
    if sizes is not None:
        context.check([row.size for row in table] == sizes,
                      f"sizes {[row.size for row in table]}, not {sizes}")
    no_clock = any(NO_CLOCK in result.out + result.err
                   for result in (client, server))
    for row in table:
        # Bandwidth: peak, average, message rate; the MB/s of small messages are
        # rounded to 0. Latency: min, max, typical, average, deviation, ..
        figure = row.values[2]
        context.check(figure > 0 or no_clock,
                      f"figure {figure} in:\n{client}")
    return table


def note_last(context, argv, table):
    """Writes the last line's result, with its unit, beside the test."""
    row = table[-1]
    if argv[0].endswith("_lat"):
        context.note(f"{row.values[2]:.2f} us typical at {row.size} B")
    else:
        context.note(f"{row.values[1]:.0f} MiB/s, {row.values[2]:.3f} M/s "
                     f"at {row.size} B")
