# SPDX-License-Identifier: Apache-2.0
"""Classes of north-south flows that are alike: one question stands for all of a class. Pure."""

from __future__ import annotations

from .expectation import primary_network
from .external_flow import TO_EXTERNAL, ExternalFlow
from .selection import Selection


def class_of(plan: dict, one: ExternalFlow) -> tuple[str, ...]:
    """Return the class of a flow: kind, sender's host, network, target, workload's host, family, expectation.

    Of a Service, each address and port is a target. But at addresses of a node beyond the provider network, Services of
    networks of one topology and with one traffic policy are alike: the same rules lead to all of them.
    """
    expectation = "reach" if one.reach else "not"
    if one.way:
        expectation = "refused" if one.refused else expectation
        return one.kind, one.runner, "", one.way, one.through, str(one.family), expectation
    if not one.workload:
        target = f"{one.target} {one.address}"
        return one.kind, one.runner, "", target, one.through, str(one.family), expectation
    workload = plan["workloads"][one.workload]
    network = one.network or primary_network(plan, one.workload)
    target = "" if one.target == one.workload else f"{one.target} {one.address}" if one.protocol else one.target
    return one.kind, one.runner, network, target, workload["node"], str(one.family), expectation


def chosen(found: list[ExternalFlow], plan: dict, selection: Selection) -> list[ExternalFlow]:
    """Return one flow of each class, and all to external hosts."""
    alike: dict[tuple[str, ...], list[ExternalFlow]] = {}
    for one in found:
        alike.setdefault(class_of(plan, one), []).append(one)
    return [
        one
        for key, members in alike.items()
        for one in (members if key[0] == TO_EXTERNAL else [_one_of(members, key, selection)])
    ]


def _one_of(members: list[ExternalFlow], key: tuple[str, ...], selection: Selection) -> ExternalFlow:
    """Return one of a class of node ports beyond the provider network that shows which endpoint answers, if it can."""
    named = [one for one in members if one.way and one.named]
    return selection.one_of(named or members, *key)
