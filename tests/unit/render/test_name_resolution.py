# SPDX-License-Identifier: Apache-2.0
"""Which name servers and search domains workloads get."""

from __future__ import annotations

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.render.host.netns import render_endpoints
from ansible_collections.heddle.ovn.plugins.module_utils.render.northbound import render_northbound
from ansible_collections.heddle.ovn.plugins.module_utils.render.services.names import MOST_ADDRESSES
from tests.pipeline import THREE_NODES, layer2, namespace, plan_of, workload

TEXT = (
    namespace("red") + layer2("red", "net", "203.203.0.0/16", "2010:100:200::/60")
    + workload("red", "a", "node1") + workload("red", "vm", "node1, kind: vm")
)  # fmt: skip
DOMAINS = "red.svc.cluster.local svc.cluster.local cluster.local"


def shared(*addresses: str) -> dict:
    ports = [{"protocol": "UDP", "port": 53}]
    ends = {address: "fd00:18::9" if ":" in address else "172.18.0.9" for address in addresses}
    described = [{"address": one, "ports": ports, "endpoints": [end]} for one, end in ends.items()]
    return {"shared_services": [{"name": "kube-system/kube-dns", **one} for one in described]}


@pytest.mark.parametrize(
    ("of_node", "settings", "file", "by_dhcp"),
    [
        ([], {}, ["203.203.0.1", "2010:100:200::1"], ["203.203.0.1", "2010:100:200::1"]),
        (["198.51.100.53"], {}, ["198.51.100.53"], ["198.51.100.53", None]),
        (["2001:db8::1", "198.51.100.1", "198.51.100.2"], {}, ["198.51.100.1", "198.51.100.2", "2001:db8::1"],
         ["{198.51.100.1, 198.51.100.2}", "2001:db8::1"]),
        (["198.51.100.53"], shared("10.96.0.10"), ["10.96.0.10"], ["10.96.0.10", None]),
        (["198.51.100.53"], shared("10.96.0.10", "fd00:10:96::a"), ["10.96.0.10", "fd00:10:96::a"],
         ["10.96.0.10", "fd00:10:96::a"]),
        (["198.51.100.53"], {"cluster_domain": ""}, None, ["198.51.100.53", None]),
        ([], {"cluster_domain": ""}, None, [None, None]),
    ],
)  # fmt: skip
def test_name_servers_of_workloads(of_node, settings, file, by_dhcp):
    hosts = {name: {**host, "name_servers": of_node if name == "node1" else ["192.0.2.1"]}
             for name, host in THREE_NODES.items()}  # fmt: skip
    plan = plan_of(TEXT, hosts=hosts, settings=settings)
    [endpoint] = render_endpoints(plan, "node1")
    lines = [f"search {DOMAINS}", *(f"nameserver {server}" for server in file or ())]
    assert endpoint.resolver == ("".join(f"{line}\n" for line in lines) if file else "")
    options = {
        row.columns["cidr"]: row.columns["options"].get("dns_server")
        for row in render_northbound(plan, "node1") if row.table == "DHCP_Options"
    }  # fmt: skip
    assert [options["203.203.0.0/16"], options["2010:100:200::/60"]] == by_dhcp


def test_name_servers_of_another_family_leave_the_gateway():
    """Else a virtual machine has none, and does not even resolve what OVN answers."""
    hosts = {name: {**host, "name_servers": ["198.51.100.53"]} for name, host in THREE_NODES.items()}
    plan = plan_of(TEXT.replace("'203.203.0.0/16', ", ""), hosts=hosts)
    [endpoint] = render_endpoints(plan, "node1")
    assert endpoint.resolver == f"search {DOMAINS}\nnameserver 2010:100:200::1\n"
    [row] = [row for row in render_northbound(plan, "node1") if row.table == "DHCP_Options"]
    assert row.columns["options"]["dns_server"] == "2010:100:200::1"


def records_of(text: str) -> dict[str, str]:
    [row] = [row for row in render_northbound(plan_of(text), "node1") if row.table == "DNS"]
    return row.columns["records"]


def service_of(name: str, more: str = "") -> str:
    metadata = f"metadata: {{name: {name}, namespace: red}}"
    return (
        f"---\napiVersion: v1\nkind: Service\n{metadata}\nspec: {{selector: {{app: w}}, ports: [{{port: 80}}]{more}}}\n"
    )


def test_a_short_name_of_a_workload_is_found_in_the_first_search_domain():
    """Unless a Service has it: `a` is both."""
    records = records_of(TEXT + service_of("a"))
    assert records["vm.red.svc.cluster.local"] == records["vm.red.pod.cluster.local"] == records["vm"]
    assert records["a.red.svc.cluster.local"] == records["a"] != records["a.red.pod.cluster.local"]


def test_a_headless_service_has_as_many_addresses_as_an_answer_holds():
    many = "".join(workload("red", f"w{number}", "node1") for number in range(40))
    text = TEXT + many.replace("namespace: red}", "namespace: red, labels: {app: w}}")
    chosen = records_of(text + service_of("all", ", clusterIP: None, ipFamilyPolicy: RequireDualStack"))[
        "all.red.svc.cluster.local"
    ].split()
    assert len(chosen) == 2 * MOST_ADDRESSES == len({*chosen})
    # RFC 1035, sections 4.1.1 to 4.1.3; the headers of UDP and IPv6.
    assert MOST_ADDRESSES * (2 + 2 + 2 + 4 + 2 + 16) + 12 + 255 + 4 + 8 + 40 <= 1280


@pytest.mark.parametrize("more", [", clusterIP: None", ", ipFamilies: [IPv4]"])
def test_a_workload_does_not_have_the_name_of_a_service_without_addresses(more):
    """Else one that is not ready would answer for a headless Service, and be its only endpoint."""
    text = TEXT.replace("203.203.0.0/16, ", "").replace("['203.203.0.0/16', ", "[") + service_of("a", more)
    records = records_of(text)
    assert "a.red.pod.cluster.local" in records
    assert not {"a.red.svc.cluster.local", "a.red", "a"} & records.keys()
    assert {"vm.red.svc.cluster.local", "vm.red", "vm"} <= records.keys()
