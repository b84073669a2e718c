"""The files around the source: one place for the version, hooks that fetch nothing, a citation that
can be read.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

import gough

ROOT = Path(__file__).parents[2]


def test_the_version_stands_in_one_place() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert "version" in project["project"]["dynamic"]
    assert project["tool"]["setuptools"]["dynamic"]["version"] == {"attr": "gough.__version__"}
    assert re.fullmatch(r"\d+\.\d+\.\d+(\.dev\d+)?", gough.__version__)
    elsewhere = [
        path
        for folder in ("src", "docs")
        for path in (ROOT / folder).rglob("*.*")
        if path.suffix in (".py", ".md", ".yml") and path != ROOT / "src" / "gough" / "__init__.py"
    ]
    for path in (*elsewhere, ROOT / "CITATION.cff", ROOT / "README.md"):
        assert f'"{gough.__version__}"' not in path.read_text(encoding="utf-8"), path


def test_hooks_run_what_is_installed() -> None:
    yaml = pytest.importorskip("yaml")
    config = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))
    assert [repository["repo"] for repository in config["repos"]] == ["local"]
    hooks = config["repos"][0]["hooks"]
    assert {hook["id"] for hook in hooks} >= {"ruff", "mypy"}
    assert {hook["language"] for hook in hooks} == {"system"}


def test_the_citation_names_every_paper() -> None:
    yaml = pytest.importorskip("yaml")
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["license"] == "Apache-2.0"
    assert citation["authors"]
    pages = (ROOT / "docs" / "papers.md").read_text(encoding="utf-8").lower()
    assert len(citation["references"]) == 5
    for reference in citation["references"]:
        assert reference["title"].lower() in pages


@pytest.mark.parametrize(
    "path", sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml")), ids=lambda p: p.stem
)
def test_issue_templates_can_be_read(path: Path) -> None:
    yaml = pytest.importorskip("yaml")
    form = yaml.safe_load(path.read_text(encoding="utf-8"))
    if path.stem != "config":
        assert {"name", "description", "body"} <= set(form)
        names = [field["id"] for field in form["body"]]
        assert len(set(names)) == len(names) > 0


def test_the_changelog_keeps_its_form() -> None:
    """Keep a Changelog: versions newest first, its six headings, then one for internals."""
    allowed = ["Added", "Changed", "Deprecated", "Removed", "Fixed", "Security", "Internals"]
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    versions = re.findall(r"^## (.+)$", text, re.MULTILINE)
    assert versions[0] == "[Unreleased]"
    assert all(
        re.fullmatch(r"\[\d+\.\d+\.\d+\] - \d{4}-\d\d-\d\d", version) for version in versions[1:]
    )
    for part in re.split(r"^## .+$", text, flags=re.MULTILINE)[1:]:
        headings = re.findall(r"^### (.+)$", part, re.MULTILINE)
        assert set(headings) <= set(allowed)
        assert "Internals" not in headings[:-1], "what users do not see comes last"
        lines = [line for line in part.splitlines() if line and not line.startswith("###")]
        assert all(line.startswith(("- ", "  ")) for line in lines)


def test_no_two_test_files_have_one_name() -> None:
    """Pytest imports test files by their bare name: two alike stop the whole run."""
    names = [path.name for path in (ROOT / "tests").rglob("test_*.py")]
    repeated = {name for name in names if names.count(name) > 1}
    assert not repeated
