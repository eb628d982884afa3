# SPDX-License-Identifier: Apache-2.0
"""Probes of the underlay: their format, the search for the largest one that arrives, and what hosts found."""
