# SPDX-License-Identifier: Apache-2.0
"""Hosts of load balancer addresses with `externalTrafficPolicy: Local`: those whose own endpoints answer."""

from __future__ import annotations

from ansible_collections.heddle.ovn.plugins.module_utils.controllers.address_holders import update_users
from ansible_collections.heddle.ovn.plugins.module_utils.controllers.conditions import condition
from ansible_collections.heddle.ovn.plugins.module_utils.controllers.workload.move import begin_move, end_move
from ansible_collections.heddle.ovn.plugins.module_utils.plan import build_plan
from tests.pipeline import stored
from tests.unit.controllers.test_external_services import HOSTS, LATE, TENANTS, announced, pool, service


def slice_of(name: str, family: int, ports: str, address: str, node: str) -> str:
    return (
        f"---\napiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\naddressType: IPv{family}\n"
        f"metadata: {{name: {name}, namespace: red, labels: {{kubernetes.io/service-name: web}}}}\n"
        f"endpoints: [{{addresses: ['{address}'], nodeName: {node}}}]\nports: [{ports}]\n"
    )


def test_with_the_policy_local_a_host_with_an_endpoint_announces():
    text = TENANTS + pool("192.0.2.200/31") + service("type: LoadBalancer, externalTrafficPolicy: Local")
    assert announced(text)[1] == "192.0.2.200 by node2"
    plan = build_plan(stored(text, hosts=HOSTS))
    assert plan["networks"]["red_net"]["nodes"] == ["node2"]
    external = plan["services"]["red_net"]["red/web"]["external"]
    assert external["traffic_policy"] == "Local"
    assert external["health_check_port"]


def test_with_the_policy_local_each_family_is_announced_by_a_host_with_an_endpoint_of_it():
    spec = "type: LoadBalancer, externalTrafficPolicy: Local, ipFamilyPolicy: RequireDualStack"
    text = (
        TENANTS + pool("192.0.2.200/31", "2001:db8::c00/127") + service(spec).replace("selector: {app: web}, ", "")
        + slice_of("four", 4, "{port: 80}", "10.0.0.77", "node2")
        + slice_of("six", 6, "{port: 80}", "fd00:10::77", "node1")
    )  # fmt: skip
    assert announced(text)[1] == "192.0.2.200 by node2, 2001:db8::c00 by node1"
    alone = text.replace("addressType: IPv6", "addressType: IPv4").replace("fd00:10::77", "10.0.0.78")
    assert announced(alone) == (
        "NoLocalEndpoints",
        "no host that may announce 2001:db8::c00 has a ready endpoint (externalTrafficPolicy)",
    )


def test_with_the_policy_local_a_host_that_answers_at_all_ports_announces():
    both, one = "{name: http, port: 80}, {name: dns, port: 53}", "{name: http, port: 80}"
    text = TENANTS + pool("192.0.2.200/31") + service("type: LoadBalancer, externalTrafficPolicy: Local", ports=both)
    text = text.replace("selector: {app: web}, ", "")
    first = text + slice_of("some", 4, one, "10.0.0.77", "node1")
    before = stored(first, hosts=HOSTS)
    assert announced(first)[1] == "192.0.2.200 by node1"
    after = first + slice_of("all", 4, both, "10.0.0.78", "node2")
    assert announced(after)[1] == "192.0.2.200 by node2"
    # The address moves there as well, and stays when no host answers at all ports any more.
    after = stored(after, before, hosts=HOSTS)
    assert after.objects["Service/red/web"].status["announcers"] == {"192.0.2.200": "node2"}
    other = "{name: dns, port: 53}"
    apart = stored(first + slice_of("all", 4, other, "10.0.0.78", "node2"), after, hosts=HOSTS)
    assert apart.objects["Service/red/web"].status["announcers"] == {"192.0.2.200": "node2"}


def test_an_address_that_did_not_follow_its_endpoint_is_not_announced_until_the_manifests_are_applied():
    text = TENANTS.replace("node2", "node2, kind: vm") + pool("192.0.2.200/31")
    text += service("type: LoadBalancer, externalTrafficPolicy: Local")
    before = stored(text, hosts=HOSTS)
    moving, _move = begin_move(before, "red/a", "node3")
    after = end_move(moving, "red/a", "node3")
    update_users(before, after, LATE)
    found = condition(after.objects["Service/red/web"], "Announced")
    assert (found["status"], found["reason"]) == ("False", "NoLocalEndpoints")
    assert found["message"] == "192.0.2.200 is at node2, which has no ready endpoint any more: apply the manifests"
    applied = stored(text, after, hosts=HOSTS)
    assert condition(applied.objects["Service/red/web"], "Announced")["message"] == "192.0.2.200 by node3"
