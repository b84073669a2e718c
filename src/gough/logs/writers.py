"""Recordings as files: self-describing CSV and NPZ, and MCAP for ROS's tools."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from pathlib import Path
from shutil import copyfileobj
from tempfile import TemporaryDirectory
from typing import IO

import numpy as np

from gough.core.errors import OutputError
from gough.core.files import replacing
from gough.core.showing import needed
from gough.logs.recording import Recording

FORMAT = 1
MARK = "gough-recording"
ROWS = 4096  # written at a time
FIRST = 10**9  # stamp of the first sample in a bag: ROS takes zero for no time at all [ns]
JOINT_STATE = "sensor_msgs/msg/JointState"


def save_recording(recording: Recording, path: Path, settings: Mapping[str, object] | None = None) -> Path:
    """Write a recording as CSV, NPZ or MCAP by the suffix of the path; see `Recording.save`."""
    name = path.name.lower()
    made = {} if settings is None else {"settings": dict(settings)}
    if not name.endswith((".npz", ".csv", ".csv.gz", ".mcap")):
        raise OutputError(f"cannot write a recording as '{path.name}'; expected .csv, .csv.gz, .npz or .mcap",
                          path=str(path))
    with replacing(path) as handle:
        if name.endswith(".npz"):
            _write_npz(recording, handle, made)
        elif name.endswith(".mcap"):
            _write_mcap(recording, handle, made)
        elif name.endswith(".csv"):
            _write_csv(recording, handle, made)
        else:
            with gzip.GzipFile(filename="", fileobj=handle, mode="wb", compresslevel=4, mtime=0) as inner:
                _write_csv(recording, inner, made)  # type: ignore[arg-type]
    return path


def _write_csv(recording: Recording, handle: IO[bytes], made: Mapping[str, object]) -> None:
    groups = list(recording.groups())
    header = ["time [s]"] + [f"{name}.{kind} [{unit}]" for kind, c in groups for name, unit in zip(c.names, c.units)]
    facts = {"payload": recording.payload, "period_samples": recording.period_samples, **made}
    handle.write(f"# {MARK} {FORMAT} {json.dumps(facts)}\n".encode())
    quoted = ['"' + name.replace('"', '""') + '"' if set(name) & set(',"\n\r') else name for name in header]
    handle.write((",".join(quoted) + "\n").encode())
    line = ",".join(["%r"] * len(header)) + "\n"  # repr: the shortest digits that read back the same
    for start in range(0, len(recording), ROWS):
        part = slice(start, start + ROWS)
        table = np.column_stack([recording.time[part], *(c.values[part] for _, c in groups)])
        handle.write((line * len(table) % tuple(table.ravel().tolist())).encode())


def _write_npz(recording: Recording, handle: IO[bytes], made: Mapping[str, object]) -> None:
    groups = dict(recording.groups())
    facts = {
        "format": MARK, "version": FORMAT, "joints": recording.joints, "payload": recording.payload,
        "period_samples": recording.period_samples,
        "columns": {kind: {"names": c.names, "units": c.units} for kind, c in groups.items()}, **made,
    }
    # Row by row: long recordings are read in blocks.
    np.savez(handle, allow_pickle=False, facts=np.array(json.dumps(facts)), time=recording.time,
             **{kind: np.ascontiguousarray(c.values) for kind, c in groups.items()})


def _write_mcap(recording: Recording, handle: IO[bytes], made: Mapping[str, object]) -> None:
    """Write `/joint_states`, each other kind of columns as positions of a topic of its name, and facts at `/gough`."""
    rosbag2, typesys = (needed(f"rosbags.{part}", "ros") for part in ("rosbag2", "typesys"))
    store = typesys.get_typestore(typesys.Stores.LATEST)
    stamp, header, state = (store.types[name] for name in (
        "builtin_interfaces/msg/Time", "std_msgs/msg/Header", JOINT_STATE))
    kinds, empty = ("position", "velocity", "effort"), np.zeros((len(recording), 0))
    groups = dict(recording.groups())
    topics = {"/joint_states": (recording.joints, [groups[k].values if k in groups else empty for k in kinds])}
    topics |= {f"/{kind}": (c.names, [c.values, empty, empty]) for kind, c in groups.items() if kind not in kinds}
    facts = {"payload": recording.payload, "period_samples": recording.period_samples, **made}
    with TemporaryDirectory() as folder:
        with rosbag2.Writer(Path(folder) / "log", version=9, storage_plugin=rosbag2.StoragePlugin.MCAP) as bag:
            about = bag.add_connection("/gough", "std_msgs/msg/String", typestore=store)
            bag.write(about, FIRST, store.serialize_cdr(store.types[about.msgtype](data=json.dumps(facts)),
                                                        about.msgtype))
            connections = {topic: bag.add_connection(topic, JOINT_STATE, typestore=store) for topic in topics}
            for k, t in enumerate(recording.time - recording.time[0]):
                now = FIRST + round(t * 1e9)
                at = header(stamp=stamp(sec=now // 10**9, nanosec=now % 10**9), frame_id="")
                for topic, (names, values) in topics.items():
                    message = state(at, list(names), *(column[k].copy() for column in values))
                    bag.write(connections[topic], now, store.serialize_cdr(message, JOINT_STATE))
        with next(Path(folder).glob("log/*.mcap")).open("rb") as bagged:
            copyfileobj(bagged, handle)
