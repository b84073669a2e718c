"""What a robot may do: limits of its coordinates and motors, and the distance to singularities."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from gough.core.arrays import FloatArray
from gough.core.errors import InvalidInput
from gough.core.motion import Motion
from gough.core.names import last_word
from gough.core.rotation import platform_twist
from gough.engine.derivatives import Output, Quantity, has_regularity, twist_names
from gough.engine.model import Model
from gough.mechanism import Limits

REGULARITY_BOUND = (
    0.1  # usual bound of the regularity: its value relative to home stays in [0.1, 10]
)


@dataclass(frozen=True, kw_only=True)
class Limit:
    """A range that a quantity must not leave.

    Args:
        name: The coordinate, or `platform.translation`, `platform.rotation` for the size of the
            platform's velocity and angular velocity (then never below zero); empty for the
            regularity.
        lower, upper: SI; for the regularity of its logarithm.
    """

    quantity: Quantity
    name: str
    lower: float
    upper: float
    unit: str

    @property
    def centre(self) -> float:
        return (self.lower + self.upper) / 2

    @property
    def half(self) -> float:
        return (self.upper - self.lower) / 2

    @property
    def output(self) -> Output:
        """What `derivatives.response` calls it."""
        return self.quantity, self.name

    def __str__(self) -> str:
        if self.quantity == "regularity":
            return (
                f"distance to singularity (determinant within a factor of "
                f"{np.exp(self.upper):.3g} of home)"
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
        changes: Limits by coordinate (or `platform.translation`, `platform.rotation`) that replace
            those of the robot file, where given.
        singularity: Smallest accepted |det dq_act/dx| relative to home, and the inverse of the
            largest; None for any.
    """
    changes, whole = changes or {}, twist_names(model)
    found: list[Limit] = []

    def add(name: str, usual: Limits, units: Mapping[Quantity, str]) -> None:
        for quantity, unit in units.items():
            change = getattr(changes.get(name, usual), quantity)
            value = getattr(usual, quantity) if change is None else change
            if value is None:
                continue
            lower, upper = value if quantity == "position" else (-value, value)
            if not (np.isfinite(lower) and np.isfinite(upper) and lower < upper):
                raise InvalidInput(
                    f"{quantity} of '{name}' is limited to [{lower}, {upper}] {unit}, expected a "
                    "lower bound below an upper one",
                    name=name,
                )
            found.append(Limit(quantity=quantity, name=name, lower=lower, upper=upper, unit=unit))

    for name, change in changes.items():
        if name not in whole:
            model.mechanism.joint(name)
        elif change.position is not None or change.effort is not None:
            raise InvalidInput(
                f"'{name}' has a velocity and an acceleration to limit, no position and no effort",
                name=name,
            )
    for joint in model.mechanism.joints:
        motor: dict[Quantity, str] = {"effort": joint.effort_unit} if joint.actuated else {}
        add(
            joint.name,
            joint.limits,
            {
                "position": joint.unit,
                "velocity": f"{joint.unit}/s",
                "acceleration": f"{joint.unit}/s2",
                **motor,
            },
        )
    for name, unit in zip(whole, ("m", "rad")):
        own = model.mechanism.twist_limits.get(last_word(name), Limits())
        add(name, own, {"velocity": f"{unit}/s", "acceleration": f"{unit}/s2"})
    if singularity is not None and has_regularity(model):
        if not 0 < singularity < 1:
            raise InvalidInput(
                f"distance to singularity is {singularity}, expected a number between 0 and 1"
            )
        bound = -float(np.log(singularity))
        found.append(Limit(quantity="regularity", name="", lower=-bound, upper=bound, unit=""))
    return tuple(found)


def measure(
    model: Model, limits: Sequence[Limit], motion: Motion, *, load: FloatArray | None = None
) -> FloatArray:
    """Return each limited quantity along a motion, normalised so that [-1, 1] is allowed, (t, o).

    Efforts have the exact sign of the velocity. This shares no code with the kernels of the
    optimisation.
    """
    wanted = {limit.quantity for limit in limits}
    source = {"position": motion.q, "velocity": motion.qd, "acceleration": motion.qdd}
    if "effort" in wanted:
        effort = model.inverse_dynamics(motion, load=load)
    task = [motion.column(name) for name in model.mechanism.task]
    twists = dict(
        zip(
            ("velocity", "acceleration"),
            platform_twist(
                model.mechanism.task, motion.q[:, task], motion.qd[:, task], motion.qdd[:, task]
            ),
        )
    )
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
            column = source[limit.quantity][:, motion.column(limit.name)]
        columns.append((column - limit.centre) / limit.half)
    return np.stack(columns, axis=1) if columns else np.zeros((len(motion), 0))


def _regularity(model: Model, q: FloatArray) -> FloatArray:
    """Return ln |det dq_act/dx| relative to home, (t,); infinite where the sign differs from that
    at home.
    """
    q, power = np.concatenate([model.home[None], q]), 1.0
    if "task" not in model.loops.partitions:
        part = model.loops.partitions["actuated"]
        matrices = model.kinematics.jacobian(q)[:, part.rows][:, :, part.dependent]
    else:
        matrices = model.kinematics.closure_map(q, "task")[:, model.actuated]
        if model.loops.redundant:
            matrices, power = np.einsum("tam,tak->tmk", matrices, matrices), 0.5
    sign, size = np.linalg.slogdet(matrices)
    return np.where(sign[1:] == sign[0], power * (size[1:] - size[0]), -np.inf)
