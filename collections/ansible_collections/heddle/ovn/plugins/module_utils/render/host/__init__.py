# SPDX-License-Identifier: Apache-2.0
"""The node itself: Open vSwitch, links and routes, nftables, namespaces and virtual machines of workloads."""
