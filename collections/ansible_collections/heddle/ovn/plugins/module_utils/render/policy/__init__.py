# SPDX-License-Identifier: Apache-2.0
"""Access control lists."""
