# SPDX-License-Identifier: Apache-2.0
"""Removal of Heddle from a host: the record of what the host was before, and its restoration."""
