"""Payloads and drifting friction in the periods of a log that were averaged."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from scipy.interpolate import CubicSpline

from gough.engine import Model
from gough.logs.recording import Recording
from gough.verdict.diagnose import DiagnoseSettings, diagnose, evidence_from
from gough.verdict.evidence import Evidence
from gough.verdict.period_changes import changes_between_periods
from tests_support import fourier

Logs = tuple[Recording, Recording]
FREQUENCY = 0.2  # of the logs [Hz]
PERIODS = 4
MASS = 0.4  # [kg]
CARRIED = (6.0, 12.0)  # of 20 s in four periods [s]


def changed_between(log: Recording, other: Recording) -> Recording:
    """Return a log with the efforts of another one while the payload is carried."""
    assert log.effort is not None
    assert other.effort is not None
    carried = (log.time > CARRIED[0]) & (log.time < CARRIED[1])
    return replace(log, effort=np.where(carried[:, None], other.effort, log.effort))


@pytest.fixture(scope="module")
def loaded_in_part(logs: Logs, make_log: Callable[..., Recording]) -> Logs:
    return logs[0], changed_between(logs[1], make_log(1, payload=MASS))


def evidence_of_logs(model: Model, logs: Logs) -> Evidence:
    return evidence_from(model, logs, (), DiagnoseSettings())[0]


def test_the_mass_and_the_part_are_found_from_what_differs_between_periods(
    five_bar: Model, loaded_in_part: Logs
) -> None:
    (found,) = changes_between_periods(evidence_of_logs(five_bar, loaded_in_part))
    assert (found.name, found.place, found.logs) == ("payload", "log 1", (1,))
    assert abs(found.size[0] - MASS) < 3 * found.std[0]
    assert found.std[0] < 0.02 * MASS
    assert found.fault.segment is not None  # type: ignore[union-attr]
    assert found.fault.segment[1:] == pytest.approx(CARRIED, abs=0.2)  # type: ignore[union-attr]


def test_the_mean_of_the_periods_is_explained_by_the_same_payload(
    five_bar: Model, loaded_in_part: Logs
) -> None:
    """With it corrected nothing else is named, and the error is that of clean logs."""
    diagnosis = diagnose(five_bar, loaded_in_part)
    (fault,) = diagnosis.faults
    assert (fault.name, fault.logs) == ("payload", ("log 1",))
    assert diagnosis.unexplained < 0.3 * diagnosis.error


def test_clean_periods_show_no_payload(clean: Evidence) -> None:
    assert changes_between_periods(clean) == []


def test_a_gain_that_changes_between_periods_is_no_payload(five_bar: Model, logs: Logs) -> None:
    assert logs[1].effort is not None
    scaled = replace(logs[1], effort=1.1 * logs[1].effort)
    evidence = evidence_of_logs(five_bar, (logs[0], changed_between(logs[1], scaled)))
    assert changes_between_periods(evidence) == []


def test_friction_that_grows_from_period_to_period_is_measured(
    five_bar: Model, logs: Logs, true_values: np.ndarray
) -> None:
    log = logs[1]
    assert log.effort is not None
    names = five_bar.mechanism.standard.names
    rubs = np.array([name.kind in ("fs", "fv") for name in names])
    trajectory = fourier(five_bar, 0.8, FREQUENCY, seed=1, harmonics=16)
    one_period = log.time[: log.period_samples]
    motion = five_bar.kinematics.motion(one_period, *trajectory.at(one_period), "task")
    friction = np.tile(five_bar.inverse_dynamics(motion, true_values * rubs), (PERIODS, 1))
    ramp = np.linspace(0.0, 0.5, len(friction))[:, None]
    growing = replace(log, effort=log.effort + ramp * friction)
    evidence = evidence_of_logs(five_bar, (logs[0], growing))
    (drift,) = changes_between_periods(evidence)
    assert (drift.name, drift.place, drift.logs) == ("drift", "all joints", (1,))
    # relative to the friction that was identified, which is a quarter larger in half of the logs
    assert 0.35 < drift.size[0] < 0.52


@pytest.mark.parametrize("stretch", [5e-4, -5e-4])
def test_a_period_that_is_declared_a_little_wrong_is_no_drift_of_friction(
    five_bar: Model, logs: Logs, stretch: float
) -> None:
    """Each period is later than the one before: efforts differ by their rate."""
    log = logs[1]
    assert log.effort is not None
    assert log.period_samples is not None
    step = log.time[1] - log.time[0]
    phase = (log.time * (1 + stretch)) % (log.period_samples * step)
    one_period = np.append(log.time[: log.period_samples], log.period_samples * step)

    def stretched(values: np.ndarray) -> np.ndarray:
        n = log.period_samples
        mean = values.reshape(PERIODS, n, -1).mean(axis=0)
        return CubicSpline(one_period, np.vstack([mean, mean[:1]]), bc_type="periodic")(phase)

    rng = np.random.default_rng(0)
    effort = stretched(log.effort)
    effort = effort + 0.02 * rng.standard_normal(effort.shape)
    late = replace(log, position=stretched(log.position), effort=effort)
    assert changes_between_periods(evidence_of_logs(five_bar, (logs[0], late))) == []
