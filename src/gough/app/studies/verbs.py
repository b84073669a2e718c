"""The verbs, with files in and files out: what the command line and study files both run.

A verb is a function. Its docstring is the help of the command; its arguments are the options, those
of its settings among them. A verb reads, calls the public function and writes; it never prints.
Results go to files that appear complete or not at all, and nothing existing is overwritten unless
`force`.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from keyword import iskeyword
from pathlib import Path
from typing import Annotated, Any

from gough.core.options import About

# Each verb and the module it stands in.
VERBS = {
    "import": "importing",
    "log": "log",
    "check": "identifying",
    "design": "motions",
    "simulate": "motions",
    "identify": "identifying",
    "diagnose": "identifying",
    "payload": "identifying",
    "bounds": "identifying",
    "validate": "results",
    "compare": "results",
    "report": "results",
    "export": "results",
    "generate": "motions",
    "fleet": "fleets",
    "trials": "trials",
}


def verb(name: str) -> Callable[..., Any]:
    """Return the function of a verb; its module is imported only now."""
    found: Callable[..., Any] = getattr(
        import_module(f"gough.app.studies.{VERBS[name]}"), _spelled(name)
    )
    return found


def about(name: str) -> str:
    """Return the help of a verb, its docstring, without importing its module."""
    return next(
        ast.get_docstring(node) or ""
        for node in _parsed(VERBS[name]).body
        if isinstance(node, ast.FunctionDef) and node.name == _spelled(name)
    )


@cache
def _parsed(module: str) -> ast.Module:
    return ast.parse(Path(__file__).with_name(f"{module}.py").read_text(encoding="utf-8"))


def _spelled(name: str) -> str:
    """Return how Python spells the name of a verb: words of its own with an underscore behind."""
    return f"{name}_" if iskeyword(name) else name


# Arguments that several verbs take.


def from_file(help: str) -> About:
    return About(help=help, file=True)


def to_file(help: str) -> About:
    return About(help=help, file=True, short="-o")


Progress = Callable[[float], None]
Robot = Annotated[
    str, from_file("Name of a bundled robot (see `gough robots`) or path of a robot file.")
]
Logs = Annotated[
    Sequence[str],
    from_file(
        "Logs: .csv, .npz, .mat, .parquet, or a folder with a description; log.csv@its.toml has "
        "one of its own."
    ),
]
Folder = Annotated[str, from_file("Folder that `gough identify -o` wrote.")]
DESCRIPTION = "TOML that says which column of a log is which; see the documentation."
Description = Annotated[str | None, from_file(DESCRIPTION)]
Force = Annotated[bool, About(help="Overwrite what is already there.")]


@dataclass(frozen=True)
class Done:
    """What a verb that writes `files` tells: facts for machines, their names unless given, and
    lines for people.
    """

    files: Sequence[Path]
    facts: Mapping[str, Any] | None = None
    lines: Sequence[str] = ()
    next: str = ""  # the command that goes on with the file

    def to_dict(self) -> dict[str, Any]:
        return dict(self.facts or {"files": [str(file) for file in self.files]})

    def summary(self) -> str:
        then = f"; next: gough {self.next} " if self.next else ""
        return "\n".join(
            [*self.lines, *(f"wrote {file}{then and then + str(file)}" for file in self.files)]
        )
