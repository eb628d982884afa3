# SPDX-License-Identifier: Apache-2.0
"""Manifests to plan in one call, for tests of any layer."""

from __future__ import annotations

import json

from ansible_collections.heddle.ovn.plugins.module_utils.api import Problem, read_manifests
from ansible_collections.heddle.ovn.plugins.module_utils.api.networks.network_selection import NETWORKS
from ansible_collections.heddle.ovn.plugins.module_utils.controllers import layer2_steps
from ansible_collections.heddle.ovn.plugins.module_utils.controllers.admission.admission import admit
from ansible_collections.heddle.ovn.plugins.module_utils.plan import build_plan
from ansible_collections.heddle.ovn.plugins.module_utils.store import settings as state_settings
from ansible_collections.heddle.ovn.plugins.module_utils.store.layer2_version import TRANSIT_ROUTER
from ansible_collections.heddle.ovn.plugins.module_utils.store.snapshot import Snapshot


def nodes(*names: str) -> dict[str, dict]:
    """Return inventory facts of hosts, numbered from 1."""
    return {
        name: {
            "chassis": f"chassis-of-{name}",
            "encap_ips": [f"198.18.1.{10 + number}"],
            "addresses": [f"198.18.2.{10 + number}"],
        }
        for number, name in enumerate(names, start=1)
    }


# Settings for tests of what a node with a network has, whether or not it has a workload there.
EVERYWHERE = {"dynamic_networks": False}
THREE_NODES = nodes("node1", "node2", "node3")


def with_gateways(
    mode: str, hosts: dict[str, dict] = THREE_NODES, families: tuple[int, ...] = (4, 6), **facts
) -> dict[str, dict]:
    """Return hosts with external connectivity, each with addresses of its own on one provider network."""

    def own(addresses: dict[int, str]) -> list[str]:
        return [addresses[family] for family in families]

    return {
        name: {
            **host,
            "gateway": {
                "mode": mode,
                "bridge": "breth1",
                "uplink": "eth1",
                "mac": f"02:00:00:00:00:{number:02x}",
                "addresses": own({4: f"192.0.2.{10 + number}/24", 6: f"2001:db8::{10 + number:x}/64"}),
                "next_hops": own({4: "192.0.2.1", 6: "2001:db8::1"}),
                **facts,
            },
        }
        for number, (name, host) in enumerate(hosts.items(), start=1)
    }


def with_nics(hosts: dict[str, dict]) -> dict[str, dict]:
    """Return the hosts, each with a further NIC, on a network of its own."""
    return {
        name: {**host, "other_addresses": {"eth3": [f"203.0.113.{10 + number}/24", f"2001:db8:3::{10 + number:x}/64"]}}
        for number, (name, host) in enumerate(hosts.items(), start=1)
    }


def labelled(hosts: dict[str, dict]) -> dict[str, dict]:
    """Return the hosts with the label of those that may hold egress addresses."""
    return {name: {**host, "labels": {"k8s.ovn.org/egress-assignable": ""}} for name, host in hosts.items()}


def decide(
    text: str,
    before: Snapshot | None = None,
    hosts: dict | None = None,
    settings: dict | None = None,
    name: str = "t.yml",
    *,
    manifest_set: str = "test",
    released: tuple = (),
    now: str = "2026-01-01T00:00:00Z",
) -> tuple[Snapshot, list[Problem]]:
    """Admit manifests, given as YAML text, into a snapshot."""
    resources, problems = read_manifests([(name, text)])
    assert not problems, "\n".join(map(str, problems))
    return admit(
        before or Snapshot(),
        resources,
        THREE_NODES if hosts is None else hosts,
        settings=state_settings.complete(settings),
        manifest_set=manifest_set,
        name="test",
        released=released,
        now=now,
    )


def stored(text: str, before: Snapshot | None = None, **more) -> Snapshot:
    """Return the snapshot after manifests that are not refused."""
    after, problems = decide(text, before, **more)
    assert not problems, "\n".join(map(str, problems))
    return after


def plan_of(text: str, before: Snapshot | None = None, hosts: dict | None = None, settings: dict | None = None) -> dict:
    """Return the plan of manifests without mistakes."""
    after, problems = decide(text, before, hosts, settings)
    assert not problems, "\n".join(map(str, problems))
    return build_plan(after)


def upgrade_stage(text: str, *upgraded: str, done: bool = False, hosts: dict | None = None) -> dict:
    """Return the plan of a cluster that began with the old Layer2 topology, after some nodes were upgraded.

    `done`: everything was cleaned up; without upgraded nodes the cluster never had the old one.
    """
    settings = {**EVERYWHERE, "layer2_topology": "gateway-router" if upgraded or not done else "transit-router"}
    step, problems = decide(text, hosts=hosts, settings=settings)
    assert not problems, "\n".join(map(str, problems))
    for name in upgraded:
        step, _moves, blockers = layer2_steps.drain(step, [name], TRANSIT_ROUTER)
        assert not blockers
        step, blockers = layer2_steps.change_version(step, [name], TRANSIT_ROUTER)
        assert not blockers
    if upgraded and done:
        step, blockers = layer2_steps.clean_up(step)
        assert not blockers
    return build_plan(step)


def namespace(name: str, *, primary: bool = True) -> str:
    """Return a Namespace manifest."""
    label = '  labels: {k8s.ovn.org/primary-user-defined-network: ""}\n' if primary else ""
    return f"---\napiVersion: v1\nkind: Namespace\nmetadata:\n  name: {name}\n{label}"


def layer2(namespace_name: str, name: str, *subnets: str) -> str:
    """Return a primary Layer2 UserDefinedNetwork manifest."""
    return (
        "---\napiVersion: k8s.ovn.org/v1\nkind: UserDefinedNetwork\n"
        f"metadata: {{name: {name}, namespace: {namespace_name}}}\n"
        f"spec: {{topology: Layer2, layer2: {{role: Primary, subnets: [{', '.join(map(repr, subnets))}]}}}}\n"
    )


def layer3(namespace_name: str, name: str, cidr: str, host_subnet: int) -> str:
    """Return a primary Layer3 UserDefinedNetwork manifest."""
    return (
        "---\napiVersion: k8s.ovn.org/v1\nkind: UserDefinedNetwork\n"
        f"metadata: {{name: {name}, namespace: {namespace_name}}}\n"
        "spec: {topology: Layer3, layer3: {role: Primary, "
        f"subnets: [{{cidr: {cidr!r}, hostSubnet: {host_subnet}}}]}}}}\n"
    )


def workload(namespace_name: str, name: str, node: str, networks: str | list = "") -> str:
    """Return a Workload manifest; `networks` are the secondary ones it selects, as text or as a list of objects."""
    text = networks if isinstance(networks, str) else json.dumps(networks)
    annotations = f", annotations: {{{NETWORKS}: {text!r}}}" if text else ""
    return (
        "---\napiVersion: heddle.dev/v1\nkind: Workload\n"
        f"metadata: {{name: {name}, namespace: {namespace_name}{annotations}}}\nspec: {{node: {node}}}\n"
    )
