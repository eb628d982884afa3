# SPDX-License-Identifier: Apache-2.0
"""Moves of addresses of EgressIPs and load balancers between hosts."""
