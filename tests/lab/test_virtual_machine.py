# SPDX-License-Identifier: Apache-2.0
"""A virtual machine boots, is reachable, and migrates with its connections, also after runs that were cut off."""

from __future__ import annotations

import ipaddress
import json
import os
import re
import shutil
import subprocess
import time

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.common.polling import attempts
from tests import supervised
from tests.lab.address_moves import assignable
from tests.lab.conftest import NODES, PATIENCE, ROOT
from tests.lab.policy_traffic import DENIED_NAME, Echoes, PolicyTraffic, external_addresses, is_permitted, policies
from tests.lab.remote_program import RemoteProgram
from tests.lab.tenants import egress_ip
from tests.lab.test_coil import own
from tests.lab.test_dns_names import NAME as DNS_NAME
from tests.lab.test_dns_names import name_server, publish, resolver
from tests.lab.vm import (
    ADDRESSES,
    DATA,
    EXTERNAL,
    GATEWAYS,
    MACHINE,
    NAME,
    NOTHING,
    OWN_SET,
    WATCHERS,
    ExternalFlows,
    Machine,
    Watchers,
    figures,
)

__all__ = ["own"]
UNIT = f"heddle-vm@{NAME}"
GATEWAY_LINK_LOCAL, GATEWAY_MAC = "fe80::858:aff:fe05:1", "0a:58:0a:05:00:01"


@pytest.fixture(scope="module")
def vm(lab):
    """A VM on node1 that has its addresses and answers on a TCP port; removed afterwards."""
    before = lab.dump()
    lab.play("networks.yml", *OWN_SET, manifests=DATA / "manifests")
    found = Machine(lab)
    found.wait_for_addresses("node1")
    yield found
    lab.play("networks.yml", *OWN_SET, manifests=NOTHING)
    assert lab.dump() == before


def identity(vm, node: str) -> dict:
    """What must be the same on every host, as seen inside the VM."""
    reported = vm.inside(
        node,
        "".join(f"until ping -c 1 -W 5 {gateway} >/dev/null; do sleep 0.2; done; " for gateway in GATEWAYS)
        + "ip -o address show eth0; echo /; ip route show default; ip -6 route show default; echo /;"
        + "ip neigh; ip -6 neigh; cat /sys/class/net/eth0/address",
    )
    addresses, routes, neighbours = reported.split("/\n")
    return {
        "addresses": set(re.findall(r"inet6? (\S+)", addresses)),
        "gateways": set(re.findall(r"default via (\S+)", routes)),
        "gateway MACs": {
            (address, mac)
            for address, mac in re.findall(r"(\S+) dev eth0 lladdr (\S+)", neighbours)
            if address in (*GATEWAYS, GATEWAY_LINK_LOCAL)
        },
        "MAC": neighbours.split()[-1],
    }


def reach(lab) -> None:
    """Packets from both watchers, in both families and both directions."""
    for namespace, host in WATCHERS.items():
        lab.wait_for_answers(host, namespace, *ADDRESSES)


def test_guest_gets_its_identity_by_dhcp_and_renews_leases(lab, vm):
    reach(lab)
    found = identity(vm, "node1")
    assert found["gateways"] == {"10.5.0.1", GATEWAY_LINK_LOCAL}
    assert {"10.5.0.5/24", "fd00:10:5::5/128", "fe80::858:aff:fe05:5/64"} == found["addresses"]
    assert {("10.5.0.1", GATEWAY_MAC), (GATEWAY_LINK_LOCAL, GATEWAY_MAC)} <= found["gateway MACs"]

    # The client renews at half its lease by itself, and at once on a signal. In IPv6 OVN's leases have no end.
    reported = vm.inside(
        "node1",
        "rm -f /run/eth0.renew; kill -USR1 $(pidof udhcpc);"
        " until [ -e /run/eth0.renew ]; do sleep 1; done;"
        " cat /run/eth0.renew; echo ---; cat /run/eth0.v6.bound; hostname",
    )
    four, six = (
        dict(line.split("=", 1) for line in part.splitlines() if "=" in line) for part in reported.split("---\n", 1)
    )
    assert (four["lease"], four["serverid"], four["router"]) == ("3500", "169.254.1.1", "10.5.0.1")
    assert (four["ip"], four["mtu"], four["hostname"]) == ("10.5.0.5", "1400", "vm1")
    assert (ipaddress.ip_address(six["ipv6"]).compressed, six["lease"]) == ("fd00:10:5::5", str(2**32 - 1))
    assert reported.split()[-1] == "vm1"
    shared = [one for one in lab.plan()["settings"].get("shared_services", []) if one["name"] == "kube-system/kube-dns"]
    if not shared:
        # The lab's hosts have no name servers.
        assert [ipaddress.ip_address(leased["dns"]).compressed for leased in (four, six)] == [*GATEWAYS]


def test_guest_resolves_names_of_its_network(lab, vm):
    """By the name servers of its leases, and by each gateway: OVN answers on the way to any server."""
    peer = next(one for key, one in lab.plan()["workloads"].items() if key == "violet/peer")
    own = [address for one in peer["interfaces"] if one["role"] == "primary" for address in one["addresses"]]
    full = "peer.violet.svc.cluster.local"
    for server in ("", *GATEWAYS):
        for kind, version in (("a", 4), ("aaaa", 6)):
            # The client gives up after some seconds.
            answer = vm.inside(
                "node1",
                f"until nslookup -type={kind} {full} {server} >/run/found 2>&1; do sleep 1; done; cat /run/found",
            )
            found = re.findall(r"Address: (\S+)", answer.partition(full)[2])
            assert {*map(ipaddress.ip_address, found)} == {
                one.ip for one in map(ipaddress.ip_interface, own) if one.version == version
            }, answer


@pytest.fixture
def addresses_of_policies(lab, own):
    """The external host has the addresses that policies distinguish."""
    device = lab.ssh("external", "ip", "-o", "address", "show", "to", f"{own['prefix']}.2.20").split()[1]
    for address in external_addresses(own):
        lab.ssh("external", "ip", "address", "add", address, "dev", device, *(["nodad"] if ":" in address else []))
    yield
    for address in external_addresses(own):
        lab.ssh("external", "ip", "address", "del", address, "dev", device)


@pytest.mark.long
def test_policies_decide_before_during_and_after_a_migration(lab, vm, own, addresses_of_policies, tmp_path, capsys):
    """From a host with a peer to one without the network, which comes with the VM, and back.

    What is forbidden is counted where it would arrive. It arrives while there are no policies, so the paths are there.
    """
    (here,) = vm.runs_on()
    assert here == "node1"
    manifests = shutil.copytree(DATA / "manifests", tmp_path / "manifests")
    egress = {4: f"{own['prefix']}.2.150", 6: f"{own['prefix6']}:2::150"}
    (manifests / "out.yml").write_text(egress_ip("violet", *egress.values()) + policies(own))
    traffic = PolicyTraffic(vm, here, own)
    traffic.arrives(here, dict.fromkeys(traffic.received(here), 0), lambda flow: "echo" not in flow)
    lab.play("networks.yml", *OWN_SET, *assignable(tmp_path, "node1", "node3"), manifests=manifests)
    try:
        counted = [traffic.received(here)]
        watchers = Watchers(lab, {"violet_peer": "node3"})
        for there in ("node2", "node1"):
            phases = moved_with_connections(vm, here, there, own)
            here = there
            expect_connections(phases, egress)
            traffic.arrives(here, counted[-1], is_permitted)
            counted.append(traffic.received(here))
    finally:
        lab.play("networks.yml", *OWN_SET, manifests=DATA / "manifests")
    traffic.arrives(here, counted[-1], lambda flow: True)
    streams, sent = watchers.stop(), traffic.end(here)
    with capsys.disabled():
        print(f"\n{json.dumps({'received': counted, 'sent': sent, 'streams': streams}, indent=1)}")
    forbidden = [{flow: number for flow, number in one.items() if not is_permitted(flow)} for one in counted]
    assert forbidden[1:] == forbidden[:1] * 2
    kept = [flow for name, flow in streams.items() if " tcp " in name]
    assert [(flow["lost"], flow["resets"]) for flow in kept] == [(0, 0)] * 2, streams


def expect_connections(phases: list[dict], egress: dict[int, str]) -> None:
    """Connections to the external host leave with their egress address, and go on after the last phase."""
    for name, (_from, family, _port) in EXTERNAL.items():
        found = [phase[name.replace(" ", "_")] for phase in phases]
        for phase in found:
            assert phase["new"]["sources"].keys() <= {egress[family]}, (name, found)
            (stream,) = phase["lasting"]
            assert stream["source"] == egress[family], (name, found)
            # A phase may end in a pause, which says how fast the hosts are.
            assert stream["end"] in (None, "silent"), (name, found)
        # What came back after the move followed all before it: TCP keeps the order.
        assert found[-1]["lasting"][0]["back"] > 0, (name, found)
        assert found[-1]["new"]["connections"] > 0, (name, found)


@pytest.mark.long
def test_a_machine_does_not_move_to_a_host_that_does_not_know_a_denied_name(
    lab, vm, own, addresses_of_policies, tmp_path, capsys
):
    """A rule with a name matches nothing before the first answer, so what it denies would pass there."""
    (here,) = vm.runs_on()
    there = "node2" if here == "node1" else "node1"
    denied = [f"{own['prefix']}.2.22", f"{own['prefix6']}:2::22"]
    known = [["AAAA" if ":" in address else "A", 300, address] for address in denied]
    manifests = shutil.copytree(DATA / "manifests", tmp_path / "manifests")
    (manifests / "firewall.yml").write_text(DENIED_NAME)
    counting = RemoteProgram(lab, "external", "policy_packets.py", "count", *denied)
    assert counting.line() == "ready"

    def received() -> list[int]:
        counting.go_on()
        return [*counting.line().values()]

    echoes = Echoes(vm, here, dict.fromkeys(denied, 0.02))
    assert any(all(received()) for _attempt in attempts(PATIENCE))
    with name_server(lab, own) as server, resolver(lab, here, server), resolver(lab, there, server):
        publish(lab, *known)
        lab.play("networks.yml", *OWN_SET, manifests=manifests)
        try:
            # The first answer comes when it comes. Each command in the VM takes longer than several echoes.
            for _attempt in attempts(PATIENCE):
                before = received()
                vm.inside(here, "true")
                if received() == before:
                    break
            publish(lab, None)
            refused = vm.move(there, success=False)
            counted = [before, received()]
            assert counted == [before] * 2
            assert refused.code != 0
            assert f"denies what is sent to {DNS_NAME}" in refused.output
            assert vm.runs_on() == [here]
            publish(lab, *known)
            vm.move(there)
            counted.append(received())
        finally:
            lab.play("networks.yml", *OWN_SET, manifests=DATA / "manifests")
    assert any(
        all(now > then for now, then in zip(received(), counted[-1], strict=True)) for _attempt in attempts(PATIENCE)
    )
    sent = echoes.end(there)
    counting.end()
    with capsys.disabled():
        print(f"\n{json.dumps({'received': counted, 'sent': sent})}")
    assert counted == [before] * 3


@pytest.mark.long
def test_migration_keeps_connections_and_identity(lab, vm, capsys):
    before = identity(vm, "node1")
    watchers = Watchers(lab)
    moved = vm.move("node2", "-e", "heddle_migrate_watch=true")
    flows = watchers.stop()
    with capsys.disabled():
        print(f"\n{json.dumps({'move': figures(moved), 'flows': flows}, indent=1)}")
    streams = {name: flow for name, flow in flows.items() if " tcp " in name}
    assert len(streams) == 4
    assert all((flow["lost"], flow["resets"]) == (0, 0) for flow in streams.values()), flows
    assert all(flow["lost"] < flow["sent"] for flow in flows.values()), flows
    watched = figures(moved)["watched"]
    assert set(watched) == set(ADDRESSES)
    assert all(reported["sent"] > 0 and reported["lost"] < reported["sent"] for reported in watched.values()), watched
    assert identity(vm, "node2") == before
    assert vm.runs_on() == ["node2"]
    assert NAME not in lab.ssh("node1", "ls", "/run/heddle-vm")
    again = vm.move("node2")
    assert set(again.changed.values()) == {0}, again.output[-4000:]


@pytest.mark.long
def test_connections_with_an_egress_address_survive_a_migration(lab, vm, own, tmp_path, capsys):
    """OKEP-5094, first story. Without an EgressIP the address of the host changes, and connections end.

    The host that holds the address is the one that the VM leaves, the one that it moves to, and neither.
    """
    egress = {4: f"{own['prefix']}.2.150", 6: f"{own['prefix6']}:2::150"}
    manifests = shutil.copytree(DATA / "manifests", tmp_path / "manifests")
    (manifests / "out.yml").write_text(egress_ip("violet", *egress.values()))
    lab.play("networks.yml", *OWN_SET, manifests=manifests)
    try:
        plan = lab.plan()
        holders = {one["address"]: one["node"] for one in plan["egress_ips"]["violet"]["addresses"]}
        held = [holders[address] for address in egress.values()]
        (neither,) = set(NODES) - set(held)
        vm.move(neither)
        for here, there in ((neither, held[0]), (held[0], held[1])):
            found = moved_with_connections(vm, here, there, own)
            with capsys.disabled():
                print(f"\n{json.dumps({'holders': holders, 'moved': (here, there), 'phases': found})}")
            expect_connections(found, egress)
    finally:
        lab.play("networks.yml", *OWN_SET, manifests=DATA / "manifests")


def moved_with_connections(vm: Machine, here: str, there: str, own: dict) -> list[dict]:
    """Move it between two hosts; returns the figures of its connections before that, meanwhile, and afterwards."""
    external = {4: f"{own['prefix']}.2.20", 6: f"{own['prefix6']}:2::20"}
    echoes = "; ".join(f"ping -c 10 -i 0.2 {address} >/dev/null" for address in external.values())
    vm.inside(here, echoes)
    flows = ExternalFlows(vm, here, external)
    assert any(len(received(vm.lab)) == len(EXTERNAL) for _attempt in attempts(PATIENCE)), (
        "lasting connections are missing"
    )
    flows.phase(here)
    vm.move(there)
    flows.phase(there)
    moved = received(vm.lab)
    vm.inside(there, echoes)
    # On each of them data arrives that was sent after the move.
    assert any(all(received(vm.lab).get(one, 0) > old for one, old in moved.items()) for _attempt in attempts(PATIENCE))
    return flows.stop(there)


def received(lab) -> dict[str, int]:
    """The octets that the external host has received on each lasting connection, by its port."""
    ports = " or ".join(f"sport = :{port + 1}" for _from, _family, port in EXTERNAL.values())
    listed = lab.ssh("external", f"ss --no-header --tcp --numeric --info --oneline state established '( {ports} )'")
    found = (re.search(r":(\d+) +\S+ .*bytes_received:(\d+)", line) for line in listed.splitlines())
    return {one[1]: int(one[2]) for one in found if one}


@pytest.mark.long
def test_vm_restarts_after_qemu_death_and_host_reboot(lab, vm):
    (here,) = vm.runs_on()
    first = lab.ssh(here, "systemctl", "show", "--property=MainPID", "--value", UNIT).strip()
    lab.ssh(here, "kill", "-KILL", first)
    deadline = time.monotonic() + PATIENCE
    while lab.ssh(here, "systemctl", "show", "--property=MainPID", "--value", UNIT).strip() in ("0", first):
        assert time.monotonic() < deadline, "systemd did not start it again"
    vm.wait_for_addresses(here)
    assert lab.ssh(here, "systemctl", "show", "--property=MainPID", "--value", UNIT).strip() not in ("0", first)
    reach(lab)
    lab.verb("reboot", here)
    deadline = time.monotonic() + PATIENCE
    while vm.runs_on() != [here]:
        assert time.monotonic() < deadline
    vm.wait_for_addresses(here)
    reach(lab)


@pytest.mark.long
def test_failed_migration_leaves_the_vm_on_the_source(lab, vm):
    (here,) = vm.runs_on()
    lab.ssh("node3", "systemctl", "mask", "--runtime", UNIT)
    try:
        failed = vm.move("node3", success=False)
    finally:
        lab.ssh("node3", "systemctl", "unmask", "--runtime", UNIT)
    assert failed.code != 0
    assert vm.runs_on() == [here]


@pytest.mark.long
def test_migration_cut_off_after_switch_over_is_completed_by_the_next_run(lab, vm):
    (here,) = vm.runs_on()
    there = "node1" if here != "node1" else "node2"
    with supervised.running(
        [str(ROOT / "scripts" / "play"), "playbooks/migrate_workload.yml", "-e", f"workload={MACHINE}", "-e",
         f"to={there}"],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
        env={**os.environ, "ANSIBLE_NOCOLOR": "1", "HEDDLE_VERBOSE": "1", "HEDDLE_LOG_DIRECTORY": ""},
    ) as playbook:  # fmt: skip
        for line in playbook.stdout:
            if "Read the VM's state on both hosts]" in line:
                break
        os.killpg(playbook.pid, 9)
    assert vm.runs_on() == [there]
    # What is left at the source is over; were it started anew, there would be two.
    left = lab.ssh(here, "systemctl", "show", "--property=MainPID", "--value", UNIT).strip()
    lab.ssh(here, "kill", "-KILL", left)

    # Only the migration itself ends it, not a run with the same manifests.
    lab.play("networks.yml", *OWN_SET, manifests=DATA / "manifests")
    assert vm.runs_on() == [there]
    assert lab.try_ssh(here, "systemctl", "is-active", UNIT).stdout.strip() in ("inactive", "failed")
    vm.move(there)
    assert vm.runs_on() == [there]
    assert NAME not in lab.ssh(here, "ls", "/run/heddle-vm")
    reach(lab)
    applied = lab.play("networks.yml", *OWN_SET, manifests=DATA / "manifests")
    assert set(applied.changed.values()) == {0}, applied.output[-4000:]
