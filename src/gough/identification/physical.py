"""From a physically consistent estimate to the bodies and joints of the robot file."""

from __future__ import annotations

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
        for member in (name,) if name.payload is not None else model.resolve(name):
            if not name.inertial:
                terms[member] = value
                continue
            body = member.owner
            if owner.setdefault(body, name.owner) != name.owner:
                torn.add(body)
            bodies[body] = tuple(found.bodies[name.owner].tolist())
    return {body: values for body, values in bodies.items() if body not in torn}, terms
