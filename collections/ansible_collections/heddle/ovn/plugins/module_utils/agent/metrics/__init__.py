# SPDX-License-Identifier: Apache-2.0
"""Metrics of a host in the format of Prometheus."""
