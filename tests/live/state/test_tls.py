# SPDX-License-Identifier: Apache-2.0
"""Modules and playbooks with a state database that takes TLS only."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.live.state.conftest import SCHEMA
from tests.live.state.module_run import manifests
from tests.live.tls import Authority, tls_server
from tests.module_entry import ROOT, run_module
from tests.pipeline import layer2, namespace

RED = namespace("red") + layer2("red", "net", "10.0.0.0/24")


@pytest.fixture
def authority(folder) -> Authority:
    return Authority(folder, "authority")


@pytest.fixture
def remote(tools, folder, authority):
    """A state database that takes TLS only; returns its remote."""
    with tls_server(tools, folder, SCHEMA, authority.issue("server")) as listening:
        yield listening


@pytest.fixture
def connection(remote, authority) -> dict[str, str]:
    """The options of modules for this database."""
    files = authority.issue("client")
    return {
        "socket": remote,
        "private_key": files.private_key,
        "certificate": files.certificate,
        "ca_cert": files.ca_certificate,
    }


def test_modules_write_and_read_over_tls(connection, tmp_path):
    first, second = (
        run_module("resource", tmp_path, check=False, **manifests(RED), **connection) for _attempt in range(2)
    )
    assert (first.get("changed"), second.get("changed")) == (True, False), (first, second)
    found = run_module("resource_info", tmp_path, **connection)
    assert "red_net" in found["networks"]
    assert found["digest"] == first["digest"]


@pytest.mark.parametrize("missing", [["private_key"], ["certificate", "ca_cert"]])
def test_missing_options_are_named_together(connection, tmp_path, missing):
    given = {name: value for name, value in connection.items() if name not in missing}
    refused = run_module("resource_info", tmp_path, **given)
    assert refused["failed"]
    assert refused["msg"].endswith(
        f"which needs private_key, certificate and ca_cert; missing: {', '.join(missing)}"
    ), refused["msg"]


def test_files_that_cannot_be_read_are_named_together(connection, tmp_path):
    paths = {"certificate": "/nonexistent/cert.pem", "ca_cert": "/nonexistent/ca.pem"}
    refused = run_module("resource_info", tmp_path, **{**connection, **paths})
    assert refused["msg"].splitlines() == [f"{name}: {path}: No such file or directory" for name, path in paths.items()]


@pytest.mark.parametrize("socket", ["unix:/run/heddle-state/heddle.sock", "tcp:127.0.0.1:6640"])
def test_files_without_tls_are_refused(connection, tmp_path, socket):
    refused = run_module("resource_info", tmp_path, **{**connection, "socket": socket})
    assert refused["msg"] == (f"private_key, certificate, ca_cert: only ssl:HOST:PORT uses TLS, and socket is {socket}")


def test_a_socket_of_another_form_is_refused(tmp_path):
    refused = run_module("resource_info", tmp_path, socket="ssl:192.0.2.1")
    assert refused["msg"].startswith("socket: remote 'ssl:192.0.2.1' is not supported; use unix:PATH")


def test_another_authority_is_an_error_with_the_remedy(connection, folder, tmp_path):
    other = Authority(folder, "other")
    refused = run_module("resource_info", tmp_path, **{**connection, "ca_cert": str(other.certificate)})
    assert "cannot connect: " in refused["msg"]
    assert refused["msg"].endswith(
        "Does the server run there with TLS? Its certificate must be signed by ca_cert, and its own CA certificate "
        "must have signed certificate"
    )


def test_playbooks_take_the_connection_from_the_inventory(connection, tmp_path):
    run_module("resource", tmp_path, check=False, **manifests(RED), **connection)
    node = {"heddle_encap_ips": ["192.0.2.11"], "heddle_underlay_interface": "eth1"}
    common = {"heddle_manifests": str(tmp_path), "ansible_python_interpreter": sys.executable}
    inventory = {
        "heddle_state": {"hosts": {"state": {"ansible_connection": "local"}}},
        "heddle_nodes": {"hosts": {"node1": node}},
        "all": {"vars": {"heddle_state_database": connection, **common}},
    }
    hosts, backup = tmp_path / "hosts.yml", tmp_path / "backup.json"
    hosts.write_text(json.dumps(inventory))
    command = [
        str(Path(sys.executable).parent / "ansible-playbook"), "playbooks/state_backup.yml", "-i", str(hosts),
        "-e", f"heddle_backup_file={backup}",
    ]  # fmt: skip
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "red_net" in backup.read_text()
