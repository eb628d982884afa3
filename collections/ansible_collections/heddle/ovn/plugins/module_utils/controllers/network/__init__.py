# SPDX-License-Identifier: Apache-2.0
"""Networks: where they are applied, who is attached to them, and their status."""
