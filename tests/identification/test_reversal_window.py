"""Logs without payload are treated alike, whether or not the experiment has loaded ones too."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gough.core.errors import InvalidInput
from gough.engine import Model, base_parameters
from gough.identification import identify, prepare
from gough.logs.recording import Recording
from gough.mechanism import load_robot
from gough.processing import process, regression
from gough.processing.reversals import reversal_distance, reversal_window
from gough.study.demo import truth_table
from gough.virtual import record, simulate
from tests_support import fourier


def test_the_window_about_reversals_does_not_depend_on_payloads_of_other_logs(
        five_bar: Model, five_bar_log: Recording) -> None:
    alone = prepare(five_bar, [five_bar_log], base_parameters(five_bar))
    among = prepare(five_bar, [five_bar_log], base_parameters(five_bar, payloads=("disc",)))
    assert alone.window > 0
    assert among.window == alone.window
    assert len(among.problem) == len(alone.problem) < len(alone.whole[0])


def test_held_out_logs_are_judged_with_the_window_of_the_identification(five_bar: Model, five_bar_log: Recording,
                                                                        five_bar_other: Recording) -> None:
    everything = identify(five_bar, [five_bar_log], held_out=[five_bar_other], window=0.0)
    without = identify(five_bar, [five_bar_log], held_out=[five_bar_other], window=0.05)
    shown = [next(fit for fit in result.fits if fit.held_out).used for result in (everything, without)]
    assert shown[0].all()
    assert 0 < (~shown[1]).sum() < len(shown[1])


def test_a_log_decimated_beyond_the_longest_window_still_gets_one(five_bar: Model, five_bar_log: Recording) -> None:
    done = process(five_bar, five_bar_log)
    problem = regression(five_bar, done, base_parameters(five_bar))
    coarse = problem.take(slice(None, None, 30))
    tiled = replace(coarse, replicates=None)
    assert len(tiled) > 50
    residual = np.full(tiled.effort.shape, 0.01)
    for row, name in enumerate(tiled.rows):
        near = reversal_distance(done.motion, done.motion.column(name), tiled.time) < 0.045
        residual[near, row] = 0.5
    assert 0.03 <= reversal_window(five_bar, done.motion, tiled, residual) <= 0.15


def test_a_window_that_leaves_too_little_is_refused(five_bar: Model, five_bar_log: Recording) -> None:
    with pytest.raises(InvalidInput, match=r"window of 10\.0 s about reversals leaves 0 of \d+ samples"):
        identify(five_bar, [five_bar_log], window=10.0)


def test_motors_that_are_not_rows_have_a_window_too() -> None:
    """With more motors than degrees of freedom; without a window 57 % of the 95 % intervals held the truth."""
    model = Model(load_robot("redundant"))
    run = simulate(model, fourier(model, 0.4, 0.5, harmonics=5), periods=6)
    results = [identify(model, [record(run, seed=seed)]) for seed in range(6)]
    assert min(result.processing.window for result in results) > 0
    held = [within for result in results for *_, within in truth_table("redundant", result.estimate, False)]
    assert np.mean(held) > 0.8
