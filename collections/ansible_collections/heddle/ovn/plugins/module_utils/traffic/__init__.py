# SPDX-License-Identifier: Apache-2.0
"""Traffic that goes on while something is changed, and what became of it."""
