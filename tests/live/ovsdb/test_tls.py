# SPDX-License-Identifier: Apache-2.0
"""The client and a real server over TLS: both sides show certificates, and each refuses one of another authority."""

from __future__ import annotations

import datetime
import re
import socket

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from ansible_collections.heddle.ovn.plugins.module_utils.ovsdb.client import Client, OvsdbError, Unreachable
from ansible_collections.heddle.ovn.plugins.module_utils.ovsdb.remotes import Tls
from tests.live.conftest import start, stop, wait_for

DATABASE = "OVN_Northbound"
DAY = datetime.timedelta(days=1)


class Authority:
    """An authority that signs certificates; all files are in one directory."""

    def __init__(self, folder, name: str) -> None:
        self.folder, self.name = folder, name
        self._key = ec.generate_private_key(ec.SECP256R1())
        self.certificate = folder / f"{name}.pem"
        self._write(self.certificate, self._signed(name, self._key, authority=True))

    def _signed(self, name: str, key, *, authority: bool = False) -> x509.Certificate:
        now = datetime.datetime.now(datetime.UTC)
        subject, issuer = (x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, one)]) for one in (name, self.name))
        builder = x509.CertificateBuilder(issuer, subject, key.public_key(), x509.random_serial_number())
        builder = builder.not_valid_before(now - DAY).not_valid_after(now + DAY)
        builder = builder.add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
        return builder.sign(self._key, hashes.SHA256())

    def _write(self, path, certificate: x509.Certificate) -> None:
        path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))

    def issue(self, name: str, *, trusting: Authority | None = None) -> Tls:
        """Write a key and a certificate for `name`; `trusting` is the authority of the other side."""
        key = ec.generate_private_key(ec.SECP256R1())
        private, certificate = self.folder / f"{name}-key.pem", self.folder / f"{name}.pem"
        private.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
        self._write(certificate, self._signed(name, key))
        return Tls(str(private), str(certificate), str((trusting or self).certificate))


@pytest.fixture
def authority(folder) -> Authority:
    return Authority(folder, "authority")


@pytest.fixture
def remote(tools, folder, authority):
    """An ovsdb-server that takes TLS only; returns its remote."""
    files = authority.issue("server")
    database = folder / "nb.db"
    tools.run("ovsdb-tool", "create", str(database), str(tools.schema(DATABASE)))
    process = start(
        tools, folder, "tls", "ovsdb-server", "--remote=pssl:0:127.0.0.1", f"--private-key={files.private_key}",
        f"--certificate={files.certificate}", f"--ca-cert={files.ca_certificate}", "--no-chdir", str(database),
    )  # fmt: skip
    log = folder / "tls.log"

    def port() -> str | None:
        found = re.search(r"listening on port (\d+)", log.read_text() if log.exists() else "")
        return found and found[1]

    wait_for(port, "ovsdb-server over TLS", process)
    yield f"ssl:127.0.0.1:{port()}"
    stop(process)


def test_transactions_of_any_size_go_both_ways(remote, authority):
    text = "x" * 100_000
    inserts = [{"op": "insert", "table": "Logical_Switch", "row": {"name": f"{number}{text}"}} for number in range(50)]
    select = {"op": "select", "table": "Logical_Switch", "where": [], "columns": ["name"]}
    with Client(remote, tls=authority.issue("client")) as client:
        client.transact(DATABASE, inserts)
        for results in client.pipeline(DATABASE, [[select]] * 3):
            assert sorted(len(row["name"]) for row in results[0]["rows"])[0] > len(text)
            assert len(results[0]["rows"]) == 50


def test_a_server_of_another_authority_is_not_spoken_to(remote, authority, folder):
    other = Authority(folder, "other")
    with pytest.raises(Unreachable, match=r"cannot connect: .*(certificate|self-signed)"):
        Client(remote, tls=authority.issue("client", trusting=other))


def test_the_server_refuses_a_client_of_another_authority(remote, authority, folder):
    other = Authority(folder, "other").issue("client", trusting=authority)
    with pytest.raises(OvsdbError, match=r"lost|closed|cannot connect"), Client(remote, tls=other) as client:
        client.list_dbs()


@pytest.mark.parametrize("missing", ["private_key", "certificate", "ca_certificate"])
def test_a_missing_file_is_named(remote, authority, folder, missing):
    files = authority.issue("client")
    path = folder / "nothing.pem"
    with pytest.raises(Unreachable, match=f"{re.escape(str(path))}: No such file"):
        Client(remote, tls=Tls(**{**vars(files), missing: str(path)}))


def test_a_server_without_tls_is_an_error_and_not_used_in_plain_text(authority):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        with pytest.raises(Unreachable, match="cannot connect"):
            Client(f"ssl:127.0.0.1:{port}", timeout=0.2, tls=authority.issue("client"))
