# SPDX-License-Identifier: Apache-2.0
"""Packets under policies of the cluster, and the lines that ovn-controller logs of them."""

from __future__ import annotations

import json
import re

import pytest

from tests.live.conftest import wait_for
from tests.live.policy.exchange import Exchange
from tests.live.policy.test_packets import NETWORK, manifests

API = "policy.networking.k8s.io/v1alpha1"
ALL, LOGGING = (
    {"namespaces": {}},
    {"k8s.ovn.org/acl-logging": '{"deny": "alert", "allow": "notice", "pass": "warning"}'},
)


def of(name: str) -> dict:
    return {"namespaces": {"matchLabels": {"kubernetes.io/metadata.name": name}}}


# web answers DNS for api, whatever its namespace says; its namespace decides about other; no other one may.
ADMIN = {
    "apiVersion": API, "kind": "AdminNetworkPolicy", "metadata": {"name": "dns", "annotations": LOGGING},
    "spec": {
        "priority": 10, "subject": of("web"),
        "ingress": [
            {"action": "Allow", "from": [of("api")], "ports": [{"portNumber": {"protocol": "UDP", "port": 53}}]},
            {"action": "Pass", "from": [of("other")]},
            {"action": "Deny", "from": [ALL]},
        ],
    },
}  # fmt: skip
BASELINE = {
    "apiVersion": API, "kind": "BaselineAdminNetworkPolicy", "metadata": {"name": "default"},
    "spec": {"subject": ALL, "ingress": [{"action": "Deny", "from": [ALL]}]},
}  # fmt: skip
CLOSED = {
    "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": "closed", "namespace": "web"},
    "spec": {"podSelector": {}},
}  # fmt: skip


def text(topology: str, *policies: dict) -> str:
    return manifests(topology, policy=None) + "".join(f"---\n{json.dumps(one)}\n" for one in policies)


@pytest.mark.parametrize(("topology", "family"), [("Layer2", 4), ("Layer3", 6)])
def test_first_decision_of_the_tiers_counts(host, topology, family):
    both = Exchange(*host(text(topology, ADMIN, BASELINE, CLOSED)), family, NETWORK)
    both.send("other", both.packet("other", "web", (5000, 53), "passed on to a closed namespace"))
    both.send(
        "api",
        both.packet("api", "web", (5001, 54), "denied"),
        both.packet("api", "web", (5000, 53), "allowed before the namespace"),
    )
    both.wait("web", "allowed before the namespace")
    # The reply passes, although the baseline denies what web opens.
    both.send("web", both.packet("web", "api", (6000, 53), "new connection"))
    both.send("web", both.packet("web", "api", (53, 5000), "reply"))
    both.wait("api", "reply")
    assert both.received("web") == {"allowed before the namespace"}
    assert both.received("api") == {"reply"}
    log = (both.machine.folder / "controller.log").read_text
    for rule, result, severity in ((0, "allow", "notice"), (1, "pass", "warning"), (2, "drop", "alert")):
        line = re.compile(
            rf'acl_log.*name="ANP:dns:Ingress:{rule}", verdict={result}, severity={severity}, direction=to'
        )
        wait_for(lambda line=line: line.search(log()), line.pattern)

    # The namespace permits it now: the baseline is not asked where a policy of the namespace isolates.
    opened = {**CLOSED, "spec": {"podSelector": {}, "ingress": [{}]}}
    both.apply(text(topology, ADMIN, BASELINE, opened))
    both.send("other", both.packet("other", "web", (5002, 53), "the namespace permits it"))
    both.wait("web", "the namespace permits it")

    # Without a policy of the namespace the baseline decides about what is passed on, and without that nothing does.
    both.apply(text(topology, ADMIN, BASELINE))
    both.send("other", both.packet("other", "web", (5003, 53), "the baseline denies it"))
    # What comes later was handled later: the packet before it met these policies.
    both.send("api", both.packet("api", "web", (5005, 53), "allowed by the first rule"))
    both.wait("web", "allowed by the first rule")
    both.apply(text(topology, ADMIN))
    both.send("other", both.packet("other", "web", (5004, 53), "nothing decides"))
    both.wait("web", "nothing decides")
    assert both.received("web") == {
        "allowed before the namespace", "the namespace permits it", "allowed by the first rule", "nothing decides",
    }  # fmt: skip


def test_logging_is_turned_on_and_off(host):
    both = Exchange(*host(text("Layer2", ADMIN)), 4, NETWORK)
    logged = lambda: both.zone.northbound.rows("ACL", "name", "log", "severity", "meter")  # noqa: E731
    assert {row["meter"] for row in logged() if row["log"]} == {"acl-logging"}
    assert "acl-logging" in {row["name"] for row in both.zone.northbound.rows("Meter", "name")}
    silent = {**ADMIN, "metadata": {"name": "dns"}}
    both.apply(text("Layer2", silent))
    assert not [row for row in logged() if row["log"] or row["meter"] == "acl-logging" or row["severity"] == "alert"]
    assert "acl-logging" not in {row["name"] for row in both.zone.northbound.rows("Meter", "name")}
