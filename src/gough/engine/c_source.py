"""The model as plain C99 functions: straight-line code, no allocation, nothing but <math.h>."""

from __future__ import annotations

import math
import struct

import casadi as ca
import numpy as np

from gough.core.arrays import FloatArray
from gough.engine.elimination import cholesky_solve
from gough.engine.loops import closure_expressions
from gough.engine.model import Model
from gough.engine.symbolic import TreeEfforts
from gough.kernels.tape import NAMES, UnsupportedOperation, read_tape

_UNARY = {
    "neg": "-{0}", "sqrt": "sqrt({0})", "sq": "{0} * {0}", "twice": "2.0 * {0}", "sin": "sin({0})", "cos": "cos({0})",
    "tan": "tan({0})", "asin": "asin({0})", "acos": "acos({0})", "atan": "atan({0})", "fabs": "fabs({0})",
    "inv": "1.0 / {0}", "exp": "exp({0})", "log": "log({0})", "tanh": "tanh({0})", "floor": "floor({0})",
    "sign": "(double)(({0} > 0.0) - ({0} < 0.0))", "not": "(double)({0} == 0.0)",
}
_BINARY = {
    "add": "{0} + {1}", "sub": "{0} - {1}", "mul": "{0} * {1}", "div": "{0} / {1}", "pow": "pow({0}, {1})",
    "constpow": "pow({0}, {1})", "fmin": "fmin({0}, {1})", "fmax": "fmax({0}, {1})", "atan2": "atan2({0}, {1})",
    "lt": "(double)({0} < {1})", "le": "(double)({0} <= {1})", "if_else_zero": "({0} != 0.0 ? {1} : 0.0)",
}


def c_function(function: ca.Function, name: str) -> str:
    """Return a static C function of row-major arrays: const double *x0, ..., double *y0, ..."""
    tape = read_tape(function)
    inputs = [f"const double *x{i}" for i in range(len(tape.input_shapes))]
    outputs = [f"double *y{i}" for i in range(len(tape.output_shapes))]
    lines = [f"static void {name}({', '.join(inputs + outputs)})", "{"]
    text: list[str] = []
    used = set()
    for k, (operation, first, second) in enumerate(tape.nodes):
        word = NAMES[operation]
        if word == "input":
            used.add(first)
            text.append(f"t{k}")
            lines.append(f"    const double t{k} = x{first}[{second}];")
            continue
        if word == "const":
            value = struct.unpack("<d", struct.pack("<q", first))[0]
            text.append(_number(value))
            continue
        if word in _UNARY:
            expression = _UNARY[word].format(text[first])
        elif word in _BINARY:
            expression = _BINARY[word].format(text[first], text[second])
        else:
            raise UnsupportedOperation(f"the operation '{word}' has no C form here", operation=word)
        lines.append(f"    const double t{k} = {expression};")
        text.append(f"t{k}")
    lines += [f"    (void)x{i};" for i in range(len(inputs)) if i not in used]
    written = {(array, entry) for _, array, entry in tape.results}
    for array, (rows, columns) in enumerate(tape.output_shapes):
        lines += [f"    y{array}[{e}] = 0.0;" for e in range(rows * columns) if (array, e) not in written]
    lines += [f"    y{array}[{entry}] = {text[node]};" for node, array, entry in tape.results]
    return "\n".join([*lines, "}", ""])


def _number(value: float) -> str:
    if math.isnan(value):
        return "(0.0 / 0.0)"
    if math.isinf(value):
        return "HUGE_VAL" if value > 0 else "-HUGE_VAL"
    text = repr(value)
    text = text if any(c in text for c in ".e") else text + ".0"
    return f"({text})" if value < 0 else text


def controller_functions(model: Model, values: FloatArray, load: FloatArray, dead_band: FloatArray) -> tuple[str, str]:
    """Return the C source of `newton` (q -> step, residual) and `efforts` (q, qd_act, qdd_act -> motor efforts).

    Parameters are constants in the code; those that are zero cost nothing. Redundant robots get the smallest efforts.

    Args:
        model: The robot.
        values: Standard parameters, (p,).
        load: Ten inertial parameters of a payload.
        dead_band: Of the velocity sign, (n,). [m/s or rad/s]
    """
    n = len(model.mechanism.joints)
    part = model.loops.partitions["actuated"]
    q = ca.SX.sym("q", n)
    closure = closure_expressions(model.loops, "actuated", q)
    newton = ca.Function("newton", [q], [ca.densify(closure.newton_step()), ca.densify(closure.residual)])
    a = len(model.actuated)
    speed, acceleration = ca.SX.sym("v", a), ca.SX.sym("a", a)
    own = [model.actuated.index(i) for i in part.independent]
    qd, qdd = closure.rates(speed[own], acceleration[own])
    tree = TreeEfforts(model.mechanism, q, qd, qdd, ca.SX(ca.DM(dead_band)))
    chi, extra = (_constants(x) for x in (values, load))
    rows = model.generalised_efforts(tree, closure.closure_map, chi, extra)
    if model.loops.redundant:
        act = closure.closure_map[list(model.actuated), :]
        efforts = act @ cholesky_solve(act.T @ act, rows)
    else:
        efforts = rows[[part.independent.index(i) for i in model.actuated]]
    inverse = ca.Function("efforts", [q, speed, acceleration], [ca.densify(efforts)])
    return c_function(newton, "newton"), c_function(inverse, "efforts")


def _constants(values: FloatArray) -> ca.SX:
    return ca.SX(ca.DM(np.asarray(values, dtype=float)))
