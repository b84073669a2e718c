"""Batch kernels against CasADi's own evaluation, and against exact arithmetic for sine and
cosine.
"""

from __future__ import annotations

import os
import pickle
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal, localcontext
from math import ulp

import casadi as ca
import numpy as np
import pytest
from graphs import BINARY, UNARY
from hypothesis import given, settings, strategies as st

from gough.core.errors import GoughError, InvalidInput
from gough.kernels import cache, codegen
from gough.kernels.kernel import Kernel, compiler, run_in_turns
from gough.kernels.tape import UnsupportedOperation, read_tape

RNG_SEED = 20240607


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    directory = tmp_path / "cache"
    monkeypatch.setenv("GOUGH_CACHE_DIR", str(directory))
    return directory


@pytest.fixture
def rng():
    return np.random.default_rng(RNG_SEED)


def reference(function, *inputs):
    """CasADi's virtual machine, sample by sample; every input has the sample axis."""
    rows = [function.call([ca.DM(np.asarray(x[k])) for x in inputs]) for k in range(len(inputs[0]))]
    results = []
    for i in range(function.n_out()):
        shape = function.size_out(i)
        shape = shape[:1] if shape[1] == 1 else shape
        results.append(np.array([np.array(row[i].full()).reshape(shape) for row in rows]))
    return results


def close(a, b, tolerance=1e-12):
    np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


def small_function():
    x, A = ca.SX.sym("x", 3), ca.SX.sym("A", 2, 3)
    return ca.Function(
        "small",
        [x, A],
        [A @ ca.sin(x) + ca.cos(x[0]), A.T * x[1], ca.sqrt(ca.sumsqr(x))],
        ["x", "A"],
        ["y", "B", "norm"],
    )


@pytest.mark.parametrize("name", sorted(UNARY))
def test_one_operand_operations_equal_casadi(name, rng):
    x = ca.SX.sym("x", 5)
    function = ca.Function(name, [x], [UNARY[name](x)])
    values = np.concatenate([rng.normal(size=(20, 5)) * 3, [[0.0, -0.0, 1.0, -1.0, 0.5]]])
    close(Kernel(function)(values)[0], reference(function, values)[0], 4e-15)


@pytest.mark.parametrize("name", sorted(BINARY))
def test_two_operand_operations_equal_casadi(name, rng):
    x, y = ca.SX.sym("x", 5), ca.SX.sym("y", 5)
    function = ca.Function(name, [x, y], [BINARY[name](x, y)])
    a = np.concatenate([rng.normal(size=(20, 5)) * 3, [[0.0, 1.0, 0.0, 2.0, -1.0]]])
    b = np.concatenate([rng.normal(size=(20, 5)) * 3, [[0.0, 0.0, 1.0, 2.0, -1.0]]])
    close(Kernel(function)(a, b)[0], reference(function, a, b)[0], 4e-15)


# Rounding differs between the two evaluations, so the operations that jump only see inputs, never
# computed values.
JUMPS = (
    "sign",
    "floor",
    "ceil",
    "not",
    "lt",
    "le",
    "eq",
    "ne",
    "and",
    "or",
    "if",
    "if_else",
    "fmod",
    "remainder",
    "copysign",
)
STEP = st.tuples(
    st.sampled_from(sorted({**UNARY, **BINARY})), st.integers(0, 10**6), st.integers(0, 10**6)
)


@settings(max_examples=40, deadline=None)
@given(
    steps=st.lists(STEP, min_size=1, max_size=60),
    samples=st.integers(1, 19),
    part=st.sampled_from([1, 7, 500]),
    width=st.sampled_from([1, 2, 4, 8]),
    seed=st.integers(0, 2**32 - 1),
)
def test_random_graphs_equal_casadi(steps, samples, part, width, seed):
    x, A = ca.SX.sym("x", 4), ca.SX.sym("A", 2, 3)
    values = [*ca.vertsplit(x), *ca.vertsplit(ca.vec(A)), ca.SX(0.75), ca.SX(-1.25)]
    leaves = list(values)
    for name, i, j in steps:
        pool = leaves if name in JUMPS else values
        a, b = pool[i % len(pool)], pool[j % len(pool)]
        raw = UNARY[name](a) if name in UNARY else BINARY[name](a, b)
        values.append(2 * raw / (1 + ca.fabs(raw)))  # keeps everything between -2 and 2
    some = [values[(7 * k) % len(values)] for k in range(5)]
    function = ca.Function(
        "random",
        [x, A],
        [
            ca.vertcat(*values[len(leaves) :]),
            ca.horzcat(ca.vertcat(*some), ca.vertcat(*some[::-1])),
        ],
    )
    rng = np.random.default_rng(seed)
    inputs = rng.uniform(-2, 2, (samples, 4)), rng.uniform(-2, 2, (samples, 2, 3))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GOUGH_CACHE_DIR", os.devnull)
        patch.setattr(codegen, "PART_LENGTH", part)
        patch.setattr(compiler(), "width", width)
        results = Kernel(function)(*inputs)
    for ours, theirs in zip(results, reference(function, *inputs)):
        close(ours, theirs, 1e-9)


def test_one_lane_and_many_give_the_same_digits_and_those_of_casadi(rng):
    """Rows divided by their pivots, sines of sines, and multiplications that fuse with
    additions.
    """
    A, x = ca.SX.sym("A", 6, 6), ca.SX.sym("x", 6)
    turned = ca.sin(A @ ca.cos(x)) / (2 + ca.sin(x[0]))
    function = ca.Function(
        "solve", [A, x], [ca.solve(A @ A.T + 6 * ca.SX.eye(6), turned), ca.cos(turned)]
    )
    inputs = rng.normal(size=(21, 6, 6)), rng.normal(size=(21, 6))
    alone, many = Kernel(function, 1), Kernel(function)
    assert (alone.lanes, pickle.loads(pickle.dumps(alone)).lanes) == (1, 1)
    for one, other, theirs in zip(alone(*inputs), many(*inputs), reference(function, *inputs)):
        np.testing.assert_array_equal(one, other)
        close(one, theirs, 1e-13)


@pytest.mark.parametrize("divisor", [0.0, -0.0, np.inf, np.nan, 1e-300, -3.0])
def test_quotients_of_one_divisor_are_those_of_casadi(divisor):
    x, y = ca.SX.sym("x", 6), ca.SX.sym("y")
    function = ca.Function("quotients", [x, y], [x / y, 1 / y])
    inputs = np.array([[1.0, -7.0, 0.0, np.inf, np.nan, 0.1]]), np.array([[divisor]])
    for ours, theirs in zip(Kernel(function)(*inputs), reference(function, *inputs)):
        np.testing.assert_allclose(ours, theirs, rtol=4e-16)
        np.testing.assert_array_equal(np.signbit(ours[ours == 0]), np.signbit(theirs[theirs == 0]))


def test_matrices_are_row_major(rng):
    A, B = ca.SX.sym("A", 2, 3), ca.SX.sym("B", 3, 4)
    kernel = Kernel(ca.Function("product", [A, B], [A @ B, A]))
    a, b = rng.normal(size=(11, 2, 3)), rng.normal(size=(11, 3, 4))
    product, same = kernel(a, b)
    assert product.shape == (11, 2, 4)
    close(product, a @ b, 1e-14)
    np.testing.assert_array_equal(same, a)


@pytest.mark.parametrize("width", [1, 2, 4, 8])
@pytest.mark.parametrize("t", [0, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 33])
def test_every_number_of_samples_and_width_works(t, width, rng, monkeypatch):
    monkeypatch.setattr(compiler(), "width", width)
    x, A = rng.normal(size=(t, 3)), rng.normal(size=(t, 2, 3))
    y, B, norm = Kernel(small_function())(x, A)
    assert (y.shape, B.shape, norm.shape) == ((t, 2), (t, 3, 2), (t, 1))
    close(y, np.einsum("tij,tj->ti", A, np.sin(x)) + np.cos(x[:, :1]), 1e-14)
    close(B, A.transpose(0, 2, 1) * x[:, 1, None, None], 1e-14)
    close(norm[:, 0], np.linalg.norm(x, axis=1), 1e-14)


@pytest.mark.parametrize("n", [1, 2, 3, 5, 7, 8, 9, 16, 23])
def test_nothing_is_written_beyond_the_outputs(n, rng, monkeypatch):
    x = ca.SX.sym("x", n)
    kernel = Kernel(ca.Function("copy", [x], [x]))
    memory = np.full(13 * n + 32, 7.0)
    values = rng.normal(size=(13, n))
    with monkeypatch.context() as patch:
        patch.setattr(np, "empty", lambda shape: memory[16:-16].reshape(shape))
        kernel(values)
    np.testing.assert_array_equal(memory[16:-16].reshape(13, n), values)
    assert (memory[:16] == 7).all()
    assert (memory[-16:] == 7).all()


def test_results_do_not_depend_on_the_place_in_the_batch(rng):
    function = small_function()
    kernel = Kernel(function)
    x, A = rng.normal(size=(50, 3)) * 100, rng.normal(size=(50, 2, 3))
    together = kernel(x, A)
    order = rng.permutation(50)
    for whole, shuffled in zip(together, kernel(x[order], A[order])):
        np.testing.assert_array_equal(whole[order], shuffled)
    for k in (0, 13, 49):
        for whole, alone in zip(together, kernel(x[k : k + 1], A[k : k + 1])):
            np.testing.assert_array_equal(whole[k], alone[0])


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e300])
def test_a_bad_sample_leaves_its_neighbours_untouched(bad, rng):
    x = ca.SX.sym("x", 4)
    smooth = ca.vertcat(
        *(UNARY[name](x[0]) for name in ("sin", "cos", "tanh", "atan", "sqrt", "log", "exp")),
        ca.fmin(x[0], 1),
        ca.fmax(1, x[0]),
        ca.sign(x[0]),
        ca.fabs(x[0]),
        x[0] * x[1] + x[2] / x[3],
    )
    kernel = Kernel(ca.Function("smooth", [x], [smooth]))
    good = rng.normal(size=(37, 4))
    clean = kernel(good)[0]
    for place in (0, 3, 20, 36):
        spoilt = good.copy()
        spoilt[place, 0] = bad
        result = kernel(spoilt)[0]
        others = np.arange(37) != place
        np.testing.assert_array_equal(result[others], clean[others])
        if np.isnan(bad):
            assert np.isnan(result[place]).all()


def test_shared_inputs_equal_repeated_ones(rng):
    kernel = Kernel(small_function())
    x, A = rng.normal(size=(21, 3)), rng.normal(size=(2, 3))
    for shared, repeated in zip(kernel(x, A), kernel(x, np.repeat(A[None], 21, axis=0))):
        np.testing.assert_array_equal(shared, repeated)
    assert kernel(x[0], A)[0].shape == (1, 2)


def test_views_equal_copies(rng):
    kernel = Kernel(small_function())
    wide, tall = rng.normal(size=(40, 7)), rng.normal(size=(20, 4, 3))
    views = [
        (wide[::2, 2:5], tall[:, 1:3]),
        (wide[::-2, :3], tall[::-1, ::2]),
        (np.asfortranarray(wide[:20, :3]), tall.transpose(0, 2, 1)[:, :2, :3]),
        (np.broadcast_to(wide[0, :3], (20, 3)), tall[:, :2]),
        (wide[:20, :3].astype(np.float32), tall[:, :2]),
    ]
    for x, A in views:
        for ours, theirs in zip(
            kernel(x, A), kernel(np.array(x, dtype=float, order="C"), np.array(A, order="C"))
        ):
            np.testing.assert_array_equal(ours, theirs)


def test_inputs_stay_as_they_are(rng):
    x, A = rng.normal(size=(21, 3)), rng.normal(size=(21, 2, 3))
    before = x.copy(), A.copy()
    x.flags.writeable = False
    Kernel(small_function())(x, A)
    np.testing.assert_array_equal(x, before[0])
    np.testing.assert_array_equal(A, before[1])


def test_threads_do_not_change_a_bit(rng):
    x = ca.SX.sym("x", 6)
    y = x
    for _ in range(40):
        y = ca.sin(y) + ca.cos(y[[5, 0, 1, 2, 3, 4]]) * y
    kernel = Kernel(ca.Function("long", [x], [y, y @ y.T]))
    values = rng.normal(size=(6001, 6))
    alone = kernel(values, threads=1)
    for several in (kernel(values), kernel(values, threads=2), kernel(values, threads=5)):
        for a, b in zip(alone, several):
            np.testing.assert_array_equal(a, b)


def test_one_kernel_may_be_called_from_many_threads(rng):
    kernel = Kernel(small_function())
    x, A = rng.normal(size=(16, 50, 3)), rng.normal(size=(50, 2, 3))
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda values: kernel(values, A)[0], np.tile(x, (10, 1, 1))))
    for k, result in enumerate(results):
        np.testing.assert_array_equal(result, kernel(x[k % 16], A)[0])


def test_kernels_may_be_built_in_many_threads():
    x = ca.SX.sym("x", 2)
    functions = [ca.Function("f", [x], [ca.sin(x) * k]) for k in range(12)]
    with ThreadPoolExecutor(6) as pool:
        kernels = list(pool.map(Kernel, functions))
    for k, kernel in enumerate(kernels):
        np.testing.assert_array_equal(
            kernel([[0.0, 0.5]])[0], [[0.0, k * kernels[1]([[0.0, 0.5]])[0][0, 1]]]
        )


def test_sparse_inputs_and_outputs_are_dense_arrays(rng):
    A = ca.SX.sym("A", ca.Sparsity.lower(3))
    D = ca.SX.sym("D", ca.Sparsity.diag(3))
    empty = ca.SX(2, 2)
    function = ca.Function("sparse", [A, D], [A @ D, D, empty, ca.SX(0, 1)])
    a, d = rng.normal(size=(10, 3, 3)), rng.normal(size=(10, 3, 3))
    lower, diagonal = np.tril(a), d * np.eye(3)
    product, same, zeros, nothing = Kernel(function)(a, d)
    close(product, lower @ diagonal, 1e-14)
    np.testing.assert_array_equal(same, diagonal)
    np.testing.assert_array_equal(zeros, np.zeros((10, 2, 2)))
    assert nothing.shape == (10, 0)


def test_a_function_without_inputs_or_operations_works():
    kernel = Kernel(ca.Function("constant", [], [ca.SX([1.5, -2.0])]))
    np.testing.assert_array_equal(kernel()[0], [[1.5, -2.0]])
    x = ca.SX.sym("x", 2)
    (ignored,) = Kernel(ca.Function("unused", [x, ca.SX(0, 0)], [ca.SX(7)]))(
        np.zeros((9, 2)), np.zeros((9, 0, 0))
    )
    np.testing.assert_array_equal(ignored, np.full((9, 1), 7.0))


def test_constants_are_exact():
    values = [np.inf, -np.inf, 0.0, 5e-324, 1 / 3, np.pi, 1.7976931348623157e308]
    x = ca.SX.sym("x")
    (result,) = Kernel(ca.Function("constants", [x], [ca.vertcat(*map(ca.SX, values))]))(
        np.zeros((2, 1))
    )
    np.testing.assert_array_equal(result, [values, values])


def exact_sine(x, digits=50):
    """Sine and cosine of a double to many digits."""
    with localcontext() as context:
        context.prec = digits + 330 if abs(x) > 1e20 else digits + 40
        turn = Decimal(x) % (2 * PI)
        context.prec = digits
        sine = term = turn
        cosine = other = Decimal(1)
        for k in range(1, 40):
            term *= -turn * turn / (2 * k * (2 * k + 1))
            other *= -turn * turn / (2 * k * (2 * k - 1))
            sine, cosine = sine + term, cosine + other
        return sine, cosine


def machin(digits):
    with localcontext() as context:
        context.prec = digits

        def arctan_inverse(n):
            total = power = Decimal(1) / n
            k = 1
            while abs(power) > Decimal(10) ** -(digits - 2):
                power /= -n * n
                k += 2
                total += power / k
            return total

        return 4 * (4 * arctan_inverse(5) - arctan_inverse(239))


PI = machin(420)


def test_sine_and_cosine_are_within_one_and_a_half_units_in_the_last_place(rng):
    magnitude = np.exp(rng.uniform(np.log(1e-9), np.log(2**27), 600))
    quarter = rng.integers(1, 2**26, 300) * (np.pi / 2)
    near = np.concatenate([quarter, np.arange(1, 150) * (np.pi / 4)])
    values = np.concatenate(
        [magnitude, -magnitude, near, np.nextafter(near, 0), np.nextafter(near, np.inf)]
    )
    x = ca.SX.sym("x")
    sines, cosines = Kernel(ca.Function("turn", [x], [ca.sin(x), ca.cos(x)]))(values[:, None])
    for value, sine, cosine in zip(values.tolist(), sines[:, 0].tolist(), cosines[:, 0].tolist()):
        true_sine, true_cosine = exact_sine(value)
        assert abs(Decimal(sine) - true_sine) < Decimal(1.5 * ulp(sine)), value
        assert abs(Decimal(cosine) - true_cosine) < Decimal(1.5 * ulp(cosine)), value


def test_sine_and_cosine_hold_over_the_whole_range(rng):
    exponents = rng.uniform(-300, 308, 4000)
    values = np.concatenate([10**exponents, -(10**exponents), [0.0, -0.0, np.inf, np.nan]])
    x = ca.SX.sym("x")
    sines, cosines = Kernel(ca.Function("turn", [x], [ca.sin(x), ca.cos(x)]))(values[:, None])
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_max_ulp(sines[:-2, 0], np.sin(values[:-2]), 2)
        np.testing.assert_array_max_ulp(cosines[:-2, 0], np.cos(values[:-2]), 2)
    assert np.isnan(sines[-2:]).all()
    assert np.isnan(cosines[-2:]).all()


@pytest.mark.parametrize(
    ("name", "low", "high", "specials"),
    [
        (
            "exp",
            -760,
            720,
            [0.0, -0.0, np.inf, -np.inf, 709.78, 709.79, -708.5, -745.1, -745.2, 1e300, -1e300],
        ),
        ("tanh", -25, 25, [0.0, np.inf, -np.inf, 1e300, 1e-300, 5e-324, 22.4, 1e-8]),
        ("arctan", -10, 10, [0.0, np.inf, -np.inf, 1e300, 1e-300, 5e-324, 1.0, -1.0]),
        ("arcsin", -1, 1, [0.0, 1.0, -1.0, 1 - 1e-16, 1e-9, 5e-324]),
        ("arccos", -1, 1, [0.0, 1.0, -1.0, 1 - 1e-16, 1e-9, 5e-324]),
    ],
)
def test_vector_functions_are_within_four_units_in_the_last_place(name, low, high, specials, rng):
    values = np.concatenate(
        [
            rng.uniform(low, high, 5000),
            rng.uniform(low, high, 2000) * 10 ** rng.uniform(-12, 0, 2000),
            specials,
        ]
    )
    x = ca.SX.sym("x")
    (ours,) = Kernel(ca.Function(name, [x], [getattr(ca.SX, name)(x)]))(values[:, None])
    with np.errstate(over="ignore", under="ignore"):
        np.testing.assert_array_max_ulp(ours[:, 0], getattr(np, name)(values), 4)
    assert np.isnan(Kernel(ca.Function(name, [x], [getattr(ca.SX, name)(x)]))([np.nan])[0])


def test_arcus_functions_outside_their_domain_are_nan():
    x = ca.SX.sym("x")
    kernel = Kernel(ca.Function("arcs", [x], [ca.asin(x), ca.acos(x)]))
    assert np.isnan(kernel([[1.0000001], [-2.0], [np.inf]])).all()


def test_the_angle_of_a_vector_is_right_in_every_corner(rng):
    corners = np.array(
        [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, 5e-324, -1e308, 1e308, 1e-300, np.nan]
    )
    y, x = (a.ravel() for a in np.meshgrid(corners, corners))
    random = rng.normal(size=(2, 5000)) * 10 ** rng.uniform(-10, 10, (2, 5000))
    y, x = np.concatenate([y, random[0]]), np.concatenate([x, random[1]])
    a, b = ca.SX.sym("y"), ca.SX.sym("x")
    ours = Kernel(ca.Function("angle", [a, b], [ca.atan2(a, b)]))(y[:, None], x[:, None])[0][:, 0]
    theirs = np.arctan2(y, x)
    np.testing.assert_array_equal(np.isnan(ours), np.isnan(theirs))
    some = ~np.isnan(theirs)
    np.testing.assert_array_equal(np.signbit(ours[some]), np.signbit(theirs[some]))
    np.testing.assert_array_max_ulp(ours[some], theirs[some], 4)


def test_wrong_inputs_are_named_with_their_shapes(rng):
    kernel = Kernel(small_function())
    x, A = rng.normal(size=(5, 3)), rng.normal(size=(5, 2, 3))
    with pytest.raises(InvalidInput, match="got 1 inputs, expected 2"):
        kernel(x)
    with pytest.raises(
        InvalidInput, match=r"input 0 \('x'\).*\(5, 4\), expected \(t, 3\), or \(3,\)"
    ):
        kernel(np.zeros((5, 4)), A)
    with pytest.raises(
        InvalidInput, match=r"input 1 \('A'\).*\(5, 3, 2\), expected \(5, 2, 3\), or \(2, 3\)"
    ):
        kernel(x, A.transpose(0, 2, 1))
    with pytest.raises(InvalidInput, match=r"input 1.*expected \(5, 2, 3\)") as caught:
        kernel(x, A[:4])
    assert caught.value.input == 1
    with pytest.raises(InvalidInput, match=r"\(\), expected"):
        kernel(1.0, A)


def test_functions_that_cannot_be_compiled_are_refused():
    x, y = ca.SX.sym("x"), ca.SX.sym("y")
    with pytest.raises(InvalidInput, match=r"free variables: .*y.*; make them inputs"):
        Kernel(ca.Function("open", [x], [x * y], {"allow_free": True}))
    with pytest.raises(UnsupportedOperation, match="'erfinv'") as caught:
        Kernel(ca.Function("odd", [x], [ca.erfinv(x)]))
    assert isinstance(caught.value, GoughError)
    assert caught.value.operation == "erfinv"
    m = ca.MX.sym("m")
    with pytest.raises(InvalidInput, match=r"MXFunction, expected an SX function.*\.expand\(\)"):
        Kernel(ca.Function("matrix", [m], [m + 1]))


def test_kernels_can_be_pickled(rng):
    kernel = Kernel(small_function())
    x, A = rng.normal(size=(5, 3)), rng.normal(size=(5, 2, 3))
    copy = pickle.loads(pickle.dumps(kernel))
    np.testing.assert_array_equal(copy(x, A)[0], kernel(x, A)[0])


SECOND_PROCESS = """
import casadi as ca, numpy as np
from gough.kernels.kernel import Kernel
x = ca.SX.sym("x", 3)
kernel = Kernel(ca.Function("f", [x], [ca.sin(x) * x[0]]))
print(kernel.compiled, float(kernel(np.array([0.5, 1.0, 2.0]))[0].sum()).hex())
"""


def test_a_second_process_compiles_nothing():
    command = [sys.executable, "-W", "error", "-c", SECOND_PROCESS]
    first, second = (
        subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
        for _ in range(2)
    )
    assert (first[0], second[0]) == ("True", "False")
    assert first[1] == second[1]


def test_processes_may_compile_the_same_at_once(own_cache):
    command = [sys.executable, "-c", SECOND_PROCESS]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    printed = {process.communicate()[0].split()[1] for process in running}
    assert len(printed) == 1
    assert len(list(own_cache.iterdir())) == 1


def test_equal_graphs_share_code_and_different_ones_do_not():
    x, y = ca.SX.sym("x", 2), ca.SX.sym("y", 2)
    assert Kernel(ca.Function("f", [x], [x * 3])).compiled
    assert not Kernel(ca.Function("other_name", [y], [y * 3])).compiled
    assert Kernel(ca.Function("f", [x], [x * 4])).compiled
    assert Kernel(ca.Function("f", [x], [(x * 3).T])).compiled
    assert Kernel(ca.Function("f", [x, y], [x * 3])).compiled


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: b"",
        lambda data: data[:-7],
        lambda data: data[:30] + data[31:],
        lambda data: data[:200] + bytes([data[200] ^ 1]) + data[201:],
    ],
)
def test_damaged_object_code_is_compiled_again(damage, own_cache, rng):
    function = small_function()
    x, A = rng.normal(size=(5, 3)), rng.normal(size=(5, 2, 3))
    expected = Kernel(function)(x, A)[0]
    (path,) = own_cache.glob("*.o")
    path.write_bytes(damage(path.read_bytes()))
    again = Kernel(function)
    assert again.compiled
    np.testing.assert_array_equal(again(x, A)[0], expected)
    assert not Kernel(function).compiled


SWAPPED = """
import casadi as ca, numpy as np
from gough.kernels.kernel import Kernel
x, y = ca.SX.sym("x", 3), ca.SX.sym("y", 40, 50)
first = Kernel(ca.Function("f", [x], [2 * x]))
second = Kernel(ca.Function("g", [x, y], [y @ ca.SX.ones(50, 30), 3 * x]))
print(first.compiled, second.compiled, first([[1.0, 2.0, 3.0]])[0].sum(),
      second([[1.0, 2.0, 3.0]], np.ones((40, 50)))[1].sum())
"""


def test_valid_files_under_each_others_names_are_compiled_again(own_cache):
    """In a process of its own: executing the wrong code would take this one down."""
    command = [sys.executable, "-W", "error", "-c", SWAPPED]
    expected = ["True", "True", "12.0", "18.0"]
    assert (
        subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
        == expected
    )
    one, other = sorted(own_cache.glob("*.o"))
    content = one.read_bytes()
    one.write_bytes(other.read_bytes())
    other.write_bytes(content)
    assert (
        subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
        == expected
    )
    assert (
        subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()[:2]
        == ["False"] * 2
    )


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no permission bits")
def test_the_cache_belongs_to_its_user(own_cache):
    Kernel(small_function())
    assert stat.S_IMODE(own_cache.stat().st_mode) == 0o700


@pytest.mark.parametrize(
    "case", ["file", "read-only", "writeable by others"] if os.name == "posix" else ["file"]
)
def test_an_unusable_cache_directory_does_no_harm(case, tmp_path, monkeypatch, rng):
    place = tmp_path / "odd"
    if case == "file":
        place.write_text("not a directory")
    else:
        place.mkdir()
        place.chmod(0o500 if case == "read-only" else 0o777)
        if case == "read-only" and os.geteuid() == 0:  # root writes everywhere
            monkeypatch.setattr(
                "gough.core.files.token_hex", lambda _: (_ for _ in ()).throw(PermissionError())
            )
    monkeypatch.setenv("GOUGH_CACHE_DIR", str(place))
    x, A = rng.normal(size=(5, 3)), rng.normal(size=(5, 2, 3))
    for _ in range(2):
        kernel = Kernel(small_function())
        assert kernel.compiled
        close(kernel(x, A)[2][:, 0], np.linalg.norm(x, axis=1), 1e-14)
    if case != "file":
        assert not list(place.iterdir())


def test_a_failed_write_leaves_nothing_behind(own_cache, monkeypatch):
    def fail(*_):
        raise OSError("disk full")

    monkeypatch.setattr(cache.os, "replace", fail)
    assert Kernel(small_function()).compiled
    assert not list(own_cache.iterdir())


def test_the_oldest_files_leave_a_full_cache(own_cache, monkeypatch):
    monkeypatch.setattr(cache, "CACHE_BYTES", 2500)
    for k, key in enumerate(("a", "b", "c")):
        cache.write(key, bytes(900))
        os.utime(own_cache / f"{key}.o", (1000 + k, 1000 + k))
    assert cache.read("a") is None
    assert cache.read("b") == bytes(900)  # which makes it the youngest
    cache.write("d", bytes(900))
    assert cache.read("c") is None
    assert cache.read("b") == bytes(900)
    assert cache.read("d") == bytes(900)


@pytest.mark.parametrize(("drawn", "looks"), [(0.5, 0), (0.0, 3)])
def test_a_cache_with_room_is_not_looked_through_at_each_write(
    own_cache, monkeypatch, drawn, looks
):
    seen = []
    monkeypatch.setattr(cache.random, "random", lambda: drawn)
    monkeypatch.setattr(cache, "_delete_oldest", seen.append)
    for key in ("a", "b", "c"):
        cache.write(key, bytes(900))
    assert seen == [own_cache] * looks


def test_what_a_killed_process_left_leaves_a_full_cache_too(own_cache, monkeypatch):
    monkeypatch.setattr(cache, "CACHE_BYTES", 2500)
    cache.write("a", bytes(900))
    left = own_cache / ".b.o.0123456789abcdef"
    left.write_bytes(bytes(2000))
    os.utime(left, (1000, 1000))
    cache.write("c", bytes(900))
    assert not left.exists()
    assert cache.read("a") == bytes(900)


def test_a_cache_that_can_only_be_read_is_read(own_cache, monkeypatch):
    cache.write("a", bytes(900))

    def fail(*_):
        raise PermissionError("read-only file system")

    monkeypatch.setattr(cache.os, "utime", fail)
    assert cache.read("a") == bytes(900)


def test_the_cache_directory_follows_the_environment_and_the_platform(tmp_path, monkeypatch):
    assert cache.cache_directory() == tmp_path / "cache"
    monkeypatch.delenv("GOUGH_CACHE_DIR")
    if sys.platform.startswith("linux"):
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
        assert cache.cache_directory() == tmp_path / "xdg" / "gough"
        monkeypatch.delenv("XDG_CACHE_HOME")
        monkeypatch.setenv("HOME", str(tmp_path))
        assert cache.cache_directory() == tmp_path / ".cache" / "gough"
    monkeypatch.setattr(cache, "user_cache_path", lambda name, appauthor: tmp_path / "own" / name)
    assert cache.cache_directory() == tmp_path / "own" / "gough"


def test_a_bound_kernel_steps_through_time_in_its_own_memory() -> None:
    """x_(t+1) = 1.1 x_t + u_t in lanes of their own, against a loop in NumPy."""
    x, u = ca.SX.sym("x", 2), ca.SX.sym("u")
    kernel = Kernel(ca.Function("walk", [x, u], [1.1 * x + u]))
    lanes, steps = kernel.lanes, 50
    state, push = (
        np.zeros((steps + 1, lanes, 2)),
        np.random.default_rng(0).standard_normal((steps, lanes, 1)),
    )
    state[0] = np.arange(2 * lanes).reshape(lanes, 2)
    run = kernel.bind([state[:-1].reshape(-1, 2), push.reshape(-1, 1)], [state[1:].reshape(-1, 2)])
    run(0, 20 * lanes)
    run(20 * lanes, steps * lanes)
    expected = state[0].copy()
    for t in range(steps):
        expected = 1.1 * expected + push[t]
    np.testing.assert_allclose(state[-1], expected, rtol=1e-13)


def test_zeros_of_a_dense_output_are_not_stored() -> None:
    """A dense diagonal has as many stores as its diagonal, and zeros elsewhere, also when repeated."""
    x = ca.SX.sym("x", 6)
    function = ca.Function("diagonal", [x], [ca.densify(ca.diag(2 * x))])
    text, _ = codegen.generate(read_tape(function), 1)
    part = text[: text.index("declare")]
    assert part.count("store") == 6
    kernel = Kernel(function)
    samples = np.random.default_rng(0).standard_normal((20, 6))
    for _ in range(2):
        np.testing.assert_array_equal(kernel(samples)[0], [np.diag(2 * row) for row in samples])


def test_two_kernels_take_turns_as_in_a_loop() -> None:
    """u = -x every third step, x_(t+1) = 0.9 x_t + u in between, against a loop in NumPy."""
    x, u = ca.SX.sym("x"), ca.SX.sym("u")
    law = Kernel(ca.Function("law", [ca.vertcat(x, u)], [ca.vertcat(x, -x)]), lanes=1)
    step = Kernel(ca.Function("step", [ca.vertcat(x, u)], [ca.vertcat(0.9 * x + u, u)]), lanes=1)
    states = np.zeros((13, 2))
    states[0, 0] = 1.7
    control = law.bind([states[:-1]], [states[:-1]])
    move = step.bind([states[:-1]], [states[1:]])
    run_in_turns(control, move, 1, 3, 12)
    position, effort = 1.7, 0.0
    for t in range(12):
        if t % 3 == 0:
            effort = -position
        position = 0.9 * position + effort
        assert states[t + 1, 0] == pytest.approx(position, rel=1e-14)


def test_a_kernel_is_bound_to_contiguous_arrays_of_its_shapes_only() -> None:
    x = ca.SX.sym("x", 2)
    kernel = Kernel(ca.Function("twice", [x], [2 * x]))
    with pytest.raises(InvalidInput, match="contiguous"):
        kernel.bind([np.zeros((8, 4))[:, ::2]], [np.zeros((8, 2))])
    with pytest.raises(InvalidInput, match="shape"):
        kernel.bind([np.zeros((8, 2))], [np.zeros((8, 3))])
