# SPDX-License-Identifier: Apache-2.0
"""The tasks of the daemon: the bridge, the control channel, and the clock. One thread; nothing waits for another."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import time
from dataclasses import dataclass

from ..common.processes.task_end import end
from .channel import HANDSHAKE_SECONDS, converse, tls
from .datagrams import Datagrams
from .esp import Esp
from .host import MeshHost
from .status import describe
from .switch import open_switch

_TICK_SECONDS, _IDLE_TICK_SECONDS = 0.05, 0.2
_FIRST_RETRY, _LONGEST_RETRY = 0.5, 10
# Until a workload that has just been moved here has a port; looking costs one stat(2).
_READ_SECONDS = 0.2


@dataclass(frozen=True)
class Certificates:
    """Files of this host, in PEM format: its private key, its certificate, and the authority's certificate."""

    key: str
    certificate: str
    authority: str


@dataclass(frozen=True)
class Paths:
    """The bridge's management socket, the socket that answers with the status, and the certificates."""

    bridge: str
    status: str
    certificates: Certificates


class Daemon:
    """`read` returns the present configuration, None when the mesh has gone; it is asked every `_READ_SECONDS`.

    `no_esp` says why the kernel's ESP cannot be used for an encrypted mesh, empty when it can. Keys are good for
    `rekey_seconds`.
    """

    def __init__(self, read, paths, say, no_esp="", rekey_seconds=3600):
        self._read, self._paths, self._say = read, paths, say
        self._no_esp, self._rekey_seconds = no_esp, rekey_seconds
        self._switch = None
        self._tasks = set()
        self._dialling = {}
        self._reasons = {}
        self.host = None

    async def run(self):
        """Run until the plan has no mesh any more, encrypts or not, or has another name or address of this host."""
        configuration = self._read()
        if configuration is None:
            return
        datagrams = Datagrams(
            configuration.address, configuration.control_port,
            lambda address, data: self.host.datagram(address, data, time.monotonic()),
        )  # fmt: skip
        self.host = MeshHost(
            configuration, random.SystemRandom(), self._send, datagrams.send, datagrams.limit, self._say,
            time.monotonic(), esp=self._esp(configuration), rekey_seconds=self._rekey_seconds,
        )  # fmt: skip
        certificates = self._paths.certificates
        servers = [
            await asyncio.start_server(
                self._accepted, configuration.address, configuration.control_port,
                ssl=tls(certificates, server=True), ssl_handshake_timeout=HANDSHAKE_SECONDS,
            ),
            await self._status_server(),
        ]  # fmt: skip
        bridge = self._start(self._follow_bridge())
        try:
            await self._keep(configuration, tls(certificates, server=False), bridge)
        finally:
            datagrams.close()
            for server in servers:
                server.close()
            await end(self._tasks)
            if self._switch is not None:
                self._switch.close()

    async def _keep(self, configuration, context, bridge):
        following = time.monotonic()
        while not bridge.done():
            now = time.monotonic()
            if now >= following:
                following = now + _READ_SECONDS
                wanted = self._read()
                if wanted is None or _basis(wanted) != _basis(configuration):
                    return
                if wanted != self.host.configuration:
                    self.host.configure(wanted)
            self._dial(context, now)
            self.host.tick(now)
            await asyncio.sleep(_IDLE_TICK_SECONDS if self.host.is_idle else _TICK_SECONDS)
        bridge.result()

    def _esp(self, configuration):
        """The kernel's ESP; None for a mesh that is not encrypted, or a host that cannot."""
        if not configuration.encrypted or self._no_esp:
            return None
        return Esp(configuration.address, time.monotonic())

    def _start(self, work):
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    # The bridge

    def _send(self, *messages):
        if self._switch is not None:
            self._switch.send(*messages)

    async def _follow_bridge(self):
        """Handle what the bridge sends; a bridge that is not there, or was restarted, is looked for again."""
        while True:
            try:
                self._switch = await open_switch(self._paths.bridge)
            except OSError:
                await asyncio.sleep(_FIRST_RETRY)
                continue
            self._say("connected to the bridge")
            self.host.datapath.restarted()
            with contextlib.suppress(ConnectionError):
                while True:
                    self.host.frames(await self._switch.read(), time.monotonic())
            self._switch.close()
            self._switch = None
            self.host.datapath.gone()
            self._say("the bridge is gone; trying again")

    # The control channel

    def _dial(self, context, now):
        """Connect to each neighbour without a link; after a failure later, with growing pauses chosen at random."""
        for name in self.host.configuration.neighbours - self.host.links.keys():
            due, pause, task = self._dialling.get(name, (0, _FIRST_RETRY, None))
            if now < due or (task is not None and not task.done()):
                continue
            task = self._start(self._call(name, context))
            pause = min(1.5 * pause, _LONGEST_RETRY)
            self._dialling[name] = now + random.uniform(0.5, 1.5) * pause, pause, task
        for name in self.host.links:
            _due, _pause, task = self._dialling.get(name, (0, 0, None))
            self._dialling[name] = 0, _FIRST_RETRY, task

    async def _call(self, name, context):
        peer, port = self.host.configuration.peers[name], self.host.configuration.control_port
        try:
            opened = asyncio.open_connection(
                peer.address, port, ssl=context, ssl_handshake_timeout=HANDSHAKE_SECONDS,
                local_addr=(self.host.configuration.address, 0),
            )  # fmt: skip
            reader, writer = await asyncio.wait_for(opened, HANDSHAKE_SECONDS)
        except (TimeoutError, OSError) as error:
            reason = f"{peer.address}:{port}: {str(error) or type(error).__name__}"
        else:
            reason = await converse(self.host, reader, writer, True, time.monotonic)
        if name not in self.host.links:
            self.host.failures[name] = reason
            if self._reasons.get(name) != reason:
                self._say(f"{peer.node}: {reason}")
            self._reasons[name] = reason

    async def _accepted(self, reader, writer):
        """A connection that another host opened."""
        reason = await converse(self.host, reader, writer, False, time.monotonic)
        self._say(f"a connection of {(writer.get_extra_info('peername') or ['?'])[0]} has ended: {reason}")

    # Status

    async def _status_server(self):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._paths.status)
        before = os.umask(0o077)
        try:
            return await asyncio.start_unix_server(self._asked, self._paths.status)
        finally:
            os.umask(before)

    async def _asked(self, _reader, writer):
        writer.write(json.dumps(describe(self.host, time.monotonic(), self._no_esp)).encode())
        with contextlib.suppress(OSError):
            await writer.drain()
        writer.close()


def _basis(configuration):
    """What a running daemon cannot change."""
    return configuration.node, configuration.address, configuration.encrypted
