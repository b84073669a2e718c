"""Interval enclosures of CasADi graphs over boxes of their arguments.

Every quantity has a range over the box, a value at the centre z0 of the
box and slopes anywhere in the box. By the mean value theorem

    f(z) in f(z0) + sum_i [df/dz_i] (z_i - z0_i),

which narrows the range at every operation: rounding and the length of a
graph add terms of second order in the size of the box. All arithmetic
rounds outward.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gough.core.arrays import FloatArray
from gough.core.intervals import (
    Interval,
    above_sum,
    absolute,
    cosine,
    root,
    sine,
    square,
)
from gough.kernels.tape import CONST, INPUT, NAMES, Tape, UnsupportedOperation


@dataclass(frozen=True, eq=False)
class Bundle:
    """Enclosures of quantities over a box of d variables."""

    within: Interval  # anywhere in the box, (t, k)
    centre: Interval  # at the centre of the box, (t, k)
    # Of derivatives by the variables anywhere in the box, (t, k, d);
    # None if constant.
    slope: Interval | None = None

    @classmethod
    def constant(cls, value: Interval) -> Bundle:
        """Return quantities that do not depend on the variables."""
        return cls(value, value)

    def __getitem__(self, index: Any) -> Bundle:
        slope = None if self.slope is None else self.slope[index]
        return Bundle(self.within[index], self.centre[index], slope)

    def cut(self, reach: FloatArray) -> Bundle:
        """Return the quantities with ranges narrowed by the mean value theorem.

        Args:
            reach: Distance of the variables from the centre, (t, d).
        """
        if self.slope is None:
            return self
        radius = above_sum((self.slope.magnitude * reach).sum(axis=-1), reach.shape[-1])
        around_centre = self.centre + Interval(-radius, radius)
        return Bundle(self.within & around_centre, self.centre, self.slope)


def _times(factor: Interval, slope: Interval | None) -> Interval | None:
    """Return slopes (t, d) times a factor (t,)."""
    return None if slope is None else factor[..., None] * slope


def _plus(first: Interval | None, second: Interval | None) -> Interval | None:
    """Return the sum of slopes, which are None if they are zero."""
    if first is None:
        return second
    if second is None:
        return first
    return first + second


def _one(
    function: Callable[[Interval], Interval],
    slope: Callable[[Interval], Interval],
) -> Callable[..., Bundle]:
    """Return the rule of a unary function from enclosures of the function and its derivative."""

    def rule(a: Bundle) -> Bundle:
        """Apply the function to a bundle."""
        return Bundle(
            function(a.within),
            function(a.centre),
            _times(slope(a.within), a.slope),
        )

    return rule


def _divide(a: Bundle, b: Bundle) -> Bundle:
    """Return the quotient a / b."""
    ratio = a.within / b.within
    by_numerator = _times(_INTERVAL_ONE / b.within, a.slope)
    by_denominator = _times(-(ratio / b.within), b.slope)
    return Bundle(ratio, a.centre / b.centre, _plus(by_numerator, by_denominator))


def _sign(x: Interval) -> Interval:
    """Return the enclosure of the derivative of |x|."""
    return Interval(np.where(x.lower >= 0, 1.0, -1.0), np.where(x.upper <= 0, -1.0, 1.0))


_INTERVAL_ONE = Interval.point(np.ones(1))
_TWO = Interval.point(np.full(1, 2.0))
RULES: dict[str, Callable[..., Bundle]] = {
    "add": lambda a, b: Bundle(a.within + b.within, a.centre + b.centre, _plus(a.slope, b.slope)),
    "sub": lambda a, b: Bundle(
        a.within - b.within,
        a.centre - b.centre,
        _plus(a.slope, _times(-_INTERVAL_ONE, b.slope)),
    ),
    "mul": lambda a, b: Bundle(
        a.within * b.within,
        a.centre * b.centre,
        _plus(_times(b.within, a.slope), _times(a.within, b.slope)),
    ),
    "div": _divide,
    "neg": _one(lambda x: -x, lambda x: -_INTERVAL_ONE),
    "twice": _one(lambda x: _TWO * x, lambda x: _TWO),
    "sq": _one(square, lambda x: _TWO * x),
    "inv": _one(lambda x: _INTERVAL_ONE / x, lambda x: -(_INTERVAL_ONE / square(x))),
    "sqrt": _one(root, lambda x: _INTERVAL_ONE / (_TWO * root(x))),
    "fabs": _one(absolute, _sign),
    "sin": _one(sine, cosine),
    "cos": _one(cosine, lambda x: -sine(x)),
}


def enclose(tape: Tape, inputs: Sequence[Bundle], reach: FloatArray) -> list[Interval]:
    """Return ranges of a graph's outputs over boxes, (t, rows * columns) each.

    Args:
        inputs: Enclosure of each input, row by row, (t, rows *
            columns).
        reach: Distance of the variables from the centres of their
            boxes, (t, d).
    """
    last_reader: dict[int, int] = {}
    for k, (code, first, second) in enumerate(tape.nodes):
        if code not in (INPUT, CONST):
            last_reader[first] = k
            last_reader[second] = k
    outputs = {node for node, _, _ in tape.results}
    held: dict[int, Bundle] = {}
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        for k, (code, first, second) in enumerate(tape.nodes):
            if code == INPUT:
                held[k] = inputs[first][:, second]
                continue
            if code == CONST:
                number = struct.unpack("<d", struct.pack("<q", first))
                held[k] = Bundle.constant(Interval.point(number))
                continue
            if NAMES[code] not in RULES:
                raise UnsupportedOperation(
                    f"the operation '{NAMES[code]}' cannot be enclosed; write the expression "
                    f"with {', '.join(RULES)}",
                    operation=NAMES[code],
                )
            operands = [held[i] for i in (first, second) if i >= 0]
            held[k] = RULES[NAMES[code]](*operands).cut(reach)
            for i in {first, second} - outputs:
                if i >= 0 and last_reader[i] == k:
                    del held[i]  # to save memory
    ranges: list[Interval] = []
    for rows, columns in tape.output_shapes:
        shape = (len(reach), rows * columns)
        ranges.append(Interval(np.zeros(shape), np.zeros(shape)))
    for node, output, entry in tape.results:
        ranges[output].lower[:, entry] = held[node].within.lower
        ranges[output].upper[:, entry] = held[node].within.upper
    return ranges
