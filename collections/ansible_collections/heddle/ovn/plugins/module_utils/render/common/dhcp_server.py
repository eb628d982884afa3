# SPDX-License-Identifier: Apache-2.0
"""The addresses that OVN answers DHCP requests with, the same on all networks and nodes (ovn-kubernetes)."""

from __future__ import annotations

SERVER = "169.254.1.1"
SERVER6 = "fe80::1"
