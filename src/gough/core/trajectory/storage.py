"""Reading stored trajectories."""

from __future__ import annotations

import csv
import os
import re
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from gough.core.documents import parse_json
from gough.core.errors import GoughError, InvalidTrajectory
from gough.core.trajectory.base import FORMAT, Trajectory
from gough.core.trajectory.curves import Eased, Fourier, Sampled

KINDS: dict[str, type[Trajectory]] = {cls.kind: cls for cls in (Fourier, Sampled, Eased)}


def trajectory_from_dict(content: Mapping[str, Any]) -> Trajectory:
    """Undo `Trajectory.to_dict`; `settings`, by which it was designed, are for people."""
    if content.get("format") != FORMAT:
        raise InvalidTrajectory(f"trajectory format is {content.get('format')!r}, expected {FORMAT}")
    cls = KINDS.get(str(content.get("kind")))
    if cls is None:
        raise InvalidTrajectory(f"trajectory kind is {content.get('kind')!r}, expected one of {', '.join(KINDS)}")
    values = {key: value for key, value in content.items() if key not in ("format", "kind", "settings")}
    known = {f.name for f in fields(cls)}
    if set(values) != known:
        raise InvalidTrajectory(f"a {cls.kind} trajectory has the keys {', '.join(sorted(known))}; missing: "
                                f"{sorted(known - set(values))}, unknown: {sorted(set(values) - known)}")
    try:
        if "base" in values:
            values["base"] = trajectory_from_dict(values["base"])
        return cls(**values)
    except (TypeError, ValueError, AttributeError) as error:
        raise InvalidTrajectory(f"a value of the {cls.kind} trajectory cannot be read: {error}") from error


def load_trajectory(path: str | os.PathLike[str], *, robot: str | None = None) -> Trajectory:
    """Read what `Trajectory.save` or `Trajectory.to_csv` wrote.

    Args:
        path: JSON file, or a table (.csv) with units in its header.
        robot: Name of the robot it must have been made for, if any.
    """
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
        if Path(path).suffix.lower() == ".csv":
            return _from_table(text, robot or "")
        content = parse_json(text)
        if not isinstance(content, dict):
            raise InvalidTrajectory("the file holds no trajectory")
        trajectory = trajectory_from_dict(content)
    except OSError as error:
        raise InvalidTrajectory(f"cannot read '{path}': {error.strerror}", path=path) from error
    except (ValueError, RecursionError) as error:
        raise InvalidTrajectory(f"'{path}' is neither JSON nor a table: {error}", path=path) from error
    except GoughError as error:
        raise InvalidTrajectory(f"'{path}': {error}", path=path) from error
    if robot is not None and trajectory.robot and trajectory.robot != robot:
        raise InvalidTrajectory(f"'{path}' was made for the robot '{trajectory.robot}', not for '{robot}'", path=path)
    return trajectory


def _from_table(text: str, robot: str) -> Sampled:
    """Undo `Trajectory.to_csv`: the curve through its lines, from the first to the last."""
    header, *lines = csv.reader(text.splitlines())
    column = {name.strip(): k for k, name in enumerate(header)}
    marks = [re.fullmatch(r"(.+)\.position \[(m|rad)\]", name) for name in column]
    found = [(mark[1], mark[2]) for mark in marks if mark is not None]
    if not found or "time [s]" not in column:
        raise InvalidTrajectory("the table has no columns 'time [s]' and 'NAME.position [m or rad]'; it has "
                                + ", ".join(f"'{name}'" for name in list(column)[:6]))
    table = np.array([[float(cell) for cell in line] for line in lines if line])

    parts: dict[str, Any] = {}
    for word, per in (("position", ""), ("velocity", "/s"), ("acceleration", "/s2")):
        names = [f"{name}.{word} [{unit}{per}]" for name, unit in found]
        if set(names) <= set(column):
            parts[word] = table[:, [column[name] for name in names]]
    if len(parts) == 2:  # one derivative alone is not used: the curve through the positions has its own
        parts = {"position": parts["position"]}
    time = table[:, column["time [s]"]]
    return Sampled(coordinates=tuple(name for name, _ in found), units=tuple(unit for _, unit in found), robot=robot,
                   time=time - time[0], **parts)
