"""What works on Linux, macOS and Windows alike."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

from syntax import FILES, nodes, text_of

UNIX = {"fcntl", "grp", "posix", "pwd", "resource", "termios"}  # modules that Windows does not have


def opens_text_without_encoding(source: str) -> list[int]:
    """Return the lines that open a text file in the platform's own encoding."""
    found = []
    for node in nodes(source):
        if not isinstance(node, ast.Call):
            continue
        builtin = isinstance(node.func, ast.Name) and node.func.id == "open"
        method = isinstance(node.func, ast.Attribute) and node.func.attr in (
            "read_text",
            "write_text",
            "TextIOWrapper",
        )
        modes = [
            a.value
            for a in (*node.args, *(k.value for k in node.keywords))
            if isinstance(a, ast.Constant)
        ]
        binary = any(
            isinstance(mode, str) and set(mode) <= set("rwaxb+") and "b" in mode for mode in modes
        )
        if (
            (builtin or method)
            and not binary
            and not any(k.arg == "encoding" for k in node.keywords)
        ):
            found.append(node.lineno)
    return found


def test_text_is_read_and_written_as_utf_8_and_unix_modules_stay_out() -> None:
    for path in FILES:
        _check_text_is_read_and_written_as_utf_8_and_unix_modules_stay_out(path)


def _check_text_is_read_and_written_as_utf_8_and_unix_modules_stay_out(path: Path) -> None:
    source = text_of(path)
    assert opens_text_without_encoding(source) == []
    guarded = set()
    for node in nodes(source):
        if isinstance(node, ast.If) and "sys.platform" in ast.unparse(node.test):
            guarded.update(id(inner) for inner in ast.walk(node))
    for node in nodes(source):
        if isinstance(node, ast.Import) and id(node) not in guarded:
            assert not UNIX & {alias.name for alias in node.names}


def test_a_missing_encoding_is_noticed() -> None:
    assert opens_text_without_encoding(
        "open(p)\np.read_text()\nopen(p, 'wb')\nopen(p, encoding='utf-8')"
    ) == [1, 2]


def test_the_package_runs_as_a_module() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "gough", "--version"], capture_output=True, text=True
    )
    assert done.returncode == 0
    assert done.stdout.startswith("gough ")
