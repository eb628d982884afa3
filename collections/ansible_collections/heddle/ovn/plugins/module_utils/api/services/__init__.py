# SPDX-License-Identifier: Apache-2.0
"""Fields of Services, their ports, and readiness probes."""
