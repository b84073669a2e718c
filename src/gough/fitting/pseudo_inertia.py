"""Pseudo-inertia matrices of bodies, positive definite if a body is physically consistent.

With inertia I and first moment h about the body frame (Wensing, Kim &
Slotine 2018; Traversaro et al. 2016):

    J = [ S    h ]      S = tr(I)/2 1 - I,
        [ h^T  m ]

J is positive semidefinite if and only if some non-negative distribution
of mass has these ten parameters: this includes m > 0, a positive
inertia about the centre of mass and the triangle inequalities of its
principal moments at once.
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
_DEFAULT_GYRATION_RADIUS = 0.1  # of a body if it is known of none [m]
# Fraction of the usual radius of gyration below which that of a body is
# taken as unknown
_POINT_MASS_RATIO = 1e-2
# Smallest second moment of mass of a prior body along any axis, as a
# fraction of the sum over all axes: a rod 1 % as thick as long
_MIN_AXIS_FRACTION = 1e-4


def pseudo_inertia(parameters: FloatArray) -> FloatArray:
    """Return J of ten parameters in Pinocchio's order, (..., 10) -> (..., 4, 4).

    [kg, kg m, kg m2]
    """
    inertia = np.zeros((*parameters.shape[:-1], 3, 3))
    for k, (i, j) in enumerate(INERTIA_ENTRIES):
        inertia[..., i, j] = inertia[..., j, i] = parameters[..., 4 + k]
    J = np.zeros((*parameters.shape[:-1], 4, 4))
    trace = np.trace(inertia, axis1=-2, axis2=-1)[..., None, None]
    J[..., :3, :3] = 0.5 * trace * np.eye(3) - inertia
    J[..., :3, 3] = parameters[..., 1:4]
    J[..., 3, :3] = parameters[..., 1:4]
    J[..., 3, 3] = parameters[..., 0]
    return J


def inertial_parameters(J: FloatArray) -> FloatArray:
    """Undo `pseudo_inertia`, (..., 4, 4) -> (..., 10)."""
    S = J[..., :3, :3]
    inertia = np.trace(S, axis1=-2, axis2=-1)[..., None, None] * np.eye(3) - S
    first_moment = [J[..., i, 3] for i in range(3)]
    entries = [inertia[..., i, j] for i, j in INERTIA_ENTRIES]
    return np.stack([J[..., 3, 3], *first_moment, *entries], axis=-1)


class Body(NamedTuple):
    """The inertial parameters of one body."""

    name: str  # e.g. 'leg1.rod'
    # indices into `INERTIAL` of those in the model, (k,)
    present: tuple[int, ...]
    # their indices among the standard parameters, (k,)
    standard: tuple[int, ...]

    def of(self, values: FloatArray) -> FloatArray:
        """Return the ten parameters from all standard ones (p,), zero if not present, (10,)."""
        ten = np.zeros(10)
        ten[list(self.present)] = values[list(self.standard)]
        return ten

    @property
    def zeros(self) -> tuple[int, ...]:
        """Structural zeros: absent first moments and products of inertia, as indices.

        The indices refer to `INERTIAL`. An absent mass or moment of
        inertia is not zero but unobservable (a ring that only rotates
        about one axis): it is free, so that the body can be physically
        consistent.
        """
        indices = []
        for k, name in enumerate(INERTIAL):
            if k not in self.present and name not in _DIAGONAL:
                indices.append(k)
        return tuple(indices)


def group_bodies(names: Sequence[str]) -> tuple[Body, ...]:
    """Return the bodies of standard parameter names such as `leg1.rod.mx`."""
    members: dict[str, list[tuple[int, int]]] = {}
    for position, name in enumerate(parameters(names)):
        if name.inertial:
            members.setdefault(name.owner, []).append((INERTIAL.index(name.kind), position))
    bodies = []
    for body, pairs in members.items():
        present, standard = zip(*sorted(pairs))
        bodies.append(Body(body, present, standard))
    return tuple(bodies)


def usual_size(bodies: Sequence[Body], values: FloatArray) -> float:
    """Return the median radius of gyration about the frames of bodies that have one. [m]

    Of a body without inertia it is at least the distance of its centre
    of mass.
    """
    radii = []
    for body in bodies:
        ten = body.of(values)
        mass = ten[0]
        if not mass > 0:
            continue
        second_moment = ten[list(_MOMENTS)].sum() / 2
        centre = float(np.linalg.norm(ten[1:4])) / mass
        squared = second_moment / mass if second_moment > 0 else centre**2
        if squared > 0:
            radii.append(np.sqrt(squared))
    if not radii:
        return _DEFAULT_GYRATION_RADIUS
    return float(np.median(radii))


def prior_body(
    body: Body, values: FloatArray, size: float = _DEFAULT_GYRATION_RADIUS
) -> FloatArray:
    """Return the ten prior parameters of a body, absent ones filled in by a size [m], (10,)."""
    ten = body.of(values)
    first_moment = float(np.linalg.norm(ten[1:4]))
    if 0 not in body.present:
        ten[0] = max(1.0, first_moment / size)
    mass = ten[0]
    if not mass > 0:
        raise InvalidInput(
            f"prior mass of body '{body.name}' is {mass:g} kg, expected positive: distances from "
            "the prior are relative to it",
            body=body.name,
        )
    largest_moment = ten[list(_MOMENTS)].max()
    absent_moment = max(largest_moment, mass * size**2, 2 * first_moment**2 / mass)
    for k in _MOMENTS:
        if k not in body.present:
            ten[k] = absent_moment
    return ten


def possible_body(
    prior: FloatArray, size: float = _DEFAULT_GYRATION_RADIUS
) -> tuple[FloatArray, float]:
    """Return a strictly physically consistent body near the prior, and the thickness added [m].

    Drawings give rods without thickness and point masses, which are at
    the limit of physical consistency, and misprints beyond it. With S_c
    = S - h h^T / m the second moment of mass about its centre, S_c + a
    1 has on no axis less than `_MIN_AXIS_FRACTION` of the sum. Mass,
    centre and products of inertia remain, and 2 a is added to the
    moments of inertia. The thickness is the root of a / m; zero if the
    prior is consistent. A body whose inertia is not known gets that of
    a ball with the usual radius of gyration.
    """
    J = pseudo_inertia(prior)
    mass = prior[0]
    first_moment = J[:3, 3]
    total_moment = float(np.trace(J[:3, :3]))
    least_moment = _MIN_AXIS_FRACTION * total_moment
    if total_moment < mass * (_POINT_MASS_RATIO * size) ** 2:
        least_moment = mass * size**2 / 3
    central = J[:3, :3] - np.outer(first_moment, first_moment) / mass
    smallest_moment = float(np.linalg.eigvalsh(central)[0])
    added = max(least_moment - smallest_moment, 0.0)
    is_moment = np.isin(np.arange(10), _MOMENTS)
    return prior + 2 * added * is_moment, float(np.sqrt(added / mass))


def metric(prior: FloatArray) -> FloatArray:
    """Return L with L L^T the pseudo-inertia J_0 of a prior body, (10,) -> (4, 4).

    |L^-1 (J - J_0) L^-T| is then the distance between bodies that does not depend on frame,
    unit or size (the constant pull-back metric of Lee & Park 2018).
    """
    return np.asarray(np.linalg.cholesky(pseudo_inertia(prior)))


def symmetric_basis() -> FloatArray:
    """Return orthonormal symmetric matrices, (10, 4, 4).

    In the order of the solver: the upper triangle by columns.
    """
    basis = np.zeros((10, 4, 4))
    k = 0
    for column in range(4):
        for row in range(column + 1):
            entry = 1.0 if row == column else np.sqrt(0.5)
            basis[k, row, column] = entry
            basis[k, column, row] = entry
            k += 1
    return basis
