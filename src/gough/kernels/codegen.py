"""From a tape of scalar operations to the LLVM IR of a batch kernel.

The code works on groups of `width` samples. A scratch block in cache holds one group as
structure of arrays, one vector per scalar:  inputs | work | outputs.  The driver transposes
a group in, runs the parts, transposes the group out. The operations are cut into parts of
bounded length because LLVM's register allocator and scheduler are superlinear in the size
of a function; values needed in a later part travel through the work rows.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import casadi

from gough.kernels.tape import (
    CONST,
    INPUT,
    INTRINSICS,
    LIBRARY,
    OPERATIONS,
    Shape,
    Tape,
)
from gough.kernels.vectormath import VECTORISED, Lines, sincos

ZERO_NODE = (CONST, 0, -1)  # the constant 0.0 on a tape
# operations in one function; longer ones compile more slowly and run no
# faster
PART_LENGTH = 500
_SIN_OPCODE = casadi.OP_SIN
_COS_OPCODE = casadi.OP_COS


def generate(tape: Tape, width: int) -> tuple[str, int]:
    """Return the IR module of a tape and the number of scratch rows that it needs.

    The module exports `void run(ptr table, ptr scratch, i64 start, i64
    stop)`. The table holds the addresses of the inputs, their strides
    and the addresses of the outputs. A stride counts doubles between
    samples, 0 for an input shared by all samples. Samples behind `stop`
    that fill up the last group repeat the last sample, so every lane
    always runs the same instructions. The scratch block must be zero
    before its first use: zeros of the outputs are never written. Stores
    of a thousand zeros in a dense Jacobian took LLVM longer than its
    operations.
    """
    parts = _Parts(tape, width)
    v = f"<{width} x double>"
    body = "\n".join(parts.text(number) for number in range(len(parts.parts)))
    lines = [body]
    for word, count in INTRINSICS.items():
        operands = ", ".join([v] * count)
        lines.append(f"declare {v} @llvm.{word}.v{width}f64({operands})")
    lines += [
        f"declare {v} @llvm.masked.load.v{width}f64.p0(ptr, i32, <{width} x i1>, {v})",
        f"declare void @llvm.masked.store.v{width}f64.p0({v}, ptr, i32, <{width} x i1>)",
        "declare i64 @llvm.smin.i64(i64, i64)",
    ]
    for word, count in LIBRARY.items():
        if f"@lanes_{word}(" in body:
            lines += _lanes(word, count, width)
    lines += _transfer("fetch", width, inward=True)
    lines += _transfer("deliver", width, inward=False)
    lines += _driver(tape, parts)
    # `no-stack-arg-probe`: Windows would need a helper symbol. The
    # widths make LLVM use full 512-bit registers.
    bits = 64 * width
    common = (
        f'nounwind "no-stack-arg-probe" "prefer-vector-width"="{bits}" '
        f'"min-legal-vector-width"="{bits}"'
    )
    lines += [
        f"attributes #0 = {{ {common} }}",
        f"attributes #1 = {{ noinline {common} }}",
        "!0 = !{}",
        '!1 = !{!"branch_weights", i32 1, i32 100000}',
    ]
    return "\n".join(lines), parts.rows


def _lanes(word: str, count: int, width: int) -> Iterator[str]:
    """Emit a function of the C library, called once per lane."""
    v = f"<{width} x double>"
    vector = "poison"
    operands = ", ".join(f"{v} %x{i}" for i in range(count))
    yield f"declare double @gough_{word}({', '.join(['double'] * count)})"
    yield f"define internal {v} @lanes_{word}({operands}) #1 {{"
    for lane in range(width):
        for i in range(count):
            yield f"  %x{i}.{lane} = extractelement {v} %x{i}, i64 {lane}"
        scalars = ", ".join(f"double %x{i}.{lane}" for i in range(count))
        yield f"  %y{lane} = call double @gough_{word}({scalars})"
        yield f"  %r{lane} = insertelement {v} {vector}, double %y{lane}, i64 {lane}"
        vector = f"%r{lane}"
    yield f"  ret {v} {vector}"
    yield "}"


def _transpose(at: Lines, rows: list[str]) -> list[str]:
    """Emit the transpose of a square tile of vectors and return the names of its rows.

    Blocks of one, two, four lanes are exchanged between rows.
    """
    width = at.width
    step = 1
    while step < width:
        low = list(range(width))
        high = [lane + width for lane in range(width)]
        for lane in range(width):
            if lane & step:
                low[lane] = lane - step + width
            else:
                high[lane] = lane + step
        transposed = list(rows)
        for i in range(width):
            if not i & step:
                transposed[i] = _shuffle(at, rows[i], rows[i + step], low)
                transposed[i + step] = _shuffle(at, rows[i], rows[i + step], high)
        rows = transposed
        step *= 2
    return rows


def _shuffle(at: Lines, first: str, second: str, lanes: list[int]) -> str:
    """Emit the selection of lanes from two vectors; those of the second come after the first."""
    entries = ", ".join(f"i32 {lane}" for lane in lanes)
    v = at.vector
    return at.let(f"shufflevector {v} {first}, {v} {second}, <{at.width} x i32> <{entries}>")


def _tile(at: Lines, inward: bool, masked: bool) -> list[str]:
    """Emit the move of one square tile between samples in memory and vectors of scratch.

    Samples are unaligned rows in memory, scratch vectors are aligned.
    """
    v = at.vector
    width = at.width
    samples = [at.let(f"getelementptr double, ptr %b{i}, i64 %c") for i in range(width)]
    first = at.let(f"getelementptr {v}, ptr %s, i64 %c")
    vectors = [at.let(f"getelementptr {v}, ptr {first}, i64 {i}") for i in range(width)]
    aligned = 8 * width
    sources, targets = (samples, vectors) if inward else (vectors, samples)
    load_alignment, store_alignment = (8, aligned) if inward else (aligned, 8)
    load = f"load {v}, ptr {{p}}, align {load_alignment}"
    store = f"store {v} {{x}}, ptr {{p}}, align {store_alignment}"
    if masked and inward:
        load = (
            f"call {v} @llvm.masked.load.v{width}f64.p0(ptr {{p}}, i32 8, <{width} x i1> %m, "
            f"{v} zeroinitializer)"
        )
    elif masked:
        store = (
            f"call void @llvm.masked.store.v{width}f64.p0({v} {{x}}, ptr {{p}}, i32 8, "
            f"<{width} x i1> %m)"
        )
    rows = _transpose(at, [at.let(load.format(p=p)) for p in sources])
    return at.text + [f"  {store.format(x=x, p=p)}" for x, p in zip(rows, targets)]


def _transfer(name: str, width: int, inward: bool) -> Iterator[str]:
    """Emit the move of n doubles of `width` samples from memory to n vectors of scratch, or back.

    A sample behind the last one repeats the last one, both when read
    and when written. An input shared by all samples is read with the
    first group only.
    """
    i64s = f"<{width} x i64>"
    arguments = "ptr %base, i64 %stride, i64 %n, ptr %s, i64 %first, i64 %last, i1 %again"
    yield f"define internal void @{name}({arguments}) #1 {{"
    yield "entry:"
    yield "  %shared = icmp eq i64 %stride, 0"
    yield "  %skip = and i1 %shared, %again"
    yield "  br i1 %skip, label %done, label %start"
    yield "start:"
    for i in range(width):
        yield f"  %i{i} = add i64 %first, {i}"
        yield f"  %j{i} = call i64 @llvm.smin.i64(i64 %i{i}, i64 %last)"
        yield f"  %k{i} = mul i64 %j{i}, %stride"
        yield f"  %b{i} = getelementptr double, ptr %base, i64 %k{i}"
    yield f"  %whole = and i64 %n, -{width}"
    yield "  br label %head"
    yield "head:"
    yield "  %c = phi i64 [ 0, %start ], [ %next, %full ]"
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
    yield f"  %m = icmp slt {i64s} <{', '.join(f'i64 {i}' for i in range(width))}>, %m1"
    yield from _tile(Lines("r", width), inward, masked=True)
    yield "  br label %done"
    yield "done:"
    yield "  ret void"
    yield "}"


def _driver(tape: Tape, parts: _Parts) -> Iterator[str]:
    """Emit the function `run`: for each group of samples fetch, run all parts, deliver."""
    v = f"<{parts.width} x double>"
    inputs = len(tape.input_shapes)

    def transfer(name: str, number: int, shape: Shape, row: int, stride: str) -> Iterator[str]:
        """Emit the transfer of one input or output."""
        yield f"  %p{number} = getelementptr ptr, ptr %table, i64 {number}"
        yield f"  %a{number} = load ptr, ptr %p{number}"
        yield f"  %s{number} = getelementptr {v}, ptr %s, i64 {row}"
        yield (
            f"  call void @{name}(ptr %a{number}, i64 {stride}, i64 {shape[0] * shape[1]}, "
            f"ptr %s{number}, i64 %first, i64 %last, i1 %later)"
        )

    yield "define void @run(ptr %table, ptr %s, i64 %start, i64 %stop) #1 {"
    yield "entry:"
    yield "  %last = sub i64 %stop, 1"
    yield "  br label %group"
    yield "group:"
    yield "  %first = phi i64 [ %start, %entry ], [ %next, %group ]"
    yield f"  %next = add i64 %first, {parts.width}"
    yield "  %later = icmp ne i64 %first, %start"
    for i, shape in enumerate(tape.input_shapes):
        yield f"  %q{i} = getelementptr i64, ptr %table, i64 {inputs + i}"
        yield f"  %d{i} = load i64, ptr %q{i}"
        yield from transfer("fetch", i, shape, parts.inputs[i], f"%d{i}")
    for k in range(len(parts.parts)):
        yield f"  call void @part{k}(ptr %s)"
    for i, shape in enumerate(tape.output_shapes):
        yield from transfer(
            "deliver",
            2 * inputs + i,
            shape,
            parts.outputs[i],
            str(shape[0] * shape[1]),
        )
    yield "  %again = icmp slt i64 %next, %stop"
    yield "  br i1 %again, label %group, label %done"
    yield "done:"
    yield "  ret void"
    yield "}"


class _Parts:
    """The operations as functions `void part<n>(ptr scratch)`.

    Attributes:
        parts: Nodes computed in each; sine and cosine of the same angle
            are computed together, with the first of them.
        twins: Second of sine and cosine of an angle, by the first.
        part_of: Part that computes each node.
        inputs, outputs: First scratch row of each; padded to a multiple
            of `width`, as transposes may run over the end.
        work: Scratch row of each value that is read in a later part.
        results: Output rows of each value, by part.
        rows: Number of rows of the scratch block.
    """

    def __init__(self, tape: Tape, width: int) -> None:
        self.tape = tape
        self.width = width
        self.vector = f"<{width} x double>"
        self.twins = _sine_pairs(tape)
        second_of_pair = set(self.twins.values())
        computed: list[int] = []
        for v, (op, _, _) in enumerate(tape.nodes):
            if op not in (INPUT, CONST) and v not in second_of_pair:
                computed.append(v)
        starts = range(0, max(len(computed), 1), PART_LENGTH)
        self.parts = [computed[start : start + PART_LENGTH] for start in starts]
        self.part_of: dict[int, int] = {}
        for number, nodes in enumerate(self.parts):
            self.part_of.update(dict.fromkeys(nodes, number))
        for first, second in self.twins.items():
            self.part_of[second] = self.part_of[first]
        *self.inputs, work = self._starts(tape.input_shapes, 0)
        self.work = self._work_rows(work)
        first_output = max(self.work.values(), default=work - 1) + 1
        *self.outputs, self.rows = self._starts(tape.output_shapes, first_output)
        # Inputs and constants that are results themselves are stored by
        # the last part.
        self.results: list[dict[int, list[int]]] = [defaultdict(list) for _ in self.parts]
        for v, array, position in tape.results:
            if tape.nodes[v] == ZERO_NODE:
                continue  # the scratch block is zero there, and stays so
            self.results[self.part_of.get(v, -1)][v].append(self.outputs[array] + position)

    def _starts(self, shapes: tuple[Shape, ...], first: int) -> list[int]:
        """Return the first row of each padded array, and the row after the last."""
        starts = [first]
        for rows, columns in shapes:
            groups = -(-rows * columns // self.width)
            starts.append(starts[-1] + groups * self.width)
        return starts

    def _work_rows(self, count: int) -> dict[int, int]:
        """Return scratch rows, from number `count` on, for values that are read in later parts.

        A row is free again in the part after its last reader: no part
        overwrites what it reads.
        """
        last_reader: dict[int, int] = {}
        for number, nodes in enumerate(self.parts):
            for v in nodes:
                for operand in self.tape.nodes[v][1:]:
                    if self.part_of.get(operand, number) != number:
                        last_reader[operand] = number
        rows: dict[int, int] = {}
        free: list[int] = []
        expiring: defaultdict[int, list[int]] = defaultdict(list)
        for number, nodes in enumerate(self.parts):
            free += expiring[number - 1]
            for v in nodes:
                for computed in (v, self.twins.get(v, -1)):
                    if computed not in last_reader:
                        continue
                    if not free:
                        free.append(count)
                        count += 1
                    rows[computed] = free.pop()
                    expiring[last_reader[computed]].append(rows[computed])
        return rows

    def text(self, number: int) -> str:
        """Return the function of one part."""
        self.lines: list[str] = []
        self.block = "entry"  # label of the current basic block
        self.names: dict[int, str] = {}  # of values known so far
        results = dict(self.results[number])
        for v in self.parts[number]:
            for computed in self._compute(v):
                if computed in self.work:
                    self._store(computed, [self.work[computed]])
                self._store(computed, results.pop(computed, []))
        for stored, rows in results.items():
            self._store(stored, rows)
        head = f"define internal void @part{number}(ptr noalias %s) #0 {{"
        return "\n".join([head, "entry:", *self.lines, "  ret void", "}"])

    def _operand(self, v: int) -> str:
        """Return the name of a value: computed here, a constant, or loaded once per part."""
        if v not in self.names and v >= 0:
            op, a, b = self.tape.nodes[v]
            if op == CONST:
                return f"splat (double 0x{a & 0xFFFFFFFFFFFFFFFF:016X})"
            row = self.inputs[a] + b if op == INPUT else self.work[v]
            self.names[v] = f"%l{v}"
            align = 8 * self.width
            self.lines += [
                f"  %p{v} = getelementptr inbounds {self.vector}, ptr %s, i64 {row}",
                f"  %l{v} = load {self.vector}, ptr %p{v}, align {align}, !invariant.load !0",
            ]
        return self.names.get(v, "")

    def _store(self, v: int, rows: list[int]) -> None:
        """Emit stores of a value to scratch rows."""
        for row in rows:
            name = self._operand(v)
            self.lines += [
                f"  %o{row} = getelementptr inbounds {self.vector}, ptr %s, i64 {row}",
                f"  store {self.vector} {name}, ptr %o{row}, align {8 * self.width}",
            ]

    def _compute(self, v: int) -> list[int]:
        """Emit one node and return the nodes that are now known.

        A sine comes together with the cosine of the same angle.
        """
        op, first, second = self.tape.nodes[v]
        a = self._operand(first)
        b = self._operand(second)
        at = Lines(f"t{v}", self.width)
        operation = OPERATIONS[op]
        if op in (_SIN_OPCODE, _COS_OPCODE):
            sine, cosine = sincos(at, a, self.block)
            self.lines += at.text
            self.block = f"t{v}.join"
            self.names[v] = sine if op == _SIN_OPCODE else cosine
            if v not in self.twins:
                return [v]
            self.names[self.twins[v]] = cosine if op == _SIN_OPCODE else sine
            return [v, self.twins[v]]
        if operation.lines:
            words = {
                "n": f"%v{v}",
                "a": a,
                "b": b,
                "t": self.vector,
                "m": at.truth,
                "s": f"v{self.width}f64",
            }
            *before, last = [line.format(**words) for line in operation.lines]
            self.lines += [f"  {line}" for line in before]
            self.lines.append(f"  %v{v} = {last}")
            self.names[v] = f"%v{v}"
        else:
            word = operation.function
            operands = [a, b][: operation.operands]
            if word in VECTORISED:
                self.names[v] = VECTORISED[word](at, *operands)
            else:
                self.names[v] = at.lanes(word, *operands)
            self.lines += at.text
        return [v]


def _sine_pairs(tape: Tape) -> dict[int, int]:
    """Return the nodes of sine and cosine of the same angle: the later one by the earlier one."""
    cosines = {angle: v for v, (op, angle, _) in enumerate(tape.nodes) if op == _COS_OPCODE}
    pairs: dict[int, int] = {}
    for v, (op, angle, _) in enumerate(tape.nodes):
        if op == _SIN_OPCODE and angle in cosines:
            cosine = cosines[angle]
            pairs[min(v, cosine)] = max(v, cosine)
    return pairs
