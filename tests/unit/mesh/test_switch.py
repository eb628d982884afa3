# SPDX-License-Identifier: Apache-2.0
"""The connection to a bridge that does not answer; a real one is in tests/live/mesh."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.mesh_daemon import flows, switch


def test_a_bridge_that_does_not_read_is_given_up(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(switch, "_LONGEST_QUEUE", 1 << 20)
    path = str(tmp_path / "br.mgmt")

    async def scenario() -> None:
        over = asyncio.Event()
        server = await asyncio.start_unix_server(lambda _reader, _writer: over.wait(), path, limit=1024)
        opened = await switch.open_switch(path)
        for _number in range(100):
            opened.send(flows.delivered(1, bytes(60_000)))
            await asyncio.sleep(0)
            assert opened._writer.transport.get_write_buffer_size() < (1 << 20) + 70_000
        with pytest.raises(ConnectionError):
            await asyncio.wait_for(opened.read(), 60)
        # What is sent before the reader has seen the end is of no bridge.
        opened.send(flows.delivered(1, bytes(60_000)))
        opened.close()
        over.set()
        server.close()

    asyncio.run(scenario())
