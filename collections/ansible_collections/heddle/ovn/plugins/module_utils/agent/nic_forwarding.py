# SPDX-License-Identifier: Apache-2.0
"""Which NICs of this host forward IPv4 because of Heddle, and which do for others (`render/host/nic_forwarding.py`).

A record in /run has those that Heddle has made forward; a reboot resets the settings as well. It is written first, then
the rules of the firewall that keep such a NIC from forwarding more, then the settings. In the end it is the other way
round. So a NIC with the setting that the record does not have was made forward by others, whatever was interrupted.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path

from ..common.files.atomic_file import replace_file
from ..render.gateway.bridge import primary_views
from ..render.host.nic_forwarding import forwarding_nics, forwarding_of
from ..types.host_network import HostNetwork, Sysctl

RECORD_FILE = "/run/heddle/forwarding"
SETTINGS = Path("/proc/sys")


@dataclass(frozen=True)
class NicForwarding:
    """`nics` are those that are to forward, `known` those of the record."""

    nics: frozenset[str]
    known: frozenset[str]
    settings: Path = SETTINGS
    record: str = RECORD_FILE

    @property
    def missing(self) -> set[str]:
        """Return the NICs that the host does not have, or that have no IPv4."""
        return {nic for nic in self.nics if not self._value(nic)}

    @property
    def routing(self) -> set[str]:
        """Return the NICs that others have made forward.

        `net.ipv4.ip_forward` alone says nothing of a NIC: its own setting may have been made 0 afterwards.
        """
        return {nic for nic in self.nics - self.known if self._value(nic) == "1"}

    @property
    def begins(self) -> bool:
        """Return whether a NIC is to forward that does not yet."""
        return any(self._value(nic) == "0" for nic in self.nics)

    def wanted(self, network: HostNetwork) -> HostNetwork:
        """Return what is desired of the host, with the end of forwarding on NICs that nothing needs it on any more."""
        needed = {one.name for one in network.sysctls}
        off = [
            Sysctl(forwarding_of(nic), "0")
            for nic in sorted(self.known - self.nics)
            if self._value(nic) and forwarding_of(nic) not in needed
        ]
        return replace(network, sysctls=(*network.sysctls, *off))

    def begin(self) -> None:
        """Note the NICs that Heddle makes forward."""
        self._note(self.known | (self.nics - self.routing))

    @property
    def ending(self) -> list[str]:
        """Return the NICs that forward because of Heddle, and that nothing needs it on any more."""
        return [nic for nic in sorted(self.known - self.nics) if self._value(nic) == "1"]

    def stop(self) -> list[str]:
        """Stop forwarding on NICs that nothing needs it on any more; return these. The rules may go afterwards."""
        ended = self.ending
        for nic in ended:
            # A NIC may go at any moment.
            with contextlib.suppress(OSError):
                (self.settings / forwarding_of(nic)).write_text("0", encoding="ascii")
        return ended

    def end(self) -> None:
        """Forget those that no longer do so, when settings and rules are as desired."""
        self._note(self.nics & self.known)

    def _note(self, names: Collection[str]) -> None:
        content = "".join(f"{name}\n" for name in sorted(names))
        if frozenset(names) != _read_record(self.record):
            os.makedirs(os.path.dirname(self.record), mode=0o755, exist_ok=True)
            replace_file(self.record, content, durable=False)

    def _value(self, nic: str) -> str:
        return self._read(forwarding_of(nic))

    def _read(self, name: str) -> str:
        try:
            return (self.settings / name).read_text(encoding="ascii").strip()
        except OSError:
            return ""


def nic_forwarding(plan: dict, node: str, settings: Path = SETTINGS, record: str = RECORD_FILE) -> NicForwarding:
    """Return what the plan and this host say."""
    views = primary_views(plan, node)
    nics = forwarding_nics(views) if views else []
    return NicForwarding(frozenset(nics), _read_record(record), settings, record)


def made_forward(settings: Path = SETTINGS, record: str = RECORD_FILE) -> NicForwarding:
    """Return what to end on a host that Heddle leaves."""
    return NicForwarding(frozenset(), _read_record(record), settings, record)


def _read_record(path: str) -> frozenset[str]:
    try:
        with open(path, encoding="utf-8", errors="replace") as text:
            return frozenset(text.read().split())
    except OSError:
        return frozenset()
