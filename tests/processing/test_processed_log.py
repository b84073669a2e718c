"""One log, many settings: the loops are closed cold once, and reprocessing equals processing."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gough.app.identify import identify
from gough.engine import Model
from gough.engine.kinematics import ClosedChain
from gough.logs.recording import Recording
from gough.processing import ProcessedLog, Processing, match_robot, process
from gough.processing.processed_log import process_log

IN_TIME = Processing(
    method="time",
    cutoff=20.0,
    decimation=4,
    window=0.01,
    dead_band={"left.motor": 0.01},
    joints_at_rest=(),
)
AVERAGED = replace(IN_TIME, method="explicit", cutoff=2.5, decimation=1)


def assert_same(one: ProcessedLog, other: ProcessedLog) -> None:
    """All that a regression uses is the same, to the tolerance of Newton's method."""
    for kind in ("q", "qd", "qdd"):
        first, second = getattr(one.motion, kind), getattr(other.motion, kind)
        np.testing.assert_allclose(first, second, atol=1e-11 * np.abs(first).max())
    np.testing.assert_array_equal(one.effort, other.effort)
    np.testing.assert_array_equal(one.valid, other.valid)
    np.testing.assert_array_equal(one.sample, other.sample)
    np.testing.assert_array_equal(one.dead_band, other.dead_band)
    assert (one.method, one.cutoff, one.decimation) == (
        other.method,
        other.cutoff,
        other.decimation,
    )


@pytest.mark.parametrize(
    "settings",
    [
        replace(IN_TIME, cutoff=45.0, decimation=2),
        replace(IN_TIME, window=0.05),
        replace(IN_TIME, method="raw"),
        AVERAGED,
    ],
)
def test_other_settings_give_what_processing_from_scratch_gives(
    five_bar: Model, five_bar_log: Recording, settings: Processing
) -> None:
    once = process(five_bar, five_bar_log, IN_TIME)
    assert_same(once.at(settings), process(five_bar, five_bar_log, settings))


def test_a_block_starts_at_the_poses_of_its_log(five_bar: Model, five_bar_log: Recording) -> None:
    log = match_robot(five_bar, replace(five_bar_log, period_samples=None))
    block = log.block(slice(1000, 3000))
    alone = process(five_bar, block.recording, IN_TIME)
    assert_same(process_log(five_bar, block, IN_TIME), alone)


def test_every_few_samples_are_samples_of_the_whole(
    five_bar: Model, five_bar_log: Recording
) -> None:
    log = match_robot(five_bar, five_bar_log)
    whole = process_log(five_bar, log, IN_TIME)
    coarse = process_log(five_bar, log, IN_TIME, every=4)
    common = np.isin(whole.sample, coarse.sample)
    assert common.sum() == len(coarse)
    np.testing.assert_allclose(whole.motion.qdd[common], coarse.motion.qdd, atol=1e-8)


@pytest.mark.parametrize("settings", [IN_TIME, AVERAGED])
def test_perturbed_positions_differ_by_about_their_noise(
    five_bar: Model, five_bar_log: Recording, settings: Processing
) -> None:
    once = process(five_bar, five_bar_log, settings)
    rng = np.random.default_rng(0)
    assert once.matched is not None
    motors = list(five_bar.actuated)
    change = (once.perturbed(rng).motion.q - once.motion.q)[:, motors].std(axis=0)
    assert (change > 0).all()
    assert (change < once.matched.position_noise).all()


@pytest.mark.parametrize("period", [True, False])
def test_identify_closes_the_loops_of_a_log_cold_once(
    five_bar: Model,
    five_bar_log: Recording,
    five_bar_other: Recording,
    monkeypatch: pytest.MonkeyPatch,
    period: bool,
) -> None:
    """The verdict also closes them with channels exchanged, which are other positions."""
    logs = [five_bar_log, five_bar_other]
    if not period:
        logs = [replace(log, period_samples=None) for log in logs]
    cold: list[int] = []
    recorded = np.concatenate([log.position for log in logs])
    follow_branch = ClosedChain._along

    def counted(
        self: ClosedChain, previous: object, positions: np.ndarray, *rest: object
    ) -> object:
        if np.abs(recorded - positions[0]).max(axis=1).min() < 1e-3:
            cold.append(len(positions))
        return follow_branch(self, previous, positions, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(ClosedChain, "_along", counted)
    identify(five_bar, logs[:1], held_out=logs[1:])
    assert len(cold) == len(logs)
