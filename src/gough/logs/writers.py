"""Recordings as files: self-describing CSV and NPZ."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from pathlib import Path
from typing import IO

import numpy as np

from gough.core.errors import OutputError
from gough.core.files import replacing
from gough.logs.recording import Recording

FORMAT = 1
MARK = "gough-recording"
ROWS = 4096  # written at a time


def save_recording(recording: Recording, path: Path, settings: Mapping[str, object] | None = None) -> Path:
    """Write a recording as CSV or NPZ by the suffix of the path; see `Recording.save`."""
    name = path.name.lower()
    made = {} if settings is None else {"settings": dict(settings)}
    if not name.endswith((".npz", ".csv", ".csv.gz")):
        raise OutputError(f"cannot write a recording as '{path.name}'; expected .csv, .csv.gz or .npz", path=str(path))
    with replacing(path) as handle:
        if name.endswith(".npz"):
            _write_npz(recording, handle, made)
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
    # Stored, not compressed: long recordings are read slice by slice.
    np.savez(handle, allow_pickle=False, facts=np.array(json.dumps(facts)), time=recording.time,
             **{kind: c.values for kind, c in groups.items()})
