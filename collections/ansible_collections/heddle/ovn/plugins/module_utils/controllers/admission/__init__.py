# SPDX-License-Identifier: Apache-2.0
"""Admission: which manifests are accepted, and which objects are stored or deleted."""
