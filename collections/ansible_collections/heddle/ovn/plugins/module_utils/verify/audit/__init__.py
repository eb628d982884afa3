# SPDX-License-Identifier: Apache-2.0
"""Audit: a host compared with its plan, and differences grouped by cause."""
