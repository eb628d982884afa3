# SPDX-License-Identifier: Apache-2.0
"""Parses and formats flows: names of ports become numbers, and both sides of a comparison get the same form.

A desired flow is converted to its OpenFlow message and printed by `ovs-ofctl parse-flows`; the switch's
flows are printed from messages too. So two flows are equal exactly when their messages are, whatever their notation
(`mod_dl_dst` or `set_field`, for instance), and no actions or fields are interpreted here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from ..common.errors import OpenFlowError
from ..types.openflow_flow import Flow

# The first version with bundles. All parts of a comparison have to use the same one.
VERSION = "OpenFlow14"
_PLACEHOLDER = re.compile(r"\{([^{}]*)\}")
_MESSAGE = re.compile(r"OFPT_FLOW_MOD .*?: ADD (?:table:(\d+) ?)?(.*?) ?\bcookie:(0x[0-9a-f]+) ?(.*?) ?actions=(.*)\Z")
_PRIORITY = re.compile(r"(?:priority=(\d+),?)?(.*)\Z")
_OPTION = re.compile(r"(?:(?:idle|hard)_timeout|importance)=\d+\Z")
_DEFAULT_PRIORITY = 32768
# Before a range of ports an IPv6 address is in brackets.
_TRANSLATION = re.compile(r"\bzone=(\d+),nat\(src=\[?((?:\d+\.){3}\d+|[0-9a-f:.]+)")


@dataclass(frozen=True, slots=True)
class Entry:
    """One flow in canonical form; `options` are timeouts and flags, which Heddle's flows do not have."""

    table: int
    priority: int
    match: str
    cookie: int
    actions: str
    options: str = ""

    @property
    def key(self) -> tuple[int, int, str]:
        """The identity of a flow in a bridge."""
        return self.table, self.priority, self.match


def ports_of(flow: Flow) -> set[str]:
    """Return the names of the ports that a flow mentions."""
    return set(_PLACEHOLDER.findall(flow.match)) | set(_PLACEHOLDER.findall(flow.actions))


def resolved(text: str, ports: Mapping[str, str]) -> str:
    """Return a match or actions with numbers of ports; KeyError when a port is not in `ports`."""
    return _PLACEHOLDER.sub(lambda name: ports[name[1]], text)


def flow_line(flow: Flow, ports: dict[str, str]) -> str:
    """Return the flow as `ovs-ofctl` reads it; KeyError when a port is not in `ports`."""
    match, actions = (resolved(text, ports) for text in (flow.match, flow.actions))
    fields = [f"cookie={flow.cookie:#x}", f"table={flow.table}", f"priority={flow.priority}", match]
    return f"{','.join(field for field in fields if field)},actions={actions}"


def source_translations(entry: Entry) -> set[tuple[int, str]]:
    """Return (conntrack zone, source address) of each source NAT action of a flow."""
    return {(int(zone), address) for zone, address in _TRANSLATION.findall(entry.actions)}


def entry_line(entry: Entry) -> str:
    """Return a line of a bundle that adds a flow, or replaces the one with the same key."""
    return f"add {_head(f'cookie={entry.cookie:#x}', entry)},actions={entry.actions}"


def deletion_line(entry: Entry) -> str:
    """Return a line of a bundle that deletes a flow if it still has its cookie."""
    return f"delete_strict {_head(f'cookie={entry.cookie:#x}/-1', entry)}"


def _head(cookie: str, entry: Entry) -> str:
    fields = [cookie, f"table={entry.table}", f"priority={entry.priority}", entry.match]
    return ",".join(field for field in fields if field)


def read_messages(text: str) -> list[Entry]:
    """Return the flows in the output of `ovs-ofctl parse-flows`, in its order."""
    entries = []
    for line in text.splitlines():
        if line.startswith("OFPT_FLOW_MOD"):
            found = _MESSAGE.match(line)
            if found is None:
                raise OpenFlowError(f"ovs-ofctl printed a flow that cannot be read: {line}")
            table, match, cookie, options, actions = found.groups()
            priority, match = _priority(match)
            entries.append(Entry(int(table or 0), priority, match, int(cookie, 16), actions, options))
    return entries


def read_dump(text: str) -> list[Entry]:
    """Return the flows in the output of `ovs-ofctl dump-flows --no-stats`."""
    return [_dumped(line.strip()) for line in text.splitlines() if line.startswith(" cookie=")]


def _dumped(line: str) -> Entry:
    head, found, actions = line.partition(" actions=")
    if not found:
        raise OpenFlowError(f"ovs-ofctl printed a flow that cannot be read: {line}")
    table, cookie, options, match = 0, 0, [], ""
    for part in head.rstrip(",").replace(", ", " ").split(" "):
        if part.startswith("cookie="):
            cookie = int(part.removeprefix("cookie="), 16)
        elif part.startswith("table="):
            table = int(part.removeprefix("table="))
        elif _OPTION.match(part) or part in ("send_flow_rem", "check_overlap", "reset_counts"):
            options.append(part)
        elif part not in ("no_packet_counts", "no_byte_counts"):
            match = part
    priority, match = _priority(match)
    return Entry(table, priority, match, cookie, actions, " ".join(options))


def _priority(text: str) -> tuple[int, str]:
    """Split what ovs-ofctl prints as match; the default priority is not printed."""
    number, match = _PRIORITY.match(text).groups()
    return (int(number) if number is not None else _DEFAULT_PRIORITY), match
