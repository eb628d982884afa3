# SPDX-License-Identifier: Apache-2.0
"""Address pools of Coil v2: blocks of nodes, addresses of workloads, and their status."""
