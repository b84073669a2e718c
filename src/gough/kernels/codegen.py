"""From a tape of scalar operations to the LLVM IR of a batch kernel.

The code works on groups of `width` samples. A scratch block in cache holds one group as structure of arrays,
one vector per scalar:  inputs | work | outputs.  The driver transposes a group in, runs the parts, transposes
the group out. The operations are cut into parts of bounded length because LLVM's register allocator and scheduler
are superlinear in the size of a function; values needed in a later part travel through the work rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import casadi

from gough.kernels.driver import Layout, arrange, surroundings
from gough.kernels.tape import NAMES, Node, Tape
from gough.kernels.vectormath import VECTORISED, Lines, sincos

PART_LENGTH = 500  # operations in one function; longer ones compile more slowly and run no faster
# Fused multiply-adds are welcome; reassociation brought no speed, and no NaN or infinity may be assumed away.
_FLAGS = "contract"
_SIN, _COS, _INPUT, _CONST = casadi.OP_SIN, casadi.OP_COS, casadi.OP_INPUT, casadi.OP_CONST

# {t} vector type, {f} fast-math flags, {a} {b} operands, {w} lanes
_INSTRUCTIONS: dict[int, str] = {
    casadi.OP_ADD: "fadd {f} {t} {a}, {b}",
    casadi.OP_SUB: "fsub {f} {t} {a}, {b}",
    casadi.OP_MUL: "fmul {f} {t} {a}, {b}",
    casadi.OP_DIV: "fdiv {f} {t} {a}, {b}",
    casadi.OP_NEG: "fneg {f} {t} {a}",
    casadi.OP_SQ: "fmul {f} {t} {a}, {a}",
    casadi.OP_TWICE: "fadd {f} {t} {a}, {a}",
    casadi.OP_INV: "fdiv {f} {t} splat (double 1.0), {a}",
    casadi.OP_SQRT: "call {t} @llvm.sqrt.v{w}f64({t} {a})",
    casadi.OP_FABS: "call {t} @llvm.fabs.v{w}f64({t} {a})",
    casadi.OP_FLOOR: "call {t} @llvm.floor.v{w}f64({t} {a})",
    casadi.OP_CEIL: "call {t} @llvm.ceil.v{w}f64({t} {a})",
    casadi.OP_FMIN: "call {t} @llvm.minimum.v{w}f64({t} {a}, {t} {b})",
    casadi.OP_FMAX: "call {t} @llvm.maximum.v{w}f64({t} {a}, {t} {b})",
    casadi.OP_COPYSIGN: "call {t} @llvm.copysign.v{w}f64({t} {a}, {t} {b})",
}
_TRUTHS: dict[int, tuple[str, ...]] = {
    casadi.OP_LT: ("fcmp olt {t} {a}, {b}",),
    casadi.OP_LE: ("fcmp ole {t} {a}, {b}",),
    casadi.OP_EQ: ("fcmp oeq {t} {a}, {b}",),
    casadi.OP_NE: ("fcmp une {t} {a}, {b}",),
    casadi.OP_NOT: ("fcmp oeq {t} {a}, zeroinitializer",),
    casadi.OP_AND: ("fcmp une {t} {a}, zeroinitializer", "fcmp une {t} {b}, zeroinitializer", "and"),
    casadi.OP_OR: ("fcmp une {t} {a}, zeroinitializer", "fcmp une {t} {b}, zeroinitializer", "or"),
}
_LIBM_NAMES = {casadi.OP_CONSTPOW: "pow"}


@dataclass(frozen=True, kw_only=True)
class Program:
    """IR text and the number of scratch rows it needs."""

    text: str
    rows: int


def generate(tape: Tape, width: int) -> Program:
    """Emit the IR module of a tape.

    The module exports `void run(ptr inputs, ptr strides, ptr outputs, i64 start, i64 stop, ptr scratch)`.
    `strides` counts doubles between samples, 0 for an input shared by all samples. Samples behind `stop` that
    fill up the last group repeat the last sample, so every lane always runs the same instructions. The scratch
    block must be zero before its first use: structural zeros of the outputs are never written.
    """
    schedule = _Schedule(tape)
    layout = arrange(tape, width, schedule.slots)
    parts = [_Part(tape, schedule, layout, number).text() for number in range(len(schedule.parts))]
    body = "\n".join(parts)
    return Program(text="\n".join([body, *surroundings(tape, layout, body, len(parts))]), rows=layout.rows)


class _Schedule:
    """Which node is computed in which part, and the work row of each value that crosses parts."""

    def __init__(self, tape: Tape) -> None:
        nodes = tape.nodes
        cosines = {a: v for v, (op, a, _) in enumerate(nodes) if op == _COS}
        pairs = [(v, cosines[a]) for v, (op, a, _) in enumerate(nodes) if op == _SIN and a in cosines]
        self.twins = {min(pair): max(pair) for pair in pairs}  # the first of a pair computes both
        later = set(self.twins.values())
        units = [v for v, (op, _, _) in enumerate(nodes) if op not in (_INPUT, _CONST) and v not in later]
        self.parts = [units[i:i + PART_LENGTH] for i in range(0, len(units), PART_LENGTH)] or [[]]
        self.part_of = {v: number for number, part in enumerate(self.parts) for v in part}
        self.part_of |= {second: self.part_of[first] for first, second in self.twins.items()}
        self.row_of, self.slots = self._rows(nodes)
        # inputs and constants that are results themselves are stored by the last part
        self.results: list[dict[int, list[tuple[int, int]]]] = [{} for _ in self.parts]
        for v, array, position in tape.results:
            self.results[self.part_of.get(v, -1)].setdefault(v, []).append((array, position))

    def _rows(self, nodes: list[Node]) -> tuple[dict[int, int], int]:
        """Assign work rows; one is free again in the part after its last reader: no part overwrites what it reads."""
        last: dict[int, int] = {}
        for number, part in enumerate(self.parts):
            for v in part:
                for operand in nodes[v][1:]:
                    if self.part_of.get(operand, number) != number:
                        last[operand] = number
        row_of: dict[int, int] = {}
        free: list[int] = []
        expiring: list[list[int]] = [[] for _ in self.parts]
        count = 0
        for number, part in enumerate(self.parts):
            if number:
                free += expiring[number - 1]
            for v in part:
                for value in (v, self.twins.get(v, -1)):
                    if value in last:
                        if free:
                            row_of[value] = free.pop()
                        else:
                            row_of[value] = count
                            count += 1
                        expiring[last[value]].append(row_of[value])
        return row_of, count


class _Part:
    """Emits one function `void part<n>(ptr scratch)`."""

    def __init__(self, tape: Tape, schedule: _Schedule, layout: Layout, number: int) -> None:
        self.nodes, self.schedule, self.layout, self.number = tape.nodes, schedule, layout, number
        self.width = layout.width
        self.type = f"<{self.width} x double>"
        self.align = 8 * self.width
        self.lines: list[str] = []
        self.block = "entry"
        self.loaded: dict[int, str] = {}

    def text(self) -> str:
        results = dict(self.schedule.results[self.number])
        for v in self.schedule.parts[self.number]:
            for value in self._compute(v):
                if value in self.schedule.row_of:
                    self._store(value, self.layout.work + self.schedule.row_of[value])
                self._deliver(value, results.pop(value, []))
        for value, places in results.items():
            self._deliver(value, places)
        return "\n".join([f"define internal void @part{self.number}(ptr noalias %s) #0 {{", "entry:",
                          *self.lines, "  ret void", "}"])

    def _operand(self, v: int) -> str:
        """Name of a value: computed here, a constant, or loaded once per part."""
        if v < 0:
            return ""
        name = self.loaded.get(v)
        if name is not None:
            return name
        op, a, b = self.nodes[v]
        if op == _CONST:
            return f"splat (double 0x{a & 0xFFFFFFFFFFFFFFFF:016X})"
        row = self.layout.inputs[a] + b if op == _INPUT else self.layout.work + self.schedule.row_of[v]
        name = f"%l{v}"
        self.lines.append(f"  %p{v} = getelementptr inbounds {self.type}, ptr %s, i64 {row}")
        self.lines.append(f"  {name} = load {self.type}, ptr %p{v}, align {self.align}, !invariant.load !0")
        self.loaded[v] = name
        return name

    def _deliver(self, v: int, places: list[tuple[int, int]]) -> None:
        for array, position in places:
            self._store(v, self.layout.outputs[array] + position)

    def _store(self, v: int, row: int) -> None:
        value = self._operand(v)
        self.lines.append(f"  %o{row} = getelementptr inbounds {self.type}, ptr %s, i64 {row}")
        self.lines.append(f"  store {self.type} {value}, ptr %o{row}, align {self.align}")

    def _compute(self, v: int) -> Iterator[int]:
        """Emit one node (a sine together with the cosine of the same angle) and yield what is now known."""
        op, first, second = self.nodes[v]
        a, b = self._operand(first), self._operand(second)
        name = f"%v{v}"
        if op in (_SIN, _COS):
            at = Lines(f"t{v}", self.width)
            sine, cosine = sincos(at, a, self.block)
            self.lines += at.text
            self.block = f"t{v}.join"
            own, other = (sine, cosine) if op == _SIN else (cosine, sine)
            self.loaded[v] = own
            yield v
            twin = self.schedule.twins.get(v)
            if twin is not None:
                self.loaded[twin] = other
                yield twin
            return
        words = {"t": self.type, "f": _FLAGS, "a": a, "b": b, "w": self.width}
        if op in _INSTRUCTIONS:
            self.lines.append(f"  {name} = " + _INSTRUCTIONS[op].format(**words))
        elif op in _TRUTHS:
            self._truth(name, [line.format(**words) for line in _TRUTHS[op]])
        elif op == casadi.OP_IF_ELSE_ZERO:
            self.lines.append(f"  {name}.c = fcmp une {self.type} {a}, zeroinitializer")
            self._choose(name, f"{name}.c", b, "zeroinitializer")
        elif op == casadi.OP_SIGN:  # sign(0) = 0 and sign(nan) = nan: the argument itself
            self.lines.append(f"  {name}.c = fcmp one {self.type} {a}, zeroinitializer")
            self.lines.append(f"  {name}.s = call {self.type} @llvm.copysign.v{self.width}f64("
                              f"{self.type} splat (double 1.0), {self.type} {a})")
            self._choose(name, f"{name}.c", f"{name}.s", a)
        else:
            word = _LIBM_NAMES.get(op, NAMES[op])
            operands = [a, b] if second >= 0 else [a]
            if word in VECTORISED:
                at = Lines(f"t{v}", self.width)
                name = VECTORISED[word](at, *operands)
                self.lines += at.text
            else:
                arguments = ", ".join(f"{self.type} {x}" for x in operands)
                self.lines.append(f"  {name} = call {self.type} @lanes_{word}({arguments})")
        self.loaded[v] = name
        yield v

    def _truth(self, name: str, lines: list[str]) -> None:
        """Emit a comparison (or two and their and/or) as 1.0 and 0.0."""
        condition = f"{name}.c0"
        self.lines += [f"  {name}.c{i} = {line}" for i, line in enumerate(lines[:2])]
        if len(lines) == 3:
            condition = f"{name}.c"
            self.lines.append(f"  {condition} = {lines[2]} <{self.width} x i1> {name}.c0, {name}.c1")
        self._choose(name, condition, "splat (double 1.0)", "zeroinitializer")

    def _choose(self, name: str, condition: str, yes: str, no: str) -> None:
        self.lines.append(f"  {name} = select <{self.width} x i1> {condition}, "
                          f"{self.type} {yes}, {self.type} {no}")
