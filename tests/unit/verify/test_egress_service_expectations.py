# SPDX-License-Identifier: Apache-2.0
"""What verify expects of EgressServices."""

from __future__ import annotations

from ansible_collections.heddle.ovn.plugins.module_utils.verify.expectations.external_expectations import (
    TO_EXTERNAL,
    TO_OTHER_HOST,
    external_flows,
    left_out,
)
from tests.pipeline import labelled, plan_of
from tests.unit.controllers.test_egress_ips import egress_ip
from tests.unit.controllers.test_egress_services import LOCAL, SHARED, TEXT, egress_service, service
from tests.unit.verify.test_egress_expectations import flows

EXTERNAL = {"outside": ["192.0.2.220", "2001:db8::220"]}


def test_external_hosts_see_endpoints_as_the_load_balancer_and_others_as_their_node():
    text = TEXT + service("plain") + service("red") + egress_service("plain") + egress_service("red")
    plan = plan_of(text, hosts=SHARED)
    found = flows(plan, TO_EXTERNAL)
    for network, workload in (("default", "plain/b"), ("red_net", "red/a")):
        [entry] = plan["egress_services"][network].values()
        for family, address in zip((4, 6), entry["addresses"], strict=True):
            assert (found[workload, family].sources, found[workload, family].seen_as) == ((address,), "")
    assert (found["red/other", 4].sources, found["red/other", 4].seen_as) == ((), "192.0.2.12")
    assert flows(plan, TO_OTHER_HOST)["plain/b", 4].seen_as == "192.0.2.13"


def test_an_egress_service_comes_before_an_egress_ip():
    every = egress_ip("all", "192.0.2.100", "2001:db8::100")
    one = service("plain").replace("ipFamilyPolicy: PreferDualStack, ", "")
    plan = plan_of(TEXT + one + egress_service("plain") + every, hosts=labelled(SHARED))
    found = flows(plan, TO_EXTERNAL)
    assert found["plain/b", 4].sources == ("192.0.2.200",)
    # The Service has no address of this family.
    assert found["plain/b", 6].sources == ("2001:db8::100",)
    assert found["red/a", 4].sources == ("192.0.2.100",)


def test_what_a_routing_table_decides_is_not_tested():
    text = TEXT + service("plain") + egress_service("plain", sourceIPBy="Network", network="blue")
    plan = plan_of(text, hosts=LOCAL)
    assert ("plain/b", 4) not in flows(plan, TO_EXTERNAL)
    assert ("red/a", 4) in flows(plan, TO_EXTERNAL)
    line = "plain/web: what its endpoints send to external hosts is routed by table blue, which is not tested"
    assert line in left_out(plan, EXTERNAL)
    assert [one for one in external_flows(plan, EXTERNAL) if one.source == "plain/b"]
