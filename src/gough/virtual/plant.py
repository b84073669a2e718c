"""The robot that is simulated, configuration and velocity in, those a controller period later out;
and its drives.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

from gough.core.arrays import FloatArray, check_finite, check_shapes
from gough.core.errors import InvalidInput
from gough.core.record import Record
from gough.engine.model import Model
from gough.engine.stepping import runge_kutta_kernel

STABLE = 1.2  # friction rate times step; the classical Runge-Kutta method is stable below 2.78
LONGEST, SHORTEST = 1e-3, 2e-5  # steps of the integrator [s]


@dataclass(frozen=True, kw_only=True, eq=False)
class PlantSettings(Record):
    """What a plant is built from; k trials advance together."""

    model: Model
    values: FloatArray  # standard parameters, (k, p)
    load: FloatArray  # payload, (k, 10 l), see `Model.load`
    # half-width of the band in which Coulomb friction grows linearly, (n,) [m/s or rad/s]
    dead_band: FloatArray
    period: float  # of the controller [s]
    substeps: int  # of the integrator in a period

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("values", "load", "dead_band"):
            check_finite(getattr(self, name), name)
        mechanism, load = self.model.mechanism, len(self.model.load_columns)
        check_shapes(
            self,
            values=(None, len(mechanism.standard)),
            load=(len(self.values), load),
            dead_band=(len(mechanism.joints),),
        )

    @property
    def trials(self) -> int:
        return len(self.values)

    @property
    def constants(self) -> FloatArray:
        """[step, dead band, values, load] of each trial, (k, c), or of all alike, (c,)."""
        head = np.concatenate([[self.period / self.substeps], self.dead_band])
        every = np.column_stack([np.tile(head, (self.trials, 1)), self.values, self.load])
        return np.asarray(every[0] if (every == every[0]).all() else every)


class Sample(NamedTuple):
    """The robot at a controller sample, under the efforts that follow it."""

    q: FloatArray  # all coordinates with the loops closed, (k, n)
    velocity: FloatArray  # of the rows, (k, m)
    acceleration: FloatArray  # of the rows, (k, m)
    # quality of the closures over the period that follows, (k,); rounding unless near a singularity
    check: FloatArray


class Plant(Protocol):
    """A robot to simulate. The state is the plant's own business."""

    def start(self, q: FloatArray, qd: FloatArray) -> Any:
        """Return the state at a configuration (k, n) with the loops closed and a velocity (k,
        n).
        """

    def read(self, state: Any) -> tuple[FloatArray, FloatArray]:
        """Return position and velocity of the motors, each (k, a)."""

    def step(self, state: Any, effort: FloatArray) -> tuple[Sample, Any]:
        """Return the sample at the start of a controller period and the state at its end.

        Motor efforts are those at 2 substeps + 1 evenly spaced moments, both ends included, (g, k,
        a).
        """


class Actuator(Protocol):
    """Settings of a drive."""

    def start(self, effort: FloatArray) -> FloatArray:
        """Return the state in which the drive holds an effort (k, a)."""

    def drive(
        self, state: FloatArray, command: FloatArray, period: float, moments: int
    ) -> tuple[FloatArray, FloatArray]:
        """Return efforts at evenly spaced moments of a period, (g, k, a), and the next state."""


@dataclass(frozen=True, kw_only=True)
class IdealDrive:
    """A current loop much faster than the controller: the effort is the command, held for the
    period.
    """

    def start(self, effort: FloatArray) -> FloatArray:
        return np.empty(0)

    def drive(
        self, state: FloatArray, command: FloatArray, period: float, moments: int
    ) -> tuple[FloatArray, FloatArray]:
        return np.broadcast_to(command, (moments, *command.shape)), state


PlantFactory = Callable[[PlantSettings], Plant]


class GoughPlant:
    """Our own closed-chain equations, integrated in the coordinates of the rows by the classical
    Runge-Kutta method.

    Loops are closed by a Newton step at every evaluation, so they do not drift. Coulomb friction is
    fs sign(qd) with the sign linear inside the dead band: a robot "at rest" creeps at most at the
    band, and samples of the motion obey the inverse dynamics with that dead band exactly.

    The state is [q, v, w], (k, n + m + x): w is what joint terms with memory remember.
    """

    def __init__(self, settings: PlantSettings) -> None:
        self._model, self._substeps, self._constants = (
            settings.model,
            settings.substeps,
            settings.constants,
        )
        self._kernel = runge_kutta_kernel(settings.model)
        self._n, self._m = len(settings.model.home), settings.model.degrees_of_freedom

    def start(self, q: FloatArray, qd: FloatArray) -> FloatArray:
        memories = np.zeros((len(q), len(self._model.mechanism.internal_states)))
        return np.column_stack([q, qd[:, list(self._model.independent)], memories])

    def read(self, state: FloatArray) -> tuple[FloatArray, FloatArray]:
        model, n = self._model, self._n
        position, velocity = state[:, list(model.actuated)], state[:, n : n + self._m]
        if not model.loops.redundant:
            return position, velocity[:, [model.independent.index(i) for i in model.actuated]]
        E = model.kinematics.closure_map(np.ascontiguousarray(state[:, :n]))
        return position, np.einsum("kam,km->ka", E[:, list(model.actuated)], velocity)

    def step(self, state: FloatArray, effort: FloatArray) -> tuple[Sample, FloatArray]:
        n, m = self._n, self._m
        results, velocity = [], state[:, n : n + m]
        for i in range(self._substeps):
            tau = np.ascontiguousarray(effort[2 * i : 2 * i + 3].transpose(1, 2, 0))  # (k, a, 3)
            results.append(self._kernel(state, tau, self._constants)[0])
            state = results[-1][:, n + m : -1]
        worst = np.max([result[:, -1] for result in results], axis=0)
        return Sample(results[0][:, :n], velocity, results[0][:, n : n + m], worst), state


def friction_rate(
    model: Model, values: FloatArray, load: FloatArray, dead_band: FloatArray, q: FloatArray
) -> float:
    """Return the fastest rate of friction inside its dead band at configurations q (s, n). [1/s]

    It is max eig(M^-1 D), D = E^T diag(fs / band + fv) E.
    """
    m = model.degrees_of_freedom
    small = 1e-3 * float(dead_band.min())
    fastest = 0.0
    for chi, extra in {(tuple(a), tuple(b)): (a, b) for a, b in zip(values, load)}.values():
        mass = model.mass_matrix(q, chi, load=extra)
        if np.linalg.matrix_rank(mass[0]) < m:
            raise InvalidInput(
                f"'{model.mechanism.name}' moves no mass in some direction, so that no "
                f"acceleration "
                "answers a force there; give bodies masses, or motors a rotor inertia (ia)"
            )
        damping = np.empty_like(mass)
        for j in range(m):
            nudge = np.tile(small * np.eye(m)[j], (len(q), 1))
            ahead, back = (
                model.bias(q, s * nudge, chi, load=extra, dead_band=dead_band) for s in (1, -1)
            )
            damping[:, :, j] = (ahead - back) / (2 * small)
        fastest = max(
            fastest, float(np.abs(np.linalg.eigvals(np.linalg.solve(mass, damping))).max())
        )
    return fastest


def count_substeps(rate: float, period: float) -> int:
    """Return how many integrator steps a controller period needs.

    Rate of friction [1/s] times step is kept below 1.2, and motion and closures are resolved
    whatever the rate.
    """
    count = max(2, int(np.ceil(period / LONGEST - 1e-9)), int(np.ceil(rate * period / STABLE)))
    if count > max(2.0, period / SHORTEST):
        raise InvalidInput(
            f"the dead band of friction is too narrow: its rate of {rate:.3g} 1/s needs {count} "
            f"integrator steps in a "
            f"controller period of {period:g} s; widen dead_band",
            rate=rate,
        )
    return count
