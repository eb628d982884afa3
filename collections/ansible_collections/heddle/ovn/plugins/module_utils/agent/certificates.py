# SPDX-License-Identifier: Apache-2.0
"""Certificates of hosts by an authority of the deployment: keys stay where they are made, only requests travel.

By OpenSSL's program: a host needs no package for it that Debian has not installed on most hosts anyway.
"""

from __future__ import annotations

import os
import re
import secrets

from ..common.errors import ProgramError
from ..common.files.atomic_file import replace_file
from ..common.naming import NODE_NAME
from ..common.processes import subprocesses
from .context import locked
from .module_runner import Request, UserError

_CURVE = ["-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"]
_AUTHORITY_DAYS, _DAYS = 3650, 825
# A certificate that ends within this time is made anew.
_RENEWAL_SECONDS = 90 * 86400
_SECRET, _PUBLIC = 0o600, 0o644
_LEAF = (
    "basicConstraints=critical,CA:FALSE\nkeyUsage=critical,digitalSignature\nextendedKeyUsage=serverAuth,clientAuth\n"
)
_SUBJECT = re.compile(r"subject=CN=(.*)\n?")


def certificate_result(request: Request, run: subprocesses.Run = subprocesses.run) -> dict:
    """Do one step of the module `certificate`: `requested`, `signed` or `installed`."""
    params, write = request.params, not request.check_mode
    if params["state"] == "signed":
        return sign(params["authority"], params["requests"], params["deployment"], run, write=write)
    if params["state"] == "requested":
        return ask(params["directory"], params["node"], params["authority_certificate"], run, write=write)
    return install(params["directory"], params["certificate"], params["authority_certificate"], write=write)


def ask(directory: str, node: str, authority: str, run: subprocesses.Run, *, write: bool) -> dict:
    """Return the request for a certificate of a host; an empty one when the host has a certificate that will do.

    `authority` is the text of the authority's certificate, "" before there is one.
    """
    _check_name(node)
    key, certificate = os.path.join(directory, "key.pem"), os.path.join(directory, "cert.pem")
    if _will_do(directory, node, authority, run):
        return {"changed": False, "request": ""}
    if not write:
        return {"changed": True, "request": ""}
    os.makedirs(directory, mode=0o700, exist_ok=True)
    changed = not os.path.exists(key)
    if changed:
        replace_file(key, run(["openssl", "genpkey", *_CURVE], ""), mode=_SECRET, single_writer=True)
    text = run(["openssl", "req", "-new", "-key", key, "-subj", f"/CN={node}"], "")
    return {"changed": changed or not os.path.exists(certificate), "request": text}


def sign(directory: str, requests: dict, deployment: str, run: subprocesses.Run, *, write: bool) -> dict:
    """Make the authority where there is none, and sign requests, {node: request}; empty ones are left out.

    A request has to name the node that it came from: nothing else of it is used but the public key.
    """
    if not write and not os.path.exists(os.path.join(directory, "ca.pem")):
        return {"changed": True, "certificates": {}, "authority_certificate": ""}
    os.makedirs(directory, mode=0o700, exist_ok=True)
    # Ansible signs for all hosts at once.
    with locked(directory):
        return _sign(directory, requests, deployment, run, write=write)


def _sign(directory: str, requests: dict, deployment: str, run: subprocesses.Run, *, write: bool) -> dict:
    key, certificate = os.path.join(directory, "key.pem"), os.path.join(directory, "ca.pem")
    wanted = {node: text for node, text in requests.items() if text}
    changed = not os.path.exists(certificate)
    if changed:
        _make_authority(key, certificate, deployment, run)
    extensions = os.path.join(directory, "leaf.cnf")
    if wanted and write:
        replace_file(extensions, _LEAF, mode=_PUBLIC, single_writer=True)
    signed = {node: _signed(node, text, (key, certificate, extensions), run) for node, text in wanted.items() if write}
    with open(certificate, encoding="utf-8") as file:
        authority = file.read()
    return {"changed": changed or bool(wanted), "certificates": signed, "authority_certificate": authority}


def install(directory: str, certificate: str, authority: str, *, write: bool) -> dict:
    """Store a certificate beside its key, and that of the authority; an empty text leaves a file as it is."""
    changed = False
    for name, text in (("ca.pem", authority), ("cert.pem", certificate)):
        path = os.path.join(directory, name)
        if text and _read(path) != text:
            changed = True
            if write:
                replace_file(path, text, mode=_PUBLIC, single_writer=True)
    return {"changed": changed}


def _make_authority(key: str, certificate: str, deployment: str, run: subprocesses.Run) -> None:
    if not os.path.exists(key):
        replace_file(key, run(["openssl", "genpkey", *_CURVE], ""), mode=_SECRET, single_writer=True)
    subject = f"/CN=Heddle {re.sub(r'[^A-Za-z0-9._-]', '-', deployment)}"
    extensions = ["basicConstraints=critical,CA:TRUE,pathlen:0", "keyUsage=critical,keyCertSign"]
    text = run(
        ["openssl", "req", "-x509", "-new", "-key", key, "-days", str(_AUTHORITY_DAYS), "-subj", subject,
         *(word for one in extensions for word in ("-addext", one))],
        "",
    )  # fmt: skip
    replace_file(certificate, text, mode=_PUBLIC, single_writer=True)


def _signed(node: str, text: str, files: tuple[str, str, str], run: subprocesses.Run) -> str:
    _check_name(node)
    subject = run(["openssl", "req", "-noout", "-verify", "-subject", "-nameopt", "RFC2253"], text)
    found = _SUBJECT.search(subject)
    if found is None or found[1] != node:
        raise UserError(f"the request of {node} is for {found[1] if found else 'no name'}; it was not signed")
    key, certificate, extensions = files
    # 127 random bits: positive, as RFC 5280, section 4.1.2.2, demands, and never the same twice.
    serial = f"0x{secrets.randbits(127):032x}"
    return run(
        ["openssl", "x509", "-req", "-CA", certificate, "-CAkey", key, "-set_serial", serial, "-days", str(_DAYS),
         "-extfile", extensions],
        text,
    )  # fmt: skip


def lasts(certificate: str, run: subprocesses.Run = subprocesses.run) -> bool:
    """Whether there is such a certificate, and it need not be made anew yet."""
    try:
        run(["openssl", "x509", "-noout", "-checkend", str(_RENEWAL_SECONDS), "-in", certificate], "")
    except ProgramError:
        return False
    return True


def _will_do(directory: str, node: str, authority: str, run: subprocesses.Run) -> bool:
    """Whether the host has its key, and a certificate for it by this authority that does not end soon."""
    key, certificate, trusted = (os.path.join(directory, name) for name in ("key.pem", "cert.pem", "ca.pem"))
    if not all(map(os.path.exists, (key, certificate, trusted))) or not authority or _read(trusted) != authority:
        return False
    if not lasts(certificate, run):
        return False
    try:
        run(["openssl", "verify", "-CAfile", trusted, certificate], "")
        subject = run(["openssl", "x509", "-noout", "-subject", "-nameopt", "RFC2253", "-in", certificate], "")
        same = run(["openssl", "x509", "-noout", "-pubkey", "-in", certificate], "")
        return same == run(["openssl", "pkey", "-pubout", "-in", key], "") and subject.strip() == f"subject=CN={node}"
    except ProgramError:
        return False


def _check_name(node: str) -> None:
    if not NODE_NAME.fullmatch(node):
        raise UserError(f"{node} is no name of a node")


def _read(path: str) -> str | None:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except FileNotFoundError:
        return None
