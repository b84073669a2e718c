"""Limits of coordinates, motors and the platform, and the distance to singularities."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from gough.core.arrays import FloatArray
from gough.core.errors import InvalidInput
from gough.core.motion import Motion
from gough.core.names import last_word
from gough.core.rotation import platform_twist
from gough.engine.derivatives import (
    Output,
    Quantity,
    has_regularity,
    twist_names,
)
from gough.engine.model import Model
from gough.mechanism import Limits

# Default bound of the regularity: relative to the reference
# configuration it stays in [0.1, 10].
REGULARITY_BOUND = 0.1


@dataclass(frozen=True, kw_only=True)
class Limit:
    """A range that a quantity must not leave."""

    quantity: Quantity
    # The coordinate, or `platform.translation`, `platform.rotation` for
    # the norm of the platform's velocity and angular velocity; empty
    # for the regularity.
    name: str
    lower: float  # in SI units; for the regularity of its logarithm
    upper: float  # largest value that is allowed [unit]
    unit: str  # of the limited quantity

    @property
    def centre(self) -> float:
        """Middle of the range."""
        return (self.lower + self.upper) / 2

    @property
    def half(self) -> float:
        """Half of the width of the range."""
        return (self.upper - self.lower) / 2

    @property
    def output(self) -> Output:
        """The quantity as an output of `derivatives.response`."""
        return self.quantity, self.name

    def __str__(self) -> str:
        if self.quantity == "regularity":
            return (
                "distance to singularity (determinant within a factor of "
                f"{np.exp(self.upper):.3g} of its reference)"
            )
        return (
            f"{self.quantity} of '{self.name}' in [{self.lower:.4g}, {self.upper:.4g}] {self.unit}"
        )


def collect_limits(
    model: Model,
    changes: Mapping[str, Limits] | None = None,
    *,
    singularity: float | None = REGULARITY_BOUND,
) -> tuple[Limit, ...]:
    """Return all limits of a robot.

    Args:
        changes: Limits by coordinate (or `platform.translation`,
            `platform.rotation`) that replace those of the robot file,
            where given.
        singularity: Smallest accepted |det dq_act/dx| relative to the
            reference configuration, and the inverse of the largest;
            None for any.
    """
    changes = changes or {}
    _check_changes(model, changes)
    limits: list[Limit] = []
    for joint in model.mechanism.joints:
        units: dict[Quantity, str] = {
            "position": joint.unit,
            "velocity": f"{joint.unit}/s",
            "acceleration": f"{joint.unit}/s2",
        }
        if joint.actuated:
            units["effort"] = joint.effort_unit
        limits += _limits_of(joint.name, joint.limits, changes.get(joint.name), units)
    for name, unit in zip(twist_names(model), ("m", "rad")):
        default = model.mechanism.twist_limits.get(last_word(name), Limits())
        units = {"velocity": f"{unit}/s", "acceleration": f"{unit}/s2"}
        limits += _limits_of(name, default, changes.get(name), units)
    if singularity is not None and has_regularity(model):
        if not 0 < singularity < 1:
            raise InvalidInput(
                f"distance to singularity is {singularity}, expected a number between 0 and 1"
            )
        bound = -float(np.log(singularity))
        limits.append(
            Limit(
                quantity="regularity",
                name="",
                lower=-bound,
                upper=bound,
                unit="",
            )
        )
    return tuple(limits)


def _check_changes(model: Model, changes: Mapping[str, Limits]) -> None:
    """Raise if limits are changed of something that does not have them."""
    for name, change in changes.items():
        if name not in twist_names(model):
            model.mechanism.joint(name)  # raises if there is no such joint
        elif change.position is not None or change.effort is not None:
            raise InvalidInput(
                f"'{name}' has a velocity and an acceleration to limit, no position and no effort",
                name=name,
            )


def _limits_of(
    name: str,
    default: Limits,
    change: Limits | None,
    units: Mapping[Quantity, str],
) -> list[Limit]:
    """Return the limits of a coordinate, or of the platform, in the order of their units."""
    limits: list[Limit] = []
    for quantity, unit in units.items():
        bound = getattr(change, quantity, None)
        if bound is None:
            bound = getattr(default, quantity)
        if bound is None:
            continue
        lower, upper = bound if quantity == "position" else (-bound, bound)
        if not (np.isfinite(lower) and np.isfinite(upper) and lower < upper):
            raise InvalidInput(
                f"{quantity} of '{name}' is limited to [{lower}, {upper}] {unit}, expected a "
                "lower bound below an upper one",
                name=name,
            )
        limits.append(
            Limit(
                quantity=quantity,
                name=name,
                lower=lower,
                upper=upper,
                unit=unit,
            )
        )
    return limits


def measure(
    model: Model,
    limits: Sequence[Limit],
    motion: Motion,
    *,
    load: FloatArray | None = None,
) -> FloatArray:
    """Return each limited quantity along a motion, normalised so that [-1, 1] is allowed, (t, o).

    Efforts have the exact sign of the velocity. This shares no code
    with the kernels of the optimisation.
    """
    signals = {
        "position": motion.q,
        "velocity": motion.qd,
        "acceleration": motion.qdd,
    }
    if any(limit.quantity == "effort" for limit in limits):
        effort = model.inverse_dynamics(motion, load=load)
    task = [motion.column(name) for name in model.mechanism.task]
    twist, twist_rate = platform_twist(
        model.mechanism.task,
        motion.q[:, task],
        motion.qd[:, task],
        motion.qdd[:, task],
    )
    twists = {"velocity": twist, "acceleration": twist_rate}
    columns = []
    for limit in limits:
        if limit.quantity == "regularity":
            column = _regularity(model, motion.q)
        elif limit.quantity == "effort":
            column = effort[:, model.mechanism.actuated.index(limit.name)]
        elif limit.name in twist_names(model):
            first = 3 * twist_names(model).index(limit.name)
            column = np.linalg.norm(twists[limit.quantity][:, first : first + 3], axis=1)
        else:
            column = signals[limit.quantity][:, motion.column(limit.name)]
        columns.append((column - limit.centre) / limit.half)
    return np.stack(columns, axis=1) if columns else np.zeros((len(motion), 0))


def _regularity(model: Model, q: FloatArray) -> FloatArray:
    """Return ln |det dq_act/dx| relative to the reference configuration, (t,).

    It is infinite where the sign differs from that of the reference.
    """
    q = np.concatenate([model.home[None], q])
    power = 1.0
    if "task" not in model.loops.partitions:
        partition = model.loops.partitions["actuated"]
        jacobian = model.kinematics.jacobian(q)
        matrices = jacobian[:, partition.rows][:, :, partition.dependent]
    else:
        matrices = model.kinematics.closure_map(q, "task")[:, model.actuated]
        if model.loops.redundant:
            matrices = np.einsum("tam,tak->tmk", matrices, matrices)
            power = 0.5
    sign, log_determinant = np.linalg.slogdet(matrices)
    relative = power * (log_determinant[1:] - log_determinant[0])
    return np.where(sign[1:] == sign[0], relative, -np.inf)
