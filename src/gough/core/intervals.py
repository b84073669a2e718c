"""Interval arithmetic on NumPy arrays that rounds outward: the exact result is always inside.

A correctly rounded operation is at most half a unit in the last place
off, so one step to the next number on either side encloses it,
underflow and overflow included. Sums of products go through BLAS, whose
order of summation is unknown; they are enclosed by the a-priori bound
that holds for every order, with or without fused operations:

    |fl(A x) - A x| <= gamma_n |A| |x| + n eta,    gamma_n = n u / (1 - n u),  u = 2^-53

(Higham, Accuracy and Stability of Numerical Algorithms, (3.5)). eta is
the smallest normal number.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from gough.core.arrays import BoolArray, FloatArray

_UNIT = 2.0**-53  # u
_ETA = float(np.finfo(float).tiny)
# NumPy's sine and cosine are at most four units in the last place off
_WAVE_ERROR = 2.0**-49
# An extremum of a wave this close to an interval [half turns] is taken
# as inside: arguments up to 1e5 may be rounded.
_EXTREMUM_MARGIN = 1e-9


def down(value: FloatArray) -> FloatArray:
    """Return the next smaller numbers."""
    return np.asarray(np.nextafter(value, -np.inf))


def up(value: FloatArray) -> FloatArray:
    """Return the next larger numbers."""
    return np.asarray(np.nextafter(value, np.inf))


@dataclass(frozen=True, eq=False)
class Interval:
    """An array of closed intervals; bounds may be infinite, lower > upper means empty."""

    lower: FloatArray
    upper: FloatArray

    @classmethod
    def point(cls, value: ArrayLike) -> Interval:
        """Return intervals that contain one number each."""
        array = np.asarray(value, dtype=float)
        return cls(array, array)

    @classmethod
    def around(cls, center: ArrayLike, radius: ArrayLike) -> Interval:
        """Return an enclosure of [center - radius, center + radius]."""
        c = np.asarray(center, dtype=float)
        r = np.asarray(radius, dtype=float)
        return cls(down(c - r), up(c + r))

    def __getitem__(self, index: Any) -> Interval:
        return Interval(self.lower[index], self.upper[index])

    def __add__(self, other: Interval) -> Interval:
        return Interval(down(self.lower + other.lower), up(self.upper + other.upper))

    def __neg__(self) -> Interval:
        return Interval(-self.upper, -self.lower)

    def __sub__(self, other: Interval) -> Interval:
        return self + (-other)

    def _corners(
        self,
        operation: Callable[[Any, Any], Any],
        low: FloatArray,
        high: FloatArray,
    ) -> Interval:
        """Enclose a product or quotient by the values at the bounds.

        0 times infinity and infinity / infinity: an infinite bound is
        not a member of the interval, so 0 is taken.
        """
        with np.errstate(invalid="ignore"):
            corners = np.stack(
                [
                    operation(self.lower, low),
                    operation(self.lower, high),
                    operation(self.upper, low),
                    operation(self.upper, high),
                ]
            )
        corners = np.where(np.isnan(corners), 0.0, corners)
        return Interval(down(corners.min(axis=0)), up(corners.max(axis=0)))

    def __mul__(self, other: Interval) -> Interval:
        return self._corners(np.multiply, other.lower, other.upper)

    def __truediv__(self, other: Interval) -> Interval:
        """Divide; where the divisor contains zero the quotient is the whole line."""
        nonzero = ~other.contains(0.0)
        low = np.where(nonzero, other.lower, 1.0)
        high = np.where(nonzero, other.upper, 1.0)
        quotient = self._corners(np.divide, low, high)
        return Interval(
            np.where(nonzero, quotient.lower, -np.inf),
            np.where(nonzero, quotient.upper, np.inf),
        )

    def __and__(self, other: Interval) -> Interval:
        """Intersect; no rounding happens."""
        return Interval(
            np.maximum(self.lower, other.lower),
            np.minimum(self.upper, other.upper),
        )

    @property
    def empty(self) -> BoolArray:
        """Where nothing is inside."""
        return np.asarray(~(self.lower <= self.upper))

    @property
    def middle(self) -> FloatArray:
        """A number inside each bounded interval, near its centre, which it need not be exactly."""
        return np.clip(0.5 * self.lower + 0.5 * self.upper, self.lower, self.upper)

    @property
    def radius(self) -> FloatArray:
        """An upper bound of the distance from `middle` to any point inside."""
        return up(np.maximum(self.upper - self.middle, self.middle - self.lower))

    @property
    def magnitude(self) -> FloatArray:
        """The largest absolute value inside."""
        return np.maximum(np.abs(self.lower), np.abs(self.upper))

    def contains(self, value: FloatArray | float) -> BoolArray:
        """Return where a number is inside."""
        return np.asarray((self.lower <= value) & (value <= self.upper))

    def sum(self) -> Interval:
        """Sum along the last axis, one outward-rounded addition at a time."""
        total = Interval.point(np.zeros(self.lower.shape[:-1]))
        for i in range(self.lower.shape[-1]):
            total = total + self[..., i]
        return total


def absolute(x: Interval) -> Interval:
    """Return the absolute values of an interval; no rounding happens."""
    nearest_bound = np.minimum(np.abs(x.lower), np.abs(x.upper))
    return Interval(np.where(x.contains(0.0), 0.0, nearest_bound), x.magnitude)


def square(x: Interval) -> Interval:
    """Enclose the squares of an interval."""
    lower = down(absolute(x).lower ** 2)
    return Interval(np.maximum(lower, 0.0), up(x.magnitude**2))


def root(x: Interval) -> Interval:
    """Enclose the square roots of the non-negative numbers in x; empty where there are none."""
    with np.errstate(invalid="ignore"):
        lower = down(np.sqrt(np.maximum(x.lower, 0.0)))
        upper = up(np.sqrt(x.upper))
    return Interval(np.maximum(lower, 0.0), upper)


def cosine(x: Interval) -> Interval:
    """Enclose the cosines of an interval."""
    return _wave(np.cos, x, 0.0)


def sine(x: Interval) -> Interval:
    """Enclose the sines of an interval."""
    return _wave(np.sin, x, 0.5)


def _wave(function: Callable[[FloatArray], FloatArray], x: Interval, first: float) -> Interval:
    """Enclose a sine wave on an interval.

    Args:
        function: The wave.
        x: The interval. [rad]
        first: Its maxima are at (first + 2 k) pi, its minima in the
            middle between them.
    """
    at_lower = function(x.lower)
    at_upper = function(x.upper)
    low = np.minimum(at_lower, at_upper) - _WAVE_ERROR
    high = np.maximum(at_lower, at_upper) + _WAVE_ERROR
    start = x.lower / np.pi - first - _EXTREMUM_MARGIN  # half turns since a maximum
    stop = x.upper / np.pi - first + _EXTREMUM_MARGIN
    has_maximum = np.floor(stop / 2) >= np.ceil(start / 2)
    has_minimum = np.floor((stop - 1.0) / 2) >= np.ceil((start - 1.0) / 2)
    low = np.where(has_minimum, -1.0, low)
    high = np.where(has_maximum, 1.0, high)
    return Interval(np.maximum(low, -1.0), np.minimum(high, 1.0))


def above_sum(computed: FloatArray, terms: int) -> FloatArray:
    """Return an upper bound of an exact sum of non-negative products from its computed value.

    computed >= (1 - gamma_n) exact - n eta, and 1 + 4 n u is a number
    of the machine that exceeds 1 / (1 - gamma_n) by more than the
    rounding of the multiplication (n < 2^40).
    """
    return up(up(computed + terms * _ETA) * (1.0 + 4.0 * terms * _UNIT))


def product(matrix: FloatArray, interval: Interval) -> Interval:
    """Enclose matrix @ x for every x in the interval.

    With middle c and radius r of the interval, A x lies within |A| r of
    A c; the computed A c lies within gamma_n |A| |c| of A c.

    Args:
        matrix: (m, n), finite.
        interval: (n,) or (n, k), finite.
    """
    terms = matrix.shape[1]
    magnitude = np.abs(matrix)
    center = interval.middle
    # 2 n u > gamma_n
    rounding = above_sum(magnitude @ np.abs(center), terms) * (2.0 * terms * _UNIT)
    reach = above_sum(magnitude @ interval.radius, terms)
    return Interval.around(matrix @ center, up(reach + up(rounding + terms * _ETA)))


def magnitude_of_product(
    matrix: FloatArray, interval: Interval, minus: FloatArray | float = 0.0
) -> FloatArray:
    """Return an upper bound of |matrix @ x - minus| for every x in the interval, (..., m, k).

    Args:
        matrix: (..., m, n), finite.
        interval: (..., n, k), finite.
        minus: A number, or (..., m, k).
    """
    terms = matrix.shape[-1]
    magnitude = np.abs(matrix)
    center = interval.middle
    rounding = above_sum(magnitude @ np.abs(center), terms) * (2.0 * (terms + 2) * _UNIT)
    rounding = rounding + np.abs(minus) * 2 * _UNIT
    reach = above_sum(magnitude @ interval.radius, terms)
    return up(up(np.abs(matrix @ center - minus) + reach) + up(rounding + terms * _ETA))
