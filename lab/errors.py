# SPDX-License-Identifier: Apache-2.0
"""The exception whose message the lab prints to its user."""


class LabError(Exception):
    """An error message for the user, and its remedy."""

    def __init__(self, message, remedy):
        super().__init__(f"{message}; {remedy}")
        self.message = message
        self.remedy = remedy


class DamagedError(LabError):
    """The stored state of a lab cannot be understood."""
