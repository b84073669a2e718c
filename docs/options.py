"""Write the options of the verbs into the pages: `python docs/options.py`.

They are declared in the source only.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from gough.app.studies.verbs import VERBS, step_type
from gough.core.options import REQUIRED, Option, options_of, plain

PAGE = Path(__file__).with_name("study.md")
BEGIN, END = "<!-- options: written by docs/options.py -->\n", "<!-- end of options -->\n"


def row(option: Option) -> str:
    """Return the line of an option: name, default, meaning."""
    default = (
        ""
        if option.default is REQUIRED
        else "none"
        if option.default is None
        else (f"`{json.dumps(plain(option.default))}`")
    )
    meaning = option.help.replace("|", "\\|")
    if option.choices:
        meaning += " One of " + ", ".join(f"`{word}`" for word in option.choices) + "."
    return f"| `{option.name}` | {default} | {meaning} |"


def tables() -> str:
    """Return a table for every verb."""
    return "\n".join(
        "\n".join(
            [
                f"### {name}",
                "",
                "| option | default | meaning |",
                "|---|---|---|",
                *map(row, options_of(step_type(name)).values()),
                "",
            ]
        )
        for name in VERBS
    )


def page(text: str) -> str:
    """Return the page with its tables renewed."""
    return re.sub(
        f"{re.escape(BEGIN)}.*?{re.escape(END)}",
        lambda match: f"{BEGIN}\n{tables()}\n{END}",
        text,
        flags=re.DOTALL,
    )


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
