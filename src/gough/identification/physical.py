"""From a physically consistent estimate to the bodies and joints of the robot file."""

from __future__ import annotations

from gough.core.parameters import INERTIAL
from gough.engine import Model
from gough.estimators.physical.feasible import FeasibleEstimate


def physical_parameters(model: Model, found: FeasibleEstimate) -> tuple[dict[str, tuple[float, ...]], dict[str, float]]:
    """Return ten inertial parameters by body, and the coefficients of the joint terms by name.

    Bodies of tied legs each get the common values; a payload stays `payload.<name>`. A body whose parameters are tied
    in part only has no common values and is left out: what was found consistent is not one body.
    """
    bodies: dict[str, tuple[float, ...]] = {}
    terms: dict[str, float] = {}
    owner: dict[str, str] = {}
    torn: set[str] = set()
    for name, value in zip(found.standard.names, found.standard.values.tolist()):
        group, _, parameter = name.rpartition(".")
        members = (name,) if name.startswith("payload.") else model.resolve(name)
        for member in members:
            if parameter not in INERTIAL:
                terms[member] = value
                continue
            body = member.rpartition(".")[0]
            if owner.setdefault(body, group) != group:
                torn.add(body)
            bodies[body] = tuple(found.bodies[group].tolist())
    return {body: values for body, values in bodies.items() if body not in torn}, terms
