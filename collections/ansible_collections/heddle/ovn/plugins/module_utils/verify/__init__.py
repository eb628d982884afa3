# SPDX-License-Identifier: Apache-2.0
"""Verification of the hosts: reachability by test packets that name their sender, and drift between host and plan."""
