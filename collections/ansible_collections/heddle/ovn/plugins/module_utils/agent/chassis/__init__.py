# SPDX-License-Identifier: Apache-2.0
"""The host as a chassis of OVN: Open vSwitch's settings, bridges, uplinks."""
