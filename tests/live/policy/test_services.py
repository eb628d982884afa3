# SPDX-License-Identifier: Apache-2.0
"""Policies decide about the endpoint of a Service that a connection is sent to, not about its cluster IP."""

from __future__ import annotations

import json

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.common.naming import layer2_switch
from tests.pipeline import layer2, namespace, workload


def labelled(name: str) -> str:
    return workload("red", name, "node1").replace("namespace: red", f"namespace: red, labels: {{app: {name}}}")


def service(name: str) -> str:
    return (
        f"---\napiVersion: v1\nkind: Service\nmetadata: {{name: {name}, namespace: red}}\n"
        f"spec: {{selector: {{app: {name}}}, ipFamilyPolicy: PreferDualStack, ports: [{{port: 80}}]}}\n"
    )


POLICY = {
    "apiVersion": "networking.k8s.io/v1",
    "kind": "NetworkPolicy",
    "metadata": {"name": "client", "namespace": "red"},
    "spec": {
        "podSelector": {"matchLabels": {"app": "client"}},
        "policyTypes": ["Egress"],
        "egress": [{"to": [{"podSelector": {"matchLabels": {"app": "web"}}}]}],
    },
}
MANIFESTS = (
    namespace("red") + layer2("red", "net", "10.50.0.0/16", "fd50::/64")
    + "".join(map(labelled, ("client", "web", "other"))) + service("web") + service("other")
    + f"---\n{json.dumps(POLICY)}\n"
)  # fmt: skip


@pytest.mark.parametrize("family", [4, 6])
@pytest.mark.parametrize(("name", "passes"), [("web", True), ("other", False)])
def test_egress_to_cluster_ip_is_egress_to_its_endpoint(zone, family, name, passes):
    client = zone.interface("red/client", "red_net")
    addresses = zone.plan["services"]["red_net"][f"red/{name}"]["addresses"]
    target = next(one for one in addresses if (":" in one) == (family == 6))
    own = next(one for one in client["addresses"] if (":" in one) == (family == 6)).partition("/")[0]
    routers = zone.northbound.rows("Logical_Router_Port", "name", "mac")
    gateway = next(row["mac"] for row in routers if row["name"] == "trtos-red_net_ovn_layer2_switch")
    flow = (
        f'inport == "{client["port"]}" && eth.src == {client["mac"]} && eth.dst == {gateway} && ip.ttl == 64 && '
        f"ip{family}.src == {own} && ip{family}.dst == {target} && tcp.src == 40000 && tcp.dst == 80 && tcp.flags == 2"
    )
    options = [f"--db={zone.southbound.remote}", *["--ct=new"] * 8, "--minimal"]
    seen = zone.tools.run("ovn-trace", *options, layer2_switch("red_net"), flow)
    assert ("ip.ttl--" in seen or "output" in seen) == passes, seen
