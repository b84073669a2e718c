"""From a tape of scalar operations to the LLVM IR of a batch kernel.

The code works on groups of `width` samples. A scratch block in cache holds one group as structure
of arrays, one vector per scalar:  inputs | work | outputs.  The driver transposes a group in, runs
the parts, transposes the group out. The operations are cut into parts of bounded length because
LLVM's register allocator and scheduler are superlinear in the size of a function; values needed in
a later part travel through the work rows.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import accumulate

import casadi

from gough.kernels.tape import CONST, INPUT, INTRINSICS, LIBRARY, OPERATIONS, Shape, Tape
from gough.kernels.vectormath import VECTORISED, Lines, sincos

PART_LENGTH = 500  # operations in one function; longer ones compile more slowly and run no faster
_SIN, _COS = casadi.OP_SIN, casadi.OP_COS


def generate(tape: Tape, width: int) -> tuple[str, int]:
    """Emit the IR module of a tape; return its text and the number of scratch rows it needs.

    The module exports `void run(ptr table, ptr scratch, i64 start, i64 stop)`. The table holds the
    addresses of the inputs, their strides and the addresses of the outputs. A stride counts doubles
    between samples, 0 for an input shared by all samples. Samples behind `stop` that fill up the
    last group repeat the last sample, so every lane always runs the same instructions. The scratch
    block must be zero before its first use: structural zeros of the outputs are never written.
    """
    parts, v = _Parts(tape, width), f"<{width} x double>"
    body = "\n".join(parts.text(number) for number in range(len(parts.parts)))
    # `no-stack-arg-probe`: Windows would need a helper symbol; the widths make LLVM use full
    # 512-bit registers
    bits = 64 * width
    common = (
        f'nounwind "no-stack-arg-probe" "prefer-vector-width"="{bits}" '
        f'"min-legal-vector-width"="{bits}"'
    )
    return "\n".join(
        [
            body,
            *(
                f"declare {v} @llvm.{word}.v{width}f64({', '.join([v] * count)})"
                for word, count in INTRINSICS.items()
            ),
            f"declare {v} @llvm.masked.load.v{width}f64.p0(ptr, i32, <{width} x i1>, {v})",
            f"declare void @llvm.masked.store.v{width}f64.p0({v}, ptr, i32, <{width} x i1>)",
            "declare i64 @llvm.smin.i64(i64, i64)",
            *(
                line
                for word, count in LIBRARY.items()
                if f"@lanes_{word}(" in body
                for line in _lanes(word, count, width)
            ),
            *_transfer("fetch", width, inward=True),
            *_transfer("deliver", width, inward=False),
            *_driver(tape, parts),
            f"attributes #0 = {{ {common} }}",
            f"attributes #1 = {{ noinline {common} }}",
            "!0 = !{}",
            '!1 = !{!"branch_weights", i32 1, i32 100000}',
        ]
    ), parts.rows


def _lanes(word: str, count: int, width: int) -> Iterator[str]:
    """Emit a function of the C library, called once per lane."""
    v, result = f"<{width} x double>", "poison"
    yield f"declare double @gough_{word}({', '.join(['double'] * count)})"
    yield (
        f"define internal {v} @lanes_{word}({', '.join(f'{v} %x{i}' for i in range(count))}) #1 {{"
    )
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
    """Emit the transpose of a square tile of vectors: blocks of one, two, four lanes change places
    across rows.
    """
    width, step = at.width, 1
    while step < width:
        low = [lane if not lane & step else lane - step + width for lane in range(width)]
        high = [lane + step if not lane & step else lane + width for lane in range(width)]
        turned = list(rows)
        for i in (i for i in range(width) if not i & step):
            for k, mask in ((i, low), (i + step, high)):
                entries = ", ".join(f"i32 {lane}" for lane in mask)
                turned[k] = at.let(
                    f"shufflevector {at.vector} {rows[i]}, {at.vector} {rows[i + step]}, "
                    f"<{width} x i32> <{entries}>"
                )
        rows, step = turned, 2 * step
    return rows


def _tile(at: Lines, inward: bool, masked: bool) -> list[str]:
    """Emit the move of one square tile: samples are unaligned rows in memory, scratch vectors are
    aligned.
    """
    v, width = at.vector, at.width
    samples = [at.let(f"getelementptr double, ptr %b{i}, i64 %c") for i in range(width)]
    first = at.let(f"getelementptr {v}, ptr %s, i64 %c")
    vectors = [at.let(f"getelementptr {v}, ptr {first}, i64 {i}") for i in range(width)]
    sources, targets = (samples, vectors) if inward else (vectors, samples)
    align = (8, 8 * width) if inward else (8 * width, 8)
    load, store = (
        f"load {v}, ptr {{p}}, align {align[0]}",
        f"store {v} {{x}}, ptr {{p}}, align {align[1]}",
    )
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
    turned = _transpose(at, [at.let(load.format(p=p)) for p in sources])
    return at.text + [f"  {store.format(x=x, p=p)}" for x, p in zip(turned, targets)]


def _transfer(name: str, width: int, inward: bool) -> Iterator[str]:
    """Emit the move of n doubles of each of `width` samples from memory to n vectors of scratch, or
    back.

    A sample behind the last one repeats the last one, both when read and when written. An input
    shared by all samples is read with the first group only.
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
    v, inputs = f"<{parts.width} x double>", len(tape.input_shapes)

    def transfer(name: str, number: int, shape: Shape, row: int, stride: str) -> Iterator[str]:
        yield f"  %p{number} = getelementptr ptr, ptr %table, i64 {number}"
        yield f"  %a{number} = load ptr, ptr %p{number}"
        yield f"  %s{number} = getelementptr {v}, ptr %s, i64 {row}"
        yield (
            f"  call void @{name}(ptr %a{number}, i64 {stride}, i64 {shape[0] * shape[1]}, ptr "
            f"%s{number}, "
            "i64 %first, i64 %last, i1 %later)"
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
            "deliver", 2 * inputs + i, shape, parts.outputs[i], str(shape[0] * shape[1])
        )
    yield "  %again = icmp slt i64 %next, %stop"
    yield "  br i1 %again, label %group, label %done"
    yield "done:"
    yield "  ret void"
    yield "}"


class _Parts:
    """The operations as functions `void part<n>(ptr scratch)`.

    Attributes:
        parts: Nodes computed in each; a sine comes with the cosine of the same angle, whichever is
            first.
        inputs, outputs: First scratch row of each; padded to a multiple of `width`, as transposes
            may run over the end.
        rows: Of the scratch block.
    """

    def __init__(self, tape: Tape, width: int) -> None:
        self.tape, self.width, self.vector = tape, width, f"<{width} x double>"
        nodes = tape.nodes
        cosines = {a: v for v, (op, a, _) in enumerate(nodes) if op == _COS}
        pairs = [
            (v, cosines[a]) for v, (op, a, _) in enumerate(nodes) if op == _SIN and a in cosines
        ]
        self.twins = {min(pair): max(pair) for pair in pairs}
        later = set(self.twins.values())
        units = [
            v for v, (op, _, _) in enumerate(nodes) if op not in (INPUT, CONST) and v not in later
        ]
        self.parts = [units[i : i + PART_LENGTH] for i in range(0, len(units), PART_LENGTH)] or [[]]
        self.part_of = {v: number for number, part in enumerate(self.parts) for v in part}
        self.part_of |= {second: self.part_of[first] for first, second in self.twins.items()}
        *self.inputs, work = self._starts(tape.input_shapes, 0)
        self.work = self._work_rows(work)
        *self.outputs, self.rows = self._starts(
            tape.output_shapes, max(self.work.values(), default=work - 1) + 1
        )
        # inputs and constants that are results themselves are stored by the last part
        self.results: list[dict[int, list[int]]] = [defaultdict(list) for _ in self.parts]
        for v, array, position in tape.results:
            self.results[self.part_of.get(v, -1)][v].append(self.outputs[array] + position)

    def _starts(self, shapes: tuple[Shape, ...], first: int) -> Iterator[int]:
        return accumulate((-(-r * c // self.width) * self.width for r, c in shapes), initial=first)

    def _work_rows(self, count: int) -> dict[int, int]:
        """Return rows from a first one on for values that cross parts.

        A row is free again in the part after its last reader: no part overwrites what it reads.
        """
        last: dict[int, int] = {}
        for number, part in enumerate(self.parts):
            for operand in (operand for v in part for operand in self.tape.nodes[v][1:]):
                if self.part_of.get(operand, number) != number:
                    last[operand] = number
        rows, free, expiring = dict[int, int](), list[int](), defaultdict[int, list[int]](list)
        for number, part in enumerate(self.parts):
            free += expiring[number - 1]
            for value in (value for v in part for value in (v, self.twins.get(v)) if value in last):
                if not free:
                    free.append(count)
                    count += 1
                rows[value] = free.pop()
                expiring[last[value]].append(rows[value])
        return rows

    def text(self, number: int) -> str:
        """Return one part."""
        self.lines, self.block, self.names = list[str](), "entry", dict[int, str]()
        results = dict(self.results[number])
        for v in self.parts[number]:
            for value in self._compute(v):
                self._store(value, [self.work[value]] if value in self.work else [])
                self._store(value, results.pop(value, []))
        for value, rows in results.items():
            self._store(value, rows)
        return "\n".join(
            [
                f"define internal void @part{number}(ptr noalias %s) #0 {{",
                "entry:",
                *self.lines,
                "  ret void",
                "}",
            ]
        )

    def _operand(self, v: int) -> str:
        """Return the name of a value: computed here, a constant, or loaded once per part."""
        if v not in self.names and v >= 0:
            op, a, b = self.tape.nodes[v]
            if op == CONST:
                return f"splat (double 0x{a & 0xFFFFFFFFFFFFFFFF:016X})"
            row = self.inputs[a] + b if op == INPUT else self.work[v]
            self.names[v] = f"%l{v}"
            self.lines.append(f"  %p{v} = getelementptr inbounds {self.vector}, ptr %s, i64 {row}")
            self.lines.append(
                f"  %l{v} = load {self.vector}, ptr %p{v}, align {8 * self.width}, !invariant.load "
                f"!0"
            )
        return self.names.get(v, "")

    def _store(self, v: int, rows: list[int]) -> None:
        for row in rows:
            value = self._operand(v)
            self.lines.append(
                f"  %o{row} = getelementptr inbounds {self.vector}, ptr %s, i64 {row}"
            )
            self.lines.append(f"  store {self.vector} {value}, ptr %o{row}, align {8 * self.width}")

    def _compute(self, v: int) -> list[int]:
        """Emit one node (a sine together with the cosine of the same angle) and return what is now
        known.
        """
        op, first, second = self.tape.nodes[v]
        a, b = self._operand(first), self._operand(second)
        at, operation = Lines(f"t{v}", self.width), OPERATIONS[op]
        if op in (_SIN, _COS):
            known = sincos(at, a, self.block)
            self.lines += at.text
            self.block = f"t{v}.join"
            values = [v, self.twins[v]] if v in self.twins else [v]
            self.names |= dict(zip(values, known if op == _SIN else known[::-1]))
            return values
        if operation.lines:
            words = {
                "n": f"%v{v}",
                "a": a,
                "b": b,
                "t": self.vector,
                "m": at.truth,
                "s": f"v{self.width}f64",
            }
            *before, value = (line.format(**words) for line in operation.lines)
            self.lines += [f"  {line}" for line in (*before, f"%v{v} = {value}")]
            self.names[v] = f"%v{v}"
        else:
            word, operands = operation.function, [a, b][: operation.operands]
            self.names[v] = (
                VECTORISED[word](at, *operands) if word in VECTORISED else at.lanes(word, *operands)
            )
            self.lines += at.text
        return [v]
