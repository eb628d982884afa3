# SPDX-License-Identifier: Apache-2.0
"""Layer2, Layer3 and Localnet networks as OVN Northbound rows."""
