"""Faults in a part of a log: a payload that is picked up and put down, lost counts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from gough.engine import Model
from gough.identification.diagnosis import Diagnosis
from gough.logs.outliers import Jump, find_jumps
from gough.logs.recording import Recording
from gough.verdict.blocks import block_labels
from gough.verdict.diagnose import DiagnoseSettings, diagnose, evidence_from
from gough.verdict.exclusions import away_from_jumps
from gough.verdict.judge import diagnose_evidence
from gough.verdict.stage import Stage

Logs = tuple[Recording, Recording]
JUMP = 0.05  # [rad]
JUMP_FRACTION = 0.4  # of the log


def texts(diagnosis: Diagnosis) -> list[str]:
    return [fault.text for fault in diagnosis.faults]


def test_a_payload_in_a_part_of_a_log_is_weighed_and_the_part_is_named(
    five_bar: Model, without_periods: Logs, make_log: Callable[..., Recording]
) -> None:
    first, second = without_periods
    loaded = make_log(1, payload=0.4)
    assert second.effort is not None
    assert loaded.effort is not None
    carried = (second.time > 6.0) & (second.time < 12.0)
    effort = np.where(carried[:, None], loaded.effort, second.effort)
    diagnosis = diagnose(five_bar, [first, replace(second, effort=effort)])
    (fault,) = diagnosis.faults
    assert (fault.name, fault.logs) == ("payload", ("log 1",)), texts(diagnosis)
    assert abs(fault.size[0] - 0.4) < 3 * fault.std[0]
    start, end = (
        float(word) for word in fault.text.split("from ")[1].split(" s of")[0].split("to")
    )
    assert start == pytest.approx(6.0, abs=20 / 24)
    assert end == pytest.approx(12.0, abs=20 / 24)


@pytest.fixture(scope="module")
def with_lost_counts(without_periods: Logs) -> Logs:
    first, second = without_periods
    position = second.position.copy()
    position[int(JUMP_FRACTION * len(position)) :, 0] += JUMP
    return first, replace(second, position=position)


def test_lost_counts_that_the_residual_shows_are_named(
    five_bar: Model, with_lost_counts: Logs
) -> None:
    evidence, _ = evidence_from(five_bar, with_lost_counts, (), DiagnoseSettings())
    jumps = find_jumps(with_lost_counts[1])
    second = away_from_jumps(replace(evidence.logs[1], jumps=jumps))
    diagnosis = diagnose_evidence(replace(evidence, logs=(evidence.logs[0], second)))
    fault = diagnosis.faults[0]
    assert (fault.name, fault.place, fault.logs) == ("lost counts", "left.motor", ("log 1",))
    assert abs(fault.size[0] - JUMP) < 3 * fault.std[0]
    assert f"at {JUMP_FRACTION * 20:.4g} s" in fault.text


def test_lost_counts_in_averaged_periods_are_named(five_bar: Model, logs: Logs) -> None:
    """The mean of the periods is off by a part of the jump, which is no scale of the encoder."""
    first, second = logs
    number = int(0.55 * len(second))
    position = second.position.copy()
    position[number:, 0] += JUMP
    jumping = replace(second, position=position)
    evidence, _ = evidence_from(five_bar, (first, jumping), (), DiagnoseSettings())
    assert evidence.logs[1].periodic
    log = replace(evidence.logs[1], jumps=find_jumps(jumping))
    (fault,) = diagnose_evidence(replace(evidence, logs=(evidence.logs[0], log))).faults
    assert (fault.name, fault.place, fault.logs) == ("lost counts", "left.motor", ("log 1",))
    assert fault.size[0] == pytest.approx(JUMP, abs=3 * fault.std[0])
    assert f"at {jumping.time[number]:.4g} s" in fault.text


def test_a_jump_that_the_residual_does_not_show_is_not_named(
    five_bar: Model, without_periods: Logs
) -> None:
    """As of a wire that shakes: the signal steps, but the efforts are those of the position."""
    evidence, _ = evidence_from(five_bar, without_periods, (), DiagnoseSettings())
    jump = Jump(
        joint="left.motor",
        unit="rad",
        sample=1000,
        time=8.0,
        size=JUMP,
        deviation=1e-5,
        wraps=False,
    )
    second = replace(evidence.logs[1], jumps=(jump,))
    evidence = replace(evidence, logs=(evidence.logs[0], second))
    assert texts(diagnose_evidence(evidence)) == []


def test_the_blocks_of_a_part_of_a_log_are_those_mostly_inside(
    five_bar: Model, without_periods: Logs
) -> None:
    evidence, _ = evidence_from(five_bar, without_periods, (), DiagnoseSettings())
    logs = tuple(replace(log, period=None) for log in evidence.logs)
    evidence = replace(evidence, logs=logs)
    lengths = [len(log.regression) for log in evidence.logs]
    labels = [np.arange(n) * 10 // n for n in lengths]
    labels[1] = labels[1] + 10
    stage = Stage(evidence, labels)
    time = evidence.logs[1].motion.time
    first, last = float(time[0]), float(time[-1])
    third = first + 0.32 * (last - first)
    seventh = first + 0.68 * (last - first)
    inside = stage.scope((1,), (1, third, seventh))
    assert np.flatnonzero(inside).tolist() == [13, 14, 15, 16]
    assert np.flatnonzero(stage.scope((1,))).tolist() == list(range(10, 20))


@pytest.mark.parametrize("stated", [True, False])
def test_blocks_of_a_motion_that_repeats_are_intervals_of_its_phase(
    stated: bool, five_bar: Model, logs: Logs, without_periods: Logs
) -> None:
    """Also where periods are not averaged, because another log has none or none is stated."""
    first = logs[0] if stated else without_periods[0]
    single = without_periods[1].take(slice(0, logs[1].period_samples))
    evidence, _ = evidence_from(five_bar, [first, single], (), DiagnoseSettings())
    log = evidence.logs[0]
    assert logs[0].period_samples is not None
    period = logs[0].period_samples / logs[0].rate
    assert log.period == pytest.approx(period, rel=1e-3)
    assert evidence.logs[1].period is None
    labels = block_labels(evidence.logs)
    time = np.asarray(log.motion.time)[log.sample_numbers]
    for number in np.unique(labels[0]):
        phase = (time[labels[0] == number] - log.motion.time[0]) % period
        assert np.ptp(phase) < 1.1 * period / len(np.unique(labels[0]))
        assert np.ptp(time[labels[0] == number]) > 2 * period
    assert labels[1].min() == labels[0].max() + 1
    everywhere = Stage(evidence, labels).scope((0,), (0, 0.0, period))
    assert np.array_equal(np.flatnonzero(everywhere), np.unique(labels[0]))
