# SPDX-License-Identifier: Apache-2.0
"""Egress control: the addresses that workloads leave with."""
