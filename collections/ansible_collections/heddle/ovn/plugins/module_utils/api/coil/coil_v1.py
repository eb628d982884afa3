# SPDX-License-Identifier: Apache-2.0
"""Reads what Coil v1 stored in etcd, as `etcdctl get --prefix /coil/ --write-out=json` prints it.

Coil v1, "Etcd Schema": `pool/NAME` has subnets and the size of blocks, `block/POOL/SUBNET` the blocks of each node,
`ip/BLOCK/OFFSET` the pod that has an address.
"""

from __future__ import annotations

import base64
import binascii
import ipaddress
import json
from dataclasses import dataclass, field

from ...common.addressing import network_of
from ..addresses import parse_cidr
from ..names import is_dns_label, is_dns_subdomain
from ..problem import show

_LARGEST_SIZE = 31
_REMEDY = "dump it again, or correct it with coilctl of Coil v1"


@dataclass(frozen=True, order=True)
class V1Block:
    """A block of a pool that a node has."""

    pool: str
    node: str
    cidr: str


@dataclass(frozen=True, order=True)
class V1Address:
    """An address that a pod has."""

    namespace: str
    pod: str
    address: str


@dataclass
class V1State:
    """All of a dump: `pools` are the specs of AddressPools by name."""

    pools: dict[str, dict] = field(default_factory=dict)
    blocks: list[V1Block] = field(default_factory=list)
    addresses: list[V1Address] = field(default_factory=list)


def read_v1_dump(name: str, text: str, prefix: str = "/coil/") -> tuple[V1State, list[str]]:
    """Return the content of a dump, and a line for each mistake: file, key, field, rule, remedy."""
    reading = _Reading(name, prefix)
    try:
        entries = json.loads(text)["kvs"]
        pairs = [(_decoded(entry["key"]), _decoded(entry.get("value", ""))) for entry in entries]
    except (ValueError, KeyError, TypeError, AttributeError, binascii.Error):
        rule = "is no output of etcdctl in JSON"
        return V1State(), [f"{name}: {rule}; write it with etcdctl get --prefix {prefix} --write-out=json"]
    for key, value in sorted(pairs):
        reading.read(key, value)
    if not reading.state.pools:
        reading.refuse(prefix, "pool/", "there is no pool", "name the prefix of Coil v1, which is /coil/ by default")
    return reading.state, reading.problems


def _decoded(text: str) -> str:
    return base64.b64decode(text, validate=True).decode()


class _Reading:
    """One pass over the keys; what is wrong is collected."""

    def __init__(self, name: str, prefix: str) -> None:
        self._name, self._prefix = name, prefix
        self.state, self.problems = V1State(), []

    def refuse(self, key: str, path: str, rule: str, remedy: str = _REMEDY) -> None:
        """Add a line about a key."""
        self.problems.append(f"{self._name}: {key}: {path}: {rule}; {remedy}")

    def read(self, key: str, text: str) -> None:
        """Read one key; those of other kinds, such as subnets and leases, are not needed."""
        kind, *rest = key.removeprefix(self._prefix).split("/")
        readers = {"pool": (self._pool, 1), "block": (self._block, 2), "ip": (self._address, 2)}
        reader, parts = readers.get(kind, (None, 0))
        if reader is None or not key.startswith(self._prefix):
            return
        try:
            value = json.loads(text)
        except ValueError:
            value = None
        if len(rest) != parts or not isinstance(value, dict):
            self.refuse(key, "value", "is no JSON object of Coil v1")
            return
        reader(key, rest, value)

    def _pool(self, key: str, rest: list[str], value: dict) -> None:
        subnets, size = value.get("subnets"), value.get("block_size")
        if not is_dns_subdomain(rest[0]):
            self.refuse(key, "name", f"{show(rest[0])} is no name of an AddressPool")
        if isinstance(size, bool) or not isinstance(size, int) or not 0 <= size <= _LARGEST_SIZE:
            self.refuse(key, "block_size", f"{show(size)} is no number from 0 to {_LARGEST_SIZE}")
            return
        if not isinstance(subnets, list) or not subnets:
            self.refuse(key, "subnets", "at least one is required")
            return
        found = [self._network(key, f"subnets[{number}]", one) for number, one in enumerate(subnets)]
        if all(found):
            self.state.pools[rest[0]] = {"blockSizeBits": size, "subnets": [{"ipv4": one} for one in found]}

    def _block(self, key: str, rest: list[str], value: dict) -> None:
        nodes = value.get("nodes") or {}
        if not isinstance(nodes, dict) or not all(isinstance(own, list) for own in nodes.values()):
            self.refuse(key, "nodes", "is no mapping of nodes to lists of blocks")
            return
        for node, own in sorted(nodes.items()):
            for number, one in enumerate(own):
                cidr = self._network(key, f"nodes.{node}[{number}]", one)
                if cidr:
                    self.state.blocks.append(V1Block(rest[0], node, cidr))

    def _address(self, key: str, rest: list[str], value: dict) -> None:
        names = [value.get("namespace"), value.get("pod")]
        wrong = [show(one) for one in names if not isinstance(one, str) or not is_dns_label(one)]
        if wrong:
            remedy = "remove this pod before the dump: a Workload has no such name"
            self.refuse(key, "namespace and pod", f"{', '.join(wrong)} is no DNS label", remedy)
            return
        try:
            found = ipaddress.IPv4Address(rest[0]) + int(rest[1])
        except ValueError:
            self.refuse(key, "key", "is no block and offset")
            return
        self.state.addresses.append(V1Address(*names, str(found)))

    def _network(self, key: str, path: str, text: object) -> str:
        parsed = parse_cidr(text) if isinstance(text, str) else None
        if parsed is None or parsed[1].version != 4:
            self.refuse(key, path, f"{show(text)} is no IPv4 CIDR")
            return ""
        return str(network_of(str(parsed[1])))
