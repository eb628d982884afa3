# SPDX-License-Identifier: Apache-2.0
"""The service that keeps a host as planned: applies everything at start, and the affected parts after an event."""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import time

from ..common.change import Outcome
from ..netlink.kernel import NetlinkFailure
from .components import PARTS, attached_uplinks, parts, read_host
from .context import only_writer
from .event_loop import Events
from .module_runner import KNOWN_ERRORS, refusal

RETRY_SECONDS, LONGEST_RETRY_SECONDS = 1.0, 10.0
_AFTER_EVENT = {
    "switch restarted": ("chassis", "gateway", "workloads"),
    "ports changed": ("gateway",),
    # A deleted bridge loses all of its ports; ovn-controller recreates br-int, empty.
    "bridges changed": ("chassis", "gateway", "workloads"),
    # When an address is removed, the kernel drops the routes that had it as their source.
    "uplink changed": ("chassis", "gateway"),
    "kernel changed": ("chassis", "gateway"),
}
ERRORS = (*KNOWN_ERRORS, NetlinkFailure, OSError)


def watch() -> None:
    """Apply everything, notify systemd that the service is ready, and watch for events. Never returns."""
    reconciler = Reconciler(Events())
    while True:
        reconciler.step()


class Reconciler:
    """Tracks which parts are due. Failed parts are logged once and retried at increasing intervals."""

    def __init__(self, events) -> None:
        self._events = events
        self._due: tuple[str, ...] = PARTS
        self._ready = False
        self._pause, self._next = RETRY_SECONDS, 0.0
        self._failures: dict[str, str] = {}

    def step(self) -> None:
        """Apply the due parts, then wait for an event."""
        if self._due and time.monotonic() >= self._next:
            self._bring()
        event = self._events.wait()
        if event:
            say(event)
            self._due = tuple(name for name in PARTS if name in (*self._due, *_AFTER_EVENT[event]))
            self._pause, self._next = RETRY_SECONDS, 0.0

    def _bring(self) -> None:
        # Before applying, so that no event is missed; each time, because the install playbook may have changed the
        # uplinks.
        with contextlib.suppress(*ERRORS):
            self._events.follow(attached_uplinks(read_host()))
        failures = bring(self._due)
        for name, text in failures.items():
            if self._failures.get(name) != text:
                say(f"{name}: {text}; trying again")
        done = {name: text for name, text in self._failures.items() if name not in self._due}
        self._failures = done | failures
        self._due = tuple(failures)
        if failures:
            self._next = time.monotonic() + self._pause
            self._pause = min(2 * self._pause, LONGEST_RETRY_SECONDS)
            notify_systemd(
                "STATUS=" + "; ".join(f"{name}: {text}" for name, text in failures.items()).replace("\n", " ")
            )
            return
        self._pause = RETRY_SECONDS
        notify_systemd("STATUS=This host is as planned." + ("" if self._ready else "\nREADY=1"))
        self._ready = True


def bring(names: tuple[str, ...]) -> dict[str, str]:
    """Apply parts of the node's desired state from the current files; return the errors by part."""
    failures = {}
    for name in names:
        began = time.monotonic()
        try:
            with only_writer(write=True):
                part = parts(read_host(), write=True).get(name)
                outcome = part() if part else Outcome()
        except ERRORS as error:
            failures[name] = str(error)
            continue
        if outcome.refused:
            failures[name] = refusal(outcome)
        if outcome.changed:
            say(f"{name}: {_summary(outcome)} in {time.monotonic() - began:.2f} s")
    return failures


def _summary(outcome: Outcome) -> str:
    counts = outcome.summary()
    return ", ".join(f"{counts[action]} {action}d" for action in ("create", "update", "delete") if counts[action])


def say(text: str) -> None:
    """One line for the journal."""
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def notify_systemd(text: str) -> None:
    """Notify the service manager (sd_notify(3))."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if address:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notification:
            notification.connect(f"\0{address[1:]}" if address.startswith("@") else address)
            notification.send(text.encode())
