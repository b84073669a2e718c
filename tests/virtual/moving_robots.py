"""Models and excitations shared by the tests of the virtual robot."""

from __future__ import annotations

import numpy as np

from gough.core.trajectory import Fourier
from gough.engine import Model


def excitation(
    model: Model, *, period: float = 1.0, reach: float = 0.4, harmonics: int = 2, seed: int = 0
) -> Fourier:
    """Return a random periodic motion of the task coordinates that uses a share of their range
    about home.
    """
    mechanism = model.mechanism
    names = mechanism.task or mechanism.actuated
    home = np.array([model.home[mechanism.coordinates.index(name)] for name in names])
    ranges = [mechanism.joint(name).limits.position for name in names]
    half = np.array([min(h - low, high - h) for h, (low, high) in zip(home, ranges)])
    mu, nu = np.random.default_rng(seed).standard_normal((2, harmonics, len(names)))
    shape = Fourier(
        coordinates=names,
        units=[mechanism.joint(name).unit for name in names],
        frequency=1 / period,
        offset=np.zeros(len(names)),
        mu=mu,
        nu=nu,
        robot=mechanism.name,
    )
    amplitude = np.abs(shape.at(np.linspace(0, period, 400))[0]).max(axis=0)
    scale = reach * half / amplitude
    return Fourier(
        coordinates=names,
        units=shape.units,
        frequency=shape.frequency,
        offset=home,
        mu=mu * scale,
        nu=nu * scale,
        robot=mechanism.name,
    )


def without(model: Model, *terms: str) -> dict[str, float]:
    """Return parameter changes that switch joint terms off."""
    return {
        name: 0.0 for name in model.mechanism.standard.names if name.rpartition(".")[2] in terms
    }
