"""An option is declared once: command, study and stored settings know every one; signatures stay
short.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from command_line import run
from gough.app.cli import COMMANDS, build
from gough.app.studies.study_file import step_settings
from gough.app.studies.verbs import VERBS, step_type
from gough.core.options import REQUIRED, Option, merge_settings, options_of
from syntax import FILES, nodes, parsed, text_of

MOST = 8  # parameters of a public function beside settings


def some(option: Option) -> object:
    """Return a valid value of an option: a word for texts, one for numbers."""
    for value in (
        *option.choices[-1:],
        True,
        1,
        7,
        0.5,
        2.0,
        "word",
        ["word"],
        [1.0, 2.0],
        {"word": 1.0},
        {"word": [1.0, 2.0]},
        {"word": "word"},
    ):
        try:
            option.read(value)
        except Exception:
            continue
        return value
    raise AssertionError(f"no value found for {option.name}")


@pytest.mark.parametrize("name", VERBS)
def test_every_option_is_in_the_help_of_its_command(name: str) -> None:
    shown = " ".join(run(f"gough {name} --help", Path.cwd()).out.replace("│", " ").split())
    for option in options_of(step_type(name)).values():
        assert re.search(rf"(--{option.name.replace('_', '-')}\b|\b{option.name}\b)", shown), (
            option.name
        )
        words = option.help.replace("`", "").split()
        assert all(word in shown for word in words), f"{name} {option.name}: {option.help}"


@pytest.mark.parametrize("name", VERBS)
def test_every_default_is_a_valid_value_of_its_type(name: str) -> None:
    for option in options_of(step_type(name)).values():
        if option.default is not REQUIRED:
            converted = option.read(option.default)
            assert converted == option.default, option.name
            assert type(converted) is type(option.default), option.name


@pytest.mark.parametrize("name", VERBS)
def test_every_option_is_a_key_of_studies(name: str) -> None:
    known = options_of(step_type(name))
    needed = {option.name: some(option) for option in known.values() if option.default is REQUIRED}
    for option in known.values():
        assert merge_settings(step_type(name), None, {**needed, option.name: some(option)})


@pytest.mark.parametrize("name", VERBS)
def test_every_option_that_is_no_file_is_stored(name: str) -> None:
    known = options_of(step_type(name))
    values = {option.name: some(option) for option in known.values()}
    kept = step_settings(name, values)
    no_file = {option.name for option in known.values() if not option.about.file}
    assert set(kept) == no_file - {"force", "fail_on"}
    assert step_settings(name, {**values, **kept}) == kept  # what is stored is read as the same


@pytest.mark.parametrize("name", VERBS)
def test_help_is_a_sentence(name: str) -> None:
    for option in options_of(step_type(name)).values():
        assert option.about.help.endswith("."), option.name
        assert not option.about.help.startswith(("Of ", "of ")), option.name


def test_a_command_nobody_asks_for_is_not_loaded() -> None:
    registered = {command.name: command.callback for command in build("check").registered_commands}
    assert tuple(registered) == COMMANDS
    assert registered["check"].__name__ != "<lambda>"
    assert registered["identify"].__name__ == "<lambda>"


def public_functions(path: Path) -> list[ast.FunctionDef]:
    tree = parsed(text_of(path))
    inside = [
        node for cls in nodes(text_of(path)) if isinstance(cls, ast.ClassDef) for node in cls.body
    ]
    return [
        node
        for node in (*tree.body, *inside)
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_")
    ]


def test_public_functions_have_few_parameters() -> None:
    for path in FILES:
        _check_public_functions_have_few_parameters(path)


def _check_public_functions_have_few_parameters(path: Path) -> None:
    for function in public_functions(path):
        every = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
        names = [
            arg.arg
            for arg in every
            if arg.arg not in ("self", "cls", "settings")
            and not (arg.annotation and ast.unparse(arg.annotation).endswith("Settings"))
        ]
        assert len(names) <= MOST, f"{function.name}({', '.join(names)})"
