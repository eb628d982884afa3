# SPDX-License-Identifier: Apache-2.0
"""A lab of four hosts on this machine: three nodes and one external host."""
