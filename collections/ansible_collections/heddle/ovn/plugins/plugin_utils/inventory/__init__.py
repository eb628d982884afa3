# SPDX-License-Identifier: Apache-2.0
"""Validation of the inventory and of extra variables on the control node, before a host is contacted."""
