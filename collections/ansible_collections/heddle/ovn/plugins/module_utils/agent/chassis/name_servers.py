# SPDX-License-Identifier: Apache-2.0
"""The name servers of a host that its workloads can ask as well (resolv.conf(5))."""

from __future__ import annotations

from ipaddress import ip_address
from pathlib import Path

# The second one has the servers behind the stub of systemd-resolved (systemd-resolved.service(8), "/etc/resolv.conf").
FILES = ("/etc/resolv.conf", "/run/systemd/resolve/resolv.conf")
# resolv.conf(5), MAXNS.
_MOST = 3


def read_name_servers(files: tuple[str, ...] = FILES) -> list[str]:
    """Return the addresses of the first file that has any, at most three.

    Those that are the host's alone are left out: loopback, link-local and unspecified addresses.
    """
    for path in files:
        try:
            lines = Path(path).read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            continue
        words = [line.split() for line in lines]
        named = [line[1] for line in words if len(line) > 1 and line[0] == "nameserver"]
        if found := list(dict.fromkeys(filter(None, map(_reachable, named)))):
            return found[:_MOST]
    return []


def _reachable(text: str) -> str | None:
    try:
        address = ip_address(text)
    except ValueError:
        return None
    alone = address.is_loopback or address.is_link_local or address.is_unspecified or address.is_multicast
    return None if alone else str(address)
