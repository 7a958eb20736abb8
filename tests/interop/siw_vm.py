"""The machine of vm.py with siw in place of rxe: iWARP over the guest's TCP.

siw's parameters and the guest's TCP can be changed while it runs, for one
test: reset() restores them. Both ends of a connection may be in the guest,
which shows what siw does to itself, without our device.
"""

import os
import pathlib
import stat
import subprocess

import bed
import image
import siw_module
import vm

PARAMETERS = "/sys/module/siw/parameters"


class SiwLab(vm.Lab):
    """The bed of all tests with siw."""

    peer = "siw"
    # Not 10.77.0.0/24, the harness's own connections. IPv6 is not treated.
    packets = "ip saddr 10.1.0.0/24 meta l4proto tcp"
    verbs_program = {"program": ["/guest/verbs_peer", "-"]}

    def __init__(self, tools, say):
        super().__init__(tools, say)
        self.fault = None  # of our wire: docs/faults.md
        self._changed = {}  # file in the guest: its value before
        self._lacks = None

    def lacks(self):
        """Why our RNIC cannot be one of the ends yet; "" if it can."""
        if self._lacks is None:
            said = subprocess.run([self.tools.urnic, "run", "--help"],
                                  capture_output=True, text=True, check=False)
            self._lacks = ("" if "--transport" in said.stdout else
                           "`urnic run` has no --transport")
        return self._lacks

    def run_options(self, side):
        options = [*super().run_options(side), "--transport", "iwarp"]
        return [*options, "--fault", self.fault] if self.fault else options

    def _build_image(self):
        files = super()._build_image()
        files.archives.append(siw_module.build(files, self._say))
        return files

    def _guest_archive(self):
        cpio = image.Cpio()
        path = pathlib.Path(self.tools.verbs_peer)
        cpio.file("guest/verbs_peer", path.read_bytes(), stat.S_IRWXU)
        return super()._guest_archive() + cpio.bytes()

    def _await_device(self):
        def active():
            said = self.run_guest("rdma link show siw0/1")
            return "state ACTIVE" in said.out

        bed.await_true(active, 60, "siw's port")

    def route_to_guest(self):
        """For programs whose kernel TCP goes to the address of their RDMA."""
        self._ip("route", "replace", "10.1.0.2/32", "dev", self.interface)

    # Changes that end with the test.

    def set_parameters(self, **values):
        """Of siw: siw_module.py has their names."""
        self._set({f"{PARAMETERS}/{name}": value
                   for name, value in values.items()})

    def set_tcp(self, **values):
        """Of the guest's TCP: its settings, without "tcp_" before them."""
        self._set({f"/proc/sys/net/ipv4/tcp_{name}": value
                   for name, value in values.items()})

    def _set(self, values):
        old = self.run_guest("cat " + " ".join(values)).out.splitlines()
        for path, value in zip(values, old):
            self._changed.setdefault(path, value)
        self._write(values)

    def _write(self, values):
        script = "\n".join(["set -e"] + [f"echo '{value}' > {path}"
                                         for path, value in values.items()])
        result = self.run_guest(script)
        if result.status != 0:
            raise bed.BedError(str(result))

    def revive(self):
        last = super().revive()
        if last:
            self._changed = {}  # it has been booted
        return last

    def reset(self):
        super().reset()
        self.fault = None
        if self._changed and self.qemu.running():
            changed, self._changed = self._changed, {}
            self._write(changed)
