# SPDX-License-Identifier: Apache-2.0
"""A process that takes part in a move as soon as other hosts have done what it has to wait for.

A host that has prepared starts it. It leads workloads to the new hosts when all of these are about to take their
addresses, and takes an address when its former host has given it up, both by notices of these hosts. So connections do
not wait until the control node has called all hosts. Whatever it does not do, the playbook's last step does: where a
notice was lost, where a host is in another provider network, where a former host is dead, and after a failure, which
that step finds too and reports.

It only changes what the step would change, under the host's lock, and only where the host is as it prepared.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping

from ...common.change import Outcome
from ...common.processes import background_process
from ...netlink.kernel import NetlinkFailure
from ...render.common.handover import is_prepared, new_hosts
from ...render.egress.move_notices import CLAIMING, RELEASED, RELEASING, Notice
from ..context import NodeContext, only_writer
from ..module_runner import KNOWN_ERRORS
from ..zone import stored_plan
from .move_state import is_moving
from .notices import NoticeSocket, send_notice
from .outcome import add_outcome, take_outcome
from .steps import lead_workloads, take_addresses

# Seconds between two looks whether the move is over, and whether the host has given up its own addresses meanwhile.
_PAUSE, _SHORT_PAUSE = 1.0, 0.05
# The priority of OVN's daemons, which compute meanwhile which flows lead workloads to the new hosts.
_NICE = -10


def begin_watch(context: NodeContext, plan: dict, moved: Mapping[str, str]) -> None:
    """Start the process on a host that has prepared; without the host's lock, which it would share."""
    stored = stored_plan(context)
    if not stored or not is_prepared(stored, plan, context.node, moved):
        return
    # Without the process the playbook's steps do all of it.
    with contextlib.suppress(OSError), NoticeSocket(plan, context.node, moved) as notices:
        take_outcome()
        watch = MoveWatch(context, plan, moved)
        background_process.spawn(lambda: _follow(watch, notices), _end, {notices.fileno()})


def _follow(watch: MoveWatch, notices: NoticeSocket) -> None:
    with contextlib.suppress(OSError):
        background_process.prioritise(_NICE)
    watch.follow(notices)


def _end(_number: int, _frame: object) -> None:
    os._exit(1)


class MoveWatch:
    """What one host does in a move to `plan`, and the notices that it has received; `moved` as for the steps."""

    def __init__(self, context: NodeContext, plan: dict, moved: Mapping[str, str]) -> None:
        self._context, self._plan, self._moved = context, plan, moved
        self._new = new_hosts(plan, moved)
        self._received: set[Notice] = set()
        # Former hosts whose addresses it has taken; whether workloads are led to the new hosts.
        self._taken: set[str] = set()
        self._led = False
        # The stored plan with which it could do nothing, by its file.
        self._refused: tuple[int, int] | None = None

    def follow(self, notices: NoticeSocket) -> None:
        """Act on notices until the move is over. What fails is left to the steps, which report what is wrong."""
        while is_moving():
            received = notices.read(_SHORT_PAUSE if self._refused else _PAUSE)
            try:
                self.act(received)
            except (*KNOWN_ERRORS, NetlinkFailure, OSError):
                return

    def act(self, received: set[Notice]) -> None:
        """Do what the notices that were received allow."""
        if received:
            self._refused = None
            self._answer(received)
            self._received |= received
        leads = not self._led and self._new <= self._hosts(CLAIMING)
        released = self._hosts(RELEASED)
        if not leads and (self._context.node not in self._new or released <= self._taken):
            return
        if self._refused and self._refused == self._stored_file():
            return
        self._write(released, leads=leads)

    def _write(self, released: set[str], *, leads: bool) -> None:
        with only_writer(write=True):
            self._refused = self._stored_file()
            # OVN works on the rows meanwhile.
            written = lead_workloads(self._context, self._plan, self._moved) if leads else None
            taken = take_addresses(self._context, self._plan, self._moved, released)
            if taken is not None:
                add_outcome((written or Outcome()) + taken)
                self._led, self._taken, self._refused = self._led or leads, released, None

    def _answer(self, received: set[Notice]) -> None:
        """Notify others that the host takes addresses next, when the first former host begins to give up some."""
        kinds = {one.kind for one in received} - {one.kind for one in self._received}
        if RELEASING in kinds and self._context.node in self._new:
            if self._new == {self._context.node}:
                # All others wait for its addresses after the notice, so it writes before what it has to for itself.
                self._write(set(), leads=True)
            send_notice(self._plan, own := Notice(CLAIMING, self._context.node))
            received.add(own)

    def _hosts(self, kind: str) -> set[str]:
        return {one.node for one in self._received if one.kind == kind}

    def _stored_file(self) -> tuple[int, int] | None:
        try:
            found = os.stat(self._context.plan_path)
        except OSError:
            return None
        return found.st_ino, found.st_mtime_ns
