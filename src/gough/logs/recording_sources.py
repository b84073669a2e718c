"""Long logs that stay in their files and are read in blocks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from math import isfinite
from pathlib import Path

import numpy as np

from gough.core.errors import InvalidInput, InvalidRecording
from gough.core.storage import StoredFile, place_of
from gough.logs.description import Description
from gough.logs.formats import is_folder, table_blocks
from gough.logs.messages import refused
from gough.logs.readers import HEAD_SAMPLES, Described, as_description, read_recording
from gough.logs.recording import Recording, check_time
from gough.logs.table_signals import (
    SampledSignal,
    build_recording,
    reading_notices,
    resolve_description,
    sample_signals,
    time_origin,
)
from gough.logs.tables import Table


@dataclass(frozen=True, kw_only=True, eq=False)
class RecordingSource:
    """A long log as a source of blocks; the samples stay in the file.

    Fields as those of `Recording`.
    """

    joints: tuple[str, ...]
    position_units: tuple[str, ...]  # by joint
    period_samples: int | None  # samples of a period; None without one
    payload: str | None  # name of the payload that is carried
    source: str  # name of the file
    path: Path | StoredFile  # of the file
    description: Description  # how the file is read

    @cached_property
    def samples(self) -> int:
        """Number of samples; the file is read once to count."""
        return sum(len(block) for block in self.blocks())

    def blocks(self, size: int = 65536) -> Iterator[Recording]:
        """Yield consecutive recordings of at most `size` samples."""
        if size < 1:
            raise InvalidInput(f"blocks of {size} samples; expected at least 1")
        description = self.description
        origin = None
        start = 0.0
        previous = -np.inf
        last: dict[int, float] = {}  # value of each wrapped signal at the end of the last block
        for table in table_blocks(self.path, size, description):
            first_block = origin is None
            if origin is None:
                origin = time_origin({"": table}, description)
            sampled = _sample_block(table, description, origin)
            time = sampled[0].clock
            check_time(time, table.source, previous=previous, first=table.first)
            previous = float(time[-1])
            if first_block and not description.absolute:
                start = float(time[0])
            values = [signal.values for signal in sampled]
            for k, signal in enumerate(description.signals):
                if signal.turn:  # each block was unwrapped by itself
                    jump = values[k][0] - last.get(k, values[k][0])
                    values[k] = values[k] - signal.turn * np.round(jump / signal.turn)
                    last[k] = values[k][-1]
            yield build_recording(
                description,
                time - start,
                values,
                table.source,
                notices=tuple(reading_notices({"": table}, description)),
            )

    def read(self) -> Recording:
        """Read the whole log into memory."""
        return read_recording(self.path, self.description)


def _sample_block(table: Table, description: Description, origin: float) -> list[SampledSignal]:
    """Return the signals of a block, which must share its clock."""
    sampled = sample_signals({"": table}, description, origin, streamed=True)
    if any(s.delay for s in description.signals):
        raise refused(
            table.source,
            "a delay of some columns cannot be corrected in blocks; read the whole log with "
            "read_recording",
        )
    if any(s.clock is not sampled[0].clock for s in sampled):
        raise refused(
            table.source,
            "columns have clocks of their own; read the whole log with read_recording",
        )
    return sampled


def open_recording(
    path: str | Path | StoredFile,
    description: Described | None = None,
) -> RecordingSource:
    """Open a long log for reading in blocks; arguments as `read_recording`.

    Text, Parquet and Gough's NPZ files are streamed. Logs that need
    resampling are refused: they are read whole.
    """
    place = place_of(path)
    given = as_description(description)
    if is_folder(place) or (given is not None and _needs_resampling(given)):
        raise InvalidRecording(
            f"'{place.name}' needs resampling onto one clock or cutting (several files, rate, "
            "start, stop or period in seconds), which cannot be done in blocks: use read_recording",
            source=place.name,
        )
    table = next(table_blocks(place, HEAD_SAMPLES, given), None)
    if table is None:
        raise refused(place.name, "there are no samples")
    resolved = resolve_description(table, given)
    origin = time_origin({"": table}, resolved)
    _sample_block(table, resolved, origin)  # raises if that is not possible
    return RecordingSource(
        joints=resolved.joints,
        position_units=tuple(signal.unit for signal in resolved.of("position")),
        payload=resolved.payload,
        period_samples=resolved.period_samples,
        source=place.name,
        path=place,
        description=resolved,
    )


def _needs_resampling(description: Description) -> bool:
    """Return True if a description asks for what cannot be done in blocks."""
    if description.rate is not None or description.period is not None:
        return True
    return bool(description.start) or isfinite(description.stop)
