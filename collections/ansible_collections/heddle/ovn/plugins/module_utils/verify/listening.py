# SPDX-License-Identifier: Apache-2.0
"""Sockets in the network namespaces of workloads. A socket stays in the namespace that it was opened in."""

from __future__ import annotations

import contextlib
import resource
import socket
from dataclasses import dataclass

from ..addressing import family
from ..apply import kernel
from ..naming import workload_namespace
from .expectation import addresses_of

_SPARE_DESCRIPTORS = 64
_FAMILIES = {4: socket.AF_INET, 6: socket.AF_INET6}


@dataclass(frozen=True, slots=True)
class Listener:
    """One address that a workload answers on; a link-local one is that of an interface."""

    workload: str
    namespace: str
    network: str
    address: str
    interface: str = ""


def local_workloads(plan: dict, node: str) -> dict[str, str]:
    """Return the network namespaces of a node's workloads by workload."""
    return {
        name: workload_namespace(workload["namespace"], workload["name"])
        for name, workload in plan["workloads"].items()
        if workload["node"] == node and workload["kind"] == "netns"
    }


def listeners(plan: dict, node: str) -> list[Listener]:
    """Return all addresses that a node's workloads answer on."""
    return [
        Listener(name, namespace, interface["network"], address, "" if interface["addresses"] else interface["name"])
        for name, namespace in local_workloads(plan, node).items()
        for interface in plan["workloads"][name]["interfaces"]
        for address in addresses_of(interface)
    ]


def open_listeners(wanted: list[Listener], port: int) -> tuple[dict[socket.socket, Listener], list[str]]:
    """Open a socket on each address, and on no other; returns them and one line for each that could not be."""
    allow_descriptors(len(wanted))
    present = set(kernel.namespaces())
    opened: dict[socket.socket, Listener] = {}
    problems = []
    for listener in wanted:
        if listener.namespace not in present:
            problems.append(f"{listener.workload}: there is no network namespace {listener.namespace}")
            continue
        try:
            with kernel.inside(listener.namespace):
                opened[_bound(listener, port)] = listener
        except OSError as error:
            problems.append(f"{listener.workload}: {listener.address} port {port}: {error.strerror or error}")
    return opened, sorted(set(problems))


def open_sender(namespace: str, number: int) -> socket.socket:
    """Open a socket that sends from inside a namespace, by its routes; `number` is the family, 4 or 6."""
    with kernel.inside(namespace):
        sender = socket.socket(_FAMILIES[number], socket.SOCK_DGRAM)
    sender.setblocking(False)
    return sender


def destination(address: str, port: int, interface: str) -> tuple:
    """Return what a socket in the current namespace binds or sends to; a link-local address needs the interface."""
    return (address, port, 0, socket.if_nametoindex(interface)) if interface else (address, port)


def _bound(listener: Listener, port: int) -> socket.socket:
    opened = socket.socket(_FAMILIES[family(listener.address)], socket.SOCK_DGRAM)
    try:
        opened.bind(destination(listener.address, port, listener.interface))
    except OSError:
        opened.close()
        raise
    opened.setblocking(False)
    return opened


def allow_descriptors(count: int) -> None:
    """Raise this process's limit of open files when so many sockets need it, as far as the hard limit goes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = count + _SPARE_DESCRIPTORS
    if soft < wanted:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (min(wanted, hard), hard))
