"""Fixed joints: bodies that are a part of another one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from gough.core.arrays import FloatArray
from gough.core.errors import InvalidMechanism
from gough.core.inertia import seen_from
from gough.core.names import INERTIAL
from gough.mechanism.types import Body, Closure, Frame, Joint, Payload


class Welds:
    """What fixed joints carry, and where: no joint lies between a body and the one it is a part of.

    Args:
        frames: By carried body, the frame on its parent at which its own frame is fixed.

    Raises:
        InvalidMechanism: Fixed joints form a ring.
    """

    def __init__(self, frames: Mapping[str, Frame]) -> None:
        self._frames = dict(frames)
        for body in frames:
            seen = {body}
            while (body := self._frames[body].body) in self._frames:
                if body in seen:
                    raise InvalidMechanism(f"body '{body}' is not connected to the base: fixed joints form a ring",
                                           part="body", name=body, key="name")
                seen.add(body)

    @property
    def bodies(self) -> frozenset[str]:
        return frozenset(self._frames)

    def frame(self, frame: Frame) -> Frame:
        """Return a frame on the body that it really moves with."""
        while frame.body in self._frames:
            below = self._frames[frame.body]
            frame = Frame(body=below.body, placement=below.placement.then(frame.placement))
        return frame

    def joint(self, joint: Joint) -> Joint:
        """Return a joint on the body that it really sits on."""
        if joint.child in self._frames:
            raise InvalidMechanism(f"body '{joint.child}' has two parents: joint '{joint.name}' and a fixed one; keep "
                                   "one joint and close the loop with a closure", part="joint", name=joint.name,
                                   key="child")
        at = self.frame(Frame(body=joint.parent, placement=joint.placement))
        return replace(joint, parent=at.body, placement=at.placement)

    def closure(self, closure: Closure) -> Closure:
        """Return a closure between the bodies that really move."""
        a, b = (None if frame is None else self.frame(frame) for frame in (closure.a, closure.b))
        return replace(closure, a=a, b=b)

    def merge(self, bodies: Sequence[Body]) -> list[Body]:
        """Return the bodies that move, each with the inertia of what is fixed to it; about its own frame."""
        found = {body.name: body for body in bodies if body.name not in self._frames}
        for body in (body for body in bodies if body.name in self._frames):
            at = self.frame(Frame(body=body.name))
            if at.body in found:  # what is fixed to the base does not move
                names, values = _moved(at, body)
                own = found[at.body]
                kept = tuple(p for p in INERTIAL if p in own.parameters or p in names)
                total = {p: own.values.get(p, 0.0) + values.get(p, 0.0) for p in kept
                         if p in own.values or p in values}
                found[at.body] = replace(own, parameters=kept, values=total)
        return list(found.values())

    def payload(self, payload: Payload) -> Payload:
        """Return a payload on the body that it really moves with."""
        at = self.frame(Frame(body=payload.body, placement=payload.placement))
        return replace(payload, body=at.body, placement=at.placement)


def _moved(at: Frame, part: Body) -> tuple[tuple[str, ...], dict[str, float]]:
    """Return which parameters a body has about another frame, and those of their values that are known."""
    def about(numbers: Mapping[str, float]) -> FloatArray:
        return seen_from(at.placement.matrix, np.array([numbers.get(p, 0.0) for p in INERTIAL]))

    def reached(names: Sequence[str]) -> tuple[str, ...]:
        some = np.random.default_rng(0).uniform(1, 2, len(names))  # no two of these cancel
        return tuple(p for p, value in zip(INERTIAL, about(dict(zip(names, some)))) if abs(value) > 1e-12)

    known = about(part.values)
    return reached(part.parameters), {p: float(known[INERTIAL.index(p)]) for p in reached(tuple(part.values))}
