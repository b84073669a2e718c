"""C source of graphs: compiled with a C compiler and compared with CasADi's own evaluation."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from pathlib import Path

import casadi as ca
import numpy as np
import pytest
from graphs import BINARY, UNARY

from gough.kernels.c_source import c_function
from gough.kernels.tape import NAMES, OPERATIONS, UnsupportedOperation

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")


def compiled(folder: Path, function: ca.Function) -> ctypes.CDLL:
    """Compile a function of one input and one output, without a warning, as `run`."""
    call = (
        "void run(const double *x, double *y);\nvoid run(const double *x, double *y) { graph(x, "
        "y); }\n"
    )
    (folder / "graph.c").write_text("#include <math.h>\n" + c_function(function, "graph") + call)
    command = [
        "gcc",
        "-std=c99",
        "-pedantic",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-O1",
        "-shared",
        "-fPIC",
        "graph.c",
        "-o",
        "graph.so",
        "-lm",
    ]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    return ctypes.CDLL(str(folder / "graph.so"))


def evaluate(library: ctypes.CDLL, x: np.ndarray, size: int) -> np.ndarray:
    pointer = ctypes.POINTER(ctypes.c_double)
    x, y = np.ascontiguousarray(x, dtype=float), np.full(size, 7.0)
    library.run(x.ctypes.data_as(pointer), y.ctypes.data_as(pointer))
    return y


def test_every_operation_equals_casadi(tmp_path) -> None:
    x = ca.SX.sym("x", 2)
    graph = ca.vertcat(
        *[make(x[0]) for make in UNARY.values()], *[make(x[0], x[1]) for make in BINARY.values()]
    )
    function = ca.Function("all", [x], [graph])
    used = {function.instruction_id(k) for k in range(function.n_instructions())}
    assert {NAMES[code] for code in OPERATIONS} - {NAMES[code] for code in used} == set()
    library = compiled(tmp_path, function)
    rng = np.random.default_rng(2)
    for sample in [
        *rng.normal(size=(30, 2)) * 3,
        (0.0, 0.0),
        (1.0, 0.0),
        (0.0, 1.0),
        (2.0, 2.0),
        (-1.0, -0.5),
    ]:
        expected = np.array(function(sample)).ravel()
        np.testing.assert_allclose(
            evaluate(library, np.array(sample), len(expected)), expected, rtol=4e-15, atol=4e-15
        )


def test_matrices_are_row_major_and_zeros_are_written(tmp_path) -> None:
    x = ca.SX.sym("x", 2, 3)
    y = ca.SX(3, 2)
    y[0, 1], y[2, 0] = x[0, 2], x[1, 0]
    values = np.arange(1.0, 7.0).reshape(2, 3)
    result = evaluate(compiled(tmp_path, ca.Function("turn", [x], [y])), values, 6).reshape(3, 2)
    np.testing.assert_array_equal(result, [[0, values[0, 2]], [0, 0], [values[1, 0], 0]])


def test_constants_are_exact(tmp_path) -> None:
    values = [np.inf, -np.inf, 0.0, -0.0, 5e-324, -1 / 3, np.pi, 1e22, 1.7976931348623157e308]
    x = ca.SX.sym("x", len(values))
    function = ca.Function("constants", [x], [ca.SX(ca.DM(values)) + 0 * x])
    np.testing.assert_array_equal(
        evaluate(compiled(tmp_path, function), np.ones(len(values)), len(values)), values
    )


def test_an_operation_without_c_form_is_refused() -> None:
    x = ca.SX.sym("x")
    with pytest.raises(UnsupportedOperation, match="'erfinv'"):
        c_function(ca.Function("odd", [x], [ca.erfinv(x)]), "odd")
