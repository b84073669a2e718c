"""Gough: the dynamic model of a parallel robot from what its controller records.

Mechanism -- design() --> trajectory --(robot or virtual robot)--> Recording -- identify() -->
Identification
"""

from __future__ import annotations

import ast
from importlib import import_module
from pathlib import Path
from typing import Any

__version__ = "0.1.0"

_PUBLIC = ast.parse(
    Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8")
).body  # one list for all readers
_HOMES = {
    name.name: node.module
    for node in _PUBLIC
    if isinstance(node, ast.ImportFrom)
    for name in node.names
}
__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    """Load a public name on first use, so that small commands start without the whole library."""
    if name in _HOMES:
        return getattr(import_module(str(_HOMES[name])), name)
    raise AttributeError(f"module 'gough' has no attribute '{name}'")


def __dir__() -> list[str]:
    """List what can be loaded, so that a prompt completes it."""
    return sorted([*__all__, *(name for name in globals() if name.startswith("__"))])
