# SPDX-License-Identifier: Apache-2.0
"""Common code of all renderers: a network as one node sees it, OVN rows, the provider network."""
