# SPDX-License-Identifier: Apache-2.0
"""Random policies and labels: ovn-trace says of each packet what the model of the Kubernetes API says."""

from __future__ import annotations

import os
import random
from itertools import islice

from tests.live.policy.tracer import Tracer
from tests.live.topology.zone import Zone
from tests.pipeline import with_gateways
from tests.policy_sets import drawn_sets
from tests.policy_tenants import Tenant, baseline, text_of

# Networks that are changed and traced at once; the Southbound database is read anew for each batch.
NETWORKS = 16
SETS = int(os.environ.get("HEDDLE_POLICY_SETS", "1000"))
# Of the kinds of packets, for each pair of workloads and each family.
KINDS_OF_EACH = 1
# Of these one in so many is traced: the time is better spent on another set.
SHARE = 3


def test_traced_packets_pass_as_the_model_says(tools, folder, northbound, southbound, northd):
    number = int(os.environ.get("HEDDLE_POLICY_SEED", random.randrange(10**9)))
    sets = drawn_sets(SETS, number)
    encap = {"type": "geneve", "ip": "198.18.1.11", "chassis_name": "chassis-of-node1"}
    southbound.transact(
        {"op": "insert", "table": "Encap", "uuid-name": "encap", "row": encap},
        {"op": "insert", "table": "Chassis", "row": {"name": "chassis-of-node1", "encaps": ["named-uuid", "encap"]}},
    )
    zone = Zone(tools, northbound, southbound, hosts=with_gateways("shared"))
    passed = traced = 0
    for batch, chosen in enumerate(batched(sets)):
        of_cluster = baseline(chosen[0])
        tenants = [Tenant(position, drawn, of_cluster) for position, drawn in enumerate(chosen)]
        # Some batches have the workloads before their policies.
        if batch % 4 == 1:
            zone.apply("".join(tenant.manifests(policies=False) for tenant in tenants))
        zone.apply(text_of(of_cluster) + "".join(tenant.manifests() for tenant in tenants))
        macs = {row["name"]: row["mac"] for row in northbound.rows("Logical_Router_Port", "name", "mac")}
        with Tracer(tools, folder, southbound) as tracer:
            for tenant in tenants:
                # Step and number of kinds have no common factor, nor has the number of families.
                questions = islice(tenant.questions(zone.plan, macs, KINDS_OF_EACH), batch % SHARE, None, SHARE)
                for connection, switch, flow, output, allowed in questions:
                    seen = tracer.trace(switch, flow)
                    traced += 1
                    passed += allowed
                    assert (output in seen) == allowed, explained(number, tenant, connection, flow, seen, allowed)
    assert passed
    assert passed < traced


def explained(number, tenant, connection, flow, seen, allowed) -> str:
    text = "pass" if allowed else "be dropped"
    return f"HEDDLE_POLICY_SEED={number}: {connection} must {text}:\n{flow}\n{seen}\n{text_of(tenant.policies)}"


def batched(sets: list[dict]) -> list[list[dict]]:
    return [sets[first : first + NETWORKS] for first in range(0, len(sets), NETWORKS)]
