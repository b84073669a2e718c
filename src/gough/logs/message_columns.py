"""Columns made of messages: each message has fields, a field is a number, a list or a structure.

ROS bags, MCAP files and JSON lines are read by these.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gough.core.files import Budget
from gough.logs.messages import refused
from gough.logs.tables import Table, seconds_of_date

# Fields whose texts name the entries of the lists beside and below
# them.
LABEL_FIELDS = ("name", "joint_names")
ENTRY_LABEL = "name"  # field that names a structure in a list of structures
# Entries of a list that become columns; longer lists are images,
# clouds, maps.
MAX_LIST_COLUMNS = 64
MAX_MESSAGE_DEPTH = 100  # fields inside each other
NANOSECOND = 1e-9  # [s]
# Fields of a time, whole seconds and nanoseconds, as ROS, Foxglove and
# protobuf name them.
TIME_FIELDS = ({"sec", "nanosec"}, {"sec", "nsec"}, {"secs", "nsecs"}, {"seconds", "nanos"})


class Stamp(float):
    """A time in seconds."""


def stamp_after(nanoseconds: int, start: int) -> Stamp:
    """Return a time in seconds after the start of a file.

    A double resolves 0.24 us of a time since 1970, and all digits of
    one since the start. What lies before half of the start is a
    duration, or on another clock, and is kept.

    Args:
        nanoseconds: The time.
        start: Of the file, on the same clock. [ns]
    """
    if 2 * nanoseconds < start:
        return Stamp(nanoseconds * NANOSECOND)
    return Stamp((nanoseconds - start) * NANOSECOND)


def message_numbers(
    content: Any, start: int = 0, name: str = "", labels: tuple[str, ...] = (), depth: int = 0
) -> Iterator[tuple[str, float]]:
    """Yield the numbers of a message by name: `pose.x`, `q[1]`.

    Entries of a list are counted from 1, or named where the message
    names them: of a JointState `elbow.position`. Dates and times become
    stamps; other texts are left out.

    Args:
        content: Numbers, texts, lists and mappings.
        start: Of the file. [ns]
        name: Of the field.
        labels: Names of the entries of lists.
        depth: Fields it is inside of.
    """
    if depth > MAX_MESSAGE_DEPTH:
        raise ValueError(f"fields are nested more than {MAX_MESSAGE_DEPTH} deep")
    if isinstance(content, Stamp):
        yield name, content
    elif isinstance(content, bool | int | float | np.number):
        yield name, float(content)
    elif isinstance(content, str):
        date = seconds_of_date(content)
        if date is not None:
            yield name, Stamp(date)
    elif isinstance(content, Mapping):
        yield from _structure_numbers(content, start, name, labels, depth)
    elif isinstance(content, list | np.ndarray) and len(content) <= MAX_LIST_COLUMNS:
        entry_labels = _entry_labels(content, labels)
        for k, entry in enumerate(content):
            entry_name = f"{name}[{k + 1}]"
            if entry_labels:
                entry_name = f"{entry_labels[k]}.{name}" if name else entry_labels[k]
            yield from message_numbers(entry, start, entry_name, (), depth + 1)


def _structure_numbers(
    fields: Mapping[str, Any], start: int, name: str, labels: tuple[str, ...], depth: int
) -> Iterator[tuple[str, float]]:
    """Yield the numbers of a structure by name."""
    if set(fields) in TIME_FIELDS and all(isinstance(part, int) for part in fields.values()):
        whole, fraction = [fields[key] for key in sorted(fields, key=_is_fraction)]
        yield name, stamp_after(whole * 10**9 + fraction, start)
        return
    for key in LABEL_FIELDS:
        texts = fields.get(key)
        if isinstance(texts, list) and texts and all(isinstance(text, str) for text in texts):
            labels = tuple(texts)
    for key, entry in fields.items():
        field_name = f"{name}.{key}" if name else str(key)
        yield from message_numbers(entry, start, field_name, labels, depth + 1)


def _is_fraction(key: str) -> bool:
    """Return True for the field of a time that holds nanoseconds."""
    return key.startswith("n")


def _entry_labels(entries: Any, labels: tuple[str, ...]) -> tuple[str, ...]:
    """Return names of the entries of a list, () if they have none or share some."""
    if all(isinstance(entry, Mapping) for entry in entries):
        own = [entry.get(ENTRY_LABEL) for entry in entries]
        labels = tuple(label for label in own if isinstance(label, str)) or labels
    return labels if len(labels) == len(set(labels)) == len(entries) else ()


class MessageColumns:
    """Columns that grow with each message; fields that a message lacks are blank in its row.

    Args:
        budget: Of the file.
    """

    def __init__(self, budget: Budget) -> None:
        self.budget = budget
        self.unread: dict[str, str] = {}  # content of topics that are not read
        self._n_messages: Counter[str] = Counter()  # by topic
        self._seconds: set[str] = set()
        # rows of the topic that have a field, and its numbers
        self._fields: dict[tuple[str, str], tuple[array[int], array[float]]] = {}

    def add(self, topic: str, numbers: Mapping[str, float]) -> None:
        """Add a message; columns are named `topic/field`, or `field` without a topic."""
        row = self._n_messages[topic]
        self._n_messages[topic] += 1
        for name, number in numbers.items():
            if (topic, name) not in self._fields:
                self.budget.take_columns(1)
                self._fields[topic, name] = (array("q"), array("d"))
            rows, column = self._fields[topic, name]
            rows.append(row)
            column.append(number)
            if isinstance(number, Stamp):
                self._seconds.add(self._name(topic, name))

    def table(self, *, ordered_by: str = "") -> Table:
        """Return the columns as a table.

        Args:
            ordered_by: Field by which the messages of each topic are
                sorted; as they came without one.
        """
        source = self.budget.source
        if not self._fields:
            raise refused(source, f"there are no numbers in this file{self._what_was_there()}")
        columns = {}
        blank = {}
        order = self._order(ordered_by) if ordered_by else {}
        for (topic, name), (rows, numbers) in self._fields.items():
            column = np.full(self._n_messages[topic], np.nan)
            column[rows] = numbers
            absent = np.ones(len(column), dtype=bool)
            absent[rows] = False
            rows_in_order = order.get(topic, slice(None))
            columns[self._name(topic, name)] = column[rows_in_order]
            if absent.any():  # a joint that only some of the messages contain
                blank[self._name(topic, name)] = absent[rows_in_order]
        return Table(
            source=source,
            columns=columns,
            blank=blank,
            unread=self.unread,
            seconds=frozenset(self._seconds),
        )

    def _order(self, field: str) -> dict[str, NDArray[np.intp]]:
        """Return for each topic the order of its messages by a field that all of them have."""
        order = {}
        for topic in self._n_messages:
            _, numbers = self._fields[topic, field]
            order[topic] = np.argsort(numbers, kind="stable")
        return order

    @staticmethod
    def _name(topic: str, field: str) -> str:
        return f"{topic}/{field}" if topic else field

    def _what_was_there(self) -> str:
        """Return examples of what was not read."""
        examples = [f"; '{topic}' has {what}" for topic, what in list(self.unread.items())[:3]]
        return "".join(examples)
