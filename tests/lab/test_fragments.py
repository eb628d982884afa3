# SPDX-License-Identifier: Apache-2.0
"""Datagrams in fragments between an external host and Services, in both gateway modes: requests and answers.

The ports are in the first fragment only, so the kernel's datapath has to put them together. On a Layer2, a Layer3 and
the default network; two of them have equal subnets.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.lab.conftest import MANIFESTS, Lab
from tests.lab.remote_program import RemoteProgram
from tests.lab.tenants import TENANTS
from tests.lab.test_coil import own
from tests.lab.test_gateways import external, in_userspace
from tests.lab.test_service_traffic import service

__all__ = ["own"]
pytestmark = pytest.mark.long
PORT, FIRST_PORT, MODES = 7020, 7030, ("shared", "local")
# The node of the endpoint by the policy of its Service; node ports are those of node1.
SERVERS = {"Cluster": "node2", "Local": "node1"}
# Seconds in which an external host and the routers of a node have resolved each other.
SOON = 30


def manifests() -> str:
    """Tenants, each with an endpoint on another node and one on node1, which keeps the source address."""
    text = ""
    for number, (namespace, tenant) in enumerate(TENANTS.items()):
        text += tenant
        for policy, node in SERVERS.items():
            name = policy.lower()
            port = FIRST_PORT + 2 * number + (policy == "Local")
            text += (
                "---\napiVersion: heddle.dev/v1\nkind: Workload\n"
                f"metadata: {{name: {name}, namespace: {namespace}, labels: {{app: {name}}}}}\nspec: {{node: {node}}}\n"
                f"---\napiVersion: v1\nkind: Service\nmetadata: {{name: {name}, namespace: {namespace}}}\n"
                f"spec: {{type: LoadBalancer, ipFamilyPolicy: RequireDualStack, externalTrafficPolicy: {policy}, "
                f"selector: {{app: {name}}}, ports: [{{protocol: UDP, port: {port}, targetPort: {PORT}}}]}}\n"
            )
    return text


@pytest.fixture(scope="module", params=MODES)
def plan(request, lab: Lab, tmp_path_factory) -> Iterator[dict]:
    if in_userspace(lab):
        pytest.skip("fragments: Open vSwitch's userspace datapath has them again after connection tracking")
    directory = shutil.copytree(MANIFESTS, tmp_path_factory.mktemp("fragments") / "manifests")
    (directory / "tenants.yml").write_text(manifests())
    lab.play("site.yml", "-e", f"heddle_gateway_mode={request.param}", manifests=directory)
    try:
        with ExitStack() as stack:
            for namespace in TENANTS:
                for policy, node in SERVERS.items():
                    name = policy.lower()
                    words = ("echo", f"{namespace}-{name}", PORT)
                    inside = f"{namespace}_{name}"
                    server = RemoteProgram(lab, node, "datagrams.py", *words, namespace=inside)
                    stack.callback(server.end)
                    assert server.line() == "ready"
            found = lab.plan()
            assert {node["gateway"]["mode"] for node in found["nodes"].values()} == {request.param}
            yield found
    finally:
        lab.play("site.yml")


def targets(plan: dict, version: int) -> dict[tuple[str, int], tuple[str, str]]:
    """Return address and port of all node ports and load balancers of a family, with the name of what answers there."""
    node = next(one for one in plan["nodes"]["node1"]["gateway"]["addresses"] if (":" in one) == (version == 6))
    found = {}
    for namespace in TENANTS:
        for policy in SERVERS:
            name = f"{namespace}-{policy.lower()}"
            entry = service(plan, namespace, policy.lower())
            [port] = entry["ports"]
            found[node.partition("/")[0], port["node_port"]] = name, policy
            held = [one["address"] for one in entry["external"]["load_balancer"]]
            [balanced] = [one for one in held if (":" in one) == (version == 6)]
            found[balanced, port["port"]] = name, policy
    return found


@pytest.mark.parametrize("version", [4, 6], ids=["IPv4", "IPv6"])
def test_an_external_host_gets_answers_in_fragments_to_questions_in_fragments(lab, plan, version):
    wanted = targets(plan, version)
    assert len(wanted) == 2 * 2 * len(TENANTS)
    asking = RemoteProgram(lab, "external", "datagrams.py", "ask", SOON, list(wanted))
    [said] = asking.end()
    assert [one and one[0] for one in said] == [name for name, _policy in wanted.values()]
    for (_name, seen), (_wanted, policy) in zip(said, wanted.values(), strict=True):
        assert (seen == external(version)) == (policy == "Local")
