"""Study files as text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

FORMAT = 1


def study_text(robot: str, steps: list[tuple[str, Mapping[str, Any]]]) -> str:
    """Return a study file that runs these steps; options that are None are left out."""
    counts: dict[str, int] = {}
    for verb, _ in steps:
        counts[verb] = counts.get(verb, 0) + 1
    lines = [f"format = {FORMAT}", f"robot = {_toml(robot)}"]
    for verb, options in steps:
        lines += ["", f"[[{verb}]]" if counts[verb] > 1 else f"[{verb}]"]
        lines += [f"{key} = {_toml(value)}" for key, value in options.items() if value is not None]
    return "\n".join(lines) + "\n"


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        return f'"{escaped}"'
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_toml(k)} = {_toml(v)}" for k, v in value.items()) + " }"
    return "[" + ", ".join(_toml(item) for item in value) + "]"
