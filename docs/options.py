"""Write the options of the verbs into the page of studies: `python docs/options.py`.

They are declared in the source only.
"""

from __future__ import annotations

import json
from pathlib import Path

from gough.app.studies.verbs import VERBS, step_type
from gough.core.documents import plain
from gough.core.options import REQUIRED, Option, options_of

PAGE = Path(__file__).with_name("study.md")
BEGIN = "<!-- options: written by docs/options.py -->\n"
END = "<!-- end of options -->\n"


def row(option: Option) -> str:
    """Return the line of an option: name, default, meaning."""
    if option.default is REQUIRED:
        default = ""
    elif option.default is None:
        default = "none"
    else:
        default = f"`{json.dumps(plain(option.default))}`"
    meaning = option.help.replace("|", "\\|")
    if option.choices:
        words = ", ".join(f"`{word}`" for word in option.choices)
        meaning += f" One of {words}."
    return f"| `{option.name}` | {default} | {meaning} |"


def tables() -> str:
    """Return a table of options for every verb."""
    lines = []
    for name in VERBS:
        lines += [f"### {name}", "", "| option | default | meaning |", "|---|---|---|"]
        lines += [row(option) for option in options_of(step_type(name)).values()]
        lines.append("")
    return "\n".join(lines)


def page(text: str) -> str:
    """Return the page with its tables renewed."""
    start = text.index(BEGIN)
    end = text.index(END)
    return f"{text[:start]}{BEGIN}\n{tables()}\n{text[end:]}"


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
