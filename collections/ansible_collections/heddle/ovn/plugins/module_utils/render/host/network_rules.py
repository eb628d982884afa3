# SPDX-License-Identifier: Apache-2.0
"""Policy rules of all networks of a host, in an order in which a packet passes few of them.

The kernel compares a packet with one rule after the other. ovn-kubernetes has four rules for each dual-stack network,
so that the cost of every packet that a host routes grows with the number of networks. Here rules with a goto
(ip-rule(8)) lead past those that do not apply:

    1800  not mark 0x1000/0xfffff000 goto 1930    packets without the mark of a network: all but two rules
    1801  mark 0x1020/0xffffffe0 goto 1803        one rule for each block of 32 marks that a network has
    1803  mark 0x1021 table of the VRF            one rule for each network of the block
    1930  to the masquerade subnet table main     whose routes lead to the masquerade address of each network

A goto without a target is as if it were not there (fib_rules_lookup of the kernel), and it only passes over rules that
do not apply. So packets are right with any part of the gotos. The priorities are between those of VRFs (1000) and those
of routed workloads (2000).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from ...common.addressing import family
from ...types.host_network import RULE_PRIORITY, WHOLE_MARK, Rule
from ..gateway.bridge import PACKET_MARK_BASE, PACKET_MARK_MASK

# About the square root of 1,000 networks, with which blocks and rules of a block together are fewest.
_BLOCK_SIZE = 32
_BLOCK_MASK = WHOLE_MARK - (_BLOCK_SIZE - 1)
_CHOICE_PRIORITY = RULE_PRIORITY + 1
_FIRST_BLOCK_PRIORITY = RULE_PRIORITY + 2
_LAST_PRIORITY = _FIRST_BLOCK_PRIORITY + (WHOLE_MARK - PACKET_MARK_MASK + 1) // _BLOCK_SIZE


def network_rules(marked: Collection[Rule], masquerade_subnets: Collection[str]) -> list[Rule]:
    """Return the rules `marked`, which match on the mark of a network each, with priorities, and those around them.

    The families are those of `marked`; `masquerade_subnets` has a subnet of each.
    """
    versions = sorted({rule.family for rule in marked})
    # In this order packets are right while an older Heddle's rules are replaced, too.
    return [
        *(replace(rule, priority=_block_priority(rule.fwmark)) for rule in marked),
        *(
            Rule(family(subnet), "", to=subnet, priority=_LAST_PRIORITY)
            for subnet in masquerade_subnets
            if family(subnet) in versions
        ),
        *(
            Rule(version, "", fwmark=mark, fwmask=_BLOCK_MASK, priority=_CHOICE_PRIORITY, goto=_block_priority(mark))
            for version, mark in sorted({(rule.family, rule.fwmark & _BLOCK_MASK) for rule in marked})
        ),
        *(
            Rule(version, "", fwmark=PACKET_MARK_BASE, fwmask=PACKET_MARK_MASK, inverted=True, goto=_LAST_PRIORITY)
            for version in versions
        ),
    ]


def _block_priority(mark: int) -> int:
    return _FIRST_BLOCK_PRIORITY + (mark - PACKET_MARK_BASE) // _BLOCK_SIZE
