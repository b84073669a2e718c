"""What is known of the parameters before any log: bounds by name."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from gough.core.errors import InvalidInput, nearest
from gough.core.parameters import BaseParameters
from gough.engine import Model

# The default prior is this many times the largest parameter of a kind
# in the robot file.
PRIOR_FACTOR = 10.0


def default_prior(model: Model, base: BaseParameters) -> dict[str, tuple[float, float]]:
    """Return generous bounds: ten times the robot file's values of a kind; masses, friction >= 0.

    A regrouped parameter may be negative, so it is bounded on both
    sides. Its scale is the sum of the magnitudes of its terms, which
    may cancel: the difference of two rotor inertias is not known to be
    zero because a file gives them the same value.
    """
    magnitudes = np.abs(base.matrix) @ np.abs(model.values(base.standard))
    largest: dict[str, float] = {}
    for name, magnitude in zip(base.names, magnitudes):
        largest[name.kind] = max(largest.get(name.kind, 0.0), float(magnitude))
    nonnegative = {"m"}
    for kind, term in model.mechanism.terms.items():
        if term.nonnegative:
            nonnegative.add(kind)
    prior: dict[str, tuple[float, float]] = {}
    for name, coefficients in zip(base.names, base.matrix):
        upper = PRIOR_FACTOR * (largest[name.kind] or 1.0)
        lower = -upper
        if name.kind in nonnegative and (coefficients >= 0).all():
            lower = 0.0
        prior[name] = (lower, upper)
    return prior


def prior_by_name(
    prior: tuple[float, float] | Mapping[str, tuple[float, float]],
    base: BaseParameters,
) -> dict[str, tuple[float, float]]:
    """Return the bounds of every parameter; those that a mapping does not name are unbounded."""
    if not isinstance(prior, Mapping):
        limits = (float(prior[0]), float(prior[1]))
        return dict.fromkeys(base.names, limits)
    for name in prior:
        if name not in base.names:
            raise InvalidInput(
                f"prior for '{name}', which is no base parameter{nearest(name, base.names)}"
            )
    return {name: prior.get(name, (-np.inf, np.inf)) for name in base.names}
