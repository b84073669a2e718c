"""What a look at the data found, and what stands against them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from gough.core.errors import InvalidRecording
from gough.core.record import Record


@dataclass(frozen=True, kw_only=True, eq=False)
class Finding(Record):
    """One thing worth knowing about a recording."""

    # a fixed word to select by: `truncated`, `gap`, `saturation`, `quantisation`, `dead`, `jitter`,
    # ...
    kind: str
    channel: str  # the file, column or clock it is about
    # a sentence with numbers, units, and names out of files as they are: escape it in markup
    message: str
    numbers: Mapping[str, float] = field(default_factory=dict)  # behind the message

    def __post_init__(self) -> None:
        object.__setattr__(self, "numbers", {k: float(v) for k, v in self.numbers.items()})
        super().__post_init__()

    def __str__(self) -> str:
        return f"{self.channel}: {self.message}"


def finding(kind: str, channel: str, message: str, **numbers: float) -> Finding:
    return Finding(kind=kind, channel=channel, message=message, numbers=numbers)


def notes(findings: Iterable[Finding], source: str) -> tuple[str, ...]:
    """Return findings about a log as lines; channels of which the same is to be said share one."""
    channels: dict[str, dict[str, None]] = {}
    for found in findings:
        channels.setdefault(found.message, {})[found.channel] = None
    own = {
        message: ", ".join(name for name in names if name != source)
        for message, names in channels.items()
    }
    return tuple(
        ": ".join(filter(None, (source, names, message))) for message, names in own.items()
    )


def refused(source: str, message: str, **numbers: object) -> InvalidRecording:
    """Return the error about a log that cannot be used."""
    return InvalidRecording(f"{source}: {message}", source=source, **numbers)
