"""ROS 1 and ROS 2 bags, MCAP among them, as tables: every number of every topic is a column."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from gough.core.errors import InvalidRecording
from gough.core.showing import needed
from gough.logs.tables import Table

LABELS = ("name", "joint_names")  # fields whose texts name the entries of lists beside and below them
WIDEST = 64  # entries of a list that are columns of their own; longer ones are images, clouds, maps
NANO = 1e-9  # of a second, in which bags tell the time [s]


def read_bag(path: Path) -> Table:
    """Read the numeric fields of all topics of a bag.

    A column is `/topic/field.part`; entries of a list are counted from 1, or named where the message names them: those
    of a JointState are `/joint_states/elbow.position`. `/topic/time` is when the message was written, and
    `/topic/header.stamp` what it says itself, both in seconds from the start of the bag.

    Args:
        path: A `.bag`, `.mcap` or `.db3` file, or the folder of a ROS 2 bag.

    Raises:
        InvalidRecording: Not such a bag, damaged, of messages other than ROS's, or rosbags is not installed.
    """
    source = path.name
    reader, types = needed("rosbags.highlevel", "ros").AnyReader, needed("rosbags.typesys", "ros")
    topics: dict[str, dict[str, tuple[array[int], array[float]]]] = {}
    counts: dict[str, int] = {}
    silent: dict[str, str] = {}
    try:
        with reader([path], default_typestore=types.get_typestore(types.Stores.LATEST)) as bag:
            start = bag.start_time
            for connection, stamp, raw in bag.messages():
                topic = connection.topic
                if topic in silent:
                    continue
                found = dict(_numbers(bag.deserialize(raw, connection.msgtype), start))
                if not found:
                    silent[topic] = f"messages {connection.msgtype} without numbers"
                    continue
                row = counts[topic] = counts.get(topic, 0) + 1
                fields = topics.setdefault(topic, {})
                for name, value in ({"time": (stamp - start) * NANO} | found).items():
                    if name not in fields:
                        fields[name] = array("q"), array("d")
                    fields[name][0].append(row - 1)
                    fields[name][1].append(value)
    except Exception as error:  # rosbags raises whatever the damaged bytes lead to
        raise InvalidRecording(f"{source} cannot be read as a ROS bag ({type(error).__name__}: {error}); expected one "
                               "of ROS messages, closed properly", source=source) from error
    columns, blank = {}, {}
    stamps = frozenset(f"{topic}/{name}" for topic in topics for name in ("time", "header.stamp"))
    for topic, fields in topics.items():
        for name, (rows, values) in fields.items():
            columns[f"{topic}/{name}"] = whole = np.full(counts[topic], np.nan)
            whole[rows] = values
            if len(rows) < len(whole):  # joints that only some of the messages tell of
                blank[f"{topic}/{name}"] = ~np.isin(np.arange(len(whole)), rows)
    if not columns:
        raise InvalidRecording(f"{source}: there are no numbers in this bag", source=source)
    return Table(source=source, columns=columns, blank=blank, unread=silent, seconds=stamps)


def _numbers(value: Any, start: int, name: str = "", labels: tuple[str, ...] = ()) -> Iterator[tuple[str, float]]:
    """Yield the numbers of a message by name; stamps in seconds after the start of the bag. [ns]"""
    if isinstance(value, bool | int | float | np.number):
        yield name, float(value)
    elif hasattr(value, "nanosec"):
        is_stamp = value.__msgtype__.endswith("Time")
        yield name, (value.sec * 10**9 + value.nanosec - is_stamp * start) * NANO
    elif hasattr(value, "__msgtype__"):
        fields = {key: item for key, item in vars(value).items() if not key.startswith("_")}
        for key in LABELS:
            texts = fields.get(key)
            if isinstance(texts, list) and texts and all(isinstance(text, str) for text in texts):
                labels = tuple(texts)
        for key, item in fields.items():
            yield from _numbers(item, start, f"{name}.{key}" if name else key, labels)
    elif isinstance(value, list | np.ndarray) and len(value) <= WIDEST:
        named = labels if len(labels) == len(set(labels)) == len(value) else ()
        for k, item in enumerate(value):
            yield from _numbers(item, start, f"{named[k]}.{name}" if named else f"{name}[{k + 1}]")
