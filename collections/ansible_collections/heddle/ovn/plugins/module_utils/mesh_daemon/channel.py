# SPDX-License-Identifier: Apache-2.0
"""The control channel: TCP with mutual TLS, certificates of the deployment's own authority."""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct

from ..mesh.codec import MAX_MESSAGE, ProtocolError
from .configuration import peer_name

HANDSHAKE_SECONDS = 10
_PIECE = 65536
# Milliseconds without an acknowledgement of what was sent; packets are repeated after 0.2, 0.6 and 1.4 s.
_UNACKNOWLEDGED = 2000
# struct tcp_info in linux/tcp.h: `tcpi_unacked` (segments) and `tcpi_last_ack_recv` (milliseconds ago).
_TCP_INFO = struct.Struct("=8x4x4x4x4xI28xI")


class Channel:
    """What a link writes to. A neighbour that does not read is given up, before its messages fill the memory."""

    def __init__(self, writer):
        self._writer = writer

    def write(self, data):
        """Queue bytes."""
        if data and not self._writer.is_closing():
            self._writer.write(data)
            if self._writer.transport.get_write_buffer_size() > MAX_MESSAGE:
                self._writer.transport.abort()

    def is_acknowledged(self):
        """Whether the neighbour's kernel acknowledges what is sent, which shows that host and path work."""
        try:
            info = self._writer.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO.size)
        except OSError:
            return False
        unacknowledged, milliseconds = _TCP_INFO.unpack(info)
        return not unacknowledged or milliseconds < _UNACKNOWLEDGED

    def close(self):
        """End the connection without waiting for the neighbour."""
        self._writer.transport.abort()


def tls(certificates, *, server):
    """Both ends need a certificate of the authority. Names are those of hosts of the plan, not of DNS."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if server else ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(certificates.authority)
    context.load_cert_chain(certificates.certificate, certificates.key)
    return context


async def converse(host, reader, writer, outbound, now):
    """Exchange messages over one connection until it ends; return the reason. `now` is a clock that does not jump."""
    channel, connection = Channel(writer), None
    try:
        connection = host.connection(_certified(writer), outbound, now())
        channel.write(connection.opening())
        while data := await _piece(reader, connection, now):
            host.received(connection, channel, data, now())
        reason = "closed by the peer"
    except (TimeoutError, ProtocolError, OSError, ssl.SSLError) as error:
        reason = str(error) or type(error).__name__
    finally:
        channel.close()
    link = host.link_of(connection) if connection else None
    if link is not None:
        host.ended(link, reason)
    return reason


async def _piece(reader, connection, now):
    """The next bytes; before the hello only for a limited time, later `MeshHost.tick` watches the silence."""
    if connection.remote is not None:
        return await reader.read(_PIECE)
    data = await asyncio.wait_for(reader.read(_PIECE), HANDSHAKE_SECONDS)
    connection.tick(now())
    return data


def _certified(writer):
    """The name in the mesh of the host that the peer's certificate is of."""
    certificate = writer.get_extra_info("peercert") or {}
    names = [value for part in certificate.get("subject", ()) for key, value in part if key == "commonName"]
    if len(names) != 1:
        raise ProtocolError("the certificate has no name of a host")
    return peer_name(names[0])
