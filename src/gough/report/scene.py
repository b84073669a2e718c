"""The three-dimensional pictures as data for the page's script."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any

import numpy as np

from gough.core.arrays import FloatArray
from gough.engine import Model
from gough.identification import Fit
from gough.report.skeleton import frames, skeleton, thin, upright

RANGE = 20000  # integer steps from the centre to the far end of a picture
PATH = 700  # most points of a drawn path


def robot_scene(model: Model, fit: Fit) -> dict[str, Any]:
    """Return the moving picture of a robot along a log, in axes whose third points up."""
    times, q = frames(model, fit.time, fit.q)
    drawn = skeleton(model.kinematics, model.load_body, q)
    tool = drawn.points[:, [drawn.tool]]
    tips = tool + 0.09 * drawn.size * np.swapaxes(drawn.turn, 1, 2)
    path = tool_path(model, fit)
    axes = upright(model.mechanism.gravity)
    points, way = np.concatenate([drawn.points, tips], axis=1) @ axes.T, path @ axes.T
    centre, scale = _frame_of(np.concatenate([points.reshape(-1, 3), way]))
    count = drawn.points.shape[1]
    return {
        "kind": "robot", "frames": len(times), "count": points.shape[1], "start": float(times[0]),
        "step": float(np.diff(times[:2]).sum()) or 1.0,
        "whole": bool(times[-1] >= fit.time[-1] - 1e-9),
        "points": _pack((points - centre) / scale), "path": _pack((way - centre) / scale),
        "links": [list(link) for link in drawn.links], "plates": [[list(ring), kind] for ring, kind in drawn.plates],
        "dots": [list(dot) for dot in drawn.dots], "tool": drawn.tool, "triad": [count, count + 1, count + 2],
        "size": drawn.size / scale, "view": _view(points.reshape(-1, 3)),
    }


def path_scene(model: Model, fits: Sequence[Fit]) -> dict[str, Any]:
    """Return the ways of the tool in the base frame, with their extent. [m]"""
    axes = upright(model.mechanism.gravity)
    paths = [tool_path(model, fit) for fit in fits]
    low, high = (np.stack([edge(p, axis=0) for p in paths]) for edge in (np.min, np.max))
    low, high = low.min(axis=0), high.max(axis=0)
    turned = [path @ axes.T for path in paths]
    centre, scale = _frame_of(np.concatenate(turned))
    corners = np.array([[(low, high)[i][0], (low, high)[j][1], (low, high)[k][2]]
                        for i in (0, 1) for j in (0, 1) for k in (0, 1)]) @ axes.T
    return {
        "kind": "paths", "paths": [_pack((path - centre) / scale) for path in turned],
        "held_out": [fit.held_out for fit in fits], "box": _pack((corners - centre) / scale),
        "extent": [float(x) for x in high - low], "size": 2.0, "view": _view(np.concatenate(turned)),
    }


def tool_path(model: Model, fit: Fit) -> FloatArray:
    """Return where the tool was, thinned evenly in time, (t, 3). [m]"""
    kept = thin(fit.time, float(fit.time[-1] - fit.time[0]) / PATH) if len(fit.time) > 1 else [0]
    bodies = [body.name for body in model.mechanism.bodies]
    origins = model.kinematics.body_poses(np.ascontiguousarray(fit.q[kept]))[1]
    return np.asarray(origins[:, bodies.index(model.load_body)])


def _frame_of(points: FloatArray) -> tuple[FloatArray, float]:
    low, high = points.min(axis=0), points.max(axis=0)
    return (low + high) / 2, max(float((high - low).max()) / 2, 1e-9)


def _view(points: FloatArray) -> list[float]:
    """Return azimuth and elevation to look from: a planar robot is seen nearly face on. [rad]"""
    centred = points - points.mean(axis=0)
    moments, axes = np.linalg.eigh(centred.T @ centred)
    spread = np.sqrt(np.maximum(moments, 0.0))  # ascending
    if spread[0] > 0.02 * spread[2] or spread[1] <= 0.02 * spread[2]:
        return [-1.0, 0.3]
    normal = axes[:, 0]
    if abs(normal[2]) > 0.7:
        return [-1.2, 1.1]
    if normal[1] > 0 or (normal[1] == 0 and normal[0] < 0):
        normal = -normal
    return [float(np.arctan2(normal[1], normal[0])) + 0.35, 0.2]


def _pack(values: FloatArray) -> str:
    """Return numbers between -1.6 and 1.6 as 16-bit integers, little endian, in base 64."""
    return base64.b64encode(np.rint(values * RANGE).astype("<i2").tobytes()).decode("ascii")
