# SPDX-License-Identifier: Apache-2.0
"""Address pools on the lab's hosts: routed packets without NAT, BIRD, reboot, repair, and nothing left afterwards."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.common.polling import attempts
from tests.lab.conftest import MANIFESTS, NODES, PATIENCE, REPORT, Lab
from tests.lab.test_localnet import prefixes

POOL = """---
apiVersion: coil.cybozu.com/v2
kind: AddressPool
metadata: {name: routed}
spec:
  blockSizeBits: 1
  subnets:
    - {ipv4: 10.200.0.0/24, ipv6: "fd00:10:200::/120"}
---
apiVersion: v1
kind: Namespace
metadata:
  name: coil
  annotations: {coil.cybozu.com/pool: routed}
"""
WORKLOAD = """---
apiVersion: heddle.dev/v1
kind: Workload
metadata: {{name: {name}, namespace: coil}}
spec: {{node: {node}}}
"""
EGRESS = """---
apiVersion: coil.cybozu.com/v2
kind: Egress
metadata: {name: nat, namespace: coil}
spec: {destinations: [0.0.0.0/0], template: {spec: {nodeSelector: {kubernetes.io/hostname: node3}}}}
"""
ROUTER = """log syslog all;
router id {prefix}.2.20;
protocol device {{ }}
protocol kernel {{ ipv4 {{ export all; import none; }}; }}
protocol kernel {{ ipv6 {{ export all; import none; }}; }}
template bgp hosts {{ local as 64513; }}
"""
SESSIONS = """protocol bgp v4_{number} from hosts {{
  neighbor {prefix}.2.{number} as 64512; ipv4 {{ import all; export none; }};
}}
protocol bgp v6_{number} from hosts {{
  neighbor {prefix6}:2::{number} as 64512; ipv6 {{ import all; export none; }};
}}
"""
# Both addresses of each workload.
ADDRESSES = {f"c{number}": (f"10.200.0.{2 * number - 2}", f"fd00:10:200::{2 * number - 2:x}") for number in (2, 3)}
ADDRESSES["c1"] = ("10.200.0.0", "fd00:10:200::")


@pytest.fixture(scope="module")
def own(lab: Lab) -> dict[str, str]:
    return prefixes(lab)


@pytest.fixture(scope="module")
def router(lab: Lab, own: dict[str, str]) -> Iterator[None]:
    """BIRD on the external host, as the router on top of the rack."""
    text = ROUTER.format(**own) + "".join(SESSIONS.format(number=number, **own) for number in (1, 2, 3))
    lab.ssh("external", f"cp -a /etc/bird/bird.conf /root/bird.conf && cat > /etc/bird/bird.conf <<'END'\n{text}END")
    lab.ssh("external", "systemctl", "start", "bird")
    yield
    lab.ssh("external", "systemctl", "stop", "bird")
    lab.ssh("external", "mv /root/bird.conf /etc/bird/bird.conf")


@pytest.fixture(scope="module")
def before(lab: Lab) -> dict[str, str]:
    return {node: kernel_state(lab, node) for node in NODES}


@pytest.fixture(scope="module")
def pools(lab: Lab, router: None, before: dict, tmp_path_factory) -> Iterator:
    directory = shutil.copytree(MANIFESTS, tmp_path_factory.mktemp("coil") / "manifests")
    text = POOL + "".join(WORKLOAD.format(name=f"c{node[-1]}", node=node) for node in NODES)
    (directory / "coil.yml").write_text(text)
    lab.play("networks.yml", manifests=directory)
    yield directory
    lab.play("networks.yml")
    assert {node: kernel_state(lab, node) for node in NODES} == before
    for node in NODES:
        assert "heddle" not in lab.ssh(node, "cat", "/etc/bird/bird.conf")
        assert lab.try_ssh(node, "test", "-e", "/etc/bird/heddle.conf").returncode


def kernel_state(lab: Lab, node: str) -> str:
    """Rules, tables of pools, and namespaces of a host; the kernel's own rule is there since its first VRF.

    Rules of one preference are in the order in which they were added, which is another one after a repair. The table of
    a network's VRF has the number of its device, which is another one after a reboot.
    """
    tables = "; ".join(f"ip {version} route show table {table} 2>/dev/null"
                       for version in ("-4", "-6") for table in (116, 119, 120))  # fmt: skip
    rules = "ip rule | grep -v l3mdev; ip -6 rule | grep -v l3mdev"
    found = re.sub(r"lookup 1\d{3} ", "lookup VRF ", lab.ssh(node, f"{rules}; ls /run/netns; {tables}; true"))
    return "\n".join(sorted(found.splitlines()))


def answered(lab: Lab, host: str, netns: str, address: str, patience: int = 1) -> bool:
    inside = ["ip", "netns", "exec", netns] if netns else []
    return lab.try_ssh(host, *inside, "ping", "-n", "-c", "1", "-W", str(patience), address).returncode == 0


def wait_for(lab: Lab, pairs: list[tuple[str, str, str]]) -> None:
    """Wait until all pairs have an answer: sessions are established some seconds after a change.

    Who does not answer is asked again with more patience, as on a slow host.
    """
    left = pairs
    for number, _attempt in enumerate(attempts(PATIENCE), start=1):
        left = [pair for pair in left if not answered(lab, *pair, patience=min(number, 10))]
        if not left:
            return
    pytest.fail(f"no answer: {left}")


def pairs_of(own: dict[str, str]) -> list[tuple[str, str, str]]:
    """All workloads to each other and to the router, and the router to all workloads; both families."""
    outside = (f"{own['prefix']}.2.20", f"{own['prefix6']}:2::20")
    found = []
    for name, addresses in ADDRESSES.items():
        node, netns = f"node{name[-1]}", f"coil_{name}"
        found += [(node, netns, address) for other in ADDRESSES if other != name for address in ADDRESSES[other]]
        found += [(node, netns, address) for address in outside]
        found += [("external", "", address) for address in addresses]
    return found


def test_workloads_reach_each_other_and_the_router(lab, pools, own):
    wait_for(lab, pairs_of(own))
    routes = lab.ssh("external", "ip route; ip -6 route")
    for number in (1, 2, 3):
        assert f"10.200.0.{2 * number - 2}/31 via {own['prefix']}.2.{number} " in routes
        assert f"via {own['prefix6']}:2::{number} dev" in routes
    # No NAT: the router sees the address of the workload.
    lab.ssh("external", "rm -f /root/coil.pcap; systemd-run --quiet --unit coil-capture "
            "tcpdump -i eth2 -n -U -w /root/coil.pcap icmp or icmp6")  # fmt: skip
    for _attempt in attempts(PATIENCE):
        answered(lab, "node1", "coil_c1", f"{own['prefix']}.2.20")
        seen = lab.ssh("external", "tcpdump -n -r /root/coil.pcap 2>/dev/null; true")
        if "10.200.0.0 >" in seen:
            break
    lab.ssh("external", "systemctl stop coil-capture; rm -f /root/coil.pcap")
    assert f"10.200.0.0 > {own['prefix']}.2.20: ICMP echo request" in seen


def test_workloads_of_networks_are_isolated(lab, pools, own):
    wait_for(lab, pairs_of(own))
    listed = lab.plan()["workloads"]
    targets = [
        interface["addresses"][0].partition("/")[0]
        for name in ("red/red1", "red/red2")
        for interface in listed[name]["interfaces"]
    ]
    assert targets
    assert [address for address in targets if answered(lab, "node1", "coil_c1", address)] == []
    assert not answered(lab, "node1", "red_red1", ADDRESSES["c1"][0])
    assert not answered(lab, "node1", "red_red1", ADDRESSES["c2"][0])


def test_a_second_run_changes_nothing_and_the_audit_passes(lab, pools, own):
    wait_for(lab, pairs_of(own))
    again = lab.play("networks.yml", "--diff", manifests=pools)
    assert set(again.changed.values()) == {0}, again.output[-6000:]
    assert "0 drifted, 0 foreign, 0 notes, 0 problems" in lab.play("audit.yml").output
    # Two hosts and a router, by both families.
    assert "Neighbours of BIRD (18)" in lab.play("status.yml").output
    routing = json.loads((REPORT / "status.json").read_text())["routing"]
    assert {one["information"] for found in routing.values() for one in found} == {"Established"}
    assert {one["learned"] for one in routing["node1"] if one["title"] == "node2"} == {1}
    metrics = lab.ssh("node1", "heddle-host", "metrics").splitlines()
    assert 'coil_controller_allocated_blocks{pool="routed"} 3' in metrics
    assert 'heddle_part_differences{part="workloads"} 0' in metrics
    assert 'heddle_daemon_up{unit="bird"} 1' in metrics
    assert len([line for line in metrics if line.startswith("heddle_bird_neighbour_up{") and line.endswith(" 1")]) == 6


def test_what_is_flushed_comes_back_and_a_stopped_bird_is_reported(lab, pools, own):
    lab.ssh("node1", "ip route flush table 116; ip rule del pref 2000; ip route flush table 119")
    wait_for(lab, pairs_of(own))
    # The service of the host would restore the file, on a slow machine before the audit reads it.
    lab.ssh("node1", "systemctl stop heddle-host bird; echo '# edited' >> /etc/bird/heddle.conf")
    try:
        found = lab.play("audit.yml", success=False)
    finally:
        lab.ssh("node1", "systemctl start heddle-host")
    assert found.code
    assert "bird does not run: systemctl start bird" in found.output
    assert "BIRD configuration /etc/bird/heddle.conf" in found.output
    lab.play("networks.yml", manifests=pools)
    wait_for(lab, pairs_of(own))
    assert "# edited" not in lab.ssh("node1", "cat /etc/bird/heddle.conf")


@pytest.mark.long
def test_a_changed_template_takes_effect_or_is_refused_in_the_run_that_changes_it(lab, pools, tmp_path):
    """The plan stays as it is, so hosts were found to be as planned before the role made the text."""
    template = tmp_path / "peers.conf.j2"
    asked = ("-e", f"bird_template={template}")
    template.write_text("protocol static users_own { disabled; ipv4; }\n")
    lab.play("networks.yml", *asked, manifests=pools)
    for node in NODES:
        assert "users_own" in lab.ssh(node, "birdc", "show", "protocols")
    assert not any(lab.play("networks.yml", *asked, manifests=pools).changed.values())
    template.write_text("protocol nonsense;\n")
    refused = lab.play("networks.yml", *asked, manifests=pools, success=False)
    assert "heddle_template.conf:1" in refused.output and "syntax error" in refused.output
    assert "users_own" in lab.ssh(NODES[0], "birdc", "show", "protocols")
    lab.play("networks.yml", manifests=pools)
    for node in NODES:
        assert "users_own" not in lab.ssh(node, "birdc", "show", "protocols")


def test_a_rebooted_host_comes_back_without_a_playbook(lab, pools, own):
    lab.verb("reboot", "node2")
    wait_for(lab, pairs_of(own))


def test_verify_sends_packets_of_pools(lab, pools, own):
    wait_for(lab, pairs_of(own))
    lab.play("verify.yml", manifests=pools)
    report = json.loads((REPORT / "verify.json").read_text())
    routed = [row for row in report["networks"] if row["network"] == "address pools"]
    assert [row["family"] for row in routed] == [4, 6]
    assert all(row["reached"] == row["must_reach"] > 0 for row in routed)
    apart = [one["result"] for one in report["pairs"] if one["source"].startswith("coil/") and not one["reach"]]
    assert set(apart) == {"isolated"}
    kinds = {(row["kind"], row["family"]): row["reached"] for row in report["north_south"]["counts"]}
    for kind in ("pool to host", "host to pool", "pool to router", "router to pool"):
        assert all(kinds[kind, version] for version in (4, 6)), kind


@pytest.mark.long
def test_a_kernel_without_tunnels_is_the_reason_of_an_egress_alone(lab, pools, own, tmp_path):
    """User Mode Linux has them: `test_egress_guest.py`."""
    if not lab.try_ssh("node3", "modprobe -n fou && modprobe -n ipip").returncode:
        pytest.skip("this kernel has FoU")
    directory = shutil.copytree(pools, tmp_path / "manifests")
    (directory / "egress.yml").write_text(EGRESS)
    first = lab.play("networks.yml", manifests=directory)
    assert "lacks" in first.output
    assert "fou (IPv4)" in first.output
    lab.play("networks.yml", manifests=directory)
    objects = json.loads((REPORT / "status.json").read_text())["objects"]
    (ready,) = objects["Egress/coil/nat"]["status"]["conditions"]
    assert (ready["status"], ready["reason"]) == ("False", "NoHostForRouter")
    assert "node3 lacks " in ready["message"]
    assert set(lab.play("networks.yml", manifests=directory).changed.values()) == {0}
    wait_for(lab, pairs_of(own))
    lab.play("networks.yml", manifests=pools)
