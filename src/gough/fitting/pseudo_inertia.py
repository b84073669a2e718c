"""Bodies as 4 x 4 pseudo-inertia matrices, whose positive definiteness is physical consistency.

With inertia I and first moment h about the body frame (Wensing, Kim & Slotine 2018; Traversaro et
al. 2016):

    J = [ S    h ]      S = tr(I)/2 1 - I,
        [ h^T  m ]

J is positive semidefinite if and only if some non-negative distribution of mass has these ten
parameters: this covers m > 0, a positive inertia about the centre of mass and the triangle
inequalities of its principal moments at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from gough.core.arrays import FloatArray
from gough.core.errors import InvalidInput
from gough.core.inertia import INERTIA_ENTRIES
from gough.core.names import INERTIAL, parameters

_MOMENTS = (4, 6, 9)  # Ixx Iyy Izz in Pinocchio's order
_DIAGONAL = frozenset(("m", "Ixx", "Iyy", "Izz"))
_SIZE = 0.1  # [m], of a body where nothing is known of any
_POINT = 1e-2  # share of the usual radius of gyration below which a body's size counts as unknown
# least spread of a prior body's mass along any axis, as a share of that along all; a rod 1 % as
# thick
_THIN = 1e-4


def pseudo_inertia(parameters: FloatArray) -> FloatArray:
    """Return J of ten parameters in Pinocchio's order, (..., 10) -> (..., 4, 4).

    [kg, kg m, kg m2]
    """
    m, h = parameters[..., 0], parameters[..., 1:4]
    inertia = np.zeros((*parameters.shape[:-1], 3, 3))
    for k, (i, j) in enumerate(INERTIA_ENTRIES):
        inertia[..., i, j] = inertia[..., j, i] = parameters[..., 4 + k]
    J = np.zeros((*parameters.shape[:-1], 4, 4))
    trace = np.trace(inertia, axis1=-2, axis2=-1)[..., None, None]
    J[..., :3, :3] = 0.5 * trace * np.eye(3) - inertia
    J[..., :3, 3] = J[..., 3, :3] = h
    J[..., 3, 3] = m
    return J


def inertial_parameters(J: FloatArray) -> FloatArray:
    """Undo `pseudo_inertia`, (..., 4, 4) -> (..., 10)."""
    S = J[..., :3, :3]
    inertia = np.trace(S, axis1=-2, axis2=-1)[..., None, None] * np.eye(3) - S
    entries = [inertia[..., i, j] for i, j in INERTIA_ENTRIES]
    return np.stack([J[..., 3, 3], *(J[..., i, 3] for i in range(3)), *entries], axis=-1)


class Body(NamedTuple):
    """The inertial parameters of one body."""

    name: str  # e.g. 'leg1.rod'
    present: tuple[int, ...]  # those the model has, indices into `INERTIAL`, (k,)
    standard: tuple[int, ...]  # their positions among the standard parameters, (k,)

    def of(self, values: FloatArray) -> FloatArray:
        """Return its ten parameters from all standard ones, (p,), zeros where the model has none,
        (10,).
        """
        full = np.zeros(10)
        full[list(self.present)] = values[list(self.standard)]
        return full

    @property
    def zeros(self) -> tuple[int, ...]:
        """Structural zeros: first moments and products of inertia the model does not have, indices
        into `INERTIAL`.

        An absent mass or moment of inertia is not zero but unseen (a ring that only turns about one
        axis): it is free to be whatever makes the body possible.
        """
        return tuple(
            k for k, name in enumerate(INERTIAL) if k not in self.present and name not in _DIAGONAL
        )


def group_bodies(names: Sequence[str]) -> tuple[Body, ...]:
    """Find the bodies behind standard parameter names such as `leg1.rod.mx`."""
    members: dict[str, list[tuple[int, int]]] = {}
    for position, name in enumerate(parameters(names)):
        if name.inertial:
            members.setdefault(name.owner, []).append((INERTIAL.index(name.kind), position))
    return tuple(Body(body, *zip(*sorted(found))) for body, found in members.items())


def usual_size(bodies: Sequence[Body], values: FloatArray) -> float:
    """Return the median radius of gyration about the frames of bodies that have one. [m]"""
    found = []
    for full in (body.of(values) for body in bodies):
        square = full[list(_MOMENTS)].sum() / 2 / full[0] if full[0] > 0 else 0.0
        found += [np.sqrt(square)] if square > 0 else []
    return float(np.median(found)) if found else _SIZE


def prior_body(body: Body, values: FloatArray, size: float = _SIZE) -> FloatArray:
    """Return the ten prior parameters of a body, those unseen by the model filled in as of a usual
    size [m], (10,).
    """
    full = body.of(values)
    absent = [k for k in range(10) if k not in body.present]
    moments, h = list(_MOMENTS), float(np.linalg.norm(full[1:4]))
    if 0 in absent:
        full[0] = max(1.0, h / size)
    if not full[0] > 0:
        raise InvalidInput(
            f"prior mass of body '{body.name}' is {full[0]:g} kg, expected positive: it sets the "
            f"scale "
            "of what is near",
            body=body.name,
        )
    fill = max(full[moments].max(), full[0] * size**2, 2 * h**2 / full[0])
    full[[k for k in moments if k in absent]] = fill
    return full


def possible_body(prior: FloatArray, size: float = _SIZE) -> tuple[FloatArray, float]:
    """Return ten parameters of a body with room on all sides, near those given, and by how much it
    was thickened [m].

    Drawings give rods without thickness and point masses, on the limit of what can exist, and
    misprints beyond it. With S_c = S - h h^T / m the second moment of mass about its centre, S_c +
    a 1 has no axis with less than `_THIN` of the whole spread: mass, centre and products of inertia
    stay, and 2 a is added to the moments of inertia. The thickness is the root of a / m; zero where
    nothing was needed.
    """
    J, m = pseudo_inertia(prior), prior[0]
    spread = float(np.trace(J[:3, :3]))
    if spread < m * (_POINT * size) ** 2:
        spread = m * size**2
    least = float(np.linalg.eigvalsh(J[:3, :3] - np.outer(J[:3, 3], J[:3, 3]) / m)[0])
    added = max(_THIN * spread - least, 0.0)
    return prior + 2 * added * np.isin(np.arange(10), _MOMENTS), float(np.sqrt(added / m))


def metric(prior: FloatArray) -> FloatArray:
    """Return L with L L^T the pseudo-inertia J_0 of a possible body, (10,) -> (4, 4).

    |L^-1 (J - J_0) L^-T| is then the distance between bodies that does not depend on frame, unit or
    size (the constant pull-back metric of Lee & Park 2018).
    """
    return np.asarray(np.linalg.cholesky(pseudo_inertia(prior)))


def symmetric_basis() -> FloatArray:
    """Return orthonormal symmetric matrices in the solver's order (upper triangle by columns), (10,
    4, 4).
    """
    basis = np.zeros((10, 4, 4))
    for E, (i, j) in zip(
        basis, [(row, column) for column in range(4) for row in range(column + 1)]
    ):
        E[i, j] = E[j, i] = 1.0 if i == j else np.sqrt(0.5)
    return basis
