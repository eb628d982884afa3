# SPDX-License-Identifier: Apache-2.0
"""A connection of an OpenFlow controller to one bridge, over the bridge's management socket.

ovs-vswitchd has such a socket for each bridge (ovs-vswitchd(8), "BRIDGE.mgmt"), so nothing listens for the controller.
Messages are made and read by os-ken (OpenFlow 1.3, with the tunnel fields of Nicira's extensions).
"""

from __future__ import annotations

import asyncio

try:
    from os_ken.ofproto import ofproto_parser
    from os_ken.ofproto import ofproto_v1_3 as ofproto
    from os_ken.ofproto import ofproto_v1_3_parser as parser
except ImportError:
    # The role `mesh` installs it where the daemon runs.
    ofproto = ofproto_parser = parser = None

_HEADER = 8
# A service connection gets packets from the bridge only when it has asked for bytes of them.
_WHOLE_PACKET = 0xFFFF
# Bytes. A bridge that does not read is given up, before its messages fill the memory.
_LONGEST_QUEUE = 16 << 20
# Of the numbers of messages; larger ones are those that messages have already.
_LARGEST_XID = 0x7FFFFFFF


def is_available():
    """Whether os-ken is installed on this host."""
    return ofproto is not None


class Dialect:
    """What os-ken's messages have to know of the connection that they are for."""

    ofproto = ofproto
    ofproto_parser = parser
    address = ("", 0)


DIALECT = Dialect()


def encoded(message):
    """Return the bytes of a message."""
    message.serialize()
    return bytes(message.buf)


class Switch:
    """`await open_switch(path)` makes one; after `close`, or when the bridge is gone, `read` raises ConnectionError.

    It is gone, too, when it does not read what it is sent.
    """

    def __init__(self, reader, writer):
        self._reader, self._writer = reader, writer
        self._xid = 0

    def send(self, *messages):
        """Queue messages; the bridge executes those of one connection in their order, flows before later packets."""
        for message in messages:
            if self._writer.is_closing():
                return
            if message.xid is None:
                self._xid = self._xid % _LARGEST_XID + 1
                message.set_xid(self._xid)
            self._writer.write(encoded(message))
            if self._writer.transport.get_write_buffer_size() > _LONGEST_QUEUE:
                self._writer.transport.abort()

    async def read(self):
        """Return the next message that is not part of the connection's own upkeep."""
        while True:
            try:
                header = await self._reader.readexactly(_HEADER)
                version, kind, size, xid = ofproto_parser.header(header)
                body = await self._reader.readexactly(size - _HEADER)
            except (asyncio.IncompleteReadError, OSError) as error:
                raise ConnectionError("the connection to the bridge has ended") from error
            message = ofproto_parser.msg(DIALECT, version, kind, size, xid, header + body)
            if isinstance(message, parser.OFPEchoRequest):
                self._writer.write(encoded(parser.OFPEchoReply(DIALECT, message.data)))
            else:
                return message

    def close(self):
        """End the connection."""
        self._writer.close()


async def open_switch(path):
    """Connect, and ask for packets and for the bridge's ports; OSError when there is no such bridge."""
    switch = Switch(*await asyncio.open_unix_connection(path))
    switch.send(
        parser.OFPHello(DIALECT),
        parser.OFPSetConfig(DIALECT, ofproto.OFPC_FRAG_NORMAL, _WHOLE_PACKET),
        parser.OFPPortDescStatsRequest(DIALECT, 0),
    )
    return switch
