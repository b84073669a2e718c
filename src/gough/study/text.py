"""Study files as text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gough.core.documents import toml_value

FORMAT = 1


def study_text(robot: str, steps: list[tuple[str, Mapping[str, Any]]]) -> str:
    """Return a study file that runs these steps; options that are None are left out."""
    counts: dict[str, int] = {}
    for verb, _ in steps:
        counts[verb] = counts.get(verb, 0) + 1
    lines = [f"format = {FORMAT}", f"robot = {toml_value(robot)}"]
    for verb, options in steps:
        lines += ["", f"[[{verb}]]" if counts[verb] > 1 else f"[{verb}]"]
        lines += [f"{key} = {toml_value(value)}" for key, value in options.items() if value is not None]
    return "\n".join(lines) + "\n"
