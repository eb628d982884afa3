# SPDX-License-Identifier: Apache-2.0
"""Test packets: sending, answering, repetition, and the meaning of silence."""
