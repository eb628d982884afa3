# SPDX-License-Identifier: Apache-2.0
"""DNS names on the lab, with a server on the external host: of firewalls, and those that workloads ask for."""

from __future__ import annotations

import base64
import contextlib
import json
import shutil
from collections.abc import Iterator

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.common.polling import attempts
from tests.lab.conftest import MANIFESTS, PATIENCE, ROOT
from tests.lab.green_network import GREEN
from tests.lab.test_coil import own

__all__ = ["own"]
NAME = "www.example.com"
UNIT, TABLE, PROGRAM = "heddle-test-dns", "/run/heddle-test-dns.json", "/run/heddle-test-dns.py"
RESOLVERS = "/etc/resolv.conf"
TENANT = (
    GREEN
    + """---
apiVersion: heddle.dev/v1
kind: Workload
metadata: {name: tool, namespace: green}
spec: {node: node2}
---
apiVersion: k8s.ovn.org/v1
kind: EgressFirewall
metadata: {name: default, namespace: green}
spec:
  egress:
    - {type: Allow, to: {dnsName: www.example.com}}
    - {type: Deny, to: {cidrSelector: 0.0.0.0/0}}
    - {type: Deny, to: {cidrSelector: "::/0"}}
"""
)
pytestmark = pytest.mark.long


def publish(lab, *records: list | None) -> None:
    """Let the name have these records; the server reads them for each question. With None it has a failure."""
    table = json.dumps({NAME: None if None in records else records} if records else {})
    lab.ssh("external", f"echo '{table}' > {TABLE}.new && mv {TABLE}.new {TABLE}")


@contextlib.contextmanager
def name_server(lab, own) -> Iterator[str]:
    """A server on the external host, without names at first; the address is its own."""
    server = f"{own['prefix']}.2.20"
    text = base64.b64encode((ROOT / "tests" / "dns_server.py").read_bytes()).decode()
    lab.ssh("external", f"echo {text} | base64 -d > {PROGRAM}")
    publish(lab)
    lab.ssh("external", "systemd-run", "--quiet", f"--unit={UNIT}", "python3", PROGRAM, server, TABLE)
    try:
        yield server
    finally:
        lab.ssh("external", f"systemctl stop {UNIT}; rm -f {PROGRAM} {TABLE}")


@contextlib.contextmanager
def resolver(lab, node: str, server: str) -> Iterator[None]:
    """A host asks this server only."""
    lab.ssh(node, f"cp --dereference {RESOLVERS} {RESOLVERS}.before && echo nameserver {server} > {RESOLVERS}")
    try:
        yield
    finally:
        lab.ssh(node, f"cp {RESOLVERS}.before {RESOLVERS} && rm {RESOLVERS}.before")


@pytest.fixture
def named(lab, own, tmp_path):
    """The server, on the external host, is the resolver of node2."""
    directory = shutil.copytree(MANIFESTS, tmp_path / "manifests")
    (directory / "green.yml").write_text(TENANT)
    with name_server(lab, own) as server, resolver(lab, "node2", server):
        yield directory
    lab.play("networks.yml")
    for _attempt in attempts(600):
        if lab.try_ssh("node2", "systemctl is-active heddle-dns-names").returncode:
            break
    assert lab.ssh("node2", "ls /run/heddle").split().count("dns-names.json") == 0


def status(lab) -> dict:
    return json.loads(lab.try_ssh("node2", "heddle-host", "status", "--json").stdout)["dns_names"].get(NAME, {})


def answers(lab, address: str) -> bool:
    inside = ("ip", "netns", "exec", "green_tool")
    return not lab.try_ssh("node2", *inside, "ping", "-nc1", "-W2", address).returncode


def test_a_name_opens_the_firewall_for_its_addresses(lab, own, named):
    targets = (f"{own['prefix']}.2.20", f"{own['prefix6']}:2::20")
    lab.play("networks.yml", manifests=named)
    assert [answers(lab, address) for address in targets] == [False, False]
    assert status(lab) == {"addresses": [], "problem": ""}
    publish(lab, *(["AAAA" if ":" in one else "A", 5, one] for one in targets))
    for _attempt in attempts(600):
        if all(answers(lab, address) for address in targets):
            break
    assert status(lab) == {"addresses": sorted(targets), "problem": ""}

    run = lab.play("networks.yml", "--diff", manifests=named)
    assert set(run.changed.values()) == {0}, run.output[-8000:]
    assert all(answers(lab, address) for address in targets)
    lab.play("audit.yml", manifests=named)
    lab.play("verify.yml", manifests=named)

    # The resolver stops and starts with the service of the host.
    lab.ssh("node2", "systemctl", "stop", "heddle-host")
    is_active = ("systemctl", "is-active", "--quiet", "heddle-dns-names")
    assert any(lab.try_ssh("node2", *is_active).returncode for _attempt in attempts(PATIENCE))
    lab.ssh("node2", "systemctl", "start", "heddle-host")
    # What the name has no more counts until its answer has expired, and for a minute.
    publish(lab, ["A", 5, f"{own['prefix']}.2.77"])
    for _attempt in attempts(600):
        if not any(answers(lab, address) for address in targets):
            break
    assert status(lab) == {"addresses": [f"{own['prefix']}.2.77"], "problem": ""}


def test_workloads_ask_the_name_servers_of_their_node(lab, own, named):
    """Without a shared service for names: OVN answers for those of the network, the node's server for others."""
    address = f"{own['prefix']}.2.77"
    publish(lab, ["A", 5, address])
    without = json.dumps({"heddle_settings": {"shared_services": [], "dynamic_networks_grace_period": 0}})
    lab.play("networks.yml", "-e", without)
    script = "import socket, sys; print(socket.getaddrinfo(sys.argv[1], 80, socket.AF_INET)[0][4][0])"
    for workload in ("demo_db2", "many_m2"):
        inside = ("ip", "netns", "exec", workload, "python3", "-c", f"'{script}'")
        own_address = lab.ssh("node2", *inside, workload.partition("_")[2])
        addresses = lab.ssh("node2", "ip", "-4", "netns", "exec", workload, "hostname", "-I").split()
        assert own_address.strip() in addresses
        for _attempt in attempts(PATIENCE):
            # A datagram may be lost on the first way to the server.
            found = lab.try_ssh("node2", *inside, NAME)
            if not found.returncode:
                break
        assert found.stdout.strip() == address
        assert lab.try_ssh("node2", *inside, "missing.example").returncode
