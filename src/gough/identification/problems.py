"""The problems that `identify` offers to estimators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from gough.core.errors import InvalidInput, InvalidRecording
from gough.core.names import Parameter
from gough.core.parameters import BaseParameters, ParameterTable
from gough.core.trajectory import Sampled
from gough.engine import Model, standard_from_base
from gough.fitting.estimate import Estimate
from gough.fitting.nearest_bodies import Box
from gough.fitting.problem import LinearProblem
from gough.logs.recording import Recording

if TYPE_CHECKING:
    from gough.identification.likelihood import CutoffResult
    from gough.processing.likelihood_models import AveragedPeriod

# Coefficients of the executed trajectory up to which full maximum likelihood runs within `all`:
# beyond it takes more than about a minute
MAX_QUICK_COEFFICIENTS = 120


@dataclass(frozen=True, kw_only=True, eq=False)
class AveragedPeriodProblem:
    """One averaged period of a repeated motion, with the errors of its positions."""

    period: AveragedPeriod
    # raise instead of a fit of more than about a minute
    skip_long: bool = False

    @cached_property
    def cutoff(self) -> CutoffResult:
        """The filter cut-off of largest likelihood, and the estimate there."""
        from gough.identification.likelihood import cutoff_likelihood  # most fits need it not

        return cutoff_likelihood(self.period)

    def full(self) -> Estimate:
        """Return the estimate together with the executed trajectory: errors in variables."""
        from gough.identification.likelihood import full_likelihood, n_trajectory_coefficients

        if not self.period.scatters.any():
            return self.cutoff.estimate
        seconds = len(self.period.average) / self.period.average.rate
        harmonics = max(1, round(self.cutoff.cutoff * seconds))
        coefficients = n_trajectory_coefficients(self.period, harmonics)
        if self.skip_long and coefficients > MAX_QUICK_COEFFICIENTS:
            raise InvalidInput(
                f"{harmonics} harmonics of the executed trajectory take long; ask for it with "
                "`estimator='full_ml'`"
            )
        return full_likelihood(self.period, harmonics=harmonics).estimate


@dataclass(frozen=True, kw_only=True, eq=False)
class RobotBodyProblem:
    """A linear problem, an estimate of it, and the bodies of the robot behind it."""

    model: Model  # the robot
    base: BaseParameters  # its base parameters
    regression: LinearProblem  # the linear problem
    start: Estimate  # an estimate of it
    # of all bodies of the robot, if it was weighed [kg]
    total_mass: float | None = None

    @property
    def prior(self) -> ParameterTable:
        """Standard parameters of the robot file, with the uncertainty that it states."""
        values = self.model.values(self.base.standard)
        relative = np.array([stated_uncertainty(self.model, name) for name in self.base.standard])
        return ParameterTable(
            names=self.base.standard,
            values=values,
            std=np.nan_to_num(relative * np.abs(values)),
        )

    @property
    def members(self) -> dict[str, int]:
        """How many bodies each mass stands for; none for that of a payload."""
        count: dict[str, int] = {}
        for name in self.base.standard:
            count[name] = 0 if name.payload is not None else len(self.model.resolve(name))
        return count

    @property
    def boxes(self) -> dict[str, Box]:
        """Boxes of the robot file that hold all mass of a body, by body or tied body."""
        given = {body.name: body.box for body in self.model.mechanism.bodies}
        boxes = {}
        for name in self.base.standard:
            if not name.inertial or name.payload is not None:
                continue
            box = given[self.model.resolve(name)[0].owner]
            if box is not None:
                boxes[name.owner] = box
        return boxes


def stated_uncertainty(model: Model, standard: Parameter) -> float:
    """Return the relative uncertainty that the robot file states of a parameter; NaN if none."""
    relative = np.nan
    for pattern, number in model.mechanism.uncertainty:
        if any(fnmatchcase(member, pattern) for member in model.resolve(standard)):
            relative = number
    return relative


@dataclass(frozen=True, kw_only=True, eq=False)
class SimulatedLogs:
    """The robot and its logs, with a simulation of the closed loop along each of them."""

    model: Model  # the robot
    base: BaseParameters  # its base parameters
    regression: LinearProblem  # the linear problem
    recordings: Sequence[Recording]  # the logs

    def simulate(self, values: Mapping[str, float], /, **settings: Any) -> Sequence[Any]:
        """Return a simulation of each log with these base parameters; needs `gough.virtual`.

        The robot follows the commanded positions of the log, or the
        recorded ones where no command was recorded.

        Args:
            values: Base parameters by name; those of the robot file for
                the others.
            settings: Options of `gough.simulate`, e.g. the controller.
        """
        simulate = import_module("gough.virtual.closed_loop").simulate
        names = self.model.mechanism.standard.names
        file_values = dict(zip(names, self.model.standard_values().tolist()))
        base_values = self.base.values([file_values[name] for name in self.base.standard])
        for k, name in enumerate(self.base.names):
            base_values[k] = values.get(name, base_values[k])
        standard, _ = standard_from_base(self.model, self.base, base_values)
        simulations = []
        for recording in self.recordings:
            trajectory = commanded_trajectory(self.model, recording)
            options = {"payload": recording.payload, **settings}
            simulations.append(simulate(self.model, trajectory, values=standard, **options))
        return simulations


def commanded_trajectory(model: Model, recording: Recording) -> Sampled:
    """Return the commanded positions of a log as a trajectory, or the recorded ones."""
    commanded = recording.position if recording.reference is None else recording.reference
    if len(recording) < 2:
        raise InvalidRecording(f"{recording.source}: one sample is no motion")
    units = tuple(model.mechanism.joint(name).unit for name in recording.joints)
    return Sampled(
        coordinates=recording.joints,
        units=units,
        time=recording.time - recording.time[0],
        position=np.array(commanded),
    )
