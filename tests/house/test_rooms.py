"""Imports point down, never sideways across rooms; heavy libraries stay in their rooms."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from syntax import FILES, SOURCE, nodes, parsed, text_of

# The layers, lowest first; a package may import packages of lower layers and itself.
ROWS = [
    {"core"},
    {"kernels", "fitting", "mechanism", "logs"},
    {"engine", "formats"},
    {"excitation", "virtual", "processing"},
    {"identification"},
    {"bounding", "export", "verdict"},
    {"fleets"},
    {"app"},
]
ROW = {room: k for k, row in enumerate(ROWS) for room in row}
LOW = ROWS[0]  # all that estimators and kernels may know
HEAVY = {
    "casadi": {"engine", "kernels"},
    "llvmlite": {"kernels"},
    "pinocchio": {"virtual"},
    "mujoco": {"virtual"},
    "viser": {"app"},
    "typer": {"app"},
    "rich": {"app", "core"},  # core makes its tables, app prints
    "statsmodels": set(),
}
HELP_OF_COMMANDS = SOURCE / "app" / "studies" / "verbs.py"


def room_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def is_command_line(path: Path) -> bool:
    return path.relative_to(SOURCE).parts[:2] == ("app", "cli")


def imports(path: Path) -> set[str]:
    found = set()
    for node in nodes(text_of(path)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            found.add(node.module or "")
    return found


def test_imports_point_down() -> None:
    for path in FILES:
        _check_imports_point_down(path)


def _check_imports_point_down(path: Path) -> None:
    room = room_of(path)
    if room in ("__init__", "__main__"):
        return
    assert room in ROW, f"the room '{room}' has no row"
    for name in imports(path):
        top, _, rest = name.partition(".")
        if top == "gough" and rest:
            other = rest.partition(".")[0]
            if other == room:
                continue
            assert other in ROW, f"{path.name} imports the unknown room '{other}'"
            assert ROW[other] < ROW[room], f"{room} must not import {other}"
            if room in ("fitting", "kernels"):
                assert other in LOW, f"{room} know no {other}"
        elif top in HEAVY:
            assert room in HEAVY[top], f"{top} may not be imported in {room}"


def is_program(node: ast.stmt) -> bool:
    """Tell whether a statement is `if __name__ == "__main__"`: what a file does that is also a
    program of its own.
    """
    return isinstance(node, ast.If) and ast.unparse(node.test) == "__name__ == '__main__'"


def test_only_the_command_line_prints_or_exits() -> None:
    for path in [p for p in FILES if not is_command_line(p)]:
        _check_only_the_command_line_prints_or_exits(path)


def _check_only_the_command_line_prints_or_exits(path: Path) -> None:
    tree = parsed(text_of(path))
    programs = [node for node in tree.body if is_program(node)]
    left_out = {id(node) for program in programs for node in ast.walk(program)}
    for node in nodes(text_of(path)):
        if id(node) in left_out:
            continue
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            assert node.func.id not in {"print", "input", "exit", "eval", "exec"}, (
                f"{path.name}:{node.lineno}"
            )
        if (
            isinstance(node, ast.Attribute)
            and node.attr == "exit"
            and isinstance(node.value, ast.Name)
        ):
            assert node.value.id != "sys", f"{path.name}:{node.lineno}"
        if isinstance(node, ast.Import):
            assert not {"pickle", "dill"} & {alias.name for alias in node.names}


def test_the_library_does_not_speak_of_the_command_line() -> None:
    for path in [p for p in FILES if not is_command_line(p) and p != HELP_OF_COMMANDS]:
        _check_the_library_does_not_speak_of_the_command_line(path)


def _check_the_library_does_not_speak_of_the_command_line(path: Path) -> None:
    """Messages name an option as `cutoff`; the command line says --cutoff.

    Docstrings may show a command.
    """
    tree = nodes(text_of(path))
    told = {
        id(node.body[0].value)
        for node in tree
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in tree:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in told:
            assert not re.search(r"(?:^|[ `'\"(])--[a-z]", node.value), (
                f"{path.name}:{node.lineno}: {node.value}"
            )
