# SPDX-License-Identifier: Apache-2.0
"""YAML documents with the line of every field."""
