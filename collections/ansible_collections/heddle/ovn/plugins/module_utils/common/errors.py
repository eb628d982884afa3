# SPDX-License-Identifier: Apache-2.0
"""Exceptions of the engines, in one small file so that reporting errors does not require loading the engines."""

from __future__ import annotations

_SHOWN_PROBLEMS = 20


class EngineError(Exception):
    """An engine cannot reach the desired state; the text says what to do."""


class NetlinkError(EngineError):
    """The kernel's state does not permit the desired one, or a write failed."""


class HypervisorError(EngineError):
    """This host cannot run a virtual machine as desired."""


class FirewallError(EngineError):
    """nft does not accept the desired table, or it could not be read or written."""


class OpenFlowError(EngineError):
    """The desired flows or the switch do not permit the change.

    `networks` are those whose flows or ports are affected; empty when it affects all networks.
    """

    def __init__(self, text: str, networks: frozenset[str] = frozenset()) -> None:
        self.networks = networks - {""} if "" not in networks else frozenset()
        super().__init__(text)


class ProgramError(EngineError):
    """A program failed, was too slow or is not installed; `stderr` is its error output."""

    def __init__(self, name: str, stderr: str) -> None:
        self.stderr = stderr.strip()
        super().__init__(f"{name}: {self.stderr}")


class NotInstalled(ProgramError):
    """A program is not installed."""


class RowProblem(str):
    """An error in a desired row; `network` is the unit that the row belongs to, "" for rows common to all networks."""

    network: str

    def __new__(cls, text, network=""):
        problem = super().__new__(cls, text)
        problem.network = network
        return problem


class InvalidRows(EngineError):
    """Desired rows that this database cannot hold; nothing was written.

    `problems` has all of them, as `RowProblem`, the text the first ones and how many more there are.
    """

    def __init__(self, database, problems):
        self.database, self.problems = database, problems
        lines = [f"{database}: {problem}" for problem in problems[:_SHOWN_PROBLEMS]]
        if len(problems) > _SHOWN_PROBLEMS:
            lines.append(f"{database}: and {len(problems) - _SHOWN_PROBLEMS} more")
        super().__init__("\n".join(lines))
