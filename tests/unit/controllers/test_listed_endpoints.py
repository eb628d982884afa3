# SPDX-License-Identifier: Apache-2.0
"""Who backs a Service: the endpoints that the status lists, ready or not."""

from __future__ import annotations

from ansible_collections.heddle.ovn.plugins.module_utils.operations.status_text import status_table
from ansible_collections.heddle.ovn.plugins.module_utils.operations.status_view import state_view
from ansible_collections.heddle.ovn.plugins.module_utils.plan import build_plan
from tests.pipeline import layer2, namespace, stored, workload

RED = namespace("red") + layer2("red", "net", "10.0.0.0/24", "fd00:10::/64")
DUAL = "ipFamilyPolicy: PreferDualStack, "


def service(spec: str) -> str:
    return f"---\napiVersion: v1\nkind: Service\nmetadata: {{name: web, namespace: red}}\nspec: {{{spec}}}\n"


def server(name: str, spec: str = "", node: str = "node1", app: str = "web") -> str:
    return workload("red", name, node).replace(
        "namespace: red}\nspec: {", f"namespace: red, labels: {{app: {app}}}}}\nspec: {{{spec}"
    )


def endpoint_slice(addresses: str, family: str = "IPv4", more: str = "", name: str = "web-1") -> str:
    return (
        "---\napiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\n"
        f"metadata: {{name: {name}, namespace: red, labels: {{kubernetes.io/service-name: web}}}}\n"
        f"addressType: {family}\nports: [{{port: 8080}}]\nendpoints: [{{addresses: [{addresses}]{more}}}]\n"
    )


def listed(text: str, *more: str) -> list[tuple]:
    """Return fields of what is listed; what is ready is what OVN gets."""
    after = stored(text)
    found = state_view(after)["endpoints"]["red/web"]
    ports = build_plan(after)["services"].get("red_net", {}).get("red/web", {"ports": []})["ports"]
    in_plan = {one["address"] for port in ports for one in port["endpoints"]}
    assert {one["address"] for one in found if one["ready"] or one["terminating"]} == in_plan or not ports
    return [tuple(one[field] for field in ("address", *more)) for one in found]


def test_who_backs_a_service():
    text = RED + service(DUAL + "selector: {app: web}, ports: [{port: 80, targetPort: 8080}]")
    text += server("a") + server("b", "ready: false, ", node="node2") + server("other", app="db")
    assert listed(text, "workload", "slice", "node", "ready", "ports") == [
        ("10.0.0.3", "red/a", None, "node1", True, [8080]),
        ("fd00:10::3", "red/a", None, "node1", True, [8080]),
        ("10.0.0.4", "red/b", None, "node2", False, [8080]),
        ("fd00:10::4", "red/b", None, "node2", False, [8080]),
    ]
    every = text.replace("selector: {app: web}, ports", "selector: {app: web}, publishNotReadyAddresses: true, ports")
    assert all(ready for _address, ready in listed(every, "ready"))


def test_who_is_listed_in_slices():
    text = RED + service("ports: [{port: 80}]") + server("a")
    text += endpoint_slice("10.0.0.3, 198.51.100.7") + endpoint_slice("'2001:db8::7'", "IPv6", name="web-2")
    text += endpoint_slice("198.51.100.8", more=", nodeName: node2, conditions: {ready: false}", name="web-3")
    text += endpoint_slice("198.51.100.7", more=", conditions: {ready: false}", name="web-4")
    assert listed(text, "workload", "slice", "node", "ready") == [
        ("10.0.0.3", "red/a", "web-1", None, True),
        ("198.51.100.7", None, "web-1", None, True),
        ("198.51.100.8", None, "web-3", "node2", False),
    ]
    ending = "serving: true, terminating: true"
    text = RED + service("ports: [{port: 80}]")
    text += endpoint_slice("198.51.100.8", more=f", conditions: {{ready: false, {ending}}}")
    assert listed(text, "ready", "terminating") == [("198.51.100.8", False, True)]


def test_workloads_without_a_port_are_no_endpoints_unless_headless():
    text = RED + service("selector: {app: web}, ports: [{port: 80, targetPort: http}]") + server("a")
    assert listed(text) == []
    assert listed(text.replace("selector:", "clusterIP: None, selector:"), "ports") == [("10.0.0.3", [])]


def test_the_table_has_how_many_are_ready():
    text = RED + service("selector: {app: web}, ports: [{port: 80}]") + server("a") + server("b", "ready: false, ")
    after = stored(text)
    after.revision = 1
    row = next(line for line in status_table(state_view(after), {}).splitlines() if line.startswith("  red/web"))
    assert row.split() == ["red/web", "ClusterIP", "10.96.1.0", "-", "80/TCP", "-", "1/2", "Ready"]


def test_the_table_has_the_name_that_a_service_is_an_alias_of():
    # In the column that kubectl has it in.
    text = RED + service("type: ExternalName, externalName: db.example.com")
    after = stored(text)
    after.revision = 1
    row = next(line for line in status_table(state_view(after), {}).splitlines() if line.startswith("  red/web"))
    assert row.split() == [
        "red/web",
        "ExternalName",
        "-",
        "db.example.com",
        "-",
        "-",
        "0/0",
        "ExternalNameNotSupported",
    ]
