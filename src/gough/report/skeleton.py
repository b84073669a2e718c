"""A robot as points, lines and plates that move: what the moving picture shows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from scipy.interpolate import Akima1DInterpolator

from gough.core.arrays import FloatArray
from gough.engine import Model
from gough.engine.kinematics import ClosedChain
from gough.mechanism.closures import CLOSURES
from gough.mechanism.types import BASE, Mechanism

SAME = 1e-6  # points nearer than this, relative to the robot's size, are one
STRIDE = 0.04  # largest move of a point between two frames, relative to the robot's size
FRAMES = 160  # most frames of the moving picture


@dataclass(frozen=True, kw_only=True, eq=False)
class Skeleton:
    """Points of a robot along a motion and how to join them.

    Args:
        points: In the base frame, (t, k, 3). [m]
        links: Pairs of points with their kind: `body`, `rod` (massless) or `slide` (of a prismatic joint).
        plates: Closed polygons with their kind: `base` or `platform`.
        dots: Points with their kind: `motor` or `joint`.
        tool: Index of the tool point.
        turn: Orientation of the tool, (t, 3, 3).
    """

    points: FloatArray
    links: tuple[tuple[int, int, str], ...]
    plates: tuple[tuple[tuple[int, ...], str], ...]
    dots: tuple[tuple[int, str], ...]
    tool: int
    turn: FloatArray

    @property
    def size(self) -> float:
        """Largest extent of the robot in one pose. [m]"""
        return float((self.points.max(axis=1) - self.points.min(axis=1)).max())


def skeleton(chain: ClosedChain, tool: str, q: FloatArray) -> Skeleton:
    """Draw a robot at configurations (t, n): each body joins the origins of its joints and its closure points.

    Virtual joints of the platform are not drawn. Points that coincide throughout are one.
    """
    mechanism = chain.loops.mechanism
    rotations, origins = chain.body_poses(np.ascontiguousarray(q))
    place = {body.name: k for k, body in enumerate(mechanism.bodies)}

    def world(body: str, local: FloatArray) -> FloatArray:
        if body == BASE:
            return np.tile(local, (len(q), 1))
        return np.asarray(origins[:, place[body]] + rotations[:, place[body]] @ local)

    anchors = _anchors(mechanism)
    found: list[FloatArray] = []
    size = float(np.ptp(np.concatenate([world(b, p) for b, local in anchors.items() for p in local]), axis=0).max())

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
        if body in (BASE, mechanism.platform) and _is_plane(np.stack([found[k][0] for k in corners] or [np.zeros(3)])):
            ring = _around(np.stack([found[k][0] for k in corners]))
            plates.append((tuple(corners[k] for k in ring), "base" if body == BASE else "platform"))
        elif body == BASE:
            links |= {(a, b): "base" for a, b in pairwise(corners)}
        else:
            links |= {(members[0], k): "body" for k in members[1:]}
    dots: dict[int, str] = {}
    for joint in mechanism.joints:
        if joint.virtual or joint.name in mechanism.forces:
            continue
        start, end = index(joint.parent, joint.placement.translation), index(joint.child, np.zeros(3))
        if start != end:
            links.setdefault((start, end), "slide")
        if joint.actuated or start not in dots:
            dots[start] = "motor" if joint.actuated else "joint"
    for closure in mechanism.closures:
        if not closure.frames:
            continue
        a, b = (index(frame.body, frame.placement.translation) for frame in closure.frames)
        if "length" in closure.values or CLOSURES[closure.kind].measures:
            links[a, b] = "rod"
        for k in (a, b):
            dots.setdefault(k, "joint")
    return Skeleton(points=np.stack(found, axis=1), links=tuple((a, b, kind) for (a, b), kind in links.items()),
                    plates=tuple(plates), dots=tuple(dots.items()), tool=index(tool, np.zeros(3)),
                    turn=rotations[:, place[tool]])


def _anchors(mechanism: Mechanism) -> dict[str, list[FloatArray]]:
    """Return where each body meets its neighbours, in its own frame, its origin first; not for virtual bodies."""
    carried = {joint.child: joint for joint in mechanism.joints}
    anchors = {body.name: [np.zeros(3)] for body in mechanism.bodies
               if body.name == mechanism.platform
               or not (carried[body.name].virtual or body.name in mechanism.forces)}
    anchors = {BASE: []} | anchors
    for joint in mechanism.joints:
        if not joint.virtual and joint.name not in mechanism.forces:
            anchors[joint.parent].append(joint.placement.translation)
    for closure in mechanism.closures:
        for frame in closure.frames:
            anchors[frame.body].append(frame.placement.translation)
    return anchors


def _is_plane(points: FloatArray) -> bool:
    """Tell whether points span an area and not only a line."""
    values = np.linalg.svd(points - points.mean(axis=0), compute_uv=False)
    return bool(len(points) >= 3 and values[1] > 0.05 * values[0])


def _around(points: FloatArray) -> list[int]:
    """Return the order of points around their centre, seen along their plane's normal."""
    centred = points - points.mean(axis=0)
    axes = np.linalg.svd(centred)[2]
    return [int(k) for k in np.argsort(np.arctan2(centred @ axes[1], centred @ axes[0]))]


def frames(model: Model, time: FloatArray, q: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return evenly spaced times (f,) and configurations (f, n) for a moving picture of a log from its beginning.

    No point moves farther between two frames than a small part of the robot; a log too long for the number of frames is
    shown in part. Samples the log lacks are bridged smoothly (modified Akima).
    """
    if len(time) < 3:
        return time, q
    rough = skeleton(model.kinematics, model.load_body, q[:: max(1, len(q) // 400)])
    times = time[:: max(1, len(q) // 400)]
    steps = np.linalg.norm(np.diff(rough.points, axis=0), axis=2).max(axis=1) / np.maximum(np.diff(times), 1e-9)
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
    for k in range(1, len(time)):
        if time[k] - time[kept[-1]] >= gap:
            kept.append(k)
    if kept[-1] != len(time) - 1:
        kept.append(len(time) - 1)
    return kept


def upright(gravity: Iterable[float]) -> FloatArray:
    """Return the axes of the picture, (3, 3): two level ones, then up, against gravity."""
    down = np.array(tuple(gravity), dtype=float)
    up = -down / np.linalg.norm(down) if np.linalg.norm(down) > 0 else np.array([0.0, 0.0, 1.0])
    seed = np.array([1.0, 0.0, 0.0]) if abs(up[0]) < 0.9 else np.array([0.0, 1.0, 0.0])
    first = seed - up * (seed @ up)
    first /= np.linalg.norm(first)
    return np.stack([first, np.cross(up, first), up])
