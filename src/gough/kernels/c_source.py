"""A CasADi function as plain C99: straight-line code, no allocation, nothing but <math.h>."""

from __future__ import annotations

import math
import struct

import casadi

from gough.kernels.tape import CONST, INPUT, OPERATIONS, read_tape


def c_function(function: casadi.Function, name: str) -> str:
    """Return a static C function of row-major arrays: const double *x0, ..., double *y0, ..."""
    tape = read_tape(function)
    inputs = [f"const double *x{i}" for i in range(len(tape.input_shapes))]
    outputs = [f"double *y{i}" for i in range(len(tape.output_shapes))]
    lines: list[str] = []
    values: list[str] = []  # C text of each node
    for k, (code, first, second) in enumerate(tape.nodes):
        if code == CONST:
            values.append(_number(struct.unpack("<d", struct.pack("<q", first))[0]))
            continue
        if code == INPUT:
            text = f"x{first}[{second}]"
        else:
            text = OPERATIONS[code].c.format(values[first], values[second])
        lines.append(f"    const double t{k} = {text};")
        values.append(f"t{k}")
    read = {first for code, first, _ in tape.nodes if code == INPUT}
    lines += [f"    (void)x{i};" for i in range(len(inputs)) if i not in read]
    written = {(array, entry): values[node] for node, array, entry in tape.results}
    for array, (rows, columns) in enumerate(tape.output_shapes):
        for entry in range(rows * columns):
            lines.append(f"    y{array}[{entry}] = {written.get((array, entry), '0.0')};")
    head = f"static void {name}({', '.join(inputs + outputs)})"
    return "\n".join([head, "{", *lines, "}", ""])


def _number(value: float) -> str:
    """Return a C expression of a constant, exact to the last bit."""
    if math.isnan(value):
        return "(0.0 / 0.0)"
    if math.isinf(value):
        return "HUGE_VAL" if value > 0 else "(-HUGE_VAL)"
    return f"({value!r})" if math.copysign(1.0, value) < 0 else repr(value)
