"""A CasADi graph over boxes instead of points: ranges that hold whatever the arguments inside.

Beside its range every quantity carries its value at the centre z0 of the box and its slopes
anywhere in the box. By the mean value theorem

    f(z) in f(z0) + sum_i [df/dz_i] (z_i - z0_i),

which cuts the range at every operation: what rounding and the length of a graph add is of second
order in the box. All arithmetic rounds outward.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gough.core.arrays import FloatArray
from gough.core.intervals import Interval, above_sum, absolute, cosine, root, sine, square
from gough.kernels.tape import CONST, INPUT, NAMES, Tape, UnsupportedOperation


@dataclass(frozen=True, eq=False)
class Bundle:
    """What is known of quantities over a box of d variables.

    Args:
        within: Holds them anywhere in the box, (t, k).
        centre: Holds them at the centre, (t, k).
        slope: Holds their derivatives by the variables anywhere in the box, (t, k, d), or None if
            they are constant.
    """

    within: Interval
    centre: Interval
    slope: Interval | None = None

    @classmethod
    def constant(cls, value: Interval) -> Bundle:
        """Return quantities that the variables do not change."""
        return cls(value, value)

    def __getitem__(self, index: Any) -> Bundle:
        return Bundle(
            self.within[index],
            self.centre[index],
            None if self.slope is None else self.slope[index],
        )

    def cut(self, reach: FloatArray) -> Bundle:
        """Return the same, ranges cut by the mean value theorem; `reach` of the variables about the
        centre, (t, d).
        """
        if self.slope is None:
            return self
        spread = above_sum((self.slope.magnitude * reach).sum(axis=-1), reach.shape[-1])
        return Bundle(
            self.within & (self.centre + Interval(-spread, spread)), self.centre, self.slope
        )


def _times(factor: Interval, slope: Interval | None) -> Interval | None:
    """Return slopes (t, d) times a factor (t,)."""
    return None if slope is None else factor[..., None] * slope


def _plus(first: Interval | None, second: Interval | None) -> Interval | None:
    if first is None or second is None:
        return second if first is None else first
    return first + second


def _one(
    function: Callable[[Interval], Interval], slope: Callable[[Interval], Interval]
) -> Callable[..., Bundle]:
    """Return the rule of a function of one argument from its enclosure and that of its
    derivative.
    """

    def rule(a: Bundle) -> Bundle:
        return Bundle(function(a.within), function(a.centre), _times(slope(a.within), a.slope))

    return rule


def _divide(a: Bundle, b: Bundle) -> Bundle:
    ratio = a.within / b.within
    own, other = _times(_ONE / b.within, a.slope), _times(-(ratio / b.within), b.slope)
    return Bundle(ratio, a.centre / b.centre, _plus(own, other))


_ONE, _TWO = Interval.point(np.ones(1)), Interval.point(np.full(1, 2.0))
RULES: dict[str, Callable[..., Bundle]] = {
    "add": lambda a, b: Bundle(a.within + b.within, a.centre + b.centre, _plus(a.slope, b.slope)),
    "sub": lambda a, b: Bundle(
        a.within - b.within, a.centre - b.centre, _plus(a.slope, _times(-_ONE, b.slope))
    ),
    "mul": lambda a, b: Bundle(
        a.within * b.within,
        a.centre * b.centre,
        _plus(_times(b.within, a.slope), _times(a.within, b.slope)),
    ),
    "div": _divide,
    "neg": _one(lambda x: -x, lambda x: -_ONE),
    "twice": _one(lambda x: _TWO * x, lambda x: _TWO),
    "sq": _one(square, lambda x: _TWO * x),
    "inv": _one(lambda x: _ONE / x, lambda x: -(_ONE / square(x))),
    "sqrt": _one(root, lambda x: _ONE / (_TWO * root(x))),
    "fabs": _one(
        absolute,
        lambda x: Interval(np.where(x.lower >= 0, 1.0, -1.0), np.where(x.upper <= 0, -1.0, 1.0)),
    ),
    "sin": _one(sine, cosine),
    "cos": _one(cosine, lambda x: -sine(x)),
}


def enclose(tape: Tape, inputs: Sequence[Bundle], reach: FloatArray) -> list[Interval]:
    """Return ranges of a graph's outputs over boxes, (t, rows * columns) each.

    Args:
        inputs: What is known of each input, row by row, (t, size).
        reach: How far the variables go from the centres of their boxes, (t, d).
    """
    last: dict[int, int] = {}
    for k, (code, first, second) in enumerate(tape.nodes):
        if code not in (INPUT, CONST):
            last |= {first: k, second: k}
    wanted = {node for node, _, _ in tape.results}
    held: dict[int, Bundle] = {}
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        for k, (code, first, second) in enumerate(tape.nodes):
            if code == INPUT:
                held[k] = inputs[first][:, second]
                continue
            if code == CONST:
                held[k] = Bundle.constant(
                    Interval.point(struct.unpack("<d", struct.pack("<q", first)))
                )
                continue
            if NAMES[code] not in RULES:
                raise UnsupportedOperation(
                    f"the operation '{NAMES[code]}' cannot be enclosed; write the expression "
                    f"with {', '.join(RULES)}",
                    operation=NAMES[code],
                )
            held[k] = RULES[NAMES[code]](*(held[i] for i in (first, second) if i >= 0)).cut(reach)
            for i in {first, second} - wanted:
                if i >= 0 and last[i] == k:
                    del held[i]
    found = [
        Interval(*np.zeros((2, len(reach), rows * columns))) for rows, columns in tape.output_shapes
    ]
    for node, output, entry in tape.results:
        found[output].lower[:, entry], found[output].upper[:, entry] = (
            held[node].within.lower,
            held[node].within.upper,
        )
    return found
