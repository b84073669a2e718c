"""A model from a slow log predicts a faster one; the cut-off of the slow one must not stand between
them.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gough import Model, Recording, identify, payload
from gough.identification.experiment import prepare_with_settings
from gough.identification.validation import validate_result
from gough.processing import Processing, raised_cutoff
from tests_support import model_of

RATE = 400.0


@pytest.fixture(scope="module")
def arm() -> Model:
    return model_of("five_bar")


def log(model: Model, pace: float, seed: int, load: np.ndarray | None = None) -> Recording:
    """Thirty seconds of motion that never repeats, up to `pace` times 1.2 Hz, with noise."""
    rng = np.random.default_rng(seed)
    time = np.arange(round(30 * RATE)) / RATE
    waves = pace * rng.uniform(0.2, 1.2, (5, 1))
    phase, size = rng.uniform(0, 6, (5, 2)), 0.12 * rng.uniform(0.5, 1, (5, 2))
    angle = 2 * np.pi * waves[:, :, None] * time + phase[:, :, None]
    q = model.home[list(model.actuated)] + (size[:, :, None] * np.sin(angle)).sum(axis=0).T
    speed = (size[:, :, None] * 2 * np.pi * waves[:, :, None] * np.cos(angle)).sum(axis=0).T
    push = -(size[:, :, None] * (2 * np.pi * waves[:, :, None]) ** 2 * np.sin(angle)).sum(axis=0).T
    effort = model.inverse_dynamics(
        model.kinematics.motion(time, q, speed, push, "actuated"), load=load
    )
    names = model.mechanism.actuated
    return Recording(
        joints=names,
        time=time,
        position=q + 2e-6 * rng.standard_normal(q.shape),
        effort=effort + 0.02 * rng.standard_normal(q.shape),
        source=f"pace {pace:g}",
        position_units=tuple(model.mechanism.joint(name).unit for name in names),
    )


@pytest.mark.parametrize("seed", range(2))
def test_a_log_five_times_as_fast_is_predicted_and_the_model_is_called_good(
    arm: Model, seed: int
) -> None:
    """With the cut-off of the slow log its motion would be missing: 20 % and more of the effort,
    and 'wrong'.
    """
    slow, fast = log(arm, 1.0, seed), log(arm, 5.0, 10 + seed)
    result = identify(arm, slow, held_out=fast)
    assert result.validation is not None
    assert result.validation.relative.max() < 0.03
    warned = {notice.rule for notice in result.notices if notice.level != "info"}
    assert warned <= {"beyond limit"}  # the motion needs more than the motors of the file give
    assert "move faster than the cut-off" in result.validation.notices[-1].text
    again = validate_result(arm, result, [fast])
    assert again.relative == pytest.approx(result.validation.relative, rel=1e-6)
    assert not any("machine has changed" in str(notice) for notice in again.notices)


def test_a_given_cut_off_is_kept(arm: Model) -> None:
    slow, fast = log(arm, 1.0, 0), log(arm, 5.0, 10)
    result = identify(arm, slow, held_out=fast, cutoff=5.0)
    assert result.validation is not None
    assert result.validation.relative.max() > 0.1
    assert validate_result(arm, result, [fast]).relative.max() > 0.1


def test_a_log_as_slow_keeps_the_cut_off_and_a_wrong_model_does_not_raise_it(arm: Model) -> None:
    result = identify(arm, log(arm, 1.0, 0))
    base, values = (
        result.base,
        dict(zip(result.estimate.parameters, result.estimate.values.tolist())),
    )
    settings = Processing(
        method="time", cutoff=5.0, decimation=40, window=0.0, joints_at_rest=(), dead_band=0.0
    )
    for wrong in (1.0, 1.5):
        assert (
            raised_cutoff(
                arm,
                [log(arm, 1.0, 1)],
                base,
                settings,
                {name: wrong * value for name, value in values.items()},
            )
            == settings
        )
    raised = raised_cutoff(arm, [log(arm, 5.0, 1)], base, settings, values)
    assert raised == replace(settings, cutoff=raised.cutoff, decimation=raised.decimation)
    assert raised.cutoff in (10.0, 20.0, 40.0)


def test_a_log_shorter_than_the_filter_of_the_others_is_predicted(arm: Model) -> None:
    """Three seconds beside a cut-off of 1 Hz: the ends that the filter spoils are longer."""
    result = identify(arm, log(arm, 1.0, 0))
    values = dict(zip(result.estimate.parameters, result.estimate.values.tolist()))
    settings = replace(result.processing, cutoff=1.0, decimation=None)
    short = log(arm, 1.0, 1).take(slice(0, round(3 * RATE)))
    held_out = prepare_with_settings(arm, [short], result.base, settings, values, None)
    assert held_out.processing.cutoff >= 7.0
    assert len(held_out.processed[0]) > 0.4 * len(short)


def test_a_repeated_motion_keeps_its_own_harmonics(arm: Model) -> None:
    """Four periods of 4 s, then of 1 s: the slow log's highest harmonic lies below the fast one's
    second.
    """

    def periodic(period: float, source: str) -> Recording:
        time = np.arange(round(4 * period * RATE)) / RATE
        turn = 2 * np.pi * np.array([1.0, 2.0, 3.0])[:, None] / period
        size, phase = (
            0.15 * np.array([[1.0, 0.7], [0.6, -1.0], [-0.5, 0.4]]),
            np.array([[0.0, 1.0], [2, 0], [1, 3]]),
        )
        angle = turn[:, :, None] * time[:, None] + phase[:, None, :]
        q = arm.home[list(arm.actuated)] + (size[:, None] * np.sin(angle)).sum(axis=0)
        speed = (size[:, None] * turn[:, :, None] * np.cos(angle)).sum(axis=0)
        push = -(size[:, None] * turn[:, :, None] ** 2 * np.sin(angle)).sum(axis=0)
        effort = arm.inverse_dynamics(arm.kinematics.motion(time, q, speed, push, "actuated"))
        rng = np.random.default_rng(round(period))
        return Recording(
            joints=arm.mechanism.actuated,
            position_units=("rad", "rad"),
            time=time,
            source=source,
            position=q + 2e-5 * rng.standard_normal(q.shape),
            period_samples=round(period * RATE),
            effort=effort + 0.02 * rng.standard_normal(q.shape),
        )

    result = identify(arm, periodic(4.0, "slow"), held_out=periodic(1.0, "fast"))
    assert result.validation is not None
    assert result.validation.relative.max() < 0.03
    assert result.level == "ok"


@pytest.mark.parametrize("seed", range(2))
def test_a_load_is_found_in_a_log_five_times_as_fast_as_that_of_the_model(
    arm: Model, seed: int
) -> None:
    """With the cut-off of the model it came out 1 to 2 % heavier, by 11 to 40 of its sigmas."""
    ten = np.array([2.0, 0, 0, 0, 0.05, 0, 0.05, 0, 0, 0.05])
    found = payload(arm, log(arm, 5.0, 10 + seed, ten), result=identify(arm, log(arm, 1.0, seed)))
    assert found.processing.cutoff is not None
    assert found.estimate.values[0] == pytest.approx(2.0, abs=3 * found.estimate.std[0])
    assert found.estimate.std[0] < 0.01


def test_a_window_that_takes_most_of_one_row_of_one_log_is_narrower(arm: Model) -> None:
    """Row by row and log by log: one motor that reverses often is enough, and the other log keeps
    all of its rows.
    """
    calm, busy = log(arm, 0.2, 0), log(arm, 0.2, 1)
    time = busy.time - busy.time[0]
    restless = busy.position.copy()
    restless[:, 0] = arm.home[arm.actuated[0]] + 0.02 * np.sin(
        2 * np.pi * 3 * time
    )  # reverses each 0.17 s
    base = identify(arm, log(arm, 1.0, 0)).base
    wide = Processing(
        method="time", cutoff=20.0, decimation=1, window=0.06, joints_at_rest=(), dead_band=0.0
    )
    kept = prepare_with_settings(arm, [calm], base, wide, None, None)
    assert kept.processing.window == 0.06
    done = prepare_with_settings(
        arm, [calm, replace(busy, position=restless)], base, wide, None, None
    )
    assert done.processing.window == 0.03
    shares = [each.valid.mean(axis=0) for each in done.processed]
    assert shares[1].argmin() == 0
    assert min(share.min() for share in shares) >= 0.5
