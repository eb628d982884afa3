# SPDX-License-Identifier: Apache-2.0
"""The routing daemon BIRD 2: its configuration files and its control socket. It knows no networks."""
