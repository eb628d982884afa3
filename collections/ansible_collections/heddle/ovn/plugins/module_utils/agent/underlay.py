# SPDX-License-Identifier: Apache-2.0
"""The service that checks this host's paths to the others, and what it has found."""

from __future__ import annotations

import os

from ..common.addressing import family
from ..common.files.daemon_report import only_daemon, read_report
from ..common.files.replaced_file import ReplacedFile
from ..common.naming import MESH_TOPOLOGY
from ..netlink.nics import smallest_mtu
from ..render.common.overlay import overlay_of
from ..underlay_daemon.prober import Task
from ..underlay_daemon.watch import UNDERLAY_REPORT, watch
from .module_runner import PLAN_FILE, read_plan_file
from .service.components import read_host
from .service.service import say
from .underlay_probe import measurement_token

_WITHOUT_TUNNELS = ("Localnet", MESH_TOPOLOGY)


def run_underlay() -> None:
    """Run the checks until the plan asks for none."""
    os.makedirs(os.path.dirname(UNDERLAY_REPORT), mode=0o755, exist_ok=True)
    host = read_host()
    interface = host["chassis"]["underlay_interface"] or ""
    plan = ReplacedFile(PLAN_FILE, lambda path: watch_task(read_plan_file(path), host["node"], interface))
    with only_daemon(UNDERLAY_REPORT):
        watch(plan, UNDERLAY_REPORT, say)


def watch_task(plan: dict, node: str, interface: str) -> Task | None:
    """Return what a host has to check by its plan, None for nothing."""
    if not plan.get("underlay_probes") or node not in plan["nodes"]:
        return None
    peers = {name: one["encap_ips"] for name, one in plan["nodes"].items() if one["chassis"]}
    token = measurement_token(f"plan of {plan['deployment']}")
    return Task(node, token, peers, interface, largest_packet(plan), (overlay_of(plan).kind,), may_bind=False)


def largest_packet(plan: dict) -> int:
    """Return the length in bytes of the largest IP packet that tunnels of a plan's networks send."""
    overhead = overlay_of(plan).overhead
    versions = {family(address) for one in plan["nodes"].values() for address in one["encap_ips"]}
    return max(_sizes(plan)) + max(overhead[version] for version in versions)


def _sizes(plan: dict) -> list[int]:
    return [one["mtu"] for one in plan["networks"].values() if one["topology"] not in _WITHOUT_TUNNELS]


def narrow_paths(plan: dict, path: str = UNDERLAY_REPORT) -> list[str]:
    """Return a line for each path of this host that does not carry what the networks of the plan need."""
    overlay = overlay_of(plan)
    what = f"{overlay.kind} (UDP {overlay.udp_port})"
    return [
        f"path to {name}: "
        + (
            f"{what} packets of up to {one['size']} bytes get through, networks send {one['needed']}; raise its MTU, "
            f"or lower that of networks by {one['needed'] - one['size']}"
            if one["size"]
            else f"no {what} packet is answered; let the port through in both directions"
        )
        for name, one in known_paths(plan, path).items()
        if one["size"] < one["needed"]
    ]


def narrow_underlay(plan: dict, node: str) -> list[str]:
    """Return a line if the link of this host's tunnel endpoints does not carry what the networks of the plan need."""
    own = plan["nodes"][node]["encap_ips"]
    if len(plan["nodes"]) < 2 or not own or not _sizes(plan):
        return []
    needed, mtu = largest_packet(plan), smallest_mtu(own)
    if mtu is None or mtu >= needed:
        return []
    return [
        f"underlay: its MTU is {mtu}, networks send packets of up to {needed} bytes; raise it on this host, or lower "
        f"that of networks by {needed - mtu}"
    ]


def known_paths(plan: dict, path: str = UNDERLAY_REPORT) -> dict[str, dict]:
    """Return what the service has found about the paths to the other hosts of the plan, by host; see `watch`."""
    if not plan.get("underlay_probes"):
        return {}
    return {name: one for name, one in read_report(path).items() if name in plan["nodes"]}
