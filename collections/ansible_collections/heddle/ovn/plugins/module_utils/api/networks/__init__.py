# SPDX-License-Identifier: Apache-2.0
"""Fields of user-defined networks and the rules between them."""
