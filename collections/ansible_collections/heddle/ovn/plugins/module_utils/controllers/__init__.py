# SPDX-License-Identifier: Apache-2.0
"""Controllers: admission, allocation and status, from manifests to stored objects.

Pure functions over a snapshot; `apply_manifests` writes.
"""
