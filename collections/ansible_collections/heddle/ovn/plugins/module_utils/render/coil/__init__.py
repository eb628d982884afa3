# SPDX-License-Identifier: Apache-2.0
"""Renders address pools of Coil v2: workloads with routed addresses, exported blocks, BIRD's configuration."""
