"""Recordings as files: self-describing CSV and NPZ, and MCAP for ROS's tools."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from pathlib import Path
from shutil import copyfileobj
from tempfile import TemporaryDirectory
from typing import IO, Any

import numpy as np

from gough.core.display import import_optional
from gough.core.errors import OutputError
from gough.core.files import replace_atomically
from gough.logs.recording import Recording

FORMAT = 1
MARK = "gough-recording"
ROWS = 4096  # written at a time
FIRST = 10**9  # stamp of the first sample in a bag: ROS takes zero for no time at all [ns]
JOINT_STATE = "sensor_msgs/msg/JointState"


def save_recording(
    recording: Recording, path: Path, settings: Mapping[str, object] | None = None
) -> Path:
    """Write a recording as CSV, NPZ or MCAP by the suffix of the path; see `Recording.save`."""
    name = path.name.lower()
    if not name.endswith((".npz", ".csv", ".csv.gz", ".mcap")):
        raise OutputError(
            f"cannot write a recording as '{path.name}'; expected .csv, .csv.gz, .npz or .mcap",
            path=str(path),
        )
    facts: dict[str, Any] = {
        "payload": recording.payload,
        "period_samples": recording.period_samples,
    }
    facts |= {} if settings is None else {"settings": dict(settings)}
    with replace_atomically(path) as handle:
        if name.endswith(".npz"):
            _write_npz(recording, handle, facts)
        elif name.endswith(".mcap"):
            _write_mcap(recording, handle, facts)
        elif name.endswith(".csv"):
            _write_csv(recording, handle, facts)
        else:
            with gzip.GzipFile(
                filename="", fileobj=handle, mode="wb", compresslevel=4, mtime=0
            ) as inner:
                _write_csv(recording, inner, facts)
    return path


def _write_csv(
    recording: Recording, handle: IO[bytes] | gzip.GzipFile, facts: Mapping[str, Any]
) -> None:
    columns = [("time", "s", recording.time), *recording.columns()]
    header = [f"{name} [{unit}]" for name, unit, _ in columns]
    quoted = [
        '"' + name.replace('"', '""') + '"' if set(name) & set(',"\n\r') else name
        for name in header
    ]
    handle.write(f"# {MARK} {FORMAT} {json.dumps(facts)}\n{','.join(quoted)}\n".encode())
    line = (
        ",".join(["%r"] * len(header)) + "\n"
    )  # repr: the shortest digits that read back the same
    for start in range(0, len(recording), ROWS):
        table = np.column_stack([column[start : start + ROWS] for _, _, column in columns])
        handle.write((line * len(table) % tuple(table.ravel().tolist())).encode())


def _write_npz(recording: Recording, handle: IO[bytes], facts: Mapping[str, Any]) -> None:
    groups = dict(recording.groups())
    about = {
        "format": MARK,
        "version": FORMAT,
        "joints": recording.joints,
        **facts,
        "columns": {kind: {"names": c.names, "units": c.units} for kind, c in groups.items()},
    }
    # Row by row: long recordings are read in blocks.
    np.savez(
        handle,
        allow_pickle=False,
        facts=np.array(json.dumps(about)),
        time=recording.time,
        **{kind: np.ascontiguousarray(c.values) for kind, c in groups.items()},
    )


def _write_mcap(recording: Recording, handle: IO[bytes], facts: Mapping[str, Any]) -> None:
    """Write `/joint_states`, each other kind of columns as positions of a topic of its name, and
    facts at `/gough`.
    """
    rosbag2, typesys = (
        import_optional(f"rosbags.{part}", "ros") for part in ("rosbag2", "typesys")
    )
    store = typesys.get_typestore(typesys.Stores.LATEST)
    stamp, header, state, word = (
        store.types[name]
        for name in (
            "builtin_interfaces/msg/Time",
            "std_msgs/msg/Header",
            JOINT_STATE,
            "std_msgs/msg/String",
        )
    )
    kinds, empty = ("position", "velocity", "effort"), np.zeros((len(recording), 0))
    groups = dict(recording.groups())
    topics = {
        "/joint_states": (
            recording.joints,
            [groups[k].values if k in groups else empty for k in kinds],
        )
    }
    topics |= {
        f"/{kind}": (c.names, [c.values, empty, empty])
        for kind, c in groups.items()
        if kind not in kinds
    }
    with TemporaryDirectory() as folder:
        with rosbag2.Writer(
            Path(folder) / "log", version=9, storage_plugin=rosbag2.StoragePlugin.MCAP
        ) as bag:
            about = bag.add_connection("/gough", word.__msgtype__, typestore=store)
            bag.write(
                about, FIRST, store.serialize_cdr(word(data=json.dumps(facts)), word.__msgtype__)
            )
            connections = {
                topic: bag.add_connection(topic, JOINT_STATE, typestore=store) for topic in topics
            }
            for k, t in enumerate(recording.time - recording.time[0]):
                now = FIRST + round(t * 1e9)
                at = header(stamp=stamp(sec=now // 10**9, nanosec=now % 10**9), frame_id="")
                for topic, (names, values) in topics.items():
                    message = state(at, list(names), *(column[k].copy() for column in values))
                    bag.write(connections[topic], now, store.serialize_cdr(message, JOINT_STATE))
        with next(Path(folder).glob("log/*.mcap")).open("rb") as bagged:
            copyfileobj(bagged, handle)
