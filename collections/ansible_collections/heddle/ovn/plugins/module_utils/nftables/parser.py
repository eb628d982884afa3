# SPDX-License-Identifier: Apache-2.0
"""Formats Heddle's nftables tables for nft(8), and parses nft's output into comparable objects.

Chains are compared by the text that nft prints, which is complete (its JSON leaves out the level of a
cgroup), sets and maps by its JSON, whose elements can be put in order. Both sides are printed by the same nft.
"""

from __future__ import annotations

import json
import re

from ..types.nftables_ruleset import FAMILY, Chain, Firewall, Map, Set

_CHAIN = re.compile(r"\tchain (\S+) \{")
# What gives packets a zone for the original direction by a map: the numbers are its values (nft(8), "ct statement").
_ZONE_RULE, _ZONE = re.compile(r"\bct original zone set .* map \{(.*)\}"), re.compile(r" : (\d+)")
# An element of a map that translates UDP by the destination to an address and a port.
_UDP_TRANSLATION = re.compile(r"(\S+) \. udp \. (\d+) : \S+ \. \d+")
_HEAD = re.compile(r"type (\w+) hook (\w+) (?:device \S+ )?priority ([^;]+); policy (\w+);")


def is_empty(firewall: Firewall) -> bool:
    """Return whether the desired table is empty, including the table itself."""
    return not (firewall.chains or firewall.sets or firewall.maps)


def table_text(firewall: Firewall) -> str:
    """Return the table for `nft -f`."""
    lines = [f"table {FAMILY} {firewall.table} {{"]
    for collection in (*firewall.sets, *firewall.maps):
        lines += _collection_lines(collection)
    for chain in firewall.chains:
        lines.append(f"\tchain {chain.name} {{")
        if chain.hook:
            lines.append(
                f"\t\ttype {chain.kind} hook {chain.hook} priority {chain.priority}; policy {chain.policy};"
            )  # fmt: skip
        lines += [f"\t\t{rule}" for rule in chain.rules]
        lines.append("\t}")
    return "\n".join([*lines, "}", ""])


def _collection_lines(collection: Set | Map) -> list[str]:
    kind, value = ("map", f" : {collection.value}") if isinstance(collection, Map) else ("set", "")
    lines = [f"\t{kind} {collection.name} {{", f"\t\ttype {collection.type}{value}"]
    if collection.flags:
        lines.append(f"\t\tflags {','.join(collection.flags)}")
    if collection.elements:
        lines.append(f"\t\telements = {{ {', '.join(collection.elements)} }}")
    return [*lines, "\t}"]


def replacement_text(firewall: Firewall) -> str:
    """Return the commands that replace the existing table, as one transaction."""
    removal = f"add table {FAMILY} {firewall.table}\ndelete table {FAMILY} {firewall.table}\n"
    return removal if is_empty(firewall) else removal + table_text(firewall)


def described(firewall: Firewall) -> dict[tuple[str, str], dict]:
    """Return the desired objects as written, for a host without nft; keys as in `read_objects`."""
    objects: dict[tuple[str, str], dict] = {}
    for chain in firewall.chains:
        objects["chain", chain.name] = _chain(chain)
    for collection in (*firewall.sets, *firewall.maps):
        kind = "map" if isinstance(collection, Map) else "set"
        objects[kind, collection.name] = {"type": collection.type, "elements": sorted(collection.elements)}
    return objects


def _chain(chain: Chain) -> dict:
    if not chain.hook:
        return {"rules": list(chain.rules)}
    head = {"type": chain.kind, "hook": chain.hook, "priority": chain.priority, "policy": chain.policy}
    return {**head, "rules": list(chain.rules)}


def read_objects(text: str, encoded: str) -> dict[tuple[str, str], dict]:
    """Return chains, sets and maps out of `nft -s list table` and `nft -s -j list table`, by (kind, name)."""
    objects = dict(_read_chains(text))
    for item in json.loads(encoded)["nftables"]:
        for kind in ("set", "map"):
            if kind in item:
                objects[kind, item[kind]["name"]] = _read_collection(item[kind])
    return objects


def original_zones(objects: dict[tuple[str, str], dict]) -> frozenset[int]:
    """Return the connection tracking zones that chains give packets for the original direction, by maps in rules."""
    rules = (rule for (kind, _name), value in objects.items() if kind == "chain" for rule in value["rules"])
    return frozenset(
        int(zone) for rule in rules if (found := _ZONE_RULE.search(rule)) for zone in _ZONE.findall(found[1])
    )


def udp_translations(objects: dict[tuple[str, str], dict]) -> dict[tuple[str, int], set[tuple[str, str]]]:
    """Return where maps lead UDP by its destination: address and port, with the maps and their elements."""
    found: dict[tuple[str, int], set[tuple[str, str]]] = {}
    for (kind, name), value in objects.items():
        for element in value["elements"] if kind == "map" else ():
            if match := _UDP_TRANSLATION.fullmatch(element):
                found.setdefault((match[1], int(match[2])), set()).add((name, element))
    return found


def _read_chains(text: str):
    chain: dict | None = None
    for line in text.splitlines():
        found = _CHAIN.match(line)
        if found:
            chain = {"rules": []}
            yield ("chain", found[1]), chain
        elif line == "\t}":
            chain = None
        elif chain is not None:
            rule = line.removeprefix("\t\t")
            head = _HEAD.match(rule)
            if head and not chain["rules"] and "hook" not in chain:
                chain.update(zip(("type", "hook", "priority", "policy"), head.groups(), strict=True))
            elif rule.startswith(("\t", " ")) and chain["rules"]:
                chain["rules"][-1] += f" {rule.strip()}"
            else:
                chain["rules"].append(rule)


def _read_collection(item: dict) -> dict:
    left_out = ("family", "table", "name", "handle", "elem", "map", "type")
    value = {
        key: item[key] if isinstance(item[key], (int, str)) else _text(item[key]) for key in set(item) - {*left_out}
    }
    value["type"] = _names(item["type"])
    elements = item.get("elem", ())
    if "map" in item:
        value["type"] += f" : {_names(item['map'])}"
        return {**value, "elements": sorted(f"{_text(key)} : {_text(data)}" for key, data in elements)}
    return {**value, "elements": sorted(map(_text, elements))}


def _names(value: str | list) -> str:
    return value if isinstance(value, str) else " . ".join(value)


def _text(value) -> str:
    """Return keys and values in nft's notation; unknown ones as JSON."""
    if isinstance(value, dict) and len(value) == 1:
        ((word, inner),) = value.items()
        if word == "concat":
            return " . ".join(map(_text, inner))
        if word == "prefix":
            return f"{inner['addr']}/{inner['len']}"
        if word == "range":
            return "-".join(map(_text, inner))
        if word in ("goto", "jump"):
            return f"{word} {inner['target']}"
        if inner is None:
            return word
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True)
