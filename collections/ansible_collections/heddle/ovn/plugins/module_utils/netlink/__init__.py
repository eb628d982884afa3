# SPDX-License-Identifier: Apache-2.0
"""Links, addresses, routes and rules of the kernel: read, compare, change."""
