"""A fleet in ordinary motion: what is wrong is found and named, what is not is not; files, tables,
page.
"""

from __future__ import annotations

import csv
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from command_line import run
from gough.app.studies.fleet_file import read_fleet_file
from gough.app.studies.study_file import run_step
from gough.core.errors import InvalidInput, InvalidRecording, InvalidStudy
from gough.engine import Model, base_parameters
from gough.fleets.faults import error_of_prior
from gough.fleets.fleet import Fleet, FleetSettings, fleet as look_at, negative_friction
from gough.fleets.history import FleetLog
from gough.virtual.fleet_logs import FleetFaults, VirtualFleet

ROBOTS, DAYS = 12, 10


OFF = 0.12  # of an encoder [rad]


def record_fleet(virtual: VirtualFleet, robots: int, folder: Path) -> list[FleetLog]:
    """Write the logs of a fleet, one for each robot and day."""
    folder.mkdir(exist_ok=True)
    logs = []
    for robot in range(robots):
        for day in range(virtual.days):
            path = virtual.record(robot, day).save(folder / f"r{robot}-{day:02d}.npz")
            logs.append(
                FleetLog(
                    path=str(path),
                    robot=f"r{robot:02d}",
                    time=86400.0 * (20000 + day),
                    temperature=virtual.temperature(robot, day),
                )
            )
    return logs


@pytest.fixture(scope="module")
def motors(five_bar: Model) -> tuple[str, ...]:
    return five_bar.mechanism.actuated


@pytest.fixture(scope="module")
def virtual(five_bar: Model, motors: tuple[str, ...]) -> VirtualFleet:
    faults = FleetFaults(
        drift={2: (motors[0], 0.25)}, gain={5: (motors[1], 1.12)}, encoder={8: (motors[0], OFF)}
    )
    return VirtualFleet(model=five_bar, days=DAYS, faults=faults, kind_scatter=0.15)


@pytest.fixture(scope="module")
def logs(virtual: VirtualFleet, tmp_path_factory: pytest.TempPathFactory) -> list[FleetLog]:
    return record_fleet(virtual, ROBOTS, tmp_path_factory.mktemp("fleet"))


@pytest.fixture(scope="module")
def found(logs: list[FleetLog], tmp_path_factory: pytest.TempPathFactory) -> Fleet:
    return look_at("five_bar", logs, factors=str(tmp_path_factory.mktemp("factors")))


def test_the_joint_that_wears_is_named_and_no_other(found: Fleet, motors: tuple[str, ...]) -> None:
    drifts = [alert for alert in found.alerts if alert.kind == "drift"]
    assert [alert.robot for alert in drifts] == ["r02"]
    assert f"{motors[0]}.fs changes by" in drifts[0].text


def test_the_drive_that_is_wrong_is_named(found: Fleet, motors: tuple[str, ...]) -> None:
    mistakes = [alert for alert in found.alerts if alert.kind == "fault"]
    assert sorted(alert.robot for alert in mistakes) == ["r05", "r08"]
    size = next(alert.text for alert in mistakes if alert.robot == "r05")
    factor = re.search(rf"the effort of {motors[1]} is (\S+) \+- (\S+) times", size)
    assert factor, size
    assert float(factor[1]) == pytest.approx(1.12, abs=3 * float(factor[2]))


def test_the_encoder_that_is_off_is_named(found: Fleet, motors: tuple[str, ...]) -> None:
    text = next(alert.text for alert in found.alerts if alert.robot == "r08")
    size = re.search(rf"the position of {motors[0]} is off by (\S+) \+- (\S+) deg", text)
    assert size, text
    assert float(size[1]) == pytest.approx(np.degrees(OFF), abs=3 * float(size[2]))


def test_a_robot_that_is_not_exactly_its_kind_makes_the_size_of_a_fault_uncertain() -> None:
    """The closed form beside least squares with priors drawn at random."""
    rng = np.random.default_rng(0)
    equations = rng.standard_normal((40, 3))
    effort = rng.standard_normal(40)
    scatter = np.array([0.05, 0.2])  # of the first two unknowns; the last one has no prior
    known = np.column_stack([np.diag(1 / scatter), np.zeros(2)])
    data = np.column_stack([equations, effort])
    prior = np.column_stack([known, np.zeros(2)])
    stated = error_of_prior(data.T @ data + prior.T @ prior, prior.T @ prior)
    draws = rng.standard_normal((2, 20_000))
    targets = np.vstack([np.tile(effort[:, None], draws.shape[1]), draws])
    solutions, *_ = np.linalg.lstsq(np.vstack([equations, known]), targets, rcond=None)
    assert stated == pytest.approx(np.std(solutions[-1]), rel=0.03)


def test_the_size_of_the_drift_is_right(
    found: Fleet, virtual: VirtualFleet, motors: tuple[str, ...]
) -> None:
    k = found.parameters.index(f"{motors[0]}.fs")
    names = virtual.model.mechanism.standard.names
    warm = found.histories[2].temperature
    still = [
        virtual.truth(2, day)[names.index(f"{motors[0]}.fs")] / (1 - 0.003 * (warm[day] - 20))
        for day in (0, DAYS - 1)
    ]
    line = found.histories[2].trend
    assert line is not None
    assert line.change[k] == pytest.approx(still[1] - still[0], abs=4 * line.std[k])


def test_friction_that_falls_with_temperature_is_no_drift(
    found: Fleet, motors: tuple[str, ...]
) -> None:
    k = found.parameters.index(f"{motors[1]}.fv")
    slopes = [
        h.trend.temperature[k] / found.common.common[k]
        for h in found.histories
        if h.trend is not None
    ]
    sigma = [
        h.trend.temperature_std[k] / found.common.common[k]
        for h in found.histories
        if h.trend is not None
    ]
    mean = np.average(slopes, weights=np.power(sigma, -2))
    assert mean == pytest.approx(-0.01, abs=4 / np.sqrt(np.power(sigma, -2).sum()))


def true_values(virtual: VirtualFleet, robots: int) -> np.ndarray:
    """Return the base parameters of each robot, mean over its days, (n, p)."""
    base = base_parameters(virtual.model)
    names = virtual.model.mechanism.standard.names
    columns = [names.index(name) for name in base.standard]
    truth = []
    for robot in range(robots):
        days = [virtual.truth(robot, day)[columns] for day in range(virtual.days)]
        truth.append(base.values(np.mean(days, axis=0)))
    return np.array(truth)


def mean_errors(found: Fleet, truth: np.ndarray) -> np.ndarray:
    """Return the errors of the mean of the kind over their standard errors, (p,)."""
    return np.asarray((found.common.common - truth.mean(axis=0)) / found.common.common_std)


def test_standard_errors_of_the_kind_cover_errors_that_all_robots_share(
    found: Fleet, virtual: VirtualFleet
) -> None:
    """Friction depends on temperature, which varies alike for all: the errors do not average."""
    z = mean_errors(found, true_values(virtual, ROBOTS))
    assert np.mean(np.abs(z) < 1.96) >= 0.85
    assert np.sqrt(np.mean(z**2)) < 1.4


@pytest.mark.long
def test_standard_errors_of_the_kind_cover_the_truth_of_many_fleets(
    five_bar: Model, tmp_path: Path
) -> None:
    inside = []
    for seed in range(20):
        virtual = VirtualFleet(model=five_bar, days=DAYS, seed=seed, kind_scatter=0.15)
        logs = record_fleet(virtual, ROBOTS, tmp_path / str(seed))
        found = look_at("five_bar", logs, factors=str(tmp_path / "factors"), diagnosed=0)
        inside.append(np.abs(mean_errors(found, true_values(virtual, ROBOTS))) < 1.96)
    assert np.mean(inside) > 0.9


def test_the_kind_is_judged_as_a_whole(found: Fleet) -> None:
    (summary,) = [notice for notice in found.notices if notice.rule == "kind"]
    assert "4 logs of this robot" in summary.text
    assert "held-out log" in summary.text
    assert summary.where in {history.robot for history in found.histories}


def test_deviations_from_the_kind_are_those_of_the_robots(
    found: Fleet, virtual: VirtualFleet
) -> None:
    """What filters and quantisation do to all robots alike is in the common part, and cancels in
    the deviations.
    """
    truth = true_values(virtual, ROBOTS)
    usual = [r for r in range(ROBOTS) if r not in (2, 5, 8)]
    alone = np.array([h.estimate.values for h in found.histories])
    truth, alone, together = (
        (x - x[usual].mean(axis=0))[usual] for x in (truth, alone, found.common.values)
    )
    z = (together - truth) / found.common.std[usual]
    assert (
        np.mean(np.abs(z) < 1.96) > 0.9
    )  # 9 robots only; coverage itself is tested on many fleets
    noise = np.array([found.histories[r].estimate.std for r in usual])
    assert np.mean(((together - truth) / noise) ** 2) < np.mean(((alone - truth) / noise) ** 2)


def test_what_ordinary_motion_tells_is_said_for_each_parameter(found: Fleet) -> None:
    assert len(found.observability) == len(found.parameters)
    assert all("drift" in words for words in found.observability)


def test_tables_have_a_row_for_each_robot_period_and_parameter(found: Fleet) -> None:
    tables = found.tables()
    assert len(tables["periods"]["value"]) == ROBOTS * DAYS * len(found.parameters)
    assert len(tables["robots"]["value"]) == ROBOTS * len(found.parameters)
    assert {len(column) for column in tables["robots"].values()} == {ROBOTS * len(found.parameters)}
    assert sum(tables["robots"]["drift_found"]) == 1


def write_table(
    folder: Path, logs: list[FleetLog], rows: list[str] | None = None, **keys: str
) -> Path:
    lines = (
        rows
        if rows is not None
        else [
            f"{log.path},{log.robot},2026-03-{1 + k % DAYS:02d}T06:00:00+01:00,20"
            for k, log in enumerate(logs)
        ]
    )
    (folder / "logs.csv").write_text(
        "\n".join(["log,robot,time,temperature", *lines]), encoding="utf-8"
    )
    extra = "\n".join(f"{key} = {value}" for key, value in keys.items())
    text = f'format = 1\nrobot = "five_bar"\nlogs = "logs.csv"\n{extra}\n'
    (folder / "fleet.toml").write_text(text, encoding="utf-8")
    return folder / "fleet.toml"


@pytest.mark.slow
def test_the_command_writes_tables_and_a_page(logs: list[FleetLog], tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    write_table(tmp_path, logs[: 5 * DAYS], factors='"factors"')
    done = run("gough fleet fleet.toml -o result --diagnosed 1", tmp_path)
    assert done.code == 0, done.err
    assert "r02: " in done.out
    table = (
        pyarrow.parquet.read_table(tmp_path / "result" / "robots.parquet")
        if hasattr(pyarrow, "parquet")
        else None
    )
    assert table is None or table.num_rows
    page = (tmp_path / "result" / "fleet.html").read_text(encoding="utf-8")
    assert '<article id="robot-r02" class="alarmed">' in page
    assert "http" not in page.replace("http-equiv", "").replace("http://www.w3.org", "")


def test_times_of_other_zones_are_the_same_moment(logs: list[FleetLog], tmp_path: Path) -> None:
    path = logs[0].path
    for stamp, key in (
        ("2026-03-01T06:00:00+01:00", {}),
        ("2026-03-01T05:00:00Z", {}),
        ("2026-03-01T06:00:00", {"zone": '"Europe/Berlin"'}),
    ):
        file = write_table(tmp_path, [], [f"{path},r0,{stamp},"], **key)
        log = read_fleet_file(str(file), FleetSettings()).logs[0]
        assert log.time == 1772341200.0
        assert np.isnan(log.temperature)


def test_lines_that_cannot_be_used_are_all_named_or_skipped(
    logs: list[FleetLog], tmp_path: Path
) -> None:
    rows = [
        f"{logs[0].path},r0,2026-03-01T06:00:00,20",
        f"{logs[1].path},r0,yesterday,20",
        f"{logs[2].path},r0,2026-03-01T06:00:00Z,20",
        f"{logs[2].path},r0,2026-03-02T06:00:00Z,20",
        f"{logs[3].path},r0",
    ]
    file = str(write_table(tmp_path, [], rows))
    with pytest.raises(InvalidRecording) as error:
        read_fleet_file(file, FleetSettings())
    assert all(f"line {number}" in str(error.value) for number in (2, 3, 5, 6))
    assert "has no zone" in str(error.value)
    assert "line 4" not in str(error.value)
    skipped = read_fleet_file(
        file, FleetSettings(**{"many": type(FleetSettings().many)(bad="skip")})
    )
    assert len(skipped.logs) == 1
    assert len(skipped.notices) == 4


def test_a_fleet_file_with_a_wrong_key_is_refused(tmp_path: Path) -> None:
    file = write_table(tmp_path, [], [], periods="1")
    with pytest.raises(InvalidStudy, match="'periods'; did you mean 'period'"):
        run_step("fleet", {"file": str(file)})
    file = write_table(tmp_path, [], [], factors="3")
    with pytest.raises(InvalidStudy, match="factors is 3, expected text"):
        run_step("fleet", {"file": str(file)})
    (tmp_path / "fleet.toml").write_text("format = 1\n", encoding="utf-8")
    with pytest.raises(InvalidStudy, match="robot"):
        run_step("fleet", {"file": str(file)})


def test_two_robots_are_no_fleet(logs: list[FleetLog], tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="three or more"):
        look_at(
            "five_bar",
            [log for log in logs if log.robot in ("r00", "r01")][:8],
            factors=str(tmp_path),
        )


def test_a_generated_fleet_says_what_is_wrong(tmp_path: Path) -> None:
    done = run("gough generate five_bar --robots 4 --days 2 --drifting 1 -o made", tmp_path)
    assert done.code == 0, done.err
    with open(tmp_path / "made" / "truth.csv", encoding="utf-8", newline="") as stream:
        truth = list(csv.DictReader(stream))
    assert {row["kind"] for row in truth} == {"drift", "fault"}
    assert len(read_fleet_file(str(tmp_path / "made" / "fleet.toml"), FleetSettings()).logs) == 8


def test_friction_that_comes_out_negative_is_warned_of(
    found: Fleet, five_bar: Model, motors: tuple[str, ...]
) -> None:
    estimate = found.histories[0].estimate
    values = np.abs(found.common.common)
    assert negative_friction(five_bar, estimate, replace(found.common, common=values)) == ()
    fv = found.parameters.index(f"{motors[0]}.fv")
    changed = np.array(values)
    changed[fv] = -5 * found.common.common_std[fv]
    changed[found.parameters.index("tool.mR")] = -1.0  # no friction
    (notice,) = negative_friction(five_bar, estimate, replace(found.common, common=changed))
    assert notice.where == f"{motors[0]}.fv"
    assert notice.level == "warning"
    changed[fv] = -0.5 * found.common.common_std[fv]
    (notice,) = negative_friction(five_bar, estimate, replace(found.common, common=changed))
    assert notice.level == "info"
    assert "not significantly different from zero" in notice.text
