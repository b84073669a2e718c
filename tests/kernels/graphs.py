"""Every operation as a CasADi expression that is defined for all operands."""

from __future__ import annotations

import casadi as ca

UNARY = {
    "neg": lambda a: -a, "sq": lambda a: a * a, "twice": lambda a: a + a, "sin": ca.sin, "cos": ca.cos,
    "tan": ca.tan, "atan": ca.atan, "tanh": ca.tanh, "sinh": ca.sinh, "cosh": ca.cosh, "asinh": ca.asinh,
    "fabs": ca.fabs, "sign": ca.sign, "floor": ca.floor, "ceil": ca.ceil, "erf": ca.erf, "not": ca.logic_not,
    "exp": lambda a: ca.exp(-ca.fabs(a)), "expm1": lambda a: ca.expm1(-ca.fabs(a)),
    "log": lambda a: ca.log(1.5 + a * a), "log1p": lambda a: ca.log1p(a * a), "sqrt": lambda a: ca.sqrt(a * a + 0.1),
    "inv": lambda a: 1 / (a * a + 0.7), "asin": lambda a: ca.asin(a / (1.1 + a * a)),
    "acos": lambda a: ca.acos(a / (1.1 + a * a)), "acosh": lambda a: ca.acosh(1.5 + a * a),
    "atanh": lambda a: ca.atanh(a / (1.1 + a * a)), "constpow": lambda a: (1 + a * a) ** 1.3,
}
BINARY = {
    "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b,
    "div": lambda a, b: a / (1 + b * b), "lt": lambda a, b: a < b, "le": lambda a, b: a <= b,
    "eq": lambda a, b: a == b, "ne": lambda a, b: a != b, "and": ca.logic_and, "or": ca.logic_or,
    "fmin": ca.fmin, "fmax": ca.fmax, "atan2": ca.atan2, "copysign": ca.copysign, "hypot": ca.hypot,
    "pow": lambda a, b: (1.2 + a * a) ** (b / (1 + b * b)), "fmod": lambda a, b: ca.fmod(a, 1.1 + b * b),
    "remainder": lambda a, b: ca.remainder(a, 1.1 + b * b), "if": lambda a, b: ca.if_else(a, b, 0),
    "if_else": lambda a, b: ca.if_else(a < b, a, b),
}
