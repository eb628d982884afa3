# SPDX-License-Identifier: Apache-2.0
"""The state database: what was admitted and who was given which number and address."""
