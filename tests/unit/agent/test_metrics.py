# SPDX-License-Identifier: Apache-2.0
"""Metrics: Coil's names and labels, what a host reports, and the format."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.agent.health import health
from ansible_collections.heddle.ovn.plugins.module_utils.agent.metrics.egress_counters import counters
from ansible_collections.heddle.ovn.plugins.module_utils.agent.metrics.metrics import Observed, metrics_text
from ansible_collections.heddle.ovn.plugins.module_utils.agent.metrics.metrics_http import answer
from tests.pipeline import layer2, namespace, nodes, plan_of, workload

ROOT = Path(__file__).resolve().parents[3]
DASHBOARD = ROOT / "roles" / "metrics" / "files" / "dashboard.json"
MONITORING = ROOT / "docs" / "monitoring.md"
# Coil's tests of its pool manager have these subnets: six blocks of two addresses.
POOL = """---
apiVersion: coil.cybozu.com/v2
kind: AddressPool
metadata: {name: default}
spec:
  blockSizeBits: 1
  subnets: [{ipv4: 10.2.0.0/29, ipv6: "fd02::200/125"}, {ipv4: 10.3.0.0/30, ipv6: "fd02::300/126"}]
"""
EGRESS = """---
apiVersion: coil.cybozu.com/v2
kind: Egress
metadata: {name: nat, namespace: internet}
spec: {destinations: [0.0.0.0/0], template: {spec: {nodeSelector: {kubernetes.io/hostname: node2}}}}
"""
CLIENT = workload("red", "web", "node1").replace(
    "name: web,", "name: web, annotations: {egress.coil.cybozu.com/internet: nat},"
)
HOSTS = nodes("node1", "node2")
# As `mesh_daemon/status.py` and `dns_daemon/daemon.py` describe them.
MESH = {
    "connections": [
        {"node": "node2", "state": "established", "overlay": "fastdp", "rtt": 0.000123},
        {"node": "node3", "state": "pending", "overlay": None},
        {"node": "node4", "state": "failed"},
    ],
    "peers": {"node2": {}, "node3": {}, "node5": {}},
    "dropped": {"no route": 4, "a datagram of no neighbour": 2},
}
NAMES = {
    "example.com": {"addresses": ["192.0.2.1", "2001:db8::1"], "problem": ""},
    "lost.example.com": {"addresses": [], "problem": "no resolver answers"},
}


def rule(left: dict, right: str, packets: int, octets: int, action: str) -> dict:
    """A rule as nft(8) prints it in JSON."""
    match = {"match": {"op": "==", "left": left, "right": right}}
    other = {"match": {"op": "==", "left": {"meta": {"key": "oifname"}}, "right": "eth0"}}
    return {"rule": {"expr": [match, other, {"counter": {"packets": packets, "bytes": octets}}, {action: None}]}}


NFPROTO = {"meta": {"key": "nfproto"}}
TABLE = json.dumps({"nftables": [
    {"metainfo": {"json_schema_version": 1}}, {"table": {"family": "inet", "name": "heddle-egress"}},
    rule(NFPROTO, "ipv4", 1, 40, "drop"), rule(NFPROTO, "ipv6", 0, 0, "drop"),
    {"rule": {"expr": [{"match": {"op": "==", "left": {"&": [1, 2]}, "right": 2}}, {"mangle": {}}]}},
    rule({"payload": {"protocol": "ip", "field": "saddr"}}, "10.2.0.1", 12, 1020, "masquerade"),
    rule({"payload": {"protocol": "ip6", "field": "saddr"}}, "fd02::1", 3, 300, "masquerade"),
]})  # fmt: skip


def samples(text: str) -> dict[str, float]:
    return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in text.splitlines() if line[0] != "#"}


def test_pools_have_coils_names():
    text = POOL + namespace("a", primary=False).rstrip() + "\n  annotations: {coil.cybozu.com/pool: default}\n"
    plan = plan_of(text + workload("a", "w1", "node1") + workload("a", "w2", "node2"), hosts=HOSTS)
    found = samples(metrics_text(plan, "node1", Observed()))
    assert found['coil_controller_max_blocks{pool="default"}'] == 6
    assert found['coil_controller_allocated_blocks{pool="default"}'] == 2
    assert found["heddle_workloads"] == 1
    assert samples(metrics_text(plan, "node2", Observed()))['coil_controller_max_blocks{pool="default"}'] == 6


def test_an_egress_with_several_routers_on_a_host_has_one_count_of_clients():
    """Of a series that is there twice, node_exporter would take none of the file."""
    several = EGRESS.replace("spec: {", "spec: {replicas: 5, ", 1)
    text = namespace("internet", primary=False) + namespace("red", primary=False) + several + CLIENT
    shown = metrics_text(plan_of(text, hosts=HOSTS), "node2", Observed())
    lines = [line.rpartition(" ")[0] for line in shown.splitlines()]
    assert lines.count('coil_egress_client_pod_count{namespace="internet",egress="nat"}') == 1
    names = [line for line in lines if not line.startswith("#")]
    assert len({*names}) == len(names)


def test_egress_has_coils_names_on_the_host_of_a_router():
    plan = plan_of(
        namespace("internet", primary=False) + namespace("red", primary=False) + EGRESS + CLIENT, hosts=HOSTS
    )
    counted = {"internet_nat-0": counters(TABLE)}
    observed = Observed(connections={"internet_nat-0": (7, 262144)}, counters=counted)
    found = samples(metrics_text(plan, "node2", observed))
    assert found['coil_egress_client_pod_count{namespace="internet",egress="nat"}'] == 1
    own = plan["egress"]["workloads"]["red/web"]["addresses"]
    for address in own:
        labels = f'namespace="red",pod="web",pod_ip="{address}",interface="eth0"'
        labels += ',egress="nat",egress_namespace="internet"'
        assert found[f"coil_egress_client_pod_info{{{labels}}}"] == 1
    labels = 'namespace="internet",pod="nat-0",egress="nat"'
    assert found[f"coil_egress_nf_conntrack_entries_count{{{labels}}}"] == 7
    assert found[f"coil_egress_nf_conntrack_entries_limit{{{labels}}}"] == 262144
    totals = {"masqueraded": {4: (12, 1020), 6: (3, 300)}, "invalid": {4: (1, 40), 6: (0, 0)}}
    for kind, by_version in totals.items():
        for version, values in by_version.items():
            for unit, value in zip(("packets", "bytes"), values, strict=True):
                shown = f'{{{labels},protocol="ipv{version}"}}'
                assert found[f"coil_egress_nftables_{kind}_{unit}_total{shown}"] == value
    assert "coil_" not in metrics_text(plan, "node1", Observed())


def test_what_a_host_reports():
    plan = plan_of(namespace("red") + layer2("red", "net", "10.0.0.0/24") + workload("red", "w", "node1"), hosts=HOSTS)
    neighbour = {"name": "heddle_node2_4", "title": 'a "b"', "address": "192.0.2.2", "information": "Established",
                 "learned": 3, "advertised": 1}  # fmt: skip
    down = {**neighbour, "name": "heddle_router1_4", "title": "router", "information": "Active", "learned": 0}
    observed = Observed(
        {"topology": 2, "gateway": None}, {"ovn-northd": False}, [neighbour, down], rows=1234567,
        applied=(plan["digest"], 1795437546.25),
    )  # fmt: skip
    text = metrics_text(plan, "node1", observed)
    found = samples(text)
    assert found["heddle_networks"] == 2
    assert found["heddle_northbound_rows"] == 1234567
    assert (found["heddle_plan_applied"], found["heddle_last_apply_timestamp_seconds"]) == (1, 1795437546.25)
    older = samples(metrics_text(plan, "node1", Observed(applied=("another", 1.0))))
    assert (older["heddle_plan_applied"], older["heddle_last_apply_timestamp_seconds"]) == (0, 1)
    assert samples(metrics_text(plan, "node1", Observed()))["heddle_plan_applied"] == 0
    assert found['heddle_part_differences{part="topology"}'] == 2
    assert found['heddle_part_compared{part="gateway"}'] == 0
    assert 'heddle_part_differences{part="gateway"}' not in found
    assert found['heddle_daemon_up{unit="ovn-northd"}'] == 0
    labels = r'protocol="heddle_node2_4",neighbour="a \"b\"",address="192.0.2.2"'
    assert found[f"heddle_bird_neighbour_up{{{labels}}}"] == 1
    assert found[f"heddle_bird_learned_routes{{{labels}}}"] == 3
    assert found['heddle_bird_neighbour_up{protocol="heddle_router1_4",neighbour="router",address="192.0.2.2"}'] == 0


def test_what_services_of_the_host_report():
    found = samples(metrics_text(plan_of("", hosts=HOSTS), "node1", Observed(mesh=MESH, dns_names=NAMES)))
    shown = {name: value for name, value in found.items() if name.startswith(("heddle_mesh", "heddle_dns"))}
    assert shown == {
        "heddle_mesh_peers": 3,
        'heddle_mesh_connection_up{peer="node2"}': 1,
        'heddle_mesh_connection_up{peer="node3"}': 0,
        'heddle_mesh_connection_up{peer="node4"}': 0,
        'heddle_mesh_round_trip_seconds{peer="node2",overlay="fastdp"}': 0.000123,
        "heddle_mesh_dropped_frames_total": 6,
        'heddle_dns_name_addresses{name="example.com"}': 2,
        'heddle_dns_name_addresses{name="lost.example.com"}': 0,
        'heddle_dns_name_failed{name="example.com"}': 0,
        'heddle_dns_name_failed{name="lost.example.com"}': 1,
    }
    assert "heddle_mesh" not in metrics_text(plan_of("", hosts=HOSTS), "node1", Observed())


def test_each_service_that_the_plan_needs_is_among_the_daemons(monkeypatch):
    plan = plan_of(namespace("red") + layer2("red", "net", "10.0.0.0/24"), hosts=HOSTS)
    assert "heddle-host" in health.needed_units(plan)
    assert {"heddle-mesh", "heddle-probes", "heddle-dns-names", "heddle-underlay"}.isdisjoint(health.needed_units(plan))
    for name in ("mesh_networks", "has_probes", "has_dns_names"):
        monkeypatch.setattr(health, name, lambda _plan: True)
    monkeypatch.setattr(health, "is_running", lambda _path: False)
    monkeypatch.setattr(health, "state_or_none", lambda: None)
    plan |= {"underlay_probes": True, "coil": {}}
    assert health.stopped_services(plan).keys() - {"heddle-host"} < {*health.needed_units(plan)}
    assert len(health.stopped_services(plan).keys() - {"heddle-host"}) == 4


def test_each_metric_is_described_once_and_in_one_piece():
    """Exposition formats: all lines of a metric are one group, after its HELP and TYPE."""
    routing = [{"name": name, "title": "n", "address": "a", "information": "x", "learned": 0, "advertised": 0}
               for name in ("one", "two")]  # fmt: skip
    observed = Observed({"a": 0, "b": 0}, {"c": True}, routing)
    text = metrics_text(plan_of(POOL, hosts=HOSTS), "node1", observed)
    names = re.findall(r"^# TYPE (\S+) gauge$", text, re.MULTILINE)
    assert len(names) == len(set(names)) == text.count("# HELP ")
    order = [re.match(r"[a-z_]+", line)[0] for line in text.splitlines() if line[0] != "#"]
    assert [name for name, following in zip(order, [*order[1:], ""], strict=True) if name != following] == names


def test_metrics_of_the_dashboard_and_of_the_documentation_are_those_printed():
    """Metrics in expressions and variables, and the labels that they use; the table of metrics."""
    board = json.loads(DASHBOARD.read_text())
    texts = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    texts += [one["query"] for one in board["templating"]["list"] if one["type"] == "query"]
    used = {name for text in texts for name in re.findall(r"\b(?:heddle|coil)_[a-z_]+", text)}
    pools = namespace("a", primary=False).rstrip() + "\n  annotations: {coil.cybozu.com/pool: default}\n"
    both = namespace("internet", primary=False) + namespace("red", primary=False) + EGRESS + CLIENT
    neighbour = {
        "name": "heddle_node1_4", "title": "node1", "address": "192.0.2.1", "information": "Established",
        "learned": 1, "advertised": 1,
    }  # fmt: skip
    observed = Observed(
        {"topology": 0, "gateway": None}, {"bird": True}, [neighbour], {"internet_nat-0": (7, 262144)},
        {"internet_nat-0": counters(TABLE)}, {"red/web": True}, 5, ("digest", 1.0),
        {"node1": {"size": 1400, "needed": 1458}}, MESH, NAMES,
    )  # fmt: skip
    text = metrics_text(plan_of(POOL + pools + both, hosts=HOSTS), "node2", observed)
    printed = {re.split(r"[{ ]", line)[0] for line in text.splitlines() if not line.startswith("#")}
    assert used == printed
    documented = set(re.findall(r"`((?:heddle|coil)_[a-z_]+)`", MONITORING.read_text()))
    assert printed == documented
    labels = set(re.findall(r'(\w+)="', text)) | {"instance"}
    shown = {name for panel in board["panels"] for one in panel["targets"]
             for name in re.findall(r"\{\{(\w+)\}\}", one["legendFormat"])}  # fmt: skip
    grouped = {
        name.strip() for text in texts for names in re.findall(r"by \(([^)]*)\)", text) for name in names.split(",")
    }
    assert shown | grouped <= labels


@pytest.mark.parametrize(
    ("request_text", "status", "body"),
    [
        (b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n", b"200 OK", b"a 1\n"),
        (b"GET /metrics?x=1 HTTP/1.1\r\n\r\n", b"200 OK", b"a 1\n"),
        (b"HEAD /metrics HTTP/1.1\r\n\r\n", b"200 OK", b""),
        (b"GET / HTTP/1.1\r\n\r\n", b"404 Not Found", b"metrics are at /metrics\n"),
        (b"POST /metrics HTTP/1.1\r\n\r\n", b"405 Method Not Allowed", b""),
        (b"", b"400 Bad Request", b""),
        (b"GET /metrics HTTP/1.1\r\n" + b"X: y\r\n" * 9000, b"400 Bad Request", b""),
    ],
)
def test_an_http_request_is_answered(request_text, status, body):
    written = io.BytesIO()
    answer(io.BytesIO(request_text), written, lambda: "a 1\n")
    head, _empty, text = written.getvalue().partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 " + status)
    assert text == body
