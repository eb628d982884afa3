# SPDX-License-Identifier: Apache-2.0
"""Egress control: addresses and rules for what leaves a network."""
