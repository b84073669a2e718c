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

from gough.core.arrays import FloatArray
from gough.core.display import import_optional
from gough.core.errors import OutputError
from gough.core.files import replace_atomically
from gough.logs.recording import Recording

RECORDING_FORMAT = 1
RECORDING_MARK = "gough-recording"
CSV_BLOCK_ROWS = 4096  # written at a time
# stamp of the first sample in a bag: zero means no time in ROS [ns]
BAG_START = 10**9
JOINT_STATE = "sensor_msgs/msg/JointState"
JOINT_STATE_KINDS = ("position", "velocity", "effort")


def save_recording(
    recording: Recording,
    path: Path,
    settings: Mapping[str, object] | None = None,
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
    if settings is not None:
        facts["settings"] = dict(settings)
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
    recording: Recording,
    handle: IO[bytes] | gzip.GzipFile,
    facts: Mapping[str, Any],
) -> None:
    """Write a comment line with the facts, the header, and the samples."""
    columns = [("time", "s", recording.time), *recording.columns()]
    header = ",".join(_quoted(f"{name} [{unit}]") for name, unit, _ in columns)
    comment = f"# {RECORDING_MARK} {RECORDING_FORMAT} {json.dumps(facts)}"
    handle.write(f"{comment}\n{header}\n".encode())
    # repr: the shortest digits that read back the same
    line = ",".join(["%r"] * len(columns)) + "\n"
    for start in range(0, len(recording), CSV_BLOCK_ROWS):
        rows = slice(start, start + CSV_BLOCK_ROWS)
        block = np.column_stack([column[rows] for _, _, column in columns])
        handle.write((line * len(block) % tuple(block.ravel().tolist())).encode())


def _quoted(header: str) -> str:
    """Return a header in quotes if it contains a separator."""
    if set(header) & set(',"\n\r'):
        return '"' + header.replace('"', '""') + '"'
    return header


def _write_npz(recording: Recording, handle: IO[bytes], facts: Mapping[str, Any]) -> None:
    """Write the samples of each kind, and the facts as JSON."""
    columns: dict[str, Any] = {}
    samples: dict[str, Any] = {}
    for kind, channels in recording.groups():
        columns[kind] = {"names": channels.names, "units": channels.units}
        samples[kind] = np.ascontiguousarray(channels.values)  # to be read in blocks of rows
    about = {
        "format": RECORDING_MARK,
        "version": RECORDING_FORMAT,
        "joints": recording.joints,
        **facts,
        "columns": columns,
    }
    text = np.array(json.dumps(about))
    np.savez(handle, allow_pickle=False, facts=text, time=recording.time, **samples)


def _write_mcap(recording: Recording, handle: IO[bytes], facts: Mapping[str, Any]) -> None:
    """Write a bag with `/joint_states`, other kinds of columns, and facts at `/gough`.

    Each other kind of columns is written as the positions of a topic
    with its name.
    """
    rosbag2 = import_optional("rosbags.rosbag2", "ros")
    typesys = import_optional("rosbags.typesys", "ros")
    store = typesys.get_typestore(typesys.Stores.LATEST)
    text_message = store.types["std_msgs/msg/String"]
    with TemporaryDirectory() as folder:
        mcap = rosbag2.StoragePlugin.MCAP
        with rosbag2.Writer(Path(folder) / "log", version=9, storage_plugin=mcap) as bag:
            about = bag.add_connection("/gough", text_message.__msgtype__, typestore=store)
            text = text_message(data=json.dumps(facts))
            bag.write(
                about,
                BAG_START,
                store.serialize_cdr(text, text_message.__msgtype__),
            )
            _write_topics(recording, bag, store)
        with next(Path(folder).glob("log/*.mcap")).open("rb") as bagged:
            copyfileobj(bagged, handle)


def _write_topics(recording: Recording, bag: Any, store: Any) -> None:
    """Write the samples of a recording to an open bag, one message per topic and sample."""
    stamp = store.types["builtin_interfaces/msg/Time"]
    header = store.types["std_msgs/msg/Header"]
    state = store.types[JOINT_STATE]
    topics = _topics(recording)
    connections = {}
    for topic in topics:
        connections[topic] = bag.add_connection(topic, JOINT_STATE, typestore=store)
    for k, seconds in enumerate(recording.time - recording.time[0]):
        now = BAG_START + round(seconds * 1e9)
        at = header(stamp=stamp(sec=now // 10**9, nanosec=now % 10**9), frame_id="")
        for topic, (names, signals) in topics.items():
            message = state(at, list(names), *(signal[k].copy() for signal in signals))
            bag.write(
                connections[topic],
                now,
                store.serialize_cdr(message, JOINT_STATE),
            )


def _topics(
    recording: Recording,
) -> dict[str, tuple[tuple[str, ...], list[FloatArray]]]:
    """Return names and positions, velocities and efforts of each topic, by its name."""
    empty = np.zeros((len(recording), 0))
    groups = dict(recording.groups())
    states = []
    for kind in JOINT_STATE_KINDS:
        states.append(groups[kind].values if kind in groups else empty)
    topics = {"/joint_states": (recording.joints, states)}
    for kind, channels in groups.items():
        if kind not in JOINT_STATE_KINDS:
            topics[f"/{kind}"] = (
                channels.names,
                [channels.values, empty, empty],
            )
    return topics
