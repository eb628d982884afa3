# SPDX-License-Identifier: Apache-2.0
"""Sockets in the network namespaces of workloads. A socket stays in the namespace that it was opened in."""

from __future__ import annotations

import contextlib
import resource
import socket
from collections.abc import Iterable
from dataclasses import dataclass

from ...common.addressing import family
from ...common.naming import workload_namespace
from ...common.sockets.path_mtu_discovery import PROBE_PATH_MTU
from ...netlink import kernel
from ..expectations.expectation import addresses_of
from ..expectations.external_expectations import host_addresses, in_vrf, vrf_devices
from ..expectations.pools import with_pools
from .datagram import PORT

_SPARE_DESCRIPTORS = 64
# As many TCP connections may be open at a time; beyond that the responder ends the oldest one.
MOST_CONNECTIONS = 256
_BACKLOG = 1024
_FAMILIES = {4: socket.AF_INET, 6: socket.AF_INET6}


@dataclass(frozen=True, slots=True)
class Place:
    """Location of a source's sockets: a network namespace, None for the host's own, and a VRF if `device` names one."""

    namespace: str | None = None
    device: str = ""


@dataclass(frozen=True, slots=True)
class Listener:
    """One address that a workload or host answers on; a link-local one belongs to an interface. `protocol`: UDP or TCP.

    With `unsolicited` a second socket answers each question as well. Answers leave by the interface `device` where one
    is named: with two on one subnet, the kernel's routes would choose the first one, whose port may not send them.
    """

    workload: str
    namespace: str | None
    network: str
    address: str
    interface: str = ""
    unsolicited: bool = False
    device: str = ""
    protocol: str = "UDP"


def local_workloads(plan: dict, node: str) -> dict[str, str]:
    """Return the network namespaces of a node's workloads by workload, those with an address of a pool among them."""
    return {
        name: workload_namespace(workload["namespace"], workload["name"])
        for name, workload in with_pools(plan)["workloads"].items()
        if workload["node"] == node and workload["kind"] == "netns"
    }


def places(plan: dict, node: str) -> dict[str, Place]:
    """Return the sources of a node: its workloads, itself, and itself in each VRF."""
    found = {name: Place(namespace) for name, namespace in local_workloads(plan, node).items()}
    found[node] = Place()
    for network, device in vrf_devices(plan, node).items():
        found[in_vrf(node, network)] = Place(None, device)
    return found


def listeners(plan: dict, node: str) -> list[Listener]:
    """Return all addresses that a node's workloads and the node answer on: TCP where a Service leads there by TCP."""
    plan = with_pools(plan)
    by_tcp = _tcp_endpoints(plan)
    return [Listener(node, None, "", address) for address in host_addresses(plan, node)] + [
        Listener(
            name, namespace, interface["network"], address, "" if interface["addresses"] else interface["name"],
            device=_device(plan["workloads"][name], interface), protocol=protocol,
        )
        for name, namespace in local_workloads(plan, node).items()
        for interface in plan["workloads"][name]["interfaces"]
        for address in addresses_of(interface)
        for protocol in ("UDP", *(("TCP",) if (interface["network"], address) in by_tcp else ()))
    ]  # fmt: skip


def _tcp_endpoints(plan: dict) -> set[tuple[str, str]]:
    """Return network and address of the endpoints that Services lead to at the port of verify by TCP."""
    return {
        (network, one["address"])
        for network, services in plan.get("services", {}).items()
        for service in services.values()
        for port in service["ports"]
        for one in port["endpoints"]
        if (port["protocol"], one["port"]) == ("TCP", PORT)
    }


def _device(workload: dict, interface: dict) -> str:
    """Return an interface's name where the workload has another one on the same network."""
    count = sum(one["network"] == interface["network"] for one in workload["interfaces"])
    return interface["name"] if count > 1 else ""


def external_listeners(name: str, addresses: list[str]) -> list[Listener]:
    """Return the addresses that an external host answers on."""
    return [Listener(name, None, "", address, unsolicited=True) for address in addresses]


def open_listeners(wanted: list[Listener], port: int) -> tuple[dict[socket.socket, Listener], list[str]]:
    """Open a socket on each address, and on no other; return them and one line for each that could not be opened."""
    allow_descriptors(len(wanted) + MOST_CONNECTIONS)
    present = present_namespaces(listener.namespace for listener in wanted)
    opened: dict[socket.socket, Listener] = {}
    problems = []
    for listener in wanted:
        if listener.namespace not in present:
            problems.append(f"{listener.workload}: there is no network namespace {listener.namespace}")
            continue
        try:
            with kernel.in_netns(listener.namespace):
                opened[_bound(listener, port)] = listener
        except OSError as error:
            number = f"port {port}" if listener.protocol == "UDP" else f"TCP port {port}"
            problems.append(f"{listener.workload}: {listener.address} {number}: {error.strerror or error}")
    return opened, sorted(set(problems))


def present_namespaces(wanted: Iterable[str | None]) -> set[str | None]:
    """Return the network namespaces of this host, among them its own as None."""
    return {None, *kernel.namespaces()} if any(wanted) else {None}


def open_socket(place: Place, version: int, kind: int) -> socket.socket:
    """Open a socket at a place, whose routes it will use; `version` is 4 or 6, `kind` as in socket(2)."""
    with kernel.in_netns(place.namespace):
        opened = socket.socket(_FAMILIES[version], kind)
    try:
        if place.device:
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, place.device.encode())
    except OSError:
        opened.close()
        raise
    opened.setblocking(False)
    return opened


def open_sender(place: Place, version: int) -> socket.socket:
    """Open a socket that sends datagrams from a place, none of which may be fragmented."""
    opened = open_socket(place, version, socket.SOCK_DGRAM)
    # A path MTU that the kernel learned, which it keeps for 10 minutes, may be that of a former path.
    opened.setsockopt(*PROBE_PATH_MTU[version])
    return opened


def destination(address: str, port: int, interface: str) -> tuple:
    """Return what a socket in the current namespace binds or sends to; a link-local address needs the interface."""
    return (address, port, 0, socket.if_nametoindex(interface)) if interface else (address, port)


def _bound(listener: Listener, port: int) -> socket.socket:
    is_tcp = listener.protocol == "TCP"
    opened = socket.socket(_FAMILIES[family(listener.address)], socket.SOCK_STREAM if is_tcp else socket.SOCK_DGRAM)
    try:
        if listener.device:
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, listener.device.encode())
        if is_tcp:
            # Connections of an earlier run, which the kernel still remembers, are no obstacle.
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        opened.bind(destination(listener.address, port, listener.interface))
        if is_tcp:
            opened.listen(_BACKLOG)
    except OSError:
        opened.close()
        raise
    opened.setblocking(False)
    return opened


def allow_descriptors(count: int) -> None:
    """Raise this process's limit of open files for this many sockets, as far as the hard limit permits."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = count + _SPARE_DESCRIPTORS
    if soft < wanted:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (min(wanted, hard), hard))
