"""Meaning of parameter names: columns of the regressor, payloads, a-priori values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np

from gough.core.arrays import FloatArray
from gough.core.errors import InvalidInput, nearest
from gough.core.inertia import transform_inertia
from gough.core.names import INERTIAL, Parameter, parameters as named
from gough.core.parameters import BaseParameters
from gough.mechanism.types import Mechanism


class Columns:
    """The parameters of a mechanism by name: standard, tied across legs, of payloads."""

    mechanism: Mechanism

    @cached_property
    def load_bodies(self) -> tuple[str, ...]:
        """Bodies that carry payloads: those that the payloads name, or the tool, (l,)."""
        named = dict.fromkeys(payload.body for payload in self.mechanism.payloads)
        return tuple(named) or (self.mechanism.flange,)

    @property
    def load_body(self) -> str:
        """Body that carries a payload without a name: that of the first one."""
        return self.load_bodies[0]

    @cached_property
    def load_columns(self) -> tuple[Parameter, ...]:
        """Parameters of a load: ten inertial ones of each load body, about its frame, (10 l,)."""
        columns: list[Parameter] = []
        for body in self.load_bodies:
            columns += [Parameter.of(body, kind) for kind in INERTIAL]
        return tuple(columns)

    def load(self, payload: str | None = None) -> FloatArray:
        """Return a payload as inertial parameters of the load bodies, (10 l,); zeros for none."""
        load = np.zeros(len(self.load_columns))
        if payload is not None:
            for kind, number in self.mechanism.payload(payload).values.items():
                load += number * self.unit_load(Parameter.of_payload(payload, kind))
        return load

    def unit_load(self, name: Parameter) -> FloatArray:
        """Return one unit of a payload parameter as a load, (10 l,).

        The payload parameter is about the payload's frame, the load
        about the frames of bodies.
        """
        body, inertial = self._mounted(name)
        load = np.zeros((len(self.load_bodies), len(INERTIAL)))
        load[self.load_bodies.index(body)] = inertial
        return load.reshape(-1)

    def split_load(self, load: FloatArray) -> dict[str, FloatArray]:
        """Return the ten parameters of a load by the body that carries them."""
        return dict(zip(self.load_bodies, load.reshape(len(self.load_bodies), -1)))

    def _mounted(self, name: Parameter) -> tuple[str, FloatArray]:
        """Return the body of a payload and one unit of a payload parameter about its frame, (10,).

        Args:
            name: The payload parameter, which is about the payload's
                frame.
        """
        unit = np.eye(len(INERTIAL))[INERTIAL.index(name.kind)]
        for payload in self.mechanism.payloads:
            if payload.name == name.payload:
                if payload.placement.steps:
                    unit = transform_inertia(payload.placement.matrix, unit)
                return payload.body, unit
        return self.load_body, unit

    def resolve(self, name: str) -> tuple[Parameter, ...]:
        """Return the standard parameters that a name stands for.

        These are the parameter itself, all members of a tie, or
        parameters of a load body.

        Raises:
            InvalidInput: The robot has no such parameter.
        """
        parameter = Parameter(name)
        if parameter in self.mechanism.ties:
            return self.mechanism.ties[parameter]
        if parameter in self._standard_names or parameter in self.load_columns:
            return (parameter,)
        if parameter.payload is not None and parameter.inertial:
            body, inertial = self._mounted(parameter)
            kinds = [kind for kind, weight in zip(INERTIAL, inertial) if weight]
            return tuple(Parameter.of(body, kind) for kind in kinds)
        valid = [*self._standard_names, *self.mechanism.ties]
        valid += [Parameter.of_payload(p.name, "m") for p in self.mechanism.payloads]
        raise InvalidInput(
            f"'{self.mechanism.name}' has no parameter '{name}'{nearest(name, valid)}",
            name=name,
        )

    @cached_property
    def _standard_names(self) -> frozenset[str]:
        return frozenset(self.mechanism.standard.names)

    def unit(self, name: str) -> str:
        """Return the SI unit of a parameter."""
        unit = Parameter(name).unit
        if unit:
            return unit
        standard = self.mechanism.standard
        return standard.units[standard.index(self.resolve(name)[0])]

    def parameter_names(self, *, tie_legs: bool = False) -> tuple[Parameter, ...]:
        """Return the standard parameter names in base order.

        Args:
            tie_legs: Return parameters tied across legs once, under
                their common name.
        """
        names = [self.mechanism.standard.names[i] for i in self.mechanism.base_order]
        if not tie_legs:
            return tuple(names)
        common_name: dict[Parameter, Parameter] = {}
        for tied, members in self.mechanism.ties.items():
            common_name.update(dict.fromkeys(members, tied))
        return tuple(dict.fromkeys(common_name.get(name, name) for name in names))

    def values(self, names: Sequence[str]) -> FloatArray:
        """Return the values that the robot file gives parameters, (p,).

        A tied parameter is the mean of its members.
        """
        table = self.mechanism.standard.as_dict()
        values = np.zeros(len(names))
        for k, name in enumerate(named(names)):
            if name in table:
                values[k] = table[name]
            elif name.payload is not None:
                values[k] = self.mechanism.payload(name.payload).values.get(name.kind, 0.0)
            else:
                values[k] = np.mean([table[member] for member in self.resolve(name)])
        return values

    def standard_values(self, changes: Mapping[str, float] | None = None) -> FloatArray:
        """Return the standard parameters of the robot file, some of them changed, (p,).

        Args:
            changes: New values by name; a tied name changes all its
                members.
        """
        table = self.mechanism.standard.as_dict()
        for name, number in (changes or {}).items():
            for member in self.resolve(name):
                table[member] = number
        return np.array([table[name] for name in self.mechanism.standard.names])


def column_names(
    parameters: Sequence[str] | BaseParameters,
) -> tuple[Parameter, ...]:
    """Return the names of regressor columns.

    These are the given names, or the independent standard parameters of
    base parameters.
    """
    if isinstance(parameters, BaseParameters):
        return tuple(parameters.standard[i] for i in parameters.independent)
    return named(parameters)
