# SPDX-License-Identifier: Apache-2.0
"""Certificates of authorities that exist for one test, and database servers that use them."""

from __future__ import annotations

import contextlib
import datetime
import re
from collections.abc import Iterator

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from ansible_collections.heddle.ovn.plugins.module_utils.ovsdb.protocol.remotes import Tls
from tests.live.conftest import start, stop, wait_for

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


@contextlib.contextmanager
def tls_server(tools, folder, schema, files: Tls) -> Iterator[str]:
    """Run an ovsdb-server that takes TLS only, with an empty database of a schema; yields its remote."""
    database = folder / "tls.db"
    tools.run("ovsdb-tool", "create", str(database), str(schema))
    process = start(
        tools, folder, "tls", "ovsdb-server", "--remote=pssl:0:127.0.0.1", f"--private-key={files.private_key}",
        f"--certificate={files.certificate}", f"--ca-cert={files.ca_certificate}", "--no-chdir", str(database),
    )  # fmt: skip
    log = folder / "tls.log"

    def port() -> str | None:
        found = re.search(r"listening on port (\d+)", log.read_text() if log.exists() else "")
        return found and found[1]

    try:
        wait_for(port, "ovsdb-server over TLS", process)
        yield f"ssl:127.0.0.1:{port()}"
    finally:
        stop(process)
