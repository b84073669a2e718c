"""Unusual periods and robots: which are named, and which robot is typical."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from gough.core.executors import InProcess
from gough.engine import Model
from gough.fleets import alerts, faults
from gough.fleets.alerts import residual_scores, score_limits, typical_robot, unusual_robots
from gough.fleets.faults import FaultTask, FoundFault, Kind, find_faults
from gough.fleets.history import DAY, FleetLog, RobotHistory, group_logs, history_of
from gough.processing import Processing
from gough.processing.many_logs import Job, collect
from gough.virtual.fleet_logs import FleetFaults, VirtualFleet

DAYS = 7
LOADED = (1, 5)  # days with an undeclared payload


@pytest.fixture(scope="module")
def loaded(five_bar: Model, tmp_path_factory: pytest.TempPathFactory) -> RobotHistory:
    """A robot that carries an undeclared payload on two days."""
    folder = tmp_path_factory.mktemp("loaded")
    virtual = VirtualFleet(
        model=five_bar,
        days=DAYS,
        seed=101,
        seconds=3.0,
        rate=200.0,
        faults=FleetFaults(payload={0: LOADED}),
    )
    logs = []
    for day in range(DAYS):
        path = virtual.record(0, day).save(folder / f"{day}.npz")
        logs.append(FleetLog(path=str(path), robot="r0", time=DAY * day))
    processing = Processing(
        method="time",
        cutoff=40.0,
        decimation=2,
        window=0.005,
        joints_at_rest=(),
        dead_band=dict.fromkeys(five_bar.mechanism.actuated, 0.01),
    )
    job = Job.of("five_bar", processing)
    collected = collect(job, [log.path for log in logs], folder / "factors", InProcess())
    (robot,) = group_logs(collected, logs, 1.0)
    return history_of(robot)


def test_periods_with_a_payload_do_not_distort_the_fit_to_the_others(loaded: RobotHistory) -> None:
    """In a fit to all periods the residual of the others is ten times as large."""
    usual = np.isin(np.arange(DAYS), LOADED, invert=True)
    worst = loaded.residual.max(axis=1)
    assert worst[usual].max() < 1.3 * worst[usual].min()
    assert worst[~usual].min() > 5 * worst[usual].max()


def robots(residuals: np.ndarray, equations: int = 100_000) -> list[Any]:
    """Return robots with residuals (n, t, r) and logs named by robot and period."""
    histories: list[Any] = []
    for k, residual in enumerate(residuals):
        logs = tuple((f"r{k}-{period}.npz",) for period in range(len(residual)))
        starts = DAY * np.arange(len(residual))
        n_valid = np.full(residual.shape, equations)
        histories.append(
            SimpleNamespace(
                robot=f"r{k}", residual=residual, logs=logs, starts=starts, n_valid=n_valid
            )
        )
    return histories


def noisy(rng: np.random.Generator, n: int = 8, t: int = 8) -> np.ndarray:
    """Return residuals that scatter by 5 % between periods and by 3 % between robots, (n, t, 2)."""
    between = 0.03 * rng.standard_normal((n, 1, 2))
    return np.asarray(np.exp(between + 0.05 * rng.standard_normal((n, t, 2))))


def test_a_robot_that_is_unusual_has_its_unusual_days_named_too() -> None:
    residuals = noisy(np.random.default_rng(0))
    residuals[2] *= 3.0
    residuals[2, 4] *= 5.0
    histories = robots(residuals)
    scores = residual_scores(histories)
    unusual = unusual_robots(histories, *scores, {}, score_limits(histories, 0.01))
    assert [(one.robot, one.periods) for one in unusual] == [(2, ()), (2, (4,))]
    assert "1970-01-05 (r2-4.npz)" in unusual[1].text


def test_robots_that_are_alike_are_seldom_unusual() -> None:
    """In 1 fleet of 100. With the limit of a known scatter it is in 7 of 100."""
    alarms = 0
    for seed in range(300):
        histories = robots(noisy(np.random.default_rng(seed)))
        robot_scores, _ = residual_scores(histories)
        alarms += bool(robot_scores.max() > score_limits(histories, 0.01).robot)
    assert alarms <= 8


def test_residuals_that_differ_by_noise_alone_are_seldom_unusual() -> None:
    """In 1 fleet of 100. With the robust scatter alone of few periods it is in 16 of 100."""
    equations = 200
    alarms = 0
    for seed in range(300):
        rng = np.random.default_rng([7, seed])
        squares = rng.chisquare(equations, (8, 8, 2)) / equations
        histories = robots(np.sqrt(squares), equations)
        _, period_scores = residual_scores(histories)
        limit = score_limits(histories, 0.01).period
        alarms += any(bool(scores.max() > limit) for scores in period_scores)
    assert alarms <= 8


def test_a_robot_with_a_fault_is_not_the_typical_one() -> None:
    residuals = noisy(np.random.default_rng(1))
    histories = robots(residuals)
    first = int(typical_robot(histories).robot[1:])
    assert typical_robot(histories, [first]).robot != f"r{first}"
    assert typical_robot(histories, range(8)).robot == f"r{first}"


def test_a_period_of_another_robot_is_not_among_the_usual_logs_of_a_diagnosis(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nor does a robot that its own logs do not fit own the logs of others."""
    asked: list[tuple[int, set[int]]] = []

    def owners(
        histories: Any, robot: int, period: int, collected: Any, left_out: set[int]
    ) -> list[int]:
        asked.append((period, left_out))
        return [1] if period == 4 else []

    monkeypatch.setattr(alerts, "owners_of_period", owners)
    residuals = noisy(np.random.default_rng(0))
    residuals[2, [4, 6]] *= 9.0
    residuals[5] *= 9.0
    histories = robots(residuals)
    scores = residual_scores(histories)
    unusual = unusual_robots(histories, *scores, {}, score_limits(histories, 0.01))
    (alert,), remaining = alerts.misfiled_alerts(histories, unusual, cast(Any, None))
    assert alert.days == ("1970-01-05",)
    assert sorted(asked) == [(4, {5}), (6, {5})]
    (one,) = [one for one in remaining if one.robot == 2]
    assert (one.periods, one.explained) == ((6,), (4,))
    logs = alerts._logs_to_diagnose(histories[2], one.periods, one.explained)
    assert logs[0] == "r2-6.npz"
    assert "r2-4.npz" not in logs


@pytest.mark.parametrize(
    ("by_residual", "typical", "expected"),
    [(True, (), ["payload"]), (True, ("payload",), ["gain"]), (False, (), ["gain"])],
)
def test_the_kind_is_asked_about_faults_that_parameters_absorb(
    by_residual: bool,
    typical: tuple[str, ...],
    expected: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What the residual shows comes first, unless a typical robot shows it too."""
    payload = SimpleNamespace(name="payload", text="", advice="", level="warning")
    diagnosis = SimpleNamespace(faults=[payload])
    monkeypatch.setattr(faults, "_diagnosis_input", lambda job, logs: (None, [], None))
    monkeypatch.setattr(faults, "evidence_from", lambda *given: (None, None))
    monkeypatch.setattr(faults, "diagnose_evidence", lambda evidence: diagnosis)
    gain = FoundFault("gain", "", "")
    monkeypatch.setattr(faults, "find_fault_given_kind", lambda evidence, kind: [gain])
    kind = Kind((), np.empty(0), np.empty(0))
    task = FaultTask(cast(Any, None), (), kind, by_residual, frozenset(typical))
    assert [fault.name for fault in find_faults(task)] == expected
