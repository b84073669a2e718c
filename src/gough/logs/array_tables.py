"""Tables made of arrays: those of NumPy, MATLAB, HDF5 and Arrow, and of structures of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from gough.core.arrays import FloatArray
from gough.core.errors import InvalidRecording
from gough.core.files import MAX_STRUCTURE_DEPTH, Budget
from gough.logs.messages import refused
from gough.logs.tables import Table

# entries of an array of objects that are read one by one
MAX_LISTED_OBJECTS = 1000
MAX_NOTE_CHARACTERS = 240  # of a text that is listed as not read
MIN_LOG_SAMPLES = 50  # of a log; a shorter array has a number for each joint
# of columns to rows of a matrix, from which its rows are taken as
# signals
MIN_ROW_RATIO = 20


def log_budget(path: Path, *, streamed: bool = False) -> Budget:
    """Return what reading a log may cost: a file, or a folder of files."""
    files = [file for file in path.iterdir() if file.is_file()] if path.is_dir() else [path]
    length = sum(file.stat().st_size for file in files)
    return Budget(path.name, length, InvalidRecording, streamed=streamed)


def array_table(source: str, arrays: Mapping[str, Any], budget: Budget | None = None) -> Table:
    """Return arrays as a table; column j of a matrix `q` is named `q[j]`, counted from 1.

    Of a matrix with signals in rows, `q[j]` is row j: one whose rows
    are as long as the longest array beside it, or many times as long as
    its columns. Text is left out. Dates become seconds since 1970, time
    spans seconds.

    Args:
        source: Name of the file.
        arrays: By name; structures and lists of them are mappings and
            lists.
        budget: Of the file; None for arrays that are not from a file.
    """
    columns: dict[str, FloatArray] = {}
    unread: dict[str, str] = {}
    seconds: set[str] = set()
    flat = list(_flat(arrays))
    longest = 0
    for _, content in flat:
        if np.ndim(content) == 1:
            longest = max(longest, np.size(content))
    for name, content in flat:
        numbers = np.asarray(content)
        if numbers.ndim == 2 and _has_signals_in_rows(numbers.shape, longest):
            numbers = numbers.T
        if numbers.dtype.kind == "M":
            numbers = numbers - np.datetime64(0, "s")
        if numbers.dtype.kind == "m":
            numbers = numbers / np.timedelta64(1, "s")
            seconds.add(name)
        if numbers.ndim > 2:
            numbers = np.squeeze(numbers)
        if budget is not None and numbers.dtype.kind in "fiub" and numbers.ndim <= 2:
            budget.take_bytes(max(8 * numbers.size - numbers.nbytes, 0), f"'{name}'")
            budget.take_columns(numbers.shape[1] if numbers.ndim == 2 else 1)
        if numbers.dtype.kind not in "fiub":
            unread[name] = f"values of type {numbers.dtype}"
            if numbers.shape == ():
                unread[name] = str(numbers)[:MAX_NOTE_CHARACTERS]
        elif numbers.ndim <= 1:
            columns[name] = np.atleast_1d(numbers.astype(float))
        elif numbers.ndim == 2:
            for j, column in enumerate(numbers.T):
                columns[f"{name}[{j + 1}]"] = column.astype(float)
        else:
            unread[name] = f"an array of shape {numbers.shape}"
    if not columns:
        examples = [f"; '{name}' is {what}" for name, what in list(unread.items())[:3]]
        raise refused(source, f"there are no numbers in this file{''.join(examples)}")
    return Table(
        source=source,
        columns=columns,
        unread=unread,
        seconds=frozenset(seconds),
    )


def _flat(content: Any, name: str = "", depth: int = 0) -> Iterator[tuple[str, Any]]:
    """Yield the arrays inside structures by name: `log.q`.

    The third of a list of structures is `signals[3].values`, or
    `signals.torque.values` if each has a `label` of its own. A matrix
    beside `time` with a column for each sample, as Simulink saves
    signals of several dimensions, is transposed.
    """
    if isinstance(content, np.ndarray) and content.dtype == object:
        entries = list(content.flat) if content.size < MAX_LISTED_OBJECTS else [None]
        if all(isinstance(entry, Mapping | np.ndarray) for entry in entries):
            content = entries
    if isinstance(content, Mapping) and depth < MAX_STRUCTURE_DEPTH:
        samples = _samples_beside(content)
        for key, entry in content.items():
            full_name = f"{name}.{key}" if name else str(key)
            for label, inner in _flat(entry, full_name, depth + 1):
                matrix = isinstance(inner, np.ndarray) and inner.ndim == 2
                if matrix and inner.shape[0] != samples == inner.shape[1]:
                    inner = inner.T
                yield label, inner
    elif isinstance(content, list) and depth < MAX_STRUCTURE_DEPTH:
        for label, entry in zip(_labels(content), content):
            yield from _flat(entry, f"{name}{label}", depth + 1)
    else:
        yield name, content


def _samples_beside(structure: Mapping[Any, Any]) -> int:
    """Return the length of the time in a structure, 0 without one."""
    for key, entry in structure.items():
        if str(key).lower() in ("time", "tout", "t"):
            return int(np.size(entry))
    return 0


def _labels(structures: list[Any]) -> list[str]:
    """Return `.torque` for structures with labels of their own, otherwise `[1]`, `[2]`, ..."""
    labels = []
    for structure in structures:
        label = structure.get("label", "") if isinstance(structure, Mapping) else ""
        labels.append(str(label).strip())
    if all(labels) and len(set(labels)) == len(labels):
        return [f".{label}" for label in labels]
    return [f"[{i + 1}]" for i in range(len(structures))]


def _has_signals_in_rows(shape: tuple[int, ...], longest: int) -> bool:
    """Return whether a matrix holds a signal in each row.

    The longest array beside it has the length of the log, unless it is
    too short for one. Shorter ones, such as a gear ratio for each
    joint, may be as long as the matrix has rows.
    """
    rows, columns = shape
    is_log_length = rows == longest and rows >= MIN_LOG_SAMPLES
    if is_log_length or rows >= columns:
        return False
    return columns == longest or columns >= MIN_ROW_RATIO * rows
