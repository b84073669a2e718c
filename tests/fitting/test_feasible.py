"""Physically consistent parameters against cvxpy, closed forms and distributions of mass."""

from dataclasses import replace

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from gough.core.errors import InvalidInput
from gough.core.names import parameters
from gough.core.parameters import INERTIAL, BaseParameters, ParameterTable
from gough.fitting.least_squares import LeastSquares, WeightedLeastSquares
from gough.fitting.nearest_bodies import NearestBodies
from gough.fitting.physical_consistency import Feasible
from gough.fitting.pseudo_inertia import (
    group_bodies,
    inertial_parameters,
    metric,
    possible_body,
    prior_body,
    pseudo_inertia,
    usual_size,
)
from gough.fitting.regression import Regression

UNITS = dict(zip(INERTIAL, ("kg", *("kg m",) * 3, *("kg m2",) * 6))) | {
    "ia": "kg m2",
    "fv": "N m s/rad",
    "fs": "N m",
    "off": "N m",
}


def relative_to(L, J):
    """Return L^-1 J L^-T, (4, 4)."""
    return np.linalg.inv(L) @ J @ np.linalg.inv(L).T


def cloud(rng, points=6, size=0.2):
    """Ten parameters of a random cloud of point masses: possible by construction."""
    mass, place = (
        rng.uniform(0.2, 1.0, points),
        rng.uniform(-size, size, (points, 3)) + rng.uniform(-0.1, 0.1, 3),
    )
    inertia = sum(m * (p @ p * np.eye(3) - np.outer(p, p)) for m, p in zip(mass, place))
    return np.array(
        [
            mass.sum(),
            *(mass @ place),
            inertia[0, 0],
            inertia[0, 1],
            inertia[1, 1],
            inertia[0, 2],
            inertia[1, 2],
            inertia[2, 2],
        ]
    )


def table(names, values, std=None):
    return ParameterTable(
        names=names, values=values, units=tuple(UNITS[n.rpartition(".")[2]] for n in names), std=std
    )


def robot(bodies=2, seen=15, seed=0, samples=200, noise=0.05, rows=2):
    """A made-up model: `seen` random combinations of the standard parameters of some bodies and
    joints.
    """
    rng = np.random.default_rng(seed)
    names = tuple(f"body{k}.{p}" for k in range(bodies) for p in INERTIAL) + tuple(
        f"body{k}.{p}" for k in range(bodies) for p in ("fv", "fs", "off")
    )
    truth = np.concatenate(
        [*(cloud(rng) for _ in range(bodies)), rng.uniform(0.1, 1.0, 3 * bodies)]
    )
    kept = tuple(sorted(rng.choice(len(names), seen, replace=False).tolist()))
    matrix = rng.normal(0, 0.5, (seen, len(names))) * (rng.random((seen, len(names))) < 0.3)
    matrix[:, kept] = np.eye(seen)
    model = BaseParameters(
        names=tuple(names[i] + "R" for i in kept),
        units=("1",) * seen,
        standard=names,
        matrix=matrix,
        independent=kept,
        singular_values=np.ones(len(names)),
        tolerance=1e-9,
    )
    W = rng.standard_normal((samples, rows, seen))
    effort = W @ (matrix @ truth) + noise * rng.standard_normal((samples, rows)) * np.linspace(
        1, 2, rows
    )
    reg = Regression(
        regressor=W,
        effort=effort,
        rows=tuple(f"m{j}" for j in range(rows)),
        row_units=("N m",) * rows,
        parameters=model.names,
        units=model.units,
    )
    return reg, model, truth


def spoilt(model, truth, spread=0.3, seed=1):
    rng = np.random.default_rng(seed)
    values = truth * rng.uniform(1 - spread, 1 + spread, len(truth))
    for k in range(len(group_bodies(model.standard))):
        values[10 * k : 10 * k + 10] = truth[10 * k : 10 * k + 10] * rng.uniform(
            1 - spread, 1 + spread
        )
    return table(model.standard, values)


def oracle(reg, base, model, prior, inflation, nonnegative=("fv", "fs")):
    """The same problem for cvxpy, in the raw parameters and from all samples instead of factors."""
    chi = cp.Variable(len(model.standard))
    weight = 1 / np.sqrt(np.diag(base.noise_covariance)) / inflation
    W = (reg.regressor * weight[:, None]).reshape(-1, len(base))
    u = np.linalg.qr(W)[1] @ (model.matrix @ chi - base.values)
    values = np.array([prior[name] for name in model.standard])
    divergence = 0
    for k in range(len(group_bodies(model.standard))):
        c = chi[10 * k : 10 * k + 10]
        half = 0.5 * (c[4] + c[6] + c[9])
        J = cp.bmat(
            [
                [half - c[4], -c[5], -c[7], c[1]],
                [-c[5], half - c[6], -c[8], c[2]],
                [-c[7], -c[8], half - c[9], c[3]],
                [c[1], c[2], c[3], c[0]],
            ]
        )
        J0 = pseudo_inertia(values[10 * k : 10 * k + 10])
        root = np.linalg.inv(np.linalg.cholesky(J0))
        Y = root @ J @ root.T
        divergence += cp.trace(Y) - cp.log_det(Y) - 4
    for i, name in enumerate(model.standard):
        ending = name.rpartition(".")[2]
        if ending in nonnegative:
            divergence += chi[i] / values[i] - cp.log(chi[i] / values[i]) - 1
        elif ending not in INERTIAL:
            divergence += cp.square((chi[i] - values[i]) / values[i]) / 2
    problem = cp.Problem(cp.Minimize(cp.sum_squares(u) / 2 + divergence))
    problem.solve(solver=cp.CLARABEL)
    return problem.value, chi.value


def inflation_of(base):
    return max(1.0, np.exp(np.mean(np.log(base.std / base.white_std))))


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 10**6))
def test_pseudo_inertia_is_the_second_moment_of_the_mass(seed):
    rng = np.random.default_rng(seed)
    mass, place = rng.random(5), rng.standard_normal((5, 3))
    inertia = sum(m * (p @ p * np.eye(3) - np.outer(p, p)) for m, p in zip(mass, place))
    ten = np.array(
        [
            mass.sum(),
            *(mass @ place),
            inertia[0, 0],
            inertia[0, 1],
            inertia[1, 1],
            inertia[0, 2],
            inertia[1, 2],
            inertia[2, 2],
        ]
    )
    longer = np.column_stack([place, np.ones(5)])
    np.testing.assert_allclose(pseudo_inertia(ten), (longer.T * mass) @ longer, atol=1e-12)
    np.testing.assert_allclose(inertial_parameters(pseudo_inertia(ten)), ten, atol=1e-12)


def test_distance_between_bodies_does_not_depend_on_frame_or_unit():
    rng = np.random.default_rng(0)
    first, second = pseudo_inertia(cloud(rng)), pseudo_inertia(cloud(rng))
    rotation = np.linalg.qr(rng.standard_normal((3, 3)))[0]
    move = np.block([[rotation, rng.standard_normal((3, 1))], [np.zeros((1, 3)), np.ones((1, 1))]])

    def distance(a, b):
        return np.linalg.norm(relative_to(metric(inertial_parameters(a)), a - b))

    here = distance(first, second)
    assert here > 0.1
    assert distance(move @ first @ move.T, move @ second @ move.T) == pytest.approx(here, rel=1e-9)
    scale = np.diag([1e3, 1e3, 1e3, 1.0])  # millimetres
    assert distance(scale @ first @ scale, scale @ second @ scale) == pytest.approx(here, rel=1e-9)


@pytest.mark.parametrize(
    "noise", [0.05, 3.0], ids=["possible base estimate", "impossible base estimate"]
)
@pytest.mark.parametrize("seed", range(3))
def test_cvxpy_in_raw_parameters_finds_the_same_bodies(noise, seed):
    reg, model, truth = robot(noise=noise, seed=seed, seen=15 if noise < 1 else 24)
    base = WeightedLeastSquares().fit(reg)
    prior = spoilt(model, truth)
    found = Feasible(nonnegative=("fv", "fs")).fit(reg, base, model=model, prior=prior)
    value, chi = oracle(reg, base, model, prior, inflation_of(base))
    assert found.misfit / 2 + found.divergence == pytest.approx(value, rel=1e-5)
    np.testing.assert_allclose(found.standard.values, chi, atol=2e-3)


def test_an_impossible_body_moves_to_the_nearest_possible_one_known_in_closed_form():
    rng = np.random.default_rng(3)
    names = tuple(f"load.{p}" for p in INERTIAL)
    model = BaseParameters(
        names=names,
        units=("1",) * 10,
        standard=names,
        matrix=np.eye(10),
        independent=tuple(range(10)),
        singular_values=np.ones(10),
        tolerance=1e-9,
    )
    values, vectors = np.linalg.eigh(pseudo_inertia(cloud(rng, size=0.8)))
    impossible = inertial_parameters((vectors * [-0.3, 0.4, *values[2:]]) @ vectors.T)
    # efforts are the entries of J, so the misfit is the Frobenius norm and clipping the eigenvalues
    # is the answer
    entries = np.array(
        [[pseudo_inertia(unit)[i, j] for unit in np.eye(10)] for i in range(4) for j in range(4)]
    )
    W = np.tile(entries[None], (400, 1, 1))
    effort = W @ impossible + 0.3 * rng.standard_normal((400, 16))
    reg = Regression(
        regressor=W,
        effort=effort,
        rows=tuple(f"r{k}" for k in range(16)),
        row_units=("1",) * 16,
        parameters=names,
        units=("1",) * 10,
    )
    base = LeastSquares(uncertainty="white").fit(reg)
    # a prior ball with S = c 1, m = c: eigenvalues e of J solve  k (e - b) + 1 / c - 1 / e = 0,
    # b those of the estimate, k samples over the noise variance
    c = 0.5
    prior = table(names, inertial_parameters(c * np.eye(4)))
    eigen, turn = np.linalg.eigh(pseudo_inertia(base.values))
    assert eigen[0] < -0.2
    k = 400 / base.noise_covariance[0, 0]
    centre = eigen - 1 / (c * k)
    expected = (centre + np.sqrt(centre**2 + 4 / k)) / 2
    nearest = inertial_parameters((turn * expected) @ turn.T)
    found = Feasible().fit(reg, base, model=model, prior=prior)
    np.testing.assert_allclose(found.standard.values, nearest, atol=3e-3)
    assert any("do not reach the estimate" in str(notice) for notice in found.estimate.notices)


def test_a_possible_base_estimate_stays_and_the_rest_is_the_nearest_to_the_prior():
    reg, model, truth = robot(noise=1e-4)
    base = WeightedLeastSquares().fit(reg)
    prior = spoilt(model, truth)
    found = Feasible().fit(reg, base, model=model, prior=prior)
    assert (np.abs(found.estimate.values - base.values) < 0.05 * base.std).all()
    np.testing.assert_allclose(
        found.estimate.values, model.values(found.standard.values), rtol=1e-12
    )
    values = np.array([prior[n] for n in model.standard])

    def divergence(chi):
        total = 0.0
        for k in range(2):
            Y = relative_to(
                metric(values[10 * k : 10 * k + 10]), pseudo_inertia(chi[10 * k :][:10])
            )
            total += np.trace(Y) - np.log(np.linalg.det(Y)) - 4
        return total + np.sum((chi[20:] / values[20:] - 1) ** 2) / 2

    here = divergence(found.standard.values)
    assert here == pytest.approx(found.divergence, rel=1e-6)
    # along directions that leave the base parameters alone nothing is nearer
    hidden = np.linalg.svd(model.matrix)[2][len(model) :]
    for direction in hidden:
        for step in (-1e-3, 1e-3):
            assert divergence(found.standard.values + step * direction) > here
    assert not any("do not reach" in str(notice) for notice in found.estimate.notices)


def test_every_body_is_possible_and_no_friction_negative_even_from_noise():
    reg, model, truth = robot(bodies=4, seen=40, noise=20.0, seed=5)
    base = WeightedLeastSquares().fit(reg)
    found = Feasible(relative=10.0, nonnegative=("fv", "fs")).fit(
        reg, base, model=model, prior=spoilt(model, truth)
    )
    for name, ten in found.bodies.items():
        assert np.linalg.eigvalsh(pseudo_inertia(ten))[0] > 0
        assert found.margins[name] > 0
        np.testing.assert_allclose(
            ten, [found.standard[f"{name}.{p}"] for p in INERTIAL], rtol=1e-9
        )
    values = {n: found.standard[n] for n in model.standard}
    assert min(v for n, v in values.items() if n.endswith((".fv", ".fs"))) >= 0
    unbounded = Feasible(relative=10.0, nonnegative=())
    free = unbounded.fit(reg, base, model=model, prior=spoilt(model, truth))
    assert min(free.standard[n] for n in model.standard if n.endswith((".fv", ".fs"))) < 0


def test_misfit_and_rms_are_those_of_the_samples():
    reg, model, truth = robot(noise=3.0, seed=1)
    base = WeightedLeastSquares(uncertainty="white").fit(reg)
    found = Feasible().fit(reg, base, model=model, prior=spoilt(model, truth))
    sigma = np.sqrt(np.diag(base.noise_covariance))

    def chi_square(values):
        return np.sum(((reg.regressor @ values - reg.effort) / sigma) ** 2)

    before, after = chi_square(base.values), chi_square(found.estimate.values)
    assert after - before == pytest.approx(found.misfit, rel=1e-6)
    residual = reg.effort - reg.regressor @ found.estimate.values
    np.testing.assert_allclose(
        found.estimate.residual_rms, np.sqrt((residual**2).mean(axis=0)), rtol=1e-9
    )


def test_a_prior_that_is_known_better_counts_more_and_the_truth_as_prior_comes_back():
    reg, model, truth = robot(noise=0.5)
    base = WeightedLeastSquares().fit(reg)
    prior = spoilt(model, truth)
    misfits = []
    for relative in (10.0, 1.0, 0.1):
        found = Feasible(relative=relative).fit(reg, base, model=model, prior=prior)
        misfits.append(found.misfit)
    assert misfits[0] < misfits[1] < misfits[2]
    stated = table(model.standard, prior.values, std=np.abs(prior.values) * 0.1)
    same = Feasible().fit(reg, base, model=model, prior=stated)
    assert same.misfit == pytest.approx(misfits[2], rel=1e-6)
    certain = table(model.standard, truth, std=np.abs(truth) * 1e-4)
    itself = Feasible().fit(reg, base, model=model, prior=certain)
    np.testing.assert_allclose(itself.standard.values, truth, atol=1e-4)


@pytest.mark.parametrize("factor", [1e-4, 300.0], ids=["a robot of 100 um", "a robot of 300 m"])
def test_a_robot_of_another_size_has_bodies_of_that_size(factor):
    """Lengths times a factor, a body without thickness among them: the same robot."""
    reg, model, truth = robot(noise=0.5)
    prior = spoilt(model, truth).values.copy()
    prior[4:10] = 0.0  # a point mass
    prior[1:4] = 0.0
    powers = np.array(
        [
            {"m": 0, "mx": 1, "my": 1, "mz": 1}.get(kind, 2) if kind in INERTIAL else 0
            for kind in (name.rpartition(".")[2] for name in model.standard)
        ]
    )
    small = replace(model, matrix=model.matrix / factor**powers)
    base = WeightedLeastSquares().fit(reg)
    usual = Feasible().fit(reg, base, model=model, prior=table(model.standard, prior))
    other = Feasible().fit(
        reg, base, model=small, prior=table(model.standard, prior * factor**powers)
    )
    np.testing.assert_allclose(
        other.standard.values / factor**powers, usual.standard.values, rtol=1e-3, atol=1e-4
    )


def test_without_noise_the_base_values_are_exact_and_the_truth_as_prior_comes_back():
    reg, model, truth = robot(noise=0.0)
    base = LeastSquares(uncertainty="white").fit(reg)
    found = Feasible().fit(reg, base, model=model, prior=spoilt(model, truth))
    np.testing.assert_allclose(found.estimate.values, model.values(truth), atol=1e-5)
    same = Feasible().fit(reg, base, model=model, prior=table(model.standard, truth))
    np.testing.assert_allclose(same.standard.values, truth, atol=1e-6)


def test_the_condensed_problem_gives_the_same_and_input_stays_untouched():
    reg, model, truth = robot()
    base = WeightedLeastSquares().fit(reg)
    prior = spoilt(model, truth)
    kept = prior.values.copy(), base.values.copy()
    first = Feasible().fit(reg, base, model=model, prior=prior)
    second = Feasible().fit(reg.statistics(), base, model=model, prior=prior)
    np.testing.assert_allclose(first.standard.values, second.standard.values, atol=1e-7)
    np.testing.assert_array_equal(kept[0], prior.values)
    np.testing.assert_array_equal(kept[1], base.values)
    again = Feasible().fit(reg, base, model=model, prior=prior)
    np.testing.assert_array_equal(first.standard.values, again.standard.values)


def some_parameters(names, noise=0.01, truth=None, seed=0):
    """A model that sees each of a few standard parameters by itself."""
    rng = np.random.default_rng(seed)
    p = len(names)
    model = BaseParameters(
        names=names,
        units=("1",) * p,
        standard=names,
        matrix=np.eye(p),
        independent=tuple(range(p)),
        singular_values=np.ones(p),
        tolerance=1e-9,
    )
    W = rng.standard_normal((100, 1, p))
    effort = W @ np.asarray(truth) + noise * rng.standard_normal((100, 1))
    reg = Regression(
        regressor=W,
        effort=effort,
        rows=("m",),
        row_units=("N",),
        parameters=names,
        units=("1",) * p,
    )
    return reg, model, LeastSquares(uncertainty="white").fit(reg)


def test_structural_zeros_stay_zero_and_unseen_moments_are_filled_in():
    # the H4 nacelle: mass and one moment of inertia; the other two must exist for it to be a body
    names = ("nacelle.m", "nacelle.Izz")
    reg, model, base = some_parameters(names, truth=[1.05, 0.003])
    found = Feasible().fit(reg, base, model=model, prior=table(names, [1.0, 0.002]))
    ten = found.bodies["nacelle"]
    assert found.standard["nacelle.m"] == pytest.approx(1.05, abs=0.01)
    np.testing.assert_allclose(ten[[1, 2, 3, 5, 7, 8]], 0.0, atol=1e-7)
    assert ten[4] > 0
    assert ten[6] > 0
    assert np.linalg.eigvalsh(pseudo_inertia(ten))[0] > 0


def test_structural_zeros_make_a_negative_moment_impossible():
    names = tuple(f"rod.{p}" for p in ("m", "mz", "Ixx", "Iyy", "Izz"))
    truth = [2.0, 0.6, 0.30, 0.30, -0.05]  # negative axial inertia
    reg, model, base = some_parameters(names, truth=truth)
    found = Feasible().fit(reg, base, model=model, prior=table(names, [2.0, 0.6, 0.30, 0.30, 0.01]))
    assert found.standard["rod.Izz"] > 0
    assert found.misfit > 100
    ten = found.bodies["rod"]
    np.testing.assert_allclose(ten[[1, 2, 5, 7, 8]], 0.0, atol=1e-7)
    # its principal moments about the centre of mass obey the triangle inequality
    moments = ten[[4, 6, 9]] - np.array([1, 1, 0]) * ten[3] ** 2 / ten[0]
    assert (2 * moments < moments.sum() + 1e-9).all()


def test_structural_zeros_hold_where_a_nearer_body_would_break_them():
    names = tuple(f"plate.{p}" for p in ("m", "mx", "my", "Ixx", "Iyy", "Izz"))
    reg, model, base = some_parameters(names, truth=[2.0, 0.3, 0.4, 0.4, 0.3, 0.6])
    found = Feasible().fit(
        reg, base, model=model, prior=table(names, [2.0, 0.1, 0.1, 0.4, 0.3, 0.6])
    )
    np.testing.assert_allclose(found.bodies["plate"][[3, 5, 7, 8]], 0.0, atol=1e-6)
    # with the product in the model, and not seen by the data, the nearest body has one
    more = (*names, "plate.Ixy")
    wide = replace_model(model, more)
    free = Feasible().fit(
        reg, base, model=wide, prior=table(more, [2.0, 0.1, 0.1, 0.4, 0.3, 0.6, 0.0])
    )
    assert abs(free.standard["plate.Ixy"]) > 1e-3
    assert free.divergence < found.divergence


def replace_model(model, standard):
    matrix = np.hstack([model.matrix, np.zeros((len(model), len(standard) - len(model.standard)))])
    return replace(model, standard=standard, matrix=matrix, singular_values=np.ones(len(standard)))


def test_an_estimate_of_some_base_parameters_leaves_the_others_to_the_prior():
    reg, model, truth = robot()
    few = model.names[:10]
    base = WeightedLeastSquares().fit(reg.select(few))
    found = Feasible().fit(reg, base, model=model, prior=spoilt(model, truth))
    assert found.estimate.parameters == few
    assert any(
        "5 base parameters were not estimated" in str(notice) for notice in found.estimate.notices
    )


def test_bodies_are_found_by_name_and_point_masses_get_a_usable_metric():
    bodies = group_bodies(("a.fv", "leg1.rod.Izz", "leg1.rod.m", "b.m"))
    assert [b.name for b in bodies] == ["leg1.rod", "b"]
    assert bodies[0].present == (0, 9)
    assert bodies[0].standard == (2, 1)
    assert bodies[0].zeros == (1, 2, 3, 5, 7, 8)
    point = np.array([2.0, 0, 0, 0, 0, 0, 0, 0, 0, 0])
    assert np.linalg.cond(metric(possible_body(point)[0])) < 1e4
    full = prior_body(bodies[1], np.array([0.0, 0.0, 0.0, 3.0]))
    assert np.linalg.eigvalsh(pseudo_inertia(full))[0] > 0


def test_priors_that_cannot_exist_are_thickened_and_others_stay():
    rng = np.random.default_rng(2)
    solid = cloud(rng)
    np.testing.assert_array_equal(possible_body(solid)[0], solid)
    assert possible_body(solid)[1] == 0
    rod = np.array([1.845, 0, 0, -0.35461, 0.07516, 0, 0.07516, 0, 0, 0])  # mass on a line
    wrong = np.array([2.0, 0.1, 0, 0, 0.1, 0.01, 0.1, 0, 0, 0.5])  # Izz > Ixx + Iyy
    for impossible in (rod, wrong):
        assert np.linalg.eigvalsh(pseudo_inertia(impossible))[0] < 1e-12
        body, thickness = possible_body(impossible)
        assert np.linalg.eigvalsh(pseudo_inertia(body))[0] > 0
        changed = body - impossible
        np.testing.assert_array_equal(changed[[0, 1, 2, 3, 5, 7, 8]], 0.0)
        np.testing.assert_allclose(
            changed[[4, 6, 9]], 2 * 2 * thickness**2 * impossible[0] / 2, rtol=1e-9
        )
    assert possible_body(rod)[1] < 0.01  # [m]


def test_a_body_of_unknown_inertia_is_as_large_as_the_others():
    names = ("arm.m", "arm.mx", "tool.m", "tool.Izz")
    values = np.array([0.5, 0.06, 1.2, 0.0])
    bodies = group_bodies(names)
    radius = usual_size(bodies, values)
    assert radius == pytest.approx(0.12)  # where the arm's centre of mass is
    tool = np.zeros(10)
    tool[0] = 1.2
    spread = possible_body(tool, radius)[0]
    np.testing.assert_allclose(spread[[4, 6, 9]], 2 / 3 * 1.2 * radius**2)


def test_unknown_friction_of_any_size_is_left_to_the_data():
    reg, model, truth = robot(bodies=2, seen=18, noise=0.5, seed=4)
    unknown = np.array([name.kind in ("fv", "fs") for name in model.standard])
    large = np.where(unknown, 1e3 * truth, truth)
    effort = reg.effort + reg.regressor @ (model.matrix @ (large - truth))
    reg = replace(reg, effort=effort)
    base = WeightedLeastSquares().fit(reg)
    prior = table(model.standard, np.where(unknown, 0.0, spoilt(model, truth).values))
    found = Feasible(nonnegative=("fv", "fs")).fit(reg, base, model=model, prior=prior)
    assert found.misfit < len(base)  # a prior of the size 1 would miss by 1e6


@pytest.mark.parametrize("kind", ["rod", "point", "impossible"])
def test_a_prior_on_or_beyond_the_limit_of_the_possible_is_no_obstacle(kind):
    reg, model, truth = robot(bodies=3, seen=25, noise=0.5, seed=3)
    base = WeightedLeastSquares().fit(reg)
    values = spoilt(model, truth).values.copy()
    m, h = values[0], values[1:4].copy()
    values[4:10] = inertial_parameters(np.block([[np.outer(h, h) / m, h[:, None]], [h, m]]))[
        4:
    ]  # a point at h / m
    if kind == "rod":
        values[[4, 6]] += 0.05
    elif kind == "impossible":
        values[9] += 1.0
    assert np.linalg.eigvalsh(pseudo_inertia(values[:10]))[0] < 1e-9
    found = Feasible().fit(reg, base, model=model, prior=table(model.standard, values))
    assert any(
        "body0: the prior has no thickness" in str(notice) for notice in found.estimate.notices
    )
    assert not any(
        "body1: the prior has no thickness" in str(notice) for notice in found.estimate.notices
    )
    assert min(np.linalg.eigvalsh(pseudo_inertia(ten))[0] for ten in found.bodies.values()) > 0
    # what the data determine hardly depends on the prior
    good = Feasible().fit(reg, base, model=model, prior=spoilt(model, truth))
    assert (np.abs(found.estimate.values - good.estimate.values) < 3 * base.white_std).all()


def test_the_estimate_says_which_values_are_data_and_which_the_priors():
    names = tuple(f"rod.{p}" for p in ("m", "mz", "Ixx", "Iyy", "Izz"))
    reg, model, base = some_parameters(names[:2], truth=[2.0, 0.6])
    model = replace_model(model, names)
    prior = table(names, [1.5, 0.4, 0.30, 0.30, 0.01])
    found = Feasible().fit(reg, base, model=model, prior=prior)
    assert found.determined["rod.m"] > 0.99
    assert found.determined["rod.mz"] > 0.99
    assert found.determined["rod.Izz"] < 0.1
    assert "the data determine 2" in found.estimate.summary()
    # halfway: as much information in the data as in the prior
    vague = replace(base, covariance=base.covariance * (1.5 / base.std[0]) ** 2)
    half = Feasible().fit(reg, vague, model=model, prior=prior)
    assert 0.3 < half.determined["rod.m"] < 0.7


def test_a_total_mass_is_met_by_masses_that_the_data_leave_open():
    names = ("a.m", "a.Izz", "b.m", "b.Izz")
    reg, model, base = some_parameters(names[1:2] + names[3:], truth=[0.02, 0.03])
    model = BaseParameters(
        names=model.names,
        units=model.units,
        standard=names,
        matrix=np.array([[0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 0.0, 1.0]]),
        independent=(1, 3),
        singular_values=np.ones(4),
        tolerance=1e-9,
    )
    prior = table(names, [2.0, 0.02, 1.0, 0.03])
    free = Feasible().fit(reg, base, model=model, prior=prior)
    assert free.standard["a.m"] + free.standard["b.m"] == pytest.approx(3.0, rel=0.05)
    weighed = Feasible(total_mass=6.0).fit(reg, base, model=model, prior=prior)
    assert weighed.standard["a.m"] + weighed.standard["b.m"] == pytest.approx(6.0, rel=0.01)
    pair = Feasible(total_mass=6.0, members={"a.m": 1, "b.m": 2})
    twice = pair.fit(reg, base, model=model, prior=prior)
    assert twice.standard["a.m"] + 2 * twice.standard["b.m"] == pytest.approx(6.0, rel=0.01)
    with pytest.raises(InvalidInput, match="total mass is -1"):
        Feasible(total_mass=-1.0)
    few = ("a.Izz", "b.Izz")
    with pytest.raises(InvalidInput, match="no body has a mass"):
        Feasible(total_mass=6.0).fit(
            *some_parameters(few, truth=[0.02, 0.03])[::2],
            model=some_parameters(few, truth=[0.02, 0.03])[1],
            prior=table(few, [0.02, 0.03]),
        )


def test_mass_stays_inside_a_box():
    names = tuple(f"rod.{p}" for p in INERTIAL)
    # the data know mass and first moment: the centre of mass is near the end of the box
    seen = (0, 3)
    reg, model, base = some_parameters((names[0], names[3]), truth=[1.0, 0.45], noise=1e-3)
    model = replace(
        model,
        standard=names,
        matrix=np.eye(10)[list(seen)],
        independent=seen,
        singular_values=np.ones(10),
    )
    ten = np.array([1.0, 0, 0, 0.25, 0.09, 0, 0.09, 0, 0, 0.01])
    prior = table(names, ten)
    free = Feasible().fit(reg, base, model=model, prior=prior)
    box = (-0.1, -0.1, 0.0, 0.1, 0.1, 0.5)
    inside = Feasible(boxes={"rod": box}).fit(reg, base, model=model, prior=prior)
    assert inside.standard["rod.mz"] == pytest.approx(0.45, rel=0.01)
    for k in range(3):
        J = pseudo_inertia(inside.bodies["rod"])
        low, high = box[k], box[k + 3]
        assert -J[k, k] + (low + high) * J[k, 3] - low * high * J[3, 3] > 0
    J = pseudo_inertia(free.bodies["rod"])
    assert -J[2, 2] + 0.5 * J[2, 3] < 0
    with pytest.raises(InvalidInput, match="does not fit into its own box: along z"):
        Feasible(boxes={"rod": (-0.1, -0.1, 0.0, 0.1, 0.1, 0.2)}).fit(
            reg, base, model=model, prior=prior
        )


def test_bad_input_is_a_clear_error():
    reg, model, truth = robot()
    base = WeightedLeastSquares().fit(reg)
    with pytest.raises(InvalidInput, match="standard deviation of the prior is 0"):
        Feasible(relative=0.0)
    values = truth.copy()
    values[10] = 0.0
    with pytest.raises(InvalidInput, match="prior mass of body 'body1' is 0"):
        Feasible().fit(reg, base, model=model, prior=table(model.standard, values))
    with pytest.raises(InvalidInput, match=r"no parameter 'body0\.m'"):
        Feasible().fit(reg, base, model=model, prior=table(model.standard[1:], truth[1:]))
    other = replace(reg, parameters=("x", *reg.parameters[1:]))
    with pytest.raises(InvalidInput, match="no base parameter 'x'"):
        Feasible().fit(
            other,
            WeightedLeastSquares().fit(other),
            model=model,
            prior=table(model.standard, truth),
        )


def test_bodies_much_thicker_than_the_prior_are_reached():
    """Rods 2 % as thick as long in the robot file, which are balls in truth."""
    names = parameters([f"body{k}.{kind}" for k in range(6) for kind in INERTIAL])
    rod = np.array([1.0, 0, 0, 0, 1e-4, 0, 1.0001, 0, 0, 1.0001])
    ball = np.array([1.0, 0, 0, 0, 1.0, 0, 1.0, 0, 0, 1.0])
    search = NearestBodies(names, np.tile(rod, 6), np.ones(60))
    design = 1e3 * np.random.default_rng(0).standard_normal((45, 60))
    x = search.solve(design, design @ np.tile(ball, 6))
    residual = design @ (search.standard(x) - np.tile(ball, 6))
    assert residual @ residual < 100  # variances of 45 equations; 5e7 where it stops too early
