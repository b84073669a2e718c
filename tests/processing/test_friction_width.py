"""The speed up to which friction is incomplete is found from the data, stated, and used alike."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gough.core.errors import InvalidMechanism
from gough.core.trajectory import Fourier
from gough.engine import Model, base_parameters
from gough.export import controller_code
from gough.fitting.least_squares import WeightedLeastSquares
from gough.formats.robot_file_writer import robot_file
from gough.logs.recording import Recording
from gough.mechanism import parse_robot
from gough.processing import Processing, choose_processing, match_robot, regression
from gough.processing.friction_width import friction_widths
from gough.processing.processed_log import ProcessedLog, process_log
from gough.virtual import simulate
from tests_support import axis_file

AXIS = axis_file("""terms = ["fv", "fs"]
values = { fv = 5, fs = 20 }
""")
RATE = 500.0
SETTINGS = Processing(method="time", cutoff=10.0, decimation=20, window=0.02)
COULOMB = 20.0  # [N]
FREQUENCIES = 2 * np.pi * np.array([0.25, 0.55, 0.9])  # [rad/s]


@pytest.fixture(scope="module")
def axis() -> Model:
    return Model(parse_robot(AXIS, "axis"))


def recorded(width: float, seed: int = 0) -> Recording:
    """Return 20 s of an axis whose friction grows linearly up to a speed."""
    rng = np.random.default_rng(seed)
    time = np.arange(int(20 * RATE)) / RATE
    phase = np.outer(time, FREQUENCIES)
    position = np.sin(phase).sum(axis=1) * 0.1
    velocity = (FREQUENCIES * np.cos(phase)).sum(axis=1) * 0.1
    acceleration = -(FREQUENCIES**2 * np.sin(phase)).sum(axis=1) * 0.1
    sign = np.clip(velocity / width, -1, 1) if width else np.sign(velocity)
    effort = 10 * acceleration + 5 * velocity + COULOMB * sign
    return Recording(
        time=time,
        joints=("slide",),
        position_units=("m",),
        position=(position + 1e-6 * rng.standard_normal(len(time)))[:, None],
        effort=(effort + rng.standard_normal(len(time)))[:, None],
    )


def processed(axis: Model, log: Recording, settings: Processing) -> tuple[Processing, ProcessedLog]:
    """Return complete settings, and the log processed with them."""
    complete = choose_processing(axis, [log], None, settings).processing
    return complete, process_log(axis, match_robot(axis, log), complete)


@pytest.mark.parametrize("width", [0.1, 0.25])
def test_the_width_of_friction_is_found_to_a_factor_of_two(axis: Model, width: float) -> None:
    settings, log = processed(axis, recorded(width), SETTINGS)
    found = friction_widths(axis, [log], base_parameters(axis), settings)
    assert width / 2 < found["slide"] < 2 * width
    assert settings.with_wider_bands(found).bands(("slide",)) == [found["slide"]]


def test_friction_that_jumps_has_no_width(axis: Model) -> None:
    found = 0
    for seed in range(10):
        settings, log = processed(axis, recorded(0.0, seed), SETTINGS)
        found += bool(friction_widths(axis, [log], base_parameters(axis), settings))
    assert found <= 3  # of 10 by chance: 1 in 20 each


def repeated(width: float, n_periods: int = 6) -> Recording:
    """Return an axis that repeats the motion of `recorded`, with other noise in each period."""
    periods = [recorded(width, seed) for seed in range(n_periods)]
    n_samples = n_periods * len(periods[0])
    return replace(
        periods[0],
        time=np.arange(n_samples) / RATE,
        position=np.concatenate([period.position for period in periods]),
        effort=np.concatenate([period.effort for period in periods]),
        period_samples=len(periods[0]),
    )


def test_widths_of_motors_are_found_where_periods_are_averaged(axis: Model) -> None:
    log = repeated(0.15)
    choice = choose_processing(axis, [log])
    assert choice.processing.method == "explicit"
    assert 0.075 < choice.friction_widths["slide"] < 0.3
    value, error = friction(axis, process_log(axis, match_robot(axis, log), choice.processing))
    assert abs(value - COULOMB) < 3 * error


def test_motors_and_dead_bands_that_are_given_are_left_to_their_window(axis: Model) -> None:
    assert not choose_processing(axis, [recorded(0.15)], None, SETTINGS).friction_widths
    given = replace(SETTINGS, dead_band=0.01)
    settings, log = processed(axis, recorded(0.15), given)
    assert settings.dead_band == {"slide": 0.01}
    assert not friction_widths(axis, [log], base_parameters(axis), settings, ("slide",))


def friction(axis: Model, log: ProcessedLog) -> tuple[float, float]:
    """Return Coulomb friction and its standard error from a log. [N]"""
    estimate = WeightedLeastSquares().fit(regression(axis, log, base_parameters(axis)))
    return estimate["slide.fs"], estimate.select(["slide.fs"]).std[0]


def test_coulomb_friction_is_biased_by_its_width_unless_the_width_is_found(axis: Model) -> None:
    settings, log = processed(axis, recorded(0.15), SETTINGS)
    value, error = friction(axis, log)
    assert value < COULOMB - 6 * error
    widths = friction_widths(axis, [log], base_parameters(axis), settings)
    value, error = friction(axis, log.with_bands(settings.with_wider_bands(widths)))
    assert abs(value - COULOMB) < 3 * error


def test_the_robot_file_states_a_width_that_logs_and_plant_use() -> None:
    text = AXIS + 'friction_width = "80 mm/s"\n'
    model = Model(parse_robot(text, "axis"))
    assert model.mechanism.joint("slide").friction_width == pytest.approx(0.08)
    again = parse_robot(robot_file(model.mechanism, ())[0], "again")
    assert again.joint("slide").friction_width == pytest.approx(0.08)
    choice = choose_processing(model, [recorded(0.0)], None, SETTINGS)
    assert choice.processing.bands(("slide",)) == pytest.approx(0.08)


def test_c_code_and_plant_use_the_width_of_the_robot_file(axis: Model) -> None:
    model = Model(parse_robot(AXIS + "friction_width = 0.08\n", "axis"))
    assert controller_code(model) == controller_code(axis, dead_band=0.08)
    trajectory = Fourier(
        coordinates=("slide",),
        units=("m",),
        frequency=1.0,
        offset=np.zeros(1),
        mu=np.array([[0.1]]),
        nu=np.array([[0.0]]),
    )
    assert simulate(model, trajectory, lead_in=0).dead_band == [0.08]
    assert simulate(axis, trajectory, lead_in=0).dead_band != [0.08]


def test_a_width_of_friction_is_above_zero() -> None:
    with pytest.raises(InvalidMechanism, match="above zero"):
        parse_robot(AXIS + "friction_width = 0\n", "axis")
