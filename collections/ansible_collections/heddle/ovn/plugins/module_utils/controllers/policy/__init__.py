# SPDX-License-Identifier: Apache-2.0
"""Network policies: which workloads their selectors select."""
