# SPDX-License-Identifier: Apache-2.0
"""The daemon that runs readiness probes of a host's workloads."""
