# SPDX-License-Identifier: Apache-2.0
"""The floor that writes: compares desired state with what is there and changes it, one engine per substrate."""
