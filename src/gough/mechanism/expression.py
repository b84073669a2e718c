"""Expressions of joint terms, such as `sign(qd) * exp(-abs(qd) / speed)`: parsed, checked,
evaluated; never executed.

    sum      product { (+ | -) product }
    product  factor { (* | /) factor }
    factor   (+ | -) factor | atom [ (^ | **) factor ]
    atom     number | 'quantity' | name | function ( sum { , sum } ) | ( sum )

Names are the joint's `q`, `qd`, `qdd` and `effort`, those of another joint (`elbow.qd`), `pi`, and
what the term
declares: constants and recorded channels. A quantity in quotes has a unit: `lag(sign(qd), '0.1
s')`. Other numbers are in SI units; whole ones are pure where units are checked, and decimal ones
may have any.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np

from gough.core.errors import GoughError, InvalidInput, nearest
from gough.core.units import conversion, dimension_of, quantity

LONGEST, DEEPEST = (
    500,
    30,
)  # characters, and parentheses inside each other: the longest bundled term has 40 and 3
STATE = ("q", "qd", "qdd")
EFFORT = "effort"  # transmitted effort of the term's own joint
# How many arguments each takes; all but `sign` and `lag` are functions of NumPy and CasADi under
# these names.
FUNCTIONS = {
    "sign": 1,
    "abs": 1,
    "exp": 1,
    "log": 1,
    "sqrt": 1,
    "sin": 1,
    "cos": 1,
    "tan": 1,
    "tanh": 1,
    "floor": 1,
    "min": 2,
    "max": 2,
    "lag": 2,
}
MATH = {"abs": "fabs", "min": "fmin", "max": "fmax"}
BINDS = {"+": 1, "-": 1, "*": 2, "/": 2}
_TOKEN = re.compile(
    r"\s*(?:(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)|(?P<name>[A-Za-z_]\w*(?:\.\w+)*)"
    r"|'(?P<quantity>[^']*)'|(?P<sign>\*\*|[-+*/^(),]))"
)

Dimension = tuple[Fraction, ...]  # powers of m, s, N; radians are none
NONE: Dimension = (Fraction(0),) * 3
BASE_UNITS = ("m", "s", "N")
_POWERS = {
    "length": (1, 0, 0),
    "angle": (0, 0, 0),
    "none": (0, 0, 0),
    "time": (0, 1, 0),
    "frequency": (0, -1, 0),
    "velocity": (1, -1, 0),
    "angular velocity": (0, -1, 0),
    "acceleration": (1, -2, 0),
    "angular acceleration": (0, -2, 0),
    "force": (0, 0, 1),
    "torque": (1, 0, 1),
}


@dataclass(frozen=True)
class Node:
    """One operation, name or number of an expression, and where it stands in the text."""

    kind: str  # number, name, call, lag, + - * / ^, or neg
    # of a number itself and its dimension; of a lag which of the expression's
    value: Any = None
    parts: tuple[Node, ...] = ()
    at: int = 0

    def walk(self) -> Iterator[Node]:
        """Yield this node and all below it."""
        yield self
        for part in self.parts:
            yield from part.walk()


def fault(text: str, at: int, message: str) -> InvalidInput:
    """Return an error with its position in an expression."""
    return InvalidInput(f"'{text}', character {at + 1}: {message}", position=at + 1)


@lru_cache(maxsize=1024)
def parse(text: str) -> Node:
    """Return the tree of an expression; errors carry their position."""
    if len(text) > LONGEST:
        raise InvalidInput(
            f"an expression of {len(text)} characters is too long (at most {LONGEST})",
            position=LONGEST,
        )
    tokens, at = [], 0
    while text[at:].strip():
        found = _TOKEN.match(text, at)
        if found is None:
            at += len(text[at:]) - len(text[at:].lstrip())
            raise fault(text, at, f"'{text[at]}' is not expected")
        kind = str(found.lastgroup)
        tokens.append((kind, found[kind], found.start(kind)))
        at = found.end()
    parser = _Parser(text, tokens)
    node = parser.nested(parser.operation)
    kind, word, at = parser.tokens[parser.next]
    if kind != "end":
        raise fault(text, at, f"'{word}' is not expected")
    _check_numbers(text, node)
    return node


def _check_numbers(text: str, node: Node) -> Any:
    """Return the value of a part of plain numbers, else None; raise where it has none or divides by
    zero.
    """
    below = [_check_numbers(text, part) for part in node.parts]
    if node.kind == "/" and below[1] == 0:
        raise fault(text, node.at, "this divides by zero")
    if node.kind in ("name", "lag") or None in below:
        return None
    try:
        with np.errstate(all="ignore"):
            value = evaluate(node, lambda sign: 1.0, np)
    except ArithmeticError:
        value = np.nan
    if not isinstance(value, float) or not np.isfinite(value):
        raise fault(text, node.at, "this has no value")
    return value


class _Parser:
    """Reads tokens from left to right; each function one rule of the grammar."""

    def __init__(self, text: str, tokens: list[tuple[str, str, int]]) -> None:
        self.text, self.tokens = text, [*tokens, ("end", "", len(text))]
        self.next = self.depth = self.lags = 0

    def take(self, *signs: str) -> tuple[str, int] | None:
        kind, found, at = self.tokens[self.next]
        if kind != "sign" or found not in signs:
            return None
        self.next += 1
        return found, at

    def expect(self, *signs: str) -> str:
        found = self.take(*signs)
        if found is None:
            _, word, at = self.tokens[self.next]
            raise fault(
                self.text,
                at,
                f"expected {' or '.join(signs)}, found {repr(word) if word else 'the end'}",
            )
        return found[0]

    def nested(self, rule: Callable[[], Node]) -> Node:
        self.depth += 1
        if self.depth > DEEPEST:
            raise fault(
                self.text,
                self.tokens[self.next][2],
                f"parentheses are nested deeper than {DEEPEST}",
            )
        node = rule()
        self.depth -= 1
        return node

    def operation(self, least: int = 1) -> Node:
        """Read factors with operations between them that bind at least so much."""
        node = self.factor()
        while found := self.take(*(sign for sign, binds in BINDS.items() if binds >= least)):
            node = Node(found[0], None, (node, self.operation(BINDS[found[0]] + 1)), found[1])
        return node

    def factor(self) -> Node:
        if found := self.take("+", "-"):
            node = self.nested(self.factor)
            return node if found[0] == "+" else Node("neg", None, (node,), found[1])
        node = self.atom()
        power = self.take("^", "**")
        return node if power is None else Node("^", None, (node, self.factor()), power[1])

    def atom(self) -> Node:
        kind, word, at = self.tokens[self.next]
        if self.take("("):
            node = self.nested(self.operation)
            self.expect(")")
            return node
        if kind not in ("number", "quantity", "name"):
            raise fault(
                self.text,
                at,
                f"expected a number, a name or (, found {repr(word) if word else 'the end'}",
            )
        self.next += 1
        if kind == "number":
            return Node("number", (float(word), "none" if word.isdigit() else ""), (), at)
        if kind == "quantity":
            try:
                value, unit = quantity(word)
                return Node("number", (value * conversion(unit), dimension_of(unit)), (), at)
            except GoughError as error:
                raise fault(self.text, at, str(error)) from None
        return self.call(word, at) if self.take("(") else Node("name", word, (), at)

    def call(self, word: str, at: int) -> Node:
        if word not in FUNCTIONS:
            raise fault(self.text, at, f"no function '{word}'{nearest(word, FUNCTIONS)}")
        parts = [self.nested(self.operation)]
        while self.expect(",", ")") == ",":
            parts.append(self.nested(self.operation))
        if len(parts) != FUNCTIONS[word]:
            raise fault(
                self.text, at, f"{word} takes {FUNCTIONS[word]} arguments, found {len(parts)}"
            )
        if word != "lag":
            return Node("call", word, tuple(parts), at)
        if any(below.kind == "lag" for below in parts[0].walk()):
            raise fault(self.text, at, "a lag inside a lag is not possible")
        self.lags += 1
        return Node("lag", self.lags - 1, tuple(parts), at)


def evaluate(node: Node, value: Callable[[Node], Any], math: Any) -> Any:
    """Return an expression's value by what names, lags and signs stand for, with the functions of
    NumPy or CasADi.
    """
    if node.kind == "number":
        return node.value[0]
    if node.kind in ("name", "lag") or (node.kind == "call" and node.value == "sign"):
        return value(node)
    parts = [evaluate(part, value, math) for part in node.parts]
    if node.kind == "call":
        return getattr(math, MATH.get(node.value, node.value))(*parts)
    return _OPERATIONS[node.kind](*parts)


_OPERATIONS: Mapping[str, Callable[..., Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "^": operator.pow,
    "neg": operator.neg,
}


def powers(dimension: str) -> Dimension | None:
    """Return a dimension as powers of the base units; None for one that is not known here."""
    found = _POWERS.get(dimension)
    return None if found is None else tuple(Fraction(p) for p in found)


def unit_text(dimension: Dimension | None, effort: str) -> str:
    """Return the unit of an effort divided by a dimension, such as `N s2/m2`."""
    if dimension is None:
        return f"{effort} per unit"
    above: list[str] = [effort]
    below: list[str] = []
    for power, unit in zip(dimension, BASE_UNITS):
        if power:
            (below if power > 0 else above).append(
                unit + ("" if abs(power) == 1 else f"{float(abs(power)):g}")
            )
    return " ".join(above) + (
        "" if not below else "/" + (below[0] if len(below) == 1 else f"({' '.join(below)})")
    )


def unit_powers(unit: str) -> Dimension | None:
    """Return a unit such as `N m s2/rad2` as powers of the base units; None if it has others than
    N, m, s, kg, rad.
    """
    total = list(NONE)
    parts = unit.replace("(", " ").replace(")", " ").split("/")
    for side, part in enumerate(parts[:2]):
        for word in part.split():
            found = re.fullmatch(r"(N|m|s|kg|rad|1)(?:\^?(\d+(?:\.\d+)?))?", word)
            if found is None or len(parts) > 2:
                return None
            power = Fraction(found[2] or "1") * (-1 if side else 1)
            base = {"N": (0, 0, 1), "m": (1, 0, 0), "s": (0, 1, 0), "kg": (-1, 2, 1)}.get(
                found[1], (0, 0, 0)
            )
            total = [t + power * b for t, b in zip(total, base)]
    return tuple(total)


def dimension_in(
    text: str, node: Node, value: Callable[[Node], Dimension | None]
) -> Dimension | None:
    """Return the dimension of an expression by those of its names, None where it is not known.

    Raises:
        InvalidInput: Sums of different dimensions, functions of what has one; carries the position.
    """
    kind, word = node.kind, node.value
    first, second, *_ = (*(dimension_in(text, part, value) for part in node.parts), None, None)
    if kind == "number":
        return powers(word[1])
    if kind == "name":
        return value(node)
    if kind in ("neg", "lag") or word == "abs":
        return first
    if word == "sqrt":
        return None if first is None else tuple(p / 2 for p in first)
    if kind == "^":
        if second not in (None, NONE):
            raise fault(text, node.at, f"a power is a pure number, found {_spoken(second or NONE)}")
        if first in (None, NONE) or not _plain(node.parts[1]):
            return first if first == NONE else None
        exponent = Fraction(evaluate(node.parts[1], lambda _: 0.0, None)).limit_denominator(1000)
        return tuple(p * exponent for p in first or NONE)
    if kind in ("*", "/"):
        if first is None or second is None:
            return None
        return tuple(a + b if kind == "*" else a - b for a, b in zip(first, second))
    if kind in ("+", "-") or word in ("min", "max"):
        plain = [_plain(part) for part in node.parts]  # a number without a unit is in SI units
        if not any(plain) and None not in (first, second) and first != second:
            raise fault(
                text,
                node.at,
                f"{_spoken(first or NONE)} and {_spoken(second or NONE)} cannot be added or "
                "compared",
            )
        return second if plain[0] or (first is None and not plain[1]) else first
    if word != "sign" and first not in (None, NONE):
        raise fault(
            text, node.at, f"{word} takes a pure number or an angle, found {_spoken(first or NONE)}"
        )
    return NONE


def _plain(node: Node) -> bool:
    return (
        _plain(node.parts[0])
        if node.kind == "neg"
        else node.kind == "number" and node.value[1] in ("", "none")
    )


def _spoken(dimension: Dimension) -> str:
    words = [
        unit if power == 1 else f"{unit}^{power}"
        for power, unit in zip(dimension, BASE_UNITS)
        if power
    ]
    return "a quantity in " + " ".join(words) if words else "a pure number"
