# SPDX-License-Identifier: Apache-2.0
"""Kinds of objects by what Heddle does with them."""

from __future__ import annotations

MESH_KIND = "MeshNetwork"
NETWORK_KINDS = ("UserDefinedNetwork", "ClusterUserDefinedNetwork", MESH_KIND)
ADMIN_NETWORK_POLICY, BASELINE_ADMIN_NETWORK_POLICY = "AdminNetworkPolicy", "BaselineAdminNetworkPolicy"
ADMIN_KINDS = (ADMIN_NETWORK_POLICY, BASELINE_ADMIN_NETWORK_POLICY)
