# SPDX-License-Identifier: Apache-2.0
"""Workloads: which run, on which node, and their readiness."""
