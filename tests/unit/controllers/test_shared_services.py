# SPDX-License-Identifier: Apache-2.0
"""The setting `shared_services`, rule by rule."""

from __future__ import annotations

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.store import settings
from tests.pipeline import decide, layer2, namespace, workload

DNS = {
    "name": "kube-system/kube-dns",
    "address": "10.96.0.10",
    "ports": [{"protocol": "UDP", "port": 53}, {"protocol": "TCP", "port": 53, "target": 5353}],
    "endpoints": ["10.244.0.9", "dns/resolver"],
}


def test_complete_service_is_accepted():
    assert settings.complete({"shared_services": [DNS]})["shared_services"] == [DNS]
    six = {**DNS, "address": "fd00:10:96::a", "endpoints": ["fd00:10:244::9"]}
    assert settings.complete({"shared_services": [DNS, six]})


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"name": "kube-dns"}, "name must be namespace/name"),
        ({"address": "10.97.0.10"}, "address must be in a service subnet"),
        ({"address": "10.96.0.300"}, "address must be in a service subnet"),
        ({"address": 5}, "address must be in a service subnet"),
        ({"address": ["10.96.0.10"]}, "address must be in a service subnet"),
        ({"ports": []}, "ports must have protocol"),
        ({"ports": [{"protocol": "ICMP", "port": 1}]}, "ports must have protocol"),
        ({"ports": [{"protocol": "TCP", "port": 0}]}, "ports must have protocol"),
        ({"ports": [{"protocol": "TCP", "port": 65536}]}, "ports must have protocol"),
        ({"ports": [{"protocol": "TCP", "port": True}]}, "ports must have protocol"),
        ({"ports": [{"protocol": "TCP", "port": 1, "node": 2}]}, "ports must have protocol"),
        ({"endpoints": ["fd00::1"]}, "endpoints must be addresses of the same family"),
        ({"endpoints": ["Nowhere"]}, "endpoints must be addresses of the same family"),
        ({"more": 1}, "must have address, endpoints, name, ports"),
    ],
)
def test_errors_name_rule_and_entry(change, rule):
    with pytest.raises(ValueError, match="setting shared_services: entry 0: ") as error:
        settings.complete({"shared_services": [{**DNS, **change}]})
    assert rule in str(error.value)


def test_two_services_cannot_have_one_address():
    with pytest.raises(ValueError, match=r"entry 1: 10\.96\.0\.10 is another service's address"):
        settings.complete({"shared_services": [DNS, {**DNS, "name": "default/kubernetes"}]})


def test_addresses_have_the_standard_notation():
    """They are compared with others as text."""
    six = {**DNS, "address": "FD00:10:96:0::a", "endpoints": ["fd00:10:244:0::9", "dns/resolver"]}
    [service] = settings.complete({"shared_services": [six]})["shared_services"]
    assert (service["address"], service["endpoints"]) == ("fd00:10:96::a", ["fd00:10:244::9", "dns/resolver"])
    with pytest.raises(ValueError, match=r"entry 1: fd00:10:96::a is another service's address"):
        settings.complete({"shared_services": [six, {**six, "address": "fd00:10:96::a"}]})


def test_endpoints_are_on_the_default_network():
    """A workload with a primary network of its own is locked there."""
    text = (
        namespace("red") + layer2("red", "net", "10.0.0.0/24", "fd00:10::/64") + workload("red", "dns", "node1")
        + namespace("plain", primary=False) + workload("plain", "dns", "node1")
    )  # fmt: skip
    usable = ["plain/dns", "missing/dns", "10.244.0.9"]
    _after, problems = decide(text, settings={"shared_services": [{**DNS, "endpoints": ["red/dns", *usable]}]})
    [problem] = problems
    assert (problem.path, problem.rule) == (
        "shared_services",
        "endpoint red/dns of kube-system/kube-dns is in a namespace with a primary network of its own, and shared "
        "services are reached on the default network",
    )
    assert not decide(text, settings={"shared_services": [{**DNS, "endpoints": usable}]})[1]
