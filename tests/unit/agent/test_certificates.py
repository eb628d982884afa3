# SPDX-License-Identifier: Apache-2.0
"""Certificates of hosts, made and verified by OpenSSL."""

from __future__ import annotations

import stat
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.agent import certificates
from ansible_collections.heddle.ovn.plugins.module_utils.agent.certificates import ask, install, lasts, sign
from ansible_collections.heddle.ovn.plugins.module_utils.agent.module_runner import UserError
from ansible_collections.heddle.ovn.plugins.module_utils.common.processes import subprocesses


class Deployment:
    """An authority and hosts, each in a directory of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.authority = str(folder / "authority")

    def sign(self, requests: dict | None = None, *, write: bool = True) -> dict:
        return sign(self.authority, requests or {}, "test", subprocesses.run, write=write)

    def ask(self, node: str, *, write: bool = True) -> dict:
        trusted = self.sign()["authority_certificate"] if write else ""
        return ask(str(self.folder / node), node, trusted, subprocesses.run, write=write)

    def enrol(self, node: str) -> bool:
        """Do all steps for a host; return whether anything changed."""
        asked = self.ask(node)
        signed = self.sign({node: asked["request"]})
        text = signed["certificates"].get(node, "")
        stored = install(str(self.folder / node), text, signed["authority_certificate"], write=True)
        return asked["changed"] or signed["changed"] or stored["changed"]


@pytest.fixture
def deployment(tmp_path: Path) -> Deployment:
    return Deployment(tmp_path)


def test_second_run_changes_nothing(deployment):
    assert deployment.enrol("node1")
    before = {path: path.read_bytes() for path in deployment.folder.rglob("*.pem")}
    assert not deployment.enrol("node1")
    assert {path: path.read_bytes() for path in deployment.folder.rglob("*.pem")} == before


def test_certificate_lasts_until_its_renewal_is_due(deployment, monkeypatch):
    path = deployment.folder / "node1" / "cert.pem"
    assert not lasts(str(path))
    deployment.enrol("node1")
    assert lasts(str(path))
    path.unlink()
    monkeypatch.setattr(certificates, "_DAYS", 89)
    deployment.enrol("node1")
    assert not lasts(str(path))


def test_certificate_is_of_the_host_and_of_the_authority(deployment):
    deployment.enrol("node1")
    folder = deployment.folder / "node1"
    done = subprocess.run(
        ["openssl", "verify", "-x509_strict", "-purpose", "sslserver", "-CAfile", folder / "ca.pem",
         folder / "cert.pem"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    text = subprocess.run(["openssl", "x509", "-noout", "-text", "-in", folder / "cert.pem"],
                          capture_output=True, text=True, check=True).stdout  # fmt: skip
    assert "Subject: CN=node1" in text.replace("CN = ", "CN=")
    assert "CA:FALSE" in text


def test_keys_are_secret_and_in_no_result(deployment):
    deployment.enrol("node1")
    for key in deployment.folder.rglob("key.pem"):
        assert stat.S_IMODE(key.stat().st_mode) == 0o600
        assert stat.S_IMODE(key.parent.stat().st_mode) == 0o700
    assert "PRIVATE" not in str(deployment.ask("node2")) + str(deployment.sign())


def test_request_for_another_host_is_not_signed(deployment):
    request = deployment.ask("node2")["request"]
    with pytest.raises(UserError, match="the request of node1 is for node2"):
        deployment.sign({"node1": request})


def test_hosts_that_ask_at_once_all_get_certificates(deployment):
    """Ansible signs for several hosts at the same time, on the host with the authority."""
    requests = {node: deployment.ask(node)["request"] for node in (f"node{number}" for number in range(16))}
    with ThreadPoolExecutor(len(requests)) as pool:
        signed = list(pool.map(lambda node: deployment.sign({node: requests[node]}), requests))
    assert [list(one["certificates"]) for one in signed] == [[node] for node in requests]
    assert sorted(path.name for path in Path(deployment.authority).iterdir()) == ["ca.pem", "key.pem", "leaf.cnf"]


def test_new_authority_replaces_certificates(deployment):
    deployment.enrol("node1")
    for file in Path(deployment.authority).iterdir():
        file.unlink()
    assert deployment.enrol("node1")
    assert not deployment.enrol("node1")


def test_check_mode_writes_nothing(deployment):
    assert deployment.ask("node1", write=False) == {"changed": True, "request": ""}
    assert deployment.sign(write=False)["changed"]
    assert list(deployment.folder.iterdir()) == []
