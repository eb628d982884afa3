# SPDX-License-Identifier: Apache-2.0
"""Cluster services that user-defined networks can reach."""
