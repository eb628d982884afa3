# SPDX-License-Identifier: Apache-2.0
"""EgressServices on the lab: which address an external host sees of connections that endpoints open, and their replies.

Endpoints of the default network on two hosts, by the kernel of a third one and back; a workload beside them that is no
endpoint; another host by the node selector; a VRF of the host that leads to a network of its own; its removal.
"""

from __future__ import annotations

import json
import shlex
import shutil
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

from tests.lab.address_moves import begin_connecting, expect_move, macs
from tests.lab.conftest import MANIFESTS, NODES, Lab
from tests.lab.remote_program import RemoteProgram
from tests.lab.test_gateways import has_vrf

TENANT = """---
apiVersion: v1
kind: Namespace
metadata: {{name: {namespace}, labels: {labels}}}
"""
PRIMARY = """---
apiVersion: k8s.ovn.org/v1
kind: UserDefinedNetwork
metadata: {{name: net, namespace: {namespace}}}
spec:
  topology: {topology}
  {field}: {{role: Primary, subnets: {subnets}}}
"""
WORKLOAD = """---
apiVersion: heddle.dev/v1
kind: Workload
metadata: {{name: {name}, namespace: {namespace}, labels: {{app: {app}}}}}
spec: {{node: {node}}}
"""
SERVICE = """---
apiVersion: v1
kind: Service
metadata: {{name: web, namespace: {namespace}}}
spec: {{type: LoadBalancer, ipFamilyPolicy: PreferDualStack, selector: {{app: web}}, ports: [{{port: 80}}]}}
"""
# By namespace, each with its primary network; the first one has the default network.
NETWORKS = {
    "mint": "",
    "forge": PRIMARY.format(
        namespace="forge", topology="Layer2", field="layer2", subnets='["10.81.0.0/16", "fd00:81::/64"]'
    ),
    "kiln": PRIMARY.format(
        namespace="kiln", topology="Layer3", field="layer3",
        subnets='[{cidr: "10.81.0.0/16", hostSubnet: 24}, {cidr: "fd00:81::/48", hostSubnet: 64}]',
    ),
}  # fmt: skip
ENDPOINTS, BESIDE = {"a": "node1", "b": "node2"}, "other"
UNIT, PORT = "heddle-test-egress-service", 9090
# Answers each connection with the address of its peer.
SERVE = f"""
import socket
server = socket.create_server(("::", {PORT}), family=socket.AF_INET6, dualstack_ipv6=True, backlog=64)
while True:
    opened, peer = server.accept()
    opened.sendall(peer[0].removeprefix("::ffff:").encode())
    opened.close()
"""
ASK = f"""
import socket, sys
with socket.create_connection((sys.argv[1], {PORT}), timeout=120) as opened:
    print(opened.recv(100).decode())
"""
VRF, VLAN, TABLE = "partners", 77, 4711
FAR = {4: "10.77.0.20", 6: "fd77::20"}
pytestmark = pytest.mark.long


def manifests(namespace: str, **spec) -> str:
    """A tenant; `spec` is that of its EgressService, none without."""
    labels = '{"k8s.ovn.org/primary-user-defined-network": ""}' if NETWORKS[namespace] else "{}"
    text = TENANT.format(namespace=namespace, labels=labels) + NETWORKS[namespace] + SERVICE.format(namespace=namespace)
    for name, (app, node) in {BESIDE: ("none", "node1"), **{one: ("web", on) for one, on in ENDPOINTS.items()}}.items():
        text += WORKLOAD.format(namespace=namespace, name=name, app=app, node=node)
    if spec:
        document = {"apiVersion": "k8s.ovn.org/v1", "kind": "EgressService",
                    "metadata": {"name": "web", "namespace": namespace}, "spec": spec}  # fmt: skip
        text += f"---\n{json.dumps(document)}\n"
    return text


def by(node: str) -> dict:
    return {"nodeSelector": {"matchLabels": {"kubernetes.io/hostname": node}}}


@pytest.fixture
def apply(lab: Lab, tmp_path: Path) -> Iterator[Callable[..., dict]]:
    """Apply tenants with a spec; returns the plan."""
    directory = shutil.copytree(MANIFESTS, tmp_path / "manifests")

    def run(*arguments: str, twice: bool = False, tenants: Iterable[str] = ("mint",), **spec) -> dict:
        (directory / "tenants.yml").write_text("".join(manifests(name, **spec) for name in tenants))
        # A host reports its gateway mode after `site.yml` has set it.
        lab.play("site.yml" if arguments else "networks.yml", *arguments, manifests=directory)
        if twice:
            again = lab.play("networks.yml", *arguments, manifests=directory)
            assert not any(again.changed.values()), again.output[-6000:]
        return lab.plan()

    lab.ssh("external", "systemd-run", "--quiet", f"--unit={UNIT}", "python3", "-c", shlex.quote(SERVE))
    yield run
    lab.try_ssh("external", "systemctl", "stop", UNIT)
    lab.play("networks.yml")


@pytest.fixture
def partners(lab: Lab) -> Iterator[None]:
    """A network of its own, tagged on the provider network, between the external host and a VRF of each node."""
    if not has_vrf(lab):
        pytest.skip("this kernel has no VRFs; User Mode Linux has")
    places = {name: (number, "br-ex") for number, name in enumerate(NODES, start=1)} | {"external": (20, "eth2")}
    for host, (number, device) in places.items():
        commands = [f"ip link add link {device} name {VRF}0 type vlan id {VLAN}"]
        if host != "external":
            commands += [f"ip link add {VRF} type vrf table {TABLE}", f"ip link set {VRF} up",
                         f"ip link set {VRF}0 master {VRF}"]  # fmt: skip
        commands += [f"ip link set {VRF}0 up", f"ip address add 10.77.0.{number}/24 dev {VRF}0",
                     f"ip address add fd77::{number}/64 dev {VRF}0 nodad"]  # fmt: skip
        lab.ssh(host, " && ".join(commands))
    yield
    for host in places:
        lab.try_ssh(host, f"ip link delete {VRF}0; ip link delete {VRF}")


def lead(lab: Lab, addresses: dict[int, str], host: str) -> None:
    """Let the external host reach addresses by that network: the operator's part."""
    number = NODES.index(host) + 1
    for family, network in ((4, "10.77.0."), (6, "fd77::")):
        lab.ssh("external", f"ip -{family} route replace {addresses[family]} via {network}{number}")


def addresses_of(plan: dict, namespace: str = "mint") -> dict[int, str]:
    network = f"{namespace}_net" if NETWORKS[namespace] else "default"
    held = plan["services"][network][f"{namespace}/web"]["external"]["load_balancer"]
    return {6 if ":" in one["address"] else 4: one["address"] for one in held}


def target(plan: dict, family: int) -> str:
    """The external host, the next hop of every node."""
    hops = plan["nodes"]["node1"]["gateway"]["next_hops"]
    return next(one for one in hops if (":" in one) == (family == 6))


def node_address(plan: dict, node: str, family: int) -> str:
    own = plan["nodes"][node]["gateway"]["addresses"]
    return next(one for one in own if (":" in one) == (family == 6)).partition("/")[0]


def seen(lab: Lab, name: str, address: str) -> str:
    """The source address of a connection of a workload, as the host that it goes to answers it."""
    node = ENDPOINTS.get(name, "node1")
    inside = ("ip", "netns", "exec", f"mint_{name}", "python3", "-c", shlex.quote(ASK), address)
    done = lab.try_ssh(node, *inside)
    return done.stdout.strip() or done.stderr.strip().splitlines()[-1]


def expect(lab: Lab, plan: dict, host: str) -> None:
    """Endpoints leave by a host with the addresses of the Service, which it announces; others by their own."""
    external = addresses_of(plan)
    for family in (4, 6):
        for name in ENDPOINTS:
            assert seen(lab, name, target(plan, family)) == external[family], (name, family)
        assert seen(lab, BESIDE, target(plan, family)) == node_address(plan, "node1", family)
        # Nodes see the address of the node, as from any other workload.
        assert "refused" in seen(lab, "a", node_address(plan, "node3", family)).lower()
        neighbour = lab.ssh("external", f"ip -{family} neigh show {external[family]}")
        assert plan["nodes"][host]["gateway"]["mac"] in neighbour, neighbour


def test_endpoints_leave_by_one_host_which_may_be_another_one_later(lab, apply):
    plan = apply(twice=True, **by("node3"))
    expect(lab, plan, "node3")
    before = addresses_of(plan)
    plan = apply(**by("node2"))
    assert addresses_of(plan) == before
    expect(lab, plan, "node2")
    audit = lab.play("audit.yml")
    assert "0 drifted" in audit.output
    # Without the object nothing of it is left, and the address still leads to the Service.
    plan = apply()
    assert addresses_of(plan) == before
    for node in NODES:
        policies = lab.ssh(node, "ovn-nbctl", "--columns=external_ids", "list", "Logical_Router_Policy")
        assert "mint/web" not in policies
        for family, address in before.items():
            assert address not in lab.try_ssh(node, f"nft list map inet heddle egress-services-snat-v{family}").stdout
    for family in (4, 6):
        for name, node in ENDPOINTS.items():
            assert seen(lab, name, target(plan, family)) == node_address(plan, node, family)


def test_its_addresses_move_from_host_to_host(lab, apply):
    """Never at two of them, as the external host sees it; endpoints leave with no other address meanwhile."""
    plan = apply(tenants=NETWORKS, **by("node3"))
    targets = [target(plan, family) for family in (4, 6)]
    endpoints = [(namespace, name) for namespace in NETWORKS for name in ENDPOINTS]
    ports = {endpoint: PORT + number for number, endpoint in enumerate(endpoints, start=1)}
    for (namespace, name), port in ports.items():
        unit = f"{UNIT}-{namespace}-{name}"
        begin_connecting(lab, ENDPOINTS[name], f"{namespace}_{name}", unit, port, *targets)
    try:
        watched = {
            address: [ports[namespace, name] for name in ENDPOINTS]
            for namespace in NETWORKS
            for address in addresses_of(plan, namespace).values()
        }
        watch = RemoteProgram(lab, "external", "address_watch.py", "from", "eth2", targets, watched)
        assert watch.line() == "ready"
        apply(tenants=NETWORKS, **by("node2"))
        expect_move(watch, macs(plan), dict.fromkeys(watched, ("node3", "node2")))
    finally:
        for namespace, name in endpoints:
            lab.try_ssh(ENDPOINTS[name], "systemctl", "stop", f"{UNIT}-{namespace}-{name}")


def test_a_vrf_of_the_host_leads_to_a_network_of_its_own(lab, apply, partners):
    plan = apply(twice=True, network=VRF, **by("node2"))
    external = addresses_of(plan)
    lead(lab, external, "node2")
    for family in (4, 6):
        for name in ENDPOINTS:
            assert seen(lab, name, FAR[family]) == external[family], (name, family)
        # Not for others, which reach that address of the external host by the provider network.
        assert seen(lab, BESIDE, FAR[family]) == node_address(plan, "node1", family)
        assert seen(lab, BESIDE, target(plan, family)) == node_address(plan, "node1", family)
    apply()
    assert "5000:" not in lab.ssh("node2", "ip rule; ip -6 rule")
    for family in (4, 6):
        lab.ssh("external", f"ip -{family} route delete {external[family]}")


def test_endpoints_leave_by_their_own_hosts_in_local_gateway_mode(lab, request, apply, partners):
    request.addfinalizer(lambda: lab.play("site.yml"))
    plan = apply("-e", "heddle_gateway_mode=local", twice=True, sourceIPBy="Network", network=VRF)
    assert plan["egress_services"]["default"]["mint/web"]["host"] == "ALL"
    for family, network in ((4, "10.77.0."), (6, "fd77::")):
        for name, node in ENDPOINTS.items():
            assert seen(lab, name, FAR[family]) == f"{network}{NODES.index(node) + 1}", (name, family)
            assert seen(lab, name, target(plan, family)) == node_address(plan, node, family)
        assert not seen(lab, BESIDE, FAR[family]).startswith(network)
