# SPDX-License-Identifier: Apache-2.0
"""NAT on demand over hosts whose kernel has FoU: tunnels, verify, routers that go, and nothing left afterwards."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab.conftest import MANIFESTS, NODES, REPORT, Lab
from tests.lab.remote_program import RemoteProgram
from tests.lab.test_coil import POOL, kernel_state, own, router, wait_for

__all__ = ["own", "router"]
PORT = 7700
# Of OVN's default network; those of the pool are in the namespace coil.
PLAIN = "---\napiVersion: v1\nkind: Namespace\nmetadata: {name: inner}\n"
CLIENT = """---
apiVersion: heddle.dev/v1
kind: Workload
metadata: {{name: {name}, namespace: {where}, annotations: {{egress.coil.cybozu.com/{where}: nat}}}}
spec: {{node: {node}}}
"""
APART = {
    "requiredDuringSchedulingIgnoredDuringExecution": [
        {"labelSelector": {"matchLabels": {"app": "nat"}}, "topologyKey": "kubernetes.io/hostname"}
    ]
}
CONNECTIONS = 60
pytestmark = pytest.mark.long


def egress(where: str, destinations: list[str], replicas: int, selector: dict | None = None, **more) -> str:
    """Return an Egress named nat, with routers on different hosts."""
    where_to = {"affinity": {"podAntiAffinity": APART}, **({"nodeSelector": selector} if selector else {})}
    template = {"metadata": {"labels": {"app": "nat"}}, "spec": where_to}
    spec = {"destinations": destinations, "replicas": replicas, "template": template, **more}
    metadata = f"{{name: nat, namespace: {where}}}"
    return f"---\napiVersion: coil.cybozu.com/v2\nkind: Egress\nmetadata: {metadata}\nspec: {json.dumps(spec)}\n"


def manifests(own: dict[str, str], replicas: int = 3) -> str:
    """Each flow of a client has a router of its own where the routers are on the pool."""
    # Private addresses, as those of the lab are in IPv6, are left alone by Coil unless a destination names them.
    destinations = ["0.0.0.0/0", f"{own['prefix']}.2.20/32", f"{own['prefix6']}:2::20/128"]
    clients = [CLIENT.format(name=f"c{node[-1]}", node=node, where="coil") for node in NODES]
    return (
        POOL
        + PLAIN
        + egress("coil", destinations, replicas, sessionAffinity="None", fouSourcePortAuto=True)
        + egress("inner", destinations, 1)
        + "".join([*clients, *(CLIENT.format(name=f"i{node[-1]}", node=node, where="inner") for node in NODES[:2])])
    )


def has_fou(lab: Lab) -> bool:
    """Return whether the kernel of the hosts has what an Egress needs."""
    return not lab.try_ssh("node1", "modprobe -n fou && modprobe -n ipip && modprobe -n ip6_tunnel").returncode


@pytest.fixture(scope="module")
def before(lab: Lab) -> dict[str, str]:
    if not has_fou(lab):
        pytest.skip("this kernel has no FoU; User Mode Linux has")
    return {node: kernel_state(lab, node) for node in NODES}


@pytest.fixture(scope="module")
def clients(lab: Lab, before: dict, router: None, own: dict, tmp_path_factory) -> Iterator[Path]:
    directory = shutil.copytree(MANIFESTS, tmp_path_factory.mktemp("egress") / "manifests")
    (directory / "egress-nat.yml").write_text(manifests(own))
    lab.play("networks.yml", manifests=directory)
    wait_for_answers(lab, own)
    yield directory
    lab.play("networks.yml")
    assert {node: kernel_state(lab, node) for node in NODES} == before


def routers(lab: Lab) -> dict[str, tuple[str, list[str]]]:
    """Return host and addresses of the routers on the pool, by their names."""
    found = lab.plan()["coil"]["workloads"]
    return {name: (one["node"], one["addresses"]) for name, one in found.items() if name.startswith("coil/nat-")}


def wait_for_answers(lab: Lab, own: dict[str, str]) -> None:
    """Wait until every client has an answer from the external host over both families."""
    targets = (f"{own['prefix']}.2.20", f"{own['prefix6']}:2::20")
    places = [*(("coil", node) for node in NODES), *(("inner", node) for node in NODES[:2])]
    wait_for(lab, [(node, f"{where}_{where[0]}{node[-1]}", target) for where, node in places for target in targets])


def test_a_second_run_changes_nothing_and_the_audit_passes(lab, clients, own):
    assert len({node for node, _addresses in routers(lab).values()}) == 3
    assert set(lab.play("networks.yml", manifests=clients).changed.values()) == {0}
    assert "0 drifted, 0 foreign, 0 notes, 0 problems" in lab.play("audit.yml", manifests=clients).output


def test_verify_sends_packets_through_routers(lab, clients, own):
    """verify compares the address that the external host sees with those of the routers, or of their hosts."""
    lab.play("verify.yml", manifests=clients)
    report = json.loads((REPORT / "verify.json").read_text())
    counts = {(row["kind"], row["family"]): row for row in report["north_south"]["counts"]}
    for version in (4, 6):
        row = counts["workload through Egress", version]
        # Three clients of the pool, two of the default network.
        assert row["reached"] == row["must_reach"] == 5


def opened(lab: Lab, target: str) -> tuple[RemoteProgram, RemoteProgram]:
    """Return a server on the external host and many connections to it from the client on node1."""
    server = RemoteProgram(lab, "external", "conversation.py", "serve", PORT, target)
    assert server.process.stdout.readline() == "ready\n"
    words = ("conversation.py", "hold", "c1", target, PORT, CONNECTIONS)
    return server, RemoteProgram(lab, "node1", *words, namespace="coil_c1")


def test_only_the_connections_of_a_router_that_goes_are_lost(lab, clients, own):
    """One router of three is taken away by the playbook, the host of another one loses its power, and both return."""
    target = f"{own['prefix']}.2.20"
    server, client = opened(lab, target)
    through, known = Counter(client.line()), routers(lab)
    assert {*through} == {one for _node, addresses in known.values() for one in addresses if ":" not in one}

    (clients / "egress-nat.yml").write_text(manifests(own, replicas=2))
    lab.play("networks.yml", manifests=clients)
    [(_node, gone)] = [known[name] for name in {*known} - {*routers(lab)}]
    client.go_on(*gone)
    left = CONNECTIONS - sum(through[address] for address in gone)
    assert client.line() == [left, []]

    host, gone = next((node, addresses) for node, addresses in routers(lab).values() if node != "node1")
    lab.verb("kill", host)
    try:
        client.go_on(*gone)
        left -= sum(through[address] for address in gone)
        assert client.line() == [left, []]
        assert left
    finally:
        client.end()
        server.end()
        lab.verb("start", host)

    wait_for_answers(lab, own)
    (clients / "egress-nat.yml").write_text(manifests(own))
    lab.play("networks.yml", manifests=clients)
    wait_for_answers(lab, own)
    server, client = opened(lab, target)
    assert len({*client.line()}) == 3
    client.end()
    server.end()
