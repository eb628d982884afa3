# SPDX-License-Identifier: Apache-2.0
"""Every example of Kubernetes' documentation of Services and of dual-stack Services is admitted, and is in effect.

Their fields are those of https://kubernetes.io/docs/concepts/services-networking/service/,
https://kubernetes.io/docs/concepts/services-networking/dual-stack/ and, for `trafficDistribution`, of
https://kubernetes.io/docs/reference/networking/virtual-ips/. What such an example selects is a workload here.
"""

from __future__ import annotations

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.api import read_manifests
from ansible_collections.heddle.ovn.plugins.module_utils.controllers.conditions import condition
from ansible_collections.heddle.ovn.plugins.module_utils.plan import build_plan
from ansible_collections.heddle.ovn.plugins.module_utils.render.northbound import render_northbound
from tests.pipeline import decide, layer2, namespace, with_gateways, workload

SERVER = workload("shop", "web1", "node1").replace(
    "namespace: shop}\nspec: {node: node1}",
    "namespace: shop, labels: {app.kubernetes.io/name: web}}\n"
    "spec: {node: node1, ports: [{name: web-port, containerPort: 9376}]}",
)
POOL = """---
apiVersion: heddle.dev/v1
kind: LoadBalancerPool
metadata: {name: pool}
spec: {subnets: [192.0.2.192/28, "2001:db8::c00/120"]}
"""
TENANT = namespace("shop") + layer2("shop", "net", "10.20.0.0/16", "fd00:20::/64") + SERVER + POOL
SELECTS = "selector: {app.kubernetes.io/name: web}"
PORTS = "ports: [{protocol: TCP, port: 80, targetPort: 9376}]"
DUAL_PORTS = "ports: [{protocol: TCP, port: 80}]"
SLICE = """---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata:
  name: web-1
  namespace: shop
  labels: {kubernetes.io/service-name: web, endpointslice.kubernetes.io/managed-by: staff}
"""
V4, V6 = "10.20.0.3", "fd00:20::3"
# By what each shows: fields of `spec`, the families of its cluster IPs, and the endpoints of its ports.
SERVICES = {
    "a port and its target": (f"{SELECTS}, {PORTS}", "4", {(80, V4, 9376)}),
    "a target by name": (
        f"{SELECTS}, ports: [{{name: front, protocol: TCP, port: 80, targetPort: web-port}}]", "4", {(80, V4, 9376)},
    ),
    "several ports": (
        f"{SELECTS}, ports: [{{name: http, protocol: TCP, port: 80, targetPort: 9376}},"
        " {name: https, protocol: TCP, port: 443, targetPort: 9377}]",
        "4", {(80, V4, 9376), (443, V4, 9377)},
    ),
    "an application protocol": (
        f"{SELECTS}, ports: [{{port: 80, targetPort: 9376, appProtocol: kubernetes.io/h2c}}]", "4", {(80, V4, 9376)},
    ),
    "an address of one's own": (f"{SELECTS}, {PORTS}, clusterIP: 10.96.3.4", "4", {(80, V4, 9376)}),
    "a node port": (
        f"type: NodePort, {SELECTS}, ports: [{{port: 80, targetPort: 80, nodePort: 30007}}]", "4", {(80, V4, 80)},
    ),
    "a load balancer": (f"type: LoadBalancer, {SELECTS}, {PORTS}, clusterIP: 10.96.3.5", "4", {(80, V4, 9376)}),
    "a load balancer for two protocols": (
        f"type: LoadBalancer, {SELECTS}, ports: [{{name: udp, protocol: UDP, port: 53}},"
        " {name: tcp, protocol: TCP, port: 53}]",
        "4", {(53, V4, 53)},
    ),
    "a load balancer without node ports": (
        f"type: LoadBalancer, allocateLoadBalancerNodePorts: false, {SELECTS}, {PORTS}", "4", {(80, V4, 9376)},
    ),
    "a load balancer of a class": (
        f"type: LoadBalancer, loadBalancerClass: example.com/internal-vip, {SELECTS}, {PORTS}", "4", {(80, V4, 9376)},
    ),
    "external addresses": (
        f"externalIPs: [198.51.100.32], {SELECTS}, ports: [{{name: http, protocol: TCP, port: 80, targetPort: 49152}}]",
        "4", {(80, V4, 49152)},
    ),
    "policies for traffic": (
        f"type: NodePort, externalTrafficPolicy: Local, internalTrafficPolicy: Local, {SELECTS}, {PORTS}",
        "4", {(80, V4, 9376)},
    ),
    "sticky sessions": (
        "sessionAffinity: ClientIP, sessionAffinityConfig: {clientIP: {timeoutSeconds: 10800}},"
        f" {SELECTS}, {PORTS}",
        "4", {(80, V4, 9376)},
    ),
    **{
        f"traffic distribution {one}": (f"trafficDistribution: {one}, {SELECTS}, {PORTS}", "4", {(80, V4, 9376)})
        for one in ("PreferClose", "PreferSameZone", "PreferSameNode")
    },
    "headless": (f"clusterIP: None, {SELECTS}, ports: [{{port: 80}}]", "", set()),
    "headless without ports": (f"clusterIP: None, {SELECTS}", "", set()),
    "both families where there are two": (
        f"ipFamilyPolicy: PreferDualStack, {SELECTS}, {DUAL_PORTS}", "46", {(80, V4, 80), (80, V6, 80)},
    ),
    "both families, IPv6 first": (
        f"ipFamilyPolicy: PreferDualStack, ipFamilies: [IPv6, IPv4], {SELECTS}, {DUAL_PORTS}",
        "64", {(80, V4, 80), (80, V6, 80)},
    ),
    "both families or none": (
        f"ipFamilyPolicy: RequireDualStack, {SELECTS}, {DUAL_PORTS}", "46", {(80, V4, 80), (80, V6, 80)},
    ),
    "IPv6": (f"ipFamilies: [IPv6], {SELECTS}, {DUAL_PORTS}", "6", {(80, V6, 80)}),
    "a load balancer of IPv6": (
        f"ipFamilies: [IPv6], type: LoadBalancer, {SELECTS}, {DUAL_PORTS}", "6", {(80, V6, 80)},
    ),
    "a load balancer of both families": (
        f"ipFamilyPolicy: PreferDualStack, ipFamilies: [IPv6], type: LoadBalancer, {SELECTS}, {DUAL_PORTS}",
        "64", {(80, V4, 80), (80, V6, 80)},
    ),
    "as kubectl prints one": (
        f"type: ClusterIP, clusterIP: 10.96.3.6, clusterIPs: [10.96.3.6], ipFamilies: [IPv4], {SELECTS},"
        " ipFamilyPolicy: SingleStack, internalTrafficPolicy: Cluster, sessionAffinity: None,"
        " ports: [{port: 80, protocol: TCP, targetPort: 80}]",
        "4", {(80, V4, 80)},
    ),
    "as kubectl prints a headless one": (
        f"type: ClusterIP, clusterIP: None, clusterIPs: [None], ipFamilies: [IPv4], {SELECTS},"
        " ipFamilyPolicy: SingleStack, ports: [{port: 80, protocol: TCP, targetPort: 80}]",
        "", set(),
    ),
}  # fmt: skip


def service(spec: str, name: str = "web", more: str = "") -> str:
    return (
        f"---\napiVersion: v1\nkind: Service\nmetadata: {{name: {name}, namespace: shop{more}}}\nspec: {{{spec}}}\n"
        "status: {loadBalancer: {}}\n"
    )


def admitted(text: str, before=None):
    after, problems = decide(TENANT + text, before, hosts=with_gateways("shared"))
    assert not problems, "\n".join(map(str, problems))
    return after


def ends(after) -> set[tuple[int, str, int]]:
    ports = build_plan(after)["services"].get("shop_net", {}).get("shop/web", {"ports": []})["ports"]
    return {(port["port"], end["address"], end["port"]) for port in ports for end in port["endpoints"]}


def ready(after, key: str = "Service/shop/web") -> tuple[str, str]:
    found = condition(after.objects[key], "Ready")
    return found["status"], found["reason"]


@pytest.mark.parametrize("name", SERVICES)
def test_service_is_in_effect(name):
    spec, families, expected = SERVICES[name]
    after = admitted(service(spec))
    assert ready(after) == ("True", "EndpointsReady")
    status = after.objects["Service/shop/web"].status
    assert "".join("6" if ":" in one else "4" for one in status["clusterIPs"] if one != "None") == families
    assert ends(after) == expected


@pytest.mark.parametrize(
    "annotation",
    [
        "networking.gke.io/load-balancer-type: Internal",
        'service.beta.kubernetes.io/aws-load-balancer-internal: "true"',
        "service.kubernetes.io/ibm-load-balancer-cloud-provider-ip-type: private",
        "service.kubernetes.io/topology-mode: Auto",
    ],
)
def test_annotations_for_others_are_admitted(annotation):
    spec, _families, expected = SERVICES["a load balancer"]
    assert ends(admitted(service(spec, more=f", annotations: {{{annotation}}}"))) == expected


@pytest.mark.parametrize(
    ("spec", "endpoints", "expected"),
    [
        # A port without a name, as where a number has no registered one.
        (
            PORTS,
            "addressType: IPv4\nports: [{name: '', appProtocol: http, protocol: TCP, port: 9376}]\n"
            "endpoints: [{addresses: [10.4.5.6]}, {addresses: [10.1.2.3]}]\n",
            {(80, "10.4.5.6", 9376), (80, "10.1.2.3", 9376)},
        ),
        (
            "ports: [{name: http, port: 80}]",
            "addressType: IPv4\nports: [{name: http, protocol: TCP, port: 80}]\nendpoints: [{addresses: [10.1.2.3],"
            " conditions: {ready: true, serving: true, terminating: false}, hostname: pod-1, nodeName: node1,"
            " zone: us-west2-a, hints: {forZones: [{name: us-west2-a}], forNodes: [{name: node1}]},"
            " targetRef: {kind: Pod, name: web1, namespace: shop}}]\n",
            {(80, "10.1.2.3", 80)},
        ),
    ],
)
def test_slice_has_the_endpoints_of_a_service_without_selector(spec, endpoints, expected):
    after = admitted(service(spec) + SLICE + endpoints)
    assert ends(after) == expected
    assert ready(after, "EndpointSlice/shop/web-1") == ("True", "EndpointsAdded")


def test_slice_of_names_adds_nothing_and_says_so():
    names = "addressType: FQDN\nports: [{port: 9376}]\nendpoints: [{addresses: [db.example.com, 'b.example.com.']}]\n"
    after = admitted(service(PORTS) + SLICE + names)
    assert ready(after, "EndpointSlice/shop/web-1") == ("False", "AddressTypeNotSupported")
    assert ready(after) == ("True", "NoEndpoints")
    assert ends(after) == set()


ALIAS = "type: ExternalName, externalName: my.database.example.com"


@pytest.mark.parametrize(
    "spec",
    [
        ALIAS,
        f"{ALIAS}.",
        # An API server takes these as well; nothing comes of them.
        f"{ALIAS}, {SELECTS}, ports: [{{port: 80, nodePort: 30080}}], externalIPs: [198.51.100.32]",
        "type: ExternalName, externalName: 192.0.2.1",
    ],
)
def test_external_name_is_stored_has_nothing_and_says_so(spec):
    after = admitted(
        service(spec) + SLICE + "addressType: IPv4\nports: [{port: 80}]\nendpoints: [{addresses: [10.1.2.3]}]\n"
    )
    assert ready(after) == ("False", "ExternalNameNotSupported")
    assert ready(after, "EndpointSlice/shop/web-1") == ("False", "ServiceWithoutEndpoints")
    status = after.objects["Service/shop/web"].status
    assert not any(status.get(name) for name in ("clusterIPs", "ipFamilies", "nodePorts", "loadBalancer", "announcers"))
    plan = build_plan(after)
    assert not plan["services"].get("shop_net")
    # Names below it would be those of endpoints.
    assert plan["headless"] == {"shop_net": {"shop/web": {}}}
    for pool in ("cluster-ip-v4", "cluster-ip-v6", "node-port"):
        assert not after.allocations.get(pool)


def refused(text: str) -> list[str]:
    return [f"{one.path}: {one.rule}" for one in read_manifests([("t.yml", text)])[1]]


def test_external_name_is_checked_as_by_an_api_server():
    words = "may not be set for ExternalName services"
    spec = (
        "type: ExternalName, externalName: Not.A_Name, clusterIP: None, clusterIPs: [None], ipFamilies: [IPv4],"
        " ipFamilyPolicy: SingleStack, externalTrafficPolicy: Local, externalIPs: [192.0.2.1]"
    )
    found = refused(service(spec))
    assert found[0].startswith('spec.externalName: Invalid value: "Not.A_Name": a lowercase RFC 1123 subdomain must')
    fields = ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy")
    assert found[1:-1] == [f"spec.{one}: Forbidden: {words}" for one in fields]
    assert found[-1] == "spec.externalTrafficPolicy: Invalid value: may only be set for externally-accessible services"
    for missing in ("", ", externalName: ''", ", externalName: ."):
        assert refused(service(f"type: ExternalName{missing}")) == ["spec.externalName: Required value"]
    # Empty ones are none, as an API server has them when they were never set.
    assert not refused(service(f"{ALIAS}, clusterIP: '', clusterIPs: [], ipFamilies: []"))


@pytest.mark.parametrize(
    ("name", "rule"),
    [
        ("''", "Required value"),
        ("example", 'Invalid value: "example": should be a domain with at least two segments separated by dots'),
        ("Example.com", 'Invalid value: "Example.com": must be a fully qualified domain name in lower case'),
        ("a..b", 'Invalid value: "a..b": must be a fully qualified domain name in lower case'),
    ],
)
def test_names_of_a_slice_are_checked(name, rule):
    text = f"addressType: FQDN\nports: [{{port: 9376}}]\nendpoints: [{{addresses: [{name}]}}]\n"
    assert refused(service(PORTS) + SLICE + text) == [f"endpoints[0].addresses[0]: {rule}"]


def test_workload_does_not_get_the_name_of_an_external_name():
    # Else clients would reach the workload, instead of what the alias stands for.
    def names(text: str) -> set[str]:
        rows = render_northbound(build_plan(admitted(text)), "node1")
        (row,) = (one for one in rows if one.table == "DNS" and one.network == "shop_net")
        return {*row.columns["records"]}

    full = "web1.shop.svc.cluster.local"
    assert full in names("")
    left = names(service(ALIAS, "web1"))
    assert not left & {full, "web1.shop", "web1"}
    assert "web1.shop.pod.cluster.local" in left


@pytest.mark.parametrize(
    "spec", [f"{SELECTS}, {PORTS}", f"type: LoadBalancer, {SELECTS}, {PORTS}", f"clusterIP: None, {SELECTS}"]
)
def test_external_name_becomes_another_type_and_back(spec):
    first = admitted(service(ALIAS))
    second = admitted(service(spec), first)
    assert ready(second) == ("True", "EndpointsReady")
    third = admitted(service(ALIAS), second)
    assert ready(third) == ("False", "ExternalNameNotSupported")
    assert {key: value for key, value in third.allocations.items() if value} == {
        key: value for key, value in first.allocations.items() if value
    }
