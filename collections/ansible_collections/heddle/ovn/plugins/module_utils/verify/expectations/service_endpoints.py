# SPDX-License-Identifier: Apache-2.0
"""What a client gets of a port of a Service: which workloads may answer, and what policies say about it. Pure.

Policies decide about the endpoint that a connection is sent to, so the result is known where they permit all endpoints
or none. Where it is not known the port is not tested, and `Untested` says why.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ...common.addressing import family, plain
from ...common.naming import LOCKED_ROLE
from ...common.text.some_of import some_of
from ..probing.datagram import PORT
from .policy_permissions import EGRESS, INGRESS, PolicyPermissions
from .selection import MOST_NAMES

# Why ports of Services are not tested.
SCTP = "SCTP ports are not tested"
NO_WORKLOAD = "ports that lead to others than workloads of their network are not tested"
MACHINES = "ports that lead to virtual machines are not tested"
UDP_ELSEWHERE = f"UDP ports that lead elsewhere than to port {PORT} are not tested"
SOME_ENDPOINTS = "ports are not tested from clients to which policies permit some endpoints only"


@dataclass(frozen=True, slots=True)
class Client:
    """Who connects, as endpoints see it: `workload` is one of their network, "" for others.

    `addresses` are those of which endpoints see one, where it is not known which.
    """

    addresses: tuple[str, ...]
    workload: str = ""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a client gets of a port of a Service; with `untested` it is not known, for that reason.

    `responders` are the workloads any of which may answer, `named` whether their answers have their names. `denied`:
    policies keep it from all endpoints.
    """

    reach: bool = False
    reason: str = ""
    responders: tuple[str, ...] = ()
    named: bool = False
    denied: bool = False
    untested: str = ""


@dataclass(frozen=True, slots=True)
class Untested:
    """A packet of a kind that is not tested, because of a reason; `what` is the port of the Service."""

    kind: str
    reason: str
    what: str


class ServiceEndpoints:
    """The endpoints of the Services of a plan, and what policies say about connections to them."""

    def __init__(self, plan: dict, policies: PolicyPermissions) -> None:
        self._policies = policies
        self._names: dict[tuple[str, str], str] = {}
        self._addresses: dict[tuple[str, str, int], tuple[str, ...]] = {}
        self._machines = {name for name, workload in plan["workloads"].items() if workload["kind"] != "netns"}
        for name, workload in plan["workloads"].items():
            for interface in workload["interfaces"]:
                for address in map(plain, interface["addresses"] if interface["role"] != LOCKED_ROLE else ()):
                    self._names[interface["network"], address] = name
                    key = interface["network"], name, family(address)
                    self._addresses[key] = (*self._addresses.get(key, ()), address)
        self._decided: dict[tuple[str, str, str], bool] = {}

    def client(self, network: str, workload: str, version: int) -> Client:
        """Return a workload of a network as the endpoints there see it."""
        return Client(self._addresses.get((network, workload, version), ()), workload)

    def outcome(
        self, network: str, port: dict, version: int, client: Client, reason: str, node: str = "", kept_out: str = ""
    ) -> Outcome:  # fmt: skip
        """Return what a client gets of a port of the plan; `reason` is why an endpoint answers it.

        With `node` the port leads to the endpoints on that node only. `kept_out`: why it is led to none.
        """
        if untested := self.untested(network, port, version, node):
            return Outcome(untested=untested)
        ends = _ends(port, version, node)
        responders = tuple(self._names[network, one["address"]] for one in ends)
        named = leads_to_verify(ends)
        if kept_out:
            return Outcome(False, kept_out, responders, named)
        if not ends:
            return Outcome(True, f"without an endpoint{f' on {node}' if node else ''} the port refuses")
        if self._is_unclear(network, client, responders):
            return Outcome(untested=SOME_ENDPOINTS)
        refusals = self._refusals(network, client, port["protocol"], ends)
        if not any(refusals):
            return Outcome(True, reason, responders, named)
        if not all(refusals):
            return Outcome(untested=SOME_ENDPOINTS)
        return Outcome(False, f"policies permit none of its endpoints; {refusals[0]}", responders, named, denied=True)

    def untested(self, network: str, port: dict, version: int, node: str = "") -> str:
        """Return why the answers of a port of the plan are not known, whatever the client is; "" where they are."""
        if port["protocol"] == "SCTP":
            return SCTP
        if not all((network, one["address"]) in self._names for one in _ends(port, version, "")):
            return NO_WORKLOAD
        ends = _ends(port, version, node)
        if any(self._names[network, one["address"]] in self._machines for one in ends):
            return MACHINES
        if port["protocol"] == "UDP" and ends and not leads_to_verify(ends):
            return UDP_ELSEWHERE
        return ""

    def behind(self, network: str, port: dict, version: int) -> tuple[str, ...]:
        """Return the workloads behind a port of a Service."""
        found = (self._names.get((network, one["address"]), "") for one in _ends(port, version, ""))
        return tuple(name for name in found if name)

    def answering(self, network: str, port: dict, version: int) -> tuple[str, ...]:
        """Return the workloads behind a port of a Service, none unless all its endpoints answer verify."""
        ends = _ends(port, version, "")
        if not leads_to_verify(ends) or self.untested(network, port, version):
            return ()
        return self.behind(network, port, version)

    def is_decided(self, direction: str, network: str, workload: str) -> bool:
        """Return whether a policy applies to what a workload sends or receives on a network."""
        key = direction, network, workload
        if key not in self._decided:
            self._decided[key] = self._policies.isolates(*key)
        return self._decided[key]

    def _is_unclear(self, network: str, client: Client, responders: tuple[str, ...]) -> bool:
        """Return whether a workload may get its own connection, which is permitted whatever its policies say."""
        return client.workload in responders and any(
            self.is_decided(direction, network, client.workload) for direction in (INGRESS, EGRESS)
        )

    def _refusals(self, network: str, client: Client, protocol: str, ends: list[dict]) -> list[str]:
        """Return by endpoint, and by address of the client, why policies do not permit a connection, "" if they do."""
        sends = bool(client.workload) and self.is_decided(EGRESS, network, client.workload)
        return [
            self._policies.refusal(network, client.workload, target, (address, one["address"]), protocol, one["port"])
            if sends or self.is_decided(INGRESS, network, target)
            else ""
            for one in ends
            for target in (self._names[network, one["address"]],)
            for address in client.addresses
        ]


def leads_to_verify(ends: list[dict]) -> bool:
    """Return whether all endpoints are at the port of verify; False without any."""
    return bool(ends) and {one["port"] for one in ends} == {PORT}


def lines_of(found: Iterable[Untested]) -> list[str]:
    """Return one line for each reason why ports of Services are not tested, with the kinds of packets."""
    by_reason: dict[str, tuple[dict[str, None], dict[str, None]]] = {}
    for one in found:
        kinds, ports = by_reason.setdefault(one.reason, ({}, {}))
        kinds[one.kind] = ports[one.what] = None
    return [
        f"{', '.join(kinds)}: {reason}: {some_of(list(ports), MOST_NAMES)}"
        for reason, (kinds, ports) in by_reason.items()
    ]


def _ends(port: dict, version: int, node: str) -> list[dict]:
    """Return the endpoints of a port and family, with `node` those on it only."""
    return [one for one in port["endpoints"] if family(one["address"]) == version and node in ("", one["node"])]
