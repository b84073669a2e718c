"""A CasADi function as a flat list of scalar operations, ready for code generation."""

from __future__ import annotations

import hashlib
import struct
from dataclasses import dataclass

import casadi
import numpy as np

from gough.core.errors import GoughError, InvalidInput
from gough.kernels.operations import NAMES, OPERATIONS

Shape = tuple[int, int]
Node = tuple[int, int, int]

INPUT, CONST = casadi.OP_INPUT, casadi.OP_CONST
_OUTPUT, _COPIES = casadi.OP_OUTPUT, frozenset((casadi.OP_ASSIGN, casadi.OP_LIFT))


class UnsupportedOperation(GoughError):
    """A graph holds an operation that has no machine code here: carries operation, function."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Tape:
    """Scalar operations in the order of evaluation, equal ones merged; shapes are rows and columns.

    Args:
        nodes: (operation, first, second). Operands are indices of earlier nodes, or -1. An input element
            holds (number of the input, row-major position), a constant (bits of its value, -1).
        results: (node, number of the output, row-major position) of each structurally non-zero element.
    """

    input_shapes: tuple[Shape, ...]
    output_shapes: tuple[Shape, ...]
    nodes: list[Node]
    results: list[Node]

    @property
    def digest(self) -> str:
        """Hash of everything the machine code depends on; names do not count, CasADi's operation numbers do."""
        shapes = repr((self.input_shapes, self.output_shapes, len(self.nodes), casadi.CasadiMeta.version())).encode()
        nodes = np.array(self.nodes, dtype=np.int64).tobytes()
        results = np.array(self.results, dtype=np.int64).tobytes()
        return hashlib.sha256(b"|".join((shapes, nodes, results))).hexdigest()


def read_tape(function: casadi.Function) -> Tape:
    """List the scalar operations of a CasADi SX function; `InvalidInput` if it is none or has free variables."""
    name = function.name()
    if function.class_name() != "SXFunction":
        raise InvalidInput(f"function '{name}' is a {function.class_name()}, expected an SX function; "
                           "build it from SX symbols or call .expand()", function=name)
    if function.has_free():
        free = ", ".join(str(symbol) for symbol in function.get_free())
        raise InvalidInput(f"function '{name}' has free variables: {free}; make them inputs",
                           function=name, free=free)
    inputs = [function.sparsity_in(i) for i in range(function.n_in())]
    outputs = [function.sparsity_out(i) for i in range(function.n_out())]
    nodes, results = _walk(function, [_positions(s) for s in inputs], [_positions(s) for s in outputs])
    return Tape(
        input_shapes=tuple((s.size1(), s.size2()) for s in inputs),
        output_shapes=tuple((s.size1(), s.size2()) for s in outputs),
        nodes=nodes,
        results=results,
    )


def _positions(pattern: casadi.Sparsity) -> list[int]:
    """Row-major position of each structural non-zero; CasADi stores them column by column."""
    columns = pattern.size2()
    return [row * columns + column for row, column in zip(*pattern.get_triplet())]


def _walk(function: casadi.Function, sources: list[list[int]],
          targets: list[list[int]]) -> tuple[list[Node], list[Node]]:
    """Turn the work-vector instructions into numbered values, each distinct operation once."""
    nodes: list[Node] = []
    known: dict[Node, int] = {}
    held = [-1] * function.sz_w()  # node in each work slot
    results: list[Node] = []
    read, written = function.instruction_input, function.instruction_output
    for k, code in enumerate(map(function.instruction_id, range(function.n_instructions()))):
        if code == _OUTPUT:
            array, entry = written(k)
            results.append((held[read(k)[0]], array, targets[array][entry]))
            continue
        slot = written(k)[0]
        if code == INPUT:
            array, entry = read(k)
            node = (INPUT, array, sources[array][entry])
        elif code == CONST:
            node = (CONST, struct.unpack("<q", struct.pack("<d", function.instruction_constant(k)))[0], -1)
        elif code in OPERATIONS:
            operands = [held[i] for i in read(k)[:OPERATIONS[code].operands]]
            if OPERATIONS[code].commutative:
                operands.sort()
            node = (code, operands[0], operands[1] if len(operands) > 1 else -1)
        elif code in _COPIES:
            held[slot] = held[read(k)[0]]
            continue
        else:
            word = NAMES.get(code, str(code))
            raise UnsupportedOperation(
                f"function '{function.name()}' uses the operation '{word}', which has no machine code; "
                "rewrite the expression with elementary operations", operation=word, function=function.name())
        index = known.setdefault(node, len(nodes))
        if index == len(nodes):
            nodes.append(node)
        held[slot] = index
    return nodes, results
