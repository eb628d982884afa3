# SPDX-License-Identifier: Apache-2.0
"""DNS names in EgressFirewalls of virtual machines that arrive: this host has to know them before a machine does.

A rule matches the addresses that its own host has found, and nothing before the first answer. On a host that has had no
workload of the namespace until now, a rule that denies would let packets of a running machine pass meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..common.addressing import family
from ..common.databases import NORTHBOUND_REMOTE, SOUTHBOUND_REMOTE
from ..common.files.daemon_report import is_running, read_report
from ..common.polling import attempts
from ..dns_daemon.address_sets import read_address_sets
from ..dns_daemon.report import DNS_NAMES_REPORT
from ..ovsdb.wait import synchronise
from .module_runner import UserError, connected

_NOTHING = {"addresses": []}


def wait_for_names(plan: dict, workload: str, timeout: float, report: str = DNS_NAMES_REPORT) -> None:
    """Wait until this host has asked for the names in firewalls of NAMESPACE/NAME, and OVN has the addresses.

    UserError when it has not after `timeout` seconds, and when no resolver answers for a name of a rule that denies:
    the machine is not to run here then. A rule that allows what is not known allows less, which is no reason.
    """
    rules = list(_named_rules(plan, workload))
    if not rules:
        return
    names = {rule["dns_name"] for _where, rule, _families in rules}
    with (
        connected(NORTHBOUND_REMOTE, write=True) as northbound,
        connected(SOUTHBOUND_REMOTE, write=True, timeout=max(60.0, timeout)) as southbound,
    ):
        for _attempt in attempts(timeout):
            known = read_report(report) if is_running(report) else {}
            missing = names - _written(northbound, known)
            if not missing:
                break
        else:
            raise UserError(
                f"heddle-dns-names has not asked for {', '.join(sorted(missing))} within {timeout:g} s, "
                f"which the EgressFirewall of {workload} names; see journalctl -u heddle-dns-names on the target, "
                "and run this again"
            )
        for where, rule, families in rules:
            _refuse_unknown(where, rule, families, known[rule["dns_name"]])
        synchronise(northbound, southbound, timeout)


def _written(northbound, known: dict[str, dict]) -> set[str]:
    """Return the names of the report all of whose address sets have the addresses that it says.

    A network that has just come has sets of its own, also of names that others have had before.
    """
    behind = {
        one.name
        for one in read_address_sets(northbound)
        if one.addresses != {text for text in known.get(one.name, _NOTHING)["addresses"] if family(text) == one.version}
    }
    return known.keys() - behind


def _refuse_unknown(where: str, rule: dict, families: set[int], known: dict) -> None:
    """UserError when a rule denies, and does not match the addresses of a family because resolvers did not answer."""
    found = {family(address) for address in known["addresses"]}
    if known["problem"] and not rule["allow"] and not families <= found:
        raise UserError(
            f"EgressFirewall {where} denies what is sent to {rule['dns_name']}, of which the target does not know all "
            f"addresses: {known['problem']}; let the resolvers in its /etc/resolv.conf answer, and run this again"
        )


def _named_rules(plan: dict, workload: str) -> Iterator[tuple[str, dict, set[int]]]:
    """Yield the rules with names of the firewalls of a workload: NAMESPACE/default, rule, families of the network."""
    for network, firewalls in plan.get("egress_firewalls", {}).items():
        for firewall in firewalls:
            if workload in firewall["workloads"]:
                for rule in firewall["rules"]:
                    if "dns_name" in rule:
                        yield f"{firewall['namespace']}/default", rule, set(plan["networks"][network]["families"])
