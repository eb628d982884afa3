# SPDX-License-Identifier: Apache-2.0
"""Notices of hosts to each other on the provider network while addresses move: no step waits for the control node.

Broadcast frames with an EtherType for experiments (IEEE Std 802, 0x88b5), which other hosts ignore. Each names a step
of a host in the move to one plan, by a hash of that plan: it cannot be made up without the plan, and one of another
move means nothing. A notice reports what its sender itself has done. That an address is not answered for
would not prove it: a host that is busy does not answer either, and may still send packets with it.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Mapping
from dataclasses import dataclass

from ..announcement import tagged
from ..common.handover import new_hosts
from ..common.provider import provider_of

ETHERTYPE = 0x88B5
# A former host begins to give up its addresses; it neither answers for them nor sends with them any more; a new host
# takes its addresses next, and already drops what would leave with them.
RELEASING, RELEASED, CLAIMING = "releasing", "released", "claiming"
_BROADCAST, _MAGIC, _SHORTEST = b"\xff" * 6, b"heddlemv", 60
_HEAD = struct.Struct("!6s6sH")


@dataclass(frozen=True, slots=True)
class Notice:
    """What a host has done, or does next."""

    kind: str
    node: str


def notice_frame(plan: dict, notice: Notice) -> bytes | None:
    """Return the frame of a notice as the uplink of its host sends it; None where it has no provider network.

    `plan` is the one that the move leads to.
    """
    provider = provider_of(plan["nodes"][notice.node])
    if provider is None:
        return None
    head = _HEAD.pack(_BROADCAST, bytes.fromhex(provider.mac.replace(":", "")), ETHERTYPE)
    frame = (head + _body(plan, notice)).ljust(_SHORTEST, b"\0")
    return tagged(frame, provider.vlan) if provider.vlan else frame


def expected_notices(plan: dict, moved: Mapping[str, str]) -> dict[bytes, Notice]:
    """Return all notices of a move by what their frames hold; `moved` has the former host of each address."""
    former = {host for host in moved.values() if host in plan["nodes"]}
    notices = [Notice(kind, host) for kind in (RELEASING, RELEASED) for host in sorted(former)]
    notices += [Notice(CLAIMING, host) for host in sorted(new_hosts(plan, moved))]
    return {_body(plan, one): one for one in notices}


def read_notice(frame: bytes, expected: Mapping[bytes, Notice]) -> Notice | None:
    """Return which of the expected notices a frame without a VLAN tag is; None for any other frame."""
    end = _HEAD.size + len(_MAGIC) + hashlib.sha256().digest_size
    return expected.get(frame[_HEAD.size : end])


def _body(plan: dict, notice: Notice) -> bytes:
    words = plan["deployment"], str(plan["revision"]), plan["digest"], notice.kind, notice.node
    return _MAGIC + hashlib.sha256("\n".join(words).encode()).digest()
