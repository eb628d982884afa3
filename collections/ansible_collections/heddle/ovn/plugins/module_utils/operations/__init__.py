# SPDX-License-Identifier: Apache-2.0
"""Operations behind the playbooks: admission, readiness, migration, the Layer2 upgrade, views of the state."""
