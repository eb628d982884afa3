# SPDX-License-Identifier: Apache-2.0
"""Addresses move between hosts by playbook: an external host never finds one on two hosts at a time.

Those of a load balancer, to which it connects, and those of an EgressIP, with which workloads connect to it.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.lab.address_moves import assignable, begin_connecting, expect_move, macs
from tests.lab.conftest import MANIFESTS, NODES, Lab, Run
from tests.lab.disturbed_run import disturbed, kill_run
from tests.lab.green_network import GREEN
from tests.lab.remote_program import RemoteProgram
from tests.lab.tenants import TENANTS, egress_ip
from tests.lab.test_coil import own

__all__ = ["own"]
NETWORK = (
    GREEN
    + """---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: green}
spec:
  type: LoadBalancer
  externalTrafficPolicy: Local
  ipFamilyPolicy: PreferDualStack
  selector: {app: web}
  ports: [{port: 80, targetPort: 8080}]
"""
)
WORKLOAD = """---
apiVersion: heddle.dev/v1
kind: Workload
metadata: {{name: web-{node}, namespace: green, labels: {{app: web}}}}
spec: {{node: {node}, ready: {ready}}}
"""
HOSTS = ("node1", "node3")
UNIT = "heddle-test-web"
SERVE = (
    "import socket; s = socket.create_server(('::', 8080), family=socket.AF_INET6, dualstack_ipv6=True, backlog=128)\n"
    "while True: s.accept()"
)
pytestmark = pytest.mark.long


def manifests(ready: str) -> str:
    return NETWORK + "".join(WORKLOAD.format(node=node, ready=str(node == ready).lower()) for node in HOSTS)


def holder(lab) -> tuple[dict[str, str], dict]:
    """Return the host of each address of the Service, and the plan."""
    plan = lab.plan()
    service = plan["services"]["green_net"]["green/web"]
    return {one["address"]: one["node"] for one in service["external"]["load_balancer"]}, plan


def test_an_address_is_on_one_host_at_a_time(lab, own, tmp_path):
    directory = shutil.copytree(MANIFESTS, tmp_path / "manifests")
    (directory / "green.yml").write_text(manifests("node1"))
    lab.play("networks.yml", manifests=directory)
    try:
        for node in HOSTS:
            path = f"--property=NetworkNamespacePath=/run/netns/green_web-{node}"
            lab.ssh(node, "systemd-run", "--quiet", f"--unit={UNIT}", path, "python3", "-c", f'"{SERVE}"')
        before, plan = holder(lab)
        assert set(before.values()) == {"node1"}
        assert len(before) == 2
        owns = [f"{own['prefix']}.2.20", f"{own['prefix6']}:2::20"]
        watch = RemoteProgram(lab, "external", "address_watch.py", "to", "eth2", owns, {key: [80] for key in before})
        assert watch.line() == "ready"
        (directory / "green.yml").write_text(manifests("node3"))
        lab.play("networks.yml", manifests=directory)
        assert set(holder(lab)[0].values()) == {"node3"}
        expect_move(watch, macs(plan), dict.fromkeys(before, HOSTS))
    finally:
        for node in HOSTS:
            lab.try_ssh(node, "systemctl", "stop", UNIT)
        lab.play("networks.yml")


LEAVING = """---
apiVersion: heddle.dev/v1
kind: Workload
metadata: {{name: on-{node}, namespace: {namespace}}}
spec: {{node: {node}}}
"""
FIRST_PORT, FIRST_ADDRESS = 7700, 120


def egress_holders(lab, nodes: Iterable[str] = NODES) -> tuple[dict[str, str], dict]:
    """Return the host of each address of the tenants' EgressIPs, and the plan, as these nodes have it."""
    plan = lab.plan(nodes)
    entries = [plan["egress_ips"][name] for name in TENANTS]
    return {one["address"]: one["node"] for entry in entries for one in entry["addresses"]}, plan


@dataclass(frozen=True)
class Leaving:
    """Workloads of all tenants on all hosts connect to the external host, all with addresses of EgressIPs."""

    lab: Lab
    manifests: Path
    inventories: Path
    external: list[str]
    # Address -> host -> the port that this host's workload connects to.
    ports: dict[str, dict[str, int]]

    def play(self, *hosts: str, success: bool = True) -> Run:
        """Run networks.yml with these hosts for egress addresses."""
        return self.lab.play(
            "networks.yml", *assignable(self.inventories, *hosts), manifests=self.manifests, success=success
        )

    def cut_off(self, task: str, *hosts: str) -> None:
        """Run it, and kill all of it when it begins a task."""
        arguments = [*assignable(self.inventories, *hosts), "-e", f"heddle_manifests={self.manifests}"]
        disturbed("networks.yml", task, kill_run, *arguments)

    def watch(self, *nodes: str) -> RemoteProgram:
        """Watch all addresses, and the connections of workloads of these nodes."""
        wanted = {address: [ports[node] for node in nodes] for address, ports in self.ports.items()}
        watch = RemoteProgram(self.lab, "external", "address_watch.py", "from", "eth2", self.external, wanted)
        assert watch.line() == "ready"
        return watch

    def ways(
        self, before: dict[str, str], former: str, new: str, nodes: Iterable[str] = NODES
    ) -> dict[str, tuple[str, ...]]:
        """The hosts of each address when what one had is at another one, by the plan of these nodes."""
        after = {address: new if node == former else node for address, node in before.items()}
        assert egress_holders(self.lab, nodes)[0] == after
        return {address: tuple(dict.fromkeys((before[address], after[address]))) for address in before}


@pytest.fixture(scope="module")
def leaving(lab, own, tmp_path_factory) -> Iterator[Leaving]:
    """On Layer2, Layer3 and the default network; node1 and node2 have one address of each EgressIP."""
    path = tmp_path_factory.mktemp("leaving")
    directory = shutil.copytree(MANIFESTS, path / "manifests")

    text, watched = "", {}
    external = [f"{own['prefix']}.2.20", f"{own['prefix6']}:2::20"]
    for number, (namespace, tenant) in enumerate(TENANTS.items()):
        last = FIRST_ADDRESS + number
        addresses = f"{own['prefix']}.2.{last}", f"{own['prefix6']}:2::{last}"
        text += tenant + egress_ip(namespace, *addresses)
        text += "".join(LEAVING.format(namespace=namespace, node=node) for node in NODES)
        ports = {node: FIRST_PORT + 10 * number + place for place, node in enumerate(NODES)}
        watched |= dict.fromkeys(addresses, ports)
    (directory / "tenants.yml").write_text(text)
    found = Leaving(lab, directory, path, external, watched)
    found.play("node1", "node2")
    try:
        before, _plan = egress_holders(lab)
        # One address of an EgressIP on each of two hosts.
        assert before.keys() == watched.keys()
        assert set(before.values()) == {"node1", "node2"}
        for node in NODES:
            connect(found, node)
        yield found
    finally:
        for node in NODES:
            lab.try_ssh(node, "systemctl", "stop", *(f"{UNIT}-{namespace}" for namespace in TENANTS))
        lab.play("networks.yml")


def connect(leaving: Leaving, node: str) -> None:
    """Let the workloads of a host connect."""
    for number, namespace in enumerate(TENANTS):
        port = FIRST_PORT + 10 * number + NODES.index(node)
        begin_connecting(leaving.lab, node, f"{namespace}_on-{node}", f"{UNIT}-{namespace}", port, *leaving.external)


def test_workloads_leave_with_an_egress_address_by_one_host_at_a_time(lab, leaving):
    """Workloads on the former host, on the new one, and on another one."""
    # Only what its host may not hold any more moves: the addresses of one family, then those of the other one.
    for hosts, (former, new) in (
        (("node1", "node3"), ("node2", "node3")),
        (("node3", "node2"), ("node1", "node2")),
    ):
        before, plan = egress_holders(lab)
        watch = leaving.watch(*NODES)
        run = leaving.play(*hosts)
        expect_move(watch, macs(plan), leaving.ways(before, former, new))
        # What a host does before the playbook calls it is reported, too.
        assert run.changed[new]
    again = leaving.play(*hosts).changed
    assert {node: again[node] for node in NODES} == dict.fromkeys(NODES, 0)


@pytest.mark.parametrize(
    "task",
    ["Prepare for addresses", "Give up addresses", "Take the addresses", "Apply the plan to the hosts"],
)
def test_a_run_that_was_killed_during_a_move_is_completed_by_the_next_one(lab, leaving, task):
    """Whatever the hosts have done by then or do afterwards: no address is on two hosts, and connections work."""
    before, plan = egress_holders(lab)
    former, new = sorted(set(before.values()))[0], next(node for node in NODES if node not in before.values())
    hosts = [node for node in NODES if node != former]
    watch = leaving.watch(*NODES)
    leaving.cut_off(task, *hosts)
    leaving.play(*hosts)
    expect_move(watch, macs(plan), leaving.ways(before, former, new))
    again = leaving.play(*hosts).changed
    assert {node: again[node] for node in NODES} == dict.fromkeys(NODES, 0)


def test_a_run_whose_limit_leaves_out_the_host_of_an_address_changes_nothing(lab, leaving):
    leaving.play("node1", "node3")
    before, plan = egress_holders(lab)
    state, watch = lab.dump(), leaving.watch(*NODES)
    words = (*assignable(leaving.inventories, "node1", "node2"), "--limit", "node1,node2,localhost")
    refused = lab.play("networks.yml", *words, manifests=leaving.manifests, success=False)
    assert "the limit of this run leaves out node3, and addresses move" in re.sub(r"\s+", " ", refused.output)
    assert egress_holders(lab) == (before, plan)
    assert lab.dump() == state
    expect_move(watch, macs(plan), {address: (node,) for address, node in before.items()})


# Nothing below the directory of the plan can be written, so that a host can take no step.
PROTECT = "mount --bind /var/lib/heddle /var/lib/heddle && mount -o remount,bind,ro /var/lib/heddle"


def test_an_address_stays_on_a_host_that_cannot_give_it_up_until_the_next_run(lab, leaving):
    """It is on no other host, all other networks and hosts go on, and the next run moves it."""
    # The state database is on node1, so another host has the addresses before.
    leaving.play("node1", "node3")
    before, plan = egress_holders(lab)
    assert "node3" in before.values()
    watch = leaving.watch(*NODES)
    lab.ssh("node3", PROTECT)
    try:
        run = leaving.play("node1", "node2", success=False)
    finally:
        lab.ssh("node3", "umount", "--lazy", "/var/lib/heddle")
    output = re.sub(r"\s+", " ", run.output)
    assert "node3 has not given up" in output
    assert "run this playbook once more; it completes" in output
    assert not run.unreachable
    assert egress_holders(lab)[0] == before
    expect_move(watch, macs(plan), {address: (node,) for address, node in before.items()})
    watch = leaving.watch(*NODES)
    leaving.play("node1", "node2")
    expect_move(watch, macs(plan), leaving.ways(before, "node3", "node2"))
    again = leaving.play("node1", "node2").changed
    assert {node: again[node] for node in NODES} == dict.fromkeys(NODES, 0)


def test_addresses_of_a_killed_host_move_to_another_one(lab, leaving):
    """It cannot say that it has given them up; the others take the steps as if it had."""
    # The state database is on node1, so another host has the addresses before.
    leaving.play("node1", "node3")
    before, plan = egress_holders(lab)
    watch = leaving.watch("node1", "node2")
    lab.verb("kill", "node3")
    try:
        run = leaving.play("node1", "node2", success=False)
        assert run.unreachable == ["node3"], run.output[-6000:]
        ways = leaving.ways(before, "node3", "node2", ["node1", "node2"])
        expect_move(watch, macs(plan), ways)
    finally:
        lab.verb("start", "node3")
    # It has the plan of before until a run reaches it (docs/egress.md).
    leaving.play("node1", "node2")
    connect(leaving, "node3")
    before, plan = egress_holders(lab)
    watch = leaving.watch(*NODES)
    expect_move(watch, macs(plan), {address: (node,) for address, node in before.items()})
    again = leaving.play("node1", "node2").changed
    assert {node: again[node] for node in NODES} == dict.fromkeys(NODES, 0)
