# SPDX-License-Identifier: Apache-2.0
"""Sends and answers probes of the underlay on a host."""
