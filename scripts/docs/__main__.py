# SPDX-License-Identifier: Apache-2.0
"""Builds the documentation as static HTML in build/docs/html: pages of docs/, and the collection by antsibull-docs.

Runs in the environment of requirements-docs.txt (`make docs`). Nothing is fetched, then or when the pages are read.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from scripts.docs.notebooks import write_pages

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / "docs"
_CONF = """# SPDX-License-Identifier: Apache-2.0
project = "Heddle"
copyright = "Heddle maintainers"
extensions = ["myst_parser", "sphinx_antsibull_ext"]
html_theme = "furo"
html_show_sourcelink = False
html_extra_path = ["extra"]
exclude_patterns = ["extra"]
myst_heading_anchors = 6
nitpicky = False
# Names of Ansible's own collection and of languages that Pygments does not have.
suppress_warnings = ["misc.highlighting_failure"]
"""
# Labels of Ansible's own documentation that pages of the collection refer to; nothing is fetched to resolve them.
_ANSIBLE = """:orphan:

Documentation of Ansible
========================

"""
LABELS = {
    "ansible_configuration_settings": "reference_appendices/config.html",
    "common_return_values": "reference_appendices/common_return_values.html",
    "action_plugins": "plugins/action.html",
    "callback_plugins": "plugins/callback.html",
    "lookup_plugins": "plugins/lookup.html",
    "filter_plugins": "plugins/filter.html",
    "ansible_collections.ansible.builtin.debug_module": "collections/ansible/builtin/debug_module.html",
    "ansible_collections.ansible.builtin.template_module": "collections/ansible/builtin/template_module.html",
}
_SITE = "https://docs.ansible.com/ansible/latest/"
# Files of the project, which are no pages of the site.
_OUTSIDE = re.compile(r"\[([^\]]*)\]\((?:\.\./|collections/|tests/)[^)]*\)")
_ASSET = re.compile(
    r'<(?:script|img)\b[^>]*\bsrc="(https?:[^"]+)"|<link\b[^>]*rel="stylesheet"[^>]*href="(https?:[^"]+)"'
)


def main() -> int:
    """Build; return 1 when Sphinx warns of anything."""
    source = BUILD / "source"
    shutil.rmtree(BUILD, ignore_errors=True)
    source.mkdir(parents=True)
    (source / "conf.py").write_text(_CONF, encoding="utf-8")
    for page in sorted((ROOT / "docs").glob("*.md")):
        (source / page.name).write_text(_OUTSIDE.sub(r"\1", page.read_text(encoding="utf-8")), encoding="utf-8")
    labels = "".join(
        f".. _{label}:\n\n{label}\n{'-' * len(label)}\n\n`{page} <{_SITE}{page}>`_\n\n"
        for label, page in LABELS.items()
    )
    (source / "ansible.rst").write_text(_ANSIBLE + labels, encoding="utf-8")
    (source / "walkthroughs.md").write_text(write_pages(source / "extra" / "walkthroughs"), encoding="utf-8")
    collection = source / "collection"
    collection.mkdir()
    programs = Path(sys.executable).parent
    environment = {
        **os.environ, "ANSIBLE_COLLECTIONS_PATH": str(ROOT / "collections"),
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
    }  # fmt: skip
    antsibull = [programs / "antsibull-docs", "collection", "--use-current", "--squash-hierarchy", "--fail-on-error"]
    subprocess.run([*antsibull, "--dest-dir", collection, "heddle.ovn"], check=True, env=environment, cwd=BUILD)
    html = BUILD / "html"
    sphinx = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-b", "html", source, html]
    done = subprocess.run(sphinx, check=False, env=environment, cwd=ROOT)
    pages = len(list(html.rglob("*.html")))
    external = _external_assets(html)
    print(f"docs: {pages} pages in {html.relative_to(ROOT)}, {len(external)} external assets")
    for line in external:
        print(f"docs: {line}")
    return int(done.returncode != 0 or bool(external))


def _external_assets(html: Path) -> list[str]:
    """Return scripts, style sheets and pictures of other sites that pages would load."""
    found = set()
    for page in html.rglob("*.html"):
        for one, other in _ASSET.findall(page.read_text(encoding="utf-8")):
            found.add(f"{page.relative_to(html)}: {one or other}")
    return sorted(found)


if __name__ == "__main__":
    sys.exit(main())
