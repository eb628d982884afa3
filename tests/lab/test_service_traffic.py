# SPDX-License-Identifier: Apache-2.0
"""Packets to Services that verify sends none to: `internalTrafficPolicy: Local`, `externalIPs`, no node ports.

On a Layer2, a Layer3 and the default network; two of them have equal subnets.
"""

from __future__ import annotations

import contextlib
import json
import shlex
import shutil
from collections.abc import Iterator

import pytest

from tests.lab.conftest import MANIFESTS, NODES, Lab
from tests.lab.tenants import TENANTS
from tests.lab.test_coil import own

__all__ = ["own"]
SERVERS = ("node1", "node2")
# By which an external host reaches the external addresses, and where no endpoint is.
ENTRANCES = ("node1", "node3")
OUTSIDE = {4: "198.51.100.80", 6: "2001:db8:99::80"}
TARGET_PORT, FIRST_PORT, OTHER_PORT, TIMES = 8080, 8081, 8099, 6
UNIT = "heddle-test-serve"
WORKLOAD = """---
apiVersion: heddle.dev/v1
kind: Workload
metadata: {{name: on-{node}, namespace: {namespace}, labels: {{app: {app}}}}}
spec: {{node: {node}}}
"""
SERVICES = """---
apiVersion: v1
kind: Service
metadata: {{name: near, namespace: {namespace}}}
spec:
  internalTrafficPolicy: Local
  ipFamilyPolicy: RequireDualStack
  selector: {{app: web}}
  ports: [{{port: 80, targetPort: 8080}}]
---
apiVersion: v1
kind: Service
metadata: {{name: outside, namespace: {namespace}}}
spec:
  type: LoadBalancer
  allocateLoadBalancerNodePorts: false
  ipFamilyPolicy: RequireDualStack
  externalIPs: [{outside[4]}, "{outside[6]}"]
  selector: {{app: web}}
  ports: [{{port: {port}, targetPort: 8080}}]
"""
# Answers each connection with a word.
SERVE = """
import socket, sys
server = socket.create_server(("::", 8080), family=socket.AF_INET6, dualstack_ipv6=True, backlog=64)
while True:
    opened, _peer = server.accept()
    opened.sendall(sys.argv[1].encode())
    opened.close()
"""
# Connects to each target several times at once; prints what answers to each, "" for none. With a target that is known
# to answer, its answer is waited for as well, and the others have their seconds from then on.
ASK = """
import json, select, socket, sys, time
limit, times, targets, known, patience = json.loads(sys.argv[1])
said, waiting = {}, {}
for place, (address, port) in enumerate([*targets, known] if known else targets):
    said[place] = []
    for _ in range(times if place < len(targets) else 1):
        one = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM)
        one.setblocking(False)
        one.connect_ex((address, port))
        waiting[one] = place
end = time.monotonic() + (patience if known else limit)
while waiting and time.monotonic() < end:
    for one in select.select(list(waiting), [], [], 0.2)[0]:
        try:
            text = one.recv(100).decode()
        except OSError:
            text = ""
        place = waiting.pop(one)
        said[place].append(text)
        if place == len(targets):
            end = time.monotonic() + limit
if known and not any(said[len(targets)]):
    sys.exit(f"no answer of {known}")
for place in waiting.values():
    said[place].append("")
print(json.dumps([said[place] for place in range(len(targets))]))
"""
# Seconds that a packet may take which arrives, the first time and then, and for which one is waited for that is
# dropped.
FIRST, LONG, SHORT = 60, 300, 2


def ask(
    lab: Lab,
    host: str,
    targets: list[tuple[str, int]],
    *,
    limit: float,
    namespace: str = "",
    times: int = TIMES,
    known: tuple[str, int] | None = None,
) -> list[set[str]]:
    """Return what answers at each target, of so many connections at once: names of servers, "" for none.

    With a target that is `known` to answer, the limit begins with its answer: silence means nothing before.
    """
    inside = ["ip", "netns", "exec", namespace] if namespace else []
    words = json.dumps([limit, times, targets, known, LONG])
    said = json.loads(lab.ssh(host, *inside, "python3", "-c", shlex.quote(ASK), shlex.quote(words)))
    return [set(one) for one in said]


def ask_from_outside(lab: Lab, targets: list[tuple[str, int]]) -> list[set[str]]:
    """Return what answers the external host at the second time.

    A node's routers resolve its MAC address with its first packets. Four answers wait for that, and with Open vSwitch
    in user space the other connections are reset (docs/services.md).
    """
    ask(lab, "external", targets, limit=FIRST)
    return ask(lab, "external", targets, limit=LONG)


@contextlib.contextmanager
def serving(lab: Lab, unit: str, program: str) -> Iterator[None]:
    """The endpoints of all tenants run a program of Python, whose argument is the name of the endpoint."""
    try:
        for namespace in TENANTS:
            for node in SERVERS:
                path = f"--property=NetworkNamespacePath=/run/netns/{namespace}_on-{node}"
                command = ["python3", "-c", shlex.quote(program), f"{namespace}-{node}"]
                lab.ssh(node, "systemd-run", "--quiet", f"--unit={unit}-{namespace}", path, *command)
        yield
    finally:
        for node in SERVERS:
            lab.try_ssh(node, "systemctl", "stop", *(f"{unit}-{namespace}" for namespace in TENANTS))


@pytest.fixture(scope="module")
def plan(lab: Lab, tmp_path_factory) -> Iterator[dict]:
    directory = shutil.copytree(MANIFESTS, tmp_path_factory.mktemp("services") / "manifests")
    text = ""
    for number, (namespace, tenant) in enumerate(TENANTS.items()):
        text += tenant + SERVICES.format(namespace=namespace, outside=OUTSIDE, port=FIRST_PORT + number)
        for node in NODES:
            text += WORKLOAD.format(namespace=namespace, node=node, app="web" if node in SERVERS else "none")
    (directory / "tenants.yml").write_text(text)
    lab.play("networks.yml", manifests=directory)
    try:
        with serving(lab, UNIT, SERVE):
            yield lab.plan()
    finally:
        lab.play("networks.yml")


def service(plan: dict, namespace: str, name: str) -> dict:
    key = f"{namespace}/{name}"
    return next(found[key] for found in plan["services"].values() if key in found)


@pytest.mark.parametrize("namespace", TENANTS)
def test_internal_traffic_policy_local_leads_to_endpoints_of_the_clients_node(lab, plan, namespace):
    addresses = service(plan, namespace, "near")["addresses"]
    assert len(addresses) == 2
    targets = [(address, 80) for address in addresses]
    # Without the Service every endpoint answers.
    known = service(plan, namespace, "near")["ports"][0]["endpoints"][0]["address"], TARGET_PORT
    for node in NODES:
        here, inside = node in SERVERS, f"{namespace}_on-{node}"
        if here:
            said = ask(lab, node, targets, limit=LONG, namespace=inside)
        else:
            said = ask(lab, node, targets, limit=SHORT, namespace=inside, known=known)
        assert said == [{f"{namespace}-{node}" if here else ""}] * 2, node


@pytest.fixture(scope="module")
def routed(lab: Lab, plan: dict) -> Iterator:
    """A function: lets the external host send packets to external addresses to a node."""
    device = "eth2"

    def route(node: str) -> None:
        for address in plan["nodes"][node]["gateway"]["addresses"]:
            version = 6 if ":" in address else 4
            via = ["via", address.partition("/")[0], "dev", device]
            lab.ssh("external", "ip", f"-{version}", "route", "replace", OUTSIDE[version], *via)

    yield route
    for version, address in OUTSIDE.items():
        lab.try_ssh("external", "ip", f"-{version}", "route", "delete", address)


@pytest.mark.parametrize("node", ENTRANCES)
def test_external_addresses_are_reached_by_way_of_any_node_of_the_network(lab, plan, routed, node):
    routed(node)
    targets, others, expected = [], [], []
    for number, namespace in enumerate(TENANTS):
        targets += [(address, FIRST_PORT + number) for address in OUTSIDE.values()]
        expected += [{f"{namespace}-{one}" for one in SERVERS}] * 2
    others = [(address, port) for address in OUTSIDE.values() for port in (80, OTHER_PORT)]
    for said, servers in zip(ask_from_outside(lab, targets), expected, strict=True):
        assert said
        assert said <= servers
    assert ask(lab, "external", others, limit=SHORT, known=targets[0]) == [{""}] * len(others)


@pytest.mark.parametrize("namespace", TENANTS)
def test_a_load_balancer_without_node_ports_is_reached_by_its_address_only(lab, plan, namespace):
    found = service(plan, namespace, "outside")
    port = FIRST_PORT + list(TENANTS).index(namespace)
    assert all("node_port" not in one for one in found["ports"])
    addresses = [one["address"] for one in found["external"]["load_balancer"]]
    assert len(addresses) == 2
    known = [(address, port) for address in addresses]
    for said in ask_from_outside(lab, known):
        assert said
        assert said <= {f"{namespace}-{one}" for one in SERVERS}
    nodes = [one.partition("/")[0] for node in plan["nodes"].values() for one in node["gateway"]["addresses"]]
    targets = [(address, number) for address in nodes for number in (port, TARGET_PORT)]
    assert ask(lab, "external", targets, limit=SHORT, known=known[0]) == [{""}] * len(targets)
