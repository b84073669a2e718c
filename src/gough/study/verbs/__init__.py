"""The verbs, with files in and files out: what the command line and study files both run.

Each verb is a module with a function of its name. The module's docstring is the help of the command; the arguments of
the function are its options, those of its settings among them. A verb reads, calls the public function and writes; it
never prints. Results go to files that appear complete or not at all, and nothing existing is overwritten unless
`force`.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from importlib import import_module
from keyword import iskeyword
from pathlib import Path
from typing import Any

VERBS = ("import", "log", "check", "design", "simulate", "identify", "diagnose", "payload", "bounds", "validate",
         "compare", "report", "export", "generate", "fleet", "trials")


def verb(name: str) -> Callable[..., Any]:
    """Return the function of a verb; its room is imported only now."""
    found: Callable[..., Any] = getattr(import_module(f"{__name__}.{spelled(name)}"), spelled(name))
    return found


def spelled(name: str) -> str:
    """Return how Python spells the name of a verb: words of its own with an underscore behind."""
    return f"{name}_" if iskeyword(name) else name


def about(name: str, home: Path = Path(__file__).parent) -> str:
    """Return the help of a verb, the docstring of its module, without importing its room."""
    return ast.get_docstring(ast.parse((home / f"{spelled(name)}.py").read_text(encoding="utf-8"))) or ""
