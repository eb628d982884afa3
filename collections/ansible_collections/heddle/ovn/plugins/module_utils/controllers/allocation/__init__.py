# SPDX-License-Identifier: Apache-2.0
"""Allocation: ids, keys and addresses out of pools, and which host has an address."""
