"""The same robot in another size: all lengths times a factor, masses as they are."""

from __future__ import annotations

from dataclasses import replace

from gough.core.names import INERTIAL_UNITS
from gough.mechanism.types import Body, Closure, Frame, Joint, Limits, Mechanism, Placement

POWER = {"kg": 0, "kg m": 1, "kg m2": 2}


def resized(mechanism: Mechanism, factor: float) -> Mechanism:
    """Return the robot with all lengths times a factor; couplings must not mix angles and
    lengths.
    """
    sliding = {joint.name for joint in mechanism.joints if joint.kind == "prismatic"}

    def placed(placement: Placement) -> Placement:
        return Placement(
            tuple(
                (step, value * factor if step[0] == "T" else value)
                for step, value in placement.steps
            )
        )

    def framed(frame: Frame | None) -> Frame | None:
        return None if frame is None else replace(frame, placement=placed(frame.placement))

    def joint(old: Joint) -> Joint:
        own = factor if old.kind == "prismatic" else 1.0
        ends = old.limits.position
        limits = Limits(position=None if ends is None else (own * ends[0], own * ends[1]))
        return replace(old, placement=placed(old.placement), start=own * old.start, limits=limits)

    def closure(old: Closure) -> Closure:
        mixed = {name in sliding for name in old.coefficients}
        assert len(mixed) < 2
        constant = old.constant * (factor if True in mixed else 1.0)
        return replace(
            old,
            a=framed(old.a),
            b=framed(old.b),
            constant=constant,
            values={name: factor * value for name, value in old.values.items()},
        )

    def body(old: Body) -> Body:
        return replace(
            old,
            values={
                kind: value * factor ** POWER[INERTIAL_UNITS[kind]]
                for kind, value in old.values.items()
            },
        )

    return replace(
        mechanism,
        joints=tuple(map(joint, mechanism.joints)),
        payloads=(),
        twist_limits={},
        source="",
        closures=tuple(map(closure, mechanism.closures)),
        bodies=tuple(map(body, mechanism.bodies)),
    )
