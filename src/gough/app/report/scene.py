"""The three-dimensional pictures: a moving robot as points, lines and plates for the script."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise, product
from typing import Any

import numpy as np
from scipy.interpolate import Akima1DInterpolator

from gough.core.arrays import FloatArray
from gough.engine import Model
from gough.engine.kinematics import ClosedChain
from gough.identification import Fit
from gough.mechanism.closures import CLOSURES
from gough.mechanism.types import BASE, Joint, Mechanism

# integer steps from the centre to the far end of a picture
SCENE_STEPS = 20000
PATH_POINTS = 700  # most points of a drawn path
SMALLEST_ROBOT = 1e-9  # extent below which all joints meet in one point [m]
# distance below which points are one, relative to the robot's size
SAME_POINT = 1e-6
# largest move of a point between two frames, relative to the robot's
# size
FRAME_STRIDE = 0.04
MOST_FRAMES = 160  # of the moving picture
FEWEST_FRAMES = 24
SHORTEST_FRAME = 0.005  # [s]
LONGEST_FRAME = 0.1  # [s]
SURVEY_POSES = 400  # poses from which the speed of the robot is found
TRIAD_LENGTH = 0.09  # of the axes at the tool, relative to the robot's size
FLATNESS = 0.02  # ratio of extents below which points are planar or in a line
PLATE_FLATNESS = 0.05  # the same for the corners of a plate


def robot_scene(model: Model, fit: Fit) -> dict[str, Any]:
    """Return the moving picture of a robot along a log, in axes whose third points up."""
    times, q = frames(model, fit.time, fit.q)
    drawn = skeleton(model.kinematics, model.load_body, q)
    triad = TRIAD_LENGTH * drawn.size * np.swapaxes(drawn.turn, 1, 2)
    tips = drawn.points[:, [drawn.tool]] + triad
    axes = upright(model.mechanism.gravity)
    points = np.concatenate([drawn.points, tips], axis=1) @ axes.T
    path = tool_path(model, fit) @ axes.T
    packing = _Packing.of(np.concatenate([points.reshape(-1, 3), path]))
    count = drawn.points.shape[1]
    return {
        "kind": "robot",
        "frames": len(times),
        "count": points.shape[1],
        "start": float(times[0]),
        "step": float(np.diff(times[:2]).sum()) or 1.0,
        "whole": bool(times[-1] >= fit.time[-1] - 1e-9),
        "points": packing.pack(points),
        "path": packing.pack(path),
        "links": [list(link) for link in drawn.links],
        "plates": [[list(ring), kind] for ring, kind in drawn.plates],
        "dots": [list(dot) for dot in drawn.dots],
        "tool": drawn.tool,
        "triad": [count, count + 1, count + 2],
        "size": drawn.size / packing.scale,
        "view": view_angles(points.reshape(-1, 3)),
    }


def path_scene(model: Model, fits: Sequence[Fit]) -> dict[str, Any]:
    """Return the tool paths in the base frame, with their extent. [m]"""
    axes = upright(model.mechanism.gravity)
    paths = [tool_path(model, fit) for fit in fits]
    points = np.concatenate(paths)
    low = points.min(axis=0)
    high = points.max(axis=0)
    corners = np.array(list(product(*zip(low, high))))
    turned = [path @ axes.T for path in paths]
    packing = _Packing.of(np.concatenate(turned))
    return {
        "kind": "paths",
        "paths": [packing.pack(path) for path in turned],
        "held_out": [fit.held_out for fit in fits],
        "box": packing.pack(corners @ axes.T),
        "extent": [float(length) for length in high - low],
        "size": 2.0,
        "view": view_angles(np.concatenate(turned)),
    }


def tool_path(model: Model, fit: Fit) -> FloatArray:
    """Return the positions of the tool, thinned evenly in time, (t, 3). [m]"""
    duration = float(fit.time[-1] - fit.time[0])
    kept = thin(fit.time, duration / PATH_POINTS)
    bodies = [body.name for body in model.mechanism.bodies]
    _, origins = model.kinematics.body_poses(np.ascontiguousarray(fit.q[kept]))
    return np.asarray(origins[:, bodies.index(model.load_body)])


@dataclass(frozen=True, kw_only=True, eq=False)
class _Packing:
    """Writes points as 16-bit integers about a centre, little endian in base 64."""

    centre: FloatArray  # (3,) [m]
    scale: float  # distance that `SCENE_STEPS` steps are [m]

    @classmethod
    def of(cls, points: FloatArray) -> _Packing:
        """Return the packing that fits points, (k, 3). [m]"""
        low = points.min(axis=0)
        high = points.max(axis=0)
        half = float((high - low).max()) / 2
        return cls(centre=(low + high) / 2, scale=max(half, 1e-9))

    def pack(self, points: FloatArray) -> str:
        """Return points (..., 3) as text. [m]"""
        steps = np.rint((points - self.centre) / self.scale * SCENE_STEPS)
        return base64.b64encode(steps.astype("<i2").tobytes()).decode("ascii")


def view_angles(points: FloatArray) -> list[float]:
    """Return azimuth and elevation to look from: a planar robot is seen nearly face on. [rad]"""
    centred = points - points.mean(axis=0)
    moments, axes = np.linalg.eigh(centred.T @ centred)
    extent = np.sqrt(np.maximum(moments, 0.0))  # ascending
    threshold = FLATNESS * extent[2]
    if extent[0] > threshold or extent[1] <= threshold:
        return [-1.0, 0.3]
    normal = axes[:, 0]
    if abs(normal[2]) > 0.7:
        return [-1.2, 1.1]
    if normal[1] > 0 or (normal[1] == 0 and normal[0] < 0):
        normal = -normal
    return [float(np.arctan2(normal[1], normal[0])) + 0.35, 0.2]


@dataclass(frozen=True, kw_only=True, eq=False)
class Skeleton:
    """Points of a robot along a motion, and the lines and plates between them."""

    points: FloatArray  # in the base frame, (t, k, 3) [m]
    # two points and the kind: `body`, massless `rod`, or the `slide` of
    # a prismatic joint
    links: tuple[tuple[int, int, str], ...]
    # closed polygons: `base`, `platform`
    plates: tuple[tuple[tuple[int, ...], str], ...]
    dots: tuple[tuple[int, str], ...]  # `motor`, `joint`
    tool: int  # point of the tool
    turn: FloatArray  # orientation of the tool, (t, 3, 3)

    @property
    def size(self) -> float:
        """Largest extent of the robot in one pose. [m]"""
        return float((self.points.max(axis=1) - self.points.min(axis=1)).max())


def skeleton(chain: ClosedChain, tool: str, q: FloatArray) -> Skeleton:
    """Draw a robot at configurations (t, n).

    Each body joins the origins of its joints and its closure points.
    Virtual joints of the platform are not drawn. Points that coincide
    throughout are one. The bodies of a wrist whose joints all meet in
    one point are drawn from there to their centres of mass.
    """
    mechanism = chain.loops.mechanism
    joints = _drawn_joints(mechanism)
    anchors = _anchors(mechanism, joints)
    poses = _Poses.of(chain, q)
    if poses.extent(anchors) < SMALLEST_ROBOT:
        _add_centres_of_mass(anchors, mechanism)
    points = _PointSet(poses=poses, tolerance=SAME_POINT * poses.extent(anchors))
    links, plates = _draw_bodies(mechanism, anchors, points)
    dots: dict[int, str] = {}
    for joint in joints:
        start = points.index(joint.parent, joint.placement.translation)
        end = points.index(joint.child, np.zeros(3))
        if start != end:
            links.setdefault((start, end), "slide")
        if joint.actuated or start not in dots:
            dots[start] = "motor" if joint.actuated else "joint"
    for closure in mechanism.closures:
        ends = [points.index(frame.body, frame.placement.translation) for frame in closure.frames]
        if ends and ("length" in closure.values or CLOSURES[closure.kind].measures_length):
            links[ends[0], ends[1]] = "rod"
        for end in ends:
            dots.setdefault(end, "joint")
    tool_point = points.index(tool, np.zeros(3))
    return Skeleton(
        points=np.stack(points.known, axis=1),
        links=tuple((a, b, kind) for (a, b), kind in links.items()),
        plates=tuple(plates),
        dots=tuple(dots.items()),
        tool=tool_point,
        turn=poses.rotations[:, poses.body[tool]],
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class _Poses:
    """Poses of all bodies of a robot along a motion."""

    rotations: FloatArray  # (t, bodies, 3, 3)
    origins: FloatArray  # (t, bodies, 3) [m]
    body: dict[str, int]  # position of each body, by name

    @classmethod
    def of(cls, chain: ClosedChain, q: FloatArray) -> _Poses:
        """Return the poses at configurations (t, n)."""
        rotations, origins = chain.body_poses(np.ascontiguousarray(q))
        names = [body.name for body in chain.loops.mechanism.bodies]
        body = {name: k for k, name in enumerate(names)}
        return cls(rotations=rotations, origins=origins, body=body)

    def world(self, body: str, local: FloatArray) -> FloatArray:
        """Return a point of a body in the base frame, (t, 3). [m]"""
        if body == BASE:
            return np.tile(local, (len(self.origins), 1))
        k = self.body[body]
        return np.asarray(self.origins[:, k] + self.rotations[:, k] @ local)

    def extent(self, anchors: dict[str, list[FloatArray]]) -> float:
        """Return the largest extent of points of bodies over all poses. [m]"""
        points = []
        for body, local in anchors.items():
            points += [self.world(body, point) for point in local]
        return float(np.ptp(np.concatenate(points), axis=0).max())


@dataclass(frozen=True, kw_only=True, eq=False)
class _PointSet:
    """Points of a robot; those that coincide in all poses are one."""

    poses: _Poses
    tolerance: float  # [m]
    known: list[FloatArray] = field(default_factory=list)  # each (t, 3) [m]

    def index(self, body: str, local: FloatArray) -> int:
        """Return the number of a point of a body; a new point is added."""
        point = self.poses.world(body, local)
        for k, known in enumerate(self.known):
            if np.abs(point - known).max() <= self.tolerance:
                return k
        self.known.append(point)
        return len(self.known) - 1


def _drawn_joints(mechanism: Mechanism) -> list[Joint]:
    """Return the joints except virtual ones of a platform and those that stand for forces."""
    real = [joint for joint in mechanism.joints if not joint.virtual]
    return [joint for joint in real if joint.name not in mechanism.forces]


def _anchors(mechanism: Mechanism, joints: Sequence[Joint]) -> dict[str, list[FloatArray]]:
    """Return the points where each body meets its neighbours, in its frame. [m]"""
    hidden = {joint.child for joint in mechanism.joints if joint.virtual} | set(mechanism.forces)
    hidden -= {mechanism.platform}
    anchors: dict[str, list[FloatArray]] = {BASE: []}
    for body in mechanism.bodies:
        if body.name not in hidden:
            anchors[body.name] = [np.zeros(3)]
    for joint in joints:
        anchors[joint.parent].append(joint.placement.translation)
    for closure in mechanism.closures:
        for frame in closure.frames:
            anchors[frame.body].append(frame.placement.translation)
    return anchors


def _add_centres_of_mass(anchors: dict[str, list[FloatArray]], mechanism: Mechanism) -> None:
    """Add the centre of mass of each body whose values in the robot file determine it."""
    for body in mechanism.bodies:
        mass = body.values.get("m", 0.0)
        if body.name in anchors and mass > 0:
            moments = [body.values.get(name, 0.0) for name in ("mx", "my", "mz")]
            anchors[body.name].append(np.array(moments) / mass)


def _draw_bodies(
    mechanism: Mechanism,
    anchors: dict[str, list[FloatArray]],
    points: _PointSet,
) -> tuple[dict[tuple[int, int], str], list[tuple[tuple[int, ...], str]]]:
    """Return the links by their two points, and the plates of base and platform."""
    links: dict[tuple[int, int], str] = {}
    plates = []
    for body, local in anchors.items():
        members = list(dict.fromkeys(points.index(body, point) for point in local))
        corners = members if body == BASE else members[1:]
        order: list[int] = []
        if body in (BASE, mechanism.platform):
            order = _around(np.array([points.known[k][0] for k in corners]))
        if order:
            ring = tuple(corners[k] for k in order)
            plates.append((ring, "base" if body == BASE else "platform"))
        elif body == BASE:
            links |= dict.fromkeys(pairwise(corners), "base")
        else:
            links |= {(members[0], k): "body" for k in members[1:]}
    return links, plates


def _around(points: FloatArray) -> list[int]:
    """Return the order of points around their centre, seen along the normal of their plane.

    It is empty for points in a line.
    """
    if len(points) < 3:
        return []
    centred = points - points.mean(axis=0)
    _, extent, axes = np.linalg.svd(centred)
    if extent[1] <= PLATE_FLATNESS * extent[0]:
        return []
    angle = np.arctan2(centred @ axes[1], centred @ axes[0])
    order: list[int] = np.argsort(angle).tolist()
    return order


def frames(model: Model, time: FloatArray, q: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return evenly spaced times (f,) and configurations (f, n) for a moving picture of a log.

    No point moves farther between two frames than a small fraction of
    the robot; of a log too long for the number of frames the beginning
    is shown. Samples that the log lacks are interpolated (modified
    Akima).
    """
    if len(time) < 3:
        return time, q
    step = _frame_step(model, time, q)
    duration = float(time[-1] - time[0])
    count = int(min(max(duration / step + 1, FEWEST_FRAMES), MOST_FRAMES))
    shown = min(duration, max((MOST_FRAMES - 1) * step, 0.5))
    times = np.linspace(time[0], time[0] + shown, count)
    knots = thin(time, (times[1] - times[0]) / 2)
    curve = Akima1DInterpolator(time[knots], q[knots], method="makima")
    return times, np.asarray(curve(times))


def _frame_step(model: Model, time: FloatArray, q: FloatArray) -> float:
    """Return the time between two frames of a moving picture. [s]"""
    every = max(1, len(q) // SURVEY_POSES)
    survey = skeleton(model.kinematics, model.load_body, q[::every])
    moves = np.linalg.norm(np.diff(survey.points, axis=0), axis=2).max(axis=1)
    speeds = moves / np.maximum(np.diff(time[::every]), 1e-9)
    fastest = float(np.quantile(speeds, 0.95)) / max(survey.size, 1e-12)  # [1/s]
    return min(max(FRAME_STRIDE / max(fastest, 1e-12), SHORTEST_FRAME), LONGEST_FRAME)


def thin(time: FloatArray, gap: float) -> list[int]:
    """Return samples at least `gap` apart, first and last included."""
    last = len(time) - 1
    kept = [0]
    while kept[-1] < last:
        beyond_gap = int(np.searchsorted(time, time[kept[-1]] + gap))
        kept.append(min(max(beyond_gap, kept[-1] + 1), last))
    return kept


def upright(gravity: Iterable[float]) -> FloatArray:
    """Return the axes of the picture, (3, 3): two level ones, then up, against gravity."""
    down = np.array(tuple(gravity), dtype=float)
    norm = np.linalg.norm(down)
    up = -down / norm if norm > 0 else np.array([0.0, 0.0, 1.0])
    seed = np.array([1.0, 0.0, 0.0]) if abs(up[0]) < 0.9 else np.array([0.0, 1.0, 0.0])
    first = seed - up * (seed @ up)
    first /= np.linalg.norm(first)
    return np.stack([first, np.cross(up, first), up])
