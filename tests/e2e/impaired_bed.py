"""Hosts joined by an impaired cable."""

import json
import pathlib
import signal
import string

import bed


class ImpairedBed(bed.VethBed):
    """Two hosts joined by an impaired cable, for the RNICs and the kernels
    alike: the hosts' interfaces end in a third namespace, where a program
    joins them (impair_bridge.cc). `there` says what is wrong on the way from
    side 0 to side 1, `back` on the other, in the words of docs/faults.md.

    With more `pairs` than one, sides 0 to pairs-1 are behind a switch at one end
    of the cable, and their peers behind a switch at the other: side n faces side
    n + pairs. All that goes the same way shares the cable's rate and buffer."""

    def __init__(self, tools, there="", back="", mtu=9000, pairs=1):
        super().__init__(tools, mtu)
        self.name = "impaired"
        self.pairs = pairs
        self.hosts = string.ascii_lowercase[:2 * pairs]
        self.specs = [there, back]
        self.bridge_wrap = []  # what the program runs behind (chrt, ..)
        self._wire = None  # the third namespace
        self._bridge = None

    def peer(self, side):
        return (side + self.pairs) % (2 * self.pairs)

    def _make(self):
        self._wire = self._add_namespace("wire")
        # A wire sends nothing by itself.
        bed.command("ip", "netns", "exec", self._wire, "sysctl", "-qw",
                "net.ipv6.conf.default.disable_ipv6=1")
        super()._make()

    def _connect(self):
        ends = ["wire0", "wire1"]
        for number, end in enumerate(ends):
            first = number * self.pairs
            self._plug(self.sides[first:first + self.pairs], end)
            self._bring_up(self._wire, end)
        self._bridge = bed.Process(
            ["ip", "netns", "exec", self._wire, *self.bridge_wrap,
             self.tools.impair_bridge, *ends, *self.specs], self.directory)
        bed.await_true(self._bridge_says(1), 10, "the bridge")

    def _plug(self, hosts, end):
        """Joins hosts to that end of the cable: one directly, several by a
        switch, which is the kernel's."""
        if len(hosts) == 1:
            self._add_cable(hosts[0].namespace, self._wire, end)
            return
        at = ["ip", "-n", self._wire, "link"]
        switch = f"switch-{end}"
        bed.command(*at, "add", switch, "mtu", str(self.mtu), "up", "type",
                    "bridge", "mcast_snooping", "0")
        bed.command(*at, "add", f"{end}-up", "type", "veth", "peer", "name",
                    end)
        ports = [f"{end}-{number}" for number in range(len(hosts))]
        for port, host in zip(ports, hosts):
            self._add_cable(host.namespace, self._wire, port)
        for port in (f"{end}-up", *ports):
            self._bring_up(self._wire, port)
            bed.command(*at, "set", port, "master", switch)

    def _bridge_says(self, lines):
        """A condition: it has printed so many lines."""

        def said():
            if not self._bridge.running():
                raise bed.BedError(str(self._bridge.result()))
            return self._bridge.output()[0].count("\n") >= lines

        return said

    def __exit__(self, *unused):
        if self._bridge is not None:
            self._bridge.kill()
            self._bridge = None
        super().__exit__(*unused)

    def bytes_to_hosts(self):
        """What the switch at the far end has passed to each of its hosts.
        With more pairs than one."""
        text = pathlib.Path(f"/proc/{self._bridge.pid}/net/dev").read_text(
            encoding="ascii")
        sent = {line.split(":")[0].strip(): int(line.split()[9])
                for line in text.splitlines() if ":" in line}
        return [sent[f"wire1-{number}"] for number in range(self.pairs)]

    def wire_counts(self):
        """What became of the frames: a dictionary for the way there, and one
        for the way back (transport/impair/counts.h)."""
        lines = self._bridge.output()[0].count("\n")
        self._bridge.signal(signal.SIGUSR1)
        bed.await_true(self._bridge_says(lines + 1), 10, "the bridge's counts")
        counts = json.loads(self._bridge.output()[0].splitlines()[-1])
        return counts["ab"], counts["ba"]
