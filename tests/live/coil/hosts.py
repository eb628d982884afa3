# SPDX-License-Identifier: Apache-2.0
"""Network namespaces that stand for hosts and a router between them, and what the tests do there."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
from collections.abc import Iterator

from ansible_collections.heddle.ovn.plugins.module_utils.common.change import Outcome
from ansible_collections.heddle.ovn.plugins.module_utils.common.polling import attempts
from ansible_collections.heddle.ovn.plugins.module_utils.netlink import kernel
from ansible_collections.heddle.ovn.plugins.module_utils.netlink.routed_workloads import (
    reconcile_routed_workloads,
    uplink_mtu,
)
from ansible_collections.heddle.ovn.plugins.module_utils.netlink.workload_links import reconcile_endpoints
from ansible_collections.heddle.ovn.plugins.module_utils.render.coil.workloads import (
    render_routed_endpoints,
    render_routed_workloads,
)
from tests.live.conftest import START_TIMEOUT

OWNER = f"coil{os.getpid()}:workload"
PREFIX = f"c{os.getpid()}"
OUTSIDE = f"{PREFIX}-outside"
# The namespaces of workloads on the hosts of the present fleet.
_WORKLOADS: set[str] = set()


def host(number: int) -> str:
    """Name of a namespace that stands for a host."""
    return f"{PREFIX}-node{number}"


def run(where: str, *argv: str, code: int | None = 0) -> str:
    """Run a command in a namespace; return what it prints."""
    done = subprocess.run(
        ["ip", "netns", "exec", where, *argv], capture_output=True, text=True, check=False, timeout=60
    )  # fmt: skip
    assert code is None or done.returncode == code, f"{argv}: {done.stdout}{done.stderr}"
    return done.stdout


def exchange(source: str, target: str, address: str) -> str:
    """Send a datagram from one namespace to an address of another one and have it answered.

    Return the source address that the target saw. Until the answer arrives the datagram is repeated: links that were
    just made lose some.
    """
    seen = _asked(source, target, address, START_TIMEOUT)
    assert seen is not None, f"{source} and {target} reached each other by {address} not within {START_TIMEOUT:g} s"
    return seen


def is_lost(source: str, target: str, address: str) -> bool:
    """Whether nothing comes back within a second, of datagrams as those of `exchange`."""
    return _asked(source, target, address, 1) is None


def _asked(source: str, target: str, address: str, seconds: float) -> str | None:
    """Ask until there is an answer; return the source address that the target saw, None without an answer."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with _socket(source, family) as asking, _socket(target, family) as answering:
        answering.bind((address, 0))
        try:
            asking.connect((address, answering.getsockname()[1]))
        except OSError as error:
            raise AssertionError(f"{source}: {error}: {run(source, 'ip', 'route', 'show', 'table', 'all')}") from error
        for _attempt in attempts(seconds):
            # An ICMP message about a former datagram is an error of the next call.
            with contextlib.suppress(OSError):
                asking.send(b"question")
                _data, sender = answering.recvfrom(64)
                answering.sendto(b"answer", sender)
                asking.recv(64)
                return sender[0]
    return None


def refusal(source: str, address: str) -> int:
    """Send datagrams to an address that no workload has; return the type of the ICMP message (ip(7))."""
    for _attempt in attempts(START_TIMEOUT):
        found = _refused(source, address)
        if found is not None:
            return found
    raise AssertionError(f"nothing refuses {address}")


def _refused(source: str, address: str) -> int | None:
    """Send one datagram; return the type of the ICMP message, None without one."""
    version6 = ":" in address
    level, option = (socket.IPPROTO_IPV6, 25) if version6 else (socket.IPPROTO_IP, 11)
    with _socket(source, socket.AF_INET6 if version6 else socket.AF_INET) as asking:
        asking.setsockopt(level, option, 1)
        asking.connect((address, 9))
        asking.send(b"question")
        try:
            asking.recv(64)
        except TimeoutError:
            return None
        except OSError:
            _data, [(_level, _type, error), *_more], _flags, _sender = asking.recvmsg(64, 512, socket.MSG_ERRQUEUE)
            # struct sock_extended_err: errno, origin, type.
            return error[5]
    return None


def _socket(where: str, family: int) -> socket.socket:
    with kernel.in_netns(where):
        found = socket.socket(family, socket.SOCK_DGRAM)
    found.settimeout(0.25)
    return found


@contextlib.contextmanager
def fleet(count: int = 2) -> Iterator[None]:
    """Hosts and a router with a bridge for all of them; hosts have 192.0.2.N and 2001:db8::N, the router .20."""
    names = [OUTSIDE, *(host(number) for number in range(1, count + 1))]
    with contextlib.ExitStack() as stack:
        stack.callback(_remove_workloads)
        for name in names:
            kernel.create_namespace(name, "")
            stack.callback(kernel.remove_namespace, name)
            run(name, "sysctl", "-qw", "net.ipv6.conf.default.accept_dad=0")
        run(OUTSIDE, "ip", "link", "add", "eth1", "type", "bridge")
        _address(OUTSIDE, 20)
        run(OUTSIDE, "sysctl", "-qw", "net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1")
        for number, name in enumerate(names[1:], start=1):
            run(OUTSIDE, "ip", "link", "add", f"port{number}", "master", "eth1", "up", "type", "veth",
                "peer", "name", "eth1", "netns", name)  # fmt: skip
            _address(name, number)
            run(name, "ip", "route", "add", "default", "via", "192.0.2.20")
            run(name, "ip", "route", "add", "default", "via", "2001:db8::20")
        yield


def _remove_workloads() -> None:
    """Another test of this process has workloads with the same names."""
    for name in _WORKLOADS & {*kernel.namespaces()}:
        kernel.remove_namespace(name)
    _WORKLOADS.clear()


def _address(name: str, number: int) -> None:
    run(name, "ip", "link", "set", "eth1", "up")
    run(name, "ip", "address", "add", f"192.0.2.{number}/24", "dev", "eth1")
    run(name, "ip", "address", "add", f"2001:db8::{number}/64", "dev", "eth1", "nodad")


def apply(plan: dict, node: str, where: str, *, write: bool = True, userspace: bool = False) -> Outcome:
    """Bring one host to its part of the plan, as its agent does; other hosts' namespaces are not its own."""
    with kernel.in_netns(where):
        endpoints = render_routed_endpoints(plan, node, uplink_mtu())
        owner = f"{OWNER}-{node}"
        _WORKLOADS.update(endpoint.namespace for endpoint in endpoints)
        outcome = reconcile_endpoints(endpoints, owner=owner, userspace=userspace, write=write)
        return outcome + reconcile_routed_workloads(render_routed_workloads(plan, node), write=write)
