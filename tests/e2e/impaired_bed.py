"""Two hosts joined by an impaired cable."""

import json
import signal

import bed


class ImpairedBed(bed.VethBed):
    """Two hosts joined by an impaired cable, for the RNICs and the kernels
    alike: the hosts' interfaces end in a third namespace, where a program
    joins them (impair_bridge.cc). `there` says what is wrong on the way from
    side 0 to side 1, `back` on the other, in the words of docs/faults.md."""

    def __init__(self, tools, there="", back="", mtu=9000):
        super().__init__(tools, mtu)
        self.name = "impaired"
        self.specs = [there, back]
        self.bridge_wrap = []  # what the program runs behind (chrt, ..)
        self._wire = None  # the third namespace
        self._bridge = None

    def _make(self):
        self._wire = self._add_namespace("wire")
        # A wire sends nothing by itself.
        bed.command("ip", "netns", "exec", self._wire, "sysctl", "-qw",
                "net.ipv6.conf.default.disable_ipv6=1")
        super()._make()

    def _connect(self):
        ends = ["wire0", "wire1"]
        for side, end in zip(self.sides, ends):
            self._add_cable(side.namespace, self._wire, end)
            self._bring_up(self._wire, end)
        self._bridge = bed.Process(
            ["ip", "netns", "exec", self._wire, *self.bridge_wrap,
             self.tools.impair_bridge, *ends, *self.specs], self.directory)
        bed.await_true(self._bridge_says(1), 10, "the bridge")

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

    def wire_counts(self):
        """What became of the frames: a dictionary for the way there, and one
        for the way back (transport/impair/counts.h)."""
        lines = self._bridge.output()[0].count("\n")
        self._bridge.signal(signal.SIGUSR1)
        bed.await_true(self._bridge_says(lines + 1), 10, "the bridge's counts")
        counts = json.loads(self._bridge.output()[0].splitlines()[-1])
        return counts["ab"], counts["ba"]
