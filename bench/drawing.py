"""The pictures of plot.py, by matplotlib.

They stand on a white ground of their own, so that they read alike on a white
and on a dark page. Text stays text. The colors are those of Okabe and Ito,
which colour-blind readers can tell apart, and each series has a mark of its
own as well.
"""
import matplotlib
from matplotlib.backends import backend_svg
from matplotlib.figure import Figure
from matplotlib.ticker import (FixedLocator, FuncFormatter, LogLocator,
                               NullFormatter, NullLocator)

import plot

# The file does not depend on when, where or in which order it was drawn.
SETTINGS = {
    "svg.fonttype": "none",
    "svg.hashsalt": "urnic",
    "font.family": "sans-serif",
    "font.size": 11,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#dddddd",
    "axes.axisbelow": True,
}
# The beginning of a series' name: color, mark, line. The same in all pictures.
STYLES = {
    "raw port": ("#000000", "", "--"),
    "wire": ("#000000", "", "--"),
    "uRNIC send": ("#56b4e9", "s", "-"),
    "uRNIC iWARP": ("#56b4e9", "s", "-"),
    "uRNIC": ("#0072b2", "o", "-"),
    "UCX": ("#d55e00", "^", "-"),
    "kernel TCP BBR": ("#e69f00", "v", "-"),
    "kernel TCP": ("#009e73", "D", "-"),
    "libfabric": ("#cc79a7", "v", "-"),
}
OTHER_STYLE = ("#777777", "x", "-")
PER_HOST = "queue pairs, or TCP connections, of each host"
# panel: (title, x label, y label, both axes' scale)
PANELS = {
    "rate": ("Message rate, by message size", "message size",
             "million messages a second", ("log", "log")),
    "latency": ("Latency of 8 bytes, half a round trip",
                "percentile",
                "microseconds", ("names", "log")),
    "queue_pairs": ("Rate of 8-byte messages, over many connections",
                    "queue pairs, or TCP connections",
                    "million messages a second", ("log", "log")),
    # The stored run may have 0.1 ms.
    "loss": ("Goodput over a 1 Gb/s link, by loss, at most 0.1 ms each way",
             "frames lost, each way (%)", "Gb/s", ("names", "linear")),
    "loss_1ms": ("Goodput over a 1 Gb/s link, by loss, 1 ms each way",
                 "frames lost, each way (%)", "Gb/s", ("names", "linear")),
    "delay": ("Goodput over a 1 Gb/s link, by delay",
              "delay, each way (ms)", "Gb/s", ("names", "linear")),
    "share": ("One flow beside two of the kernel's, over 200 Mb/s",
              "", "goodput / mean of the two", ("bars", "linear")),
    "incast": ("Four hosts send to one, over 1 Gb/s with a buffer of 256 KB",
               PER_HOST, "goodput (% of the link)", ("bars", "linear")),
    "incast_resent": ("Four hosts send to one: packets sent again",
                      PER_HOST, "% of the packets sent", ("bars", "linear")),
    "incast_jain": ("Four hosts send to one: fairness of the hosts",
                    PER_HOST, "Jain's index", ("bars", "linear")),
}
# What is asked of RoCE.
ASKED = {"share": (0.5, 1.5), "incast": (90, 100), "incast_resent": (0, 5),
         "incast_jain": (0.9, 1)}
PICTURES = {"rate.svg": ["rate"], "latency.svg": ["latency"],
            "queue_pairs.svg": ["queue_pairs"],
            "impaired.svg": ["loss", "loss_1ms", "delay"],
            "fairness.svg": ["share", "incast", "incast_resent",
                             "incast_jain"]}
WIDTH, HEIGHT = 8, 4.8  # inches, of one panel
BARS_HEIGHT = 3.2
BARS_WIDTH = 0.8  # of all bars at one x


def size_text(size):
    size = int(size)
    if size >= 1 << 20:
        return f"{size >> 20} MB"
    return f"{size >> 10} KB" if size >= 1024 else f"{size} B"


def number_text(value, _position=None):
    return f"{value:g}"


def style_of(name):
    return next((style for start, style in STYLES.items()
                 if name.startswith(start)), OTHER_STYLE)


def set_axes(axes, name, xs):
    """Scales and labels. `xs`: all values of x, in order."""
    title, x_label, y_label, (x_scale, y_scale) = PANELS[name]
    axes.set_title(title, loc="left", fontsize=13)
    axes.set_xlabel(x_label)
    axes.set_ylabel(y_label)
    if x_scale == "log":
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(FixedLocator(xs))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.set_xticklabels([size_text(x) if name == "rate" else
                              number_text(x) for x in xs])
    else:
        axes.set_xticks(range(len(xs)))
        axes.set_xticklabels([x if isinstance(x, str) else number_text(x)
                              for x in xs])
        beside = 0.5 if x_scale == "bars" else 0.3
        axes.set_xlim(-beside, len(xs) - 1 + beside)
    axes.set_yscale(y_scale)
    if name == "queue_pairs":  # few decades
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_minor_formatter(NullFormatter())
    axes.yaxis.set_major_formatter(FuncFormatter(number_text))


def draw_panel(axes, name, panel):
    distance = plot.distance_of(panel)
    lines = [(series, plot.points_of(series, distance)) for series in panel]
    found = {x for _, points in lines for x, *_ in points}
    xs = sorted(found, key=plot.order_of)
    set_axes(axes, name, xs)
    if PANELS[name][3][0] == "bars":
        draw_bars(axes, name, lines, xs)
    else:
        draw_lines(axes, name, lines, xs)
    return distance


def draw_bars(axes, name, lines, xs):
    """A group of bars at each x, with their values above."""
    width = BARS_WIDTH / len(lines)
    for number, (series, points) in enumerate(lines):
        if not points:
            continue
        middle = [y for _, y, *_ in points]
        bars = axes.bar(
            [xs.index(x) + (number + 0.5) * width - BARS_WIDTH / 2
             for x, *_ in points], middle, 0.92 * width,
            yerr=[[y - low for _, y, low, _ in points],
                  [high - y for _, y, _, high in points]],
            color=style_of(series["name"])[0], ecolor="#444444", capsize=3,
            label=series["name"])
        axes.bar_label(bars, [f"{y:.2g}" if y < 10 else f"{y:.0f}"
                              for y in middle], padding=2, fontsize=9)
    least, most = ASKED[name]
    band = axes.axhspan(least, most, color="#eeeeee", zorder=0)
    band.set_label("asked of RoCE")
    axes.grid(visible=False, axis="x")
    axes.margins(y=0.15)
    show_legend(axes)


def show_legend(axes):
    axes.legend(frameon=True, framealpha=0.9, edgecolor="none", fontsize=10,
                loc="upper left", bbox_to_anchor=(1.01, 1.0))


def draw_lines(axes, name, lines, xs):
    place = {x: i for i, x in enumerate(xs)} if PANELS[name][3][0] == "names" \
        else {x: x for x in xs}
    for series, points in lines:
        if not points:
            continue
        color, mark, line = style_of(series["name"])
        at = [place[x] for x, *_ in points]
        middle = [y for _, y, *_ in points]
        below = [y - low for _, y, low, _ in points]
        above = [high - y for _, y, _, high in points]
        # An average is not a percentile: no line joins it to them.
        joined = 1 if points[0][0] == "average" else 0
        axes.errorbar(at, middle, yerr=[below, above], color=color,
                      marker=mark or "_", linestyle="", markersize=6,
                      elinewidth=1, capsize=2)
        axes.plot(at[joined:], middle[joined:], color=color, linestyle=line,
                  linewidth=2)
        axes.plot([], [], color=color, marker=mark, linestyle=line,
                  linewidth=2, label=series["name"])
    if PANELS[name][3][1] == "linear":
        axes.set_ylim(bottom=0)
    show_legend(axes)


def rounds_text(document, names, distances):
    """Of how many rounds the points are. A point may have several values of
    one round."""
    counts = {min(len(point[distance]), document["rounds"])
              for name, distance in zip(names, distances)
              for series in document["panels"][name]
              for point in series["points"] if distance in point}
    least, most = min(counts, default=0), max(counts, default=0)
    if most <= 1:
        return f"Values of {most} round{'s' * (most != 1)}."
    span = f"{most}" if least == most else f"{least} to {most}"
    return f"Medians of {span} rounds; whiskers: minimum and maximum."


def note(document, names, distances):
    """The line below: where the figures are from."""
    machine = document["machine"]
    where = " and ".join({"near": "near each other",
                          "far": "far from each other",
                         "any": "processes not pinned"}[distance]
                         for distance in dict.fromkeys(distances))
    return (f"{document['date']}, commit {document['commit'][:9]}"
            f"{document['commit'][40:]}. {machine['cpus']} CPUs "
            f"({machine['cpu']}), {where}.\n"
            f"{rounds_text(document, names, distances)}")


def draw_picture(document, names):
    heights = [BARS_HEIGHT if PANELS[name][3][0] == "bars" else HEIGHT
               for name in names]
    figure = Figure(figsize=(WIDTH, sum(heights)), facecolor="white",
                    layout="constrained")
    backend_svg.FigureCanvasSVG(figure)
    places = figure.subplots(len(names), 1, squeeze=False)
    distances = [draw_panel(axes[0], name, document["panels"][name])
                 for axes, name in zip(places, names)]
    figure.supxlabel(note(document, names, distances), fontsize=8,
                     color="#444444", x=0.01, ha="left")
    return figure


def draw(document, folder):
    """Draws what the document has; the paths, in order."""
    paths = []
    with matplotlib.rc_context(SETTINGS):
        for file, wanted in PICTURES.items():
            names = [name for name in wanted if name in document["panels"]]
            if not names:
                continue
            path = folder / file
            draw_picture(document, names).savefig(
                path, format="svg", metadata={"Date": None})
            paths.append(path)
    return paths
