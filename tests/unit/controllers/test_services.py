# SPDX-License-Identifier: Apache-2.0
"""Services in the state: cluster IPs, families, endpoints, what is refused and what the status says."""

from __future__ import annotations

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.controllers.conditions import condition
from ansible_collections.heddle.ovn.plugins.module_utils.plan import build_plan
from tests.pipeline import decide, layer2, namespace, stored, with_gateways, workload

RED = namespace("red") + layer2("red", "net", "10.0.0.0/24", "fd00:10::/64")
PLAIN = namespace("plain", primary=False)
DUAL = "ipFamilyPolicy: PreferDualStack, "
IPV4_ONLY = {"service_subnets": ["10.96.0.0/16"]}
SMALL = {"service_subnets": ["10.96.0.0/30"]}


def service(name: str = "web", spec: str = "selector: {app: web}, ports: [{port: 80}]", where: str = "red") -> str:
    return (
        f"---\napiVersion: v1\nkind: Service\nmetadata: {{name: {name}, namespace: {where}}}\nspec: {{{spec}}}\n"
    )  # fmt: skip


def server(name: str, spec: str = "", where: str = "red", node: str = "node1", app: str = "web") -> str:
    return workload(where, name, node).replace(
        f"namespace: {where}}}\nspec: {{", f"namespace: {where}, labels: {{app: {app}}}}}\nspec: {{{spec}"
    )


def endpoint_slice(addresses: str, family: str = "IPv4", more: str = "", name: str = "web-1") -> str:
    return (
        "---\napiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\n"
        f"metadata: {{name: {name}, namespace: red, labels: {{kubernetes.io/service-name: web}}}}\n"
        f"addressType: {family}\nports: [{{port: 8080}}]\nendpoints: [{{addresses: [{addresses}]{more}}}]\n"
    )


def status(text: str, key: str = "Service/red/web", **more) -> dict:
    return stored(text, **more).objects[key].status


def ready(text: str, key: str = "Service/red/web", **more) -> tuple[str, str, str]:
    found = condition(stored(text, **more).objects[key], "Ready")
    return found["status"], found["reason"], found["message"]


def refused(text: str, **more) -> list[str]:
    return [f"{problem.path}: {problem.rule}" for problem in decide(text, **more)[1]]


def endpoints(text: str, **more) -> list[list[tuple[str, int]]]:
    entry = build_plan(stored(text, **more))["services"]["red_net"]["red/web"]
    return [[(one["address"], one["port"]) for one in port["endpoints"]] for port in entry["ports"]]


@pytest.mark.parametrize(
    ("spec", "addresses"),
    [
        ("", ["10.96.1.0"]),
        ("ipFamilies: [IPv6], ", ["fd00:10:96::100"]),
        ("ipFamilyPolicy: PreferDualStack, ", ["10.96.1.0", "fd00:10:96::100"]),
        ("ipFamilyPolicy: RequireDualStack, ipFamilies: [IPv6, IPv4], ", ["fd00:10:96::100", "10.96.1.0"]),
        ("clusterIP: 10.96.0.9, ", ["10.96.0.9"]),
        ("clusterIP: 'fd00:10:96::9', ipFamilyPolicy: PreferDualStack, ", ["fd00:10:96::9", "10.96.1.0"]),
        ("clusterIP: None, ", ["None"]),
    ],
)
def test_families_and_addresses(spec, addresses):
    found = status(RED + service(spec=spec + "ports: [{port: 80}]"))
    assert found["clusterIPs"] == addresses
    if addresses != ["None"]:
        assert found["ipFamilies"] == ["IPv6" if ":" in address else "IPv4" for address in addresses]


def test_a_cluster_with_one_family():
    one = "ipFamilyPolicy: PreferDualStack, ports: [{port: 80}]"
    assert status(RED + service(spec=one), settings=IPV4_ONLY)["clusterIPs"] == ["10.96.1.0"]
    assert refused(RED + service(spec=one.replace("Prefer", "Require")), settings=IPV4_ONLY) == [
        'spec.ipFamilyPolicy: Invalid value: "RequireDualStack": this cluster is not configured for dual-stack services'
    ]
    assert refused(RED + service(spec="ipFamilies: [IPv6], ports: [{port: 80}]"), settings=IPV4_ONLY) == [
        'spec.ipFamilies[0]: Invalid value: "IPv6": not configured on this cluster'
    ]
    assert refused(RED + service(spec="clusterIP: 'fd00::1', ports: [{port: 80}]"), settings=IPV4_ONLY) == [
        'spec.clusterIPs[0]: Invalid value: "fd00::1": IPv6 is not configured on this cluster'
    ]


def test_headless_without_selector_has_both_families():
    assert status(RED + service(spec="clusterIP: None"))["ipFamilies"] == ["IPv4", "IPv6"]


def test_addresses_stay_and_are_unique_over_networks():
    first = stored(RED + PLAIN + service("web") + service("other") + service("web", where="plain"))
    held = first.allocations["cluster-ip-v4"]
    assert len(set(held.values())) == len(held) == 3
    second = stored(RED + PLAIN + service("a") + service("web") + service("web", where="plain"), first)
    assert second.allocations["cluster-ip-v4"]["red/web"] == held["red/web"]
    assert "red/other" not in second.allocations["cluster-ip-v4"]
    assert stored(RED + PLAIN, second).allocations.get("cluster-ip-v4") is None


def test_requested_addresses():
    taken = service("one", "clusterIP: 10.96.0.9, ports: [{port: 80}]")
    both = RED + taken + service("two", "clusterIP: 10.96.0.9, ports: [{port: 80}]")
    assert refused(both) == [
        'spec.clusterIPs[0]: Invalid value: "10.96.0.9": failed to allocate IP 10.96.0.9: provided IP is already '
        "allocated to red/one"
    ]
    before = stored(RED + service("one"))
    held = before.allocations["cluster-ip-v4"]["red/one"]
    again = RED + service("one") + service("two", f"clusterIP: {held}, ports: [{{port: 80}}]")
    assert "already allocated to red/one" in refused(again, before=before)[0]
    for outside in ("10.96.0.0", "10.96.255.255", "10.97.0.1"):
        text = RED + service(spec=f"clusterIP: {outside}, ports: [{{port: 80}}]")
        assert "provided IP is not in the valid range. The range of valid IPs is 10.96.0.0/16" in refused(text)[0]


def test_addresses_of_shared_services_are_not_allocated():
    shared = {
        "name": "kube-system/dns", "address": "10.96.1.0", "ports": [{"protocol": "UDP", "port": 53}], "endpoints": [],
    }  # fmt: skip
    settings = {"shared_services": [shared]}
    assert status(RED + service(), settings=settings)["clusterIPs"] == ["10.96.1.1"]
    assert refused(RED + service(), before=stored(RED + service()), settings=settings) == [
        "shared_services: 10.96.1.0 is the cluster IP of Service red/web"
    ]
    same = {"shared_services": [{**shared, "name": "red/web"}]}
    assert refused(RED + service(), settings=same) == [
        "metadata.name: is a shared service of the setting shared_services"
    ]


def test_exhausted_service_subnets_are_refused():
    assert stored(RED + service("a") + service("b"), settings=SMALL)
    [problem] = refused(RED + service("a") + service("b") + service("c"), settings=SMALL)
    assert problem.startswith("spec: cluster IPs in 10.96.0.0/30: 3 are wanted, all 2 are taken")


@pytest.mark.parametrize(
    ("before", "after", "rule"),
    [
        ("", "clusterIP: 10.96.0.9, ", '"10.96.0.9": may not change once set: it is 10.96.1.0'),
        ("", "clusterIP: None, ", "may not change once set: it is an address"),
        ("clusterIP: None, ", "", "may not change once set: it is None"),
        ("", "ipFamilies: [IPv6], ", '"IPv6": may not change once set: it is IPv4'),
        ("", "clusterIP: 'fd00:10:96::77', ", '"fd00:10:96::77": may not change once set: it is 10.96.1.0'),
        (
            DUAL,
            "clusterIP: 'fd00:10:96::100', clusterIPs: ['fd00:10:96::100', 10.96.1.0], " + DUAL,
            '"fd00:10:96::100": may not change once set: it is 10.96.1.0',
        ),
        (
            DUAL,
            "clusterIP: 'fd00:10:96::100', ipFamilyPolicy: SingleStack, ",
            '"fd00:10:96::100": may not change once set: it is 10.96.1.0',
        ),
        (
            DUAL,
            "clusterIP: 10.96.1.0, clusterIPs: [10.96.1.0, 'fd00:10:96::77'], " + DUAL,
            '"fd00:10:96::77": may not change once set: it is fd00:10:96::100',
        ),
    ],
)
def test_what_may_not_change(before, after, rule):
    ports = "selector: {app: web}, ports: [{port: 80}]"
    [problem] = refused(RED + service(spec=after + ports), before=stored(RED + service(spec=before + ports)))
    assert rule in problem


def test_a_headless_service_may_change_its_families():
    """Kubernetes, `validateUpgradeDowngradeIPFamilies`: it has no address that would be lost."""
    before = stored(RED + service(spec="selector: {app: web}, clusterIP: None, ipFamilies: [IPv4]"))
    text = RED + service(spec="selector: {app: web}, clusterIP: None, ipFamilies: [IPv6]")
    assert stored(text, before).objects["Service/red/web"].status["ipFamilies"] == ["IPv6"]


def test_an_address_that_a_service_releases_can_be_requested_in_the_same_run():
    ports = "ports: [{port: 80}]"
    before = stored(RED + service("one", DUAL + ports))
    asks = service("two", f"clusterIP: 'fd00:10:96::100', {ports}")
    after = stored(RED + service("one", ports) + asks, before)
    assert after.allocations["cluster-ip-v6"] == {"red/two": "fd00:10:96::100"}
    assert "already allocated to red/one" in refused(RED + service("one", DUAL + ports) + asks, before=before)[0]


def test_a_second_family_is_added_and_released():
    ports = "ports: [{port: 80}]"
    first = stored(RED + service(spec=ports))
    second = stored(RED + service(spec=f"ipFamilyPolicy: PreferDualStack, {ports}"), first)
    assert second.objects["Service/red/web"].status["clusterIPs"] == ["10.96.1.0", "fd00:10:96::100"]
    third = stored(RED + service(spec=ports), second)
    assert third.objects["Service/red/web"].status["clusterIPs"] == ["10.96.1.0"]


def test_endpoints_are_workloads_with_the_labels():
    others = server("away", app="api") + server("b", node="node2")
    assert endpoints(RED + service() + server("a") + others) == [[("10.0.0.3", 80), ("10.0.0.5", 80)]]


def test_named_target_ports_and_readiness():
    spec = (
        "selector: {app: web}, ports: "
        "[{name: h, port: 80, targetPort: http}, {name: d, protocol: UDP, port: 53, targetPort: dns}]"
    )
    named = "ports: [{name: http, containerPort: 8080}, {name: dns, protocol: UDP, containerPort: 5353}], "
    text = RED + service(spec=spec) + server("a", named) + server("b", "ports: [{name: http, containerPort: 81}], ")
    assert endpoints(text) == [[("10.0.0.3", 8080), ("10.0.0.4", 81)], [("10.0.0.3", 5353)]]
    unready = text.replace("spec: {ports: [{name: http, containerPort: 81}", "spec: {ready: false, ports: "
                           "[{name: http, containerPort: 81}")  # fmt: skip
    assert endpoints(unready) == [[("10.0.0.3", 8080)], [("10.0.0.3", 5353)]]
    published = unready.replace("selector: {app: web}, ", "selector: {app: web}, publishNotReadyAddresses: true, ")
    assert endpoints(published) == endpoints(text)


def test_endpoint_slices_are_added_by_port_name_and_family():
    spec = "ipFamilyPolicy: PreferDualStack, ports: [{port: 443}]"
    both = endpoint_slice("192.0.2.9") + endpoint_slice("'2001:db8::9'", "IPv6", name="web-2")
    unready = endpoint_slice("192.0.2.10", more=", conditions: {ready: false}", name="web-3")
    assert endpoints(RED + service(spec=spec) + both + unready) == [[("192.0.2.9", 8080), ("2001:db8::9", 8080)]]
    named = "ports: [{name: other, port: 443}]"
    assert endpoints(RED + service(spec=named) + both) == [[]]


def test_endpoints_of_headless_services_by_name():
    spec = "selector: {app: web}, clusterIP: None, ipFamilyPolicy: PreferDualStack"
    both = endpoint_slice("192.0.2.9", more=", hostname: old") + endpoint_slice("'2001:db8::9'", "IPv6", name="web-2")
    text = RED + service(spec=spec) + server("a") + both
    plan = build_plan(stored(text, settings={"cluster_domain": "cluster.local"}))
    assert plan["headless"]["red_net"]["red/web"] == {
        "a": ["10.0.0.3", "fd00:10::3"],
        "old": ["192.0.2.9"],
        "": ["2001:db8::9"],
    }


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (RED + service() + server("a"), ("True", "EndpointsReady", "addresses of endpoints on network red_net: 1")),
        (RED + service(),
         ("True", "NoEndpoints", "no endpoint is ready on network red_net, connections are rejected")),
        (namespace("red") + service(),
         ("False", "PrimaryNetworkMissing",
          "namespace red is labelled for a primary network and has none that can be used")),
        (namespace("red") + layer2("red", "net", "fd00:10::/64") + service() + server("a"),
         ("False", "IPFamilyNotOnNetwork", "network red_net has no IPv4")),
        (RED + service(spec="selector: {app: web}, ports: [{port: 80, targetPort: http}]") + server("a"),
         ("False", "TargetPortNotFound", "targetPort http (TCP) is a port of none of red/a")),
    ],
)  # fmt: skip
def test_what_the_status_says(text, expected):
    assert ready(text) == expected


LOCAL = "externalTrafficPolicy: Local, "


@pytest.mark.parametrize(
    ("spec", "address", "more", "reason"),
    [
        ("type: NodePort, ", "192.0.2.9", "", "EndpointsReady"),
        ("type: LoadBalancer, ", "192.0.2.9", "", "EndpointsReady"),
        ("externalIPs: [198.51.100.7], ", "192.0.2.9", "", "EndpointsReady"),
        ("type: NodePort, " + LOCAL, "192.0.2.9", ", nodeName: node1", "EndpointsBeyondNetwork"),
        ("type: LoadBalancer, " + LOCAL, "192.0.2.9", "", "EndpointsBeyondNetwork"),
        ("externalIPs: [198.51.100.7], " + LOCAL, "192.0.2.9", "", "EndpointsBeyondNetwork"),
        # An address of node1, which workloads on node1 do not reach.
        ("type: NodePort, " + LOCAL, "192.0.2.11", ", nodeName: node1", "EndpointsBeyondNetwork"),
        ("", "192.0.2.11", "", "EndpointsBeyondNetwork"),
        ("type: NodePort, " + LOCAL, "192.0.2.11", ", nodeName: node2", "EndpointsBeyondNetwork"),
        ("type: NodePort, " + LOCAL, "192.0.2.11", "", "EndpointsBeyondNetwork"),
        ("type: NodePort, " + LOCAL, "10.0.0.9", "", "EndpointsReady"),
        ("", "192.0.2.9", "", "EndpointsReady"),
    ],
)
def test_endpoints_that_external_hosts_do_not_reach(spec, address, more, reason):
    text = RED + service(spec=spec + "ports: [{port: 80}]") + endpoint_slice(address, more=more)
    assert ready(text, hosts=with_gateways("shared"))[1] == reason


@pytest.mark.parametrize(
    ("more", "reason"),
    [(", nodeName: node1", "EndpointsReady"), (", nodeName: node2", "EndpointsBeyondNetwork")],
)
def test_processes_of_hosts_as_endpoints_on_the_default_network(more, reason):
    text = service(spec=f"type: NodePort, {LOCAL}ports: [{{port: 80}}]") + endpoint_slice("192.0.2.11", more=more)
    assert ready(namespace("red", primary=False) + text, hosts=with_gateways("shared"))[1] == reason


def test_processes_of_hosts_that_listen_by_sctp_are_reached_by_all_workloads():
    text = service(spec="ports: [{port: 80, protocol: SCTP}]") + endpoint_slice("192.0.2.11")
    text = text.replace("ports: [{port: 8080}]", "ports: [{port: 8080, protocol: SCTP}]")
    assert ready(RED + text, hosts=with_gateways("shared"))[1] == "EndpointsReady"


def test_status_of_slices():
    key = "EndpointSlice/red/web-1"
    assert ready(RED + endpoint_slice("192.0.2.9"), key)[:2] == ("False", "ServiceNotFound")
    assert ready(RED + service() + endpoint_slice("192.0.2.9"), key)[:2] == ("True", "EndpointsAdded")
    nameless = endpoint_slice("192.0.2.9").replace("kubernetes.io/service-name: web", "")
    assert ready(RED + nameless, key)[:2] == ("False", "ServiceNotNamed")


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("type: ''", {"type": "ClusterIP"}),
        ("sessionAffinity: ''", {"affinity": 0}),
        ("type: NodePort, externalTrafficPolicy: ''", {"externalTrafficPolicy": "Cluster"}),
        ("loadBalancerIP: 192.0.2.9", {"loadBalancerIP": None}),
        ("type: NodePort, loadBalancerIP: 192.0.2.9", {"loadBalancerIP": None}),
        # Two spellings of one range were two equal flows.
        (
            "type: LoadBalancer, loadBalancerSourceRanges: [10.0.0.0/8, 10.1.2.3/8]",
            {"loadBalancerSourceRanges": ["10.0.0.0/8"]},
        ),
    ],
)
def test_what_an_api_server_replaces_by_defaults_or_ignores(spec, expected):
    ports = "ports: [{port: 80, protocol: ''}]"
    found = stored(RED + service(spec=f"{spec}, {ports}")).objects["Service/red/web"].spec
    assert found.items() >= expected.items()
    assert found["ports"][0]["protocol"] == "TCP"


def test_the_type_of_addresses_of_a_slice_cannot_change():
    text = RED + service(spec="ports: [{port: 80}]")
    before = stored(text + endpoint_slice("10.0.0.9"))
    assert refused(text + endpoint_slice("'fd00:10::9'", "IPv6"), before=before) == [
        'addressType: Invalid value: "IPv6": field is immutable'
    ]
    stored(text + endpoint_slice("'fd00:10::9'", "IPv6", name="web-2"), before=before)


def test_a_slice_as_kubectl_shows_it():
    pasted = endpoint_slice("192.0.2.9").replace("{name: web-1,", "{name: web-1, generateName: web-,")
    assert endpoints(RED + service() + pasted) == [[("192.0.2.9", 8080)]]
    # kube-proxy passes over ports without a number.
    assert endpoints(RED + service() + pasted.replace("port: 8080", "port: null")) == [[]]


def test_a_slice_whose_ports_no_service_port_has_says_so():
    key, text = "EndpointSlice/red/web-1", RED + service(spec="ports: [{name: http, port: 80}]")
    assert ready(text + endpoint_slice("192.0.2.9"), key) == (
        "False", "ServicePortNotFound",
        "no port of Service red/web has the name and protocol of a port here: without a name (TCP)",
    )  # fmt: skip
    assert ready(text + endpoint_slice("192.0.2.9").replace("ports: [{port: 8080}]\n", ""), key) == (
        "False", "ServicePortNotFound", "it has no port, and Service red/web has",
    )  # fmt: skip
    named = endpoint_slice("192.0.2.9").replace("{port: 8080}", "{name: http, port: 8080}")
    assert ready(text + named, key)[1] == "EndpointsAdded"
    assert ready(text + named.replace("name: http", "name: http, protocol: UDP"), key)[1] == "ServicePortNotFound"
    # The names of a headless Service have addresses whatever the ports.
    headless = RED + service(spec="clusterIP: None, ports: [{name: http, port: 80}]")
    assert ready(headless + endpoint_slice("192.0.2.9"), key)[1] == "EndpointsAdded"


def test_a_headless_service_without_ports_has_endpoints():
    text = RED + service(spec="selector: {app: web}, clusterIP: None")
    assert ready(text + server("a"))[1:] == ("EndpointsReady", "addresses of endpoints on network red_net: 1")
    assert ready(text)[1:] == ("NoEndpoints", "no endpoint is ready on network red_net")


def test_an_endpoint_in_a_slice_and_of_the_selector_counts_once():
    entry = build_plan(stored(RED + service() + server("a") + endpoint_slice("10.0.0.3").replace("8080", "80")))
    [port] = entry["services"]["red_net"]["red/web"]["ports"]
    assert port["endpoints"] == [{"address": "10.0.0.3", "port": 80, "node": "node1"}]
    slices = endpoint_slice("192.0.2.9") + endpoint_slice("192.0.2.9", more=", nodeName: node2", name="web-2")
    [port] = build_plan(stored(RED + service() + slices))["services"]["red_net"]["red/web"]["ports"]
    assert port["endpoints"] == [{"address": "192.0.2.9", "port": 8080, "node": "node2"}]


def test_terminating_endpoints_serve_where_no_other_is_ready():
    """Kubernetes, KEP-1669: while the last endpoints terminate, new connections go to them."""
    leaving = ", conditions: {ready: false, serving: true, terminating: true}"
    spec = "ipFamilyPolicy: PreferDualStack, ports: [{port: 443}]"
    last = endpoint_slice("192.0.2.9", more=leaving)
    assert endpoints(RED + service(spec=spec) + last) == [[("192.0.2.9", 8080)]]
    six = endpoint_slice("'2001:db8::9'", "IPv6", name="web-2")
    assert endpoints(RED + service(spec=spec) + last + six) == [[("2001:db8::9", 8080), ("192.0.2.9", 8080)]]
    other = endpoint_slice("192.0.2.10", name="web-2")
    assert endpoints(RED + service(spec=spec) + last + other) == [[("192.0.2.10", 8080)]]
    for conditions in ("{ready: false}", "{ready: false, terminating: true, serving: false}",
                       "{ready: false, serving: true}"):  # fmt: skip
        text = endpoint_slice("192.0.2.9", more=f", conditions: {conditions}")
        assert endpoints(RED + service(spec=spec) + text) == [[]]


def test_a_bad_service_stops_no_other():
    plan = build_plan(stored(RED + service() + server("a") + namespace("lost") + service(where="lost")))
    assert list(plan["services"]) == ["red_net"]


def test_the_same_manifests_change_nothing():
    text = RED + service() + server("a") + endpoint_slice("192.0.2.9")
    first = stored(text)
    assert stored(text, first) == first
