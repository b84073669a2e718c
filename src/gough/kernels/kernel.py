"""Batch kernels: CasADi SX functions as machine code over many samples, compiled by LLVM."""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from ctypes import addressof, c_char
from dataclasses import asdict, dataclass
from functools import cache, cached_property, partial, wraps
from importlib import resources
from itertools import count
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

import casadi
import llvmlite
import numpy as np
import scipy
from llvmlite import binding as llvm
from numpy.typing import ArrayLike, NDArray

from gough.core.arrays import FloatArray
from gough.core.errors import InvalidInput
from gough.kernels import cache as object_cache
from gough.kernels.codegen import generate
from gough.kernels.tape import LIBRARY, improved, read_tape

# operations x samples (about 0.1 ms) below which a second thread does
# not pay
_THREADING_WORTH = 2_000_000
# chunks per thread, so that a disturbed core does not hold up the
# others
_SHARES = 4
P = ParamSpec("P")
T = TypeVar("T")


@cache
def hash_of_package(package: str) -> str:
    """Return a hash of the files of a package: sources, or bytecode where there are no sources.

    It is part of the key of stored object code, so that changed code
    never meets object code of an older version. The package may be in a
    zip file.
    """
    digest = hashlib.sha256()
    files = resources.files(package).iterdir()
    for file in sorted(files, key=lambda file: file.name):
        if file.name.endswith((".py", ".pyc")):
            digest.update(file.read_bytes())
    return digest.hexdigest()


class Compiler:
    """Compiles IR to object code and loads object code as functions.

    It is safe in threads, because llvmlite locks each call.

    Attributes:
        width: Samples per vector instruction: eight with AVX-512, else
            four.
        key: Everything but the IR that the object code depends on.
    """

    def __init__(self) -> None:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        self._triple = llvm.get_process_triple()
        cpu = llvm.get_host_cpu_name()
        features = llvm.get_host_cpu_features()
        self.width = 8 if features.get("avx512f") else 4
        version = ".".join(map(str, llvm.llvm_version_info))
        generator = hash_of_package("gough.kernels")
        self.key = (
            f"{self._triple} {cpu} {features.flatten()} {llvmlite.__version__} {version} "
            f"{generator}"
        )
        self._machine = self._target_machine(cpu, features.flatten())
        # The linker takes possession of its machine, so that it gets
        # one of its own.
        linker_machine = self._target_machine(cpu, features.flatten())
        self._linker = llvm.create_lljit_compiler(linker_machine)
        self._numbers = count()

    def _target_machine(self, cpu: str, features: str) -> llvm.TargetMachine:
        """Return a code generator for this processor.

        Optimisation level 1 gives the same speed as 2 and 3 on
        straight-line code, in half the compile time.
        """
        target = llvm.Target.from_triple(self._triple)
        return target.create_target_machine(
            cpu=cpu,
            features=features,
            opt=1,
            reloc="pic",
            codemodel="small",
            jit=True,
        )

    def compile(self, text: str) -> bytes:
        """Compile IR to an object file, without optimisation passes: there is nothing to remove."""
        source = f'target triple = "{self._triple}"\n{text}'
        module = llvm.parse_assembly(source, llvm.create_context())
        module.data_layout = str(self._machine.target_data)
        return bytes(self._machine.emit_object(module))

    def load(self, code: bytes) -> tuple[object, Callable[..., None]]:
        """Link an object file into the process; return its library and its function `run`.

        The function is valid as long as the library exists.
        """
        builder = llvm.JITLibraryBuilder().add_object_img(code)
        builder = builder.add_current_process().export_symbol("run")
        for name, address in _libm().items():
            builder.import_symbol(f"gough_{name}", address)
        library = builder.link(self._linker, f"kernel{next(self._numbers)}")
        prototype = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 4)  # releases the GIL
        return library, prototype(library["run"])


_lock = threading.Lock()
_only: list[Compiler] = []


def compiler() -> Compiler:
    """The compiler of this process; one only, because loaded code dies with its linker."""
    with _lock:
        if not _only:
            _only.append(Compiler())
        return _only[0]


@cache
def _libm() -> dict[str, int]:
    """Return the addresses of the mathematical functions of the C library by name.

    Windows has some of them only with an underscore before the name.
    """
    library = ctypes.CDLL("ucrtbase" if sys.platform == "win32" else None)
    addresses: dict[str, int] = {}
    for name in LIBRARY:
        function = getattr(library, name, None) or getattr(library, f"_{name}")
        addresses[name] = int(ctypes.cast(function, ctypes.c_void_p).value or 0)
    return addresses


@dataclass(frozen=True)
class Signature:
    """What a kernel needs beside its object code; stored on disk for graphs that have a key."""

    name: str  # of the graph
    input_shapes: tuple[tuple[int, int], ...]  # rows and columns of each input
    # rows and columns of each output
    output_shapes: tuple[tuple[int, int], ...]
    operations: int  # scalar operations per sample
    key: str  # under which the object code is stored

    def to_bytes(self) -> bytes:
        """Return the signature as it is stored."""
        return json.dumps(asdict(self)).encode()

    @classmethod
    def read(cls, entry: bytes) -> Signature:
        """Return a stored signature."""
        stored = json.loads(entry)
        for name in ("input_shapes", "output_shapes"):
            stored[name] = tuple((rows, columns) for rows, columns in stored[name])
        return cls(**stored)


def _key(graph: str, lanes: int) -> str:
    """Return the key under which something of a graph is stored."""
    return hashlib.sha256(f"{graph} {lanes} {compiler().key}".encode()).hexdigest()


class Kernel:
    """Machine code of a CasADi SX function without free variables, for many samples at once.

    Arrays are row-major and have the samples first, whatever CasADi
    does inside: an input or output of `rows` x `cols` is (t, rows,
    cols), a column is (t, rows). Sparse ones are dense here, with
    zeros. The result of a sample does not depend on its place in the
    batch, on the other samples or on the threads. Departure from
    CasADi: `fmin` and `fmax` hand a NaN on instead of dropping it.

    Attributes:
        input_shapes, output_shapes: Rows and columns of each.
        operations: Scalar operations per sample, after merging equal
            ones.
        lanes: Samples that are computed together, with the same digits
            whatever their number: by default what fits into a vector.
            One lane for samples that come one at a time takes two
            thirds of the time of a vector.
        compiled: Whether LLVM had to compile; False if the object code
            came from the disk cache.
        signature: What is known without the graph.
    """

    def __init__(self, function: casadi.Function, lanes: int | None = None) -> None:
        tape = read_tape(function)
        self.compiled = False
        self.lanes = lanes or compiler().width
        key = _key(tape.digest, self.lanes)
        code = object_cache.read(key)
        if code is None:
            with object_cache.reserved(key):  # of many processes that start together one compiles
                code = object_cache.read(key)
                if code is None:
                    self.compiled = True
                    text, rows = generate(improved(tape), self.lanes)
                    code = rows.to_bytes(8, "little") + compiler().compile(text)
                    object_cache.write(key, code)
        signature = Signature(
            name=function.name(),
            input_shapes=tape.input_shapes,
            output_shapes=tape.output_shapes,
            operations=len(tape.nodes),
            key=key,
        )
        self._load(signature, code, lambda: function)

    @classmethod
    def stored(
        cls, build: Callable[[], casadi.Function], lanes: int | None, graph_key: str
    ) -> Kernel:
        """Return the kernel of a graph that is built only if its code is not on disk.

        Args:
            build: Returns the graph.
            lanes: As of the kernel.
            graph_key: Text that is the same for two graphs only if they
                are equal.
        """
        width = lanes or compiler().width
        key = _key(graph_key, width)
        entry = object_cache.read(key)
        signature = None if entry is None else Signature.read(entry)
        code = None if signature is None else object_cache.read(signature.key)
        if signature is None or code is None:
            kernel = cls(build(), lanes)
            object_cache.write(key, kernel.signature.to_bytes())
            return kernel
        kernel = cls.__new__(cls)
        kernel.compiled = False
        kernel.lanes = width
        kernel._load(signature, code, build)
        return kernel

    def _load(
        self, signature: Signature, code: bytes, build: Callable[[], casadi.Function]
    ) -> None:
        """Link object code, with the number of rows of its scratch block before it."""
        self.signature = signature
        self.name = signature.name
        self.input_shapes = signature.input_shapes
        self.output_shapes = signature.output_shapes
        self.operations = signature.operations
        self._build = build
        self._rows = int.from_bytes(code[:8], "little")
        self._library, self._run = compiler().load(code[8:])
        # Scratch blocks that are not in use; pop and append are atomic.
        self._scratch: list[tuple[int, FloatArray]] = []
        self._inner = [_sample_shape(shape) for shape in self.input_shapes]
        self._outer = [_sample_shape(shape) for shape in self.output_shapes]
        self._sizes = tuple(rows * columns for rows, columns in self.input_shapes)

    @cached_property
    def function(self) -> casadi.Function:
        """The graph."""
        return self._build()

    def __reduce__(self) -> tuple[Any, ...]:
        return Kernel, (self.function, self.lanes)

    def __repr__(self) -> str:
        return f"Kernel('{self.name}', inputs {self.input_shapes}, outputs {self.output_shapes})"

    def __call__(self, *inputs: ArrayLike, threads: int | None = None) -> tuple[FloatArray, ...]:
        """Evaluate all samples; return one array per output.

        Inputs are (t, rows, cols), or (t, rows) for a column; without
        the sample axis, one value shared by all samples (t = 1 if all
        are shared). `threads` limits the number of threads; by default
        all cores are used.
        """
        arrays, strides, t = self._checked_inputs(inputs)
        results = tuple([np.empty((t, *shape)) for shape in self._outer])
        if t == 0:
            return results
        # The table of pointers; it, arrays and results are kept here
        # until all threads are done.
        table = np.array(
            [*map(_address, arrays), *strides, *map(_address, results)],
            dtype=np.int64,
        )
        call = _address(table)
        limit = _cores() if threads is None else max(1, threads)
        if limit == 1 or t <= 2 * self.lanes or t * self.operations < _THREADING_WORTH:
            self._span(call, 0, t)
        else:
            share = -(-t // (limit * _SHARES * self.lanes)) * self.lanes
            _in_threads(
                limit,
                lambda start: self._span(call, start, min(start + share, t)),
                range(0, t, share),
            )
        return results

    def bind(self, inputs: Sequence[FloatArray], outputs: Sequence[FloatArray]) -> BoundKernel:
        """Return a function of start and stop that evaluates samples of given arrays.

        Samples run in order on one thread, `lanes` of them together. So
        an output may be the memory of an input, and a group of lanes
        finds there what the groups before it wrote: a loop over time
        without a loop in Python. All arrays are contiguous, and must
        outlive the function.
        """
        arrays, strides, _ = self._checked_inputs(tuple(inputs))
        for given, used in zip((*inputs, *outputs), (*arrays, *outputs)):
            if given is not used or not given.flags.c_contiguous or given.dtype != np.float64:
                raise InvalidInput(
                    f"kernel '{self.name}' can only be bound to contiguous arrays of doubles"
                )
        for given, shape in zip(outputs, self._outer):
            if given.shape[1:] != shape:
                raise InvalidInput(
                    f"kernel '{self.name}' writes samples of shape {shape}, not {given.shape[1:]}"
                )
        table = np.array(
            [*map(_address, arrays), *strides, *map(_address, outputs)],
            dtype=np.int64,
        )
        block, memory = self._new_scratch()
        return BoundKernel(
            kernel=self,
            run=self._run,
            table=_address(table),
            block=block,
            kept=(table, memory, arrays, outputs),
        )

    def _new_scratch(self) -> tuple[int, FloatArray]:
        """Return an aligned address and the memory behind it, zero for structural zeros."""
        memory = np.zeros(self._rows * self.lanes + 8)
        return -(-_address(memory) // 64) * 64, memory

    def _span(self, table: int, start: int, stop: int) -> None:
        """Run samples start to stop with a scratch block that no other thread uses."""
        try:
            block, memory = self._scratch.pop()
        except IndexError:
            block, memory = self._new_scratch()
        self._run(table, block, start, stop)
        self._scratch.append((block, memory))

    def _checked_inputs(
        self, inputs: tuple[ArrayLike, ...]
    ) -> tuple[list[NDArray[np.float64]], list[int], int]:
        """Return the inputs as arrays, their strides in doubles (0: shared), and t."""
        if len(inputs) != len(self._inner):
            raise InvalidInput(
                f"kernel '{self.name}' got {len(inputs)} inputs, expected {len(self._inner)} "
                f"of shapes {self.input_shapes}",
                given=len(inputs),
                expected=len(self._inner),
            )
        t: int | None = None
        arrays: list[NDArray[np.float64]] = []
        strides: list[int] = []
        for i, given in enumerate(inputs):
            x = np.asarray(given, dtype=np.float64)
            inner = self._inner[i]
            if x.shape == inner:
                arrays.append(np.ascontiguousarray(x))
                strides.append(0)
                continue
            if x.shape[1:] != inner or x.ndim == 0 or (t is not None and t != len(x)):
                batch = ", ".join(["t" if t is None else str(t), *map(str, inner)])
                raise InvalidInput(
                    f"input {i} ('{self.function.name_in(i)}') of kernel '{self.name}' has shape "
                    f"{x.shape}, expected ({batch}), or {inner} if all samples share it",
                    input=i,
                    shape=x.shape,
                    expected=inner,
                    samples=t,
                )
            t = len(x)
            if x.flags.c_contiguous:
                strides.append(self._sizes[i])
            else:  # a view needs no copy as long as the doubles of each sample are adjacent
                adjacent = (
                    x.flags.aligned
                    and x.strides[-1] == 8
                    and (x.ndim == 2 or x.strides[1] == 8 * inner[1])
                )
                x = x if adjacent else np.ascontiguousarray(x)
                strides.append(x.strides[0] // 8)
            arrays.append(x)
        return arrays, strides, 1 if t is None else t


@dataclass(frozen=True, kw_only=True, eq=False)
class BoundKernel:
    """A kernel with its arrays, see `Kernel.bind`: a function of start and stop."""

    kernel: Kernel  # the kernel
    run: Callable[..., None]  # its machine code
    table: int  # address of the table of its arrays
    block: int  # address of its scratch memory
    kept: tuple[Any, ...]  # what must live as long as the addresses

    def __call__(self, start: int, stop: int) -> None:
        """Evaluate samples start to stop."""
        self.run(self.table, self.block, start, stop)


def run_in_turns(first: BoundKernel, second: BoundKernel, n: int, step: int, stop: int) -> None:
    """Evaluate n samples of one kernel, then `step` of another one, from 0 in steps to stop.

    The loop runs as machine code: from Python a pair of calls takes two
    microseconds.
    """
    calls = []
    for bound, samples in ((first, n), (second, step)):
        code = ctypes.cast(cast(Any, bound.run), ctypes.c_void_p).value
        calls += [code, bound.table, bound.block, samples]
    table = np.array(calls, dtype=np.int64)
    _turns()(_address(table), step, 0, stop)


@cache
def _turns() -> Callable[..., None]:
    """Return the machine code of `run_in_turns`."""
    lines = [
        "define void @run(ptr %calls, i64 %step, i64 %start, i64 %stop) {",
        "entry:",
    ]
    for i in range(8):
        lines.append(f"  %p{i} = getelementptr i64, ptr %calls, i64 {i}")
        lines.append(f"  %x{i} = load {'ptr' if i % 4 == 0 else 'i64'}, ptr %p{i}")
    lines += [
        "  br label %head",
        "head:",
        "  %row = phi i64 [ %start, %entry ], [ %next, %turn ]",
        "  %more = icmp slt i64 %row, %stop",
        "  br i1 %more, label %turn, label %done",
        "turn:",
        "  %next = add i64 %row, %step",
        "  %end0 = add i64 %row, %x3",
        "  call void %x0(i64 %x1, i64 %x2, i64 %row, i64 %end0)",
        "  %end1 = add i64 %row, %x7",
        "  call void %x4(i64 %x5, i64 %x6, i64 %row, i64 %end1)",
        "  br label %head",
        "done:",
        "  ret void",
        "}",
    ]
    library, run = compiler().load(compiler().compile("\n".join(lines)))
    vars(run)["kept"] = library
    return run


def _sample_shape(shape: tuple[int, int]) -> tuple[int, ...]:
    """Return the shape of one sample: a column is one-dimensional."""
    return shape[:1] if shape[1] == 1 else shape


def numerical_libraries() -> str:
    """Return the versions of the libraries on which the last digits of results depend."""
    libraries = (casadi, llvmlite, np, scipy)
    versions = [f"{library.__name__} {library.__version__}" for library in libraries]
    return ", ".join(versions)


def compiled(
    build: Callable[Concatenate[T, P], casadi.Function],
) -> Callable[Concatenate[T, P], Kernel]:
    """Decorate a function that builds a graph so that it returns the compiled kernel.

    Kernels are kept in `kernels` of the first argument, one for each
    set of the other arguments. An argument `lanes` is that of the
    kernel.

    If the first argument has a `graph_key` that is not empty, a text
    that names everything in it that graphs depend on, a graph is built
    only if its code is not on disk.
    """

    @wraps(build)
    def kernel(owner: T, /, *args: P.args, **kwargs: P.kwargs) -> Kernel:
        """Return the kernel of the graph."""
        kernels: dict[Any, Kernel] = vars(owner).setdefault("kernels", {})
        key = (build.__qualname__, args, tuple(kwargs.items()))
        if key not in kernels:
            lanes = cast(Any, kwargs).get("lanes")
            graph_key = getattr(owner, "graph_key", "")
            if graph_key:
                build_graph = partial(build, owner, *args, **kwargs)
                kernels[key] = Kernel.stored(build_graph, lanes, f"{graph_key} {key}")
            else:
                kernels[key] = Kernel(build(owner, *args, **kwargs), lanes)
        return kernels[key]

    return kernel


def _address(array: NDArray[Any]) -> int:
    """Return the address of the first double.

    The buffer protocol is four times as fast, but only works for
    contiguous arrays that own memory.
    """
    flags = array.flags
    if flags.owndata and flags.carray and array.size:
        return addressof(c_char.from_buffer(array.data))
    return int(array.__array_interface__["data"][0])


@cache
def _cores() -> int:
    given = os.environ.get("GOUGH_THREADS", "")  # set where several processes share a machine
    if given.isdecimal() and int(given) > 0:
        return int(given)
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max_workers=_cores(), thread_name_prefix="gough-kernel")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)  # threads do not survive a fork


def _in_threads(limit: int, run: Callable[[int], None], starts: range) -> None:
    """Run all chunks on at most `limit` threads, this one among them."""
    pending = iter(starts)

    def work() -> None:
        """Run chunks until none is pending."""
        for start in pending:  # a chunk taken by one thread is not seen by the others
            run(start)

    helpers = [_pool().submit(work) for _ in range(min(limit, len(starts)) - 1)]
    work()
    wait([helper for helper in helpers if not helper.cancel()])
