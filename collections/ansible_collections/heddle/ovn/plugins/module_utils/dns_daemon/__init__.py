# SPDX-License-Identifier: Apache-2.0
"""The daemon that resolves the DNS names of EgressFirewalls and fills their address sets."""
