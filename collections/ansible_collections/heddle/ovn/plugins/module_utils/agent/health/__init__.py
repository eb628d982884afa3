# SPDX-License-Identifier: Apache-2.0
"""Health of a host and of its workloads: daemons, probes, health check ports."""
