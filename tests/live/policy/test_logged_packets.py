# SPDX-License-Identifier: Apache-2.0
"""Lines of ovn-controller about packets that NetworkPolicies, MultiNetworkPolicies and EgressFirewalls decide."""

from __future__ import annotations

import re

from tests.live.conftest import wait_for
from tests.live.gateway.external_host import EXTERNAL, request_of
from tests.live.gateway.external_host import MANIFESTS as GATEWAYS
from tests.live.gateway.packets import UDP, Answer, Question
from tests.live.gateway.test_egress_rules import document, to
from tests.live.policy import test_secondary_packets as secondary
from tests.live.policy.exchange import Exchange
from tests.live.policy.test_packets import NETWORK, manifests

ANNOTATION = "k8s.ovn.org/acl-logging"
SEVERITIES = '{"deny": "alert", "allow": "notice"}'
# What a meter passes on at once, and then in each second (docs/policy.md).
LIMIT = 20
# One call takes fewer than 100 frames.
CALLS, FRAMES = 10, 90


def logging(text: str, name: str) -> str:
    """The manifests, with the annotation at a Namespace."""
    annotated = f"metadata:\n  name: {name}\n  annotations: {{{ANNOTATION}: '{SEVERITIES}'}}\n"
    assert f"metadata:\n  name: {name}\n" in text
    return text.replace(f"metadata:\n  name: {name}\n", annotated, 1)


def closed(name: str, **metadata) -> dict:
    """A policy of the namespace web that permits api to ask for names."""
    source = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "api"}}}
    rule = {"from": [source], "ports": [{"protocol": "UDP", "port": 53}]}
    return {
        "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy",
        "metadata": {"name": name, "namespace": "web", **metadata},
        "spec": {"podSelector": {}, "policyTypes": ["Ingress"], "ingress": [rule]},
    }  # fmt: skip


def lines(machine, name: str, result: str, severity: str) -> list[str]:
    """The lines that ovn-controller has written of an ACL."""
    wanted = re.compile(rf'acl_log.*name="{name}", verdict={result}, severity={severity}, direction=to-lport')
    return [line for line in (machine.folder / "controller.log").read_text().splitlines() if wanted.search(line)]


def wait_for_line(machine, *wanted: str) -> None:
    wait_for(lambda: lines(machine, *wanted), f"a line of {wanted}")


def test_what_a_policy_of_a_namespace_permits_and_denies(host):
    text = manifests("Layer2", policy=closed("dns"))
    both = Exchange(*host(logging(text, "web")), 4, NETWORK)
    both.send("other", both.packet("other", "web", (5000, 53), "denied"))
    both.send("api", both.packet("api", "web", (5000, 53), "permitted"))
    both.wait("web", "permitted")
    wait_for_line(both.machine, "NP:web:dns:Ingress:0", "allow", "notice")
    wait_for_line(both.machine, "NP:web:Ingress", "drop", "alert")
    # Without the annotation.
    both.apply(manifests("Layer2", policy=closed("dns")))
    before = len(lines(both.machine, "NP:web:Ingress", "drop", "alert"))
    both.send("other", both.packet("other", "web", (5001, 53), "denied without a line"))
    both.send("api", both.packet("api", "web", (5001, 53), "permitted without a line"))
    both.wait("web", "permitted without a line")
    # An answer for IPv6 is ovn-controller's, to what it got later: a line would be there.
    ends = [next(one for one in both.zone.interface(f"{name}/a", NETWORK)["addresses"] if ":" in one).partition("/")[0]
            for name in ("other", "api")]  # fmt: skip
    question = Question(both.zone.interface("other/a", NETWORK)["mac"], *ends)
    both.machine.send_until(
        lambda: any(isinstance(one, Answer) and one.address == ends[1] for one in both.machine.sent("if-other")),
        "if-other", question.encode(), "an answer of ovn-controller",
    )  # fmt: skip
    assert len(lines(both.machine, "NP:web:Ingress", "drop", "alert")) == before


def test_policies_of_secondary_networks(host):
    policy = {
        **closed("dns", annotations={"k8s.v1.cni.cncf.io/policy-for": "san"}),
        "apiVersion": "k8s.cni.cncf.io/v1beta1", "kind": "MultiNetworkPolicy",
    }  # fmt: skip
    text = secondary.manifests(secondary.LAYER2, policy)
    both = Exchange(*host(logging(text, "web")), 6, secondary.NETWORK)
    both.send("other", both.packet("other", "web", (5000, 53), "denied"))
    both.send("api", both.packet("api", "web", (5000, 53), "permitted"))
    both.wait("web", "permitted")
    wait_for_line(both.machine, "NP:web:dns:Ingress:0", "allow", "notice")
    wait_for_line(both.machine, "NP:web:Ingress", "drop", "alert")


def test_rules_of_a_firewall(host):
    rules = [to("Allow", f"{EXTERNAL[4]}/32"), to("Deny", "::/0")]
    machine, zone = host(logging(GATEWAYS, "flat") + document("EgressFirewall", "flat", rules))
    for version, line in ((4, ("EF:flat:0", "allow", "notice")), (6, ("EF:flat:1", "drop", "alert"))):
        machine.receive("if-flat", request_of(zone, "flat", UDP, version).encode())
        wait_for_line(machine, *line)


def test_the_rate_is_limited_for_each_rule(host):
    """A flood of one rule is a fraction of its packets in the log, and takes no line from another rule."""
    text = manifests("Layer2", policy=closed("dns"))
    both = Exchange(*host(logging(text, "web")), 4, NETWORK)
    denied = both.packet("other", "web", (5000, 53), "denied").encode()
    # It makes the flow of the datapath that all others meet.
    both.machine.receive("if-other", denied)
    wait_for_line(both.machine, "NP:web:Ingress", "drop", "alert")
    for _call in range(CALLS):
        both.machine.receive_all("if-other", [denied] * FRAMES)
    both.send("api", both.packet("api", "web", (5000, 53), "permitted"))
    both.wait("web", "permitted")
    wait_for_line(both.machine, "NP:web:dns:Ingress:0", "allow", "notice")
    found = len(lines(both.machine, "NP:web:Ingress", "drop", "alert"))
    # As many as pass at once, and what passes in the seconds that the calls take: far from all.
    assert LIMIT // 2 <= found < CALLS * FRAMES // 3
