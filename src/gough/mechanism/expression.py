"""Expressions of joint terms, such as `sign(qd) * exp(-abs(qd) / speed)`: parsed, checked, evaluated; never executed.

    sum      product { (+ | -) product }
    product  factor { (* | /) factor }
    factor   (+ | -) factor | atom [ (^ | **) factor ]
    atom     number | 'quantity' | name | function ( sum { , sum } ) | ( sum )

Names are the joint's `q`, `qd`, `qdd` and `effort`, those of another joint (`elbow.qd`), `pi`, and what the term
declares: constants and recorded channels. A quantity in quotes has a unit: `lag(sign(qd), '0.1 s')`. Other numbers are
in SI units; whole ones are pure where units are checked, and decimal ones may have any.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np

from gough.core.errors import GoughError, InvalidInput, nearest
from gough.core.units import conversion, dimension_of, quantity

LONGEST, DEEPEST = 500, 30  # characters, and parentheses inside each other: the longest bundled term has 40 and 3
STATE = ("q", "qd", "qdd")
EFFORT = "effort"  # what the joint passes on, of its own only
# How many arguments each takes; all but `sign` and `lag` are functions of NumPy and CasADi under these names.
FUNCTIONS = {"sign": 1, "abs": 1, "exp": 1, "log": 1, "sqrt": 1, "sin": 1, "cos": 1, "tan": 1, "tanh": 1, "floor": 1,
             "min": 2, "max": 2, "lag": 2}
MATH = {"abs": "fabs", "min": "fmin", "max": "fmax"}
_TOKEN = re.compile(r"\s*(?:(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)|(?P<name>[A-Za-z_]\w*(?:\.\w+)*)"
                    r"|'(?P<quantity>[^']*)'|(?P<sign>\*\*|[-+*/^(),]))")

Dimension = tuple[Fraction, ...]  # powers of m, s, N; radians are none
NONE: Dimension = (Fraction(0),) * 3
BASE_UNITS = ("m", "s", "N")
_POWERS = {"length": (1, 0, 0), "angle": (0, 0, 0), "none": (0, 0, 0), "time": (0, 1, 0), "frequency": (0, -1, 0),
           "velocity": (1, -1, 0), "angular velocity": (0, -1, 0), "acceleration": (1, -2, 0),
           "angular acceleration": (0, -2, 0), "force": (0, 0, 1), "torque": (1, 0, 1)}


@dataclass(frozen=True)
class Node:
    """One operation, name or number of an expression, and where it stands in the text."""

    kind: str  # number, name, call, + - * / ^, or neg
    value: Any = None
    parts: tuple[Node, ...] = ()
    at: int = 0

    def walk(self) -> Iterator[Node]:
        """Yield this node and all below it."""
        yield self
        for part in self.parts:
            yield from part.walk()


def fault(text: str, at: int, message: str) -> InvalidInput:
    """Return an error that shows where in an expression it is."""
    return InvalidInput(f"'{text}', character {at + 1}: {message}", position=at + 1)


@lru_cache(maxsize=1024)
def parse(text: str) -> Node:
    """Return the tree of an expression.

    Raises:
        InvalidInput: Not an expression, an unknown function, too long or too deep; carries the position.
    """
    if len(text) > LONGEST:
        raise InvalidInput(f"an expression of {len(text)} characters is too long (at most {LONGEST})", position=LONGEST)
    tokens, at = [], 0
    while text[at:].strip():
        found = _TOKEN.match(text, at)
        if found is None:
            at += len(text[at:]) - len(text[at:].lstrip())
            raise fault(text, at, f"'{text[at]}' is not expected")
        kind = str(found.lastgroup)
        tokens.append((kind, found[kind], found.start(kind)))
        at = found.end()
    return _Parser(text, tokens).whole()


class _Parser:
    def __init__(self, text: str, tokens: list[tuple[str, str, int]]) -> None:
        self.text, self.tokens, self.next, self.depth = text, [*tokens, ("end", "", len(text))], 0, 0

    def whole(self) -> Node:
        node = self.sum()
        kind, found, at = self.tokens[self.next]
        if kind != "end":
            raise fault(self.text, at, f"'{found}' is not expected")
        self.check_numbers(node)
        return self.number_lags(node, [0])

    def check_numbers(self, node: Node) -> Any:
        """Return the value of a part of plain numbers, else None; raise where it has none or divides by zero."""
        below = [self.check_numbers(part) for part in node.parts]
        if node.kind == "/" and below[1] == 0:
            raise fault(self.text, node.at, "this divides by zero")
        if node.kind == "name" or None in below:
            return None
        try:
            with np.errstate(all="ignore"):
                value = evaluate(node, lambda sign: 1.0, np)
        except ArithmeticError:
            value = np.nan
        if not isinstance(value, float) or not np.isfinite(value):
            raise fault(self.text, node.at, "this has no value")
        return value

    def number_lags(self, node: Node, count: list[int]) -> Node:
        """Return the tree with its lags numbered, so that each finds its own state."""
        if node.kind == "call" and node.value == "lag":
            if any(below.value == "lag" for below in node.parts[0].walk()):
                raise fault(self.text, node.at, "a lag inside a lag is not possible")
            count[0] += 1
            return replace(node, kind="lag", value=count[0] - 1)
        return replace(node, parts=tuple(self.number_lags(part, count) for part in node.parts))

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
            raise fault(self.text, at, f"expected {' or '.join(signs)}, found {repr(word) if word else 'the end'}")
        return found[0]

    def chain(self, below: Callable[[], Node], *signs: str) -> Node:
        node = below()
        while (found := self.take(*signs)) is not None:
            node = Node(found[0], None, (node, below()), found[1])
        return node

    def sum(self) -> Node:
        self.depth += 1
        if self.depth > DEEPEST:
            raise fault(self.text, self.tokens[self.next][2], f"parentheses are nested deeper than {DEEPEST}")
        node = self.chain(lambda: self.chain(self.factor, "*", "/"), "+", "-")
        self.depth -= 1
        return node

    def factor(self) -> Node:
        found = self.take("+", "-")
        if found is not None:
            self.depth += 1
            node = self.factor() if self.depth <= DEEPEST else self.sum()  # raises
            self.depth -= 1
            return node if found[0] == "+" else Node("neg", None, (node,), found[1])
        node = self.atom()
        power = self.take("^", "**")
        return node if power is None else Node("^", None, (node, self.factor()), power[1])

    def atom(self) -> Node:
        kind, word, at = self.tokens[self.next]
        if kind == "number" or kind == "quantity":
            self.next += 1
            return Node("number", self.quantity(word, at) if kind == "quantity" else (
                float(word), "none" if word.isdigit() else ""), (), at)
        if self.take("("):
            node = self.sum()
            self.expect(")")
            return node
        if kind != "name":
            raise fault(self.text, at, f"expected a number, a name or (, found {repr(word) if word else 'the end'}")
        self.next += 1
        if not self.take("("):
            return Node("name", word, (), at)
        if word not in FUNCTIONS:
            raise fault(self.text, at, f"no function '{word}'{nearest(word, FUNCTIONS)}")
        parts = [self.sum()]
        while self.expect(",", ")") == ",":
            parts.append(self.sum())
        if len(parts) != FUNCTIONS[word]:
            raise fault(self.text, at, f"{word} takes {FUNCTIONS[word]} arguments, found {len(parts)}")
        return Node("call", word, tuple(parts), at)

    def quantity(self, text: str, at: int) -> tuple[float, str]:
        try:
            value, unit = quantity(text)
            return value * conversion(unit), dimension_of(unit)
        except GoughError as error:
            raise fault(self.text, at, str(error)) from None


def evaluate(node: Node, value: Callable[[Node], Any], math: Any) -> Any:
    """Return an expression's value.

    Args:
        value: What a name, a lag or a `sign` stands for.
        math: NumPy, CasADi, or anything with their functions.
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
    "+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b, "/": lambda a, b: a / b,
    "^": lambda a, b: a**b, "neg": lambda a: -a}


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
            (below if power > 0 else above).append(unit + ("" if abs(power) == 1 else f"{float(abs(power)):g}"))
    return " ".join(above) + ("" if not below else "/" + (below[0] if len(below) == 1 else f"({' '.join(below)})"))


def unit_powers(unit: str) -> Dimension | None:
    """Return a unit such as `N m s2/rad2` as powers of the base units; None if it has others than N, m, s, kg, rad."""
    total = list(NONE)
    parts = unit.replace("(", " ").replace(")", " ").split("/")
    for side, part in enumerate(parts[:2]):
        for word in part.split():
            found = re.fullmatch(r"(N|m|s|kg|rad|1)(?:\^?(\d+(?:\.\d+)?))?", word)
            if found is None or len(parts) > 2:
                return None
            power = Fraction(found[2] or "1") * (-1 if side else 1)
            base = {"N": (0, 0, 1), "m": (1, 0, 0), "s": (0, 1, 0), "kg": (-1, 2, 1)}.get(found[1], (0, 0, 0))
            total = [t + power * b for t, b in zip(total, base)]
    return tuple(total)


def dimension_in(text: str, node: Node, value: Callable[[Node], Dimension | None]) -> Dimension | None:
    """Return the dimension of an expression, None where it is not known.

    Args:
        text: The expression, for errors.
        node: Its tree, or a part of it.
        value: Dimension of a name.

    Raises:
        InvalidInput: Sums of different dimensions, functions of what has one; carries the position.
    """
    def below(k: int = 0) -> Dimension | None:
        return dimension_in(text, node.parts[k], value)

    if node.kind == "number":
        return powers(node.value[1])
    if node.kind == "name":
        return value(node)
    if node.kind == "neg" or node.value == "abs":
        return below()
    if node.kind == "lag" or node.value == "sign":
        below()
        return NONE if node.value == "sign" else below()
    if node.value == "sqrt":
        first = below()
        return None if first is None else tuple(p / 2 for p in first)
    if node.kind == "^":
        first, power = below(), node.parts[1]
        if below(1) not in (None, NONE):
            raise fault(text, node.at, f"a power is a pure number, found {_spoken(below(1) or NONE)}")
        if first is None or first == NONE:
            return first
        if not _plain(power):
            return None
        exponent = Fraction(evaluate(power, lambda _: 0.0, None)).limit_denominator(1000)
        return tuple(p * exponent for p in first)
    if node.kind in ("*", "/"):
        first, second = below(), below(1)
        if first is None or second is None:
            return None
        return tuple(a + b if node.kind == "*" else a - b for a, b in zip(first, second))
    if node.kind in ("+", "-") or node.value in ("min", "max"):
        first, second = below(), below(1)
        if _plain(node.parts[0]) or _plain(node.parts[1]):  # a number without a unit is in SI units
            return second if _plain(node.parts[0]) else first
        if first is not None and second is not None and first != second:
            raise fault(text, node.at, f"{_spoken(first)} and {_spoken(second)} cannot be added or compared")
        return second if first is None else first
    first = below()
    if first is not None and first != NONE:
        raise fault(text, node.at, f"{node.value} takes a pure number or an angle, found {_spoken(first)}")
    return NONE


def _plain(node: Node) -> bool:
    return _plain(node.parts[0]) if node.kind == "neg" else node.kind == "number" and node.value[1] in ("", "none")


def _spoken(dimension: Dimension) -> str:
    words = [unit if power == 1 else f"{unit}^{power}" for power, unit in zip(dimension, BASE_UNITS) if power]
    return "a quantity in " + " ".join(words) if words else "a pure number"
