# SPDX-License-Identifier: Apache-2.0
"""Data classes of desired state, without behaviour: what `render` returns and the engines take."""
