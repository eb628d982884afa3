# SPDX-License-Identifier: Apache-2.0
"""Readiness probes on the lab's hosts: a workload is an endpoint of its Service while its probe succeeds."""

from __future__ import annotations

import json
import shlex
import shutil

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.common.polling import attempts
from tests.lab.conftest import MANIFESTS, PATIENCE
from tests.lab.green_network import GREEN

TENANT = (
    GREEN
    + """---
apiVersion: heddle.dev/v1
kind: Workload
metadata: {name: web, namespace: green, labels: {app: web}}
spec:
  node: node1
  ports: [{name: http, containerPort: 8080}]
  readiness: {httpGet: {path: /, port: http}, periodSeconds: 1, failureThreshold: 1, timeoutSeconds: 30}
---
apiVersion: heddle.dev/v1
kind: Workload
metadata: {name: tool, namespace: green, labels: {app: tool}}
spec: {node: node3, readiness: {exec: {command: [test, -d, /proc]}, timeoutSeconds: 60}}
"""
)
SERVICES = "".join(
    f"---\napiVersion: v1\nkind: Service\nmetadata: {{name: {name}, namespace: green}}\n"
    f"spec: {{selector: {{app: {name}}}, ports: [{{port: 80, targetPort: 8080}}]}}\n"
    for name in ("web", "tool")
)
UNIT = "heddle-test-server"
CONNECT = "import socket, sys; socket.create_connection((sys.argv[1], 80), 30); print('connected')"


@pytest.fixture
def manifests(lab, tmp_path):
    copy = shutil.copytree(MANIFESTS, tmp_path / "manifests")
    (copy / "green.yml").write_text(TENANT + SERVICES)
    yield copy
    lab.try_ssh("node1", "systemctl", "stop", UNIT)
    lab.play("networks.yml")


def services(lab):
    """Addresses of endpoints by Service, and the cluster IP of `web`, as node3 has them."""
    plan = lab.plan()
    found = plan["services"]["green_net"]
    ends = {
        name: [one["address"] for one in found[f"green/{name}"]["ports"][0]["endpoints"]] for name in ("web", "tool")
    }
    return ends, found["green/web"]["addresses"][0]


def connects(lab, address):
    return lab.try_ssh("node3", "ip", "netns", "exec", "green_tool", "python3", "-c", shlex.quote(CONNECT), address)


def wait_until_ready(lab, ready):
    """Wait until the host itself reports this, which playbooks only read."""
    shown = {}
    while shown.get("green/web", {}).get("ready") is not ready:
        shown = json.loads(lab.try_ssh("node1", "heddle-host", "status", "--json").stdout)["readiness"]
    return shown["green/web"]["message"]


def test_a_workload_is_an_endpoint_while_its_probe_succeeds(lab, manifests):
    lab.play("networks.yml", manifests=manifests)
    # A probe that succeeds at once counts in the same run.
    ends, address = services(lab)
    assert ends == {"web": [], "tool": ["10.0.0.3"]}
    assert "Connection refused" in wait_until_ready(lab, ready=False)
    assert "Connection refused" in connects(lab, address).stderr
    # The server is another program of the host, as users run theirs.
    lab.ssh("node1", "systemd-run", "--quiet", f"--unit={UNIT}", "--property=NetworkNamespacePath=/run/netns/green_web",
            "python3", "-m", "http.server", "8080", "--directory", "/usr/share/doc")  # fmt: skip
    wait_until_ready(lab, ready=True)
    assert "Connection refused" in connects(lab, address).stderr
    lab.play("networks.yml", manifests=manifests)
    assert services(lab)[0]["web"] == ["10.0.0.4"]
    assert connects(lab, address).stdout.strip() == "connected"
    run = lab.play("networks.yml", "--diff", manifests=manifests)
    assert set(run.changed.values()) == {0}, run.output[-8000:]
    # The probes stop and start with the service of the host.
    probes = ("systemctl", "is-active", "--quiet", "heddle-probes")
    lab.ssh("node1", "systemctl", "stop", "heddle-host")
    assert any(lab.try_ssh("node1", *probes).returncode for _attempt in attempts(PATIENCE))
    lab.ssh("node1", "systemctl", "start", "heddle-host")
    for _attempt in attempts(PATIENCE):
        if not lab.try_ssh("node1", *probes).returncode:
            break
    lab.ssh("node1", *probes)
    lab.ssh("node1", "systemctl", "kill", "--signal=KILL", UNIT)
    wait_until_ready(lab, ready=False)
    lab.play("networks.yml", manifests=manifests)
    assert services(lab)[0]["web"] == []
    assert "Connection refused" in connects(lab, address).stderr
    lab.play("audit.yml", manifests=manifests)
