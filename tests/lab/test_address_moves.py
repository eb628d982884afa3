# SPDX-License-Identifier: Apache-2.0
"""Addresses move between hosts by playbook: an external host never finds one on two hosts at a time.

Those of a load balancer, to which it connects, and those of an EgressIP, with which workloads connect to it.
"""

from __future__ import annotations

import json
import shlex
import shutil

import pytest
import yaml

from tests.lab.conftest import MANIFESTS, NODES
from tests.lab.green_network import GREEN
from tests.lab.remote_program import RemoteProgram
from tests.lab.tenants import TENANTS, egress_ip
from tests.lab.test_coil import own

__all__ = ["own"]
NETWORK = (
    GREEN
    + """---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: green}
spec:
  type: LoadBalancer
  externalTrafficPolicy: Local
  ipFamilyPolicy: PreferDualStack
  selector: {app: web}
  ports: [{port: 80, targetPort: 8080}]
"""
)
WORKLOAD = """---
apiVersion: heddle.dev/v1
kind: Workload
metadata: {{name: web-{node}, namespace: green, labels: {{app: web}}}}
spec: {{node: {node}, ready: {ready}}}
"""
HOSTS = ("node1", "node3")
UNIT = "heddle-test-web"
SERVE = (
    "import socket; s = socket.create_server(('::', 8080), family=socket.AF_INET6, dualstack_ipv6=True, backlog=128)\n"
    "while True: s.accept()"
)
pytestmark = pytest.mark.long


def manifests(ready: str) -> str:
    return NETWORK + "".join(WORKLOAD.format(node=node, ready=str(node == ready).lower()) for node in HOSTS)


def holder(lab) -> tuple[dict[str, str], dict]:
    """Return the host of each address of the Service, and the plan."""
    plan = json.loads(lab.ssh("node2", "cat", "/var/lib/heddle/plan.json"))
    service = plan["services"]["green_net"]["green/web"]
    return {one["address"]: one["node"] for one in service["external"]["load_balancer"]}, plan


def test_an_address_is_on_one_host_at_a_time(lab, own, tmp_path):
    directory = shutil.copytree(MANIFESTS, tmp_path / "manifests")
    (directory / "green.yml").write_text(manifests("node1"))
    lab.play("networks.yml", manifests=directory)
    try:
        for node in HOSTS:
            path = f"--property=NetworkNamespacePath=/run/netns/green_web-{node}"
            lab.ssh(node, "systemd-run", "--quiet", f"--unit={UNIT}", path, "python3", "-c", f'"{SERVE}"')
        before, plan = holder(lab)
        assert set(before.values()) == {"node1"}
        assert len(before) == 2
        owns = [f"{own['prefix']}.2.20", f"{own['prefix6']}:2::20"]
        watch = RemoteProgram(lab, "external", "address_watch.py", "to", "eth2", owns, {key: [80] for key in before})
        assert watch.line() == "ready"
        (directory / "green.yml").write_text(manifests("node3"))
        lab.play("networks.yml", manifests=directory)
        assert set(holder(lab)[0].values()) == {"node3"}
        expect_move(watch, plan, dict.fromkeys(before, HOSTS))
    finally:
        for node in HOSTS:
            lab.try_ssh(node, "systemctl", "stop", UNIT)
        lab.play("networks.yml")


def expect_move(watch: RemoteProgram, plan: dict, hosts: dict[str, tuple[str, str]]) -> None:
    """End the watch: each address was at its former host, then at the new one, where connections work."""
    watch.go_on()
    found = watch.line()
    # Without an assertion on time, which depends on the machine.
    print(json.dumps(found))
    assert found["others"] == []
    for address, seen in found["addresses"].items():
        macs = [plan["nodes"][node]["gateway"]["mac"] for node in hosts[address]]
        for kind in ("hosts", "senders", "frames"):
            assert [mac for mac, _when in seen[kind]] in (macs, [] if kind == "senders" else macs), (address, kind)
        # A new host sends packets of workloads when it has said that it has the address.
        for (mac, sent), (_mac, answered) in zip(seen["senders"], seen["hosts"], strict=False):
            assert sent >= answered or mac != macs[-1] or len(macs) == 1, address
        for port, one in seen["ports"].items():
            assert one["accepted"], f"{address} {port}: no connection after the move"


LEAVING = """---
apiVersion: heddle.dev/v1
kind: Workload
metadata: {{name: on-{node}, namespace: {namespace}}}
spec: {{node: {node}}}
"""
FIRST_PORT, FIRST_ADDRESS = 7700, 120
# A new connection to each address every 200 ms, until it is ended; one that gets no answer is given up after a second.
# Each is a packet that ovs-vswitchd handles: many more keep a guest from applying the plan.
CONNECT = """
import socket, sys, time
port, targets, opened = int(sys.argv[1]), sys.argv[2:], []
while True:
    for target in targets:
        one = socket.socket(socket.AF_INET6 if ":" in target else socket.AF_INET, socket.SOCK_STREAM)
        one.setblocking(False)
        try:
            one.connect_ex((target, port))
        except OSError:
            pass
        opened.append((one, time.monotonic()))
    while opened and time.monotonic() - opened[0][1] > 1:
        opened.pop(0)[0].close()
    time.sleep(0.2)
"""


@pytest.fixture
def assignable(tmp_path):
    """A function: the arguments of a playbook in which only these hosts may hold egress addresses."""

    def arguments(*names: str) -> tuple[str, ...]:
        labels = {name: {"k8s.ovn.org/egress-assignable": ""} if name in names else {} for name in NODES}
        hosts = {name: {"heddle_node_labels": found} for name, found in labels.items()}
        path = tmp_path / f"{'-'.join(names)}.yml"
        path.write_text(yaml.safe_dump({"all": {"hosts": hosts}}))
        return "-i", "inventories/lab", "-i", str(path)

    return arguments


def egress_holders(lab) -> tuple[dict[str, str], dict]:
    """Return the host of each address of the tenants' EgressIPs, and the plan."""
    plan = json.loads(lab.ssh("node2", "cat", "/var/lib/heddle/plan.json"))
    entries = [plan["egress_ips"][name] for name in TENANTS]
    return {one["address"]: one["node"] for entry in entries for one in entry["addresses"]}, plan


def test_workloads_leave_with_an_egress_address_by_one_host_at_a_time(lab, own, assignable, tmp_path):
    """Workloads on the former host, on the new one, and on another one, on Layer2, Layer3 and the default network."""
    directory = shutil.copytree(MANIFESTS, tmp_path / "manifests")
    text, watched, ports = "", {}, {}
    for number, (namespace, tenant) in enumerate(TENANTS.items()):
        last = FIRST_ADDRESS + number
        addresses = f"{own['prefix']}.2.{last}", f"{own['prefix6']}:2::{last}"
        text += tenant + egress_ip(namespace, *addresses)
        text += "".join(LEAVING.format(namespace=namespace, node=node) for node in NODES)
        ports |= {(namespace, node): FIRST_PORT + 10 * number + place for place, node in enumerate(NODES)}
        watched |= {key: [ports[namespace, node] for node in NODES] for key in addresses}
    (directory / "tenants.yml").write_text(text)
    external = [f"{own['prefix']}.2.20", f"{own['prefix6']}:2::20"]
    units = [f"{UNIT}-{namespace}" for namespace in TENANTS]
    lab.play("networks.yml", *assignable("node1", "node2"), manifests=directory)
    try:
        before, plan = egress_holders(lab)
        # One address of an EgressIP on each of two hosts.
        assert before.keys() == watched.keys()
        assert set(before.values()) == {"node1", "node2"}
        for (namespace, node), port in ports.items():
            path = f"--property=NetworkNamespacePath=/run/netns/{namespace}_on-{node}"
            program = ["python3", "-c", shlex.quote(CONNECT), str(port), *external]
            lab.ssh(node, "systemd-run", "--quiet", f"--unit={UNIT}-{namespace}", path, *program)
        # Only what its host may not hold any more moves: the addresses of one family, then those of the other one.
        for hosts, (former, new) in (
            (("node2", "node3"), ("node1", "node3")),
            (("node3", "node1"), ("node2", "node1")),
        ):
            watch = RemoteProgram(lab, "external", "address_watch.py", "from", "eth2", external, watched)
            assert watch.line() == "ready"
            lab.play("networks.yml", *assignable(*hosts), manifests=directory)
            after = {address: new if node == former else node for address, node in before.items()}
            assert egress_holders(lab)[0] == after
            way = {address: tuple(dict.fromkeys((before[address], after[address]))) for address in watched}
            expect_move(watch, plan, way)
            before = after
        again = lab.play("networks.yml", *assignable(*hosts), manifests=directory).changed
        assert {node: again[node] for node in NODES} == dict.fromkeys(NODES, 0)
    finally:
        for node in NODES:
            lab.try_ssh(node, "systemctl", "stop", *units)
        lab.play("networks.yml")
