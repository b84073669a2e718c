"""What a look at the data found."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from gough.core.arrays import Value


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
    channels: dict[str, list[str]] = {}
    for finding in findings:
        channels.setdefault(finding.message, []).append(finding.channel)
    own = {message: [name for name in dict.fromkeys(names) if name != source] for message, names in channels.items()}
    return tuple(": ".join([source, *([", ".join(names)] if names else []), message]) for message, names in own.items())
