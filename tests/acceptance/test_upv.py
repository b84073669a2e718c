"""Real runs of the UPV robot: identified on one, validated on two others.

Read where they are, skipped without.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import upv_identify as example

from gough.core.names import Parameter
from gough.engine import base_parameters
from gough.fitting.least_squares import GaussMarkov
from gough.fitting.pseudo_inertia import pseudo_inertia
from gough.identification import feasible, prepare
from tests_support import model_of

pytestmark = [
    pytest.mark.long,
    pytest.mark.slow,
    pytest.mark.skipif(not example.DATA.exists(), reason="UPV logs are not here"),
]


@pytest.fixture(scope="module")
def study() -> example.Study:
    return example.read()


@pytest.fixture(scope="module")
def found(study: example.Study) -> dict[str, Any]:
    return example.run(study)


def overall(errors: list[float]) -> float:
    return float(np.sqrt(np.mean(np.square(errors))))


def test_every_leg_of_runs_not_used_is_predicted_to_an_eighth_or_better(
    found: dict[str, Any],
) -> None:
    errors = found["models"]["all"]["held_out"]
    for name in ("validation", "volts"):
        assert max(errors["10 Hz"][name]) < 0.12, name
        assert overall(errors["10 Hz"][name]) < 0.105, name
        assert max(errors["100 Hz"][name]) < 0.16, name
    assert "WARNING - predicts the held-out log" in found["headline"]


def test_coulomb_friction_is_what_this_robot_has_and_each_leg_its_own(
    found: dict[str, Any],
) -> None:
    error = {name: overall(s["held_out"]) for name, s in found["structures"].items()}
    assert error["none"] > 0.7
    assert error["viscous"] > 4 * error["Coulomb"]
    assert error["both"] < 0.97 * error["Coulomb"]
    assert error["both, offsets, equal legs tied"] > 2 * error["both, offsets"]
    for more in (
        "both, offsets, passive Coulomb",
        "both, offsets, passive both",
    ):  # not worth 7 and 14 parameters
        assert error[more] > 0.98 * error["both, offsets"]
    condition = {name: s["condition_of_correlation"] for name, s in found["structures"].items()}
    assert condition["both, offsets"] < 0.1 * condition["both"]
    assert condition["both, offsets"] < condition["both, offsets, passive both"]


def test_a_quarter_of_the_parameters_predicts_nearly_as_well(found: dict[str, Any]) -> None:
    every, few = found["models"]["all"], found["models"]["ratio 10"]
    assert few["parameters"] <= every["parameters"] / 4
    assert few["condition_of_correlation"] < 20 < 1e4 < every["condition_of_correlation"]
    for name in ("validation", "volts"):
        assert overall(few["held_out"]["10 Hz"][name]) < 1.3 * overall(
            every["held_out"]["10 Hz"][name]
        )
    held = found["models"]["by held-out error"]
    assert few["parameters"] < held["parameters"] < every["parameters"]
    assert overall(held["held_out"]["10 Hz"]["volts"]) < 1.05 * overall(
        every["held_out"]["10 Hz"]["volts"]
    )


def test_essential_parameters_agree_with_the_drawings(found: dict[str, Any]) -> None:
    """Weight and its lever from CAD, which the estimate has not seen; friction positive."""
    values = {e["name"]: e for e in found["essential"]}
    for name, share in (("platform.mR", 0.1), ("platform.mxR", 0.15)):
        assert values[name]["value"] == pytest.approx(values[name]["robot_file"], rel=share)
    friction = [e["value"] for e in found["essential"] if Parameter(e["name"]).kind in ("fv", "fs")]
    assert len(friction) >= 4
    assert min(friction) > 0
    known = [e["std"] / abs(e["value"]) for e in found["essential"]]
    assert min(known) < 0.015
    assert max(known) < 10 * min(known)  # where BG13's elimination ends


def test_the_table_says_how_good_it_is(found: dict[str, Any]) -> None:
    text = example.table(found)
    assert "both, offsets, equal legs tied" in text
    assert "essential parameters, ratio 10" in text
    assert text.endswith(found["headline"])


def test_bodies_are_possible_although_the_drawing_has_a_rod_without_thickness(
    study: example.Study,
) -> None:
    """All legs free, no ties: the CAD values of leg 4's rod lie on the limit of what can exist."""
    model = model_of("upv")
    base = base_parameters(model)
    ready = prepare(model, [study.logs["identification"]], base)
    estimate = GaussMarkov().fit(ready.problem)
    found = feasible(model, base, ready.problem, estimate)
    assert any(
        "leg4.rod: the prior has no thickness" in str(notice) for notice in found.estimate.notices
    )
    for ten in found.bodies.values():
        assert np.linalg.eigvalsh(pseudo_inertia(ten))[0] > 0
    masses = [ten[0] for name, ten in found.bodies.items() if name.startswith("leg")]
    assert max(masses) < 30  # the legs weigh a few kilograms
