# SPDX-License-Identifier: Apache-2.0
"""What the policy rules of networks cost each packet that a host routes, beside four rules for each network.

    python -m tests.bench.ip_rules [--networks 10 1000] [--packets 2000] [--rounds 5]

In a network namespace the kernel forwards IPv4 packets from one link to another: those of no network, those with the
mark of a network, and those to the masquerade address of one, of eight networks spread over all. Nanoseconds for each
packet include sending and receiving it. They are the least of all batches of 100 packets, which on a machine that
others use is what an idle one would show. *four rules* is what ovn-kubernetes has: a rule for the mark and one for the
masquerade address, in each family. The ratios are to the smallest number of networks, and between both layouts.
Needs root.
"""

from __future__ import annotations

import argparse
import sys
import time

from ansible_collections.heddle.ovn.plugins.module_utils.common.addressing import nth_address
from ansible_collections.heddle.ovn.plugins.module_utils.netlink.reconcile import reconcile_host_network
from ansible_collections.heddle.ovn.plugins.module_utils.render.host.network_rules import network_rules
from ansible_collections.heddle.ovn.plugins.module_utils.types.host_network import (
    HostNetwork,
    HostRoute,
    Rule,
    link_table,
)
from tests.live.netlink.wire import OUT, Wire, router

SUBNET, ELSEWHERE, LINK = "169.254.0.0/17", "198.51.100.7", "networks"
FOUR, NOW = "four rules", "blocks"
_NETWORKS_MEASURED, _BATCH = 8, 100


def masquerade(number: int) -> str:
    """Return the masquerade address of a network."""
    return nth_address(SUBNET, 10 + 2 * number)


def host_network(count: int, layout: str) -> HostNetwork:
    """Return routes and rules of that many networks, which all have the table of one link."""
    table, numbers = link_table(LINK), range(1, count + 1)
    marks = [Rule(4, table, fwmark=4096 + number) for number in numbers]
    routes = [HostRoute("0.0.0.0/0", device=LINK, vrf=table)]
    if layout == NOW:
        rules = network_rules(marks, [SUBNET])
        routes += [HostRoute(f"{masquerade(number)}/32", device=LINK) for number in numbers]
    else:
        pairs = zip(marks, numbers, strict=True)
        rules = [one for mark, number in pairs for one in (mark, Rule(4, table, to=f"{masquerade(number)}/32"))]
    return HostNetwork(routes=tuple(routes), rules=tuple(rules), link_tables=(LINK,))


def sent(device: str) -> int:
    """Return how many packets a link of this namespace has sent."""
    with open("/proc/net/dev", encoding="ascii") as lines:
        return next(int(line.split()[10]) for line in lines if line.strip().startswith(f"{device}:"))


def nanoseconds(wire: Wire, mark: int, target: str, device: str, packets: int) -> float:
    """Return the least time for each packet; all of them must leave by `device`."""
    frame, before, batches = wire.frame(target), sent(device), []
    with wire.sender(mark) as sender:
        for _batch in range(packets // _BATCH):
            began = time.perf_counter_ns()
            for _packet in range(_BATCH):
                sender.send(frame)
            batches.append(time.perf_counter_ns() - began)
    if sent(device) - before < len(batches) * _BATCH:
        raise SystemExit(f"packets to {target} with the mark {mark:#x} did not leave by {device}")
    return min(batches) / _BATCH


def questions(count: int) -> dict[str, list[tuple[int, str, str]]]:
    """Return the packets of each kind: mark, target, and the link by which they leave."""
    numbers = sorted({1 + place * (count - 1) // (_NETWORKS_MEASURED - 1) for place in range(_NETWORKS_MEASURED)})
    return {
        "of no network": [(0, ELSEWHERE, OUT)],
        "with a mark": [(4096 + number, ELSEWHERE, LINK) for number in numbers],
        "to a masquerade address": [(0, masquerade(number), LINK) for number in numbers],
    }


def measure(wire: Wire, count: int, layout: str, packets: int) -> dict[tuple[str, int], float]:
    """Return the nanoseconds of each kind of packet, by the number of the question."""
    reconcile_host_network(host_network(count, layout), owner="bench", write=True)
    return {
        (kind, number): nanoseconds(wire, *one, packets)
        for kind, asked in questions(count).items()
        for number, one in enumerate(asked)
    }


def least(rounds: list[dict], kind: str) -> float:
    """Return the mean over the networks of the least nanoseconds of all rounds."""
    keys = [key for key in rounds[0] if key[0] == kind]
    return sum(min(one[key] for one in rounds) for key in keys) / len(keys)


def main() -> None:
    """Print a table."""
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("--networks", type=int, nargs="+", default=[10, 1000])
    options.add_argument("--packets", type=int, default=2000)
    options.add_argument("--rounds", type=int, default=5)
    asked = options.parse_args()
    sizes = sorted(asked.networks)
    rounds: dict[tuple[int, str], list[dict]] = {(count, layout): [] for count in sizes for layout in (FOUR, NOW)}
    with router([LINK]) as wire:
        for _round in range(asked.rounds):
            for key, found in rounds.items():
                found.append(measure(wire, *key, asked.packets))
    sys.stdout.write(f"{'networks':>8}  {'packets':24}{FOUR + ' ns':>14}{'ratio':>7}{NOW + ' ns':>11}{'ratio':>7}"
                     f"{NOW + '/' + FOUR:>19}\n")  # fmt: skip
    for count in sizes:
        for kind in questions(count):
            four, now = (least(rounds[count, layout], kind) for layout in (FOUR, NOW))
            first, first_now = (least(rounds[sizes[0], layout], kind) for layout in (FOUR, NOW))
            sys.stdout.write(
                f"{count:>8,}  {kind:24}{four:>14.0f}{four / first:>7.2f}{now:>11.0f}{now / first_now:>7.2f}"
                f"{now / four:>19.2f}\n"
            )


if __name__ == "__main__":
    main()
