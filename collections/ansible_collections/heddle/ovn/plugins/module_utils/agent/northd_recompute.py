# SPDX-License-Identifier: Apache-2.0
"""Makes ovn-northd compute everything, where it would go on dropping what is sent to an address of a gateway router.

A gateway router takes packets for its own address on the provider network when one of its load balancers has that
address, as node ports do. When one of several such load balancers loses the address and remains, northd (OVN 25.03,
incremental processing, `lr_stateful`) forgets that others have it. Routers that give what they balance their own
address (`lb_force_snat_ip=router_ip`), as those of all other networks than Layer2 ones, are not concerned.

Whether a change needs that is known when it has been written, and nothing shows it afterwards. So a file says that a
write is under way: where the one before was cut off, northd computes everything.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping

from ..common.addressing import plain
from ..common.change import Outcome
from ..common.polling import attempts
from ..ovsdb.control_socket import NORTHD, call

PENDING_FILE = "/run/heddle/northd-pending"
_SECONDS = 60.0
_NOTE = (
    "node ports of Layer2 networks may get no answer on this host: ovn-northd did not compute everything when it was "
    "asked to; run: systemctl restart ovn-northd"
)


def begin() -> bool:
    """Note that rows are about to be written; return whether a former write was cut off before it was complete."""
    try:
        os.makedirs(os.path.dirname(PENDING_FILE), mode=0o755, exist_ok=True)
        os.close(os.open(PENDING_FILE, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644))
    except FileExistsError:
        return True
    return False


def is_pending() -> bool:
    """Return whether a former write has left it open; for the only writer, since another may be writing now."""
    return os.path.exists(PENDING_FILE)


def end() -> None:
    """Note that northd needs no request for what was written."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(PENDING_FILE)


def is_needed(outcome: Outcome, plan: dict, node: str) -> bool:
    """Return whether a load balancer of a Layer2 network lost one of the node's addresses and remains."""
    own = {plain(one) for one in (plan["nodes"][node].get("gateway") or {}).get("addresses", ())}
    return any(
        own & (_addresses(change.before) - _addresses(change.after))
        for change in outcome.changes
        if (change.kind, change.action) == ("Load_Balancer", "update")
        and plan["networks"][change.network]["topology"] == "Layer2"
    )


def recompute(timeout: float = _SECONDS) -> Outcome:
    """Let the node's ovn-northd compute everything, and wait until it has begun to; a note where it did not.

    It loses the request where it waits for a database at that moment, so the request is repeated for `timeout` seconds.
    """
    before = _count()
    for _attempt in attempts(timeout if before is not None else 0, longest=0.5):
        call(NORTHD, "inc-engine/recompute")
        if _count() != before:
            return Outcome()
    return Outcome(notes=(_NOTE,))


def _count() -> str | None:
    """Return how often northd has computed all that it knows of routers' load balancers."""
    return call(NORTHD, "inc-engine/show-stats", "lr_stateful", "recompute")


def _addresses(columns: Mapping) -> set[str]:
    return {socket.rpartition(":")[0].strip("[]") for socket in columns.get("vips", ())}
