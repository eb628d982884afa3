# SPDX-License-Identifier: Apache-2.0
"""The host's own interfaces are configured when ovs-vswitchd is done with them, and not as soon as they are there.

The userspace datapath makes taps and sets their MAC addresses some time later, for which it takes them down.
"""

from __future__ import annotations

import os
import signal
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.agent import node_gateway
from ansible_collections.heddle.ovn.plugins.module_utils.agent.internal_ports import (
    await_internal_ports,
    internal_ports,
)
from ansible_collections.heddle.ovn.plugins.module_utils.netlink import kernel
from ansible_collections.heddle.ovn.plugins.module_utils.ovsdb.wait import TimedOut
from ansible_collections.heddle.ovn.plugins.module_utils.render.host.links_and_routes import render_management_ports
from tests.live.conftest import Server, start, stop, wait_for
from tests.live.gateway.external_host import MANIFESTS
from tests.live.netlink.conftest import ip
from tests.pipeline import EVERYWHERE, plan_of, with_gateways

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root")

NAME = f"h{os.getpid()}-ports"


class Vswitchd:
    """An ovs-vswitchd with the userspace datapath in a network namespace."""

    def __init__(self, tools, folder) -> None:
        self.database = Server(tools, folder, "Open_vSwitch", tools.schema("Open_vSwitch"))
        self._vsctl = ("ovs-vsctl", f"--db={self.database.remote}", "--timeout=60")
        self._tools = tools
        self.vsctl("--no-wait", "init")
        options = ("--disable-system", self.database.remote)
        environment = {"OVS_RUNDIR": str(folder)}
        self.process = start(tools, folder, "vswitchd", "ovs-vswitchd", *options, environment=environment)
        self.vsctl("add-br", "br-int", "--", "set", "Bridge", "br-int", "datapath_type=netdev", "fail_mode=secure")

    def vsctl(self, *arguments: str) -> None:
        """Change the database."""
        self._tools.run(*self._vsctl, *arguments)

    def is_asked(self) -> bool:
        """Whether a change waits for the daemon."""
        (row,) = self.database.rows("Open_vSwitch", "next_cfg", "cur_cfg")
        return row["next_cfg"] > row["cur_cfg"]

    def stop(self) -> None:
        """End the daemon and its database."""
        stop(self.process)
        stop(self.database.process)


@pytest.fixture
def vswitchd(tools, folder):
    kernel.create_namespace(NAME, "")
    try:
        with kernel.in_netns(NAME):
            daemon = Vswitchd(tools, folder)
            try:
                yield daemon
            finally:
                daemon.stop()
    finally:
        kernel.remove_namespace(NAME)


def macs() -> dict[str, str]:
    return {name: link["mac"] for name, link in kernel.read_links(None).items()}


def while_stopped(vswitchd: Vswitchd, work):
    """Return what `work` returns, which begins while the daemon is stopped and must not end before it continues."""
    ended = threading.Event()

    def run():
        try:
            with kernel.in_netns(NAME):
                return work()
        finally:
            ended.set()

    vswitchd.process.send_signal(signal.SIGSTOP)
    try:
        with ThreadPoolExecutor(1) as threads:
            result = threads.submit(run)
            wait_for(lambda: ended.is_set() or vswitchd.is_asked(), "the question for the daemon")
            was_early = ended.is_set()
            vswitchd.process.send_signal(signal.SIGCONT)
            found = result.result(120)
    finally:
        vswitchd.process.send_signal(signal.SIGCONT)
    assert not was_early
    return found


def test_management_ports_have_their_macs_when_they_are_configured(vswitchd, monkeypatch):
    monkeypatch.setattr(node_gateway, "VSWITCH_REMOTE", vswitchd.database.remote)
    plan = plan_of(MANIFESTS, hosts=with_gateways("shared"), settings=EVERYWHERE)
    wanted = internal_ports(render_management_ports(plan, "node1"))
    assert wanted

    def work():
        return node_gateway._management_ports(plan, "node1", "test:gateway", write=True)

    outcome, absent = while_stopped(vswitchd, work)
    assert outcome.changed
    assert not absent
    assert wanted.items() <= macs().items()
    outcome, absent = work()
    assert not outcome.changed
    assert not absent
    assert not vswitchd.is_asked()


def test_another_mac_is_one_that_open_vswitch_has_still_to_change(vswitchd):
    vswitchd.vsctl("add-port", "br-int", "mp1", "--", "set", "Interface", "mp1", "type=internal",
                   'mac="0a:58:64:41:00:02"')  # fmt: skip
    wanted = {"mp1": "0a:58:64:41:00:02"}

    def work():
        ip("link", "set", "mp1", "address", "0a:58:64:41:00:99")
        with vswitchd.database.client() as client:
            return await_internal_ports(client, wanted, None)

    assert while_stopped(vswitchd, work) == {}
    assert wanted.items() <= macs().items()


def test_a_port_that_cannot_be_made_is_reported_at_once_with_the_reason(vswitchd):
    mac = "0a:58:64:41:00:02"
    for name, kind in (("made", "internal"), ("refused", "no-such-type")):
        vswitchd.vsctl("--no-wait", "add-port", "br-int", name, "--", "set", "Interface", name, f"type={kind}",
                       f'mac="{mac}"')  # fmt: skip
    with vswitchd.database.client() as client:
        reasons = await_internal_ports(client, dict.fromkeys(("made", "refused", "missing"), mac), None)
    assert sorted(reasons) == ["missing", "refused"]
    assert "could not open network device refused" in reasons["refused"]
    assert "did not create it (no reason given)" in reasons["missing"]


def test_a_daemon_that_does_nothing_is_an_error(vswitchd):
    stop(vswitchd.process)
    with vswitchd.database.client() as client, pytest.raises(TimedOut, match="ovs-vswitchd has not processed"):
        await_internal_ports(client, {"mp1": "0a:58:64:41:00:02"}, None, timeout=0)
