"""The processing of an experiment is chosen by prediction: cut-off, dead bands, window, joints that
stand.
"""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from gough.core.errors import InvalidInput, InvalidRecording, SingularConfiguration
from gough.engine import Model, base_parameters
from gough.logs.recording import Recording
from gough.logs.recording_sources import open_recording
from gough.mechanism import parse_robot
from gough.processing import Processing, choice, choose_processing, match_robot
from gough.processing.choice import samples_of_logs
from gough.processing.cross_validation import CrossValidation, prediction_errors
from gough.processing.filters import decimation_taps, differentiate, lowpass
from gough.processing.settings import decimation_of
from tests_support import axis_file

AXIS = axis_file("""terms = ["fv", "fs", "off"]
""")
RATE = 500.0


@pytest.fixture(scope="module")
def axis() -> Model:
    return Model(parse_robot(AXIS, "axis"))


def run(
    seconds: float = 20.0,
    *,
    noise: float = 1e-5,
    step: float = 0.0,
    vibration: float = 0.0,
    seed: int = 0,
    rest: float = 0.0,
) -> Recording:
    """A car of 10 kg that never repeats itself; `vibration` shakes its encoder at 60 Hz, `rest` is
    stood at the end.
    """
    rng = np.random.default_rng(seed)
    t = np.arange(round(seconds * RATE)) / RATE
    waves = [(f, p, 0.05 / f) for f, p in rng.uniform([0.2, 0], [1.5, 6], (4, 2))]
    q = sum(a * np.sin(2 * np.pi * f * t + p) for f, p, a in waves)
    qd = sum(a * 2 * np.pi * f * np.cos(2 * np.pi * f * t + p) for f, p, a in waves)
    qdd = -sum(a * (2 * np.pi * f) ** 2 * np.sin(2 * np.pi * f * t + p) for f, p, a in waves)
    effort = 10 * qdd + 30 * qd + 5 * np.sign(qd) - 1 + 0.2 * rng.standard_normal(len(t))
    if rest:
        stop = len(t)
        t = np.arange(stop + round(rest * RATE)) / RATE
        q = np.concatenate([q, np.full(len(t) - stop, q[-1])])
        effort = np.concatenate([effort, np.full(len(t) - stop, 3.0)])
    q = q + vibration * np.sin(2 * np.pi * 60 * t) + noise * rng.standard_normal(len(t))
    q = np.round(q / step) * step if step else q
    return Recording(
        joints=("slide",),
        time=t,
        position=q[:, None],
        position_units=("m",),
        effort=effort[:, None],
    )


def slow_errors(log: Recording, cutoff: float, every: int = 1) -> float:
    """The rule written out with whole arrays: five blocks, guard, decimated fit, recorded effort
    predicted.
    """
    _q, qd, qdd = differentiate(log.position, RATE, cutoff)
    W = np.column_stack([qdd, qd, np.sign(qd), np.ones_like(qd)])
    y, t, edge = log.effort[:, 0], log.time, int(np.ceil(3 * RATE / cutoff))
    inner = slice(edge, len(t) - edge)
    factor = decimation_of(cutoff, RATE)
    half = (len(decimation_taps(factor)) - 1) // 2
    small, effort = lowpass(W[inner], factor), lowpass(y[inner], factor)
    times = t[inner][half : half + (len(effort) - 1) * factor + 1 : factor]
    margin = 3 / (21 / (len(t) / RATE))
    borders = np.linspace(t[0] + margin, t[-1] - margin, 6)
    wrong = size = 0.0
    for low, high in itertools.pairwise(borders):
        rest = (times <= low - 1 / cutoff) | (times >= high + 1 / cutoff)
        x = np.linalg.lstsq(small[rest], effort[rest], rcond=None)[0]
        here = (t >= low) & (t < high) & (np.arange(len(t)) % every == 0)
        wrong += float(((y - W @ x)[here] ** 2).sum())
        size += float((y[here] ** 2).sum())
    return float(np.sqrt(wrong / size))


def test_a_log_of_a_low_rate_is_judged_by_blocks_of_enough_samples(axis: Model) -> None:
    """As if the times of a log at 500 Hz were in seconds instead of milliseconds."""
    log = run(10.0)
    slow = replace(log, time=1000.0 * log.time)
    assert 0 < choose_processing(axis, [slow]).processing.cutoff < 0.25


def test_candidates_have_the_errors_of_the_rule_written_out(axis: Model) -> None:
    """Thinned grids and moments of folds in place of whole arrays: the same curve on the same
    samples to 2 %.
    """
    log = run(40.0, noise=1e-4)
    tried = choose_processing(axis, [log], settings=Processing(window=0.0, dead_band=0.0)).cutoffs
    assert 8 <= len(tried) <= 15
    assert [c.cutoff for c in tried] == sorted(c.cutoff for c in tried)
    every = CrossValidation(axis, [match_robot(axis, log)], base_parameters(axis), None).stride
    assert every == 4
    for candidate in tried[1:]:  # of what lies below the motion nothing is left to compare
        slow = slow_errors(log, candidate.cutoff, every)
        assert candidate.error == pytest.approx(slow, rel=0.02), candidate.cutoff


@pytest.mark.parametrize("seed", range(3))
def test_more_noise_asks_for_a_lower_cut_off(axis: Model, seed: int) -> None:
    """The lowest of the last octave that predicts as well as the best; how high one may go falls
    with the noise.
    """
    highest = []
    for noise in (1e-6, 1e-4, 1e-3):
        choice = choose_processing(axis, [run(noise=noise, seed=seed)])
        tried, chosen = choice.cutoffs, choice.processing
        least = min(c.error for c in tried)
        good = [c.cutoff for c in tried if c.error <= 1.005 * least]
        assert chosen.cutoff == min(c for c in good if c >= max(good) / 2)
        assert chosen.decimation == decimation_of(chosen.cutoff, RATE)
        assert 1.5 <= chosen.cutoff <= 50.0  # the motion ends at 1.5 Hz
        highest.append(max(c.cutoff for c in tried if c.error <= 1.1 * least))
    assert highest[0] > 2 * highest[1] > 2 * highest[2]


def test_the_search_ends_at_the_first_cut_off_that_lets_mostly_noise_pass(axis: Model) -> None:
    tried = choose_processing(axis, [run(noise=1e-3)]).cutoffs
    octaves = [tried[0].cutoff * 2.0**k for k in range(20)]
    errors = [candidate.error for candidate in tried if candidate.cutoff in octaves]
    ratios = [error / min(errors[: k + 1]) for k, error in enumerate(errors)]
    assert ratios[-1] > 2
    assert max(ratios[:-1]) <= 2
    assert tried[-1].cutoff < 0.25 * RATE


def test_a_vibration_of_the_encoder_that_no_spectral_rule_expects_is_filtered_out(
    axis: Model,
) -> None:
    chosen = choose_processing(axis, [run(vibration=2e-4)]).processing
    assert chosen.cutoff < 40.0


def test_what_is_given_is_kept_and_the_rest_follows_from_it(axis: Model) -> None:
    choice = choose_processing(
        axis, [run()], settings=Processing(cutoff=7.0, window=0.03, dead_band={"slide": 0.01})
    )
    used = choice.processing
    assert (used.method, used.cutoff, used.window, used.dead_band) == (
        "time",
        7.0,
        0.03,
        {"slide": 0.01},
    )
    assert used.decimation == decimation_of(7.0, RATE) == 28
    assert choice.cutoffs == choice.windows == ()
    assert used.complete
    assert choose_processing(axis, [run()], settings=used).processing == used
    assert (
        choose_processing(axis, [run()], settings=Processing(decimation=5)).processing.decimation
        == 5
    )


def test_one_processing_for_several_logs_looks_at_all_of_them(axis: Model) -> None:
    quiet, rough = run(noise=1e-6, seed=1), run(noise=1e-3, seed=2)
    alone = [choose_processing(axis, [log]).processing for log in (quiet, rough)]
    both = choose_processing(axis, [quiet, rough]).processing
    assert alone[1].cutoff * (1 - 1e-9) <= both.cutoff <= alone[0].cutoff
    scale = (both.cutoff / alone[1].cutoff) ** 1.5
    assert both.dead_band["slide"] == pytest.approx(scale * alone[1].dead_band["slide"], rel=0.05)


def test_the_order_of_logs_does_not_matter(axis: Model) -> None:
    logs = [run(seed=1), run(seed=2, noise=1e-4)]
    first, second = (choose_processing(axis, order).processing for order in (logs, logs[::-1]))
    assert first.cutoff == second.cutoff
    assert first.window == second.window


def test_a_dead_band_is_three_deviations_of_the_velocity_noise(axis: Model) -> None:
    chosen = choose_processing(axis, [run(noise=2e-5)], settings=Processing(cutoff=10.0)).processing
    expected = 3 * 2e-5 * np.sqrt(8 * np.pi**2 / 3 * 10.0**3 / RATE)
    assert chosen.dead_band["slide"] == pytest.approx(expected, rel=0.1)


def test_a_motor_that_mostly_stands_has_the_dead_band_of_its_encoder_and_stays_in_the_fit(
    axis: Model,
) -> None:
    settings = Processing(cutoff=10.0)
    moving = choose_processing(
        axis, [run(10.0, noise=0.0, step=1e-4)], settings=settings
    ).processing
    mostly = choose_processing(
        axis, [run(10.0, noise=0.0, step=1e-4, rest=40.0)], settings=settings
    ).processing
    assert mostly.dead_band["slide"] == pytest.approx(moving.dead_band["slide"], rel=0.5)
    assert mostly.dead_band["slide"] > 0
    assert mostly.joints_at_rest == ()
    nearly_always = choose_processing(
        axis, [run(5.0, noise=0.0, step=1e-4, rest=95.0)], settings=settings
    ).processing
    assert nearly_always.joints_at_rest == ("slide",)


def test_a_window_is_taken_where_reversals_are_not_coulomb_friction(axis: Model) -> None:
    """Friction that needs 80 ms to build up after a reversal spoils these samples by up to 2 fs."""
    log = run(40.0, noise=1e-6)
    sign = np.sign(np.gradient(np.asarray(log.position[:, 0])))
    keep = np.exp(-1 / (RATE * 0.08))
    lagged = np.empty_like(sign)
    state = sign[0]
    for k, s in enumerate(sign):
        state = keep * state + (1 - keep) * s
        lagged[k] = state
    slow = replace(log, effort=log.effort + 15 * (lagged - sign)[:, None])
    settings = Processing(cutoff=20.0)
    assert choose_processing(axis, [log], settings=settings).processing.window == pytest.approx(
        2 / RATE
    )
    choice = choose_processing(axis, [slow], settings=settings)
    assert choice.processing.window >= 0.05
    errors = {c.window: c.error for c in choice.windows}
    assert errors[choice.processing.window] < 0.9 * errors[min(errors)]


def test_no_window_takes_more_than_half_of_a_row(axis: Model) -> None:
    t = np.arange(10_000) / RATE
    q = 0.002 * np.sin(2 * np.pi * 5 * t) + 0.01 * np.sin(2 * np.pi * 0.31 * t)
    log = replace(run(), time=t, position=q[:, None])
    choice = choose_processing(axis, [log], settings=Processing(cutoff=30.0))
    assert len(choice.windows) >= 2
    assert max(c.window for c in choice.windows) * 2 * 10 < 0.6  # ten reversals in a second


def test_a_robot_that_does_not_rub_has_no_window() -> None:
    smooth = Model(parse_robot(AXIS.replace('"fs", ', ""), "axis"))
    choice = choose_processing(smooth, [run()], settings=Processing(cutoff=10.0))
    assert choice.processing.window == 0.0
    assert choice.windows == ()


def test_currents_of_unknown_gain_give_the_same_choice_as_efforts(axis: Model) -> None:
    log = run(noise=1e-4)
    currents = replace(log, effort=None, current=log.effort / 7.3, current_units=("A",))
    one, two = (choose_processing(axis, [x]).processing for x in (log, currents))
    assert (one.cutoff, one.window) == (two.cutoff, two.window)
    with pytest.raises(InvalidRecording, match="some logs hold efforts, others currents"):
        choose_processing(axis, [log, currents])


def test_a_long_log_is_chosen_from_by_stretches_of_it(axis: Model, tmp_path: Path) -> None:
    """The same from memory and from the file, and near what the whole would give."""
    long = run(700.0, noise=1e-4)
    source = open_recording(long.save(tmp_path / "long.npz"))
    memory, file = (choose_processing(axis, [log]).processing for log in (long, source))
    assert memory.cutoff == file.cutoff
    assert memory.window == file.window
    assert memory.dead_band == pytest.approx(file.dead_band, rel=1e-6)
    assert 2.5 <= memory.cutoff <= 12.0


def test_what_is_chosen_from_does_not_grow_with_the_log(axis: Model) -> None:
    """With a given cut-off twelve blocks of 2.5 s, or as long as its filter needs."""
    logs = [run(seconds, noise=1e-4) for seconds in (60.0, 200.0, 400.0)]
    for cutoff, seconds in ((20.0, 12 * 2.5), (3.0, 12 * 7.0)):
        settings = Processing(method="time", cutoff=cutoff)
        short, *long = [samples_of_logs(axis, [log], settings) for log in logs]
        assert [len(log) for log in short] == [len(logs[0])]
        if cutoff == 3.0:
            long = long[1:]
        for blocks in long:
            assert len(blocks) == 12
            total = sum(len(block) for block in blocks)
            assert total == pytest.approx(seconds * logs[0].rate, rel=0.01)


def test_a_given_cutoff_is_completed_alike_from_a_part_of_a_long_log(axis: Model) -> None:
    settings = Processing(method="time", cutoff=20.0, decimation=1)
    short = choose_processing(axis, [run(60.0, noise=1e-4)], settings=settings).processing
    long = choose_processing(axis, [run(240.0, noise=1e-4)], settings=settings).processing
    assert long.dead_band == pytest.approx(short.dead_band, rel=0.1)
    assert 0.5 <= long.window / short.window <= 2.0


def test_the_choice_is_told_and_stored_as_plain_values(axis: Model) -> None:
    choice = choose_processing(axis, [run()])
    text = choice.summary()
    assert f"cut-off {choice.processing.cutoff:.4g} Hz" in text
    assert text.count("<- chosen") == 2
    [(joint, band)] = choice.processing.dead_band.items()
    assert f"joints count as moving above (m/s or rad/s): {joint} {band:.2g}" in text
    stored = json.loads(json.dumps(choice.to_dict()))
    assert [c["cutoff"] for c in stored["cutoffs"]] == [c.cutoff for c in choice.cutoffs]
    assert len(stored["cutoffs"][0]["errors"]) == 1


def test_a_cut_off_that_bends_the_path_into_a_singularity_is_left_out(
    axis: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = choose_processing(axis, [run()]).processing.cutoff
    assert expected is not None
    tried_cutoff = choice._tried_cutoff
    impossible_below = [expected / 3]

    def some_impossible(validation, settings, cutoff, margin):  # type: ignore[no-untyped-def]
        if cutoff < impossible_below[0]:
            raise SingularConfiguration(f"singular at {cutoff:.3g} Hz")
        return tried_cutoff(validation, settings, cutoff, margin)

    monkeypatch.setattr(choice, "_tried_cutoff", some_impossible)
    chosen = choose_processing(axis, [run()])
    assert chosen.processing.cutoff == expected
    assert all(one.cutoff is not None and one.cutoff > expected / 3 for one in chosen.cutoffs)
    impossible_below[0] = np.inf
    with pytest.raises(SingularConfiguration, match="singular at"):
        choose_processing(axis, [run()])


def test_there_must_be_a_log(axis: Model) -> None:
    with pytest.raises(InvalidInput, match="no recording to choose"):
        choose_processing(axis, [])


def test_predictions_of_exact_data_are_exact(axis: Model) -> None:
    """Second opinion on moments, folds and weights: without noise and friction every block is
    predicted to rounding.
    """
    t = np.arange(10_000) / RATE
    w = 2 * np.pi * np.array([0.4, 1.1])
    q, qd, qdd = (
        np.sin(np.outer(t, w)),
        np.cos(np.outer(t, w)) * w,
        -np.sin(np.outer(t, w)) * w**2,
    )
    log = replace(
        run(),
        time=t,
        position=q.sum(axis=1)[:, None],
        effort=(10 * qdd + 30 * qd).sum(axis=1)[:, None] + 4.0,
    )
    base = base_parameters(axis)
    validation = CrossValidation(axis, [match_robot(axis, log)], base, None)
    settings = Processing(method="time", cutoff=50.0, decimation=None, dead_band=0.0)
    logs = validation.process(settings)
    masks = [[np.ones((len(candidate), 1), bool)] for candidate in logs]
    assert prediction_errors(validation, logs, masks).on_all[0].max() < 1e-4
