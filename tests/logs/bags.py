"""Bags written by the library that also reads them, and by hand; the messages are ROS's own."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

JOINT_STATE = "sensor_msgs/msg/JointState"


def write_bag(
    folder: Path,
    time: np.ndarray,
    joints: Sequence[str],
    position: np.ndarray,
    effort: np.ndarray,
    *,
    storage: str = "mcap",
    start: int = 1_700_000_000_123_456_789,
    delay: float = 0.002,
    slow: np.ndarray | None = None,
) -> Path:
    """Write joint states (and a slow temperature), received `delay` after their stamps, as `mcap`,
    `db3` or `bag`.
    """
    from rosbags.rosbag1 import Writer as Writer1
    from rosbags.rosbag2 import StoragePlugin, Writer
    from rosbags.typesys import Stores, get_typestore

    store = get_typestore(Stores.ROS1_NOETIC if storage == "bag" else Stores.LATEST)
    types = store.types
    stamp_type, header, state = (
        types[f"{name}"]
        for name in ("builtin_interfaces/msg/Time", "std_msgs/msg/Header", JOINT_STATE)
    )
    path = folder / ("run.bag" if storage == "bag" else f"run_{storage}")
    if storage == "bag":
        writer = Writer1(path)
    else:
        writer = Writer(
            path,
            version=9,
            storage_plugin=StoragePlugin[{"mcap": "MCAP", "db3": "SQLITE3"}[storage]],
        )
    extra = {"seq": 0} if storage == "bag" else {}

    def packed(message: object, kind: str) -> bytes:
        return bytes(
            store.serialize_ros1(message, kind)
            if storage == "bag"
            else store.serialize_cdr(message, kind)
        )

    with writer:
        states = writer.add_connection("/joint_states", JOINT_STATE, typestore=store)
        warm = writer.add_connection("/gear/temperature", "std_msgs/msg/Float64", typestore=store)
        for k, t in enumerate(time):
            now = start + round(t * 1e9)
            message = state(
                header=header(
                    stamp=stamp_type(sec=now // 10**9, nanosec=now % 10**9), frame_id="", **extra
                ),
                name=list(joints),
                position=position[k].copy(),
                velocity=np.zeros(0),
                effort=effort[k].copy(),
            )
            writer.write(states, now + round(delay * 1e9), packed(message, JOINT_STATE))
            if slow is not None and k % 10 == 0:
                kind = "std_msgs/msg/Float64"
                writer.write(warm, now, packed(types[kind](data=float(slow[k])), kind))
    return path if storage == "bag" else (next(path.glob("*.mcap")) if storage == "mcap" else path)
