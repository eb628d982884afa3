# SPDX-License-Identifier: Apache-2.0
"""The format of the plan document.

8: networks may have the topology Mesh. An older agent would fail at them.
7: `coil` (workloads with addresses of pools) and `egress`. An older agent would leave clients without their routers.
6: `egress_ips`, `egress_firewalls`, `egress_qos`. An older agent would let workloads leave as they did without.
5: `policies` by network. An older agent would leave their workloads open.
4: `services` with their endpoints.
3: networks may have `nodes`, those that they are on.
2: `gateway` of a node has `translated_ports`, nodes may have `mac_subnet`.
"""

from __future__ import annotations

# Raised by whatever a `heddle-host` that was installed before cannot read.
PLAN_FORMAT = 8
