"""TOML as text."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any


def toml_text(content: Mapping[str, Any]) -> str:
    """Return a mapping as TOML: plain values first, then mappings as tables, lists of mappings as arrays of tables."""
    plain, tables = [], []
    for key, value in content.items():
        if isinstance(value, Mapping):
            tables += ["", f"[{_key(key)}]", *(f"{_key(name)} = {toml_value(item)}" for name, item in value.items())]
        elif isinstance(value, list) and value and all(isinstance(item, Mapping) for item in value):
            for item in value:
                tables += ["", f"[[{_key(key)}]]", *(f"{_key(name)} = {toml_value(v)}" for name, v in item.items())]
        else:
            plain.append(f"{_key(key)} = {toml_value(value)}")
    return "\n".join([*plain, *tables]) + "\n"


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else toml_value(name)


def toml_value(value: object) -> str:
    """Return a value as it stands behind a key."""
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_key(name)} = {toml_value(item)}" for name, item in value.items()) + " }"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(toml_value(item) for item in value) + "]"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    return json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007f")  # JSON strings, but TOML bars DEL
