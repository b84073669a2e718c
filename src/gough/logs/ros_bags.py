"""Reader of ROS bags: `.bag`, `.db3`, MCAP files of ROS, and folders of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gough.core.display import import_optional
from gough.core.errors import InvalidRecording
from gough.core.files import reading
from gough.logs.array_tables import log_budget
from gough.logs.message_columns import NANOSECOND, MessageColumns, message_numbers, stamp_after
from gough.logs.tables import Table


def read_bag(path: Path) -> Table:
    """Read the numeric fields of all topics of a bag: `.bag`, `.mcap`, `.db3`, or a folder.

    A column is `/topic/field.part`; entries of a list are counted from
    1, or named where the message names them: those of a JointState are
    `/joint_states/elbow.position`. `/topic/time` is when the message
    was written, and `/topic/header.stamp` its own stamp, both in
    seconds from the start of the bag.
    """
    open_bag = import_optional("rosbags.highlevel", "ros").AnyReader
    types = import_optional("rosbags.typesys", "ros")
    typestore = types.get_typestore(types.Stores.LATEST)
    budget = log_budget(path)
    columns = MessageColumns(budget)
    with (
        reading(
            path.name,
            "a ROS bag",
            InvalidRecording,
            "; expected one of ROS messages, closed properly",
        ),
        open_bag([path], default_typestore=typestore) as bag,
    ):
        start = bag.start_time
        for connection, received, raw in bag.messages():
            topic = connection.topic
            if topic in columns.unread:
                continue
            budget.take_bytes(len(raw), "the bag")
            message = bag.deserialize(raw, connection.msgtype)
            numbers = dict(message_numbers(ros_fields(message, start), start))
            if numbers:
                columns.add(topic, {"time": stamp_after(received, start), **numbers})
            else:
                columns.unread[topic] = f"messages {connection.msgtype} without numbers"
    return columns.table()


def ros_fields(content: Any, start: int) -> Any:
    """Return a message of rosbags, or a field of one, as numbers, texts, lists and mappings.

    Args:
        content: The message.
        start: Of the bag; stamps are counted from it. [ns]
    """
    if hasattr(content, "nanosec"):
        nanoseconds = content.sec * 10**9 + content.nanosec
        if content.__msgtype__.endswith("Time"):
            return stamp_after(nanoseconds, start)
        return nanoseconds * NANOSECOND  # a duration
    if isinstance(content, list):
        return [ros_fields(entry, start) for entry in content]
    if not hasattr(content, "__msgtype__"):
        return content
    fields = {}
    for name, entry in vars(content).items():
        if not name.startswith("_"):
            fields[name] = ros_fields(entry, start)
    return fields
