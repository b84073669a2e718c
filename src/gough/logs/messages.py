"""Notices about logs, and the error for a log that cannot be used."""

from __future__ import annotations

from gough.core.errors import InvalidRecording
from gough.core.notices import Level, Notice


def log_notice(
    rule: str,
    where: str,
    text: str,
    advice: str = "",
    *,
    level: Level = "info",
    **numbers: float,
) -> Notice:
    """Return a notice about the file, column or clock `where`.

    Rules are `truncated`, `gap`, `saturation`, `quantisation`, `dead`,
    `jitter`, ...
    """
    return Notice(
        rule=rule,
        level=level,
        where=where,
        text=text,
        advice=advice,
        numbers=numbers,
    )


def refused(source: str, message: str, **numbers: object) -> InvalidRecording:
    """Return the error about a log that cannot be used."""
    return InvalidRecording(f"{source}: {message}", source=source, **numbers)
