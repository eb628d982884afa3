# SPDX-License-Identifier: Apache-2.0
"""Fields of the kinds of Coil."""
