# SPDX-License-Identifier: Apache-2.0
"""A host restores its desired state: after a reboot, and after each daemon was restarted or killed."""

from __future__ import annotations

import json
import time

import pytest

from tests.lab.conftest import NODES, PATIENCE
from tests.lab.test_gateways import unwatched

__all__ = ["unwatched"]

NODE = "node2"
PID_FILES = {
    "ovsdb-server": "/run/openvswitch/ovsdb-server.pid",
    "ovs-vswitchd": "/run/openvswitch/ovs-vswitchd.pid",
    "ovn-controller": "/run/ovn/ovn-controller.pid",
    "ovn-northd": "/run/ovn/ovn-northd.pid",
    "ovn-ovsdb-server-sb": "/run/ovn/ovnsb_db.pid",
}


def process(lab, pid_file: str) -> str:
    """Return the process id in a file, "" while a daemon restarts."""
    done = lab.try_ssh(NODE, "cat", pid_file)
    return done.stdout.strip() if done.returncode == 0 else ""


def eventually(condition, what: str):
    """Return the condition's value once it holds."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        found = condition()
        if found:
            return found
        time.sleep(0.2)
    pytest.fail(f"{what}: not within {PATIENCE} s")


def is_as_planned(lab) -> bool:
    done = lab.try_ssh(NODE, "heddle-host", "status", "--json")
    return done.returncode == 0 and json.loads(done.stdout)["clean"]


@pytest.mark.parametrize("node", NODES)
def test_the_datapath_has_its_priority_among_all_sessions(lab, node):
    """Without it, containers lose packets on a busy machine whose kernel groups processes by sessions."""
    done = lab.try_ssh(node, "cat", f"/proc/$(cat {PID_FILES['ovs-vswitchd']})/autogroup")
    if done.returncode:
        pytest.skip("this kernel does not group processes by sessions")
    if lab.try_ssh(node, "systemd-detect-virt", "--container").returncode:
        pytest.skip("a machine has its processors for itself; containers share those of this one")
    assert done.stdout.endswith(" nice -10\n")


def audit_is_clean(lab) -> None:
    eventually(lambda: is_as_planned(lab), f"{NODE} is as planned")
    lab.play("audit.yml")


@pytest.mark.parametrize("how", [pytest.param("restart", marks=pytest.mark.long), "TERM", "KILL"])
def test_state_is_restored_after_daemon_restart(lab, how):
    """The host compares itself with the plan after each daemon, and the playbook after all of them."""
    for daemon, pid_file in PID_FILES.items():
        before = eventually(lambda file=pid_file: process(lab, file), f"{daemon} runs")
        command = ["systemctl", "restart", daemon] if how == "restart" else ["kill", f"-{how}", before]
        lab.ssh(NODE, *command)
        eventually(lambda file=pid_file, old=before: process(lab, file) not in ("", old), f"{daemon} runs again")
        eventually(lambda: is_as_planned(lab), f"{NODE} is as planned after {how} of {daemon}")
    audit_is_clean(lab)


@pytest.mark.parametrize("daemon", ["ovn-northd", "ovn-ovsdb-server-sb", "ovn-controller"])
def test_daemons_with_many_objects_have_their_allocator(lab, daemon):
    """Debian's units start them by a shell script, and a library that is missing is only a line in the journal."""
    running = process(lab, PID_FILES[daemon])
    assert "libjemalloc" in lab.ssh(NODE, "cat", f"/proc/{running}/maps")


def test_northd_has_its_threads(lab):
    """The option comes by an environment variable, which another file of the unit may replace."""
    assert lab.ssh(NODE, "ovn-appctl", "-t", "ovn-northd", "parallel-build/get-n-threads").strip() == "2"


def test_the_daemon_of_the_mesh_stops_and_starts_with_the_service_of_the_host(lab):
    """As it does when that is restarted; else a host whose service was stopped has no mesh until the next run."""

    def is_active(unit: str) -> bool:
        return lab.try_ssh(NODE, "systemctl", "is-active", "--quiet", unit).returncode == 0

    eventually(lambda: is_active("heddle-mesh"), "heddle-mesh runs")
    lab.ssh(NODE, "systemctl", "stop", "heddle-host")
    eventually(lambda: not is_active("heddle-mesh"), "heddle-mesh is stopped")
    lab.ssh(NODE, "systemctl", "start", "heddle-host")
    eventually(lambda: is_active("heddle-mesh"), "heddle-mesh runs again")
    audit_is_clean(lab)


def test_deleted_bridge_is_restored_with_its_ports(lab):
    """ovn-controller makes it anew by itself, but empty."""
    lab.ssh(NODE, "ovs-vsctl", "del-br", "br-int")
    audit_is_clean(lab)


LOSE_ID = (
    "rm -f /etc/openvswitch/system-id.conf && systemctl restart openvswitch-switch && systemctl restart ovn-controller"
)
SYSTEM_ID = ("ovs-vsctl", "get", "Open_vSwitch", ".", "external_ids:system-id")


def test_a_lost_system_id_is_restored_by_the_host_itself(lab):
    before = lab.ssh(NODE, *SYSTEM_ID)
    lab.ssh(NODE, LOSE_ID)
    audit_is_clean(lab)
    assert lab.ssh(NODE, *SYSTEM_ID) == before


@pytest.mark.long
def test_a_lost_system_id_is_restored_by_the_playbook(lab):
    before = lab.ssh(NODE, *SYSTEM_ID)
    lab.ssh(NODE, "systemctl", "stop", "heddle-host")
    try:
        lab.ssh(NODE, LOSE_ID)
        assert lab.ssh(NODE, *SYSTEM_ID) != before
        assert lab.play("audit.yml", success=False).code == 2
        repaired = lab.play("site.yml")
        assert {node for node, changed in repaired.changed.items() if changed} == {NODE}
    finally:
        lab.ssh(NODE, "systemctl", "start", "heddle-host")
    assert lab.ssh(NODE, *SYSTEM_ID) == before
    assert lab.ssh(NODE, "cat", "/etc/openvswitch/system-id.conf").strip() == before.strip().strip('"')
    audit_is_clean(lab)
    lab.play("verify.yml")


@pytest.mark.long
def test_install_playbook_starts_stopped_databases(lab):
    lab.ssh(NODE, "systemctl", "stop", "ovn-ovsdb-server-nb", "ovn-ovsdb-server-sb")
    assert not is_as_planned(lab)
    assert lab.play("install.yml", "--check").changed[NODE] > 0
    assert not is_as_planned(lab)
    installed = lab.play("install.yml")
    assert {node for node, changed in installed.changed.items() if changed} == {NODE}
    audit_is_clean(lab)


def test_state_is_restored_after_reboot(lab):
    lab.verb("reboot", NODE)
    audit_is_clean(lab)
    lab.play("verify.yml")
    assert set(lab.play("site.yml").changed.values()) == {0}


@pytest.mark.usefixtures("unwatched")
def test_heddle_host_shows_and_repairs_drift(lab):
    """Without the service of the host, which repairs all of the gateway when something else happens meanwhile."""
    lab.ssh(NODE, "ip", "neighbour", "delete", "169.254.0.4", "dev", "br-ex")
    shown = lab.try_ssh(NODE, "heddle-host", "diff")
    assert shown.returncode == 1
    assert "169.254.0.4" in shown.stdout
    assert "169.254.0.4" in lab.ssh(NODE, "heddle-host", "apply")
    assert lab.try_ssh(NODE, "heddle-host", "diff").returncode == 0
    assert "heddle-host does not run: systemctl start heddle-host" in lab.try_ssh(NODE, "heddle-host", "status").stdout


def test_address_that_returns_to_the_uplink_is_migrated_again(lab):
    """As ifupdown or systemd-networkd do when they are restarted: the route follows the address at once.

    A route that is added while the address is taken off the uplink again goes with it: the kernel removes all routes of
    a device with its last address. So the service of the host stands still until both are there.
    """
    held = lab.ssh(NODE, "ip -o -4 address show dev br-ex scope global | grep -v 169.254").split()[3]
    uplink = f"ip address add {held} dev eth2 && ip route add 203.0.113.0/24 dev eth2"
    still, going_on = (f"systemctl kill --signal={number} heddle-host" for number in ("STOP", "CONT"))
    try:
        lab.ssh(NODE, f"{still}; ip address delete {held} dev br-ex && {uplink}; code=$?; {going_on}; exit $code")
        eventually(lambda: "dev br-ex" in lab.ssh(NODE, "ip route show 203.0.113.0/24"), "the route is on the bridge")
        eventually(lambda: is_as_planned(lab), f"{NODE} is as planned")
        assert held in lab.ssh(NODE, "ip address show dev br-ex")
        assert held not in lab.ssh(NODE, "ip address show dev eth2")
    finally:
        lab.ssh(NODE, "ip route delete 203.0.113.0/24")


def test_damaged_plan_is_reported_until_the_playbook_replaces_it(lab):
    plan = "/var/lib/heddle/plan.json"
    lab.ssh(NODE, f"echo '{{' > {plan} && systemctl restart --no-block heddle-host")
    status = ("systemctl", "show", "-p", "StatusText", "heddle-host")
    eventually(lambda: f"no plan in {plan}" in lab.ssh(NODE, *status), "the service reports it")
    assert lab.try_ssh(NODE, "heddle-host", "status").returncode == 2
    lab.play("networks.yml")
    eventually(lambda: "is as planned" in lab.ssh(NODE, *status), "the service is content")
    audit_is_clean(lab)
