"""A product that robots of a fleet carry part of the time, as a recorded channel says."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from gough.core.errors import InvalidInput
from gough.core.executors import InProcess
from gough.engine import Model
from gough.fitting.least_squares import WeightedLeastSquares
from gough.fleets.fleet import fleet
from gough.fleets.history import FleetLog
from gough.identification.many_logs import carrying_of, frozen_job, sample_of
from gough.processing import Processing
from gough.processing.many_logs import collect
from gough.virtual.fleet_logs import VirtualFleet

ROBOTS = 3
DAYS = 2
NOISE = 0.05  # of the effort after the filter, at most [N m]
PRODUCT = 0.7  # [kg]


@pytest.fixture(scope="module")
def virtual(five_bar: Model) -> VirtualFleet:
    return VirtualFleet(model=five_bar, days=DAYS, seed=2, kind_scatter=0.15, product=PRODUCT)


@pytest.fixture(scope="module")
def logs(virtual: VirtualFleet, tmp_path_factory: pytest.TempPathFactory) -> list[FleetLog]:
    folder = tmp_path_factory.mktemp("logs")
    logs = []
    for robot in range(ROBOTS):
        for day in range(DAYS):
            path = virtual.record(robot, day).save(folder / f"r{robot}-{day}.npz")
            logs.append(FleetLog(path=str(path), robot=f"r{robot}", time=86400.0 * day))
    return logs


@pytest.mark.parametrize("channel", ["gripper", None])
def test_the_product_is_identified_beside_the_robot(
    logs: list[FleetLog], five_bar: Model, tmp_path: Path, channel: str | None
) -> None:
    paths = [log.path for log in logs]
    sample = sample_of(five_bar, paths, 2)
    carrying = carrying_of(five_bar, sample, channel)
    job = frozen_job("five_bar", five_bar, sample, Processing(), carrying=carrying)
    collected = collect(job, paths, tmp_path, InProcess())
    estimate = WeightedLeastSquares().fit(collected.merged().statistics)
    error = float(estimate.residual_rms.max())
    if channel is None:
        assert error > 2 * NOISE
        return
    assert error < 2 * NOISE
    mass = estimate.parameters.index("payload.disc.m")
    assert estimate.values[mass] == pytest.approx(PRODUCT, abs=4 * estimate.std[mass])
    assert estimate.std[mass] < 0.1 * PRODUCT


@pytest.mark.long
def test_the_analysis_of_a_fleet_has_the_product(logs: list[FleetLog], tmp_path: Path) -> None:
    found = fleet("five_bar", logs, carrying="gripper", diagnosed=0, factors=str(tmp_path))
    mass = found.parameters.index("payload.disc.m")
    error = 3 * found.common.common_std[mass]
    assert found.common.common[mass] == pytest.approx(PRODUCT, abs=error)


def test_a_channel_that_no_log_has_is_an_error(virtual: VirtualFleet) -> None:
    with pytest.raises(InvalidInput, match="no log has the channel 'vacuum'"):
        carrying_of(virtual.model, [virtual.record(0, 0)], "vacuum")


def test_without_a_payload_in_the_robot_file_the_product_has_no_name(
    virtual: VirtualFleet,
) -> None:
    bare = virtual.model.with_mechanism(replace(virtual.model.mechanism, payloads=()))
    with pytest.raises(InvalidInput, match="declares 0 payloads"):
        carrying_of(bare, [virtual.record(0, 0)], "gripper")
