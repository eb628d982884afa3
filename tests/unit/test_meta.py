# SPDX-License-Identifier: Apache-2.0
"""Requirements for every module, role, playbook, notebook and file of the project."""

from __future__ import annotations

import ast
import functools
import json
import os
import re
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.unit.modules.test_entry import CASES

ROOT = Path(__file__).resolve().parents[2]
COLLECTION = ROOT / "collections" / "ansible_collections" / "heddle" / "ovn"
MODULES = sorted((COLLECTION / "plugins" / "modules").glob("*.py"))
ROLES = sorted(path for path in (ROOT / "roles").iterdir() if path.is_dir())
PLAYBOOKS = sorted((ROOT / "playbooks").glob("*.yml"))
# Kinds of plugins that users name; actions have the documentation of their modules.
PLUGINS = {"module": "modules", "filter": "filter", "lookup": "lookup", "callback": "callback"}
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb")) + sorted((ROOT / "notebooks").glob("walkthroughs/*.ipynb"))

LONGEST = 400
# Texts of others, and what antsibull-changelog writes.
NOT_OURS_TO_CUT = {"LICENSE", "COPYING", "CHANGELOG.rst", "changelog.yaml", "kinds.md"}
SPDX = re.compile(r"# SPDX-License-Identifier: \S+")
RUNNERS = ("Makefile", ".ci", "scripts", "molecule", "tests")

# Words that are replaced by standard terms (docs/glossary.md); each with the term to use.
WORDS = {
    r"told|tells?|telling": "reports, states, sets; distinguish",
    r"somebody|nobody|everybody|whoever|strangers?": "a user, another client, no host, ...",
    r"judg\w+|verdicts?": "evaluate, result",
    r"way out|ways out": "external connectivity",
    r"carr(?:y|ies|ied|ying) (?:\w+ )?out": "apply, program",
    r"settled|keepers?": "converged, finished; owner, reconciler",
    r"(?:give|gives|given|gave|giving) (?:\w+ )?back": "detach, release, restore",
    r"tak(?:e|es|en|ing) (?:\w+ )?over|took (?:\w+ )?over": "attach the uplink, migrate its IP configuration",
    r"hears|opinions?|in one word": "receives; decides; compressed",
    r"cards?|crossings?": "NIC, uplink; north-south flow",
    r"(?:its|their|host's|node's) share": "part of the plan, desired state",
    r"(?:from|to|the) outside(?! of)": "external host",
}
PRIVATE_WORDS = re.compile("|".join(rf"\b(?:{words})\b" for words in WORDS), re.IGNORECASE)
# Texts that are not the project's own, and words that others define.
QUOTED = {"LICENSE", "COPYING", "tests/data", "tests/unit/test_meta.py"}
DEFINED_ELSEWHERE = re.compile(r'"verdict"|`verdict`|verdict map|verdict=')  # nft(8), and the log of OVN


def project_files() -> list[Path]:
    """Return what git knows or would take, so caches and labs are left out."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    ).stdout
    return sorted(path for name in listed.decode().split("\0") if name and (path := ROOT / name).is_file())


FILES = project_files()


def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def words_of(path: Path) -> str:
    """Return what a file does, without comments and docstrings: a name in those proves nothing."""
    if path.suffix != ".py":
        return "\n".join(line for line in text_of(path).splitlines() if line.lstrip()[:1] != "#")
    words = []
    prose = set()
    for node in ast.walk(ast.parse(text_of(path))):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            prose.add(node.value)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in prose:
            words.append(node.value)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            words.append(ast.unparse(node))
    return "\n".join(words)


@functools.cache
def words_below(*tops: str) -> str:
    """Return the words of all project files below these directories, without this file, which names everything."""
    return "\n".join(
        words_of(path)
        for path in FILES
        if path.relative_to(ROOT).parts[0] in tops and path.suffix in ("", ".py", ".sh", ".yml")
        if path != Path(__file__).resolve()
    )


def literals(path: Path, body: list[ast.stmt] | None = None) -> dict[str, str]:
    """Return the string constants that a file, or a class in it, assigns."""
    return {
        node.targets[0].id: node.value.value
        for node in (ast.parse(text_of(path)).body if body is None else body)
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    }


def fragment(name: str) -> dict:
    """Return the documentation of a fragment: `heddle.ovn.attributes` or `heddle.ovn.attributes.info`."""
    file, _, section = name.removeprefix("heddle.ovn.").partition(".")
    path = COLLECTION / "plugins" / "doc_fragments" / f"{file}.py"
    body = next(node.body for node in ast.parse(text_of(path)).body if isinstance(node, ast.ClassDef))
    return yaml.safe_load(literals(path, body)[(section or "documentation").upper()])


def playbooks_run() -> set[str]:
    """Return the playbooks that something runs, directly or by import."""
    words = words_below(*RUNNERS)
    found = {path.name for path in PLAYBOOKS if re.search(rf"playbooks/{re.escape(path.name)}\b", words)}
    waiting = sorted(found)
    while waiting:
        for play in yaml.safe_load(text_of(ROOT / "playbooks" / waiting.pop())) or []:
            name = Path(play.get("ansible.builtin.import_playbook", "")).name
            if name and name not in found:
                found.add(name)
                waiting.append(name)
    return found


def test_there_is_something_to_check():
    kinds = {"modules": MODULES, "roles": ROLES, "playbooks": PLAYBOOKS, "notebooks": NOTEBOOKS, "files": FILES}
    empty = [name for name, found in kinds.items() if not found]
    assert not empty, f"none found, so nothing would be checked: {', '.join(empty)}"
    assert Path(__file__).resolve() in FILES


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_a_module_is_documented(path):
    found = literals(path)
    assert set(found) >= {"DOCUMENTATION", "EXAMPLES", "RETURN"}
    documentation = yaml.safe_load(found["DOCUMENTATION"])
    assert documentation["module"] == path.stem
    assert yaml.safe_load(found["EXAMPLES"]), "EXAMPLES is empty"
    assert yaml.safe_load(found["RETURN"]), "RETURN is empty"

    attributes = dict(documentation.get("attributes", {}))
    for name in documentation.get("extends_documentation_fragment", []):
        attributes.update(fragment(name).get("attributes", {}))
    for name in ("check_mode", "diff_mode", "idempotent"):
        assert attributes.get(name, {}).get("support") in ("full", "partial", "none"), f"attribute {name} is missing"


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_a_module_is_run_by_its_entry(path):
    assert path.stem in {case.module for case in CASES}, f"tests/unit/modules/test_entry.py never runs {path.stem}"


@pytest.mark.parametrize("path", ROLES, ids=lambda path: path.name)
def test_a_role_has_argument_specs(path):
    specs = yaml.safe_load(text_of(path / "meta" / "argument_specs.yml"))["argument_specs"]
    assert specs["main"]["short_description"]
    documented = set(specs["main"].get("options", {}))
    defaults = path / "defaults" / "main.yml"
    given = set(yaml.safe_load(text_of(defaults)) or {}) if defaults.exists() else set()
    public = {name for name in given if not name.startswith("_")}
    assert public <= documented, f"defaults without a specification: {sorted(public - documented)}"


@pytest.mark.parametrize("path", PLAYBOOKS, ids=lambda path: path.stem)
def test_a_playbook_is_run_somewhere(path):
    assert path.name in playbooks_run(), f"nothing in {', '.join(RUNNERS)} runs playbooks/{path.name}"


def state_database_modules() -> set[str]:
    """Return the modules that have the options of the state database."""
    return {
        path.stem
        for path in MODULES
        if "heddle.ovn.state_database"
        in yaml.safe_load(literals(path)["DOCUMENTATION"]).get("extends_documentation_fragment", [])
    }


def test_the_action_group_of_the_state_database_has_its_modules():
    groups = yaml.safe_load(text_of(COLLECTION / "meta" / "runtime.yml"))["action_groups"]
    assert set(groups["state_database"]) == state_database_modules()


def test_the_action_group_all_has_every_module():
    groups = yaml.safe_load(text_of(COLLECTION / "meta" / "runtime.yml"))["action_groups"]
    assert groups["all"] == [path.stem for path in MODULES]


@pytest.mark.parametrize("path", PLAYBOOKS, ids=lambda path: path.stem)
def test_plays_take_the_state_database_from_the_inventory(path):
    """A play that runs such a module, itself or by a role, has the defaults of `heddle_state_database`."""
    modules = "|".join(rf"heddle\.ovn\.{name}:" for name in sorted(state_database_modules()))
    roles = [role.name for role in ROLES if any(re.search(modules, text_of(task)) for task in role.rglob("*.yml"))]
    assert roles, "no role uses the state database"
    uses = re.compile(rf"{modules}|(?:role|name): heddle\.ovn\.(?:{'|'.join(roles)})$", re.MULTILINE)
    for play in re.split(r"(?m)^(?=- )", text_of(path))[1:]:
        if uses.search(play):
            defaults = yaml.safe_load(play)[0].get("module_defaults", {})
            assert defaults.get("group/heddle.ovn.state_database") == "{{ heddle_state_database | default({}) }}", play


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_committed_without_results(path):
    cells = json.loads(text_of(path))["cells"]
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    assert [cell for cell in code if "parameters" in cell["metadata"].get("tags", [])] == code[:1]
    assert not [cell for cell in code if cell["outputs"] or cell["execution_count"] is not None]


def test_no_file_is_long():
    long = {
        str(path.relative_to(ROOT)): lines
        for path in FILES
        if path.name not in NOT_OURS_TO_CUT and path.suffix not in (".ipynb", ".json", ".png")
        if (lines := path.read_bytes().count(b"\n")) > LONGEST
    }
    assert not long, f"more than {LONGEST} lines: {long}"


def test_files_begin_with_their_licence():
    wrong = []
    for path in FILES:
        if path.suffix in (".py", ".yml", ".yaml"):
            lines = [line for line in text_of(path).splitlines()[:2] if not line.startswith("#!")]
            if not lines or not SPDX.fullmatch(lines[0]):
                wrong.append(str(path.relative_to(ROOT)))
    assert not wrong, f"the first line is no SPDX line: {wrong}"


def descriptions() -> dict[str, dict[str, str]]:
    """Return one line about each part of the collection by kind and name, as the part itself has it."""
    found = {
        # The first line of the comment below the three dashes.
        "playbook": {path.stem: text_of(path).splitlines()[2] for path in PLAYBOOKS},
        "role": {
            path.name: yaml.safe_load(text_of(path / "meta" / "argument_specs.yml"))["argument_specs"]["main"][
                "short_description"
            ]
            for path in ROLES
        },
    }
    for kind, folder in PLUGINS.items():
        paths = sorted((COLLECTION / "plugins" / folder).glob("*.py"))
        found[kind] = {
            path.stem: yaml.safe_load(literals(path)["DOCUMENTATION"])["short_description"] for path in paths
        }
    return found


@pytest.mark.parametrize("path", PLAYBOOKS, ids=lambda path: path.stem)
def test_a_playbook_begins_with_what_it_does(path):
    assert re.match(r"# [A-Z][a-z]+s [^.]", text_of(path).splitlines()[2]), "a sentence, `# Moves ...`, below ---"


@pytest.mark.parametrize("kind", [*PLUGINS, "playbook", "role"])
def test_the_collection_lists_its_parts(kind):
    """README has a table of each kind of part; HEDDLE_RECORD=1 writes it."""
    rows = "".join(
        f"| `{name}` | {line.removeprefix('# ').partition('. ')[0].removesuffix('.')} |\n"
        for name, line in descriptions()[kind].items()
    )
    readme = COLLECTION / "README.md"
    rule = re.compile(rf"(?<=\| {kind} \| description \|\n\|---\|---\|\n)(?:\|.*\n)*")
    if os.environ.get("HEDDLE_RECORD"):
        readme.write_text(rule.sub(lambda _: rows, text_of(readme), count=1), encoding="utf-8")
    found = rule.search(text_of(readme))
    assert found is not None, f"README has no table of kind {kind}"
    assert found.group() == rows


def test_the_readme_names_the_versions_that_are_required():
    required = yaml.safe_load(text_of(COLLECTION / "meta" / "runtime.yml"))["requires_ansible"].removeprefix(">=")
    pinned = re.search(r"(?m)^ansible-core==(.*)$", text_of(ROOT / "requirements.txt"))[1]
    assert f"ansible-core {required.removesuffix('.0')}" in text_of(COLLECTION / "README.md")
    assert pinned.startswith(required.removesuffix(".0")), "the required version is not the one that tests run with"


def test_versions_agree():
    """No part and no release of the changelog is newer than galaxy.yml, which has the version that is developed."""
    version = yaml.safe_load(text_of(COLLECTION / "galaxy.yml"))["version"]
    known = yaml.safe_load(text_of(COLLECTION / "changelogs" / "changelog.yaml"))["releases"]
    added = {
        found
        for path in FILES
        if path.is_relative_to(COLLECTION) and path.suffix in (".py", ".yml")
        for found in re.findall(r"(?m)^\s*version_added: [\"']?([0-9.]+)", text_of(path))
    }
    numbers = {one: tuple(map(int, one.split("."))) for one in {version, *added, *known}}
    newer = sorted(one for one in added if numbers[one] > numbers[version])
    assert not newer, f"version_added {newer} is newer than galaxy.yml's {version}"
    assert max((numbers[one] for one in known), default=(0,)) <= numbers[version]


def test_what_the_execution_environment_needs_is_in_the_collection():
    needed = yaml.safe_load(text_of(COLLECTION / "meta" / "execution-environment.yml"))["dependencies"]
    assert set(needed) == {"python", "system"}
    missing = [name for name in needed.values() if not (COLLECTION / name).is_file()]
    assert not missing


def test_standard_terms():
    wrong = []
    for path in FILES:
        name = path.relative_to(ROOT).as_posix()
        if path.name in QUOTED or name.startswith(tuple(QUOTED)):
            continue
        try:
            text = text_of(path)
        except UnicodeDecodeError:
            continue
        for number, line in enumerate(text.splitlines(), 1):
            words = line.replace("_", " ") if line.startswith("def test_") else line
            found = PRIVATE_WORDS.search(DEFINED_ELSEWHERE.sub("", words))
            if found:
                wrong.append(f"{name}:{number}: {found.group()}")
    known = "\n".join(f"{words}: {term}" for words, term in WORDS.items())
    assert not wrong, f"{len(wrong)} lines without standard terms:\n" + "\n".join(wrong) + f"\nuse instead\n{known}"
