"""Mass and inertia of solid shapes, for links that give no inertia of their own."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from gough.core.arrays import FloatArray
from gough.core.inertia import PLACES
from gough.mechanism.formats.geometry import ten_parameters
from gough.mechanism.formats.xml import Element

DENSITY = 1000.0  # MuJoCo's, that of water [kg/m3]
SIZES = {"sphere": 1, "capsule": 2, "cylinder": 2, "box": 3, "ellipsoid": 3}


def solid_body(element: Element, mass: float, at: FloatArray, entry: Callable[[str, tuple[int, int]], float]
               ) -> FloatArray:
    """Return the ten parameters of a body whose inertia about its centre, at `at`, has entries by `ixx`, `ixy`, ..."""
    if mass < 0:
        raise element.error(f"a mass cannot be negative, found {mass:g} kg")
    tensor = np.empty((3, 3))
    for i, j in PLACES:
        tensor[i, j] = tensor[j, i] = entry(f"i{'xyz'[i]}{'xyz'[j]}", (i, j))
    return ten_parameters(mass, tensor, at)


def solid(geom: Element, sizes: Sequence[float], at: FloatArray) -> FloatArray:
    """Return the ten inertial parameters of a `<geom>` of MJCF about the frame `at` is in, (10,).

    Sizes are those of MuJoCo: radius; radius and half length along z; half lengths along x, y, z.
    """
    kind = geom.get("type", "sphere")
    if kind not in SIZES:
        raise geom.error(f"unknown type '{kind}'; expected one of {', '.join(SIZES)}")
    if geom.attributes.get("shellinertia", "false") == "true":
        raise geom.error("shellinertia is not read; give the body an <inertial>")
    if len(sizes) < SIZES[kind] or not all(size > 0 for size in sizes[: SIZES[kind]]):
        raise geom.error(f"a {kind} needs {SIZES[kind]} sizes above zero")
    a, b, c = (*sizes[: SIZES[kind]], 0.0, 0.0)[:3]
    volume, unit = _unit(kind, a, b, c)
    mass = geom.number("mass", volume * geom.number("density", DENSITY))
    return ten_parameters(mass, mass * np.diag(unit), at)


def _unit(kind: str, a: float, b: float, c: float) -> tuple[float, tuple[float, float, float]]:
    """Return volume and principal inertias per mass."""
    if kind == "box":
        return 8 * a * b * c, ((b * b + c * c) / 3, (a * a + c * c) / 3, (a * a + b * b) / 3)
    if kind == "ellipsoid":
        return 4 / 3 * math.pi * a * b * c, ((b * b + c * c) / 5, (a * a + c * c) / 5, (a * a + b * b) / 5)
    if kind == "sphere":
        return 4 / 3 * math.pi * a**3, (0.4 * a * a,) * 3
    tube, length = 2 * math.pi * a * a * b, 2 * b
    if kind == "cylinder":
        across = (3 * a * a + length**2) / 12
        return tube, (across, across, a * a / 2)
    ends = 4 / 3 * math.pi * a**3  # of a capsule: two half spheres
    t, e = tube / (tube + ends), ends / (tube + ends)
    across = t * (a * a / 4 + length**2 / 12) + e * (0.4 * a * a + length**2 / 4 + 3 * length * a / 8)
    return tube + ends, (across, across, t * a * a / 2 + e * 0.4 * a * a)
