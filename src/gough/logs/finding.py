"""What a look at the data found, and what stands against them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from gough.core.arrays import Value
from gough.core.errors import InvalidRecording


@dataclass(frozen=True, kw_only=True, eq=False)
class Finding(Value):
    """One thing worth knowing about a recording.

    Args:
        kind: A fixed word to select by: `truncated`, `gap`, `saturation`, `quantisation`, `dead`, `jitter`, ...
        channel: The file, column or clock it is about.
        message: One plain sentence with numbers and units. Names out of files appear in it as they are: escape
            it where markup is made.
        numbers: The values behind the message.
    """

    kind: str
    channel: str
    message: str
    numbers: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "numbers", {k: float(v) for k, v in self.numbers.items()})
        super().__post_init__()

    def __str__(self) -> str:
        return f"{self.channel}: {self.message}"


def notes(findings: Iterable[Finding], source: str) -> tuple[str, ...]:
    """Return findings about a log as lines; channels of which the same is to be said share one."""
    channels: dict[str, dict[str, None]] = {}
    for finding in findings:
        channels.setdefault(finding.message, {})[finding.channel] = None
    own = {message: ", ".join(name for name in names if name != source) for message, names in channels.items()}
    return tuple(": ".join(filter(None, (source, names, message))) for message, names in own.items())


def refused(source: str, message: str, **numbers: object) -> InvalidRecording:
    """Return the error about a log that cannot be used."""
    return InvalidRecording(f"{source}: {message}", source=source, **numbers)
