# SPDX-License-Identifier: Apache-2.0
"""validate.yml reports the problems of all files at once, also of those that cannot be read or rendered."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
INVENTORY = ROOT / "tests" / "golden" / "inventory" / "good" / "hosts.yml"
WRONG = """\
apiVersion: k8s.ovn.org/v1
kind: UserDefinedNetwork
metadata: {name: red, namespace: red}
spec: {topology: Layer2, layer2: {role: Primary, subnets: [10.0.0.0/33]}}
"""


def validate(manifests: Path, *arguments: str) -> tuple[int, str]:
    """Return exit status and output of validate.yml."""
    environment = {**os.environ, "ANSIBLE_NOCOLOR": "1", "ANSIBLE_STDOUT_CALLBACK": "default", "COLUMNS": "400"}
    program = str(Path(sys.executable).parent / "ansible-playbook")
    command = [program, "playbooks/validate.yml", "-i", str(INVENTORY), "-e", f"heddle_manifests={manifests}"]
    done = subprocess.run(
        [*command, *arguments], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout + done.stderr


def test_problems_of_all_files_are_in_one_message(tmp_path: Path) -> None:
    (tmp_path / "a.yml.j2").write_text("a: 1\nb: {{ undefined_thing }}\n")
    (tmp_path / "b.yml.j2").write_text("a: 1\n{% if %}\n")
    (tmp_path / "c.yml").write_bytes(b"\xff\xfe")
    (tmp_path / "d.yml.j2").write_text("{{ {'a': undefined_item} }}\n")
    (tmp_path / "e.yml.j2").write_text("b: {{ password | from_json }}\n")
    (tmp_path / "wrong.yml").write_text(WRONG)
    status, output = validate(tmp_path, "-e", "password=s3cret")
    assert status == 2
    message = output.split("Action failed: ")[1].split("\nOrigin: ")[0]
    network = "wrong.yml:4 (document 1, UserDefinedNetwork red/red): spec.layer2.subnets[0]: Invalid value"
    assert message.split(network)[0].splitlines() == [
        "6 problem(s), nothing was written:",
        "a.yml.j2:2: 'undefined_thing' is undefined; define it in the inventory, or correct the name",
        "b.yml.j2:2: not a valid template: Expected an expression, got 'end of statement block'; correct the template",
        "c.yml: not UTF-8 text: invalid start byte at byte 0; save it as UTF-8",
        "d.yml.j2:1: 'undefined_item' is undefined; define it in the inventory, or correct the name",
        "e.yml.j2: template cannot be rendered: The filter plugin 'ansible.builtin.from_json' failed "
        "(JSONDecodeError); correct the template; the module ansible.builtin.template shows the whole error",
    ]
    assert network in message
    assert "s3cret" not in output


def test_a_dangling_link_is_an_error(tmp_path: Path) -> None:
    """Its objects would be deleted if it were left out."""
    (tmp_path / "a.yml").write_text("")
    (tmp_path / "b.yml.j2").symlink_to("/nonexistent/b.yml.j2")
    status, output = validate(tmp_path)
    assert status == 2
    assert "Action failed: 1 problem(s), nothing was written:\nb.yml.j2: is a symbolic link to " in output
