# SPDX-License-Identifier: Apache-2.0
"""The format of the plan document.

9: `egress_services`. An older agent would let workloads leave as they did without.
8: `admin` of `policies`, and policies of secondary networks: an older agent would leave their workloads open.
   `node_port` and `external` of Services: it would not let in what is sent to them.
   `coil` has `routing` instead of `bgp`: it would not find what it advertises with.
   Networks may have the topology Mesh: it would fail at them.
   `coil` may have `reserved`: it would remove routes to workloads of Coil v1.
   `ovn` False: it would wait for databases of OVN that are not there.
   `encapsulation`: it would use Geneve.
7: `coil` (workloads with addresses of pools) and `egress`. An older agent would leave clients without their routers.
6: `egress_ips`, `egress_firewalls`, `egress_qos`. An older agent would let workloads leave as they did without.
5: `policies` by network. An older agent would leave their workloads open.
4: `services` with their endpoints.
3: networks may have `nodes`, those that they are on.
2: `gateway` of a node has `translated_ports`, nodes may have `mac_subnet`.
"""

from __future__ import annotations

# Raised by whatever a `heddle-host` that was installed before cannot read.
PLAN_FORMAT = 9
# Of its part `daemons`: services that all hosts run as soon as a workload or a rule of any host needs one.
DNS_NAMES, PROBES = "dns_names", "probes"


def has_ovn(plan: dict) -> bool:
    """Return whether hosts have Open vSwitch and OVN; without them there are address pools alone."""
    return plan.get("ovn", True)
