# SPDX-License-Identifier: Apache-2.0
"""Expected reachability, from the plan, and the selection of what is tested. Pure functions."""
