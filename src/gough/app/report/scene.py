"""The three-dimensional pictures: a robot as points, lines and plates that move, as data for the
page's script.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from typing import Any

import numpy as np
from scipy.interpolate import Akima1DInterpolator

from gough.core.arrays import FloatArray
from gough.engine import Model
from gough.engine.kinematics import ClosedChain
from gough.identification import Fit
from gough.mechanism.closures import CLOSURES
from gough.mechanism.types import BASE

RANGE = 20000  # integer steps from the centre to the far end of a picture
PATH = 700  # most points of a drawn path
SAME = 1e-6  # points nearer than this, relative to the robot's size, are one
STRIDE = 0.04  # largest move of a point between two frames, relative to the robot's size
FRAMES = 160  # most frames of the moving picture


def robot_scene(model: Model, fit: Fit) -> dict[str, Any]:
    """Return the moving picture of a robot along a log, in axes whose third points up."""
    times, q = frames(model, fit.time, fit.q)
    drawn = skeleton(model.kinematics, model.load_body, q)
    tips = drawn.points[:, [drawn.tool]] + 0.09 * drawn.size * np.swapaxes(drawn.turn, 1, 2)
    axes = upright(model.mechanism.gravity)
    points, way = (
        np.concatenate([drawn.points, tips], axis=1) @ axes.T,
        tool_path(model, fit) @ axes.T,
    )
    pack, scale = _packing(np.concatenate([points.reshape(-1, 3), way]))
    count = drawn.points.shape[1]
    return {
        "kind": "robot",
        "frames": len(times),
        "count": points.shape[1],
        "start": float(times[0]),
        "step": float(np.diff(times[:2]).sum()) or 1.0,
        "whole": bool(times[-1] >= fit.time[-1] - 1e-9),
        "points": pack(points),
        "path": pack(way),
        "links": [list(link) for link in drawn.links],
        "plates": [[list(ring), kind] for ring, kind in drawn.plates],
        "dots": [list(dot) for dot in drawn.dots],
        "tool": drawn.tool,
        "triad": [count, count + 1, count + 2],
        "size": drawn.size / scale,
        "view": _view(points.reshape(-1, 3)),
    }


def path_scene(model: Model, fits: Sequence[Fit]) -> dict[str, Any]:
    """Return the ways of the tool in the base frame, with their extent. [m]"""
    axes = upright(model.mechanism.gravity)
    paths = [tool_path(model, fit) for fit in fits]
    low, high = (edge(np.concatenate(paths), axis=0) for edge in (np.min, np.max))
    turned = [path @ axes.T for path in paths]
    pack, _ = _packing(np.concatenate(turned))
    return {
        "kind": "paths",
        "paths": [pack(path) for path in turned],
        "held_out": [fit.held_out for fit in fits],
        "box": pack(np.array([*product(*zip(low, high))]) @ axes.T),
        "extent": [float(x) for x in high - low],
        "size": 2.0,
        "view": _view(np.concatenate(turned)),
    }


def tool_path(model: Model, fit: Fit) -> FloatArray:
    """Return where the tool was, thinned evenly in time, (t, 3). [m]"""
    kept = thin(fit.time, float(fit.time[-1] - fit.time[0]) / PATH)
    bodies = [body.name for body in model.mechanism.bodies]
    origins = model.kinematics.body_poses(np.ascontiguousarray(fit.q[kept]))[1]
    return np.asarray(origins[:, bodies.index(model.load_body)])


def _packing(points: FloatArray) -> tuple[Callable[[FloatArray], str], float]:
    """Return what writes points as 16-bit integers about the middle of all, little endian in base
    64, and its scale.
    """
    low, high = points.min(axis=0), points.max(axis=0)
    centre, scale = (low + high) / 2, max(float((high - low).max()) / 2, 1e-9)
    return lambda values: base64.b64encode(
        np.rint((values - centre) / scale * RANGE).astype("<i2").tobytes()
    ).decode("ascii"), scale


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


@dataclass(frozen=True, kw_only=True, eq=False)
class Skeleton:
    """Points of a robot along a motion and how to join them."""

    points: FloatArray  # in the base frame, (t, k, 3) [m]
    links: tuple[
        tuple[int, int, str], ...
    ]  # of a `body`, a massless `rod`, or the `slide` of a prismatic joint
    plates: tuple[tuple[tuple[int, ...], str], ...]  # closed polygons: `base`, `platform`
    dots: tuple[tuple[int, str], ...]  # `motor`, `joint`
    tool: int
    turn: FloatArray  # orientation of the tool, (t, 3, 3)

    @property
    def size(self) -> float:
        """Largest extent of the robot in one pose. [m]"""
        return float((self.points.max(axis=1) - self.points.min(axis=1)).max())


def skeleton(chain: ClosedChain, tool: str, q: FloatArray) -> Skeleton:
    """Draw a robot at configurations (t, n): each body joins the origins of its joints and its
    closure points.

    Virtual joints of the platform are not drawn. Points that coincide throughout are one.
    """
    mechanism = chain.loops.mechanism
    rotations, origins = chain.body_poses(np.ascontiguousarray(q))
    place = {body.name: k for k, body in enumerate(mechanism.bodies)}

    def world(body: str, local: FloatArray) -> FloatArray:
        if body == BASE:
            return np.tile(local, (len(q), 1))
        return np.asarray(origins[:, place[body]] + rotations[:, place[body]] @ local)

    joints = [
        joint for joint in mechanism.joints if not (joint.virtual or joint.name in mechanism.forces)
    ]
    frames = [frame for closure in mechanism.closures for frame in closure.frames]
    hidden = {joint.child for joint in mechanism.joints if joint.virtual} | set(mechanism.forces)
    hidden -= {mechanism.platform}
    anchors: dict[str, list[FloatArray]] = {
        BASE: []
    }  # where each body meets its neighbours, in its frame
    anchors |= {body.name: [np.zeros(3)] for body in mechanism.bodies if body.name not in hidden}
    for body, at in (
        *((j.parent, j.placement) for j in joints),
        *((f.body, f.placement) for f in frames),
    ):
        anchors[body].append(at.translation)
    size = float(
        np.ptp(
            np.concatenate([world(b, p) for b, local in anchors.items() for p in local]), axis=0
        ).max()
    )
    found: list[FloatArray] = []

    def index(body: str, local: FloatArray) -> int:
        point = world(body, local)
        for k, known in enumerate(found):
            if np.abs(point - known).max() <= SAME * size:
                return k
        found.append(point)
        return len(found) - 1

    links: dict[tuple[int, int], str] = {}
    plates = []
    for body, local in anchors.items():
        members = list(dict.fromkeys(index(body, p) for p in local))
        corners = members if body == BASE else members[1:]
        ring = (
            _around(np.array([found[k][0] for k in corners]))
            if body in (BASE, mechanism.platform)
            else []
        )
        if ring:
            plates.append((tuple(corners[k] for k in ring), "base" if body == BASE else "platform"))
        elif body == BASE:
            links |= {(a, b): "base" for a, b in pairwise(corners)}
        else:
            links |= {(members[0], k): "body" for k in members[1:]}
    dots: dict[int, str] = {}
    for joint in joints:
        start, end = (
            index(joint.parent, joint.placement.translation),
            index(joint.child, np.zeros(3)),
        )
        if start != end:
            links.setdefault((start, end), "slide")
        if joint.actuated or start not in dots:
            dots[start] = "motor" if joint.actuated else "joint"
    for closure in mechanism.closures:
        ends = [index(frame.body, frame.placement.translation) for frame in closure.frames]
        if ends and ("length" in closure.values or CLOSURES[closure.kind].measures_length):
            links[ends[0], ends[1]] = "rod"
        for k in ends:
            dots.setdefault(k, "joint")
    return Skeleton(
        points=np.stack(found, axis=1),
        links=tuple((a, b, kind) for (a, b), kind in links.items()),
        plates=tuple(plates),
        dots=tuple(dots.items()),
        tool=index(tool, np.zeros(3)),
        turn=rotations[:, place[tool]],
    )


def _around(points: FloatArray) -> list[int]:
    """Return the order of points around their centre, seen along their plane's normal; none of
    points in a line.
    """
    if len(points) < 3:
        return []
    centred = points - points.mean(axis=0)
    _, size, axes = np.linalg.svd(centred)
    order: list[int] = np.argsort(np.arctan2(centred @ axes[1], centred @ axes[0])).tolist()
    return order if size[1] > 0.05 * size[0] else []


def frames(model: Model, time: FloatArray, q: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return evenly spaced times (f,) and configurations (f, n) for a moving picture of a log from
    its beginning.

    No point moves farther between two frames than a small part of the robot; a log too long for the
    number of frames is shown in part. Samples the log lacks are bridged smoothly (modified Akima).
    """
    if len(time) < 3:
        return time, q
    rough = skeleton(model.kinematics, model.load_body, q[:: max(1, len(q) // 400)])
    times = time[:: max(1, len(q) // 400)]
    steps = np.linalg.norm(np.diff(rough.points, axis=0), axis=2).max(axis=1) / np.maximum(
        np.diff(times), 1e-9
    )
    fastest = float(np.quantile(steps, 0.95)) / max(rough.size, 1e-12)  # [1/s]
    step = min(max(STRIDE / max(fastest, 1e-12), 0.005), 0.1)
    length = float(time[-1] - time[0])
    count = int(min(max(length / step + 1, 24), FRAMES))
    chosen = np.linspace(time[0], time[0] + min(length, max((FRAMES - 1) * step, 0.5)), count)
    knots = thin(time, (chosen[1] - chosen[0]) / 2)
    return chosen, np.asarray(Akima1DInterpolator(time[knots], q[knots], method="makima")(chosen))


def thin(time: FloatArray, gap: float) -> list[int]:
    """Return samples at least `gap` apart, first and last included."""
    kept = [0]
    while kept[-1] < len(time) - 1:
        kept.append(
            min(max(int(np.searchsorted(time, time[kept[-1]] + gap)), kept[-1] + 1), len(time) - 1)
        )
    return kept


def upright(gravity: Iterable[float]) -> FloatArray:
    """Return the axes of the picture, (3, 3): two level ones, then up, against gravity."""
    down = np.array(tuple(gravity), dtype=float)
    up = -down / np.linalg.norm(down) if np.linalg.norm(down) > 0 else np.array([0.0, 0.0, 1.0])
    seed = np.array([1.0, 0.0, 0.0]) if abs(up[0]) < 0.9 else np.array([0.0, 1.0, 0.0])
    first = seed - up * (seed @ up)
    first /= np.linalg.norm(first)
    return np.stack([first, np.cross(up, first), up])
