"""S20 on the virtual Gough-Stewart platform: logs of a MuJoCo free body under leg forces."""

from __future__ import annotations

import numpy as np
import pytest
from stewart_hydraulic import LOOPS, excitation
from stewart_load import (
    NAMES,
    TABLE_3,
    TRUTH,
    Seeds,
    designed,
    filter_table,
    full_filter,
    papers_filter,
    rates,
    run,
    tolerances,
)

from gough import Model, Simulation
from tests_support import model_of

pytestmark = pytest.mark.long
pytest.importorskip("mujoco")


@pytest.fixture(scope="module")
def model() -> Model:
    return model_of("stewart")


@pytest.fixture(scope="module")
def runs(model: Model) -> dict[str, Simulation]:
    return {loop: run(model, excitation(model), loop, 2) for loop in LOOPS}


@pytest.fixture(scope="module")
def found(runs: dict[str, Simulation]) -> dict[str, Seeds]:
    return {loop: papers_filter(simulation, range(20)) for loop, simulation in runs.items()}


def test_loops_tilt_as_hydraulics_of_their_stiffness_do(found: dict[str, Seeds]) -> None:
    assert 2e-3 < found["stiff"].tilt < 5e-3 < found["soft"].tilt < 20e-3


@pytest.mark.parametrize("loop", LOOPS)
def test_height_of_the_load_is_found_within_one_percent(found: dict[str, Seeds], loop: str) -> None:
    """Table 3: 0.73 %. Rms over 20 seeds; and it is nowhere called unobservable."""
    assert found[loop].rms_error[0] <= 0.01
    assert not found[loop].unobserved[:, 0].any()


@pytest.mark.parametrize("loop", LOOPS)
def test_every_error_is_within_the_deviations_reported(found: dict[str, Seeds], loop: str) -> None:
    seeds = found[loop]
    assert (seeds.within >= 0.9).all()
    assert (np.abs(seeds.values - TRUTH) < 4 * seeds.std).all()


def test_what_the_motion_cannot_give_is_said(found: dict[str, Seeds]) -> None:
    """The stiff loop hardly tilts: no Ixx, Iyy.

    The soft one tilts so that (22) is wrong about z: no Izz.
    """
    unseen = {
        loop: dict(zip(NAMES, seeds.unobserved.mean(axis=0))) for loop, seeds in found.items()
    }
    assert unseen["stiff"]["Ixx"] > 0.9
    assert unseen["stiff"]["Iyy"] > 0.9
    assert unseen["soft"]["Izz"] > 0.9
    assert unseen["soft"]["Ixx"] == unseen["soft"]["Iyy"] == 0


def test_a_loop_that_tilts_gives_the_inertias_of_table_3(found: dict[str, Seeds]) -> None:
    """Published: 3.76 and 1.00 %, one run of an unknown loop."""
    error = 100 * found["soft"].rms_error
    assert error[1] < 1.5 * TABLE_3[1]
    assert error[2] < 1.5 * TABLE_3[1]


def test_the_filter_converges_as_in_figure_5(found: dict[str, Seeds]) -> None:
    history = found["soft"].first.history
    after = history.time > 1.0
    assert np.abs(history.mean[after, 3] / TRUTH[0] - 1).max() < 0.01
    assert (history.std[-1, 3:] < history.std[len(history) // 8, 3:]).all()


def test_the_dropped_moment_about_z_is_what_spoils_izz(
    runs: dict[str, Simulation], found: dict[str, Seeds]
) -> None:
    whole = papers_filter(runs["soft"], range(4), yaw_coupling=True)
    assert found["soft"].rms_error[3] > 1.0
    assert whole.rms_error[3] < 0.4
    assert not whole.unobserved[:, 3].any()


def test_all_ten_parameters_are_found_within_one_percent_on_a_designed_motion(model: Model) -> None:
    own = run(model, designed(model), "stiff", 2)
    result = full_filter(own)
    true, allowed = tolerances(model)
    error = result.estimate.values - true
    assert (np.abs(error) < allowed).all()
    assert (np.abs(error) < 5 * result.estimate.std).all()
    assert (result.estimate.std < 0.5 * allowed).all()
    assert result.unobserved == ()
    assert min(rates(own, result, samples=50).values()) > 0


def test_the_full_model_sees_more_in_the_papers_motion_than_its_filter(
    runs: dict[str, Simulation], found: dict[str, Seeds]
) -> None:
    """Ixx and Izz about the load's centre from the ten parameters, the load's mass being found as
    well.
    """
    m, _, _, mz, Ixx, _, _, _, _, Izz = full_filter(runs["soft"]).estimate.values
    assert mz / m == pytest.approx(TRUTH[0], rel=0.005)
    assert Ixx - mz**2 / m == pytest.approx(TRUTH[1], rel=0.1)
    assert abs(Izz / TRUTH[3] - 1) < 0.1 < found["soft"].rms_error[3]


def test_the_table_stands_beside_the_papers(found: dict[str, Seeds]) -> None:
    lines = filter_table(found)
    assert len(lines) == 6
    assert "12.80 %" in lines[-1]
    assert f"{100 * found['soft'].rms_error[1]:.2f} %" in lines[3]
