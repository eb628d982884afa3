# SPDX-License-Identifier: Apache-2.0
"""TLS with a pre-shared key between the two QEMUs of a migration (QEMU, "TLS setup for network services")."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from .qmp import Qmp, QmpError
from .runtime_files import read_file

# The names are QEMU's.
KEY_FILE = "keys.psk"
GROUP_FILE = "dh-params.pem"
_OBJECT = "move"

# The Diffie-Hellman group ffdhe3072 (RFC 7919, appendix A.2). Where the file is missing, QEMU searches a prime of its
# own before it listens. That takes up to a second of a processor, much longer on a busy host, and meanwhile QEMU does
# not serve its control socket.
_GROUP = """\
-----BEGIN DH PARAMETERS-----
MIIBiAKCAYEA//////////+t+FRYortKmq/cViAnPTzx2LnFg84tNpWp4TZBFGQz
+8yTnc4kmz75fS/jY2MMddj2gbICrsRhetPfHtXV/WVhJDP1H18GbtCFY2VVPe0a
87VXE15/V8k1mE8McODmi3fipona8+/och3xWKE2rec1MKzKT0g6eXq8CrGCsyT7
YdEIqUuyyOP7uWrat2DX9GgdT0Kj3jlN9K5W7edjcrsZCwenyO4KbXCeAvzhzffi
7MA0BM0oNC9hkXL+nOmFg/+OTxIy7vKBg8P+OxtMb61zO7X8vC7CIAXFjvGDfRaD
ssbzSibBsu/6iGtCOGEfz9zeNVs7ZRkDW7w09N75nAI4YbRvydbmyQd62R0mkff3
7lmMsPrBhtkcrv4TCYUTknC0EwyTvEN5RPT9RFLi103TZPLiHnH1S/9croKrnJ32
nuhtK8UiNjoNq8Uhl5sN6todv5pC1cRITgq80Gv6U93vPBsg7j/VnXwl5B0rZsYu
N///////////AgEC
-----END DH PARAMETERS-----
"""


def use_key(vm: Qmp, directory: Path, owner: int, key: str, endpoint: str) -> None:
    """Make QEMU protect its next migration with a key; `endpoint` is `server` where it arrives and `client` elsewhere.

    `directory` is where QEMU reads the key, as the user `owner`.
    """
    _replace(directory / GROUP_FILE, _GROUP, owner)
    _replace(directory / KEY_FILE, f"qemu:{key}", owner)
    vm.execute("migrate-set-parameters", {"tls-creds": ""})
    with contextlib.suppress(QmpError):  # there is one only after a move that failed
        vm.execute("object-del", {"id": _OBJECT})
    vm.execute("object-add", {"qom-type": "tls-creds-psk", "id": _OBJECT, "dir": str(directory), "endpoint": endpoint})
    vm.execute("migrate-set-parameters", {"tls-creds": _OBJECT})


def read_key(directory: Path) -> str:
    """Return the key of the migration that QEMU waits for."""
    return read_file(directory / KEY_FILE).partition(":")[2]


def forget_key(directory: Path) -> None:
    """Remove what `use_key` wrote."""
    for name in (KEY_FILE, GROUP_FILE):
        (directory / name).unlink(missing_ok=True)


def _replace(path: Path, text: str, owner: int) -> None:
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
        os.fchown(file.fileno(), owner, -1)
