"""Docstrings tell what is there: the arguments they name exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from syntax import FILES, parsed, text_of

Documented = ast.FunctionDef | ast.ClassDef


def documented(tree: ast.Module) -> list[Documented]:
    """Return functions, methods and classes; those inside functions are nobody else's business."""
    found: list[Documented] = []
    pending: list[ast.AST] = [tree]
    while pending:
        for node in ast.iter_child_nodes(pending.pop()):
            if isinstance(node, Documented):
                found.append(node)
            if isinstance(node, ast.ClassDef | ast.If):
                pending.append(node)
    return found


def arguments(docstring: str) -> list[str]:
    """Return the names below `Args:`; `lower, upper: ...` are two."""
    section = re.search(r"^Args:\n((?:[ ]{4}.*\n?|\n)+)", docstring + "\n", re.MULTILINE)
    lines = section[1].splitlines() if section else []
    heads = [
        match[1] for line in lines if (match := re.match(r"[ ]{4}([\w*][\w*, ]*):(?:\s|$)", line))
    ]
    return [name.strip().lstrip("*") for head in heads for name in head.split(",")]


def names(node: Documented) -> set[str]:
    """Return what an `Args:` section may speak of: parameters, or fields of a class."""
    if isinstance(node, ast.ClassDef):
        fields = {
            f.target.id
            for f in node.body
            if isinstance(f, ast.AnnAssign) and isinstance(f.target, ast.Name)
        }
        return fields | {
            name
            for f in node.body
            if isinstance(f, ast.FunctionDef) and f.name == "__init__"
            for name in names(f)
        }
    given = node.args
    every = [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg]
    return {a.arg for a in every if a is not None}


def test_documented_arguments_exist() -> None:
    for path in FILES:
        _check_documented_arguments_exist(path)


def _check_documented_arguments_exist(path: Path) -> None:
    for node in documented(parsed(text_of(path))):
        strange = set(arguments(ast.get_docstring(node) or "")) - names(node)
        base = isinstance(node, ast.ClassDef) and node.bases  # fields may be inherited
        assert not strange or base, f"{node.name}: {sorted(strange)}"


def test_arguments_are_read_from_a_docstring() -> None:
    text = (
        "Do.\n\nArgs:\n    lower, upper: Limits. [m]\n        More: text.\n    *rest: Others.\n"
        "\nRaises:\n    Error: No."
    )
    assert arguments(text) == ["lower", "upper", "rest"]
