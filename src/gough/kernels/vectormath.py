"""Elementary functions as vector instructions: LLVM IR text, all lanes at once.

Calling libm lane by lane would cost more than the rest of a kernel. No
fast-math flags here: the rounding errors must cancel as written.
Largest measured errors in units in the last place: sine and cosine 1.3,
exp 1, tanh 2.2.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from math import factorial

# Largest |x| [rad] of the vector sine; beyond it (and for infinity)
# libm is called lane by lane.
SINCOS_LIMIT = 2.0**26
# adding it leaves the nearest integer in the low mantissa bits
_ROUND = 1.5 * 2.0**52
_TWO_OVER_PI = float.fromhex("0x1.45f306dc9c883p-1")
_PI_HALF = tuple(
    map(
        float.fromhex,
        (
            "0x1.921fb54442d18p+0",
            "0x1.1a62633145c07p-54",
            "-0x1.f1976b7ed8fbcp-110",
        ),
    )
)
_LOG2_E = float.fromhex("0x1.71547652b82fep+0")
_LOG_2 = tuple(map(float.fromhex, ("0x1.62e42fefa39efp-1", "0x1.abc9e3b39803fp-56")))
# fdlibm, __kernel_sin and __kernel_cos
_SIN = tuple(
    map(
        float.fromhex,
        (
            "-0x1.5555555555549p-3",
            "0x1.111111110f8a6p-7",
            "-0x1.a01a019c161d5p-13",
            "0x1.71de357b1fe7dp-19",
            "-0x1.ae5e68a2b9cebp-26",
            "0x1.5d93a5acfd57cp-33",
        ),
    )
)
_COS = tuple(
    map(
        float.fromhex,
        (
            "0x1.555555555554cp-5",
            "-0x1.6c16c16c15177p-10",
            "0x1.a01a019cb1590p-16",
            "-0x1.27e4f809c52adp-22",
            "0x1.1ee9ebdb4b1c4p-29",
            "-0x1.8fae9be8838d4p-37",
        ),
    )
)


def splat(value: float) -> str:
    """IR constant with the same number in every lane, bit-exact."""
    return f"splat (double 0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X})"


class Lines:
    """Collects IR lines whose names share a prefix; each method returns the name of its value."""

    def __init__(self, prefix: str, width: int) -> None:
        self.prefix = prefix
        self.width = width
        self.vector = f"<{width} x double>"
        self.integer = f"<{width} x i64>"
        self.truth = f"<{width} x i1>"
        self.text: list[str] = []

    def let(self, expression: str) -> str:
        """Emit the assignment of an expression to a new name."""
        name = f"%{self.prefix}.{len(self.text)}"
        self.text.append(f"  {name} = {expression}")
        return name

    def op(self, word: str, a: str, b: str) -> str:
        """Emit a binary operation on doubles."""
        return self.let(f"{word} {self.vector} {a}, {b}")

    def call(self, word: str, *operands: str) -> str:
        """Emit the call of an LLVM intrinsic."""
        arguments = ", ".join(f"{self.vector} {x}" for x in operands)
        return self.let(f"call {self.vector} @llvm.{word}.v{self.width}f64({arguments})")

    def lanes(self, word: str, *operands: str) -> str:
        """Call a function of the C library lane by lane."""
        arguments = ", ".join(f"{self.vector} {x}" for x in operands)
        return self.let(f"call {self.vector} @lanes_{word}({arguments})")

    def select(self, condition: str, yes: str, no: str) -> str:
        """Emit the choice between two vectors, lane by lane."""
        return self.let(f"select {self.truth} {condition}, {self.vector} {yes}, {self.vector} {no}")

    def bits(self, x: str) -> str:
        """Emit the bits of doubles as integers."""
        return self.let(f"bitcast {self.vector} {x} to {self.integer}")

    def double(self, bits: str) -> str:
        """Emit doubles with given bits."""
        return self.let(f"bitcast {self.integer} {bits} to {self.vector}")

    def integers(self, word: str, a: str, b: str | int) -> str:
        """Emit a binary operation on integers; b may be a constant."""
        second = f"splat (i64 {b})" if isinstance(b, int) else b
        return self.let(f"{word} {self.integer} {a}, {second}")

    def fma(self, a: str, b: str, c: str) -> str:
        """Emit a b + c, rounded once."""
        return self.call("fma", a, b, c)

    def horner(self, z: str, coefficients: tuple[float, ...]) -> str:
        """Emit a polynomial of z, its coefficients in ascending order."""
        value = splat(coefficients[-1])
        for coefficient in reversed(coefficients[:-1]):
            value = self.fma(z, value, splat(coefficient))
        return value


def sincos(at: Lines, x: str, block: str) -> tuple[str, str]:
    """Emit sine and cosine, each within 1.5 units in the last place, and return their names.

    Cody-Waite reduction r = x - k pi/2 with a three-part pi/2 and fused
    multiply-adds (the first step is exact), then the polynomials of
    fdlibm on [-pi/4, pi/4]. The lines begin in the basic block `block`
    and end in `<prefix>.join`.
    """
    v = at.vector
    b = at.truth
    large = at.op("fcmp ogt", at.call("fabs", x), splat(SINCOS_LIMIT))
    shifted = at.fma(x, splat(_TWO_OVER_PI), splat(_ROUND))
    k = at.op("fsub", shifted, splat(_ROUND))
    r = x
    for part in _PI_HALF:
        r = at.fma(k, splat(-part), r)

    z = at.op("fmul", r, r)
    # sin(r) = r + r^3 S(z)
    sine = at.fma(at.op("fmul", z, r), at.horner(z, _SIN), r)
    # cos(r) = w + ((1 - w) - z / 2) + z^2 C(z)  with  w = 1 - z / 2 rounded
    w = at.fma(z, splat(-0.5), splat(1.0))
    lost = at.fma(z, splat(-0.5), at.op("fsub", splat(1.0), w))
    cosine = at.op("fadd", w, at.fma(at.op("fmul", z, z), at.horner(z, _COS), lost))

    quadrant = at.bits(shifted)
    odd = at.let(f"trunc {at.integer} {quadrant} to {b}")
    near = []
    for even_value, odd_value, turns in (
        (sine, cosine, quadrant),
        (cosine, sine, at.integers("add", quadrant, 1)),
    ):
        sign = at.integers("shl", at.integers("and", turns, 2), 62)
        near.append(
            at.double(at.integers("xor", at.bits(at.select(odd, odd_value, even_value)), sign))
        )

    mask = at.let(f"bitcast {b} {large} to i{at.width}")
    any_large = at.let(f"icmp ne i{at.width} {mask}, 0")
    at.text += [
        f"  br i1 {any_large}, label %{at.prefix}.far, label %{at.prefix}.join, !prof !1",
        f"{at.prefix}.far:",
    ]
    far = [at.select(large, at.lanes(word, x), value) for word, value in zip(("sin", "cos"), near)]
    at.text += [f"  br label %{at.prefix}.join", f"{at.prefix}.join:"]
    merged = [
        at.let(f"phi {v} [ {a}, %{block} ], [ {c}, %{at.prefix}.far ]") for a, c in zip(near, far)
    ]
    return merged[0], merged[1]


def exp(at: Lines, x: str) -> str:
    """Emit e^x = 2^k (1 + e^r - 1).

    k is applied in two halves, so that results below the normal range
    are correct.
    """
    x = at.call("maximum", at.call("minimum", x, splat(710.0)), splat(-746.0))
    k, rest = _exp_parts(at, x)
    half = at.integers("ashr", k, 1)
    value = at.op("fadd", splat(1.0), rest)
    for part in (half, at.integers("sub", k, half)):
        value = at.op("fmul", value, _power_of_two(at, part))
    return value


def tanh(at: Lines, x: str) -> str:
    """Emit tanh(x) = e / (e + 2) with e = exp(2 |x|) - 1 = 2^k (e^r - 1) + (2^k - 1)."""
    size = at.call("fabs", x)
    k, rest = _exp_parts(
        at, at.call("minimum", at.op("fadd", size, size), splat(45.0))
    )  # tanh(22.5) rounds to 1
    scale = _power_of_two(at, k)
    e = at.fma(scale, rest, at.op("fsub", scale, splat(1.0)))
    return at.call("copysign", at.op("fdiv", e, at.op("fadd", e, splat(2.0))), x)


def _exp_parts(at: Lines, x: str) -> tuple[str, str]:
    """Integer k and e^r - 1 with x = k log(2) + r, by the Taylor series to r^13 (|r| < 0.347)."""
    shifted = at.fma(x, splat(_LOG2_E), splat(_ROUND))
    whole = at.op("fsub", shifted, splat(_ROUND))
    k = at.integers(
        "sub",
        at.bits(shifted),
        struct.unpack("<q", struct.pack("<d", _ROUND))[0],
    )
    r = at.fma(whole, splat(-_LOG_2[1]), at.fma(whole, splat(-_LOG_2[0]), x))
    series = at.horner(r, tuple(1.0 / factorial(n) for n in range(2, 14)))
    return k, at.fma(at.op("fmul", r, r), series, r)


def _power_of_two(at: Lines, k: str) -> str:
    return at.double(at.integers("shl", at.integers("add", k, 1023), 52))


VECTORISED: dict[str, Callable[..., str]] = {"exp": exp, "tanh": tanh}
