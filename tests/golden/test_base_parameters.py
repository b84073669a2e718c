"""Base parameters of the papers' robots: counts and regroupings as printed, misprints corrected."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gough.core.parameters import INERTIAL, BaseParameters
from gough.engine import Model, base_parameters
from gough.mechanism import load_robot
from tests_support import model_of


def coefficients(base: BaseParameters, name: str) -> dict[str, float]:
    row = base.matrix[base.names.index(name)]
    return {base.standard[j]: round(float(c), 4) for j, c in enumerate(row) if abs(c) > 1e-7}


@pytest.fixture(scope="module")
def orthoglide() -> BaseParameters:
    return base_parameters(model_of("orthoglide"))


def test_orthoglide_has_61_base_parameters(orthoglide: BaseParameters) -> None:
    assert len(orthoglide) == 61
    assert orthoglide.gap > 1e6


@pytest.mark.parametrize("leg", [1, 2, 3])
def test_orthoglide_legs_regroup_identically_as_in_bg13(
    orthoglide: BaseParameters, leg: int
) -> None:
    """The list after Table 3 of BG13; bodies 1..5 are foot, fork, bar, knuckle, wrist, joints
    q1..q5.
    """
    name = f"leg{leg}."
    expected = {
        "fork.IzzR": {"fork.Izz": 1, "bar.Iyy": 1, "bar.mx": -0.31, "knuckle.Iyy": 1},
        "fork.myR": {"fork.my": 1, "bar.mz": 1, "knuckle.mz": 1},
        "q2.fvR": {"q2.fv": 1, "q5.fv": 1},
        "q2.fsR": {"q2.fs": 1, "q5.fs": 1},
        "q2.offR": {"q2.off": 1, "q5.off": -1},
        "bar.IxxR": {"bar.Ixx": 1, "bar.Iyy": -1, "bar.mx": 0.31},
        "bar.IzzR": {"bar.Izz": 1, "bar.mx": -0.31},
        "bar.IxzR": {"bar.Ixz": 1, "knuckle.mz": -0.31},
        "q3.fvR": {"q3.fv": 1, "q4.fv": 1},
        "q3.fsR": {"q3.fs": 1, "q4.fs": 1},
        "q3.offR": {"q3.off": 1, "q4.off": -1},
    }
    for base, terms in expected.items():
        assert coefficients(orthoglide, name + base) == {name + k: v for k, v in terms.items()}, (
            base
        )


def test_orthoglide_feet_and_platform_regroup_as_in_bg13(orthoglide: BaseParameters) -> None:
    for leg in (1, 2):
        assert coefficients(orthoglide, f"leg{leg}.foot.mR") == {
            f"leg{leg}.foot.m": 1,
            f"leg{leg}.q1.ia": 1,
            f"leg{leg}.fork.m": 1,
            f"leg{leg}.bar.mx": -3.2258,
            f"leg{leg}.bar.m": 1,
        }
    assert coefficients(orthoglide, "leg3.foot.mR") == {
        "leg3.foot.m": 1,
        "leg3.q1.off": -0.102,
        "leg3.fork.m": 1,
        "leg3.bar.mx": -3.2258,
        "leg3.bar.m": 1,
    }
    assert coefficients(orthoglide, "leg3.q1.iaR") == {"leg3.q1.ia": 1, "leg3.q1.off": 0.102}
    exact = orthoglide.matrix[
        orthoglide.names.index("leg3.q1.iaR"), orthoglide.standard.index("leg3.q1.off")
    ]
    assert exact == pytest.approx(0.10197, abs=5e-6)
    legs = (1, 2, 3)
    assert coefficients(orthoglide, "platform.mR") == {"platform.m": 1} | {
        f"leg{j}.bar.mx": 3.2258 for j in legs
    } | {f"leg{j}.knuckle.m": 1 for j in legs} | {f"leg{j}.wrist.m": 1 for j in legs}


def test_orthoglide_formula_reads_as_a_person_would_write_it(orthoglide: BaseParameters) -> None:
    assert orthoglide.regrouping()["platform.mR"].startswith(
        "platform.m + 3.2258 (leg1.bar.mx + leg2.bar.mx + leg3.bar.mx) + leg1.knuckle.m"
    )


def test_payload_mass_stays_apart_from_the_platform_in_a_loaded_and_unloaded_experiment() -> None:
    base = base_parameters(model_of("orthoglide"), payloads=["calibration"])
    assert "payload.calibration.m" in base.names
    assert len(base) == 62


def rigid(model: Model) -> list[str]:
    return [n for n in model.parameter_names(tie_legs=True) if n.rpartition(".")[2] in INERTIAL]


def test_palida_symmetric_bodies_give_table_one_of_ah09() -> None:
    """p1..p10 with p5 = s_z3; radius and height of the platform joints from robots' geometry."""
    model = model_of("palida")
    base = base_parameters(model, parameters=rigid(model))
    assert len(base) == 10
    values = dict(zip(base.names, base.values(model.values(base.standard))))
    printed = [0.0074, 0.9439, 0.9458, 0.6201, -1.2295, 0.2878, 0.2878, 0.1217, 1.9012, 16.1920]
    order = [
        "leg.ring.IzzR",
        "leg.tube.IxxR",
        "leg.tube.IzzR",
        "leg.tube.my",
        "leg.rod.mz",
        "platform.IxxR",
        "platform.IyyR",
        "platform.IzzR",
        "platform.mzR",
        "platform.mR",
    ]
    np.testing.assert_allclose([values[name] for name in order], printed, atol=5e-5)
    assert coefficients(base, "leg.tube.IxxR") == {
        "leg.tube.Ixx": 1,
        "leg.rod.Ixx": 1,
        "leg.tube.Iyy": -1,
        "leg.rod.Izz": -1,
    }


def test_palida_general_bodies_give_23() -> None:
    mechanism = load_robot("palida")
    carried = {"ring", "tube", "rod"}
    bodies = tuple(
        replace(b, parameters=INERTIAL)
        if b.name == "platform" or b.name.rpartition(".")[2] in carried
        else b
        for b in mechanism.bodies
    )
    ties = {
        f"leg.{part}.{p}": tuple(f"leg{j}.{part}.{p}" for j in range(1, 7))
        for part in carried
        for p in INERTIAL
    }
    model = Model(replace(mechanism, bodies=bodies, ties={**mechanism.ties, **ties}))
    assert len(base_parameters(model, parameters=rigid(model))) == 23


def test_bundled_palida_with_tied_legs_is_the_model_of_24() -> None:
    model = model_of("palida")
    base = base_parameters(model, tie_legs=True)
    assert len(base) == 24
    friction = [n for n in base.names if n.rpartition(".")[2].startswith("f")]
    assert sorted(friction) == sorted(
        ["leg.alpha.fs", "leg.beta.fs"]
        + [f"leg{j}.slider.{t}" for j in range(1, 7) for t in ("fs", "fv")]
    )


def test_h4_has_the_14_parameters_of_p03() -> None:
    base = base_parameters(model_of("h4"))
    assert sorted(base.names) == sorted(
        ["platform.m", "platform.Izz"]
        + [f"leg{j}.motor.{t}" for j in range(1, 5) for t in ("ia", "fv", "fs")]
    )
