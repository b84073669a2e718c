"""Expressions of joint terms, such as `sign(qd) * exp(-abs(qd) / speed)`.

They are parsed, checked and evaluated here; no text is ever executed.

    sum      product { (+ | -) product }
    product  factor { (* | /) factor }
    factor   (+ | -) factor | atom [ (^ | **) factor ]
    atom     number | 'quantity' | name | function ( sum { , sum } ) | ( sum )

Names are the joint's `q`, `qd`, `qdd` and `effort`, those of another
joint (`elbow.qd`), `pi`, and the constants and recorded channels that
the term declares. A quantity in quotes has a unit: `lag(sign(qd), '0.1
s')`. Other numbers are in SI units. Where units are checked, whole
numbers are dimensionless, and decimal numbers may have any dimension.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from gough.core.errors import GoughError, InvalidInput, nearest
from gough.core.units import conversion, dimension_of, quantity

# The longest bundled term has 40 characters and 3 nested parentheses.
MAX_EXPRESSION_CHARS = 500
MAX_EXPRESSION_DEPTH = 30
STATE_NAMES = ("q", "qd", "qdd")
EFFORT_NAME = "effort"  # transmitted effort of the term's own joint
# Number of arguments of each function.
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
# Functions that NumPy and CasADi call differently; `sign` and `lag` are
# evaluated by the caller.
_MATH_NAMES = {"abs": "fabs", "min": "fmin", "max": "fmax"}
_PRECEDENCE = {"+": 1, "-": 1, "*": 2, "/": 2}
_OPERATIONS: Mapping[str, Callable[..., Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "^": operator.pow,
    "neg": operator.neg,
}
_TOKEN = re.compile(
    r"\s*(?:(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)|(?P<name>[A-Za-z_]\w*(?:\.\w+)*)"
    r"|'(?P<quantity>[^']*)'|(?P<sign>\*\*|[-+*/^(),]))"
)

Dimension = tuple[Fraction, ...]  # powers of m, s, N; radians have none
DIMENSIONLESS: Dimension = (Fraction(0),) * 3
BASE_UNITS = ("m", "s", "N")
_DIMENSION_POWERS = {
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
_UNIT_POWERS = {
    "N": (0, 0, 1),
    "m": (1, 0, 0),
    "s": (0, 1, 0),
    "kg": (-1, 2, 1),
    "rad": (0, 0, 0),
    "1": (0, 0, 0),
}


@dataclass(frozen=True)
class Node:
    """One operation, name or number of an expression, and its position in the text."""

    kind: str  # number, name, call, lag, + - * / ^, or neg
    # number: (value, dimension); name or call: the word; lag: its index
    # in the expression
    value: Any = None
    operands: tuple[Node, ...] = ()  # of the operation
    position: int = 0  # of its first character in the text

    def walk(self) -> Iterator[Node]:
        """Yield this node and all below it."""
        yield self
        for operand in self.operands:
            yield from operand.walk()


def fault(text: str, position: int, message: str) -> InvalidInput:
    """Return an error with its position in an expression."""
    return InvalidInput(f"'{text}', character {position + 1}: {message}", position=position + 1)


@lru_cache(maxsize=1024)
def parse(text: str) -> Node:
    """Return the syntax tree of an expression; errors have a `position`."""
    if len(text) > MAX_EXPRESSION_CHARS:
        raise InvalidInput(
            f"an expression of {len(text)} characters is too long (at most {MAX_EXPRESSION_CHARS})",
            position=MAX_EXPRESSION_CHARS,
        )
    parser = _Parser(text)
    node = parser.nested(parser.operation)
    token = parser.next_token
    if token.kind != "end":
        raise fault(text, token.position, f"'{token.text}' is not expected")
    _check_numbers(text, node)
    return node


def _check_numbers(text: str, node: Node) -> Any:
    """Return the value of a constant expression, None for others.

    Raises:
        InvalidInput: The value is not finite, or any expression is
            divided by a constant zero.
    """
    operands = [_check_numbers(text, operand) for operand in node.operands]
    if node.kind == "/" and operands[1] == 0:
        raise fault(text, node.position, "this divides by zero")
    if node.kind in ("name", "lag") or None in operands:
        return None
    try:
        with np.errstate(all="ignore"):
            number = evaluate(node, lambda sign: 1.0, np)
    except ArithmeticError:
        number = np.nan
    if not isinstance(number, float) or not np.isfinite(number):
        raise fault(text, node.position, "this has no value")
    return number


class _Token(NamedTuple):
    kind: str  # number, name, quantity, sign or end
    text: str
    position: int

    @property
    def shown(self) -> str:
        """How errors show it."""
        return repr(self.text) if self.text else "the end"


def _tokens(text: str) -> list[_Token]:
    """Split an expression into tokens, the last of kind `end`."""
    tokens = []
    position = 0
    while text[position:].strip():
        match = _TOKEN.match(text, position)
        if match is None:
            position += len(text[position:]) - len(text[position:].lstrip())
            raise fault(text, position, f"'{text[position]}' is not expected")
        kind = str(match.lastgroup)
        tokens.append(_Token(kind, match[kind], match.start(kind)))
        position = match.end()
    return [*tokens, _Token("end", "", len(text))]


class _Parser:
    """Read tokens from left to right; each method is one rule of the grammar."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = _tokens(text)
        self.index = 0  # of the next token
        self.depth = 0  # of nesting
        self.lags = 0  # read so far

    @property
    def next_token(self) -> _Token:
        """The token that comes next."""
        return self.tokens[self.index]

    def take(self, *signs: str) -> _Token | None:
        """Return the next token and go on, if it is one of these signs."""
        token = self.next_token
        if token.kind != "sign" or token.text not in signs:
            return None
        self.index += 1
        return token

    def expect(self, *signs: str) -> str:
        """Return the next token, which must be one of these signs."""
        token = self.take(*signs)
        if token is None:
            raise fault(
                self.text,
                self.next_token.position,
                f"expected {' or '.join(signs)}, found {self.next_token.shown}",
            )
        return token.text

    def nested(self, rule: Callable[[], Node]) -> Node:
        """Read by a rule one level deeper."""
        self.depth += 1
        if self.depth > MAX_EXPRESSION_DEPTH:
            raise fault(
                self.text,
                self.next_token.position,
                f"parentheses are nested deeper than {MAX_EXPRESSION_DEPTH}",
            )
        node = rule()
        self.depth -= 1
        return node

    def operation(self, precedence: int = 1) -> Node:
        """Read factors and the operations between them of at least this precedence."""
        signs = [sign for sign, level in _PRECEDENCE.items() if level >= precedence]
        node = self.factor()
        while token := self.take(*signs):
            right = self.operation(_PRECEDENCE[token.text] + 1)
            node = Node(token.text, None, (node, right), token.position)
        return node

    def factor(self) -> Node:
        """Read an atom with its signs and its power."""
        if sign := self.take("+", "-"):
            node = self.nested(self.factor)
            if sign.text == "+":
                return node
            return Node("neg", None, (node,), sign.position)
        node = self.atom()
        if power := self.take("^", "**"):
            return Node("^", None, (node, self.factor()), power.position)
        return node

    def atom(self) -> Node:
        """Read a number, a quantity, a name, a call or a sum in parentheses."""
        if self.take("("):
            node = self.nested(self.operation)
            self.expect(")")
            return node
        kind, word, position = token = self.next_token
        if kind not in ("number", "quantity", "name"):
            raise fault(
                self.text,
                position,
                f"expected a number, a name or (, found {token.shown}",
            )
        self.index += 1
        if kind == "number":
            dimension = "none" if word.isdigit() else ""
            return Node("number", (float(word), dimension), (), position)
        if kind == "quantity":
            return self.quantity(word, position)
        if self.take("("):
            return self.call(word, position)
        return Node("name", word, (), position)

    def quantity(self, word: str, position: int) -> Node:
        """Read a number with a unit."""
        try:
            amount, unit = quantity(word)
            return Node(
                "number",
                (amount * conversion(unit), dimension_of(unit)),
                (),
                position,
            )
        except GoughError as error:
            raise fault(self.text, position, str(error)) from None

    def call(self, word: str, position: int) -> Node:
        """Read the arguments of a function."""
        if word not in FUNCTIONS:
            raise fault(
                self.text,
                position,
                f"no function '{word}'{nearest(word, FUNCTIONS)}",
            )
        arguments = [self.nested(self.operation)]
        while self.expect(",", ")") == ",":
            arguments.append(self.nested(self.operation))
        if len(arguments) != FUNCTIONS[word]:
            raise fault(
                self.text,
                position,
                f"{word} takes {FUNCTIONS[word]} arguments, found {len(arguments)}",
            )
        if word != "lag":
            return Node("call", word, tuple(arguments), position)
        if any(below.kind == "lag" for below in arguments[0].walk()):
            raise fault(self.text, position, "a lag inside a lag is not possible")
        self.lags += 1
        return Node("lag", self.lags - 1, tuple(arguments), position)


def evaluate(node: Node, value_of: Callable[[Node], Any], math: Any) -> Any:
    """Return the value of an expression, as a number, an array or a symbolic expression.

    Args:
        node: Syntax tree.
        value_of: Values of names, lags and calls of `sign`.
        math: Module with the functions: NumPy, CasADi, or Python's
            `math`.
    """
    if node.kind == "number":
        return node.value[0]
    is_call = node.kind == "call"
    if node.kind in ("name", "lag") or (is_call and node.value == "sign"):
        return value_of(node)
    operands = [evaluate(operand, value_of, math) for operand in node.operands]
    if is_call:
        return getattr(math, _MATH_NAMES.get(node.value, node.value))(*operands)
    return _OPERATIONS[node.kind](*operands)


def powers(dimension: str) -> Dimension | None:
    """Return a dimension as powers of the base units; None for one that is not known here."""
    if dimension not in _DIMENSION_POWERS:
        return None
    return tuple(Fraction(power) for power in _DIMENSION_POWERS[dimension])


def unit_text(dimension: Dimension | None, effort: str) -> str:
    """Return the unit of an effort divided by a dimension, such as `N s2/m2`."""
    if dimension is None:
        return f"{effort} per unit"
    numerator = [effort]
    denominator: list[str] = []
    for power, unit in zip(dimension, BASE_UNITS):
        if not power:
            continue
        exponent = "" if abs(power) == 1 else f"{float(abs(power)):g}"
        side = denominator if power > 0 else numerator
        side.append(unit + exponent)
    above = " ".join(numerator)
    below = " ".join(denominator)
    if not below:
        return above
    return f"{above}/({below})" if len(denominator) > 1 else f"{above}/{below}"


def unit_powers(unit: str) -> Dimension | None:
    """Return a unit such as `N m s2/rad2` as powers of the base units.

    None if it has others than N, m, s, kg and rad.
    """
    sides = unit.replace("(", " ").replace(")", " ").split("/")
    if len(sides) > 2:
        return None
    total = DIMENSIONLESS
    for sign, side in zip((1, -1), sides):
        for word in side.split():
            match = re.fullmatch(r"(N|m|s|kg|rad|1)(?:\^?(\d+(?:\.\d+)?))?", word)
            if match is None:
                return None
            exponent = sign * Fraction(match[2] or "1")
            total = tuple(t + exponent * p for t, p in zip(total, _UNIT_POWERS[match[1]]))
    return total


def dimension_in(
    text: str, node: Node, dimension_of_name: Callable[[Node], Dimension | None]
) -> Dimension | None:
    """Return the dimension of an expression, None where it is not known.

    Args:
        text: The expression, for errors.
        node: Its syntax tree, or a part of it.
        dimension_of_name: Dimension of a name, None if not known.

    Raises:
        InvalidInput: Sums of different dimensions, or functions of a
            quantity that has one.
    """
    if node.kind == "number":
        return powers(node.value[1])
    if node.kind == "name":
        return dimension_of_name(node)
    operands = [dimension_in(text, operand, dimension_of_name) for operand in node.operands]
    first = operands[0]
    function = node.value if node.kind == "call" else ""
    if node.kind in ("neg", "lag") or function == "abs":
        return first
    if function == "sqrt":
        return _raised(first, Fraction(1, 2))
    if node.kind == "^":
        return _power_dimension(text, node, operands)
    if node.kind == "*":
        return _product_dimension(first, operands[1])
    if node.kind == "/":
        return _product_dimension(first, _raised(operands[1], Fraction(-1)))
    if node.kind in ("+", "-") or function in ("min", "max"):
        return _sum_dimension(text, node, operands)
    if function != "sign" and first not in (None, DIMENSIONLESS):
        message = f"{function} takes a pure number or an angle, found {_in_words(first)}"
        raise fault(text, node.position, message)
    return DIMENSIONLESS


def _raised(dimension: Dimension | None, exponent: Fraction) -> Dimension | None:
    """Return a dimension to a power."""
    if dimension is None:
        return None
    return tuple(power * exponent for power in dimension)


def _product_dimension(first: Dimension | None, second: Dimension | None) -> Dimension | None:
    if first is None or second is None:
        return None
    return tuple(a + b for a, b in zip(first, second))


def _power_dimension(text: str, node: Node, operands: list[Dimension | None]) -> Dimension | None:
    base, exponent = operands
    if exponent not in (None, DIMENSIONLESS):
        message = f"a power is a pure number, found {_in_words(exponent)}"
        raise fault(text, node.position, message)
    if base == DIMENSIONLESS:
        return DIMENSIONLESS
    if not _is_plain_number(node.operands[1]):
        return None
    number = evaluate(node.operands[1], lambda _: 0.0, None)
    return _raised(base, Fraction(number).limit_denominator(1000))


def _sum_dimension(text: str, node: Node, operands: list[Dimension | None]) -> Dimension | None:
    first, second = operands
    # A number without a unit is in SI units: it takes the dimension of
    # the other operand.
    first_plain, second_plain = map(_is_plain_number, node.operands)
    known = first is not None and second is not None
    if known and first != second and not (first_plain or second_plain):
        raise fault(
            text,
            node.position,
            f"{_in_words(first)} and {_in_words(second)} cannot be added or compared",
        )
    if first_plain or (first is None and not second_plain):
        return second
    return first


def _is_plain_number(node: Node) -> bool:
    """Return whether a node is a number without a unit, perhaps with a sign."""
    if node.kind == "neg":
        return _is_plain_number(node.operands[0])
    return node.kind == "number" and node.value[1] in ("", "none")


def _in_words(dimension: Dimension | None) -> str:
    """Return a dimension for messages."""
    units = []
    for power, unit in zip(dimension or DIMENSIONLESS, BASE_UNITS):
        if power:
            units.append(unit if power == 1 else f"{unit}^{power}")
    return "a quantity in " + " ".join(units) if units else "a pure number"
