"""Interval arithmetic on NumPy arrays that rounds outward: the exact result is always inside.

A correctly rounded operation is at most half a unit in the last place off, so one step to the next
number on either side encloses it, underflow and overflow included. Sums of products go through
BLAS, whose order of summation is unknown; they are enclosed by the a-priori bound that holds for
every order, with or without fused operations:

    |fl(A x) - A x| <= gamma_n |A| |x| + n eta,    gamma_n = n u / (1 - n u),  u = 2^-53

(Higham, Accuracy and Stability of Numerical Algorithms, (3.5)). eta is the smallest normal number.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gough.core.arrays import FloatArray

_UNIT = 2.0**-53  # u
_ETA = float(np.finfo(float).tiny)
_WAVE = 2.0**-49  # NumPy's sine and cosine are at most four units in the last place off
# a top or bottom of a wave so near [half turns] counts as inside: arguments up to 1e5 may be
# rounded
_NEAR = 1e-9


def down(value: FloatArray) -> FloatArray:
    return np.asarray(np.nextafter(value, -np.inf))


def up(value: FloatArray) -> FloatArray:
    return np.asarray(np.nextafter(value, np.inf))


@dataclass(frozen=True, eq=False)
class Interval:
    """An array of closed intervals [lower, upper]; bounds may be infinite, lower > upper means
    empty.
    """

    lower: FloatArray
    upper: FloatArray

    @classmethod
    def point(cls, value: ArrayLike) -> Interval:
        array = np.asarray(value, dtype=float)
        return cls(array, array)

    @classmethod
    def around(cls, center: ArrayLike, radius: ArrayLike) -> Interval:
        """Return an enclosure of [center - radius, center + radius]."""
        middle, reach = np.asarray(center, dtype=float), np.asarray(radius, dtype=float)
        return cls(down(middle - reach), up(middle + reach))

    def __getitem__(self, index: Any) -> Interval:
        return Interval(self.lower[index], self.upper[index])

    def __add__(self, other: Interval) -> Interval:
        return Interval(down(self.lower + other.lower), up(self.upper + other.upper))

    def __neg__(self) -> Interval:
        return Interval(-self.upper, -self.lower)

    def __sub__(self, other: Interval) -> Interval:
        return self + (-other)

    def _corners(
        self, operation: Callable[[Any, Any], Any], low: FloatArray, high: FloatArray
    ) -> Interval:
        """Enclose a product or quotient by the values at the bounds.

        0 times infinity and infinity / infinity: an infinite bound is not a member of the interval,
        so 0 is taken.
        """
        with np.errstate(invalid="ignore"):
            corners = [operation(a, b) for a in (self.lower, self.upper) for b in (low, high)]
        corners = [np.where(np.isnan(c), 0.0, c) for c in corners]
        return Interval(down(np.minimum.reduce(corners)), up(np.maximum.reduce(corners)))

    def __mul__(self, other: Interval) -> Interval:
        return self._corners(np.multiply, other.lower, other.upper)

    def __truediv__(self, other: Interval) -> Interval:
        """Divide; where the divisor contains zero the quotient is the whole line."""
        safe = ~other.contains(0.0)
        found = self._corners(
            np.divide, np.where(safe, other.lower, 1.0), np.where(safe, other.upper, 1.0)
        )
        return Interval(np.where(safe, found.lower, -np.inf), np.where(safe, found.upper, np.inf))

    def __and__(self, other: Interval) -> Interval:
        """Intersect; no rounding happens."""
        return Interval(np.maximum(self.lower, other.lower), np.minimum(self.upper, other.upper))

    @property
    def empty(self) -> NDArray[np.bool_]:
        """Where nothing is inside."""
        return np.asarray(~(self.lower <= self.upper))

    @property
    def middle(self) -> FloatArray:
        """A number inside each bounded interval, near its centre; not rigorous as the centre
        itself.
        """
        return np.clip(0.5 * self.lower + 0.5 * self.upper, self.lower, self.upper)

    @property
    def radius(self) -> FloatArray:
        """An upper bound of the distance from `middle` to any point inside."""
        return up(np.maximum(self.upper - self.middle, self.middle - self.lower))

    @property
    def magnitude(self) -> FloatArray:
        """The largest absolute value inside."""
        return np.maximum(np.abs(self.lower), np.abs(self.upper))

    def contains(self, value: FloatArray | float) -> NDArray[np.bool_]:
        return np.asarray((self.lower <= value) & (value <= self.upper))

    def sum(self) -> Interval:
        """Sum along the last axis, one outward-rounded addition at a time."""
        total = Interval.point(np.zeros(self.lower.shape[:-1]))
        for i in range(self.lower.shape[-1]):
            total = total + self[..., i]
        return total


def absolute(x: Interval) -> Interval:
    return Interval(
        np.where(x.contains(0.0), 0.0, np.minimum(np.abs(x.lower), np.abs(x.upper))), x.magnitude
    )


def square(x: Interval) -> Interval:
    return Interval(np.maximum(down(absolute(x).lower ** 2), 0.0), up(x.magnitude**2))


def root(x: Interval) -> Interval:
    """Enclose the square root of the part of x that has one; empty where there is none."""
    with np.errstate(invalid="ignore"):
        return Interval(
            np.maximum(down(np.sqrt(np.maximum(x.lower, 0.0))), 0.0), up(np.sqrt(x.upper))
        )


def cosine(x: Interval) -> Interval:
    return _wave(np.cos, x, 0.0)


def sine(x: Interval) -> Interval:
    return _wave(np.sin, x, 0.5)


def _wave(function: Callable[[FloatArray], FloatArray], x: Interval, first: float) -> Interval:
    """Enclose a wave whose tops lie at (first + 2 k) pi and whose bottoms lie between."""
    ends = function(x.lower), function(x.upper)
    low, high = np.minimum(*ends) - _WAVE, np.maximum(*ends) + _WAVE
    start, stop = x.lower / np.pi - first - _NEAR, x.upper / np.pi - first + _NEAR
    top, bottom = (np.floor((stop - k) / 2) >= np.ceil((start - k) / 2) for k in (0.0, 1.0))
    return Interval(
        np.maximum(np.where(bottom, -1.0, low), -1.0), np.minimum(np.where(top, 1.0, high), 1.0)
    )


def above_sum(computed: FloatArray, terms: int) -> FloatArray:
    """Return an upper bound of an exact sum of non-negative products from its computed value.

    computed >= (1 - gamma_n) exact - n eta, and 1 + 4 n u is a number of the machine that exceeds 1
    / (1 - gamma_n) by more than the rounding of the multiplication (n < 2^40).
    """
    return up(up(computed + terms * _ETA) * (1.0 + 4.0 * terms * _UNIT))


def product(matrix: FloatArray, interval: Interval) -> Interval:
    """Enclose matrix @ x for every x in the interval: (m, n) by (n,) or (n, k), all finite.

    With middle c and radius r of the interval, A x lies within |A| r of A c; the computed A c lies
    within gamma_n |A| |c| of A c.
    """
    terms, size, center = matrix.shape[1], np.abs(matrix), interval.middle
    rounding = above_sum(size @ np.abs(center), terms) * (2.0 * terms * _UNIT)  # 2 n u > gamma_n
    spread = up(above_sum(size @ interval.radius, terms) + up(rounding + terms * _ETA))
    return Interval.around(matrix @ center, spread)


def size_of_product(
    matrix: FloatArray, interval: Interval, minus: FloatArray | float = 0.0
) -> FloatArray:
    """Return an upper bound of |matrix @ x - minus| for every x in the interval: (..., m, n) by
    (..., n, k).
    """
    terms, size, center = matrix.shape[-1], np.abs(matrix), interval.middle
    rounding = (
        above_sum(size @ np.abs(center), terms) * (2.0 * (terms + 2) * _UNIT)
        + np.abs(minus) * 2 * _UNIT
    )
    spread = above_sum(size @ interval.radius, terms)
    return up(up(np.abs(matrix @ center - minus) + spread) + up(rounding + terms * _ETA))
