# SPDX-License-Identifier: Apache-2.0
"""Throughput to an external host: routed, and through tunnels to a router, beside the same made by `ip` by hand.

    python -m tests.bench.egress_throughput

One host with a client and a router of an Egress, and workloads in which `ip` and `nft` make the same tunnel, listener
and translation; all have the same links and routes. It runs in a guest of User Mode Linux, whose kernel has FoU,
without root. TCP by one connection, median of rounds that take turns. `ratio` is Heddle's throughput by that of the
commands, measured before it and after it: the median over the rounds.
"""

from __future__ import annotations

import contextlib
import statistics
from collections.abc import Iterator
from pathlib import Path

from ansible_collections.heddle.ovn.plugins.module_utils.netlink import kernel
from tests.bench import guest
from tests.bench.rate import rate
from tests.live.coil.hosts import OUTSIDE, OWNER, apply, fleet, host, run
from tests.live.egress.manifests import CLIENT, OTHER, TENANT, text
from tests.pipeline import plan_of, workload

_FAR = {4: "9.9.9.9", 6: "2606:4700:4700::9999"}
_HAND = f"{TENANT}_hand"
_ROUNDS, _SECONDS = 15, 0.6


def test_throughput(tmp_path):
    """In the guest, where pytest runs it: print the figures."""
    guest.show(figures(tmp_path))


def figures(scratch: Path) -> dict[str, float]:
    """Return Mbit/s of each way, and Heddle's by that of commands."""
    from ansible_collections.heddle.ovn.plugins.module_utils.agent.egress_nat import apply_egress

    plan = plan_of(text(fouSourcePortAuto=True) + workload(TENANT, "hand", "node1"))
    with fleet(1):
        run(OUTSIDE, "ip", "link", "add", "far", "up", "type", "dummy")
        for address in (f"{_FAR[4]}/32", f"{_FAR[6]}/128"):
            run(OUTSIDE, "ip", "address", "add", address, "dev", "far")
        try:
            apply(plan, "node1", host(1))
            with kernel.in_netns(host(1)):
                apply_egress(plan, "node1", f"{OWNER}-node1", write=True, mark_file=scratch / "mark")
            for block in plan["coil"]["blocks"]["node1"]:
                run(OUTSIDE, "ip", "route", "add", block, "via", "2001:db8::1" if ":" in block else "192.0.2.1")
            return _measured(plan["coil"]["workloads"])
        finally:
            apply(plan_of(""), "node1", host(1))


def _measured(workloads: dict) -> dict[str, float]:
    """Rounds take turns, and ratios are of neighbours, so that what else the machine does meets all ways alike."""
    ends = {version: [workloads[f"{TENANT}/{name}"]["addresses"][version == 6] for name in ("plain", "hand")]
            for version in (4, 6)}  # fmt: skip
    found: dict[str, list[float]] = {}

    def by_hand(kind: str, version: int) -> float:
        with _by_hand(kind, version, *ends[version]):
            found_rate = rate(OTHER, OUTSIDE, _FAR[version], _SECONDS)
        found.setdefault(f"{kind} by hand IPv{version}", []).append(found_rate)
        return found_rate

    for _round in range(_ROUNDS):
        for version in (4, 6):
            found.setdefault(f"route IPv{version}", []).append(rate(OTHER, OUTSIDE, _FAR[version], _SECONDS))
            by_hand("ipip", version)
            before = by_hand("fou", version)
            own = rate(CLIENT, OUTSIDE, _FAR[version], _SECONDS)
            found.setdefault(f"Egress IPv{version}", []).append(own)
            found.setdefault(f"ratio IPv{version}", []).append(2 * own / (before + by_hand("fou", version)))
    return {name: round(statistics.median(one), 3) for name, one in found.items()}


@contextlib.contextmanager
def _by_hand(kind: str, version: int, client: str, router: str) -> Iterator[None]:
    """A tunnel between two workloads, and translation in the second, by the commands of Coil's design document."""
    family, protocol, word = ("-4", "4", "ip") if version == 4 else ("-6", "41", "ip6")
    device = ["type", "ipip"] if version == 4 else ["type", "ip6tnl", "mode", "ip6ip6", "encaplimit", "none"]
    hops = ["ttl" if version == 4 else "hoplimit", "225"]
    encapsulation = ["encap", "fou", "encap-sport", "auto", "encap-dport", "5555"] if kind == "fou" else []
    run(_HAND, "sysctl", "-qw", "net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1")
    for where, local, remote, to in ((OTHER, client, router, _FAR[version]), (_HAND, router, client, client)):
        run(where, "sysctl", "-qw", "net.ipv4.conf.all.rp_filter=0", "net.ipv4.conf.default.rp_filter=0")
        if encapsulation:
            run(where, "ip", family, "fou", "add", "port", "5555", "ipproto", protocol)
        run(where, "ip", "link", "add", "hand", *device, "local", local, "remote", remote, *hops, *encapsulation)
        run(where, "ip", "link", "set", "hand", "up")
        # Inside the tunnel only: the tunnel itself is routed by a table that is looked up first.
        run(where, "ip", family, "route", "add", to, "dev", "hand", "table", "99")
        rule = ["iif", "eth0"] if where == _HAND else ["to", to]
        run(where, "ip", family, "rule", "add", "pref", "99", *rule, "lookup", "99")
    run(_HAND, "nft", "add", "table", "inet", "hand")
    run(_HAND, "nft", "add chain inet hand out { type nat hook postrouting priority 100; }")
    run(_HAND, "nft", f'add rule inet hand out {word} saddr != {router} oifname "eth0" masquerade')
    try:
        yield
    finally:
        run(_HAND, "nft", "delete", "table", "inet", "hand")
        for where in (OTHER, _HAND):
            run(where, "ip", family, "rule", "del", "pref", "99")
            run(where, "ip", "link", "del", "hand")
            if encapsulation:
                run(where, "ip", family, "fou", "del", "port", "5555")


if __name__ == "__main__":
    guest.main("tests/bench/egress_throughput.py")
