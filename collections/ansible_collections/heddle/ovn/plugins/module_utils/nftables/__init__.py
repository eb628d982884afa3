# SPDX-License-Identifier: Apache-2.0
"""The nftables tables of a node: parse, compare, replace."""
