# SPDX-License-Identifier: Apache-2.0
"""Heddle's nftables table on this machine's kernel, in a network namespace of the test's own."""

import os
from dataclasses import replace

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.common.change import Outcome
from ansible_collections.heddle.ovn.plugins.module_utils.common.errors import (
    FirewallError,
    NotInstalled,
    ProgramError,
)
from ansible_collections.heddle.ovn.plugins.module_utils.netlink import kernel
from ansible_collections.heddle.ovn.plugins.module_utils.nftables.reconcile import (
    planned_firewall,
    reconcile_firewall,
)
from ansible_collections.heddle.ovn.plugins.module_utils.render.host.firewall import render_userspace_interfaces
from ansible_collections.heddle.ovn.plugins.module_utils.types.nftables_ruleset import (
    USERSPACE_TABLE,
    Chain,
    Firewall,
    Map,
    Set,
)
from tests.live.nftables.conftest import CGROUPS

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root")

# All forms that the tables of ovn-kubernetes have (gateway_nftables.go, udn_isolation.go), in spellings that nft prints
# in another way.
FIREWALL = Firewall(
    sets=(
        Set(
            "udn-open-ports-v4", "ipv4_addr . inet_proto . inet_service",
            ("10.0.0.9 . udp . domain", "10.0.0.1 . 6 . 80"),
        ),
        Set("udn-open-ports-icmp-v6", "ipv6_addr", ("FD00:0::1",)),
        Set("udn-pod-default-ips-v4", "ipv4_addr", tuple(f"10.244.{n}.{n}" for n in range(200))),
        Set("mgmtport-no-snat-subnets-v4", "ipv4_addr", ("10.1.0.0/16", "10.0.0.0-10.0.0.255"), ("interval",)),
        Set("empty", "ipv6_addr", (), ("interval",)),
    ),
    maps=(
        Map("udn-mark-nodeports", "inet_proto . inet_service", "verdict", ("tcp . 30001 : goto udn-mark-0x1003",)),
        Map("egress-ip-snat", "ipv4_addr . ifname", "ipv4_addr", ('10.244.0.5 . "mp0" : 192.0.2.9',)),
    ),
    chains=(
        Chain(
            "udn-isolation",
            (
                "ip daddr . meta l4proto . th dport @udn-open-ports-v4 accept",
                "meta l4proto icmpv6 ip6 daddr @udn-open-ports-icmp-v6 accept",
                "ct state established,related accept",
                "tcp dport { 443, 80, 8000-8080 } counter accept",
                'ip daddr @udn-pod-default-ips-v4 drop comment "the default network, not its own"',
            ),
            hook="output",
        ),
        Chain(
            "udn-service-prerouting", ('iifname != "ovn-k8s-mp0" jump udn-service-mark',),
            "prerouting", "filter", "mangle",
        ),
        Chain("udn-service-output", ("jump udn-service-mark",), "output", "route", "-150"),
        Chain("udn-service-mark", ("fib daddr type local meta l4proto . th dport vmap @udn-mark-nodeports",)),
        Chain("udn-mark-0x1003", ("meta mark set 4099",)),
        Chain(
            "ovn-kube-local-gw-masq",
            (
                "ip saddr 169.254.0.1 masquerade",
                "ip saddr & 255.255.128.0 == 169.254.0.0 ip daddr != 10.96.0.0/16 masquerade",
                'oifname { "ovn-k8s-mp0", "ovn-k8s-mp1" } snat ip to 10.244.0.2',
                "ip6 saddr fd69::/112 snat ip6 to fd00::7",
            ),
            "postrouting", "nat", "101",
        ),
        Chain("closed", (), "forward", "filter", "filter - 5", "drop"),
    ),
)  # fmt: skip


@pytest.fixture
def run(run_nft):
    """A runner of the nft of the host image, in a namespace without tables."""
    with kernel.scratch():
        try:
            run_nft(["nft", "-f", "-"], "add table inet probe\ndelete table inet probe\n")
        except ProgramError as error:
            pytest.skip(f"this kernel has no nf_tables: {error}")
        yield run_nft


def size(firewall):
    return 1 + len(firewall.chains) + len(firewall.sets) + len(firewall.maps)


def listing(run):
    return run(["nft", "-s", "list", "ruleset"])


def with_rules(name, *rules):
    chains = tuple(replace(chain, rules=rules) if chain.name == name else chain for chain in FIREWALL.chains)
    return replace(FIREWALL, chains=chains)


def test_table_create_recognise_remove(run):
    checked = reconcile_firewall(FIREWALL, write=False, run=run)
    assert listing(run) == ""
    assert len(checked.changes) == size(FIREWALL)
    assert reconcile_firewall(FIREWALL, write=True, run=run).changes == checked.changes
    assert reconcile_firewall(FIREWALL, write=True, run=run).changes == ()
    gone = reconcile_firewall(Firewall(), write=True, run=run)
    assert {change.action for change in gone.changes} == {"delete"}
    assert len(gone.changes) == size(FIREWALL)
    assert listing(run) == ""
    assert not reconcile_firewall(Firewall(), write=True, run=run).changed


DAMAGE = {
    "add element inet heddle udn-open-ports-v4 { 10.9.9.9 . tcp . 22 }": ("set", "udn-open-ports-v4"),
    "delete element inet heddle mgmtport-no-snat-subnets-v4 { 10.1.0.0/16 }": ("set", "mgmtport-no-snat-subnets-v4"),
    "add element inet heddle udn-mark-nodeports { udp . 5 : drop }": ("map", "udn-mark-nodeports"),
    "insert rule inet heddle udn-isolation accept": ("chain", "udn-isolation"),
    "flush chain inet heddle udn-mark-0x1003": ("chain", "udn-mark-0x1003"),
    "chain inet heddle closed { policy accept; }": ("chain", "closed"),
    "add chain inet heddle another": ("chain", "another"),
    "add set inet heddle another { type ipv4_addr; }": ("set", "another"),
    "delete chain inet heddle udn-service-output": ("chain", "udn-service-output"),
    "delete table inet heddle": ("table", "inet heddle"),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_table_drift_is_reported_and_repaired(run, damage):
    reconcile_firewall(FIREWALL, write=True, run=run)
    good = listing(run)
    run(["nft", "-f", "-"], damage)
    outcome = reconcile_firewall(FIREWALL, write=True, run=run)
    assert DAMAGE[damage] in {(change.kind, change.name) for change in outcome.changes}
    assert DAMAGE[damage][0] == "table" or len(outcome.changes) == 1
    assert sorted(listing(run).split()) == sorted(good.split())
    assert not reconcile_firewall(FIREWALL, write=True, run=run).changed


@pytest.mark.parametrize(
    ("name", "rules"),
    [
        ("udn-service-mark", ("meta mark 7 accept",)),
        ("udn-mark-0x1003", ()),
        ("udn-mark-0x1003", ("meta mark set 4099", "accept")),
        ("closed", ('tcp dport 22 accept comment "a: b, { c }"',)),
    ],
)
def test_only_the_chain_that_differs_is_shown(run, name, rules):
    reconcile_firewall(FIREWALL, write=True, run=run)
    other = with_rules(name, *rules)
    (change,) = reconcile_firewall(other, write=False, run=run).changes
    assert (change.action, change.kind, change.name) == ("update", "chain", name)
    assert (list(change.before), len(change.after["rules"])) == (["rules"], len(rules))
    assert reconcile_firewall(other, write=True, run=run).changes == (change,)
    assert not reconcile_firewall(other, write=True, run=run).changed


def test_rule_order_matters_and_element_order_does_not(run):
    reconcile_firewall(FIREWALL, write=True, run=run)
    turned = replace(FIREWALL, sets=tuple(replace(item, elements=item.elements[::-1]) for item in FIREWALL.sets[::-1]))
    assert not reconcile_firewall(turned, write=True, run=run).changed
    chain = FIREWALL.chains[0]
    assert reconcile_firewall(with_rules(chain.name, *chain.rules[::-1]), write=True, run=run).changed


def test_counter_values_are_no_drift(run):
    reconcile_firewall(FIREWALL, write=True, run=run)
    counted = "counter packets 7 bytes 700 accept"
    run(
        ["nft", "-f", "-"],
        "flush chain inet heddle udn-isolation\n"
        + "".join(
            f"add rule inet heddle udn-isolation {rule.replace('counter accept', counted)}\n"
            for rule in FIREWALL.chains[0].rules
        ),
    )
    assert "packets 7" in run(["nft", "list", "ruleset"])
    assert not reconcile_firewall(FIREWALL, write=True, run=run).changed


def test_foreign_tables_stay_and_are_reported(run):
    run(["nft", "-f", "-"], "table ip filter { chain c { accept; }; }\ntable inet heddle2 { }\n")
    before = listing(run)
    outcome = reconcile_firewall(FIREWALL, write=True, run=run)
    assert sorted(item.name for item in outcome.foreign) == ["inet heddle2", "ip filter"]
    reconcile_firewall(Firewall(), write=True, run=run)
    assert listing(run) == before


def test_the_two_own_tables_do_not_touch_each_other_and_are_not_foreign(run):
    uplinks = render_userspace_interfaces(["eth5", "eth1"])
    for firewall in (FIREWALL, uplinks):
        assert reconcile_firewall(firewall, write=True, run=run).changed
    for firewall in (FIREWALL, uplinks):
        assert reconcile_firewall(firewall, write=True, run=run) == Outcome()
    assert 'iifname { "eth1", "eth5" } drop' in run(["nft", "list", "table", "inet", "heddle-userspace"], "")
    assert reconcile_firewall(Firewall(table=USERSPACE_TABLE), write=True, run=run).changed
    assert reconcile_firewall(FIREWALL, write=True, run=run) == Outcome()
    assert "heddle-userspace" not in run(["nft", "list", "tables"], "")


def test_invalid_rule_is_named_and_the_table_is_unchanged(run):
    reconcile_firewall(FIREWALL, write=True, run=run)
    before = listing(run)
    for write in (False, True):
        with pytest.raises(FirewallError, match=r"ip dadr 1\.2\.3\.4 drop"):
            reconcile_firewall(with_rules("udn-isolation", "ip dadr 1.2.3.4 drop"), write=write, run=run)
    assert listing(run) == before


def test_the_check_of_a_table_leaves_no_namespace_behind(run):
    home = os.readlink("/proc/thread-self/ns/net")
    before = kernel.namespaces()
    with pytest.raises(FirewallError):
        reconcile_firewall(with_rules("closed", "nonsense"), write=False, run=run)
    assert os.readlink("/proc/thread-self/ns/net") == home
    assert kernel.namespaces() == before


def test_recreated_cgroup_is_matched_again(run, cgroup):
    """A rule holds a cgroup's number, which is another one after its service was restarted."""
    path = cgroup.relative_to(CGROUPS)
    wanted = with_rules("udn-isolation", f'socket cgroupv2 level 2 "{path}" accept')
    reconcile_firewall(wanted, write=True, run=run)
    assert not reconcile_firewall(wanted, write=True, run=run).changed
    cgroup.rmdir()
    cgroup.mkdir()
    assert reconcile_firewall(wanted, write=True, run=run).changed
    assert not reconcile_firewall(wanted, write=True, run=run).changed
    other = with_rules("udn-isolation", f'socket cgroupv2 level 1 "{path}" accept')
    assert reconcile_firewall(other, write=False, run=run).changed


def test_without_nft_everything_is_missing_in_check_mode_and_an_error_otherwise():
    def missing(argv, text=""):
        raise NotInstalled("nft", "is not installed on this host")

    outcome = reconcile_firewall(FIREWALL, write=False, run=missing)
    assert outcome.changes == planned_firewall(FIREWALL).changes
    assert len(outcome.changes) == size(FIREWALL)
    with pytest.raises(FirewallError, match="not installed"):
        reconcile_firewall(FIREWALL, write=True, run=missing)


def test_a_refusal_names_the_element_and_not_the_whole_set(run):
    """A map of a thousand elements is one line of the rules, which nft prints for each error."""
    ports = tuple(f"tcp . {number} : accept" for number in range(30000, 31000))
    twice = Firewall(maps=(Map("nodeports", "inet_proto . inet_service", "verdict", (*ports, "tcp . 30500 : drop")),))
    with pytest.raises(FirewallError, match=r"nft refuses the rules: Error: .*30500") as error:
        reconcile_firewall(twice, write=True, run=run)
    assert len(str(error.value)) < 400
