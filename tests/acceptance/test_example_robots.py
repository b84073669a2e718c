"""Robots written from the reference alone: checked, designed for, simulated on Pinocchio,
identified, exported.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from gough.app.identify import identify
from gough.core.errors import InvalidInput
from gough.core.names import INERTIAL
from gough.engine import Model, base_parameters, random_motion
from gough.excitation import design
from gough.export import export, to_mjcf, to_urdf
from gough.mechanism import load_robot
from gough.virtual import record, simulate

FOLDER = Path(__file__).parents[2] / "examples" / "robots"
# Robot: degrees of freedom, base parameters, fundamental [Hz], what must be found.
ROBOTS = {
    "cable_arm": (2, 13, 1.0, ("spring.k", "cable.fs", "cable.fv")),
    "counterbalanced_arm": (
        3,
        28,
        0.2,
        ("counterbalance.off", "counterbalance.k", "counterbalance.fs"),
    ),
    "force_hexapod": (6, 10, 0.5, ("platform.m", "platform.Izz")),
    "gas_spring_delta": (
        3,
        61,
        1.0,
        ("leg.gas_spring.off", "leg.gas_spring.fs"),
    ),  # equal legs tied
    "spherical_wrist": (3, 40, 1.0, ("a.crank.Izz", "a.motor.fs", "camera.Ixz")),
    "surgical_arm": (5, 45, 0.5, ("lean.k3", "disc_1.fs", "disc_2.fs")),
    "tx40": (6, 61, 0.4, ("motor_6.fs", "motor_6.fv", "motor_5.fs")),
}

BEYOND = {"surgical_arm": ("lean.k3",)}  # terms that URDF and MJCF cannot express


def model_of(name: str) -> Model:
    path = FOLDER / f"{name}.toml"
    return Model(load_robot(path if path.exists() else name))


def bodies_of(model: Model) -> dict[str, list[float]]:
    return {
        body.name: [body.values.get(p, 0.0) for p in INERTIAL]
        for body in model.mechanism.bodies
        if body.parameters
    }


def test_every_example_is_here() -> None:
    assert {path.stem for path in FOLDER.glob("*.toml")} == set(ROBOTS) - {"tx40"}


@pytest.mark.parametrize("name", ROBOTS)
def test_an_example_assembles_and_has_its_base_parameters(name: str) -> None:
    model = model_of(name)
    assert (model.degrees_of_freedom, len(base_parameters(model))) == ROBOTS[name][:2]


@pytest.mark.parametrize("name", [name for name in ROBOTS if name not in ("tx40", "force_hexapod")])
def test_the_urdf_of_an_example_is_read_back_with_the_same_efforts(
    name: str, tmp_path: Path
) -> None:
    model = model_of(name)
    lost = dict.fromkeys(BEYOND.get(name, ()), 0.0)
    for ending, text in zip(("urdf", "yaml"), to_urdf(model, bodies_of(model), lost)):
        (tmp_path / f"robot.{ending}").write_text(text, encoding="utf-8")
    again = Model(load_robot(tmp_path / "robot.urdf"))
    motion = random_motion(model, 5, seed=1)
    # Motors come back in the order of the tree.
    order = [model.mechanism.coordinates.index(motor) for motor in again.mechanism.actuated]
    other = again.kinematics.motion(
        motion.time, *(x[:, order] for x in (motion.q, motion.qd, motion.qdd))
    )
    efforts = model.inverse_dynamics(motion, model.standard_values(lost))
    expected = efforts[
        :, [model.mechanism.actuated.index(motor) for motor in again.mechanism.actuated]
    ]
    np.testing.assert_allclose(again.inverse_dynamics(other), expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", ["counterbalanced_arm", "force_hexapod", "gas_spring_delta"])
def test_mujoco_holds_an_example_still_at_home_by_the_controls_of_its_keyframe(name: str) -> None:
    mujoco = pytest.importorskip("mujoco")
    model = model_of(name)
    terms = {
        key: 0.0 for key in model.mechanism.standard.names if key.kind == "fs"
    }  # friction alone would hold it
    robot = mujoco.MjModel.from_xml_string(to_mjcf(model, bodies_of(model), terms))
    data = mujoco.MjData(robot)
    mujoco.mj_resetDataKeyframe(robot, data, 0)
    mujoco.mj_forward(robot, data)
    without = np.array(data.ctrl)
    held = np.abs(data.qacc).max()
    data.ctrl[:] = 0
    mujoco.mj_forward(robot, data)
    assert without.any()
    assert held < 2e-2 * np.abs(data.qacc).max()


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=() if name == "cable_arm" else pytest.mark.long) for name in ROBOTS],
)
def test_an_example_is_identified_from_an_independent_plant(name: str, tmp_path: Path) -> None:
    model, (_, _, frequency, sought) = model_of(name), ROBOTS[name]
    tied = bool(model.mechanism.ties)
    plan = design(model, harmonics=3, starts=1, frequency=frequency, iterations=60, tie_legs=tied)
    assert plan.violations == 0
    rate = min(model.mechanism.noise.rate, 1000)
    run = simulate(model, plan.trajectories[0], plant="pinocchio", periods=2, rate=rate)
    result = identify(model, [record(run, seed=1)], estimator="all", tie_legs=tied)
    truth, estimate = result.base.values(model.values(result.base.standard)), result.estimate
    assert estimate.parameters == result.base.names
    away = (estimate.values - truth) / estimate.std
    assert (
        np.sqrt((away**2).mean()) < 2.5
    )  # few repetitions: their scatter tells the noise only so well
    for parameter in sought:
        k = next(k for k, name in enumerate(estimate.parameters) if name.standard == parameter)
        assert abs(away[k]) < 4, parameter
        assert estimate.std[k] < 0.2 * abs(truth[k]), parameter
    assert export(model, result, tmp_path, "c")
    for to in ("urdf", "mjcf"):
        if name in BEYOND:
            with pytest.raises(InvalidInput, match="cannot express the term 'k3'"):
                export(model, result, tmp_path, to)
        else:
            assert export(model, result, tmp_path, to)
