# SPDX-License-Identifier: Apache-2.0
"""TLS to an OVSDB server, with certificates on both sides.

As Open vSwitch's own clients: the server's certificate has to be signed by the given authority, which signs those of
one control plane only (ovs-pki(8)). Its name is not compared with the host's, because ovs-pki writes none of it.
"""

from __future__ import annotations

import socket
import ssl

from .stream import CHUNK, Stream


def secured(connection: socket.socket, tls) -> TlsStream:
    """Do the handshake on a connected socket; OSError when a file, a certificate or the peer is refused.

    `tls` is a `remotes.Tls`. The socket is closed when this fails.
    """
    try:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.check_hostname = False
        context.verify_mode = ssl.CERT_REQUIRED
        for file in (tls.private_key, tls.certificate, tls.ca_certificate):
            # OpenSSL does not say which file it cannot read.
            with open(file, "rb"):
                pass
        context.load_verify_locations(tls.ca_certificate)
        context.load_cert_chain(tls.certificate, tls.private_key)
        return TlsStream(context.wrap_socket(connection))
    except OSError as error:
        connection.close()
        if error.filename:
            raise OSError(error.errno, f"{error.filename}: {error.strerror}") from error
        raise


class TlsStream(Stream):
    """A TLS connection: what was decrypted already is not seen by `select`."""

    def wait(self, timeout: float, *, write: bool = False) -> tuple[bool, bool]:
        """As `Stream.wait`."""
        if self._socket.pending():
            return True, False
        return super().wait(timeout, write=write)

    def send(self, data: memoryview) -> int:
        """As `Stream.send`."""
        try:
            return self._socket.send(data)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return 0

    def receive(self) -> bytes | None:
        """As `Stream.receive`."""
        try:
            return self._socket.recv(CHUNK)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return None
        except ssl.SSLEOFError:
            return b""
