"""From a tape of scalar operations to the LLVM IR of a batch kernel.

The code works on groups of `width` samples. A scratch block in cache holds one group as structure of arrays,
one vector per scalar:  inputs | work | outputs.  The driver transposes a group in, runs the parts, transposes
the group out. The operations are cut into parts of bounded length because LLVM's register allocator and scheduler
are superlinear in the size of a function; values needed in a later part travel through the work rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate

import casadi

from gough.kernels.tape import CONST, INPUT, INTRINSICS, LIBRARY, OPERATIONS, Node, Shape, Tape
from gough.kernels.vectormath import VECTORISED, Lines, sincos

PART_LENGTH = 500  # operations in one function; longer ones compile more slowly and run no faster
_SIN, _COS = casadi.OP_SIN, casadi.OP_COS


@dataclass(frozen=True, kw_only=True)
class Layout:
    """Rows of the scratch block, each one vector of `width` doubles: inputs | work | outputs.

    Every array is padded to a multiple of `width` rows so that transposes may run over its end.
    """

    width: int
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    work: int
    rows: int


def arrange(tape: Tape, width: int, slots: int) -> Layout:
    """Lay out the scratch block for a tape whose parts need `slots` work rows."""
    def starts(shapes: tuple[Shape, ...], first: int) -> list[int]:
        return list(accumulate((-(-r * c // width) * width for r, c in shapes), initial=first))

    inputs = starts(tape.input_shapes, 0)
    outputs = starts(tape.output_shapes, inputs[-1] + slots)
    return Layout(width=width, inputs=tuple(inputs[:-1]), work=inputs[-1], outputs=tuple(outputs[:-1]),
                  rows=outputs[-1])


def surroundings(tape: Tape, layout: Layout, body: str, parts: int) -> Iterator[str]:
    """Emit everything the text of the parts needs to become a module with the entry `run`."""
    width, v = layout.width, f"<{layout.width} x double>"
    for word, count in INTRINSICS.items():
        yield f"declare {v} @llvm.{word}.v{width}f64({', '.join([v] * count)})"
    yield f"declare {v} @llvm.masked.load.v{width}f64.p0(ptr, i32, <{width} x i1>, {v})"
    yield f"declare void @llvm.masked.store.v{width}f64.p0({v}, ptr, i32, <{width} x i1>)"
    yield "declare i64 @llvm.smin.i64(i64, i64)"
    yield from _lanes(body, layout.width)
    yield from _transposes(layout.width)
    yield from _driver(tape, layout, parts)
    # `no-stack-arg-probe`: Windows would need a helper symbol; the widths make LLVM use full 512-bit registers
    bits = 64 * width
    common = f'nounwind "no-stack-arg-probe" "prefer-vector-width"="{bits}" "min-legal-vector-width"="{bits}"'
    yield f"attributes #0 = {{ {common} }}"
    yield f"attributes #1 = {{ noinline {common} }}"
    yield "!0 = !{}"
    yield '!1 = !{!"branch_weights", i32 1, i32 100000}'


def _lanes(body: str, width: int) -> Iterator[str]:
    """Emit the libm functions in use, one call per lane."""
    v = f"<{width} x double>"
    for word, count in LIBRARY.items():
        if f"@lanes_{word}(" not in body:
            continue
        yield f"declare double @gough_{word}({', '.join(['double'] * count)})"
        arguments = ", ".join(f"{v} %x{i}" for i in range(count))
        yield f"define internal {v} @lanes_{word}({arguments}) #1 {{"
        result = "poison"
        for lane in range(width):
            for i in range(count):
                yield f"  %x{i}.{lane} = extractelement {v} %x{i}, i64 {lane}"
            scalars = ", ".join(f"double %x{i}.{lane}" for i in range(count))
            yield f"  %y{lane} = call double @gough_{word}({scalars})"
            yield f"  %r{lane} = insertelement {v} {result}, double %y{lane}, i64 {lane}"
            result = f"%r{lane}"
        yield f"  ret {v} {result}"
        yield "}"


def _transpose(at: Lines, rows: list[str]) -> list[str]:
    """Emit the transpose of a square tile of vectors and return the names of its rows.

    Neighbours exchange single doubles, then pairs of doubles; the masks are those of vunpck?pd and vshuff64x2.
    """
    width = at.width
    if width == 1:
        return rows

    def shuffle(a: str, b: str, mask: list[int]) -> str:
        entries = ", ".join(f"i32 {i}" for i in mask)
        return at.let(f"shufflevector {at.vector} {a}, {at.vector} {b}, <{width} x i32> <{entries}>")

    even = [lane for i in range(0, width, 2) for lane in (i, i + width)]
    odd = [lane + 1 for lane in even]
    groups = [[shuffle(a, b, even), shuffle(a, b, odd)] for a, b in zip(rows[0::2], rows[1::2])]
    columns = [list(range(0, width, 2)), list(range(1, width, 2))]  # held by the vectors of each group
    half = [lane for i in range(0, width, 4) for lane in (i, i + 1)]
    low = half + [lane + width for lane in half]
    high = [lane + 2 for lane in low]
    while len(groups) > 1:
        groups = [
            [shuffle(a, b, mask) for a, b in zip(left, right) for mask in (low, high)]
            for left, right in zip(groups[0::2], groups[1::2])
        ]
        columns = [part for some in columns for part in (some[0::2], some[1::2])]
    order = {some[0]: name for some, name in zip(columns, groups[0])}
    return [order[column] for column in range(width)]


def _tile(at: Lines, inward: bool, masked: bool) -> list[str]:
    """Emit the move of one square tile: samples are unaligned rows in memory, scratch vectors are aligned."""
    v, width = at.vector, at.width
    kind = f"v{width}f64.p0"
    samples = [at.let(f"getelementptr double, ptr %b{i}, i64 %c") for i in range(width)]
    first = at.let(f"getelementptr {v}, ptr %s, i64 %c")
    vectors = [at.let(f"getelementptr {v}, ptr {first}, i64 {i}") for i in range(width)]
    if not inward:
        rows = [at.let(f"load {v}, ptr {p}, align {8 * width}") for p in vectors]
    elif masked:
        rows = [at.let(f"call {v} @llvm.masked.load.{kind}(ptr {p}, i32 8, <{width} x i1> %m, {v} zeroinitializer)")
                for p in samples]
    else:
        rows = [at.let(f"load {v}, ptr {p}, align 8") for p in samples]
    turned = _transpose(at, rows)
    if inward:
        at.text += [f"  store {v} {row}, ptr {p}, align {8 * width}" for row, p in zip(turned, vectors)]
    elif masked:
        at.text += [f"  call void @llvm.masked.store.{kind}({v} {row}, ptr {p}, i32 8, <{width} x i1> %m)"
                    for row, p in zip(turned, samples)]
    else:
        at.text += [f"  store {v} {row}, ptr {p}, align 8" for row, p in zip(turned, samples)]
    return at.text


def _transposes(width: int) -> Iterator[str]:
    """Emit `fetch` and `deliver`: n doubles of each of `width` samples <-> n vectors of scratch.

    A sample behind the last one repeats the last one, both when read and when written.
    """
    i64s = f"<{width} x i64>"
    count = "<" + ", ".join(f"i64 {i}" for i in range(width)) + ">"
    for name, inward in (("fetch", True), ("deliver", False)):
        yield f"define internal void @{name}(ptr %base, i64 %stride, i64 %n, ptr %s, i64 %first, i64 %last) #1 {{"
        yield "entry:"
        for i in range(width):
            yield f"  %i{i} = add i64 %first, {i}"
            yield f"  %j{i} = call i64 @llvm.smin.i64(i64 %i{i}, i64 %last)"
            yield f"  %k{i} = mul i64 %j{i}, %stride"
            yield f"  %b{i} = getelementptr double, ptr %base, i64 %k{i}"
        yield f"  %whole = and i64 %n, -{width}"
        yield "  br label %head"
        yield "head:"
        yield "  %c = phi i64 [ 0, %entry ], [ %next, %full ]"
        yield "  %more = icmp slt i64 %c, %whole"
        yield "  br i1 %more, label %full, label %tail"
        yield "full:"
        yield f"  %next = add i64 %c, {width}"
        yield from _tile(Lines("f", width), inward, masked=False)
        yield "  br label %head"
        yield "tail:"
        yield "  %left = sub i64 %n, %c"
        yield "  %some = icmp sgt i64 %left, 0"
        yield "  br i1 %some, label %rest, label %done"
        yield "rest:"
        yield f"  %m0 = insertelement {i64s} poison, i64 %left, i64 0"
        yield f"  %m1 = shufflevector {i64s} %m0, {i64s} poison, <{width} x i32> zeroinitializer"
        yield f"  %m = icmp slt {i64s} {count}, %m1"
        yield from _tile(Lines("r", width), inward, masked=True)
        yield "  br label %done"
        yield "done:"
        yield "  ret void"
        yield "}"


def _driver(tape: Tape, layout: Layout, parts: int) -> Iterator[str]:
    v, width = f"<{layout.width} x double>", layout.width
    yield "define void @run(ptr %in, ptr %s, i64 %start, i64 %stop) #1 {"
    yield "entry:"
    yield "  %last = sub i64 %stop, 1"
    inputs = len(layout.inputs)
    for i in range(inputs):
        yield f"  %ip{i} = getelementptr ptr, ptr %in, i64 {i}"
        yield f"  %i{i} = load ptr, ptr %ip{i}"
        yield f"  %dp{i} = getelementptr i64, ptr %in, i64 {inputs + i}"
        yield f"  %d{i} = load i64, ptr %dp{i}"
        yield f"  %is{i} = getelementptr {v}, ptr %s, i64 {layout.inputs[i]}"
    for i in range(len(layout.outputs)):
        yield f"  %op{i} = getelementptr ptr, ptr %in, i64 {2 * inputs + i}"
        yield f"  %o{i} = load ptr, ptr %op{i}"
        yield f"  %os{i} = getelementptr {v}, ptr %s, i64 {layout.outputs[i]}"
    yield "  br label %group"
    yield "group:"
    end = f"call{inputs}"
    yield f"  %first = phi i64 [ %start, %entry ], [ %next, %{end} ]"
    yield f"  %next = add i64 %first, {width}"
    yield "  %later = icmp ne i64 %first, %start"
    yield "  br label %call0"
    for i, (rows, columns) in enumerate(tape.input_shapes):
        yield f"call{i}:"
        yield f"  %shared{i} = icmp eq i64 %d{i}, 0"
        yield f"  %skip{i} = and i1 %shared{i}, %later"
        yield f"  br i1 %skip{i}, label %call{i + 1}, label %fetch{i}"
        yield f"fetch{i}:"
        yield (f"  call void @fetch(ptr %i{i}, i64 %d{i}, i64 {rows * columns}, ptr %is{i}, "
               "i64 %first, i64 %last)")
        yield f"  br label %call{i + 1}"
    yield f"{end}:"
    for k in range(parts):
        yield f"  call void @part{k}(ptr %s)"
    for i, (rows, columns) in enumerate(tape.output_shapes):
        size = rows * columns
        yield f"  call void @deliver(ptr %o{i}, i64 {size}, i64 {size}, ptr %os{i}, i64 %first, i64 %last)"
    yield "  %again = icmp slt i64 %next, %stop"
    yield "  br i1 %again, label %group, label %done"
    yield "done:"
    yield "  ret void"
    yield "}"


def generate(tape: Tape, width: int) -> tuple[str, int]:
    """Emit the IR module of a tape; return its text and the number of scratch rows it needs.

    The module exports `void run(ptr table, ptr scratch, i64 start, i64 stop)`. The table holds the addresses of the
    inputs, their strides and the addresses of the outputs. A stride counts doubles between samples, 0 for an input
    shared by all samples. Samples behind `stop` that fill up the last group repeat the last sample, so every lane
    always runs the same instructions. The scratch block must be zero before its first use: structural zeros of the
    outputs are never written.
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
