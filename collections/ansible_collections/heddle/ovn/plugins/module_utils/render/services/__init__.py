# SPDX-License-Identifier: Apache-2.0
"""Services of the cluster that user-defined networks reach."""
