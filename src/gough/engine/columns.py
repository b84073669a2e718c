"""What names of parameters stand for: columns of the regressor, loads, values a priori."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np

from gough.core.arrays import FloatArray
from gough.core.errors import InvalidInput, nearest
from gough.core.inertia import transform_inertia
from gough.core.names import INERTIAL, Parameter, parameters as named
from gough.core.parameters import BaseParameters, ParameterTable
from gough.mechanism.types import Mechanism


class Columns:
    """The parameters of a mechanism by name: standard ones, those tied across legs, those of
    payloads.
    """

    mechanism: Mechanism

    @cached_property
    def load_bodies(self) -> tuple[str, ...]:
        """The bodies that carry payloads: those they name, or the robot's tool, (l,)."""
        named = dict.fromkeys(payload.body for payload in self.mechanism.payloads)
        return tuple(named) or (self.mechanism.flange,)

    @property
    def load_body(self) -> str:
        """The body that carries a payload without a name: that of the first one."""
        return self.load_bodies[0]

    @cached_property
    def load_columns(self) -> tuple[Parameter, ...]:
        """What a load is made of: ten inertial parameters of each body that may carry one, about
        its frame, (10 l,).
        """
        return tuple(Parameter.of(body, kind) for body in self.load_bodies for kind in INERTIAL)

    def load(self, payload: str | None = None) -> FloatArray:
        """Return a payload as inertial parameters of the bodies that may carry one, (10 l,); zeros
        for none.
        """
        found = np.zeros(len(self.load_columns))
        for kind, value in (
            {} if payload is None else self.mechanism.payload(payload).values
        ).items():
            found += value * self.unit_load(Parameter.of_payload(str(payload), kind))
        return found

    def unit_load(self, name: Parameter) -> FloatArray:
        """Return a unit of a payload's parameter, which is about the payload's frame, as a load,
        (10 l,).
        """
        body, ten = self._mounted(name)
        return np.concatenate(
            [ten if body == other else np.zeros(len(ten)) for other in self.load_bodies]
        )

    def split_load(self, load: FloatArray) -> dict[str, FloatArray]:
        """Return the ten parameters of a load by the body that carries them."""
        return dict(zip(self.load_bodies, load.reshape(len(self.load_bodies), -1)))

    def _mounted(self, name: Parameter) -> tuple[str, FloatArray]:
        """Return the body that carries a payload, and a unit of the payload's parameter about that
        body's frame.
        """
        unit = np.eye(len(INERTIAL))[INERTIAL.index(name.kind)]
        for payload in self.mechanism.payloads:
            if payload.name == name.payload:
                turned = bool(payload.placement.steps)
                return payload.body, transform_inertia(
                    payload.placement.matrix, unit
                ) if turned else unit
        return self.load_body, unit

    def resolve(self, name: str) -> tuple[Parameter, ...]:
        """Return the standard columns a parameter name stands for: itself, all its ties, or those
        of a load's body.
        """
        parameter = Parameter(name)
        if parameter in self.mechanism.ties:
            return self.mechanism.ties[parameter]
        if parameter in self._standard_names or parameter in self.load_columns:
            return (parameter,)
        if parameter.payload is not None and parameter.inertial:
            body, ten = self._mounted(parameter)
            return tuple(Parameter.of(body, kind) for kind, weight in zip(INERTIAL, ten) if weight)
        valid = [
            *self._standard_names,
            *self.mechanism.ties,
            *(Parameter.of_payload(p.name, "m") for p in self.mechanism.payloads),
        ]
        raise InvalidInput(
            f"'{self.mechanism.name}' has no parameter '{name}'{nearest(name, valid)}", name=name
        )

    @cached_property
    def _standard_names(self) -> frozenset[str]:
        return frozenset(self.mechanism.standard.names)

    def unit(self, name: str) -> str:
        known = Parameter(name).unit
        return (
            known
            or self.mechanism.standard.units[self.mechanism.standard.index(self.resolve(name)[0])]
        )

    def parameter_names(self, *, tie_legs: bool = False) -> tuple[Parameter, ...]:
        """Return the standard parameter names in base order; tied ones once, under their common
        name, if asked.
        """
        names = [self.mechanism.standard.names[i] for i in self.mechanism.base_order]
        if not tie_legs:
            return tuple(names)
        common = {
            member: tied for tied, members in self.mechanism.ties.items() for member in members
        }
        return tuple(dict.fromkeys(common.get(name, name) for name in names))

    def values(
        self, names: Sequence[str], table: ParameterTable | Mapping[str, float] | None = None
    ) -> FloatArray:
        """Return the values of named parameters (tied: the mean of the members) from a table, a
        priori by default.
        """
        source = self.mechanism.standard if table is None else table
        lookup = source.as_dict() if isinstance(source, ParameterTable) else source

        def value(name: Parameter) -> float:
            if name not in lookup and name.payload is not None:
                return float(self.mechanism.payload(name.payload).values.get(name.kind, 0.0))
            members = (name,) if name in lookup else self.resolve(name)
            return float(np.mean([lookup[member] for member in members]))

        return np.array([value(name) for name in named(names)])

    def standard_values(self, changes: Mapping[str, float] | None = None) -> FloatArray:
        """Return all standard parameters a priori, some replaced (tied names set all their
        members), (p,).
        """
        table = self.mechanism.standard.as_dict()
        for name, value in (changes or {}).items():
            for member in self.resolve(name):
                table[member] = value
        return np.array([table[name] for name in self.mechanism.standard.names])


def column_names(parameters: Sequence[str] | BaseParameters) -> tuple[Parameter, ...]:
    """Return the columns to evaluate: the names themselves, or the independent columns of base
    parameters.
    """
    if isinstance(parameters, BaseParameters):
        return tuple(parameters.standard[i] for i in parameters.independent)
    return named(parameters)
