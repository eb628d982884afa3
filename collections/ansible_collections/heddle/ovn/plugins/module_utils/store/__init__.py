# SPDX-License-Identifier: Apache-2.0
"""The state database: its schema, a snapshot of it, its settings."""
