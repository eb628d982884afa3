# SPDX-License-Identifier: Apache-2.0
"""Names of Services and workloads: DNS queries to any server are answered in the network that has the name."""

from __future__ import annotations

import ipaddress
import struct
from dataclasses import replace

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.ovsdb.wait import synchronise
from ansible_collections.heddle.ovn.plugins.module_utils.render.host.netns import render_endpoints
from tests.live.conftest import START_TIMEOUT
from tests.live.gateway.conftest import UPLINK, interface_of
from tests.live.gateway.packets import Packet
from tests.live.gateway.test_services import (
    HTTP,
    NAMES,
    TENANTS,
    address,
    cluster_ip,
    interface,
    received,
    request,
    server,
    service,
)

DOMAIN = "lab.example"
SETTINGS = {"cluster_domain": DOMAIN}
SERVER = {4: "198.51.100.53", 6: "2001:db8:53::53"}
SERVICES = "".join(service(name, "web", "web", HTTP) for name in NAMES)
# RFC 1035, section 3.2.2, and RFC 3596.
A, PTR, AAAA = 1, 12, 28
TYPES = {4: A, 6: AAAA}
RESPONSE = 0x8000


def encoded(name: str) -> bytes:
    return b"".join(bytes([len(part)]) + part.encode() for part in name.split(".")) + b"\0"


def query(zone, where: str, name: str, kind: int, family: int, token: int) -> Packet:
    question = struct.pack("!HHHHHH", token, 0x0100, 1, 0, 0, 0) + encoded(name) + struct.pack("!HH", kind, 1)
    asked = request(zone, where, "a", SERVER[family], source_port=20000 + token)
    return replace(asked, payload=question)


def answer(machine, zone, where: str, asked: Packet) -> tuple[int, int, bytes]:
    """The response code, the number of answers, and what follows the question."""

    def answers():
        return [one for one in received(machine, where, "a") if one.target_port == asked.source_port]

    # Repeated, as by a resolver: ovn-controller gets a limited number of queries a second.
    machine.send_until(answers, interface_of(where), asked.encode(), f"an answer in {where} to {asked.payload!r}")
    [seen] = set(answers())
    assert (seen.source, seen.source_port) == (asked.target, 53)
    flags, _questions, count = struct.unpack("!HHH", seen.payload[2:8])
    assert flags & RESPONSE
    return flags & 0xF, count, seen.payload[len(asked.payload) :]


def check_forwarded(machine, where: str, asked: Packet) -> None:
    """What OVN does not answer goes to the server that was asked."""

    def forwarded():
        return [one for one in machine.sent(UPLINK) if isinstance(one, Packet) and one.payload == asked.payload]

    machine.send_until(forwarded, interface_of(where), asked.encode(), f"the query {asked.payload!r} of {where}")
    assert not [one for one in received(machine, where, "a") if one.target_port == asked.source_port]


@pytest.mark.parametrize("family", [4, 6])
def test_names_are_answered_in_their_network_only(shared_host, family):
    machine, zone = shared_host(TENANTS + SERVICES, settings=SETTINGS)
    token = 0
    for where in NAMES:
        web, workload = cluster_ip(zone, where, "web", family), address(zone, where, "b", family)
        names = {
            "web": web, f"web.{where}": web, f"web.{where}.svc.{DOMAIN}": web,
            "b": workload, f"b.{where}": workload, f"b.{where}.pod.{DOMAIN}": workload,
            f"b.{where}.svc.{DOMAIN}": workload,
        }  # fmt: skip
        for name, wanted in names.items():
            token += 1
            code, count, rest = answer(machine, zone, where, query(zone, where, name, TYPES[family], family, token))
            assert (code, count) == (0, 1), (where, name)
            assert rest.endswith(ipaddress.ip_address(wanted).packed), (where, name)
        for of, name in ((web, f"web.{where}.svc.{DOMAIN}"), (workload, f"b.{where}.pod.{DOMAIN}")):
            token += 1
            pointer = ipaddress.ip_address(of).reverse_pointer
            code, count, rest = answer(machine, zone, where, query(zone, where, pointer, PTR, family, token))
            assert (code, count) == (0, 1), (where, pointer)
            assert rest.endswith(encoded(name)), (where, pointer)
        # What another network has, and what none has, is for the server that was asked.
        other = NAMES[NAMES.index(where) - 1]
        for name in (f"web.{other}.svc.{DOMAIN}", "www.example.com"):
            token += 1
            check_forwarded(machine, where, query(zone, where, name, TYPES[family], family, token))


@pytest.mark.parametrize("family", [4, 6])
def test_gateway_of_a_workload_without_other_servers_answers(shared_host, family):
    """It is what `resolv.conf` and DHCP name then."""
    machine, zone = shared_host(TENANTS + SERVICES, settings=SETTINGS)
    for token, where in enumerate(NAMES, start=200):
        web, routes = cluster_ip(zone, where, "web", family), interface(zone, where, "a")["routes"]
        gateway = next(one["via"] for one in routes if one["to"] == {4: "0.0.0.0/0", 6: "::/0"}[family])
        asked = replace(query(zone, where, f"web.{where}", TYPES[family], family, token), target=gateway)
        code, count, rest = answer(machine, zone, where, asked)
        assert (code, count) == (0, 1), where
        assert rest.endswith(ipaddress.ip_address(web).packed), where


@pytest.mark.parametrize("family", [4, 6])
def test_the_resolver_of_a_workload_works_without_a_server(shared_host, family):
    """Its name server is the gateway, on the way to which OVN answers for the names of the network."""
    machine, zone = shared_host(TENANTS + SERVICES, settings=SETTINGS)
    files = {one.namespace: one.resolver.splitlines() for one in render_endpoints(zone.plan, "node1")}
    for token, where in enumerate(NAMES):
        search, *servers = files[f"{where}_a"]
        assert search.split() == ["search", f"{where}.svc.{DOMAIN}", f"svc.{DOMAIN}", DOMAIN]
        target = next(one.split()[1] for one in servers if (":" in one) == (family == 6))
        name = f"web.{search.split()[1]}"
        asked = replace(query(zone, where, name, TYPES[family], family, token), target=target)
        code, count, rest = answer(machine, zone, where, asked)
        assert (code, count) == (0, 1)
        assert rest.endswith(ipaddress.ip_address(cluster_ip(zone, where, "web", family)).packed)


@pytest.mark.parametrize("family", [4, 6])
def test_name_of_an_alias_is_left_to_the_server(shared_host, family):
    """Also where a workload has the name: else clients would reach it instead of what the alias stands for."""
    alias = "".join(
        f"---\napiVersion: v1\nkind: Service\nmetadata: {{name: b, namespace: {where}}}\n"
        "spec: {type: ExternalName, externalName: db.example.com}\n"
        for where in NAMES
    )
    machine, zone = shared_host(TENANTS + alias, settings=SETTINGS)
    for token, where in enumerate(NAMES):
        check_forwarded(machine, where, query(zone, where, f"b.{where}.svc.{DOMAIN}", TYPES[family], family, token))
        other = query(zone, where, f"b.{where}.pod.{DOMAIN}", TYPES[family], family, 100 + token)
        code, count, rest = answer(machine, zone, where, other)
        assert (code, count) == (0, 1), where
        assert rest.endswith(ipaddress.ip_address(address(zone, where, "b", family)).packed), where


@pytest.mark.parametrize("where", ["flat", "plain"])
def test_name_of_a_headless_service_has_all_endpoints(host, where):
    """An endpoint that is not ready is left out. The names of addresses stay those of their workloads."""
    last = server(where, "d").replace("spec: {", "spec: {ready: false, ")
    text = TENANTS + server(where, "c") + last + service(where, "all", "web", HTTP, more=", clusterIP: None")
    machine, zone = host(text, settings=SETTINGS)
    for token, family in enumerate((4, 6), start=1):
        ready = {ipaddress.ip_address(address(zone, where, name, family)).packed for name in "bc"}
        name = f"all.{where}.svc.{DOMAIN}"
        code, count, rest = answer(machine, zone, where, query(zone, where, name, TYPES[family], family, token))
        # RFC 1035, section 4.1.3: name, type, class, lifetime and length precede each address.
        size, first = len(rest) // count, len(encoded(name)) + 10
        records = [rest[size * number : size * (number + 1)] for number in range(count)]
        assert (code, {one[first:] for one in records}) == (0, ready)
        # A single endpoint has a name below the Service's; one that is not ready has none.
        one = query(zone, where, f"c.{name}", TYPES[family], family, 20 + token)
        code, count, rest = answer(machine, zone, where, one)
        assert (code, count) == (0, 1)
        assert rest.endswith(ipaddress.ip_address(address(zone, where, "c", family)).packed)
        pointer = ipaddress.ip_address(address(zone, where, "c", family)).reverse_pointer
        code, count, rest = answer(machine, zone, where, query(zone, where, pointer, PTR, family, 10 + token))
        assert (code, count) == (0, 1)
        assert rest.endswith(encoded(f"c.{where}.pod.{DOMAIN}"))
    assert f"c.{name}" in str(zone.northbound.rows("DNS"))
    assert f"d.{name}" not in str(zone.northbound.rows("DNS"))
    assert not zone.apply(text).changed


def test_names_follow_the_manifests(host):
    machine, zone = host(TENANTS + SERVICES, settings=SETTINGS)
    assert not zone.apply(TENANTS + SERVICES).changed
    without = TENANTS + SERVICES.replace("name: web, namespace: flat", "name: shop, namespace: flat")
    assert zone.apply(without).changed
    with zone.northbound.client() as client, zone.southbound.client() as reader:
        synchronise(client, reader, START_TIMEOUT, chassis="chassis-of-node1")
    target = cluster_ip(zone, "flat", "shop", 4)
    _code, count, rest = answer(machine, zone, "flat", query(zone, "flat", "shop", A, 4, 1))
    assert (count, rest[-4:]) == (1, ipaddress.ip_address(target).packed)
    zone.settings = {"cluster_domain": ""}
    zone.apply(without)
    assert not zone.northbound.rows("DNS", "records")


def test_a_service_for_dns_does_not_change_the_answers(host):
    """Its cluster IP is the source of the answer, also where the load balancer has chosen an endpoint before."""
    ports = [{"protocol": "UDP", "port": 53}]
    shared = {"name": "kube-system/kube-dns", "address": "10.96.0.10", "ports": ports, "endpoints": ["plain/b"]}
    machine, zone = host(TENANTS + SERVICES, settings={**SETTINGS, "shared_services": [shared]})
    for token, where in enumerate(NAMES):
        asked = replace(query(zone, where, "web", A, 4, token), target="10.96.0.10")
        code, count, rest = answer(machine, zone, where, asked)
        assert (code, count, rest[-4:]) == (0, 1, ipaddress.ip_address(cluster_ip(zone, where, "web", 4)).packed)
