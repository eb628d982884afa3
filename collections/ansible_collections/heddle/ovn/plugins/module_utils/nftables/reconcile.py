# SPDX-License-Identifier: Apache-2.0
"""The engine for Heddle's nftables tables: compares desired and actual tables and replaces them in one write each.

A table of Heddle's is own as a whole; other tables are foreign. The desired table is loaded into a scratch network
namespace and read back from there, so both sides of the comparison come from the kernel, printed by the same nft, and
a mistake is found before anything is written. The table is then replaced in one transaction.
"""

from __future__ import annotations

from ..common.change import Change, Foreign, Outcome
from ..common.errors import FirewallError, NotInstalled, ProgramError
from ..common.processes import subprocesses
from ..netlink import kernel
from ..netlink.protocol import conntrack
from ..types.nftables_ruleset import FAMILY, OWN_TABLES, Firewall
from .messages import refusal
from .parser import described, is_empty, original_zones, read_objects, replacement_text, table_text, udp_translations

SUBSTRATE = "nftables"
Objects = dict[tuple[str, str], dict]


def reconcile_firewall(firewall: Firewall, *, write: bool, run: subprocesses.Run = subprocesses.run) -> Outcome:
    """Bring the table to exactly `firewall`; it is removed when that is empty.

    Rules name links by `iifname` and `oifname`: `iif` and `oif` cannot be checked where the links are not. On a host
    without nft, everything counts as missing when nothing is to be written. Connections in zones that the table used
    for their original direction, and does not any more, end; a note says if the kernel refuses that. They end before
    and after the table is replaced: a run that is cut off in between leaves only those that began meanwhile. UDP flows
    to what maps translate in another way now end, too: datagrams that follow each other go where the first one went.
    """
    try:
        tables = _tables(run)
    except NotInstalled as error:
        if write and not is_empty(firewall):
            raise FirewallError(str(error)) from error
        return planned_firewall(firewall)
    current = _read(firewall.table, run) if (FAMILY, firewall.table) in tables else None
    wanted = None if is_empty(firewall) else _canonical(firewall, run)
    changes = _changes(firewall.table, current, wanted)
    notes: tuple[str, ...] = ()
    if write and changes:
        former = original_zones(current or {}) - original_zones(wanted or {})
        _end_connections(former)
        _run(run, replacement_text(firewall))
        notes = (*_end_connections(former), *_end_flows(current or {}, wanted or {}))
    foreign = tuple(
        Foreign(SUBSTRATE, "table", f"{family} {name}", "")
        for family, name in tables
        if family != FAMILY or name not in OWN_TABLES
    )
    return Outcome(changes, foreign, notes=notes)


def planned_firewall(firewall: Firewall) -> Outcome:
    """Return the changes on an empty host."""
    return Outcome(_changes(firewall.table, None, None if is_empty(firewall) else described(firewall)))


def _end_connections(zones: frozenset[int]) -> tuple[str, ...]:
    """End the connections in zones: their replies would reach the network that gets the zone next."""
    try:
        if zones:
            conntrack.end_connections(zones)
    except OSError as error:
        return (f"connections in the zones {', '.join(map(str, sorted(zones)))} remain until they time out: {error}",)
    return ()


def _end_flows(current: Objects, wanted: Objects) -> tuple[str, ...]:
    """End the UDP flows to addresses and ports that are translated in another way than before, or not any more."""
    before, after = udp_translations(current), udp_translations(wanted)
    places = {place for place in (*before, *after) if before.get(place) != after.get(place)}
    try:
        if places:
            conntrack.end_flows(places)
    except OSError as error:
        return (f"UDP flows to {len(places)} addresses and ports of Services remain until they time out: {error}",)
    return ()


def _changes(table: str, current: Objects | None, wanted: Objects | None) -> tuple[Change, ...]:
    before, after = current or {}, wanted or {}
    changes = []
    # An empty table has no objects, so its creation and deletion are reported separately.
    if (current is None) != (wanted is None):
        action = "create" if current is None else "delete"
        changes.append(Change(SUBSTRATE, action, "table", f"{FAMILY} {table}", "", {}, {}))
    for key in sorted({*before, *after}):
        old, new = before.get(key), after.get(key)
        if old == new:
            continue
        if old is None or new is None:
            action = "create" if old is None else "delete"
            changes.append(Change(SUBSTRATE, action, *key, "", old or {}, new or {}))
        else:
            different = [name for name in sorted({*old, *new}) if old.get(name) != new.get(name)]
            parts = ({name: state[name] for name in different if name in state} for state in (old, new))
            changes.append(Change(SUBSTRATE, "update", *key, "", *parts))
    return tuple(changes)


def _tables(run: subprocesses.Run) -> list[tuple[str, str]]:
    lines = _run(run, "list tables").splitlines()
    return [(words[1], words[2]) for line in lines if len(words := line.split()) == 3]


def _read(table: str, run: subprocesses.Run) -> Objects:
    question = f"list table {FAMILY} {table}"
    return read_objects(_run(run, question, "-s"), _run(run, question, "-s", "-j"))


def _canonical(firewall: Firewall, run: subprocesses.Run) -> Objects:
    with kernel.scratch():
        _run(run, table_text(firewall))
        return _read(firewall.table, run)


def _run(run: subprocesses.Run, text: str, *options: str) -> str:
    try:
        return run(["nft", *options, "-f", "-"], text)
    except NotInstalled:
        raise
    except ProgramError as error:
        what = "a command" if text.startswith("list") else "the rules"
        raise FirewallError(f"nft refuses {what}: {refusal(text, error.stderr)}") from error
