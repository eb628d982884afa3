# SPDX-License-Identifier: Apache-2.0
"""What drivers have in common whose hosts are processes with interfaces on the lab's own switch (vm, uml)."""

import contextlib
import sys

from lab import ports, processes, switch
from lab.config import HOSTS, PROJECT


class Switched:
    """Hosts on the lab's switch, with ssh behind a port of this machine (`settings["ports"]`, by name) each."""

    def __init__(self, lab, network, image, runtime, state):
        self.lab, self.network, self.image, self.runtime = lab, network, image, runtime
        # What is decided once; a lab keeps it as long as it exists.
        self.settings = state.setdefault(self.name, {})

    def endpoints(self):
        return {name: ["HostName 127.0.0.1", f"Port {port}"] for name, port in self.settings["ports"].items()}

    def choose_ports(self, hosts):
        """Choose the ports of hosts whose ssh is behind no port now."""
        ports.choose(self.settings.setdefault("ports", {}), [host.name for host in hosts])

    def connected(self):
        return processes.running(self.runtime / "switch.pid") is not None

    def connect(self):
        """Start the switch between the hosts."""
        if self.connected():
            return
        argv = [sys.executable, "-m", "lab.switch", "--directory", str(self.runtime)]
        argv += [word for host in HOSTS for word in ("--host", host.name)]
        argv += ["--segment", "underlay", "--segment", "provider"]
        environment = processes.environment(PROJECT)
        processes.start(self.runtime / "switch.pid", argv, self.lab.logs / "switch.log", env=environment)

    def pid_file(self, host):
        return self.runtime / f"{host.name}.pid"

    def _alive(self, host):
        return processes.running(self.pid_file(host)) is not None

    def booting(self, _host):
        """Do nothing: these hosts have booted when ssh answers."""
        return contextlib.nullcontext()

    def partition(self, host, cut):
        switch.order(self.runtime, "cut" if cut else "join", host.name)

    def group(self, host):
        """The cgroup of a host, below the machine's root."""
        return f"heddle-lab-{self.lab.key}/{host.name}"

    def impair(self, loss, blackhole):
        """Lose frames in the switch."""
        switch.order(self.runtime, "loss", str(loss))
        switch.order(self.runtime, "longest", *map(str, blackhole or ("-", "-", 0)))
