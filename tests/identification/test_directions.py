"""Directions: each column is what a small mistake of that kind does to the recorded efforts, and
each can be undone.
"""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from gough.core.motion import Motion
from gough.core.names import LOAD_PARAMETERS
from gough.engine import Model, base_parameters
from gough.fitting.regression import Regression
from gough.identification.diagnosis import describe
from gough.mechanism import load_robot
from gough.mechanism.terms import TERMS
from gough.verdict.diagnosis.directions import (
    ALL,
    DIRECTIONS,
    Direction,
    directions,
    register_direction,
    rotated,
    stack_directions,
    tilt_axes,
)
from gough.verdict.diagnosis.evidence import Evidence, evidence_of
from gough.verdict.diagnosis.search import score_problem
from gough.verdict.diagnosis.track import Source, Track

ROBOTS = ("five_bar", "redundant", "serial6")
SMALL = {
    "effort delay": 1e-4,
    "encoder offset": 1e-5,
    "encoder scale": 1e-5,
    "clock": 1e-5,
    "gain": 1e-5,
    "effort offset": 1e-4,
    "tilt": 1e-5,
    "compliance": 1e-8,
}


def smooth_motion(model: Model, samples: int = 300) -> Motion:
    """A periodic motion of the motors about home, two seconds long."""
    time = np.arange(samples) * (2.0 / samples)
    part = list(model.loops.partitions["actuated"].independent)
    k = np.arange(1, len(part) + 1)
    w = 2 * np.pi * 0.5
    angle = w * time[:, None] + k
    q = model.home[part] + 0.05 * np.sin(angle) + 0.02 * np.cos(2 * angle)
    qd = w * (0.05 * np.cos(angle) - 0.04 * np.sin(2 * angle))
    qdd = w**2 * (-0.05 * np.sin(angle) - 0.08 * np.cos(2 * angle))
    return model.kinematics.motion(time, q, qd, qdd, "actuated")


def frictionless(model: Model) -> np.ndarray:
    """The robot file's parameters without dry friction, whose jumps have no derivative."""
    return np.array(
        [
            0.0 if name.kind == "fs" else value
            for name, value in zip(model.mechanism.standard.names, model.mechanism.standard.values)
        ]
    )


def evidence(
    model: Model, *, extra: np.ndarray | None = None, logs: int = 1, payload: str | None = None
) -> Evidence:
    base = base_parameters(model)
    chi = frictionless(model)
    values = base.values(
        np.array([chi[model.mechanism.standard.names.index(n)] for n in base.standard])
    )
    motion = smooth_motion(model)
    effort = model.inverse_dynamics(motion, chi) + (0.0 if extra is None else extra)
    part = model.regression(motion, effort, base)
    source = Source(
        motion=motion,
        effort=effort,
        dead_band=np.zeros(len(model.home)),
        part=part,
        periodic=True,
        name="log",
        payload=payload,
    )
    return Evidence(model=model, base=base, values=values, logs=(source,) * logs)


@pytest.fixture(scope="module", params=ROBOTS)
def seen(request: pytest.FixtureRequest) -> Evidence:
    return evidence(Model(load_robot(request.param)))


def entry(name: str) -> Direction:
    return next(d for d in directions() if d.name == name)


def rows(seen: Evidence, effort: np.ndarray, motion: Motion | None = None) -> np.ndarray:
    motion = seen.logs[0].motion if motion is None else motion
    return seen.model.project_to_rows(motion.q, effort)


def predicted(seen: Evidence, track: Track) -> np.ndarray:
    """Return what the model predicts for the rows if a log held this track, by rebuilding it."""
    view = seen.views[0].rebuilt(track)
    assert view is not None
    return view.source.part.regressor @ seen.values


@pytest.mark.parametrize("name", ["encoder offset", "encoder scale", "clock"])
def test_columns_of_the_motion_are_differences_of_predictions(seen: Evidence, name: str) -> None:
    """Undoing a mistake of size -s makes the prediction that the recorded, mistaken motion asks
    for.
    """
    direction, view, size = entry(name), seen.views[0], SMALL[name]
    for place in direction.places(seen):
        change = [
            predicted(seen, direction.undo(view.track, view, place, np.array([s * size])))
            for s in (1, -1)
        ]
        expected = (change[0] - change[1]) / (
            2 * size
        )  # d prediction / d size of what is taken out
        found = direction.columns(view, place)
        scale = max(np.abs(expected).max(), 1e-3 * np.abs(seen.logs[0].effort).max())
        np.testing.assert_allclose(found, expected, atol=2e-4 * scale)


def test_a_tilt_is_the_difference_of_two_gravities(seen: Evidence) -> None:
    view, chi = seen.views[0], frictionless(seen.model)
    g = np.array(seen.model.mechanism.gravity)
    found = entry("tilt").columns(view, "base")
    for k, axis in enumerate(tilt_axes(g)):
        turned = [
            Model(replace(seen.model.mechanism, gravity=tuple(rotated(g, s * 1e-4 * axis))))
            for s in (1, -1)
        ]
        ahead, back = (model.inverse_dynamics(seen.logs[0].motion, chi) for model in turned)
        np.testing.assert_allclose(
            found[:, :, k], rows(seen, (ahead - back) / 2e-4), atol=1e-5 * np.abs(found).max()
        )


def test_columns_of_efforts_are_what_is_added_to_them(seen: Evidence) -> None:
    view, motors = seen.views[0], seen.model.mechanism.actuated
    tau = seen.logs[0].effort
    for j, motor in enumerate(motors):
        only = np.zeros_like(tau)
        only[:, j] = tau[:, j]
        np.testing.assert_allclose(
            entry("gain").columns(view, motor), rows(seen, only), atol=1e-6 * np.abs(tau).max()
        )
        only[:, j] = 1.0
        np.testing.assert_allclose(
            entry("effort offset").columns(view, motor), rows(seen, only), atol=1e-12
        )


def test_a_delay_is_minus_the_slope_of_the_effort(seen: Evidence) -> None:
    view, tau = seen.views[0], seen.logs[0].effort
    spectrum = np.fft.rfft(tau, axis=0)
    w = 2j * np.pi * np.fft.rfftfreq(len(tau), view.track.step)
    slope = np.fft.irfft(spectrum * w[:, None], len(tau), axis=0)
    found = entry("effort delay").columns(view, ALL)
    np.testing.assert_allclose(found, rows(seen, -slope), atol=0.02 * np.abs(slope).max())
    parts = sum(entry("effort delay").columns(view, m) for m in seen.model.mechanism.actuated)
    np.testing.assert_allclose(found, parts, atol=1e-9 * np.abs(found).max())


@pytest.mark.parametrize(
    "name", ["effort delay", "effort offset", "gain", "encoder offset", "encoder scale", "clock"]
)
def test_undoing_a_mistake_and_making_it_again_changes_nothing(seen: Evidence, name: str) -> None:
    direction, view = entry(name), seen.views[0]
    place, size = direction.places(seen)[0], 1e-3
    there = direction.undo(view.track, view, place, np.array([size]))
    opposite = {
        "gain": 1 / (1 + size) - 1,
        "encoder scale": 1 / (1 + size) - 1,
        "clock": 1 / (1 + size) - 1,
    }
    back = direction.undo(there, view, place, np.array([opposite.get(name, -size)]))
    for what in ("position", "velocity", "acceleration", "effort"):
        now, before = getattr(back, what), getattr(view.track, what)
        np.testing.assert_allclose(now, before, atol=1e-9 * np.abs(before).max())
    changed = [
        what
        for what in ("position", "velocity", "effort")
        if np.abs(getattr(there, what) - getattr(view.track, what)).max() > 1e-9
    ]
    assert changed


def test_compliance_bends_the_motion_by_the_effort(seen: Evidence) -> None:
    """q = q motor - c tau: the track without it is the motion behind the transmission."""
    direction, view = entry("compliance"), seen.views[0]
    place, size = seen.model.mechanism.actuated[0], 1e-6
    undone = direction.undo(view.track, view, place, np.array([size]))
    bent, whole = (view.track.position - undone.position)[:, 0], size * view.prediction[:, 0]
    assert np.std(bent - whole) < 0.1 * np.std(whole)  # the band that holds 99 % of its power
    rate = (np.roll(bent, -1) - np.roll(bent, 1)) / (2 * view.track.step)
    np.testing.assert_allclose(
        (view.track.velocity - undone.velocity)[:, 0], rate, atol=0.02 * np.abs(rate).max()
    )
    change = [
        predicted(seen, direction.undo(view.track, view, place, np.array([s * size])))
        for s in (1, -1)
    ]
    found = direction.columns(view, place)
    np.testing.assert_allclose(
        found, (change[0] - change[1]) / (2 * size), atol=2e-4 * np.abs(found).max()
    )


def test_bending_does_not_follow_the_noise_of_positions() -> None:
    """Noise of the positions is in the predicted effort; differentiated twice it would be all there
    is.
    """
    seen = evidence(Model(load_robot("five_bar")))
    view = seen.views[0]
    clean = view.smooth(view.prediction)[2]
    noisy = view.prediction + 0.02 * np.std(view.prediction) * np.random.default_rng(
        0
    ).standard_normal(view.prediction.shape)
    found = view.smooth(noisy)[2]
    assert np.std(found - clean) < 0.1 * np.std(clean)
    raw = view.track.slope(view.track.slope(noisy))
    assert np.std(raw - clean) > np.std(clean)


@pytest.mark.parametrize("periodic", [True, False])
def test_a_lag_is_the_first_order_low_pass_that_an_integrator_gives(periodic: bool) -> None:
    """Explicit Euler, a thousand steps a sample, of T y' + y = x along lines between the
    samples.
    """
    now, values = track(periodic, samples=400)
    values = values + np.array([0.0, 0.3]) * np.sign(np.sin(2 * np.pi * now.time / 2.0))[:, None]
    found = replace(now, lag=np.array([0.0, 0.05])).lagged(values)
    np.testing.assert_array_equal(found[:, 0], values[:, 0])
    run = np.concatenate([values[:, 1]] * (3 if periodic else 1))
    y, expected = run[0], [run[0]]
    for a, b in itertools.pairwise(run):
        for x in np.linspace(a, b, 1000, endpoint=False):
            y += (x - y) * now.step / 1000 / 0.05
        expected.append(y)
    np.testing.assert_allclose(found[:, 1], expected[-len(values) :], atol=2e-3)


def test_a_lag_of_small_size_is_a_delay_of_that_size(seen: Evidence) -> None:
    view = seen.views[0]
    if seen.model.loops.redundant:
        assert not entry("effort lag").places(seen)
        return
    found, delay = (entry(name).columns(view, ALL) for name in ("effort lag", "effort delay"))
    np.testing.assert_allclose(found, delay, atol=0.02 * np.abs(delay).max())


def test_missing_terms_are_the_columns_a_file_with_them_would_have() -> None:
    bare = load_robot("five_bar")
    full = replace(
        bare,
        joints=tuple(
            j
            if j.virtual
            else replace(
                j,
                values={},
                terms=tuple(
                    name for name, term in TERMS.items() if j.actuated or not term.load_dependent
                ),
            )
            for j in bare.joints
        ),
    )
    seen = evidence(Model(bare))
    view, model = seen.views[0], Model(full)
    for term, unit in TERMS.items():
        if not unit.fault_candidate:
            continue
        direction = entry(f"missing {unit.label}")
        for place in direction.places(seen):
            assert term not in bare.joint(place).terms
            expected = model.regressor(seen.logs[0].motion, [f"{place}.{term}"])[:, :, 0]
            size = max(np.abs(expected).max(), 1)
            np.testing.assert_allclose(direction.columns(view, place), expected, atol=1e-9 * size)
    assert "left.motor" not in entry("missing viscous friction").places(seen)
    assert "left.elbow" in entry("missing Coulomb friction").places(seen)


def test_a_load_is_carried_by_one_log_and_no_other() -> None:
    seen = evidence(Model(load_robot("five_bar")), logs=2)
    twins = evidence_of(seen.model, seen.base, None, seen.logs)
    assert [log.name for log in twins.logs] == ["log (1)", "log (2)"]
    direction = entry("unmentioned load")
    assert direction.places(twins) == ("log (1)", "log (2)")
    one, two = twins.views
    expected = twins.model.regressor(one.source.motion, LOAD_PARAMETERS)
    np.testing.assert_allclose(direction.columns(one, "log (1)"), expected, atol=1e-12)
    assert not direction.columns(two, "log (1)").any()
    loaded = evidence(Model(load_robot("five_bar")), payload="disc")
    assert direction.places(loaded) == ()


def test_a_ripple_is_found_at_its_pitch() -> None:
    model = Model(load_robot("five_bar"))
    q = smooth_motion(model).q[:, model.actuated[0]]
    extra = np.zeros((len(q), 2))
    extra[:, 0] = 0.05 * np.sin(2 * np.pi * q / (np.ptp(q) / 4) + 0.3)
    view = evidence(model, extra=extra).views[0]
    wave, tried = view.waves["left.motor"]
    assert 1 / wave == pytest.approx(np.ptp(q) / 4, rel=0.1)
    assert tried > 10
    column = entry("ripple").columns(view, "left.motor")
    assert column.shape == (len(q), 2, 2)
    assert not column[:, 1].any()
    np.testing.assert_allclose((column[:, 0] ** 2).sum(axis=1), 1.0)  # sine and cosine of one phase


def test_friction_with_memory_settles_where_the_sign_stays() -> None:
    seen = evidence(Model(load_robot("five_bar")))
    view = seen.views[0]
    direction = DIRECTIONS["friction with memory"][0]
    column = direction.columns(view, "left.motor")[:, 0]
    sign = np.sign(view.source.motion.qd[:, view.model.actuated[0]])
    since = np.zeros(len(sign))
    for k in range(1, 2 * len(sign)):
        same = sign[k % len(sign)] == sign[(k - 1) % len(sign)]
        since[k % len(sign)] = since[(k - 1) % len(sign)] + view.track.step if same else 0.0
    assert np.abs(column[since > 0.3]).max() < 1e-3  # ten times its memory of 0.03 s
    after = since == 0.0
    np.testing.assert_allclose(
        column[after] * -sign[after], 2 * np.exp(-view.track.step / 0.03), rtol=1e-3
    )


def test_all_directions_stand_side_by_side_and_some_can_be_picked(seen: Evidence) -> None:
    suspicions, columns = stack_directions(seen, seen.views)
    assert columns[0].shape == (*seen.logs[0].part.effort.shape, suspicions[-1].columns[-1] + 1)
    assert len({(s.direction, s.place) for s in suspicions}) == len(suspicions)
    few = [suspicions[5], suspicions[0]]
    again, own = stack_directions(seen, seen.views, few)
    assert [s.same(t) for s, t in zip(again, few)] == [True, True]
    np.testing.assert_array_equal(
        own[0][:, :, list(again[1].columns)], columns[0][:, :, list(few[1].columns)]
    )


def test_a_new_direction_is_one_entry() -> None:
    seen = evidence(Model(load_robot("five_bar")))
    before = dict(DIRECTIONS)
    try:
        register_direction(
            Direction(
                name="hysteresis",
                says="{place}: {size}",
                unit="N m",
                advice="",
                places=lambda seen: ("left.motor",),
                column=lambda view, place: view.effect(
                    np.sign(view.track.acceleration) * [1.0, 0.0]
                ),
            )
        )
        assert "hysteresis" in [s.direction.name for s in stack_directions(seen, seen.views)[0]]
    finally:
        DIRECTIONS.clear()
        DIRECTIONS.update(before)


@pytest.mark.parametrize(
    ("size", "unit", "expected"),
    [
        (2e-3, "s", (2.0, "ms")),
        (1e-3, "m", (1.0, "mm")),
        (np.pi, "rad", (180.0, "deg")),
        (0.1, "1", (10.0, "%")),
        (3.0, "N m", (3.0, "N m")),
    ],
)
def test_sizes_are_told_in_usual_units(size: float, unit: str, expected: tuple[float, str]) -> None:
    value, name = describe(size, unit)
    assert (value, name) == (pytest.approx(expected[0]), expected[1])


def test_axes_of_tilt_are_level_and_unit() -> None:
    for g in ([0, -9.81, 0], [0, 0, -9.8], [1.0, -2.0, 3.0]):
        axes = tilt_axes(np.array(g, dtype=float))
        np.testing.assert_allclose(axes @ axes.T, np.eye(2), atol=1e-12)
        np.testing.assert_allclose(axes @ np.array(g), 0, atol=1e-12)


# -- tracks and sources


def track(periodic: bool, samples: int = 400) -> tuple[Track, np.ndarray]:
    time = np.arange(samples) * 0.01
    values = np.sin(2 * np.pi * time / 4.0)[:, None] * np.array([1.0, 2.0])
    return Track(
        time=time,
        position=values,
        velocity=values,
        acceleration=values,
        effort=values,
        gravity=np.zeros(3),
        periodic=periodic,
        deviations=np.stack([values, -values]),
        lag=np.zeros(2),
    ), values


@pytest.mark.parametrize("periodic", [True, False])
def test_a_shift_takes_values_from_later(periodic: bool) -> None:
    own, values = track(periodic)
    expected = np.sin(2 * np.pi * (own.time + 0.023) / 4.0)[:, None] * np.array([1.0, 2.0])
    inside = slice(0, 390)
    np.testing.assert_allclose(own.shifted(values, 0.023)[inside], expected[inside], atol=1e-6)
    slope = own.slope(values)[5:390]
    np.testing.assert_allclose(
        slope[:, 0], np.pi / 2 * np.cos(np.pi / 2 * own.time[5:390]), atol=1e-3
    )


def test_a_motion_run_faster_is_that_of_the_stretched_clock() -> None:
    own, values = track(True)
    fast = own.clocked(2.0)
    np.testing.assert_allclose(fast.position, values)  # the same places,
    np.testing.assert_allclose(fast.velocity, 2 * values)  # q(2 t)' = 2 q'(2 t),
    np.testing.assert_allclose(fast.acceleration, 4 * values)  # q(2 t)'' = 4 q''(2 t)
    wide = own.with_motion(lambda x: x * [3.0, 1.0])
    for what in (wide.position, wide.velocity, wide.acceleration):
        np.testing.assert_allclose(what, values * [3.0, 1.0])


def test_a_change_of_efforts_is_made_to_their_noise_without_its_offset() -> None:
    own, values = track(True)
    changed = own.with_effort(lambda e: 3 * e + 5)
    np.testing.assert_allclose(changed.effort, 3 * values + 5)
    np.testing.assert_allclose(changed.deviations, 3 * own.deviations, atol=1e-12)


def test_a_shortened_log_keeps_what_is_slow_and_averages_noise() -> None:
    model = Model(load_robot("five_bar"))
    base = base_parameters(model)
    rng = np.random.default_rng(0)
    motion = smooth_motion(model, 900)
    clean = model.inverse_dynamics(motion)
    noise = rng.standard_normal(clean.shape)
    mask = np.ones(clean.shape, bool)
    mask[100:130, 1] = False
    part = replace(
        model.regression(motion, clean + noise, base, covariance=np.eye(2)),
        mask=mask,
        replicates=np.stack([clean + noise, clean - noise]),
    )
    long = Source(
        motion=motion,
        effort=clean + noise,
        dead_band=np.zeros(len(model.home)),
        part=part,
        deviations=np.stack([noise, -noise]),
        periodic=True,
        name="log",
    )
    short = long.shortened(300)
    assert len(short.motion) == 300
    np.testing.assert_allclose(short.motion.time, motion.time[1::3])  # the middle of three
    np.testing.assert_allclose(short.effort, (clean + noise).reshape(300, 3, 2).mean(axis=1))
    np.testing.assert_allclose(short.deviations[0], noise.reshape(300, 3, 2).mean(axis=1))
    np.testing.assert_allclose(short.part.covariance, np.eye(2) / 3)
    counted = short.part.mask
    np.testing.assert_array_equal(counted[:, 0], True)
    assert (~counted[:, 1]).sum() == 11  # samples 100 to 129 touch blocks 33 to 43
    np.testing.assert_allclose(
        short.part.regressor[counted[:, 1]], part.regressor[1::3][counted[:, 1]]
    )
    assert long.shortened(2000) is long


def test_even_blocks_are_made_odd_so_that_no_delay_comes_in() -> None:
    seen = evidence(Model(load_robot("five_bar")))
    short = seen.logs[0].shortened(150)  # two samples each would stand half a sample late
    assert len(short.motion) == 100
    np.testing.assert_allclose(short.motion.time[0], seen.logs[0].motion.time[1])


def test_columns_are_shaped_as_the_regression_was() -> None:
    model = Model(load_robot("five_bar"))
    base = base_parameters(model)
    motion = smooth_motion(model, 400)
    whole = model.regression(motion, model.inverse_dynamics(motion), base)
    some = whole.take(np.arange(20, 380, 4))
    source = Source(
        motion=motion,
        effort=whole.effort,
        dead_band=np.zeros(len(model.home)),
        part=some,
        samples=np.arange(20, 380, 4),
        name="log",
    )
    np.testing.assert_allclose(source.shaped(whole.regressor), some.regressor)
    problem = score_problem(
        Evidence(model=model, base=base, values=np.zeros(len(base)), logs=(source,)).views,
        [whole.regressor[:, :, :2]],
        np.array([2.0, 4.0]),
    )
    np.testing.assert_allclose(problem.columns, problem.regressor[:, :2])
    expected = (some.effort / np.array([2.0, 4.0])).ravel()
    np.testing.assert_allclose(problem.target, expected)


def test_equations_that_do_not_count_are_not_scored() -> None:
    model = Model(load_robot("five_bar"))
    base = base_parameters(model)
    motion = smooth_motion(model, 100)
    whole: Regression = model.regression(motion, model.inverse_dynamics(motion), base)
    mask = np.ones((100, 2), bool)
    mask[10:60, 1] = False
    source = Source(
        motion=motion,
        effort=whole.effort,
        dead_band=np.zeros(len(model.home)),
        part=replace(whole, mask=mask),
        name="log",
    )
    views = Evidence(model=model, base=base, values=np.zeros(len(base)), logs=(source,)).views
    problem = score_problem(views, [np.zeros((100, 2, 1))], np.ones(2))
    assert len(problem.target) == 150
    np.testing.assert_allclose(problem.target, whole.effort[mask])
