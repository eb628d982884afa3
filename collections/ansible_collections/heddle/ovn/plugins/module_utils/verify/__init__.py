# SPDX-License-Identifier: Apache-2.0
"""Proof that the hosts do what the manifests ask for: packets with identity, and drift."""
