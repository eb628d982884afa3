# SPDX-License-Identifier: Apache-2.0
"""Ends UDP connections through load balancers to targets that are gone, once more after ovn-controller.

ovn-controller (25.03) ends them right after its flows (`ct_flush`). Open vSwitch's datapath follows the flows some
hundred milliseconds later (`max-revalidator`), and until then a client that sends again gets a connection to the former
target anew, which lasts as long as it sends. So they end again as soon as the datapath follows.

What is to be ended is noted before the rows are written, so that a later run does it after one that was killed
(`follow_ups.py`).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import astuple

from ..common.change import Change, Outcome
from ..common.errors import OpenFlowError
from ..common.naming import INTEGRATION_BRIDGE
from ..openflow.tracked_connections import Translation, end_connections
from ..ovsdb.control_socket import VSWITCHD, call
from . import follow_ups


def note(changes: Iterable[Change]) -> None:
    """Note which connections have to end after changes of the Northbound that are about to be written."""
    translations = ended(changes)
    if translations:
        follow_ups.note(follow_ups.CONNECTIONS, (" ".join(map(str, astuple(one))) for one in translations))


def end_noted() -> Outcome:
    """End what is noted, by this run or one that was killed; it stays noted where that is refused."""
    noted = follow_ups.noted(follow_ups.CONNECTIONS)
    outcome = end(sorted(_noted_translations(noted)))
    if not outcome.notes:
        follow_ups.done(follow_ups.CONNECTIONS, noted)
    return outcome


def ended(changes: Iterable[Change]) -> list[Translation]:
    """Return what load balancers for UDP do not translate any more, after changes of the Northbound.

    Also what another one translates in the same way: such connections begin anew.
    """
    found: set[Translation] = set()
    for change in changes:
        if change.kind == "Load_Balancer" and "_UDP_" in change.name:
            before, after = change.before.get("vips", {}), change.after.get("vips", {})
            for vip in before:
                found |= _translations(vip, before) - _translations(vip, after)
    return sorted(found)


def end(translations: list[Translation]) -> Outcome:
    """End their connections when the datapath follows the flows, which are written; a note where that is refused."""
    if not translations:
        return Outcome()
    # A revalidation that is under way, and a whole one.
    for _revalidation in range(2):
        call(VSWITCHD, "revalidator/wait")
    try:
        end_connections(INTEGRATION_BRIDGE, translations)
    except OpenFlowError as error:
        return Outcome(notes=(f"UDP connections to former endpoints of Services may go on: {error}",))
    return Outcome()


def _translations(vip: str, vips: Mapping[str, str]) -> set[Translation]:
    targets = filter(None, vips.get(vip, "").split(","))
    return {Translation(*_socket(vip), *_socket(target)) for target in targets}


def _socket(text: str) -> tuple[str, int]:
    address, _colon, port = text.rpartition(":")
    return address.strip("[]"), int(port)


def _noted_translations(noted: Iterable[str]) -> Iterator[Translation]:
    for text in noted:
        # Of a damaged file what can be read is ended.
        with contextlib.suppress(ValueError):
            address, port, target, target_port = text.split(" ")
            yield Translation(address, int(port), target, int(target_port))
