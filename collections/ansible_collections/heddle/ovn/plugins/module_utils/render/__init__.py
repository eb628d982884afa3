# SPDX-License-Identifier: Apache-2.0
"""Renders the plan for one host into desired rows, flows and links. Pure functions; no I/O.

Imports nothing, so that one part can be imported without all others, as for the page of the fleet in each run.
"""
