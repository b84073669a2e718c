"""CasADi functions as flat lists of scalar operations, with their names in CasADi, LLVM and C."""

from __future__ import annotations

import hashlib
import struct
from collections import Counter
from dataclasses import dataclass, replace
from typing import NamedTuple

import casadi
import numpy as np

from gough.core.errors import GoughError, InvalidInput

Shape = tuple[int, int]
Node = tuple[int, int, int]

INPUT = casadi.OP_INPUT
CONST = casadi.OP_CONST
_OUTPUT = casadi.OP_OUTPUT
_DIV = casadi.OP_DIV
_INV = casadi.OP_INV
_MUL = casadi.OP_MUL
_SINES = (casadi.OP_SIN, casadi.OP_COS)
_COPIES = frozenset((casadi.OP_ASSIGN, casadi.OP_LIFT))


class Operation(NamedTuple):
    """One operation on doubles.

    Args:
        operands: One or two.
        lines: LLVM lines; the last one gives the value, those before
            name theirs. {n} name of the value, {a} {b} names of the
            operands, {t} vector type, {m} type of a mask, {s} suffix of
            intrinsics. None: `function` is called.
        c: C expression of the operands {0} and {1}; {real} is the type
            of numbers, {f} the suffix of its constants and functions.
            Equality is written with <= and >=, which compilers do not
            warn of.
        function: Function of the C library.
    """

    operands: int
    lines: tuple[str, ...]
    c: str
    function: str = ""


_ONE = "splat (double 1.0)"
_ZERO = "zeroinitializer"
_C_EQUAL = "({0} <= {1} && {0} >= {1})"
_C_FALSE = "({0} <= 0.0{{f}} && {0} >= 0.0{{f}})"
_C_TRUE = "!" + _C_FALSE  # of NaN too
_TRUTH = f"select {{m}} {{n}}.c, {{t}} {_ONE}, {{t}} {_ZERO}"


def _intrinsic(word: str, function: str) -> Operation:
    count = INTRINSICS[word]
    arguments = ", ".join(["{t} {a}", "{t} {b}"][:count])
    return Operation(
        count,
        (f"call {{t}} @llvm.{word}.{{s}}({arguments})",),
        _call(function, count),
    )


def _call(name: str, operands: int) -> str:
    return f"{name}{{f}}({', '.join(['{0}', '{1}'][:operands])})"


def _comparison(word: str, c: str) -> Operation:
    return Operation(
        2,
        (f"{{n}}.c = fcmp {word} {{t}} {{a}}, {{b}}", _TRUTH),
        f"({{real}})({c})",
    )


def _logical(word: str, c: str) -> Operation:
    tests = tuple(f"{{n}}.{x} = fcmp une {{t}} {{{x}}}, {_ZERO}" for x in "ab")
    return Operation(
        2,
        (*tests, f"{{n}}.c = {word} {{m}} {{n}}.a, {{n}}.b", _TRUTH),
        f"({{real}})({_C_TRUE.format('{0}')} {c} {_C_TRUE.format('{1}')})",
    )


INTRINSICS = {
    "sqrt": 1,
    "fabs": 1,
    "floor": 1,
    "ceil": 1,
    "minimum": 2,
    "maximum": 2,
    "copysign": 2,
    "fma": 3,
}
COMMUTATIVE = frozenset(("add", "mul", "fmin", "fmax", "eq", "ne", "and", "or", "hypot"))
_BINARY_FUNCTIONS = ("pow", "hypot", "atan2", "fmod", "remainder")
_TRIGONOMETRIC = ("sin", "cos", "tan", "asin", "acos", "atan")
_HYPERBOLIC = ("sinh", "cosh", "tanh", "asinh", "acosh", "atanh")
_UNARY_FUNCTIONS = (
    *_TRIGONOMETRIC,
    *_HYPERBOLIC,
    "exp",
    "expm1",
    "log",
    "log1p",
    "erf",
)
# `contract` allows fused multiply-adds; reassociation brought no speed,
# and NaN and infinity must be respected. minimum and maximum return a
# NaN operand; C's fmin and fmax, like CasADi's, drop it.
_BY_NAME: dict[str, Operation] = {
    "add": Operation(2, ("fadd contract {t} {a}, {b}",), "{0} + {1}"),
    "sub": Operation(2, ("fsub contract {t} {a}, {b}",), "{0} - {1}"),
    "mul": Operation(2, ("fmul contract {t} {a}, {b}",), "{0} * {1}"),
    "div": Operation(2, ("fdiv contract {t} {a}, {b}",), "{0} / {1}"),
    "neg": Operation(1, ("fneg contract {t} {a}",), "-{0}"),
    "sq": Operation(1, ("fmul contract {t} {a}, {a}",), "{0} * {0}"),
    "twice": Operation(1, ("fadd contract {t} {a}, {a}",), "2.0{f} * {0}"),
    "inv": Operation(1, (f"fdiv contract {{t}} {_ONE}, {{a}}",), "1.0{f} / {0}"),
    **{name: _intrinsic(name, name) for name in ("sqrt", "fabs", "floor", "ceil", "copysign")},
    "fmin": _intrinsic("minimum", "fmin"),
    "fmax": _intrinsic("maximum", "fmax"),
    "lt": _comparison("olt", "{0} < {1}"),
    "le": _comparison("ole", "{0} <= {1}"),
    "eq": _comparison("oeq", _C_EQUAL),
    "ne": _comparison("une", "!" + _C_EQUAL),
    "and": _logical("and", "&&"),
    "or": _logical("or", "||"),
    "not": Operation(
        1,
        (f"{{n}}.c = fcmp oeq {{t}} {{a}}, {_ZERO}", _TRUTH),
        f"({{real}}){_C_FALSE.format('{0}')}",
    ),
    "if_else_zero": Operation(
        2,
        (
            f"{{n}}.c = fcmp une {{t}} {{a}}, {_ZERO}",
            f"select {{m}} {{n}}.c, {{t}} {{b}}, {{t}} {_ZERO}",
        ),
        f"({_C_TRUE.format('{0}')} ? {{1}} : 0.0{{f}})",
    ),
    # sign(0) = 0 and sign(nan) = nan: the argument itself
    "sign": Operation(
        1,
        (
            f"{{n}}.c = fcmp one {{t}} {{a}}, {_ZERO}",
            f"{{n}}.s = call {{t}} @llvm.copysign.{{s}}({{t}} {_ONE}, {{t}} {{a}})",
            "select {m} {n}.c, {t} {n}.s, {t} {a}",
        ),
        "({0} > 0.0{f} ? 1.0{f} : {0} < 0.0{f} ? -1.0{f} : {0})",
    ),
    "constpow": Operation(2, (), _call("pow", 2), "pow"),
    **{name: Operation(2, (), _call(name, 2), name) for name in _BINARY_FUNCTIONS},
    **{name: Operation(1, (), _call(name, 1), name) for name in _UNARY_FUNCTIONS},
}

NAMES: dict[int, str] = {
    getattr(casadi, name): name[3:].lower() for name in dir(casadi) if name.startswith("OP_")
}
OPERATIONS: dict[int, Operation] = {
    code: _BY_NAME[name] for code, name in NAMES.items() if name in _BY_NAME
}
# Functions of the C library that a kernel may call, with their number
# of operands.
LIBRARY: dict[str, int] = {op.function: op.operands for op in _BY_NAME.values() if op.function}


class UnsupportedOperation(GoughError):
    """A graph holds an operation that has no machine code here: carries operation, function."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Tape:
    """Scalar operations in the order of evaluation, equal ones merged; shapes are rows and columns.

    Args:
        nodes: (operation, first, second). Operands are indices of earlier
            nodes, or -1. An input element holds (number of the input,
            row-major position), a constant (bits of its value, -1).
        results: (node, number of the output, row-major position) of
            each structurally non-zero element.
    """

    input_shapes: tuple[Shape, ...]  # of the function
    output_shapes: tuple[Shape, ...]  # of the function
    nodes: list[Node]
    results: list[Node]

    @property
    def digest(self) -> str:
        """Hash of everything the machine code depends on: not names, but operation numbers."""
        shapes = repr(
            (
                self.input_shapes,
                self.output_shapes,
                len(self.nodes),
                casadi.CasadiMeta.version(),
            )
        ).encode()
        nodes = np.array(self.nodes, dtype=np.int64).tobytes()
        results = np.array(self.results, dtype=np.int64).tobytes()
        return hashlib.sha256(b"|".join((shapes, nodes, results))).hexdigest()


def read_tape(function: casadi.Function) -> Tape:
    """Return the scalar operations of a CasADi SX function.

    Raises:
        InvalidInput: It is no SX function, or has free variables.
        UnsupportedOperation: It uses an operation without machine code.
    """
    name = function.name()
    if function.class_name() != "SXFunction":
        raise InvalidInput(
            f"function '{name}' is a {function.class_name()}, expected an SX function; "
            "build it from SX symbols or call .expand()",
            function=name,
        )
    if function.has_free():
        free = ", ".join(str(symbol) for symbol in function.get_free())
        raise InvalidInput(
            f"function '{name}' has free variables: {free}; make them inputs",
            function=name,
            free=free,
        )
    inputs = [function.sparsity_in(i) for i in range(function.n_in())]
    outputs = [function.sparsity_out(i) for i in range(function.n_out())]
    sources = [_positions(sparsity) for sparsity in inputs]
    targets = [_positions(sparsity) for sparsity in outputs]
    nodes, results = _walk(function, sources, targets)
    return Tape(
        input_shapes=tuple(s.shape for s in inputs),
        output_shapes=tuple(s.shape for s in outputs),
        nodes=nodes,
        results=results,
    )


def improved(tape: Tape) -> Tape:
    """Return a tape that runs faster; values are at most an ulp away.

    Operations are sorted by how many sines lie behind them on the
    longest way, sines first: these come together, and fewer values wait
    meanwhile. Quotients of one divisor are products with its
    reciprocal: a division costs as much as five to sixteen
    multiplications, and elimination divides whole rows by their pivots.
    """
    depth = {-1: 0}  # number of sines on the longest path to a node
    for k, (code, first, second) in enumerate(tape.nodes):
        depth[k] = 0
        if code not in (INPUT, CONST):
            depth[k] = max(depth[first], depth[second]) + (code in _SINES)
    order = sorted(
        range(len(tape.nodes)),
        key=lambda k: (depth[k], tape.nodes[k][0] not in _SINES),
    )
    quotients = Counter(divisor for code, _, divisor in tape.nodes if code == _DIV)
    nodes: list[Node] = []
    place = {-1: -1}  # new index of each node
    inverse: dict[int, int] = {}  # node of the reciprocal of each divisor
    for old in order:
        node = tape.nodes[old]
        code, first, second = node
        if code == _DIV and quotients[second] > 1:
            if second not in inverse:
                inverse[second] = len(nodes)
                nodes.append((_INV, place[second], -1))
            node = (_MUL, place[first], inverse[second])
        elif code not in (INPUT, CONST):
            node = (code, place[first], place[second])
        place[old] = len(nodes)
        nodes.append(node)
    return replace(
        tape,
        nodes=nodes,
        results=[(place[k], i, j) for k, i, j in tape.results],
    )


def _positions(pattern: casadi.Sparsity) -> list[int]:
    """Return the row-major position of each non-zero; CasADi stores them column by column."""
    columns = pattern.size2()
    return [row * columns + column for row, column in zip(*pattern.get_triplet())]


def _walk(
    function: casadi.Function,
    sources: list[list[int]],
    targets: list[list[int]],
) -> tuple[list[Node], list[Node]]:
    """Turn the work-vector instructions into numbered values, each distinct operation once."""
    nodes: list[Node] = []
    known: dict[Node, int] = {}
    held = [-1] * function.sz_w()  # node in each work slot
    results: list[Node] = []
    read = function.instruction_input
    written = function.instruction_output
    for k in range(function.n_instructions()):
        code = function.instruction_id(k)
        if code == _OUTPUT:
            array, entry = written(k)
            results.append((held[read(k)[0]], array, targets[array][entry]))
            continue
        slot = written(k)[0]
        if code == INPUT:
            array, entry = read(k)
            node = (INPUT, array, sources[array][entry])
        elif code == CONST:
            bits = struct.pack("<d", function.instruction_constant(k))
            node = (CONST, struct.unpack("<q", bits)[0], -1)
        elif code in OPERATIONS:
            operands = [held[i] for i in read(k)[: OPERATIONS[code].operands]]
            if NAMES[code] in COMMUTATIVE:
                operands.sort()
            first, second = (*operands, -1)[:2]
            node = (code, first, second)
        elif code in _COPIES:
            held[slot] = held[read(k)[0]]
            continue
        else:
            word = NAMES.get(code, str(code))
            raise UnsupportedOperation(
                f"function '{function.name()}' uses the operation '{word}', which has no machine "
                "code; rewrite the expression with elementary operations",
                operation=word,
                function=function.name(),
            )
        index = known.setdefault(node, len(nodes))
        if index == len(nodes):
            nodes.append(node)
        held[slot] = index
    return nodes, results
