"""LLVM as compiler and linker of kernels, for the processor we run on."""

from __future__ import annotations

import ctypes
import hashlib
import sys
import threading
from collections.abc import Callable
from functools import cache
from itertools import count
from pathlib import Path

import llvmlite
from llvmlite import binding as llvm

from gough.kernels.operations import LIBRARY


class Compiler:
    """Turns IR into object code and object code into functions; safe in threads, as llvmlite locks each call.

    Attributes:
        width: Samples per vector instruction: eight with AVX-512, else four.
        key: Everything but the IR that the object code depends on.
    """

    def __init__(self) -> None:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        self._triple = llvm.get_process_triple()
        features = llvm.get_host_cpu_features()
        self._cpu, self._features = llvm.get_host_cpu_name(), features.flatten()
        self.width = 8 if features.get("avx512f") else 4
        version = ".".join(map(str, llvm.llvm_version_info))
        files = sorted(Path(__file__).parent.glob("*.py"))  # no edit of the code generator may meet old object code
        generator = hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()
        self.key = f"{self._triple} {self._cpu} {self._features} {llvmlite.__version__} {version} {generator}"
        self._machine = self._create_machine()
        self._linker = llvm.create_lljit_compiler(self._create_machine())  # takes possession of its machine
        self._numbers = count()

    def _create_machine(self) -> llvm.TargetMachine:
        # Level 1: the same speed as 2 and 3 on straight-line code, half the compile time.
        target = llvm.Target.from_triple(self._triple)
        return target.create_target_machine(cpu=self._cpu, features=self._features, opt=1, reloc="pic",
                                            codemodel="small", jit=True)

    def compile(self, text: str) -> bytes:
        """Turn IR into an object file. No optimisation passes: the tape holds nothing they could remove."""
        module = llvm.parse_assembly(f'target triple = "{self._triple}"\n{text}', llvm.create_context())
        module.data_layout = str(self._machine.target_data)
        return bytes(self._machine.emit_object(module))

    def load(self, code: bytes) -> tuple[object, Callable[..., None]]:
        """Link an object file into the process; its `run` lives as long as the first return value."""
        builder = llvm.JITLibraryBuilder().add_object_img(code).add_current_process().export_symbol("run")
        for name, address in _libm().items():
            builder.import_symbol(f"gough_{name}", address)
        library = builder.link(self._linker, f"kernel{next(self._numbers)}")
        word = ctypes.c_int64
        prototype = ctypes.CFUNCTYPE(None, word, word, word, word, word, word)  # releases the GIL
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
    """Addresses of the mathematical functions of the C library; Windows has some with an underscore only."""
    library = ctypes.CDLL("ucrtbase" if sys.platform == "win32" else None)
    found = {name: getattr(library, name, None) or getattr(library, f"_{name}") for name in LIBRARY}
    return {name: int(ctypes.cast(symbol, ctypes.c_void_p).value or 0) for name, symbol in found.items()}
