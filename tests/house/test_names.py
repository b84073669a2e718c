"""A name is a value: no module but `core/names.py` cuts the name of a parameter or compares its
ends.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from syntax import FILES, SOURCE, nodes, text_of

HOME = "core/names.py"
CUTS = {
    "partition",
    "rpartition",
    "split",
    "rsplit",
    "removesuffix",
    "removeprefix",
    "startswith",
    "endswith",
}
TEXT = "logs/"  # the room that reads text files, whose lines are cut in many ways
# A message may begin with the first, a figure of the quality of a log with the second.
MESSAGES = {"<root.file>", "<VALID_FRACTION>"}
SUFFIXES = {
    ".py",
    ".pyc",
    ".toml",
    ".csv",
    ".gz",
    ".npz",
    ".npy",
    ".json",
    ".xml",
    ".urdf",
}  # of files


def texts(node: ast.expr) -> list[str]:
    """Return the literal texts of an argument; a name or an attribute stands for what it hides."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return [node.value]
    if isinstance(node, ast.Tuple | ast.JoinedStr | ast.BinOp | ast.FormattedValue):
        return [
            text
            for child in ast.iter_child_nodes(node)
            if isinstance(child, ast.expr)
            for text in texts(child)
        ]
    return [f"<{ast.unparse(node)}>"]


def cuts_names(text: str) -> bool:
    """Tell whether cutting or comparing at this text could take a parameter's name apart."""
    return text not in SUFFIXES | MESSAGES and (
        text[:1] in (".", "<")
        or text[-1:] == "."
        or "payload" in text
        or text in ("R", "gain", "leg")
    )


def offences(source: str) -> list[int]:
    found = []
    for node in nodes(source):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in CUTS
        ):
            if isinstance(node.func.value, ast.Name) and node.func.value.id in ("np", "self"):
                continue  # arrays
            if any(cuts_names(text) for argument in node.args for text in texts(argument)):
                found.append(node.lineno)
    return found


def spelled(source: str) -> list[int]:
    """Return where the name of a payload's parameter is put together by hand."""
    documentation = {id(node.value) for node in nodes(source) if isinstance(node, ast.Expr)}
    return [
        node.lineno
        for node in nodes(source)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and id(node) not in documentation
        and node.value.startswith("payload.")
    ]


def test_names_are_taken_apart_in_one_module() -> None:
    for path in FILES:
        if path != SOURCE / HOME:
            _check_names_are_taken_apart_in_one_module(path)


def _check_names_are_taken_apart_in_one_module(path: Path) -> None:
    source = text_of(path)
    assert not spelled(source), "use Parameter.of_payload"
    if not path.relative_to(SOURCE).as_posix().startswith(TEXT):
        assert not offences(source), f"use the attributes of Parameter, or a function of {HOME}"


@pytest.mark.parametrize(
    "line",
    [
        "name.startswith('payload.')",
        "name.rpartition('.')[2]",
        "name.split('.', 1)",
        "kind.removesuffix('R')",
        "name.endswith(GAIN)",
        "name.endswith(f'.{kind}')",
        "name.removeprefix(leg + '.')",
        "n.startswith(('payload', 'x'))",
    ],
)
def test_cutting_a_name_is_noticed(line: str) -> None:
    assert offences(line) == [1]


@pytest.mark.parametrize(
    "line", ["np.split(a, cuts)", "file.endswith('.toml')", "text.split()", "line.partition('=')"]
)
def test_reading_other_text_is_allowed(line: str) -> None:
    assert offences(line) == []


def test_a_payload_spelled_by_hand_is_noticed() -> None:
    assert spelled("f'payload.{name}.m'") == [1]
    assert spelled("'''payload.disc.m in documentation'''") == []
