# SPDX-License-Identifier: Apache-2.0
"""Packets to Services with endpoints beyond their network: processes of an external host, of another node, of the node.

On a Layer2, a Layer3 and the default network; two of them have equal subnets.
"""

from __future__ import annotations

import json
import shlex
import shutil
from collections.abc import Iterator

import pytest

from tests.lab.conftest import MANIFESTS, Lab
from tests.lab.tenants import TENANTS
from tests.lab.test_coil import own
from tests.lab.test_service_traffic import ask, service

__all__ = ["own"]
UNIT, PORT, FIRST_NODE_PORT = "heddle-test-endpoint", 8480, 30400
# Where each server is, by the name of its Service.
SERVERS = {"far": "external", "peer": "node2", "self": "node1"}
MODES = ("shared", "local")
# Seconds that an answer may take, the first time and then; less than `Lab.ssh` has.
FIRST, SOON = 45, 300
# Answers each connection with a word and the client's address.
SERVE = """
import socket, sys
server = socket.create_server(("::", int(sys.argv[2])), family=socket.AF_INET6, dualstack_ipv6=True, backlog=64)
while True:
    opened, peer = server.accept()
    opened.sendall(f"{sys.argv[1]} {peer[0].removeprefix('::ffff:')}".encode())
    opened.close()
"""


def addresses_of(lab: Lab, host: str, plan: dict) -> dict[int, str]:
    """Return the provider addresses of a host, by family."""
    if host in plan["nodes"]:
        found = [one.partition("/")[0] for one in plan["nodes"][host]["gateway"]["addresses"]]
    else:
        links = json.loads(lab.ssh(host, "ip", "-json", "address", "show", "dev", "eth2"))
        found = [one["local"] for link in links for one in link["addr_info"] if one["scope"] == "global"]
    return {6 if ":" in one else 4: one for one in reversed(found)}


def manifests(ends: dict[str, dict[int, str]]) -> str:
    """Tenants, each with a Service for each endpoint, and one with the policy Local."""
    text, number = "", FIRST_NODE_PORT
    for namespace, tenant in TENANTS.items():
        text += tenant
        for name, policy in (*((one, "Cluster") for one in SERVERS), ("kept", "Local")):
            host = {"kept": "self"}.get(name, name)
            text += (
                f"---\napiVersion: v1\nkind: Service\nmetadata: {{name: {name}, namespace: {namespace}}}\n"
                f"spec: {{type: NodePort, ipFamilyPolicy: RequireDualStack, externalTrafficPolicy: {policy}, "
                f"ports: [{{port: 80, nodePort: {number}}}]}}\n"
            )
            node = f", nodeName: {SERVERS[host]}" if host != "far" else ""
            for family, address in ends[host].items():
                text += (
                    "---\napiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {"
                    f"name: {name}-{family}, namespace: {namespace}, labels: {{kubernetes.io/service-name: {name}}}}}\n"
                    f"addressType: IPv{family}\nports: [{{port: {PORT}}}]\n"
                    f"endpoints: [{{addresses: ['{address}']{node}}}]\n"
                )
            number += 1
    return text


@pytest.fixture(scope="module", params=MODES)
def plan(request, lab: Lab, tmp_path_factory) -> Iterator[dict]:
    directory = shutil.copytree(MANIFESTS, tmp_path_factory.mktemp("endpoints") / "manifests")
    before = lab.plan()
    if request.param == "local" and not all(node["gateway"]["vrf"] for node in before["nodes"].values()):
        pytest.skip("local gateway mode needs a kernel with VRFs")
    (directory / "tenants.yml").write_text(
        manifests({name: addresses_of(lab, host, before) for name, host in SERVERS.items()})
    )
    # Shared is the mode that the lab has, so nothing is installed.
    playbook = "networks.yml" if request.param == "shared" else "site.yml"
    lab.play(playbook, "-e", f"heddle_gateway_mode={request.param}", manifests=directory)
    try:
        for name, host in SERVERS.items():
            program = ["python3", "-c", shlex.quote(SERVE), name, str(PORT)]
            lab.ssh(host, "systemd-run", "--quiet", f"--unit={UNIT}", *program)
        yield lab.plan()
    finally:
        for host in SERVERS.values():
            lab.try_ssh(host, "systemctl", "stop", UNIT)
        lab.play(playbook)


def node_ports(lab: Lab, plan: dict, names) -> tuple[list[str], list[tuple[str, int]]]:
    """Return which endpoint each target has, and the targets: node ports of node1."""
    found = [
        ({"kept": "self"}.get(name, name), (address, service(plan, namespace, name)["ports"][0]["node_port"]))
        for namespace in TENANTS
        for name in names
        for address in addresses_of(lab, "node1", plan).values()
    ]
    return [name for name, _target in found], [target for _name, target in found]


def servers(said: list[set[str]]) -> list[set[str]]:
    return [{text.partition(" ")[0] for text in one} for one in said]


def test_external_hosts(lab, plan):
    names, targets = node_ports(lab, plan, SERVERS)
    # The first packets make the node's routers resolve MAC addresses. Of several connections at once, and of packets
    # that are sent again meanwhile, some get no answer in Open vSwitch's userspace datapath (docs/services.md).
    ask(lab, "external", targets, limit=FIRST, times=1)
    assert servers(ask(lab, "external", targets, limit=SOON)) == [{name} for name in names]


def test_a_process_of_the_node_sees_external_clients_with_the_policy_local(lab, plan):
    _names, targets = node_ports(lab, plan, ["kept"])
    clients = addresses_of(lab, "external", plan)
    ask(lab, "external", targets, limit=FIRST, times=1)
    said = ask(lab, "external", targets, limit=SOON)
    assert said == [{f"self {clients[6 if ':' in address else 4]}"} for address, _port in targets]
