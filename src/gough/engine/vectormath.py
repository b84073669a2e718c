"""Sine and cosine as vector instructions: LLVM IR text, all lanes at once.

Cody-Waite reduction r = x - k pi/2 with a three-part pi/2 and fused multiply-adds (the first step is exact), then
the polynomials of fdlibm's `__kernel_sin` and `__kernel_cos` (Sun Microsystems 1993) on [-pi/4, pi/4].
No fast-math flags here: the rounding errors must cancel as written.
"""

from __future__ import annotations

import struct

# Largest |x| [rad] of the vector path; beyond it (and for infinity) libm is called lane by lane.
SINCOS_LIMIT = 2.0**26
_TWO_OVER_PI = float.fromhex("0x1.45f306dc9c883p-1")
_PI_HALF = tuple(map(float.fromhex, ("0x1.921fb54442d18p+0", "0x1.1a62633145c07p-54", "-0x1.f1976b7ed8fbcp-110")))
_ROUND = 1.5 * 2.0**52  # adding it leaves the nearest integer in the low mantissa bits
_SIN = tuple(map(float.fromhex, (
    "-0x1.5555555555549p-3", "0x1.111111110f8a6p-7", "-0x1.a01a019c161d5p-13",
    "0x1.71de357b1fe7dp-19", "-0x1.ae5e68a2b9cebp-26", "0x1.5d93a5acfd57cp-33")))
_COS = tuple(map(float.fromhex, (
    "0x1.555555555554cp-5", "-0x1.6c16c16c15177p-10", "0x1.a01a019cb1590p-16",
    "-0x1.27e4f809c52adp-22", "0x1.1ee9ebdb4b1c4p-29", "-0x1.8fae9be8838d4p-37")))


def splat(value: float) -> str:
    """IR constant with the same number in every lane, bit-exact."""
    return f"splat (double 0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X})"


class Lines:
    """Collects IR lines whose names share a prefix; each method returns the name of its value."""

    def __init__(self, prefix: str, width: int) -> None:
        self.prefix, self.width = prefix, width
        self.vector, self.integer = f"<{width} x double>", f"<{width} x i64>"
        self.text: list[str] = []

    def let(self, expression: str) -> str:
        name = f"%{self.prefix}.{len(self.text)}"
        self.text.append(f"  {name} = {expression}")
        return name

    def binary(self, word: str, a: str, b: str) -> str:
        return self.let(f"{word} {self.vector} {a}, {b}")

    def fma(self, a: str, b: str, c: str) -> str:
        v = self.vector
        return self.let(f"call {v} @llvm.fma.v{self.width}f64({v} {a}, {v} {b}, {v} {c})")

    def horner(self, z: str, coefficients: tuple[float, ...]) -> str:
        value = splat(coefficients[-1])
        for coefficient in reversed(coefficients[:-1]):
            value = self.fma(z, value, splat(coefficient))
        return value


def sincos(x: str, prefix: str, width: int) -> tuple[list[str], str, str]:
    """Emit sine and cosine of a vector value.

    Args:
        x: Name of the argument. [rad]
        prefix: Start of all names used, unique within the function.
        width: Lanes.

    Returns:
        Lines of IR, name of the sine, name of the cosine. The lines end inside a new basic block.
    """
    at = Lines(prefix, width)
    v, i, b = at.vector, at.integer, f"<{width} x i1>"
    size = at.let(f"call {v} @llvm.fabs.v{width}f64({v} {x})")
    large = at.let(f"fcmp ogt {v} {size}, {splat(SINCOS_LIMIT)}")
    shifted = at.fma(x, splat(_TWO_OVER_PI), splat(_ROUND))
    k = at.binary("fsub", shifted, splat(_ROUND))
    r = x
    for part in _PI_HALF:
        r = at.fma(k, splat(-part), r)

    z = at.binary("fmul", r, r)
    # sin(r) = r + r^3 S(z)
    sine = at.fma(at.binary("fmul", z, r), at.horner(z, _SIN), r)
    # cos(r) = w + ((1 - w) - z / 2) + z^2 C(z)  with  w = 1 - z / 2 rounded
    w = at.fma(z, splat(-0.5), splat(1.0))
    lost = at.fma(z, splat(-0.5), at.binary("fsub", splat(1.0), w))
    cosine = at.binary("fadd", w, at.fma(at.binary("fmul", z, z), at.horner(z, _COS), lost))

    bits = at.let(f"bitcast {v} {shifted} to {i}")
    odd = at.let(f"trunc {i} {bits} to {b}")
    next_bits = at.let(f"add {i} {bits}, splat (i64 1)")
    names = []
    for even_value, odd_value, quadrant in ((sine, cosine, bits), (cosine, sine, next_bits)):
        chosen = at.let(f"select {b} {odd}, {v} {odd_value}, {v} {even_value}")
        half = at.let(f"and {i} {quadrant}, splat (i64 2)")
        sign = at.let(f"shl {i} {half}, splat (i64 62)")
        raw = at.let(f"bitcast {v} {chosen} to {i}")
        signed = at.let(f"xor {i} {raw}, {sign}")
        names.append(at.let(f"bitcast {i} {signed} to {v}"))

    mask = at.let(f"bitcast {b} {large} to i{width}")
    any_large = at.let(f"icmp ne i{width} {mask}, 0")
    at.text += [
        f"  br i1 {any_large}, label %{prefix}.far, label %{prefix}.join, !prof !1",
        f"{prefix}.far:",
    ]
    far = []
    for word, near in zip(("sin", "cos"), names):
        libm = at.let(f"call {v} @lanes_{word}({v} {x})")
        far.append(at.let(f"select {b} {large}, {v} {libm}, {v} {near}"))
    at.text += [f"  br label %{prefix}.join", f"{prefix}.join:"]
    # The block before the branch is named by the caller: see `codegen`.
    merged = [
        at.let(f"phi {v} [ {near}, %HERE ], [ {other}, %{prefix}.far ]") for near, other in zip(names, far)
    ]
    return at.text, merged[0], merged[1]
