"""Fixed joints: a body that one carries becomes part of the body that it sits on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import product

import numpy as np

from gough.core.arrays import FloatArray
from gough.core.inertia import transform_inertia
from gough.core.names import INERTIAL
from gough.mechanism.types import Body, Closure, Frame, Joint
from gough.mechanism.validation import invalid

FixedBodies = Mapping[str, Frame]
"""Bodies on fixed joints, by name: the frame on the parent at which each is fixed."""

# Parameters that change by less when those of an attached body are
# about 1 are not affected.
_UNAFFECTED = 1e-12


def moving_frame(frame: Frame, fixed: FixedBodies) -> Frame:
    """Return a frame on the body that it moves with."""
    passed = set[str]()
    while frame.body in fixed:
        name = frame.body
        if name in passed:
            message = f"body '{name}' is not connected to the base: fixed joints form a ring"
            raise invalid("body", name, "name", message)
        passed.add(name)
        parent = fixed[name]
        frame = Frame(body=parent.body, placement=parent.placement.then(frame.placement))
    return frame


def merge_bodies(bodies: Iterable[Body], fixed: FixedBodies) -> list[Body]:
    """Return the bodies that move, with the inertia of those fixed to them."""
    bodies = list(bodies)
    moving = {body.name: body for body in bodies if body.name not in fixed}
    for body in bodies:
        if body.name not in fixed:
            continue
        frame = moving_frame(Frame(body=body.name), fixed)
        if frame.body in moving:  # not on the base
            moving[frame.body] = _merge(moving[frame.body], body, frame.placement.matrix)
    return list(moving.values())


def attach_joint(joint: Joint, fixed: FixedBodies) -> Joint:
    """Return a joint on the body that its parent moves with."""
    if joint.child in fixed:
        raise invalid(
            "joint",
            joint.name,
            "child",
            f"body '{joint.child}' has two parents: joint '{joint.name}' and a fixed one; keep one "
            "joint and close the loop with a closure",
        )
    frame = moving_frame(Frame(body=joint.parent, placement=joint.placement), fixed)
    return replace(joint, parent=frame.body, placement=frame.placement)


def attach_closure(closure: Closure, fixed: FixedBodies) -> Closure:
    """Return a closure between bodies that move."""
    if closure.a is None or closure.b is None:
        return closure
    return replace(
        closure,
        a=moving_frame(closure.a, fixed),
        b=moving_frame(closure.b, fixed),
    )


def _merge(body: Body, attached: Body, pose: FloatArray) -> Body:
    """Return a body with the parameters and values of one that is fixed to it at a pose (4, 4)."""
    known = _affected(pose, attached.values)
    parameters = {*body.parameters, *_affected(pose, attached.parameters)}
    added = _seen_from(pose, attached.values)
    values = {}
    for name, number in zip(INERTIAL, added.tolist()):
        if name in body.values or name in known:
            values[name] = body.values.get(name, 0.0) + (number if name in known else 0.0)
    return replace(
        body,
        parameters=tuple(name for name in INERTIAL if name in parameters),
        values=values,
        box=_joint_box(body, attached, pose),
    )


def _joint_box(
    body: Body, attached: Body, pose: FloatArray
) -> tuple[float, float, float, float, float, float] | None:
    """Return a box around the boxes of a body and of one fixed to it; None if one is unknown."""
    if not attached.parameters:
        return body.box
    if body.box is None or attached.box is None:
        return None
    corners = []
    for corner in product(*zip(attached.box[:3], attached.box[3:])):
        corners.append(pose[:3, :3] @ np.array(corner) + pose[:3, 3])
    low = np.minimum(np.min(corners, axis=0), body.box[:3]).tolist()
    high = np.maximum(np.max(corners, axis=0), body.box[3:]).tolist()
    return low[0], low[1], low[2], high[0], high[1], high[2]


def _seen_from(pose: FloatArray, values: Mapping[str, float]) -> FloatArray:
    """Return ten inertial parameters about the frame in which a body's frame has this pose."""
    return transform_inertia(pose, np.array([values.get(name, 0.0) for name in INERTIAL]))


def _affected(pose: FloatArray, names: Iterable[str]) -> set[str]:
    """Return the parameters that those of an attached body contribute to."""
    names = tuple(names)
    numbers = np.random.default_rng(0).uniform(1, 2, len(names))  # no two of these cancel
    seen = _seen_from(pose, dict(zip(names, numbers)))
    return {name for name, number in zip(INERTIAL, seen) if abs(number) > _UNAFFECTED}
