"""A CasADi function as plain C99: straight-line code, no allocation, nothing but <math.h>."""

from __future__ import annotations

import math
import struct

import casadi
import numpy as np

from gough.kernels.tape import CONST, INPUT, OPERATIONS, read_tape


def c_function(function: casadi.Function, name: str, *, single: bool = False) -> str:
    """Return a static C function of row-major arrays: const double *x0, ..., double *y0, ...

    Args:
        function: The expression graph.
        name: Name of the function in C.
        single: Compute with float, not with double.
    """
    tape = read_tape(function)
    real = "float" if single else "double"
    suffix = "f" if single else ""
    inputs = [f"const {real} *x{i}" for i in range(len(tape.input_shapes))]
    outputs = [f"{real} *y{i}" for i in range(len(tape.output_shapes))]
    lines: list[str] = []
    values: list[str] = []  # C text of each node
    for k, (code, first, second) in enumerate(tape.nodes):
        if code == CONST:
            number = struct.unpack("<d", struct.pack("<q", first))[0]
            values.append(c_number(number, single=single))
            continue
        if code == INPUT:
            text = f"x{first}[{second}]"
        else:
            operation = OPERATIONS[code].c
            text = operation.format(values[first], values[second], real=real, f=suffix)
        lines.append(f"    const {real} t{k} = {text};")
        values.append(f"t{k}")
    read = {first for code, first, _ in tape.nodes if code == INPUT}
    lines += [f"    (void)x{i};" for i in range(len(inputs)) if i not in read]
    written = {(array, entry): values[node] for node, array, entry in tape.results}
    zero = f"0.0{suffix}"
    for array, (rows, columns) in enumerate(tape.output_shapes):
        for entry in range(rows * columns):
            lines.append(f"    y{array}[{entry}] = {written.get((array, entry), zero)};")
    head = f"static void {name}({', '.join(inputs + outputs)})"
    return "\n".join([head, "{", *lines, "}", ""])


def c_number(value: float, *, single: bool = False) -> str:
    """Return a C expression of a number, exact to the last bit; rounded to float if `single`."""
    suffix = ""
    if single:
        suffix = "f"
        with np.errstate(over="ignore"):
            value = float(str(np.float32(value)))
    if math.isnan(value):
        return f"(0.0{suffix} / 0.0{suffix})"
    if math.isinf(value):
        largest = "HUGE_VALF" if single else "HUGE_VAL"
        return largest if value > 0 else f"(-{largest})"
    text = f"{value!r}{suffix}"
    return f"({text})" if math.copysign(1.0, value) < 0 else text
