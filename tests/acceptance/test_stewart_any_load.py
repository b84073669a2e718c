"""Any load of the virtual Gough-Stewart platform, on logs of a MuJoCo free body under leg
forces.
"""

from __future__ import annotations

import numpy as np
import pytest
from stewart_any_load import (
    LIGHTER,
    MOTIONS,
    OFF_CENTRE,
    Coverage,
    coverage,
    exchanged,
    log,
    run,
    table,
)

from gough import Model, Simulation, identify, payload
from tests_support import model_of

pytestmark = pytest.mark.long
pytest.importorskip("mujoco")


@pytest.fixture(scope="module")
def model() -> Model:
    return model_of("stewart")


@pytest.fixture(scope="module")
def runs(model: Model) -> dict[str, Simulation]:
    return {name: run(model, OFF_CENTRE, degrees) for name, degrees in MOTIONS.items()}


@pytest.fixture(scope="module")
def found(model: Model, runs: dict[str, Simulation]) -> dict[str, Coverage]:
    return {
        name: coverage(lambda seed, s=s: payload(model, [log(s, seed)]), range(20), OFF_CENTRE)
        for name, s in runs.items()
    }


@pytest.mark.parametrize("name", MOTIONS)
def test_intervals_hold_the_truth(found: dict[str, Coverage], name: str) -> None:
    """Three misses of 20 happen to one parameter in thirteen by chance (`Iyy` with translations);
    four to one in 60.
    """
    held = found[name].held[found[name].observed > 0]
    assert held.mean() >= 0.93
    assert (held >= 0.85).all()
    assert np.count_nonzero(held < 0.9) <= 1
    assert found[name].changes == 0
    assert found[name].physical == 1


def test_rotations_show_what_translations_do_not(found: dict[str, Coverage]) -> None:
    """A loop tilts by some mrad though nobody asked for it: inertias are seen in that, ten times
    worse.
    """
    plain, turning = (found[name] for name in MOTIONS)
    assert (turning.observed == 1).all()
    assert (turning.std[4:] < 0.3).all()
    assert (plain.std[4:] > 8 * turning.std[4:]).all()
    assert (plain.observed[:4] == 1).all()
    assert "500.0" in table(found, OFF_CENTRE)[2]


def test_with_noisy_accelerations_translations_show_no_inertia(
    model: Model, runs: dict[str, Simulation]
) -> None:
    """A cut-off of 60 Hz fills the columns of the inertias with noise; least squares made -41.8 +-
    0.5 of Izz.
    """
    result = payload(model, [log(runs["translations only"], 1)], method="time", cutoff=60.0)
    assert [name.kind for name in result.unobserved][-6:] == [
        "Ixx",
        "Ixy",
        "Iyy",
        "Ixz",
        "Iyz",
        "Izz",
    ]
    seen = np.array(result.load.observed)
    low, high = result.estimate.interval().T
    assert ((low <= OFF_CENTRE) & (high >= OFF_CENTRE))[seen].all()


def test_an_identified_model_tells_its_errors(model: Model, runs: dict[str, Simulation]) -> None:
    """Differences to the truth beyond the noise of the loaded log are those of the model."""
    empty = run(model, None, 6.0, seed=3)
    result = payload(
        model, [log(runs["with rotations of 6 deg"], 1)], result=identify(model, [log(empty, 1001)])
    )
    assert (np.abs(result.estimate.values - OFF_CENTRE) < 4 * result.estimate.std).all()
    assert all(0 < p["model_std"] < p["std"] for p in result.to_dict()["parameters"])
    none = payload(model, [log(empty, 1)])
    assert abs(none.estimate.values[0]) < 4 * none.estimate.std[0]
    assert not none.changes


def test_a_load_exchanged_in_mid_run_is_dated_and_both_are_found(
    model: Model, runs: dict[str, Simulation]
) -> None:
    lighter = run(model, LIGHTER, 6.0)
    for seed in range(3):
        recording, at = exchanged(runs["with rotations of 6 deg"], lighter, seed)
        (change,) = payload(model, [recording]).changes
        assert abs(change.time - at) <= change.within < 0.4
        for load, true in ((change.before, OFF_CENTRE), (change.after, LIGHTER)):
            assert (np.abs(load.estimate.values - true) < 4.5 * load.estimate.std).all()
