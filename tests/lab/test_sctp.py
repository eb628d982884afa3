# SPDX-License-Identifier: Apache-2.0
"""SCTP on hosts whose kernel has it: through a Service to an endpoint on another host, and a NetworkPolicy about it."""

from __future__ import annotations

import shlex
import shutil

import pytest

from tests.lab.conftest import MANIFESTS
from tests.lab.green_network import GREEN

TENANT = (
    GREEN
    + """---
apiVersion: heddle.dev/v1
kind: Workload
metadata: {name: web, namespace: green, labels: {app: web}}
spec: {node: node1}
---
apiVersion: heddle.dev/v1
kind: Workload
metadata: {name: tool, namespace: green, labels: {app: tool}}
spec: {node: node3}
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: green}
spec:
  selector: {app: web}
  ipFamilyPolicy: PreferDualStack
  ports: [{name: open, protocol: SCTP, port: 80, targetPort: 8080}, {name: shut, protocol: SCTP, port: 81}]
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: web, namespace: green}
spec:
  podSelector: {matchLabels: {app: web}}
  policyTypes: [Ingress]
  ingress: [{from: [{podSelector: {matchLabels: {app: tool}}}], ports: [{protocol: SCTP, port: 8080}]}]
"""
)
UNIT = "heddle-test-sctp"
# Answers each association with the address of its peer, on both ports.
SERVE = """
import select, socket
ends = []
for port in (8080, 81):
    one = socket.socket(socket.AF_INET6, socket.SOCK_STREAM, socket.IPPROTO_SCTP)
    one.bind(("::", port))
    one.listen(8)
    ends.append(one)
while True:
    for one in select.select(ends, [], [])[0]:
        opened, peer = one.accept()
        opened.sendall(peer[0].removeprefix("::ffff:").encode())
        opened.close()
"""
ASK = """
import socket, sys
address, port = sys.argv[1], int(sys.argv[2])
family = socket.AF_INET6 if ":" in address else socket.AF_INET
with socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_SCTP) as opened:
    opened.settimeout(10)
    opened.connect((address, port))
    print(opened.recv(100).decode())
"""
pytestmark = pytest.mark.long


@pytest.fixture
def service(lab, tmp_path):
    if lab.try_ssh("node1", "modprobe -n sctp").returncode:
        pytest.skip("this kernel has no SCTP; User Mode Linux has")
    directory = shutil.copytree(MANIFESTS, tmp_path / "manifests")
    (directory / "green.yml").write_text(TENANT)
    lab.play("networks.yml", manifests=directory)
    lab.ssh("node1", "systemd-run", "--quiet", f"--unit={UNIT}", "--property=NetworkNamespacePath=/run/netns/green_web",
            "python3", "-c", shlex.quote(SERVE))  # fmt: skip
    plan = lab.plan()
    yield plan["services"]["green_net"]["green/web"]["addresses"], plan["workloads"]["green/tool"]
    lab.try_ssh("node1", "systemctl", "stop", UNIT)
    lab.play("networks.yml")


def ask(lab, address: str, port: int):
    inside = ("ip", "netns", "exec", "green_tool", "python3", "-c", shlex.quote(ASK), address, str(port))
    return lab.try_ssh("node3", *inside)


def test_associations_reach_the_endpoint_and_the_policy_decides_about_ports(lab, service):
    addresses, tool = service
    assert len(addresses) == 2
    own = {one.split("/")[0] for interface in tool["interfaces"] for one in interface["addresses"]}
    for address in addresses:
        permitted = ask(lab, address, 80)
        assert permitted.stdout.strip() in own, permitted.stderr
        assert "timed out" in ask(lab, address, 81).stderr
