# SPDX-License-Identifier: Apache-2.0
"""The service that keeps a host as planned: applies everything at start, and the affected parts after an event."""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import time
import traceback

from ...common.change import Outcome
from ...netlink.kernel import NetlinkFailure
from ..context import only_writer
from ..damaged_plan import MALFORMED, damage
from ..health.health_check_ports import HealthCheckPorts
from ..health.host_service import show_running
from ..module_runner import KNOWN_ERRORS, PLAN_FILE, refusal
from ..moves.move_state import is_moving
from .components import PARTS, attached_uplinks, host_version, parts, prober_cgroup, read_host
from .event_loop import Calls, Events

RETRY_SECONDS, LONGEST_RETRY_SECONDS = 1.0, 10.0
# Bytes. systemd ignores a notification of more than 4,096 (PIPE_BUF), and the kernel refuses much longer ones.
_LONGEST_STATUS = 3000
_AFTER_EVENT = {
    "switch restarted": ("chassis", "gateway", "workloads"),
    "ports changed": ("gateway",),
    # A deleted bridge loses all of its ports; ovn-controller recreates br-int, empty.
    "bridges changed": ("chassis", "gateway", "workloads"),
    # When an address is removed, the kernel drops the routes that had it as their source.
    "uplink changed": ("chassis", "gateway"),
    "kernel changed": ("chassis", "gateway", "routed"),
    # The plan has the node's addresses; VRFs have copies of its routes.
    "host network changed": ("chassis", "gateway"),
    # Its rule holds the number of a cgroup, which is another one now.
    "prober restarted": ("gateway",),
}
# What is lost then does not come back with the steps of a move.
_AT_ONCE = {"switch restarted", "prober restarted"}
# A ValueError is text that another program left and that is no UTF-8, no JSON or no number.
ERRORS = (*KNOWN_ERRORS, NetlinkFailure, OSError, ValueError)


def watch(calls: Calls | None = None) -> None:
    """Apply everything, notify systemd that the service is ready, and watch for events. Never returns.

    Between events, `calls` of Ansible and health checks of Services are answered.
    """
    reconciler = Reconciler(Events(calls=calls, health_checks=HealthCheckPorts(say)))
    with contextlib.ExitStack() as held:
        running = False
        while True:
            reconciler.step()
            # After a step: a service that fails in its first one, again and again, never counts as running.
            running = running or show_running(held)


class Reconciler:
    """Tracks which parts are due. Failed parts are logged once and retried at increasing intervals."""

    def __init__(self, events) -> None:
        self._events = events
        self._due: tuple[str, ...] = PARTS
        self._ready = False
        # Whether the due parts may wait until a playbook has moved addresses.
        self._may_wait = False
        self._pause, self._next = RETRY_SECONDS, 0.0
        self._failures: dict[str, str] = {}
        self._notes: dict[str, tuple[str, ...]] = {}
        # None: never, whatever file there is.
        self._followed: tuple[int, int] | None = None

    def step(self) -> None:
        """Apply the due parts, then wait for an event."""
        # Before, so that nothing is missed.
        self._follow()
        if self._due and time.monotonic() >= self._next and not (self._may_wait and is_moving()):
            self._bring()
        event = self._events.wait()
        if event:
            say(event)
            self._may_wait = event not in _AT_ONCE and (self._may_wait or not self._due)
            self._due = tuple(name for name in PARTS if name in (*self._due, *_AFTER_EVENT[event]))
            self._pause, self._next = RETRY_SECONDS, 0.0

    def _follow(self) -> None:
        """Watch the interfaces and the cgroup that the host's file names; install.yml may have named others."""
        version = host_version()
        if version == self._followed:
            return
        with contextlib.suppress(*ERRORS):
            host = read_host()
            self._events.follow(attached_uplinks(host), prober_cgroup(host))
            self._followed = version

    def _bring(self) -> None:
        failures, notes = bring(self._due)
        for name, text in failures.items():
            if self._failures.get(name) != text:
                say(f"{name}: {text}; trying again")
        self._note(notes)
        done = {name: text for name, text in self._failures.items() if name not in self._due}
        self._failures = done | failures
        self._due = tuple(failures)
        if failures:
            notify_systemd(_status("; ".join(f"{name}: {text}" for name, text in failures.items())))
            self._later()
            return
        known = [text for lines in self._notes.values() for text in lines]
        status = _status(" ".join(["This host is as planned.", *known]))
        if notify_systemd(status + ("" if self._ready else "\nREADY=1")) or self._ready:
            self._ready, self._pause = True, RETRY_SECONDS
        else:
            # The service manager waits for this notification before it starts others.
            self._due = PARTS
            self._later()

    def _later(self) -> None:
        self._next = time.monotonic() + self._pause
        self._pause = min(2 * self._pause, LONGEST_RETRY_SECONDS)

    def _note(self, notes: dict[str, tuple[str, ...]]) -> None:
        """Keep the notes of the parts that were applied; what is new among them goes to the journal."""
        for name, lines in notes.items():
            for text in lines:
                if text not in self._notes.get(name, ()):
                    say(text)
        self._notes |= notes


def bring(names: tuple[str, ...]) -> tuple[dict[str, str], dict[str, tuple[str, ...]]]:
    """Apply parts of the node's desired state from the current files; return errors and notes by part."""
    failures, notes = {}, {}
    for name in names:
        began = time.monotonic()
        try:
            with only_writer(write=True):
                part = parts(read_host(), write=True).get(name)
                outcome = part() if part else Outcome()
        except (*ERRORS, *MALFORMED) as error:
            # Another program has damaged an object, or Heddle has a defect: only the part that reads it fails.
            failures[name] = _reason(error)
            continue
        notes[name] = outcome.notes
        if outcome.refused:
            failures[name] = refusal(outcome)
        if outcome.changed:
            say(f"{name}: {_summary(outcome)} in {time.monotonic() - began:.2f} s")
    return failures, notes


def _reason(error: Exception) -> str:
    """Return the text of an error; of one that says nothing about its object, also where it was raised."""
    if not isinstance(error, MALFORMED):
        return str(error)
    damaged = damage(PLAN_FILE, error)
    if damaged:
        return damaged
    place = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {error} ({place.filename}, line {place.lineno})"


def _summary(outcome: Outcome) -> str:
    counts = outcome.summary()
    return ", ".join(f"{counts[action]} {action}d" for action in ("create", "update", "delete") if counts[action])


def _status(text: str) -> str:
    """Return the line of a notification that has the status, cut to what the service manager reads."""
    line = f"STATUS={text}".replace("\n", " ").encode(errors="backslashreplace")
    if len(line) <= _LONGEST_STATUS:
        return line.decode()
    return line[:_LONGEST_STATUS].decode(errors="ignore") + " ... (all of it is in the journal)"


def say(text: str) -> None:
    """One line for the journal."""
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def notify_systemd(text: str) -> bool:
    """Notify the service manager, if there is one (sd_notify(3)); a failure is logged, and then this returns False."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return True
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notification:
            notification.connect(f"\0{address[1:]}" if address.startswith("@") else address)
            notification.send(text.encode(errors="backslashreplace"))
    except OSError as error:
        say(f"the service manager at {address}: {error}")
        return False
    return True
