# SPDX-License-Identifier: Apache-2.0
"""The one exception that the lab shows to its user."""


class LabError(Exception):
    """Something that the user has to know, and what to do about it."""

    def __init__(self, message, remedy):
        super().__init__(f"{message}; {remedy}")
        self.message = message
        self.remedy = remedy
