# SPDX-License-Identifier: Apache-2.0
"""Which NICs of a host forward because of Heddle: others that forward stay so, and in the end all are as before."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.agent import node_gateway
from ansible_collections.heddle.ovn.plugins.module_utils.agent.nic_forwarding import made_forward, nic_forwarding
from ansible_collections.heddle.ovn.plugins.module_utils.common.change import Outcome
from ansible_collections.heddle.ovn.plugins.module_utils.render.host.firewall import render_firewall
from ansible_collections.heddle.ovn.plugins.module_utils.render.host.links_and_routes import render_host_network
from ansible_collections.heddle.ovn.plugins.module_utils.types.host_network import HostNetwork
from tests.pipeline import labelled, layer2, namespace, plan_of, with_gateways, with_nics, workload

SERVICE = """---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: red}
spec: {type: NodePort, selector: {app: web}, ports: [{port: 80}]}
"""
EGRESS_IP = """---
apiVersion: k8s.ovn.org/v1
kind: EgressIP
metadata: {name: out}
spec: {egressIPs: [203.0.113.100], namespaceSelector: {}}
"""
FORWARDING = "net/ipv4/conf/eth3/forwarding"


def plan_for(*parts: str) -> dict:
    tenant = namespace("red") + layer2("red", "net", "10.0.0.0/24") + workload("red", "a", "node1")
    plain = namespace("plain", primary=False) + workload("plain", "a", "node1")
    hosts = with_nics(with_gateways("shared", families=(4,)))
    hosts["node1"] = labelled({"node1": hosts["node1"]})["node1"]
    return plan_of(tenant + plain + "".join(parts), hosts=hosts)


class Host:
    """Settings of a kernel, and what is done with them in a run."""

    def __init__(self, folder) -> None:
        self._settings, self._record = folder / "sys", str(folder / "run" / "forwarding")
        for name in ("all", "eth3"):
            (self._settings / "net/ipv4/conf" / name).mkdir(parents=True)
            self.write(name, "0")

    def write(self, name: str, value: str) -> None:
        (self._settings / f"net/ipv4/conf/{name}/forwarding").write_text(f"{value}\n")

    def value(self) -> str:
        return (self._settings / FORWARDING).read_text().strip()

    def found(self, plan: dict):
        return nic_forwarding(plan, "node1", self._settings, self._record)

    def guards(self, plan: dict) -> bool:
        firewall = render_firewall(plan, "node1", routing=self.found(plan).routing)
        return any('iifname { "eth3" } meta nfproto ipv4 drop' in chain.rules for chain in firewall.chains)

    def run(self, plan: dict) -> None:
        """As `agent/node_gateway.py`: what is to forward is guarded before it does."""
        self.found(plan).begin()
        forwarding = self.found(plan)
        assert not forwarding.begins or self.guards(plan)
        for one in forwarding.wanted(render_host_network(plan, "node1")).sysctls:
            if one.name == FORWARDING:
                (self._settings / one.name).write_text(one.value)
        self.found(plan).end()


@pytest.fixture
def host(tmp_path):
    return Host(tmp_path)


@pytest.mark.parametrize("cause", [SERVICE, EGRESS_IP])
def test_a_nic_forwards_guarded_as_long_as_something_needs_it(host, cause) -> None:
    with_cause = plan_for(cause)
    for _run in range(2):
        host.run(with_cause)
        assert host.value() == "1"
        assert host.guards(with_cause)
    host.run(plan_for())
    assert host.value() == "0"


def test_one_cause_ends_before_the_other(host) -> None:
    host.run(plan_for(SERVICE, EGRESS_IP))
    host.run(plan_for(EGRESS_IP))
    assert host.value() == "1"
    assert host.guards(plan_for(EGRESS_IP))
    host.run(plan_for())
    assert host.value() == "0"


@pytest.mark.parametrize("name", ["eth3", "all"])
def test_a_nic_that_others_made_forward_stays_so(host, name) -> None:
    if name == "all":
        host.write("all", "1")
    host.write("eth3", "1")
    for plan in (plan_for(SERVICE), plan_for()):
        host.run(plan)
        assert host.value() == "1"
        assert not host.guards(plan)


def test_a_nic_that_was_closed_on_a_host_that_forwards_is_guarded_and_closed_again(host) -> None:
    """The setting of all NICs is written to each of them once; that of one may be changed afterwards."""
    host.write("all", "1")
    host.run(plan_for(SERVICE))
    assert host.value() == "1"
    assert host.guards(plan_for(SERVICE))
    host.run(plan_for())
    assert host.value() == "0"


def test_forwarding_ends_before_the_rules_go(host) -> None:
    host.run(plan_for(SERVICE))
    assert host.found(plan_for(SERVICE)).stop() == []
    assert host.value() == "1"
    assert host.found(plan_for()).stop() == ["eth3"]
    assert host.value() == "0"


def test_uninstallation_ends_what_heddle_has_begun(host, tmp_path) -> None:
    host.run(plan_for(SERVICE))
    assert made_forward(tmp_path / "sys", str(tmp_path / "run" / "forwarding")).stop() == ["eth3"]
    assert host.value() == "0"
    host.write("eth3", "1")
    assert made_forward(tmp_path / "sys", str(tmp_path / "none")).stop() == []
    assert host.value() == "1"


def test_a_run_that_was_interrupted_is_continued(host) -> None:
    plan = plan_for(SERVICE)
    host.found(plan).begin()
    host.write("eth3", "1")
    host.run(plan)
    assert host.guards(plan)
    # The end, interrupted before it was noted.
    host.write("eth3", "0")
    host.run(plan_for())
    assert host.value() == "0"


def test_a_nic_that_the_host_does_not_have_is_left_out(host) -> None:
    plan = plan_for(SERVICE)
    plan["nodes"]["node1"]["other_addresses"]["eth9"] = ["198.18.7.1/24"]
    assert host.found(plan).missing == {"eth9"}
    host.found(plan).begin()
    nothing = host.found(plan_for())
    # Nothing is written for a NIC that has gone.
    assert replace(nothing, known=frozenset(["eth9"])).wanted(HostNetwork()).sysctls == ()


def test_rules_of_the_firewall_come_before_the_setting(host, monkeypatch) -> None:
    steps: list = []
    monkeypatch.setattr(node_gateway.kernel, "PYROUTE2_IMPORT_ERROR", None)
    monkeypatch.setattr(node_gateway, "nic_forwarding", lambda plan, _node: host.found(plan))

    def firewall(plan: dict, *_arguments, **_options) -> Outcome:
        steps.append(host.guards(plan))
        return Outcome()

    def network(desired, **_options) -> Outcome:
        steps.append({one.name: one.value for one in desired.sysctls})
        return Outcome()

    monkeypatch.setattr(node_gateway, "apply_firewall", firewall)
    monkeypatch.setattr(node_gateway, "reconcile_host_network", network)
    plan = plan_for(SERVICE)
    node_gateway._host_network(plan, "node1", "test:gateway", write=True)
    guarded, settings = steps
    assert guarded
    assert settings[FORWARDING] == "1"
    host.write("eth3", "1")
    node_gateway._host_network(plan, "node1", "test:gateway", write=True)
    assert len(steps) == 3
    node_gateway._host_network(plan_for(), "node1", "test:gateway", write=True)
    assert steps[-1][FORWARDING] == "0"
