"""From a tape of scalar operations to the LLVM IR of a batch kernel.

The code works on groups of `width` samples. A scratch block in cache holds one group as structure of arrays,
one vector per scalar:  inputs | work | outputs.  The driver transposes a group in, runs the parts, transposes
the group out. The operations are cut into parts of bounded length because LLVM's register allocator and scheduler
are superlinear in the size of a function; values needed in a later part travel through the work rows.
"""

from __future__ import annotations

from collections.abc import Iterator

import casadi

from gough.kernels.driver import Layout, arrange, surroundings
from gough.kernels.operations import OPERATIONS
from gough.kernels.tape import CONST, INPUT, Node, Tape
from gough.kernels.vectormath import VECTORISED, Lines, sincos

PART_LENGTH = 500  # operations in one function; longer ones compile more slowly and run no faster
_SIN, _COS = casadi.OP_SIN, casadi.OP_COS


def generate(tape: Tape, width: int) -> tuple[str, int]:
    """Emit the IR module of a tape; return its text and the number of scratch rows it needs.

    The module exports `void run(ptr inputs, ptr strides, ptr outputs, i64 start, i64 stop, ptr scratch)`.
    `strides` counts doubles between samples, 0 for an input shared by all samples. Samples behind `stop` that
    fill up the last group repeat the last sample, so every lane always runs the same instructions. The scratch
    block must be zero before its first use: structural zeros of the outputs are never written.
    """
    schedule = _Schedule(tape)
    layout = arrange(tape, width, schedule.slots)
    parts = [_Part(tape, schedule, layout, number).text() for number in range(len(schedule.parts))]
    body = "\n".join(parts)
    return "\n".join([body, *surroundings(tape, layout, body, len(parts))]), layout.rows


class _Schedule:
    """Which node is computed in which part, and the work row of each value that crosses parts."""

    def __init__(self, tape: Tape) -> None:
        nodes = tape.nodes
        cosines = {a: v for v, (op, a, _) in enumerate(nodes) if op == _COS}
        pairs = [(v, cosines[a]) for v, (op, a, _) in enumerate(nodes) if op == _SIN and a in cosines]
        self.twins = {min(pair): max(pair) for pair in pairs}  # the first of a pair computes both
        later = set(self.twins.values())
        units = [v for v, (op, _, _) in enumerate(nodes) if op not in (INPUT, CONST) and v not in later]
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
        if op == CONST:
            return f"splat (double 0x{a & 0xFFFFFFFFFFFFFFFF:016X})"
        row = self.layout.inputs[a] + b if op == INPUT else self.layout.work + self.schedule.row_of[v]
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
        operation = OPERATIONS[op]
        if operation.lines:
            words = {"n": name, "a": a, "b": b, "t": self.type, "m": f"<{self.width} x i1>", "s": f"v{self.width}f64"}
            *before, value = (line.format(**words) for line in operation.lines)
            self.lines += [f"  {line}" for line in (*before, f"{name} = {value}")]
        else:
            word, operands = operation.function, [a, b][:operation.operands]
            at = Lines(f"t{v}", self.width)
            name = VECTORISED[word](at, *operands) if word in VECTORISED else at.lanes(word, *operands)
            self.lines += at.text
        self.loaded[v] = name
        yield v
