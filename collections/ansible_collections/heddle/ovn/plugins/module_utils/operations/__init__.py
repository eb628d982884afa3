# SPDX-License-Identifier: Apache-2.0
"""What playbooks do step by step: admission, readiness, migration, the Layer2 upgrade, views of the state."""
