# SPDX-License-Identifier: Apache-2.0
"""Policies of a virtual machine, and traffic from it and to it that they permit and that they forbid, counted."""

from __future__ import annotations

import re

from ansible_collections.heddle.ovn.plugins.module_utils.common.polling import attempts
from tests.lab.conftest import PATIENCE
from tests.lab.remote_program import RemoteProgram
from tests.lab.vm import ADDRESSES, PORT, WATCHERS, Machine

# Addresses of the external host, by their last number: beyond the network, what decides about echo requests to them.
EXTERNAL = {"permitted": 21, "EgressFirewall": 22, "AdminNetworkPolicy": 23}
# Ports of the VM that nothing listens on.
PERMITTED_PORT, FORBIDDEN_PORT = 7400, 7401
# The VM's counters of datagrams that no program receives, and of echo requests.
COUNTERS = {"udp 4": "Udp NoPorts", "udp 6": "Udp6NoPorts", "echo 4": "Icmp InEchos", "echo 6": "Icmp6InEchos"}

_POLICIES = """---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {{name: vm, namespace: violet}}
spec:
  podSelector: {{matchLabels: {{app: vm}}}}
  policyTypes: [Ingress, Egress]
  ingress:
    - from: [{{podSelector: {{matchLabels: {{app: friend}}}}}}]
      ports: [{{port: {tcp}}}, {{protocol: UDP, port: {udp}}}]
  egress:
    - to: [{{ipBlock: {{cidr: {prefix}.2.0/24}}}}, {{ipBlock: {{cidr: "{prefix6}:2::/64"}}}}]
---
apiVersion: k8s.ovn.org/v1
kind: EgressFirewall
metadata: {{name: default, namespace: violet}}
spec:
  egress:
    - {{type: Deny, to: {{cidrSelector: {prefix}.2.22/32}}}}
    - {{type: Deny, to: {{cidrSelector: "{prefix6}:2::22/128"}}}}
---
apiVersion: policy.networking.k8s.io/v1alpha1
kind: AdminNetworkPolicy
metadata: {{name: violet-vm}}
spec:
  priority: 10
  subject:
    pods:
      namespaceSelector: {{matchLabels: {{kubernetes.io/metadata.name: violet}}}}
      podSelector: {{matchLabels: {{app: vm}}}}
  ingress:
    - action: Deny
      from: [{{namespaces: {{}}}}]
      ports: [{{portNumber: {{protocol: UDP, port: {udp}}}}}]
  egress:
    - {{action: Deny, to: [{{networks: [{prefix}.2.23/32, "{prefix6}:2::23/128"]}}]}}
"""
DENIED_NAME = """---
apiVersion: k8s.ovn.org/v1
kind: EgressFirewall
metadata: {name: default, namespace: violet}
spec: {egress: [{type: Deny, to: {dnsName: www.example.com}}]}
"""


def policies(own: dict[str, str]) -> str:
    """The manifests of all policies; `own` are the prefixes of the lab.

    A peer may connect to the VM's TCP port and nothing else: its datagrams to one port are forbidden by the policy of
    the cluster, all others by the NetworkPolicy. The VM may send to external hosts only.
    """
    return _POLICIES.format(tcp=PORT, udp=PERMITTED_PORT, **own)


def external_addresses(own: dict[str, str]) -> dict[str, str]:
    """The addresses that the external host has beside its own, and what decides about packets to them."""
    found = {}
    for who, number in EXTERNAL.items():
        found |= {f"{own['prefix']}.2.{number}": who, f"{own['prefix6']}:2::{number}": who}
    return found


class Echoes:
    """Echo requests of the VM to several addresses, until `end`; `node` has the VM each time."""

    def __init__(self, vm: Machine, node: str, addresses: dict[str, float]) -> None:
        """`addresses` are those to send to, with the seconds between two requests."""
        self._vm, self._addresses = vm, addresses
        started = "".join(
            f"ping -q -i {pause} {address} >/tmp/sent.{number} 2>&1 & echo $! >>/tmp/sending; "
            for number, (address, pause) in enumerate(addresses.items())
        )
        vm.inside(node, f"({started}) </dev/null >/dev/null 2>&1 &")

    def end(self, node: str) -> dict[str, int]:
        """Return how many were sent to each address."""
        text = self._vm.inside(
            node,
            "kill -INT $(cat /tmp/sending); rm /tmp/sending; while pidof ping >/dev/null; do usleep 50000; done;"
            f" for number in $(seq 0 {len(self._addresses) - 1}); do cat /tmp/sent.$number; done",
        )
        sent = [int(number) for number in re.findall(r"(\d+) packets transmitted", text)]
        return dict(zip(self._addresses, sent, strict=True))


class PolicyTraffic:
    """Traffic that goes on from its creation until `end`; `node` has the VM each time.

    The VM sends an echo request to each address every 20 ms, or 200 ms where it gets answers. Its peers send a datagram
    of each flow every 20 ms and begin a connection every 200 ms.
    """

    def __init__(self, vm: Machine, node: str, own: dict[str, str]) -> None:
        self.vm, lab = vm, vm.lab
        # By address what decides about the VM's echo requests to it. Those to a peer of its network are the policy's.
        self.targets = external_addresses(own)
        inside = dict.fromkeys(_addresses(lab, "violet/peer"), "NetworkPolicy")
        self.counting = [
            RemoteProgram(lab, "external", "policy_packets.py", "count", *self.targets),
            RemoteProgram(lab, WATCHERS["violet_peer"], "policy_packets.py", "count", *inside, namespace="violet_peer"),
        ]
        self.targets |= inside
        flows = {
            "violet_peer": [("udp", PERMITTED_PORT), ("udp", FORBIDDEN_PORT), ("tcp", PORT)],
            "violet_near": [("udp", FORBIDDEN_PORT), ("tcp", PORT)],
        }
        self.sending = {
            namespace: RemoteProgram(
                lab, WATCHERS[namespace], "policy_packets.py", "send",
                *([kind, address, int(port)] for kind, port in chosen for address in ADDRESSES), namespace=namespace,
            )
            for namespace, chosen in flows.items()
        }  # fmt: skip
        for program in (*self.counting, *self.sending.values()):
            assert program.line() == "ready"
        pauses = {address: 0.2 if who == "permitted" else 0.02 for address, who in self.targets.items()}
        self.echoes = Echoes(vm, node, pauses)

    def received(self, node: str) -> dict[str, int]:
        """What has arrived so far, by what decides about it and where it went."""
        found = {}
        for program in self.counting:
            program.go_on()
            found |= {f"{self.targets[one]}: vm to {one}": number for one, number in program.line().items()}
        found |= {f"forbidden: {kind} to vm": number for kind, number in self._counters(node).items()}
        for namespace, totals in self.sent().items():
            who = "permitted" if namespace == "violet_peer" else "forbidden"
            found |= {
                f"{who}: {namespace} {flow}": one["established"] for flow, one in totals.items() if "established" in one
            }
        return found

    def sent(self) -> dict[str, dict[str, dict]]:
        """What peers have sent so far, by namespace and flow."""
        for program in self.sending.values():
            program.go_on()
        return {namespace: program.line() for namespace, program in self.sending.items()}

    def arrives(self, node: str, since: dict[str, int], wanted) -> None:
        """Wait until more has arrived than `since`, of all flows whose name `wanted` accepts."""
        for _attempt in attempts(PATIENCE):
            found = self.received(node)
            missing = [name for name, before in since.items() if wanted(name) and found[name] <= before]
            if not missing:
                return
        raise AssertionError(f"nothing arrives of {missing}: {found}")

    def end(self, node: str) -> dict:
        """Return what was sent."""
        found = {"vm": self.echoes.end(node), **self.sent()}
        for program in (*self.counting, *self.sending.values()):
            program.end()
        return found

    def _counters(self, node: str) -> dict[str, int]:
        text = self.vm.inside(node, "cat /proc/net/snmp /proc/net/snmp6")
        values = dict(re.findall(r"(?m)^(\w+)\s+(\d+)$", text))
        for name, names, numbers in re.findall(r"(?m)^(\w+): (.*[A-Za-z].*)\n\1: (.*)$", text):
            values |= {f"{name} {one}": number for one, number in zip(names.split(), numbers.split(), strict=True)}
        return {kind: int(values[counter]) for kind, counter in COUNTERS.items()}


def _addresses(lab, workload: str) -> list[str]:
    interfaces = lab.plan()["workloads"][workload]["interfaces"]
    return [
        address.partition("/")[0]
        for one in interfaces
        if one["network"] == "violet_net"
        for address in one["addresses"]
    ]


def is_permitted(name: str) -> bool:
    """Whether a flow of `received` is one that policies permit."""
    return name.startswith("permitted")
