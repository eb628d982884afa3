# SPDX-License-Identifier: Apache-2.0
"""A real ovs-vswitchd without a datapath in the kernel; it needs no root. Its programs are run where it runs."""

from __future__ import annotations

import subprocess

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.common.errors import ProgramError
from ansible_collections.heddle.ovn.plugins.module_utils.openflow.switch import Switch
from tests.live.conftest import start, stop, wait_for

PATCH = "patch-provider_node1-to-br-int"
OTHER_PATCH = "patch-provider.red.net_node1-to-br-int"


class Vswitchd:
    """Open vSwitch with the bridges `br-ex` (port `eth0` and two patch ports) and `br-int`."""

    def __init__(self, tools, folder, database) -> None:
        self.tools, self.folder, self.database = tools, folder, database
        self.process = None
        self.vsctl("init")
        self.start()
        self.vsctl("add-br", "br-int", "--", "add-br", "br-ex", "--", "add-port", "br-ex", "eth0")
        self.patch(PATCH)
        self.patch(OTHER_PATCH)

    def start(self) -> None:
        """Start ovs-vswitchd and wait until it answers."""
        options = ("--enable-dummy=override", "--disable-system", self.database.remote)
        self.process = start(self.tools, self.folder, "vswitchd", "ovs-vswitchd", *options)
        wait_for(self.answers, "ovs-vswitchd", self.process)

    def answers(self) -> bool:
        """Whether ovs-vswitchd takes commands; that one is among the last that it has after it began to listen."""
        try:
            self.run(["ovs-appctl", "ofproto/list"])
        except ProgramError:
            return False
        return True

    def restart(self) -> None:
        """As when its service is restarted: everything but the database is lost."""
        stop(self.process)
        self.start()
        wait_for(lambda: "br-ex" in self.run(["ovs-appctl", "ofproto/list"]), "br-ex", self.process)

    def vsctl(self, *arguments: str) -> None:
        """Change the database, and wait until ovs-vswitchd has applied it when it runs."""
        wait = [] if self.process else ["--no-wait"]
        self.tools.run("ovs-vsctl", f"--db={self.database.remote}", "--timeout=120", *wait, *arguments)

    def patch(self, name: str) -> None:
        """Make a patch port to br-int, as ovn-controller does."""
        peer = f"peer-of-{name}"
        for bridge, own, other in (("br-ex", name, peer), ("br-int", peer, name)):
            options = ("type=patch", f"options:peer={other}")
            self.vsctl("add-port", bridge, own, "--", "set", "Interface", own, *options)

    def run(self, argv: list[str], text: str = "") -> str:
        """Run a program of Open vSwitch against this one."""
        name, *arguments = argv
        if name == "ovs-appctl":
            arguments = ["-t", str(self.folder / "vswitchd.ctl"), *arguments]
        done = subprocess.run(
            self.tools.command(name, *arguments),
            input=text, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        if done.returncode:
            raise ProgramError(name, done.stderr)
        return done.stdout

    def ofctl(self, *arguments: str) -> str:
        """Run ovs-ofctl, as a foreign writer."""
        return self.run(["ovs-ofctl", "-O", "OpenFlow14", "--no-names", *arguments])


@pytest.fixture
def vswitchd(tools, folder, vswitch, monkeypatch):
    """A running Open vSwitch; its programs look for it in the folder."""
    monkeypatch.setenv("OVS_RUNDIR", str(folder))
    daemon = Vswitchd(tools, folder, vswitch)
    yield daemon
    stop(daemon.process)


@pytest.fixture
def switch(vswitchd, vswitch):
    """The same as the engine sees it."""
    with vswitch.client() as client:
        yield Switch(client, vswitchd.run)
