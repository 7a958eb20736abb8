"""Two hosts with routers between them."""

import socket

import bed
import rocev2


class RoutedBed(bed.Bed):
    """Two hosts in two networks, and between them two routers, each with an
    address in both. The kernels have addresses of their own in the same
    networks, and a default route by the first router:

        10.1.0.1     RNIC                    RNIC     10.2.0.1
        10.1.0.101   host --+-- router .254 --+-- host    10.2.0.101
                            +-- router .253 --+
    IPv6 has fd01:: and fd02:: with the same last numbers. `mtu` is that of the
    first network, `far_mtu` that of the second. Needs root."""

    interface = "u0"
    name = "routed"

    def __init__(self, tools, mtu=1500, far_mtu=None):
        super().__init__(tools)
        self.mtus = (mtu, far_mtu or mtu)
        self.routers = []
        # For `--route`; without routes here, the kernel's table is used.
        self.routes = ([], [])

    def _make(self):
        hosts = [self._add_namespace(suffix) for suffix in "ab"]
        self.routers = [self._add_namespace(suffix) for suffix in "rs"]
        for n, (host, mtu) in enumerate(zip(hosts, self.mtus), 1):
            for router in self.routers:
                for setting in ("net.ipv4.ip_forward",
                                "net.ipv6.conf.all.forwarding"):
                    bed.command("ip", "netns", "exec", router, "sysctl", "-qw",
                                f"{setting}=1")
            first, second = self.routers
            near = f"r{n}"
            bed.command("ip", "-n", host, "link", "add", self.interface,
                        "type", "veth", "peer", "name", near, "netns", first)
            self._bring_up(host, self.interface, max(self.mtus))
            self._bring_up(first, near, mtu)
            bed.command("ip", "-n", first, "link", "add", "link", near, "name",
                        f"s{n}", "netns", second, "type", "macvlan", "mode",
                        "bridge")
            self._bring_up(second, f"s{n}", mtu)
            self._add_addresses(host, self.interface, n, 101)
            self._add_addresses(first, near, n, 254)
            self._add_addresses(second, f"s{n}", n, 253)
            self.sides.append(bed.Side(
                f"iface:{self.interface}",
                [f"10.{n}.0.1/24", f"fd0{n}::1/64"], host, f"10.{n}.0.101"))
        for n in (0, 1):
            self.set_kernel_route(n, 254)

    @staticmethod
    def _bring_up(namespace, interface, mtu):
        bed.command("ip", "netns", "exec", namespace, "ethtool", "-K",
                    interface, "tx", "off", "tso", "off", "gso", "off", "gro",
                    "off")
        bed.command("ip", "-n", namespace, "link", "set", interface, "mtu",
                    str(mtu), "up")

    @staticmethod
    def _add_addresses(namespace, interface, network, number):
        at = ["ip", "-n", namespace, "addr", "add"]
        bed.command(*at, f"10.{network}.0.{number}/24", "dev", interface)
        bed.command(*at, f"fd0{network}::{number}/64", "dev", interface,
                    "nodad")

    def set_kernel_route(self, side, router):
        """The kernel's default route, of both families."""
        at = ["ip", "-n", self.sides[side].namespace]
        bed.command(*at, "route", "replace", "default", "via",
                    f"10.{side + 1}.0.{router}")
        bed.command(*at, "-6", "route", "replace", "default", "via",
                    f"fd0{side + 1}::{router}")

    def stop_router(self, number):
        """It forwards nothing from now on."""
        for setting in ("net.ipv4.ip_forward", "net.ipv6.conf.all.forwarding"):
            bed.command("ip", "netns", "exec", self.routers[number], "sysctl",
                        "-qw", f"{setting}=0")

    def run_options(self, side):
        options = super().run_options(side)
        for route in self.routes[side]:
            options += ["--route", route]
        return options

    def capture(self):
        """A rocev2.Capture of what arrives at the hosts."""
        return rocev2.Capture([
            (self.open_socket(side, socket.AF_PACKET, socket.SOCK_RAW),
             self.interface) for side in (0, 1)])
