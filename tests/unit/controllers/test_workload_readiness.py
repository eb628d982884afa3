# SPDX-License-Identifier: Apache-2.0
"""Readiness probes in the state: the condition of workloads, and the endpoints of Services that follow."""

from __future__ import annotations

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.controllers.conditions import condition
from ansible_collections.heddle.ovn.plugins.module_utils.operations.readiness import with_probes
from ansible_collections.heddle.ovn.plugins.module_utils.plan import build_plan
from ansible_collections.heddle.ovn.plugins.module_utils.render.services.readiness import has_probes, render_probes
from ansible_collections.heddle.ovn.plugins.module_utils.store.snapshot import Snapshot
from ansible_collections.heddle.ovn.plugins.module_utils.types.readiness_probe import Probe, Request
from tests.pipeline import layer2, namespace, stored, workload

LATER = "2026-01-01T00:00:00Z"
PROBE = "readiness: {tcpSocket: {port: 8080}}"
READY, REFUSED = {"ready": True, "message": ""}, {"ready": False, "message": "TCP 10.0.0.3:8080: Connection refused"}
SERVICE = (
    "---\napiVersion: v1\nkind: Service\nmetadata: {name: web, namespace: red}\n"
    "spec: {selector: {app: web}, ports: [{port: 80, targetPort: 8080}]}\n"
)


def text(probe: str = PROBE, node: str = "node1", more: str = "") -> str:
    probed = workload("red", "w1", node).replace("spec: {", f"spec: {{{probe}, {more}")
    both = probed + workload("red", "w2", "node2")
    return (
        namespace("red") + layer2("red", "net", "10.0.0.0/24", "fd00:1::/64")
        + both.replace("namespace: red}", "namespace: red, labels: {app: web}}") + SERVICE
    )  # fmt: skip


def serving(snapshot: Snapshot) -> tuple[str, str, str]:
    found = condition(snapshot.objects["Workload/red/w1"], "Serving")
    return found["status"], found["reason"], found["message"]


def endpoints(snapshot: Snapshot) -> list[str]:
    port = build_plan(snapshot)["services"]["red_net"]["red/web"]["ports"][0]
    return [one["address"] for one in port["endpoints"]]


def test_a_workload_becomes_an_endpoint_when_its_probe_succeeds_and_stays_until_it_fails() -> None:
    first = stored(text())
    assert serving(first)[:2] == ("False", "NotProbed")
    assert endpoints(first) == ["10.0.0.4"]
    ready = with_probes(first, {"node1": {"red/w1": READY}}, LATER)
    assert serving(ready) == ("True", "ProbeSucceeded", "its readiness probe succeeds")
    assert endpoints(ready) == ["10.0.0.3", "10.0.0.4"]
    # Hosts without a report, and a run without changes, leave it as it is.
    assert with_probes(ready, {"node2": {}}, LATER) is ready
    assert with_probes(ready, {"node1": {"red/w1": READY}}, "2026-02-02T00:00:00Z") is ready
    again = stored(text(), ready)
    assert serving(again)[0] == "True"
    assert endpoints(again) == endpoints(ready)
    failed = with_probes(again, {"node1": {"red/w1": REFUSED}}, LATER)
    assert serving(failed) == ("False", "ProbeFailed", REFUSED["message"])
    assert endpoints(failed) == ["10.0.0.4"]
    assert serving(with_probes(failed, {"node1": {}}, LATER))[1] == "NotProbed"


def test_the_status_of_the_service_follows() -> None:
    alone = text().replace(workload("red", "w2", "node2").replace("red}", "red, labels: {app: web}}"), "")
    first = stored(alone)
    assert condition(first.objects["Service/red/web"], "Ready")["reason"] == "NoEndpoints"
    ready = with_probes(first, {"node1": {"red/w1": READY}}, LATER)
    assert condition(ready.objects["Service/red/web"], "Ready")["reason"] != "NoEndpoints"


@pytest.mark.parametrize(
    "changed",
    [text("readiness: {tcpSocket: {port: 8081}}"), text(node="node3")],
    ids=["another probe", "another node"],
)
def test_what_was_reported_is_of_that_probe_on_that_node(changed: str) -> None:
    ready = with_probes(stored(text()), {"node1": {"red/w1": READY}}, LATER)
    after = stored(changed, ready)
    assert serving(after)[1] == "NotProbed"
    assert "10.0.0.3" not in endpoints(after)


def test_without_a_probe_there_is_no_condition_and_the_manifest_decides() -> None:
    ready = with_probes(stored(text()), {"node1": {"red/w1": READY}}, LATER)
    without = stored(text("ready: true"), ready)
    assert condition(without.objects["Workload/red/w1"], "Serving") is None
    assert endpoints(without) == ["10.0.0.3", "10.0.0.4"]
    assert not has_probes(build_plan(without))
    drained = stored(text(more="ready: false, "), ready)
    assert serving(drained)[0] == "True"
    assert endpoints(drained) == ["10.0.0.4"]


def test_probes_of_a_node() -> None:
    plan = build_plan(stored(text()))
    assert has_probes(plan)
    assert render_probes(plan, "node2") == {}
    expected = Probe("tcpSocket", "red_w1", "10.0.0.3", 8080, None, (), 0, 10, 1, 1, 3)
    assert render_probes(plan, "node1") == {"red/w1": expected}
    asked = text(
        "ports: [{name: http, containerPort: 8443}], readiness: {httpGet: {port: http, path: live, scheme: HTTPS, "
        "httpHeaders: [{name: Host, value: web}]}, periodSeconds: 5, timeoutSeconds: 2, initialDelaySeconds: 3, "
        "successThreshold: 4, failureThreshold: 6}"
    )
    found = render_probes(build_plan(stored(asked)), "node1")["red/w1"]
    assert (found.port, found.request) == (8443, Request("HTTPS", "/live", (("Host", "web"),)))
    assert (found.delay, found.period, found.timeout, found.successes, found.failures) == (3, 5, 2, 4, 6)
    command = render_probes(build_plan(stored(text("readiness: {exec: {command: [test, -e, /x]}}"))), "node1")["red/w1"]
    assert command.command == ("test", "-e", "/x")
