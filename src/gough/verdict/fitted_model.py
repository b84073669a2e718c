"""A robot with identified base parameters: what they predict under any gravity and payload."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

import numpy as np

from gough.core.arrays import FloatArray, IntArray, frozen
from gough.core.names import Parameter
from gough.core.parameters import BaseParameters
from gough.engine import Model, standard_from_base
from gough.engine.derivatives import gravity_regressor
from gough.fitting.estimate import Estimate
from gough.fitting.regression import Regression

# kinds of parameters that gravity acts on
MASS_MOMENTS = ("m", "mx", "my", "mz")


@dataclass(frozen=True, kw_only=True, eq=False)
class FittedModel:
    """A robot with identified base parameters."""

    model: Model  # the robot
    base: BaseParameters  # payload columns included
    values: FloatArray  # of the base parameters, (b,)
    # measured payload parameters, by full name; their effort was
    # subtracted from the regression
    known: Mapping[str, float] = field(default_factory=dict)

    @property
    def without_effect(self) -> FloatArray:
        """Standard parameters of the robot file that cause no effort, (p,).

        Under another gravity they do.
        """
        return _parameters_without_effect(self.model, self.base)

    def known_of(self, payload: str | None) -> dict[str, float]:
        """Return the measured parameters of a payload."""
        known = {}
        for name, value in self.known.items():
            if payload is not None and Parameter(name).payload == payload:
                known[name] = value
        return known

    def parameters(self, payload: str | None) -> tuple[FloatArray, FloatArray]:
        """Return standard parameters (p,) and the load (10 l,) of a robot with a payload."""
        if payload not in self._parameters:
            self._parameters[payload] = self._parameters_with(payload)
        return self._parameters[payload]

    @cached_property
    def _parameters(self) -> dict[str | None, tuple[FloatArray, FloatArray]]:
        """Parameters that were asked for, by payload."""
        return {}

    def _parameters_with(self, payload: str | None) -> tuple[FloatArray, FloatArray]:
        carried = []
        for k, name in enumerate(self.base.names):
            if name.payload is None or name.payload == payload:
                carried.append(k)
        base = self.base.select([self.base.names[k] for k in carried])
        chi, load = standard_from_base(self.model, base, self.values[carried])
        for known, value in self.known_of(payload).items():
            load = load + value * self.model.unit_load(Parameter(known))
        return chi + self.without_effect, load

    @cached_property
    def weighing(self) -> IntArray:
        """Numbers of masses and first moments, of bodies and load: gravity acts on no others."""
        names = (*self.model.mechanism.standard.names, *self.model.load_columns)
        weighing = [k for k, name in enumerate(names) if Parameter(name).kind in MASS_MOMENTS]
        return np.array(weighing, np.int64)

    def weight_by_gravity(self, q: FloatArray, chi: FloatArray, load: FloatArray) -> FloatArray:
        """Return the derivative of the rows' efforts by gravity, (t, 3, r).

        Args:
            q: All coordinates, (t, n).
            chi: Standard parameters, (p,).
            load: Of the platform, (10 l,).
        """
        names = (*self.model.mechanism.standard.names, *self.model.load_columns)
        values = np.concatenate([chi, load])[self.weighing]
        columns = self.gravity_columns(q, [names[k] for k in self.weighing])
        effort = columns.reshape(-1, len(values)) @ values  # one product, not one a sample
        return np.asarray(effort.reshape(columns.shape[:-1]))

    def gravity_columns(self, q: FloatArray, names: Sequence[Parameter]) -> FloatArray:
        """Return the derivative of the regressor by gravity, (t, 3, r, p)."""
        shape = (len(q), 3, len(self.model.rows), len(names))
        if not names:
            return np.zeros(shape)
        return np.asarray(gravity_regressor(self.model, tuple(names))(q)[0].reshape(shape))


@lru_cache(maxsize=16)
def _parameters_without_effect(model: Model, base: BaseParameters) -> FloatArray:
    """Return the standard parameters of the robot file that cause no effort, (p,)."""
    table = model.mechanism.standard
    base = base.select([name for name in base.names if name.payload is None])
    standard = dict(zip(table.names, table.values.tolist()))
    values = np.zeros(len(base.standard))
    for k, name in enumerate(base.standard):
        if name.payload is None:
            values[k] = np.mean([standard[member] for member in model.resolve(name)])
    visible = standard_from_base(model, base, base.values(values))[0]
    return frozen(table.values - visible)


def fitted_model(
    model: Model,
    base: BaseParameters,
    estimate: Estimate,
    regression: Regression,
    known: Mapping[str, float],
) -> FittedModel:
    """Return the model of an estimate; base parameters it lacks are zero.

    Parameters that were eliminated stay in the model: what they explain
    is no fault.
    """
    names = [name for name in base.names if name in regression.parameters]
    estimated = dict(zip(estimate.parameters, estimate.values.tolist()))
    values = np.array([estimated.get(name, 0.0) for name in names])
    return FittedModel(model=model, base=base.select(names), values=values, known=dict(known))
