"""Batch kernels: a CasADi SX function as machine code over many samples."""

from __future__ import annotations

import ctypes
import hashlib
import os
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

import casadi
import llvmlite
import numpy as np
from llvmlite import binding as llvm
from numpy.typing import ArrayLike, NDArray

from gough.arrays import FloatArray
from gough.engine import cache as object_cache
from gough.engine import codegen, tape, vectormath
from gough.errors import InvalidInput

_THREADING_WORTH = 2_000_000  # operations x samples below which a second thread costs more than it saves
_SHARES = 4  # chunks per thread, so that a disturbed core does not hold up the others


class Kernel:
    """Machine code of a CasADi SX function, evaluated over many samples at once.

    Arrays are row-major and have the samples first, whatever CasADi does inside: an input or output of
    `rows` x `cols` is (t, rows, cols), a column is (t, rows). Sparse ones are dense here, with zeros.
    A sample's result does not depend on its place in the batch, on the other samples or on the threads; where
    CasADi would let fmin and fmax drop a NaN, these hand it on.

    Args:
        function: Built from SX symbols, without free variables.

    Attributes:
        name: Name of the function.
        input_shapes: Rows and columns of each input.
        output_shapes: Rows and columns of each output.
        operations: Scalar operations per sample, after merging equal ones.
        compiled: Whether this object had to be compiled; False if the code came from the disk cache.

    Raises:
        InvalidInput: Not an SX function, or free variables.
        UnsupportedOperation: An operation that has no machine code.
    """

    def __init__(self, function: casadi.Function) -> None:
        graph = tape.read_tape(function)
        self.name: str = function.name()
        self.input_shapes = graph.input_shapes
        self.output_shapes = graph.output_shapes
        self.operations = len(graph.nodes)
        self._function = function
        target = _target()
        key = hashlib.sha256(f"{graph.digest} {target.key}".encode()).hexdigest()
        stored = object_cache.read(key)
        self.compiled = stored is None
        if stored is None:
            program = codegen.generate(graph, target.width)
            code = program.rows.to_bytes(8, "little") + target.compile(program.text)
            object_cache.write(key, code)
        else:
            code = stored
        self._rows = int.from_bytes(code[:8], "little")
        self._library, self._run = target.load(code[8:])
        self._width = target.width
        self._scratch: list[FloatArray] = []  # blocks not in use; list.pop and append are atomic
        self._sizes = tuple(rows * columns for rows, columns in self.input_shapes)
        self._dimensions = tuple(1 if columns == 1 else 2 for _, columns in self.input_shapes)
        self._results = tuple((rows,) if columns == 1 else (rows, columns) for rows, columns in self.output_shapes)

    def __reduce__(self) -> tuple[Any, ...]:
        return Kernel, (self._function,)

    def __repr__(self) -> str:
        return f"Kernel('{self.name}', inputs {self.input_shapes}, outputs {self.output_shapes})"

    def __call__(self, *inputs: ArrayLike, out: Sequence[NDArray[np.float64]] | None = None,
                 samples: int | None = None, threads: int | None = None) -> tuple[FloatArray, ...]:
        """Evaluate all samples.

        Args:
            *inputs: Each (t, rows, cols), or (t, rows) for a column; without the sample axis, one value
                shared by all samples.
            out: Arrays to write into instead of new ones, C-contiguous, shaped like the result; they must not
                overlap the inputs.
            samples: t, where it cannot be seen because all inputs are shared; 1 if not given.
            threads: At most this many threads; all cores if not given.

        Returns:
            One array per output, (t, rows, cols), or (t, rows) for a column.

        Raises:
            InvalidInput: Number or shape of the arrays.
        """
        arrays, strides, t = self._inputs(inputs, samples)
        if out is None:
            results = tuple([np.empty((t, *shape)) for shape in self._results])
        else:
            results = self._checked_out(out, arrays, t)
        if t == 0:
            return results
        tables = np.array(
            [*(a.__array_interface__["data"][0] for a in arrays), *strides,
             *(a.__array_interface__["data"][0] for a in results)], dtype=np.int64)
        table = tables.__array_interface__["data"][0]
        limit = _cores() if threads is None else max(1, threads)
        if limit == 1 or t <= 2 * self._width or t * self.operations < _THREADING_WORTH:
            self._span(table, 0, t)
        else:
            share = -(-t // (limit * _SHARES * self._width)) * self._width
            _in_threads(limit, lambda start: self._span(table, start, min(start + share, t)), range(0, t, share))
        return results

    def _span(self, table: int, start: int, stop: int) -> None:
        """Run samples start to stop with a scratch block of our own."""
        try:
            scratch = self._scratch.pop()
        except IndexError:
            scratch = np.zeros(self._rows * self._width + 8)
        n = 8 * len(self._sizes)
        block = -(-scratch.__array_interface__["data"][0] // 64) * 64
        self._run(table, table + n, table + 2 * n, start, stop, block)
        self._scratch.append(scratch)

    def _inputs(self, inputs: tuple[ArrayLike, ...],
                samples: int | None) -> tuple[list[NDArray[np.float64]], list[int], int]:
        """Bring the inputs into shape; return them, the doubles from sample to sample (0: shared) and t."""
        if len(inputs) != len(self._sizes):
            raise InvalidInput(f"kernel '{self.name}' got {len(inputs)} inputs, expected {len(self._sizes)} "
                               f"of shapes {self.input_shapes}", given=len(inputs), expected=len(self._sizes))
        arrays: list[NDArray[np.float64]] = []
        strides: list[int] = []
        t = samples
        for i, given in enumerate(inputs):
            x = np.asarray(given, dtype=np.float64)
            dimensions, shape = self._dimensions[i], self.input_shapes[i]
            if x.shape[-dimensions:] != shape[:dimensions] or x.ndim not in (dimensions, dimensions + 1):
                raise self._wrong_shape(i, x, t)
            if x.ndim == dimensions:
                arrays.append(np.ascontiguousarray(x))
                strides.append(0)
                continue
            if t is None:
                t = len(x)
            elif t != len(x):
                raise self._wrong_shape(i, x, t)
            if x.flags.c_contiguous:
                strides.append(self._sizes[i])
            else:  # a view of some columns needs no copy as long as the doubles of a sample are adjacent
                dense = x.flags.aligned and x.strides[-1] == 8 and (
                    dimensions == 1 or x.strides[1] == 8 * shape[1])
                x = x if dense else np.ascontiguousarray(x)
                strides.append(x.strides[0] // 8)
            arrays.append(x)
        return arrays, strides, 1 if t is None else t

    def _wrong_shape(self, i: int, x: NDArray[Any], t: int | None) -> InvalidInput:
        shape = self.input_shapes[i][:self._dimensions[i]]
        batch = ("t" if t is None else str(t), *map(str, shape))
        return InvalidInput(
            f"input {i} ('{self._function.name_in(i)}') of kernel '{self.name}' has shape {x.shape}, "
            f"expected ({', '.join(batch)}), or {shape} if all samples share it",
            input=i, shape=x.shape, expected=shape, samples=t)

    def _checked_out(self, out: Sequence[NDArray[np.float64]], arrays: list[NDArray[np.float64]],
                     t: int) -> tuple[FloatArray, ...]:
        if len(out) != len(self._results):
            raise InvalidInput(f"kernel '{self.name}' got {len(out)} arrays in out, expected {len(self._results)}",
                               given=len(out), expected=len(self._results))
        for i, (array, shape) in enumerate(zip(out, self._results)):
            wanted = (t, *shape)
            if array.shape != wanted or array.dtype != np.float64:
                raise InvalidInput(f"out[{i}] of kernel '{self.name}' is {array.dtype} {array.shape}, "
                                   f"expected float64 {wanted}", shape=array.shape, expected=wanted)
            if not (array.flags.c_contiguous and array.flags.writeable and array.flags.aligned):
                raise InvalidInput(f"out[{i}] of kernel '{self.name}' must be C-contiguous and writeable; "
                                   "pass a fresh array such as numpy.empty", output=i)
            if any(np.may_share_memory(array, x) for x in arrays):
                raise InvalidInput(f"out[{i}] of kernel '{self.name}' overlaps an input; pass another array",
                                   output=i)
        return tuple(out)


class _Target:
    """The machine we run on: vector width, compiler and loader."""

    def __init__(self) -> None:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        self._lock = threading.Lock()  # LLVM's global context is not made for parallel compilation
        self._triple = llvm.get_process_triple()
        cpu = llvm.get_host_cpu_name()
        features = llvm.get_host_cpu_features()
        flags = features.flatten()
        self.width = 8 if features.get("avx512f") else 4

        def machine() -> llvm.TargetMachine:
            target = llvm.Target.from_triple(self._triple)
            return target.create_target_machine(cpu=cpu, features=flags, opt=2, reloc="pic", codemodel="small",
                                                jit=True)

        self._machine = machine()
        self._linker = llvm.create_lljit_compiler(machine())
        self._libraries = count()
        version = ".".join(map(str, llvm.llvm_version_info))
        self.key = f"{self._triple} {cpu} {flags} {self.width} {llvmlite.__version__} {version} {_source_digest()}"

    def compile(self, text: str) -> bytes:
        """Turn IR into an object file. No optimisation passes: the tape holds nothing they could remove."""
        with self._lock:
            module = llvm.parse_assembly(f'target triple = "{self._triple}"\n{text}')
            module.data_layout = str(self._machine.target_data)
            return bytes(self._machine.emit_object(module))

    def load(self, code: bytes) -> tuple[object, Callable[..., None]]:
        """Link an object file into the process; the function lives as long as the first return value."""
        builder = llvm.JITLibraryBuilder().add_object_img(code).add_current_process().export_symbol("run")
        for name, address in _libm().items():
            builder.import_symbol(f"gough_{name}", address)
        with self._lock:
            library = builder.link(self._linker, f"kernel{next(self._libraries)}")
        word = ctypes.c_int64
        prototype = ctypes.CFUNCTYPE(None, word, word, word, word, word, word)
        return library, prototype(library["run"])


@cache
def _target() -> _Target:
    return _Target()


def _source_digest() -> str:
    """Hash of the code generator itself, so that no edit of it can meet old object code."""
    digest = hashlib.sha256()
    for module in (codegen, vectormath):
        digest.update(Path(str(module.__file__)).read_bytes())
    return digest.hexdigest()


@cache
def _libm() -> dict[str, int]:
    """Addresses of the mathematical functions of the C library."""
    library = ctypes.CDLL("ucrtbase" if sys.platform == "win32" else None)
    return {
        name: int(ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0)
        for name in (*codegen.LIBM_UNARY, *codegen.LIBM_BINARY)
    }


@cache
def _cores() -> int:
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
        for start in pending:  # a range iterator hands out each start once
            run(start)

    helpers = [_pool().submit(work) for _ in range(min(limit, len(starts)) - 1)]
    work()
    wait(helpers)
    for helper in helpers:
        helper.result()
