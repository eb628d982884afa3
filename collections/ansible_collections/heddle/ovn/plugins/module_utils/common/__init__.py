# SPDX-License-Identifier: Apache-2.0
"""Common code of all layers: names, addresses, changes and errors; files, processes, sockets and text in folders."""
