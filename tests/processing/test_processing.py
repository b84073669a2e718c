"""From recording to regression: motions recovered, blocks equal to the whole, bad logs refused."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.signal import butter, sosfiltfilt

from gough.core.errors import InvalidInput, InvalidRecording
from gough.engine import Model, base_parameters
from gough.fitting.least_squares import WeightedLeastSquares
from gough.fitting.regression import block_statistics
from gough.logs.readers import read_recording
from gough.logs.recording import Recording
from gough.logs.recording_sources import open_recording
from gough.processing import (
    Processing,
    choose_processing,
    log_statistics,
    process,
    regression,
    regression_blocks,
)
from gough.virtual import Simulation
from tests_support import model_of

DATA = Path(__file__).parents[3] / "shared" / "data" / "upv_3ups_rpu"
EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.parametrize(("method", "share"), [("explicit", 0.05), ("time", 0.2)])
def test_the_motion_is_recovered_from_noisy_positions(
    five_bar: Model, five_bar_run: Simulation, five_bar_log: Recording, method: str, share: float
) -> None:
    done = process(five_bar, five_bar_log, Processing(method=method))
    true = five_bar_run.motion()
    at = np.searchsorted(true.time, done.motion.time - 1e-9)
    for name in ("qd", "qdd"):
        got, expected = getattr(done.motion, name), getattr(true, name)[at]
        wide = Processing(method=method, cutoff=done.cutoff, window=0.05)
        away = process(five_bar, five_bar_log, wide).valid.all(axis=1)
        error = np.sqrt(np.mean((got - expected)[away] ** 2, axis=0)) / np.sqrt(
            np.mean(expected[away] ** 2, axis=0)
        )
        assert error.max() < share, (name, error)


def test_filtering_in_time_is_less_accurate_than_over_whole_periods(
    five_bar: Model, five_bar_run: Simulation, five_bar_log: Recording
) -> None:
    """AH09 Fig. 4: raw is worse than time-domain filtering, which is worse than the frequency
    domain.
    """
    true = five_bar_run.motion()
    errors = {}
    for method in ("explicit", "time", "raw"):
        done = process(
            five_bar, five_bar_log, Processing(method=method, window=0.05, dead_band=1e-3)
        )
        at = np.searchsorted(true.time, done.motion.time - 1e-9)
        away = done.valid.all(axis=1)
        errors[method] = float(np.sqrt(np.mean((done.motion.qd - true.qd[at])[away] ** 2)))
    assert errors["explicit"] < errors["time"] < errors["raw"]


def test_averaged_efforts_carry_their_replicates_and_covariance(
    five_bar: Model, five_bar_log: Recording
) -> None:
    done = process(five_bar, five_bar_log)
    problem = regression(five_bar, done, base_parameters(five_bar))
    assert problem.replicates is not None
    np.testing.assert_allclose(problem.replicates.mean(axis=0), problem.effort, atol=1e-12)
    scatter = problem.replicates - problem.effort
    count = len(problem.replicates)
    expected = np.einsum("kti,ktj->ij", scatter, scatter) / (len(problem) * (count - 1)) / count
    np.testing.assert_allclose(problem.covariance, expected, rtol=1e-10)


def test_filtering_the_efforts_biases_friction(five_bar: Model, five_bar_log: Recording) -> None:
    """AH09 3.3: smoothing the steps of friction in the efforts alone contradicts the model."""
    base = base_parameters(five_bar)
    true = dict(zip(base.names, base.values(five_bar.values(base.standard))))
    done = process(five_bar, five_bar_log)
    sections = butter(4, 2 * 2.5, fs=five_bar_log.rate, output="sos")
    three = np.concatenate([done.effort] * 3)
    smooth = sosfiltfilt(sections, three, axis=0)[len(done.effort) : 2 * len(done.effort)]
    errors = []
    for effort in (done.effort, smooth):
        problem = replace(regression(five_bar, done, base), replicates=None)
        fit = WeightedLeastSquares(uncertainty="white").fit(replace(problem, effort=effort))
        errors.append(sum(abs(fit[n] - true[n]) for n in base.names if n.endswith(".fs")))
    assert errors[1] > 3 * errors[0]


SETTINGS = Processing(
    method="time",
    cutoff=30.0,
    decimation=6,
    dead_band={"left.motor": 1e-2, "right.motor": 1e-2},
    window=0.02,
    joints_at_rest=(),
)


@pytest.mark.parametrize("decimation", [1, 6])
def test_blocks_equal_the_whole_log_to_rounding(
    five_bar: Model, five_bar_log: Recording, monkeypatch: pytest.MonkeyPatch, decimation: int
) -> None:
    """Regressor, effort, masks, groups and samples; with factors, counts and standard deviations
    that follow.
    """
    monkeypatch.setattr("gough.processing.pipeline.FILTERED_SAMPLES", 2500)
    monkeypatch.setattr("gough.processing.pipeline.REGRESSOR_SAMPLES", 700)
    base = base_parameters(five_bar)
    settings = replace(SETTINGS, decimation=decimation)
    log = replace(five_bar_log, period_samples=None)
    whole = regression(five_bar, process(five_bar, log, settings), base)
    parts = list(regression_blocks(five_bar, log, base, settings))
    assert len(parts) > 5
    for name in ("time", "sample", "mask"):
        np.testing.assert_array_equal(
            np.concatenate([getattr(p, name) for p in parts]), getattr(whole, name)
        )
    assert 0.1 < 1 - whole.mask.mean() < 0.5
    for name in ("regressor", "effort"):
        expected = getattr(whole, name)
        got = np.concatenate([getattr(p, name) for p in parts])
        np.testing.assert_allclose(got, expected, atol=1e-10 * np.abs(expected).max())
    condensed = log_statistics(five_bar, [log, log], base, settings)
    direct = block_statistics([replace(whole, recording=np.full(len(whole), k)) for k in range(2)])
    np.testing.assert_array_equal(condensed.n_valid, direct.n_valid)
    grams = [c.factors.swapaxes(-1, -2) @ c.factors for c in (condensed, direct)]
    np.testing.assert_allclose(*grams, atol=1e-9 * np.abs(grams[1]).max())
    estimates = [WeightedLeastSquares().fit(problem) for problem in (condensed, direct)]
    assert np.abs((estimates[0].values - estimates[1].values) / estimates[1].std).max() < 1e-7
    np.testing.assert_allclose(estimates[0].std, estimates[1].std, rtol=1e-6)


@pytest.mark.parametrize("samples", [40, 100, 300, 1000, 2600])
def test_short_logs_lose_the_same_ends_whole_and_in_blocks(
    five_bar: Model, five_bar_log: Recording, monkeypatch: pytest.MonkeyPatch, samples: int
) -> None:
    monkeypatch.setattr("gough.processing.pipeline.FILTERED_SAMPLES", 600)
    log = replace(five_bar_log.take(slice(0, samples)), period_samples=None)
    settings = replace(SETTINGS, decimation=1)
    base = base_parameters(five_bar)
    whole = regression(five_bar, process(five_bar, log, settings), base)
    parts = list(regression_blocks(five_bar, log, base, settings))
    np.testing.assert_array_equal(np.concatenate([p.time for p in parts]), whole.time)
    assert len(whole) >= 0.75 * samples


def test_what_is_complete_chooses_nothing(
    five_bar: Model, five_bar_log: Recording, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = choose_processing(five_bar, [five_bar_log]).processing
    assert chosen.complete

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("something is chosen")

    monkeypatch.setattr("gough.processing.pipeline.choose_processing", refuse)
    for log in (five_bar_log, replace(five_bar_log, period_samples=None)):
        assert len(process(five_bar, log, chosen)) > 1000


def test_a_log_that_cannot_be_filtered_is_named(five_bar: Model, five_bar_log: Recording) -> None:
    few = replace(five_bar_log.take(slice(0, 10)), period_samples=None, source="run7.csv")
    bare = replace(five_bar_log, effort=None, period_samples=None, source="run7.csv")
    for log, words in (
        (few, "10 samples are too few to filter"),
        (bare, "neither effort nor current"),
    ):
        with pytest.raises(InvalidRecording, match=rf"run7\.csv: .*{words}"):
            process(five_bar, log, SETTINGS)
        with pytest.raises(InvalidRecording, match=rf"run7\.csv: .*{words}"):
            log_statistics(five_bar, [log], base_parameters(five_bar), SETTINGS)


def test_a_few_lost_samples_leave_a_periodic_log_periodic(
    five_bar: Model, five_bar_log: Recording
) -> None:
    lost = [700, 701, 2500]
    time = np.delete(five_bar_log.time, lost)
    log = replace(
        five_bar_log,
        time=time,
        position=np.delete(five_bar_log.position, lost, axis=0),
        velocity=None,
        effort=np.delete(five_bar_log.effort, lost, axis=0),
        reference=None,
    )
    found, whole = process(five_bar, log), process(five_bar, five_bar_log)
    assert (found.method, found.periods) == ("explicit", whole.periods)
    assert [f.rule for f in found.notices if f.rule == "resampled"] == ["resampled"]
    scale = np.abs(whole.motion.qdd).max(axis=0)
    assert np.abs((found.motion.qdd - whole.motion.qdd) / scale).max() < 1e-2
    assert np.abs(found.effort - whole.effort).max() < 5 * np.sqrt(np.diag(whole.covariance).max())


def test_a_long_gap_is_refused_whole_and_in_blocks(
    five_bar: Model, five_bar_log: Recording, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gough.processing.pipeline.FILTERED_SAMPLES", 1000)
    first = len(five_bar_log) - 600  # far behind the first window
    log = five_bar_log.take(np.delete(np.arange(len(five_bar_log)), np.arange(first, first + 100)))
    with pytest.raises(InvalidRecording, match=rf"no samples for .* after sample {first - 1}"):
        process(five_bar, log)
    with pytest.raises(InvalidRecording, match=rf"no samples for .* after sample {first - 1}"):
        log_statistics(
            five_bar, [replace(log, period_samples=None)], base_parameters(five_bar), SETTINGS
        )


def test_memory_does_not_grow_with_the_log(
    five_bar: Model, five_bar_log: Recording, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gough.processing.pipeline.FILTERED_SAMPLES", 2048)
    monkeypatch.setattr("gough.processing.pipeline.REGRESSOR_SAMPLES", 1024)
    base = base_parameters(five_bar)
    settings = replace(SETTINGS, decimation=1)
    peaks = []
    one = five_bar_log.take(slice(0, five_bar_log.period_samples))
    for repeats in (2, 8):
        count = len(one) * repeats
        long = replace(
            one,
            time=np.arange(count) / one.rate,
            position=np.tile(one.position, (repeats, 1)),
            effort=np.tile(one.effort, (repeats, 1)),
            velocity=None,
            reference=None,
            period_samples=None,
            notices=(),
        )
        path = long.save(tmp_path / f"log{repeats}.npz")
        del long
        source = open_recording(path)
        tracemalloc.start()
        condensed = log_statistics(five_bar, [source], base, settings)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert condensed.samples > 0.9 * count
    assert peaks[1] < 1.3 * peaks[0]


def test_joints_in_another_order_give_the_same_regression(
    five_bar: Model, five_bar_log: Recording
) -> None:
    swapped = replace(
        five_bar_log,
        joints=five_bar_log.joints[::-1],
        position=five_bar_log.position[:, ::-1],
        effort=five_bar_log.effort[:, ::-1],
        reference=None if five_bar_log.reference is None else five_bar_log.reference[:, ::-1],
    )
    base = base_parameters(five_bar)
    first, second = (
        regression(five_bar, process(five_bar, r), base) for r in (five_bar_log, swapped)
    )
    np.testing.assert_array_equal(first.regressor, second.regressor)
    np.testing.assert_array_equal(first.effort, second.effort)


def test_a_log_of_another_robot_is_refused(five_bar_log: Recording) -> None:
    with pytest.raises(InvalidRecording, match="no column for the actuated joint 'leg1"):
        process(model_of("palida"), five_bar_log)


def test_a_log_without_efforts_is_refused(five_bar: Model, five_bar_log: Recording) -> None:
    with pytest.raises(InvalidRecording, match="neither effort nor current"):
        process(five_bar, replace(five_bar_log, effort=None))


def test_an_angle_recorded_as_a_length_is_refused(five_bar: Model, five_bar_log: Recording) -> None:
    wrong = replace(five_bar_log, position_units=("m", "rad"))
    message = "position of 'left.motor' has a unit of length, expected angle"
    with pytest.raises(InvalidRecording, match=message):
        process(five_bar, wrong)


def test_an_unknown_payload_is_refused(five_bar: Model, five_bar_log: Recording) -> None:
    with pytest.raises(InvalidInput, match="no payload 'brick'"):
        process(five_bar, replace(five_bar_log, payload="brick"))


def test_explicit_processing_refuses_a_log_without_periods(
    five_bar: Model, five_bar_log: Recording
) -> None:
    with pytest.raises(InvalidRecording, match="hold 0 whole periods"):
        process(five_bar, replace(five_bar_log, period_samples=None), Processing(method="explicit"))


def test_a_cutoff_above_nyquist_is_refused(five_bar: Model, five_bar_log: Recording) -> None:
    for method in ("explicit", "time"):
        with pytest.raises(InvalidInput, match="Nyquist"):
            process(five_bar, five_bar_log, Processing(method=method, cutoff=600.0))


@pytest.mark.skipif(not DATA.exists(), reason="the UPV measurements are not here")
def test_upv_forward_kinematics_meets_controller_and_camera() -> None:
    model = model_of("upv")
    log = read_recording(DATA / "exp_01_02_2021-10_29_52", EXAMPLES / "upv_run_mocap.toml")
    q = model.kinematics.close_loops(log.position, "actuated", time=log.time)
    for k, name in enumerate(log.pose.names):
        gap = log.pose.values[:, k] - q[:, model.mechanism.coordinates.index(name)]
        assert np.sqrt(np.mean(gap**2)) < 2e-5, (
            name
        )  # the controller's own forward kinematics: micrometres
    for k, name in enumerate(log.mocap.names):
        gap = log.mocap.values[:, k] - q[:, model.mechanism.coordinates.index(name)]
        assert gap.std() < 4e-3, (
            name
        )  # an outside instrument in a frame of its own: millimetres, milliradians
