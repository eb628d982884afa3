# SPDX-License-Identifier: Apache-2.0
"""The service that keeps a host's share in place: all of it at start, what an event takes away when it happens."""

from __future__ import annotations

import os
import socket
import sys
import time

from ..apply.change import Outcome
from ..apply.nftables import FirewallError
from ..apply.openflow_text import OpenFlowError
from ..apply.step import NetlinkError
from ..invocation import only_writer
from ..ovsdb_client import OvsdbError
from ..runner import Failure
from ..share_gateway import applied_digest
from .events import Events
from .parts import parts, read_host, read_plan

RETRY_SECONDS = 1.0
_AFTER_EVENT = {"switch restarted": ("chassis", "gateway", "workloads"), "ports changed": ("gateway",)}
ERRORS = (Failure, OvsdbError, NetlinkError, OpenFlowError, FirewallError, OSError)


def watch() -> None:
    """Apply everything, tell systemd that it is there, and go on watching. Never returns."""
    host = read_host()
    events = Events()
    due: tuple[str, ...] = tuple(parts(host, write=True))
    ready = False
    while True:
        if due and bring(host, due):
            due = ()
            if not ready:
                ready = True
                _tell_systemd("READY=1")
        elif due:
            time.sleep(RETRY_SECONDS)
        event = events.wait()
        if event == "ports changed" and not _settled():
            continue
        if event:
            say(event)
            due = tuple(dict.fromkeys((*due, *_AFTER_EVENT[event])))


def bring(host: dict, names: tuple[str, ...]) -> bool:
    """Bring parts of the share; returns whether all of them are there now."""
    done = True
    for name in names:
        part = parts(host, write=True).get(name)
        if part is None:
            continue
        began = time.monotonic()
        try:
            with only_writer(write=True):
                outcome = part()
        except ERRORS as error:
            say(f"{name}: {error}; trying again")
            done = False
            continue
        if outcome.changed:
            say(f"{name}: {_summary(outcome)} in {time.monotonic() - began:.2f} s")
    return done


def _summary(outcome: Outcome) -> str:
    counts = outcome.summary()
    return ", ".join(f"{counts[action]} {action}d" for action in ("create", "update", "delete") if counts[action])


def _settled() -> bool:
    """Tell whether the gateway was brought to the plan on disk; if not, a playbook is still at work."""
    return applied_digest() == (read_plan() or {}).get("digest")


def say(text: str) -> None:
    """One line for the journal."""
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def _tell_systemd(text: str) -> None:
    """Notify the service manager (sd_notify(3))."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if address:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notification:
            notification.connect(f"\0{address[1:]}" if address.startswith("@") else address)
            notification.send(text.encode())
