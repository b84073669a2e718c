"""Bodies as 4 x 4 pseudo-inertia matrices, whose positive definiteness is physical consistency.

With inertia I and first moment h about the body frame (Wensing, Kim & Slotine 2018; Traversaro et al. 2016):

    J = [ S    h ]      S = tr(I)/2 1 - I,
        [ h^T  m ]

J is positive semidefinite if and only if some non-negative distribution of mass has these ten parameters: this covers
m > 0, a positive inertia about the centre of mass and the triangle inequalities of its principal moments at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gough.arrays import FloatArray
from gough.errors import InvalidInput
from gough.parameters import INERTIAL

_PLACES = ((0, 0), (0, 1), (1, 1), (0, 2), (1, 2), (2, 2))  # of Ixx Ixy Iyy Ixz Iyz Izz
_DIAGONAL = frozenset(("m", "Ixx", "Iyy", "Izz"))
_SIZE = 0.1  # [m], of a body about which nothing is known
_FLOOR = 1e-4  # of the eigenvalues of a scaled prior body: flatter bodies are taken as this flat in the metric


def pseudo_inertia(parameters: FloatArray) -> FloatArray:
    """Return J of ten parameters in Pinocchio's order, (..., 10) -> (..., 4, 4). [kg, kg m, kg m2]"""
    m, h = parameters[..., 0], parameters[..., 1:4]
    inertia = np.zeros((*parameters.shape[:-1], 3, 3))
    for k, (i, j) in enumerate(_PLACES):
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
    entries = [inertia[..., i, j] for i, j in _PLACES]
    return np.stack([J[..., 3, 3], *(J[..., i, 3] for i in range(3)), *entries], axis=-1)


@dataclass(frozen=True, kw_only=True, eq=False)
class Body:
    """The inertial parameters of one body.

    Args:
        name: E.g. 'leg1.rod'.
        present: Those the model has, indices into `INERTIAL`, (k,).
        standard: Their positions among the standard parameters, (k,).
    """

    name: str
    present: tuple[int, ...]
    standard: tuple[int, ...]

    @property
    def zeros(self) -> tuple[int, ...]:
        """Structural zeros: first moments and products of inertia the model does not have, indices into `INERTIAL`.

        An absent mass or moment of inertia is not zero but unseen (a ring that only turns about one axis): it is free
        to be whatever makes the body possible.
        """
        return tuple(k for k, name in enumerate(INERTIAL) if k not in self.present and name not in _DIAGONAL)


def group_bodies(names: Sequence[str]) -> tuple[Body, ...]:
    """Find the bodies behind standard parameter names such as `leg1.rod.mx`."""
    members: dict[str, list[tuple[int, int]]] = {}
    for position, name in enumerate(names):
        body, _, last = name.rpartition(".")
        if last in INERTIAL:
            members.setdefault(body, []).append((INERTIAL.index(last), position))
    return tuple(
        Body(name=body, present=tuple(k for k, _ in sorted(found)), standard=tuple(i for _, i in sorted(found)))
        for body, found in members.items())


def prior_body(body: Body, values: FloatArray) -> FloatArray:
    """Return the ten prior parameters of a body, those unseen by the model filled in, (10,).

    Raises:
        InvalidInput: The prior mass is not positive.
    """
    full = np.zeros(10)
    full[list(body.present)] = values[list(body.standard)]
    absent = [k for k in range(10) if k not in body.present]
    moments, h = [4, 6, 9], float(np.linalg.norm(full[1:4]))
    if 0 in absent:
        full[0] = max(1.0, h / _SIZE)
    if not full[0] > 0:
        raise InvalidInput(f"prior mass of body '{body.name}' is {full[0]:g} kg, expected positive: it sets the scale "
                           "of what is near", body=body.name)
    fill = max(full[moments].max(), full[0] * _SIZE**2, 2 * h**2 / full[0])
    full[[k for k in moments if k in absent]] = fill
    return full


def metric(prior: FloatArray) -> FloatArray:
    """Return L with L L^T close to the prior pseudo-inertia J_0 of a body, (10,) -> (4, 4).

    |L^-1 (J - J_0) L^-T| is then the distance between bodies that does not depend on frame, unit or size (the constant
    pull-back metric of Lee & Park 2018). Where J_0 is nearly flat its eigenvalues are lifted, scaled by mass and size.
    """
    J = pseudo_inertia(prior)
    length = np.sqrt(max(np.trace(J[:3, :3]) / prior[0], 1e-12))
    scale = np.sqrt(prior[0]) * np.array([length, length, length, 1.0])
    values, vectors = np.linalg.eigh(J / np.outer(scale, scale))
    return np.asarray(scale[:, None] * vectors * np.sqrt(np.maximum(values, _FLOOR)))


def relative_to(L: FloatArray, J: FloatArray) -> FloatArray:
    """Return L^-1 J L^-T, (4, 4)."""
    inverse = np.linalg.inv(L)
    return np.asarray(inverse @ J @ inverse.T)


def symmetric_basis(size: int = 4) -> FloatArray:
    """Return orthonormal symmetric matrices in the solver's order (upper triangle by columns), (10, 4, 4)."""
    basis = []
    for j in range(size):
        for i in range(j + 1):
            E = np.zeros((size, size))
            E[i, j] = E[j, i] = 1.0 if i == j else np.sqrt(0.5)
            basis.append(E)
    return np.array(basis)
