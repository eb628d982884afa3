# SPDX-License-Identifier: Apache-2.0
"""Sockets: waiting for many of them, packets of a device, and datagrams that are not fragmented."""
