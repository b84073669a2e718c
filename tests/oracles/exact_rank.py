"""The rank of a closed chain's regressor in a hundred digits: positions alone, every derivative by
differences.

In double precision a parameter that fades away (1e-9 of the others) and rounding are told apart by
a rule. Here nothing has to be told apart: what depends is below 1e-40. Bodies are masses of points:
with x = p + R r, virtual displacements dp, dR and gravity g, a body's virtual work is

    sum dm dx (x'' - g) = m dp (p'' - g) + dp R'' h + (dR h) (p'' - g) + tr(dR S R''^T),  h = sum r
    dm, S = sum r r^T dm

and S = tr(I) / 2 - I, so that no angular velocity, twist or wrench occurs.
"""

from __future__ import annotations

from typing import Any

import gmpy2
import numpy as np
from gmpy2 import mpfr

from gough.mechanism.placement import Placement
from gough.mechanism.types import Mechanism

gmpy2.get_context().precision = 330
STEP = mpfr(10) ** -24  # of differences: accurate to 48 digits, rounding to 50
NOTHING = mpfr(10) ** -25
SINE, COSINE, NUMBER = (np.frompyfunc(f, 1, 1) for f in (gmpy2.sin, gmpy2.cos, mpfr))
EYE = NUMBER(np.eye(3).astype(object))
Array = np.ndarray[Any, Any]


def turned(axis: str, angle: Any) -> Array:
    k = "xyz".index(axis)
    i, j = (k + 1) % 3, (k + 2) % 3
    R = np.zeros((*np.shape(angle), 3, 3), dtype=object) + mpfr(0)
    R[..., k, k] = mpfr(1)
    R[..., i, i] = R[..., j, j] = COSINE(angle)
    R[..., j, i], R[..., i, j] = SINE(angle), -SINE(angle)
    return R


def placed(placement: Placement) -> tuple[Array, Array]:
    """Compose a placement; angles that print as multiples of 7.5 degrees are those."""
    R, p = EYE, NUMBER(np.zeros(3, dtype=object))
    for step, value in placement.steps:
        if step[0] == "T":
            p = p + R[:, "xyz".index(step[1])] * mpfr(value)
        else:
            parts = value / np.pi * 24
            near = abs(parts - round(parts)) < 1e-9
            R = R @ turned(step[1], gmpy2.const_pi() * round(parts) / 24 if near else mpfr(value))
    return R, p


class Chain:
    """Positions of a mechanism's bodies and its open loops; coordinates (..., n)."""

    def __init__(self, mechanism: Mechanism, length: float) -> None:
        self.mechanism = mechanism
        self.frames = [placed(joint.placement) for joint in mechanism.joints]
        self.unit = NUMBER(
            np.array(
                [1.0 if j.kind == "revolute" else length for j in mechanism.joints], dtype=object
            )
        )

    def poses(self, q: Array) -> dict[str, tuple[Array, Array]]:
        start = np.zeros((*q.shape[:-1], 3), dtype=object) + mpfr(0)
        found, waiting = (
            {"base": (np.broadcast_to(EYE, (*start.shape, 3)), start)},
            list(range(q.shape[-1])),
        )
        while waiting:
            k = next(k for k in waiting if self.mechanism.joints[k].parent in found)
            waiting.remove(k)
            joint = self.mechanism.joints[k]
            R, p = found[joint.parent]
            R, p = R @ self.frames[k][0], p + R @ self.frames[k][1]
            if joint.kind == "revolute":
                R = R @ turned(joint.axis, q[..., k])
            else:
                p = p + R[..., :, "xyz".index(joint.axis)] * q[..., k, None]
            found[joint.child] = R, p
        return found

    def opened(self, q: Array) -> Array:
        poses, rows, names = self.poses(q), [], self.mechanism.coordinates
        for closure in self.mechanism.closures:
            if closure.kind == "coupling":
                rows.append(
                    sum(q[..., [names.index(n)]] * mpfr(x) for n, x in closure.coefficients.items())
                    + mpfr(closure.constant)
                )
                continue
            ends = []
            for frame in (closure.a, closure.b):
                (R, p), (F, f) = poses[frame.body], placed(frame.placement)
                ends.append((R @ F, p + R @ f))
            (R, a), (S, b) = ends
            rows.append(b - a)
            if closure.kind == "revolute":
                rows.append(
                    np.stack([(R[..., 2] * S[..., k]).sum(axis=-1) for k in (0, 1)], axis=-1)
                )
            else:
                assert closure.kind == "point", closure.kind
        return np.concatenate(rows, axis=-1)

    def jacobian(self, q: Array) -> Array:
        """Return dphi/dq in coordinates of size one, (c, n)."""
        moves = np.diag(STEP * self.unit)
        return (self.opened(q + moves) - self.opened(q - moves)).T / (2 * STEP)

    def solved(self, K: Array, right: Array) -> tuple[Array, Array]:
        """Return one x (n,) with K x = right, and all with K x = 0 (n, m); Gauss-Jordan with full
        pivoting.
        """
        A, rows, columns = np.column_stack([K, right]), list(range(len(K))), list(range(K.shape[1]))
        x, pivots = NUMBER(np.zeros(K.shape[1], dtype=object)), []
        while rows and columns:
            size = np.abs(A[np.ix_(rows, columns)])
            i, j = np.unravel_index(int(np.argmax(size)), size.shape)
            if size[i, j] < mpfr(10) ** -18 * np.abs(K).max():
                break
            r, c = rows.pop(i), columns.pop(j)
            A[r] = A[r] / A[r, c]
            others = [k for k in range(len(A)) if k != r]
            A[others] = A[others] - A[others, c][:, None] * A[r]
            pivots.append((r, c))
        free = NUMBER(np.zeros((K.shape[1], len(columns)), dtype=object))
        free[columns, range(len(columns))] = mpfr(1)
        for r, c in pivots:
            x[c], free[c] = A[r, -1], -A[r, columns]
        return x * self.unit, free / np.abs(free).max(axis=0) * self.unit[:, None]


def exact_rank(mechanism: Mechanism, configurations: Array, length: float) -> int:
    """Return the rank of the regressor over random motion through configurations closed to
    rounding, (t, n).
    """
    chain, rng = Chain(mechanism, length), np.random.default_rng(0)
    gravity = NUMBER(np.array(mechanism.gravity, dtype=object))
    pace = float(np.sqrt(np.linalg.norm(np.array(mechanism.gravity, dtype=float)) / length))
    W = np.concatenate(
        [_rows(chain, NUMBER(q.astype(object)), gravity, pace, rng) for q in configurations]
    )
    for axis in (0, 1):
        size = np.abs(W).max(axis=axis, keepdims=True)
        W = W / np.where(size > mpfr(10) ** -30, size, mpfr(1))
    rank = 0
    while W.size and np.abs(W).max() > NOTHING:
        i, j = np.unravel_index(int(np.argmax(np.abs(W))), W.shape)
        W = np.delete(np.delete(W - np.outer(W[:, j], W[i] / W[i, j]), i, axis=0), j, axis=1)
        rank += 1
    return rank


def _rows(chain: Chain, q: Array, gravity: Array, pace: float, rng: np.random.Generator) -> Array:
    """Return the regressor of one configuration with random velocities and accelerations, (m,
    p).
    """
    for _ in range(4):
        q = q - chain.solved(chain.jacobian(q), chain.opened(q))[0]
    K = chain.jacobian(q)
    free = chain.solved(K, K[:, 0])[1]
    qd, qdd = (
        free @ NUMBER((rate * rng.standard_normal(free.shape[1])).astype(object))
        for rate in (pace, pace**2)
    )
    t = STEP / mpfr(pace)
    moments = np.array([t, mpfr(0), -t], dtype=object)
    after, now, before = chain.opened(q + np.outer(moments, qd))
    qdd = qdd - chain.solved(K, (after - 2 * now + before) / t**2)[0]
    path = chain.poses(q + np.outer(moments, qd) + np.outer(moments**2 / 2, qdd))
    near, m = chain.poses(np.concatenate([q + STEP * free.T, q - STEP * free.T])), free.shape[1]
    W, names = (
        NUMBER(np.zeros((m, len(chain.mechanism.standard)), dtype=object)),
        chain.mechanism.coordinates,
    )
    for column, name in enumerate(chain.mechanism.standard.names):
        owner, _, kind = str(name).rpartition(".")
        if owner in names:
            i = names.index(owner)
            W[:, column] = (
                free[i]
                * {
                    "ia": qdd[i],
                    "fv": qd[i],
                    "fs": mpfr(np.sign(qd[i])),
                    "off": mpfr(1),
                    "k": q[i],
                }[kind]
            )
            continue
        turn, force = (x[0] - 2 * x[1] + x[2] for x in path[owner])
        turn, force = turn / t**2, force / t**2 - gravity
        dR, dp = ((x[:m] - x[m:]) / (2 * STEP) for x in near[owner])
        if kind == "m":
            W[:, column] = dp @ force
        elif kind[0] == "m":
            k = "xyz".index(kind[1])
            W[:, column] = dp @ turn[:, k] + dR[:, :, k] @ force
        else:
            i, j = ("xyz".index(letter) for letter in kind[1:])
            inertia = NUMBER(np.zeros((3, 3), dtype=object))
            inertia[i, j] = inertia[j, i] = mpfr(1)
            spread = EYE * np.trace(inertia) / 2 - inertia
            W[:, column] = [(one @ spread * turn).sum() for one in dR]
    return W
