# SPDX-License-Identifier: Apache-2.0
"""What all renderers share: a network as one node sees it, OVN rows, the provider network."""
