# SPDX-License-Identifier: Apache-2.0
"""The documentation: pages that are generated from the collection, the check of links, the site."""
