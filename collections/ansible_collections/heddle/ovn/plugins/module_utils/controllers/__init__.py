# SPDX-License-Identifier: Apache-2.0
"""From manifests to stored objects: admission, allocation, status.

Pure functions over a snapshot; `apply_manifests` writes.
"""
