"""What a term or a closure is, is known to its entry alone: no other module has a list of them."""

from __future__ import annotations

import ast

import pytest

from gough.mechanism import CLOSURES
from syntax import FILES, SOURCE, nodes, text_of

HOMES = {"mechanism/terms.py", "mechanism/closures.py"}
TERMS = {"ia", "fv", "fs"}  # `off` and `k` are words of other things too


def offences(source: str) -> list[int]:
    """Return the lines that name a term, or compare a `kind` with that of a closure."""
    found = []
    for node in nodes(source):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in TERMS:
            found.append(node.lineno)
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            asked = any(isinstance(side, ast.Attribute) and side.attr == "kind" for side in sides)
            words = {
                word.value
                for side in sides
                for word in ast.walk(side)
                if isinstance(word, ast.Constant)
            }
            if asked and words & (set(CLOSURES) - {"revolute"}):  # joints are revolute, too
                found.append(node.lineno)
    return found


def test_terms_and_closures_are_asked_for_and_not_listed() -> None:
    for path in FILES:
        if path.relative_to(SOURCE).as_posix() not in HOMES:
            assert offences(text_of(path)) == [], path


@pytest.mark.parametrize(
    "line",
    [
        '"fs" in joint.terms',
        'FRICTION = ("fv", "x")',
        'closure.kind == "weld"',
        'c.kind in ("point", "weld")',
    ],
)
def test_a_list_of_them_is_noticed(line: str) -> None:
    assert offences(line) == [1]


@pytest.mark.parametrize(
    "line", ['joint.kind == "revolute"', '"viscous friction"', 'element in ("connect", "weld")']
)
def test_other_words_are_allowed(line: str) -> None:
    assert offences(line) == []
