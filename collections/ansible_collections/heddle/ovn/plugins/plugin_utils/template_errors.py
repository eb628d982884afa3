# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Line and rule for a template that cannot be rendered.

Messages of exceptions may have values of variables, and so secrets. Only what is written in a file, and names of
variables and plugins, are taken from them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ansible.errors import AnsibleTemplatePluginError, AnsibleUndefinedVariable
from jinja2 import Environment, TemplateNotFound, TemplateSyntaxError, UndefinedError, nodes

_NO_VARIABLE = re.compile(r"'([^\W\d]\w*)' is undefined")
_NO_ATTRIBUTE = re.compile(r"object of type '[\w.]+' has no attribute '(.+)'", re.DOTALL)
# A variable in these may be undefined.
_GUARDS = frozenset(["defined", "undefined", "default", "d"])


def template_problem(error: Exception, text: str) -> tuple[int, str, str]:
    """Return line, rule and remedy for what was raised when the template `text` was rendered.

    The line is 0 where it is not known, as for mistakes in variables that the template uses.
    """
    chain = list(_causes(error))
    # The last cause is what went wrong first. A plugin's own failure is less than what made it fail.
    for cause in reversed(chain):
        if isinstance(cause, TemplateSyntaxError):
            return *_syntax(cause, text), "correct the template"
        if isinstance(cause, TemplateNotFound):
            name = cause.name if cause.name and _first_use(cause.name, text) else ""
            line = _first_use(name, text) if name else 0
            return line, f"template {name or 'that it includes'} is not found", "correct its name"
        # ansible-core raises an UndefinedError also for other errors that it kept, which are its cause.
        if isinstance(cause, UndefinedError | AnsibleUndefinedVariable) and cause is chain[-1]:
            return *_undefined(str(cause.args[0]), text), "define it in the inventory, or correct the name"
    reason = type(chain[-1]).__name__
    for cause in reversed(chain):
        if isinstance(cause, AnsibleTemplatePluginError):
            reason = f"{str(cause.args[0]).rstrip('.')} ({reason})"
            break
    remedy = "correct the template; the module ansible.builtin.template shows the whole error"
    return 0, f"template cannot be rendered: {reason}", remedy


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__


def _syntax(error: TemplateSyntaxError, text: str) -> tuple[int, str]:
    message = " ".join(str(error.message).split()).rstrip(".")
    if error.filename:
        return 0, f"{error.filename}:{error.lineno}, which it includes, is not a valid template: {message}"
    # The text was read with the line breaks of Python.
    source = (error.source or "").replace("\r\n", "\n")
    if not text.endswith(source):
        return 0, "a variable that it uses, or what it is decrypted to, is not a valid template"
    # ansible-core takes the first line away when it has options for jinja2.
    line = error.lineno + text.count("\n", 0, len(text) - len(source))
    return line, f"not a valid template: {message}"


def _undefined(message: str, text: str) -> tuple[int, str]:
    if match := _NO_VARIABLE.fullmatch(message):
        return _first_use(match[1], text), message
    match = _NO_ATTRIBUTE.fullmatch(message)
    line = _first_use(match[1], text) if match else 0
    # A name that the template does not have is the value of a variable.
    return line, message if line else "a value that it uses is undefined"


def _first_use(name: str, text: str) -> int:
    """Return the line where a template first has a name, where it has to be defined; 0 where it has it nowhere."""
    try:
        tree = Environment().parse(text)
    except TemplateSyntaxError:
        return 0
    guarded = [node.node for node in tree.find_all((nodes.Test, nodes.Filter)) if node.name in _GUARDS]
    lines = [
        node.lineno
        for node in tree.find_all((nodes.Name, nodes.Getattr, nodes.Const))
        if name in (getattr(node, "name", None), getattr(node, "attr", None), getattr(node, "value", None))
        and not any(node is other for other in guarded)
    ]
    return min(lines, default=0)
