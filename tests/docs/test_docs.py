"""What the documentation shows must be so: links, examples, options, keys, names of functions."""

from __future__ import annotations

import importlib
import importlib.util
import re
import shlex
import shutil
import tomllib
from contextlib import chdir
from functools import cache
from pathlib import Path

import pytest

import gough
from command_line import succeed
from documentation import PAGES, ROOT, blocks, broken_links
from gough.app.cli import COMMANDS
from gough.app.studies.study_file import read_study
from gough.logs.description import load_description
from gough.mechanism import load_robot, robot_text
from tests_support import registries_restored

WRITTEN = {"sh", "python", "toml", "text"}  # `text` shows output; the others are run or read


@pytest.mark.parametrize("page", PAGES)
def test_relative_links_lead_somewhere(page: str) -> None:
    assert broken_links(PAGES[page]) == []


def test_a_broken_link_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# Title\n[a](b.md) [c](#title) [d](#nowhere) [e](https://example.org)\n")
    assert broken_links(page) == ["b.md", "#nowhere"]


def test_every_page_is_in_the_navigation() -> None:
    listed = re.findall(
        r"([\w-]+)\.md$", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert {path.stem for path in (ROOT / "docs").glob("*.md")} <= set(listed)


def test_every_test_the_table_of_the_papers_names_exists() -> None:
    named = set(re.findall(r"`(test_\w+)`", PAGES["papers"].read_text(encoding="utf-8")))
    defined = {
        name
        for path in (ROOT / "tests").rglob("test_*.py")
        for name in re.findall(r"^def (test_\w+)", path.read_text(encoding="utf-8"), re.MULTILINE)
    }
    assert len(named) > 50
    assert named - defined == set()


def test_every_room_is_in_the_navigation() -> None:
    listed = re.findall(
        r"reference/(\w+)\.md$", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert sorted(listed) == sorted(
        path.parent.name for path in (ROOT / "src" / "gough").glob("*/__init__.py")
    )


def test_every_public_name_is_in_the_interface() -> None:
    text = PAGES["api"].read_text(encoding="utf-8")
    assert [name for name in gough.__all__ if f"`{name}`" not in text] == []


@pytest.mark.parametrize("page", [name for name in PAGES if name != "README"])
def test_every_block_says_what_it_is(page: str) -> None:
    assert {block.language for block in blocks(page)} <= WRITTEN


@pytest.mark.slow
@pytest.mark.parametrize("page", [name for name in PAGES if name != "README"])
def test_the_page_runs(page: str, tmp_path: Path) -> None:
    """Files are written, Python and commands are run, in the order of the page, in a folder with
    the examples.
    """
    for file in (ROOT / "examples").glob("*.toml"):
        shutil.copy(file, tmp_path)
    with registries_restored():
        started = run_blocks(page, tmp_path)
    for file in started:
        content = tomllib.loads((tmp_path / file).read_text(encoding="utf-8"))
        if "units" in content:
            load_robot(tmp_path / file)
        elif "joints" in content:
            load_description(tmp_path / file)
        else:
            assert read_study(tmp_path / file)


def run_blocks(page: str, folder: Path) -> set[str]:
    """Run the blocks of a page in a folder; return the files that they wrote."""
    started: set[str] = set()
    scope: dict[str, object] = {}
    for block in blocks(page):
        if block.file:
            with (folder / block.file).open(
                "a" if block.file in started else "w", encoding="utf-8"
            ) as handle:
                handle.write(("\n" if block.file in started else "") + block.text)
            started.add(block.file)
        elif block.language == "python":
            with chdir(folder), registries_restored():
                exec(compile(block.text, f"{page}.md", "exec"), scope)
        elif block.language == "sh":
            for line in filter(
                None, (line.split("#")[0].strip() for line in block.text.splitlines())
            ):
                succeed(line, folder)
    return started


def shown_commands(page: str) -> list[str]:
    """Return the commands in blocks that show a session and are not run."""
    lines = []
    for block in blocks(page):
        if block.language == "text":
            lines += block.text.splitlines()
    commands = [line.removeprefix("$ ").strip() for line in lines]
    return [command for command in commands if command.startswith("gough ")]


@cache
def help_of(verb: str) -> str:
    """Return the help of a command."""
    return succeed(f"gough {verb} --help", ROOT)


def test_commands_that_are_only_shown_have_verbs_and_options_that_exist() -> None:
    shown = [command for page in PAGES for command in shown_commands(page)]
    assert len(shown) > 10
    for command in shown:
        words = shlex.split(command, comments=True)
        assert words[1] in COMMANDS, command
        for word in words[2:]:
            if word.startswith("--"):
                option = word.partition("=")[0]
                assert re.search(rf"{option}\b", help_of(words[1])), command


@pytest.mark.parametrize("page", PAGES)
def test_toml_blocks_are_toml(page: str) -> None:
    for block in blocks(page):
        if block.language == "toml":
            assert tomllib.loads(block.text)


def test_the_pieces_of_the_quick_start_are_the_example() -> None:
    pieces = [block.text for block in blocks("quick-start") if block.file == "linear_delta.toml"]
    assert "\n".join(pieces) == (ROOT / "examples" / "linear_delta.toml").read_text(
        encoding="utf-8"
    )


def test_the_complete_robot_file_is_the_bundled_one() -> None:
    assert robot_text("five_bar")[0] in [block.text for block in blocks("robot-file")]


@pytest.mark.parametrize("page", PAGES)
def test_named_functions_exist(page: str) -> None:
    for name in re.findall(r"`(gough(?:\.\w+)+)[`(]", PAGES[page].read_text(encoding="utf-8")):
        module, parts = importlib.import_module("gough"), name.split(".")[1:]
        target: object = module
        for k, part in enumerate(parts):
            if not hasattr(target, part):
                importlib.import_module(".".join(["gough", *parts[: k + 1]]))
            target = getattr(target, part)


def test_options_of_the_verbs_are_documented_as_they_are_declared() -> None:
    spec = importlib.util.spec_from_file_location("docs_options", ROOT / "docs" / "options.py")
    assert spec is not None
    assert spec.loader is not None
    options = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(options)
    text = PAGES["study"].read_text(encoding="utf-8")
    assert options.page(text) == text, "run python docs/options.py"


def test_every_dependency_is_named_with_its_reason() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    optional = project["optional-dependencies"].values()
    wanted = [*project["dependencies"], *(each for extra in optional for each in extra)]
    names = {re.split(r"[\[<>=; ]", each)[0] for each in wanted} - {"gough"}
    rows = [
        line.split("|")[1:-1]
        for line in PAGES["dependencies"].read_text(encoding="utf-8").splitlines()
        if line.startswith("| ") and not line.startswith("| package")
    ]
    told = {
        name.strip()
        for cell, _, reason in rows
        if len(reason.strip()) > 5
        for name in re.sub(r"\(.*?\)", "", cell).split(",")
    }
    assert names == told
