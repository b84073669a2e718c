"""What several test files share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from gough.core.trajectory import Fourier
from gough.engine import Model
from gough.export import EXPORTS
from gough.logs.formats import LOG_FORMATS
from gough.mechanism import CLOSURES, ROBOT_FORMATS, TERMS


def fourier(model: Model, scale: float, frequency: float, seed: int = 0, harmonics: int = 4) -> Fourier:
    """A lively trajectory of the task coordinates about home, inside the position limits."""
    rng = np.random.default_rng(seed)
    names = model.mechanism.task
    joints = [model.mechanism.joint(name) for name in names]
    home = np.array([model.home[model.mechanism.coordinates.index(name)] for name in names])
    room = np.array([min(j.limits.position[1] - h, h - j.limits.position[0]) if j.limits.position else 0.1
                     for j, h in zip(joints, home)])
    mu, nu = rng.uniform(-1, 1, (2, harmonics, len(names)))
    k = np.arange(1, harmonics + 1)[:, None]
    w = 2 * np.pi * frequency
    size = np.sqrt(((mu / (k * w)) ** 2 + (nu / (k * w)) ** 2).sum(axis=0))
    factor = scale * room / size
    return Fourier(coordinates=names, units=tuple(j.unit for j in joints), frequency=frequency, offset=home,
                   mu=mu * factor, nu=nu * factor)


@contextmanager
def registries_restored() -> Iterator[None]:
    """Forget at the end what was registered inside."""
    registries: list[dict] = [TERMS, CLOSURES, LOG_FORMATS, ROBOT_FORMATS, EXPORTS]
    before = [dict(registry) for registry in registries]
    try:
        yield
    finally:
        for registry, content in zip(registries, before):
            registry.clear()
            registry.update(content)
