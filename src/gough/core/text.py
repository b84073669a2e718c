"""Plain text for people."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def text_table(header: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """Return aligned columns as plain text: the first to the left, the others to the right."""
    every = [list(header), *(list(line) for line in lines)]
    widths = [max(len(line[c]) for line in every) for c in range(len(header))]
    return "\n".join(
        "  ".join(cell.ljust(w) if c == 0 else cell.rjust(w) for c, (cell, w) in enumerate(zip(line, widths))).rstrip()
        for line in every
    )
