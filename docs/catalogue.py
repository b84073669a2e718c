"""The catalogue of errors and notices, read from the source: what `raise` and `Notice(...)` say.

The page of troubleshooting shows it. It is made when the site is built, so it cannot differ from
what the program says. Values that are known only when the program runs are written as an ellipsis.
"""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path
from typing import NamedTuple

from gough.core import errors

SOURCE = Path(__file__).resolve().parents[1] / "src" / "gough"
BEGIN = "<!-- catalogue: made from the source when the site is built -->"
UNKNOWN = "…"
MIN_WORDS = 3  # of a message; shorter ones only pass on another message
LOG_NOTICE = ("rule", "where", "text", "advice")  # positional arguments of `log_notice`
# Headings of the packages in which errors are raised, in the order of the data flow.
AREAS = {
    "logs": "Reading logs",
    "mechanism": "Robot files",
    "formats": "Importing robots",
    "engine": "Loops and dynamics",
    "processing": "Matching and processing logs",
    "fitting": "Estimating",
    "identification": "Identification",
    "verdict": "Verdict",
    "bounding": "Guaranteed bounds",
    "excitation": "Designing trajectories",
    "virtual": "Simulation",
    "export": "Export",
    "fleets": "Fleets",
    "kernels": "Machine code",
    "core": "Options and files",
    "app": "Commands and studies",
}


class Message(NamedTuple):
    """An error message as it stands in the source."""

    area: str  # package it is raised in
    kind: str  # name of the error
    text: str  # values as an ellipsis


class RuleText(NamedTuple):
    """A notice as it stands in the source."""

    rule: str
    level: str  # info, warning or error; empty where it depends
    text: str
    advice: str


def literal(node: ast.expr | None) -> str:
    """Return a string expression with an ellipsis for each value."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(literal(piece) for piece in node.values)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return literal(node.left) + literal(node.right)
    return UNKNOWN


@cache
def calls() -> list[tuple[Path, str, ast.Call]]:
    """Return the calls of plain names in the source: file, name and call."""
    named = []
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                named.append((path, node.func.id, node))
    return named


def error_kinds() -> dict[str, str]:
    """Return the names of all errors with the first line of their docstrings."""
    kinds = {}
    for name, kind in vars(errors).items():
        if isinstance(kind, type) and issubclass(kind, errors.GoughError):
            kinds[name] = (kind.__doc__ or "").partition("\n")[0]
    return kinds


def messages() -> list[Message]:
    """Return all error messages of the source, each once in its package."""
    kinds = error_kinds()
    seen: dict[Message, None] = {}
    for path, name, call in calls():
        if name not in kinds or not call.args:
            continue
        area = path.relative_to(SOURCE).parts[0]
        text = " ".join(literal(call.args[0]).split())
        words = [word for word in text.split() if word.strip(f"{UNKNOWN}':;,.()")]
        if len(words) >= MIN_WORDS:
            seen[Message(area, name, text)] = None
    return list(seen)


def notices() -> list[RuleText]:
    """Return all notices of the source whose rule and text are written out."""
    seen: dict[RuleText, None] = {}
    for _, name, call in calls():
        if name not in ("Notice", "log_notice"):
            continue
        given = {keyword.arg: literal(keyword.value) for keyword in call.keywords}
        if name == "log_notice":
            positional = [literal(argument) for argument in call.args]
            given = {"level": "info", **dict(zip(LOG_NOTICE, positional)), **given}
        text = given.get("text", UNKNOWN)
        if UNKNOWN not in given.get("rule", UNKNOWN) and text.strip(UNKNOWN):
            level = given.get("level", "").strip(UNKNOWN)
            advice = given.get("advice", "")
            seen[RuleText(given["rule"], level, text, advice)] = None
    return sorted(seen)


def cell(text: str) -> str:
    """Return a text for a cell of a table: nothing in it is markup."""
    for character in "\\`*_[]<>|$":
        text = text.replace(character, f"\\{character}")
    return text


def catalogue() -> str:
    """Return the catalogue as Markdown."""
    lines = ["## Notices", "", "| rule | level | what it says | what to do |", "|---|---|---|---|"]
    for notice in notices():
        lines.append("| " + " | ".join(cell(text) for text in notice) + " |")
    lines += ["", "## Errors", "", "| error | meaning |", "|---|---|"]
    for name, meaning in error_kinds().items():
        lines.append(f"| `{name}` | {cell(meaning)} |")
    by_area: dict[str, list[Message]] = {}
    for message in messages():
        by_area.setdefault(message.area, []).append(message)
    order = [*AREAS, *sorted(set(by_area) - set(AREAS))]
    for area in order:
        if area in by_area:
            lines += ["", f"### {AREAS.get(area, area)}", "", "| message | error |", "|---|---|"]
            for message in sorted(by_area[area], key=lambda entry: entry.text.lower()):
                lines.append(f"| {cell(message.text)} | `{message.kind}` |")
    return "\n".join(lines) + "\n"
