"""What data tell of a load, and what they leave open: noise is not information, nor is what was known before.

With [W y] the whitened equations, G = W^T W their information, N what noise of the positions alone would make of it
and D how large the parameters of a load can be, the directions v of

    (G - N) v = mu (N + D^-2) v

with mu + 1 below `OBSERVED` are hidden: noise fills them, or a load of any kind would look the same. Along the others,
V, the equations tell, without the part of noise in them, by which noisy columns attenuate,

    V^T (N + D^-2) x = diag(1 / mu) V^T (W^T y - n),    n = what noise makes of W^T y,

whatever the hidden part of x, since the directions are orthogonal in G - N. Of all x with that, the smallest in units
of D is taken; the rest of what was open before stays open.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import cholesky, qr, solve_triangular

from gough.core.arrays import FloatArray
from gough.estimators.noise_information import OBSERVED


@dataclass(frozen=True, kw_only=True, eq=False)
class Seen:
    """What equations tell of p parameters.

    Args:
        values: The smallest that agree with the equations, (p,).
        along: V, the q directions that are seen, (p, q). [parameter unit]
        information: mu, on each of them, (q,).
        back: From what is seen along them to the parameters, (p, q). [parameter unit]
        hidden: Square root of the covariance of what stays open, (p, p). [parameter unit]
        directions: Changes of the parameters that the equations do not show, (k, p). [parameter unit]
        prior_std: D, (p,). [parameter unit]
        over_noise: V and mu of all directions, in units of D, (p, p) and (p,).
    """

    values: FloatArray
    along: FloatArray
    information: FloatArray
    back: FloatArray
    hidden: FloatArray
    directions: FloatArray
    prior_std: FloatArray
    over_noise: tuple[FloatArray, FloatArray]

    @property
    def root(self) -> FloatArray:
        """Square root of the covariance that white noise of the stated size gives, (p, q)."""
        return np.asarray(self.back / np.sqrt(self.information))

    @property
    def white(self) -> FloatArray:
        """Covariance if noise is white and of the stated size, (p, p)."""
        return np.asarray(self.root @ self.root.T + self.hidden @ self.hidden.T)

    def ratio(self, contrasts: FloatArray) -> FloatArray:
        """Return the information on combinations a x over that of noise alone and of what was known before, (k,).

        Whatever the others, a x is seen along c = (G + D^-2)^-1 a: 1 + c^T (G - N) c / c^T (N + D^-2) c, of which 1
        means nothing.

        Args:
            contrasts: a, (k, p).
        """
        V, known = self.over_noise
        c = (V.T @ (contrasts * self.prior_std).T) / (known[:, None] + 1)  # along V, where N + D^-2 is 1
        below = (c**2).sum(axis=0)
        return np.asarray(1 + np.divide(known @ c**2, below, out=np.zeros(len(below)), where=below > 0))


def seen(gram: FloatArray, noise: FloatArray, prior_std: FloatArray) -> Seen:
    """Return what equations tell.

    Args:
        gram: [W y]^T [W y] of the whitened equations, (p + 1, p + 1).
        noise: What noise of the positions alone makes of it, (p + 1, p + 1).
        prior_std: How large parameters can be, (p,): finite, so that "not observed" has a scale.
    """
    p = len(prior_std)
    scale = np.append(prior_std, 1.0)
    gram, noise = gram * np.outer(scale, scale), noise * np.outer(scale, scale)
    before = noise[:p, :p] + np.eye(p)
    lower, useful = cholesky(before, lower=True), gram - noise
    inner = solve_triangular(lower, solve_triangular(lower, useful[:p, :p], lower=True).T, lower=True)
    known, turned = np.linalg.eigh((inner + inner.T) / 2)
    V = solve_triangular(lower.T, turned)
    clear = known >= OBSERVED - 1
    along = V[:, clear]
    frame, triangle = np.linalg.qr(before @ along)
    back = solve_triangular(triangle, frame.T).T
    values = back @ ((along.T @ useful[:p, p]) / known[clear])
    scaled = prior_std[:, None]
    return Seen(values=values * prior_std, along=along * scaled, information=known[clear], back=back * scaled,
                hidden=(np.eye(p) - frame @ frame.T) * scaled, directions=_readable(V[:, ~clear].T) * prior_std,
                prior_std=prior_std, over_noise=(V, known))


def _readable(directions: FloatArray) -> FloatArray:
    """Return another basis of the same space in which each direction has a parameter of its own."""
    if not len(directions):
        return directions
    pivots = qr(directions, mode="r", pivoting=True)[1][:len(directions)]
    turned = np.linalg.solve(directions[:, pivots], directions)
    return np.where(np.abs(turned) < 0.02, 0.0, turned)


def in_words(names: tuple[str, ...], direction: FloatArray) -> str:
    """Return a direction as text, e.g. `Ixx - 0.98 Iyy`."""
    lead = direction[np.argmax(np.abs(direction) > 0)]
    text = ""
    for name, coefficient in zip(names, direction / lead):
        if coefficient:
            size = f"{abs(coefficient):.2g}"
            sign = (" - " if coefficient < 0 else " + ") if text else ""
            text += f"{sign}{'' if size == '1' else size + ' '}{name}"
    return text
