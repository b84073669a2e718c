"""Logs that belong to another robot, and days of the clock at the robot."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from gough.app.studies.fleet_file import read_fleet_file
from gough.core.executors import InProcess
from gough.engine import Model
from gough.fleets.alerts import (
    misfiled_alerts,
    residual_scores,
    score_limits,
    shared_file_alerts,
    unusual_robots,
)
from gough.fleets.fleet import FleetSettings
from gough.fleets.history import FleetLog, RobotHistory, date_of, group_logs, history_of
from gough.fleets.misfiled import owners_of_period, shared_files, without_logs
from gough.identification.many_logs import frozen_job, sample_of
from gough.processing import Processing
from gough.processing.many_logs import Collected, collect
from gough.virtual.fleet_logs import VirtualFleet

ROBOTS = 5
DAYS = 5
FIRST_DAY = 20000  # since 1970
MISFILED = (1, 2)  # robot and day under which a log is filed that robot 3 recorded
COPIED = (0, 4)  # robot and day of a log that is also filed under robot 4


@pytest.fixture(scope="module")
def logs(five_bar: Model, tmp_path_factory: pytest.TempPathFactory) -> list[FleetLog]:
    folder = tmp_path_factory.mktemp("logs")
    virtual = VirtualFleet(model=five_bar, days=DAYS, seed=3, kind_scatter=0.15)
    logs = []
    for robot in range(ROBOTS):
        for day in range(DAYS):
            recorded = (robot, day)
            if recorded == MISFILED:
                recorded = (3, day)
            if recorded == (4, COPIED[1]):
                recorded = COPIED
            path = virtual.record(*recorded).save(folder / f"r{robot}-{day}.npz")
            time = 86400.0 * (FIRST_DAY + day)
            logs.append(FleetLog(path=str(path), robot=f"r{robot}", time=time))
    wrong = logs[3 * DAYS + MISFILED[1]]  # not a copy: robot 3 has no log of that day
    logs.remove(wrong)
    return logs


@pytest.fixture(scope="module")
def collected(
    logs: list[FleetLog], five_bar: Model, tmp_path_factory: pytest.TempPathFactory
) -> Collected:
    paths = [log.path for log in logs]
    job = frozen_job("five_bar", five_bar, sample_of(five_bar, paths, 2), Processing())
    return collect(job, paths, tmp_path_factory.mktemp("factors"), InProcess())


def test_a_file_under_two_robots_is_an_alert_for_both(
    logs: list[FleetLog], collected: Collected
) -> None:
    groups = shared_files(logs, collected.copies)
    alerts = shared_file_alerts(groups)
    assert [alert.robot for alert in alerts] == ["r0", "r4"]
    assert "r0-4.npz of r0, r4-4.npz of r4" in alerts[0].text
    assert alerts[0].days == ("2024-10-08",)
    remaining = without_logs(collected, groups)
    assert len(remaining.keys) == len(collected.keys) - 1
    assert not remaining.copies


def test_a_path_under_two_robots_is_an_alert_for_both(tmp_path: Path) -> None:
    """The table may name one file twice; it is used for neither robot."""
    lines = "log,robot,time\na.npz,r0,2026-03-01T06:00:00Z\na.npz,r1,2026-03-01T06:00:00Z\n"
    (tmp_path / "logs.csv").write_text(lines, encoding="utf-8")
    (tmp_path / "fleet.toml").write_text(
        'format = 1\nrobot = "five_bar"\nlogs = "logs.csv"\n', encoding="utf-8"
    )
    logs = read_fleet_file(str(tmp_path / "fleet.toml"), FleetSettings()).logs
    groups = shared_files(logs, {})
    assert [alert.robot for alert in shared_file_alerts(groups)] == ["r0", "r1"]
    collected = Collected(folder=tmp_path, keys={logs[0].path: "key"})
    assert not without_logs(collected, groups).keys


def test_a_copy_under_the_same_robot_is_no_alert(logs: list[FleetLog]) -> None:
    assert shared_files(logs, {logs[1].path: logs[0].path}) == []


def test_a_log_of_another_robot_is_named_with_its_owner(
    logs: list[FleetLog], collected: Collected
) -> None:
    histories: list[RobotHistory] = []
    for task in group_logs(collected, logs, 1.0):
        histories.append(history_of(task))
    robot_scores, period_scores = residual_scores(histories)
    limits = score_limits(histories, 0.01)
    unusual = unusual_robots(histories, robot_scores, period_scores, {}, limits)
    alerts, remaining = misfiled_alerts(histories, unusual, collected)
    (alert,) = alerts
    assert alert.robot == "r1"
    assert alert.days == ("2024-10-06",)
    assert "those of r3" in alert.text
    assert not any(histories[one.robot].robot == "r1" for one in remaining)


def test_robots_that_explain_a_log_equally_well_are_all_named(
    logs: list[FleetLog], collected: Collected
) -> None:
    histories = [history_of(task) for task in group_logs(collected, logs, 1.0)]
    twin = replace(histories[4], estimate=histories[3].estimate)
    owners = owners_of_period([*histories[:4], twin], *MISFILED, collected)
    assert sorted(owners) == [3, 4]
    assert owners_of_period(histories, *MISFILED, collected) == [3]
    assert owners_of_period(histories, MISFILED[0], MISFILED[1] + 1, collected) == []


@pytest.mark.parametrize(
    ("time", "keys", "column", "day"),
    [
        ("2026-03-01T23:30:00Z", "", "", "2026-03-01"),
        ("2026-03-01T23:30:00Z", 'zone = "Europe/Berlin"', "", "2026-03-02"),
        ("2026-03-02T08:30:00+09:00", "", "", "2026-03-02"),
        ("2026-07-01T22:30:00Z", 'zone = "Europe/Berlin"', "America/New_York", "2026-07-01"),
        ("2026-07-01T22:30:00Z", 'zone = "Europe/Berlin"', "", "2026-07-02"),
    ],
)
def test_days_are_those_of_the_clock_at_the_robot(
    time: str, keys: str, column: str, day: str, tmp_path: Path
) -> None:
    (tmp_path / "logs.csv").write_text(
        f"log,robot,time,zone\na.npz,r0,{time},{column}\n", encoding="utf-8"
    )
    (tmp_path / "fleet.toml").write_text(
        f'format = 1\nrobot = "five_bar"\nlogs = "logs.csv"\n{keys}\n',
        encoding="utf-8",
    )
    (log,) = read_fleet_file(str(tmp_path / "fleet.toml"), FleetSettings()).logs
    collected = Collected(folder=tmp_path, keys={log.path: "key"})
    (robot,) = group_logs(collected, [log], 1.0)
    (start,) = robot.periods
    assert date_of(start) == f"{day}T00:00:00"
    assert np.isfinite(log.time)
