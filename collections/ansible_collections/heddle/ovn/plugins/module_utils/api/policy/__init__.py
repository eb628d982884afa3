# SPDX-License-Identifier: Apache-2.0
"""Fields of network policies."""
