# SPDX-License-Identifier: Apache-2.0
"""Measures traffic during changes: background flows and their losses."""
