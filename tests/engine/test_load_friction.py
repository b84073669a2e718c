"""Load-dependent friction in efforts, plants, derivatives, C code and estimates."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from gough.app.identify import identify
from gough.bounding.bounds import bounds
from gough.core.errors import InvalidInput, InvalidMechanism
from gough.core.motion import Motion
from gough.engine import Model
from gough.engine.base import base_parameters, standard_from_base
from gough.engine.derivatives import response
from gough.fitting.least_squares import WeightedLeastSquares
from gough.identification import Identification, load_identification
from gough.identification.experiment import prepare
from gough.identification.load_friction import linearise_load_friction
from gough.identification.payload import payload
from gough.identification.validation import validate
from gough.logs.recording import Recording
from gough.mechanism import load_robot, parse_robot, robot_text
from gough.mechanism.terms import JointTerm
from gough.processing import Processing
from gough.virtual import Simulation, record, simulate
from tests_support import c_efforts, fourier, model_of

MU = {"left": 0.15, "right": 0.08}
TEXT = (
    robot_text("five_bar")[0]
    .replace('"ia", "fv", "fs"]', '"ia", "fv", "fs", "fs_load"]')
    .replace('fs = "$fs" }', 'fs = "$fs", fs_load = "$mu" }')
    .replace("fs = 0.9 }", "fs = 0.9, mu = 0.15 }")
    .replace("fs = 0.7 }", "fs = 0.7, mu = 0.08 }")
)
OWN = ("fv", "fs", "fs_load")


@pytest.fixture(scope="module")
def robot() -> Model:
    return Model(parse_robot(TEXT, "five_bar.toml"))


@pytest.fixture(scope="module")
def unknown() -> Model:
    """The same robot with nothing known of it a priori."""
    mechanism = load_robot("five_bar")
    return Model(
        replace(
            mechanism,
            bodies=tuple(replace(body, values={}) for body in mechanism.bodies),
            joints=tuple(
                replace(j, values={}, terms=(*j.terms, "fs_load") if j.actuated else j.terms)
                for j in mechanism.joints
            ),
        )
    )


@pytest.fixture(scope="module")
def simulation(robot: Model) -> Simulation:
    tour = fourier(robot, 0.4, 0.5, harmonics=5)
    return simulate(robot, tour, periods=3, rate=500, plant="pinocchio")


@pytest.fixture(scope="module")
def motion(simulation: Simulation) -> Motion:
    return simulation.motion()


@pytest.fixture(scope="module")
def other(robot: Model) -> Recording:
    return record(simulate(robot, fourier(robot, 0.4, 0.4, seed=3), periods=2), seed=2)


@pytest.fixture(scope="module")
def result(unknown: Model, simulation: Simulation, other: Recording) -> Identification:
    return identify(unknown, record(simulation, seed=1), held_out=other)


def by_hand(model: Model, motion: Motion, band: np.ndarray) -> np.ndarray:
    """Efforts of a robot without such friction, and mu |u| sign(qd) of its efforts without the
    motors' friction.
    """
    plain = model_of("five_bar")
    none = {f"{leg}.motor.{term}": 0.0 for leg in MU for term in ("fv", "fs")}
    passed = plain.inverse_dynamics(motion, plain.standard_values(none), dead_band=band)
    motors = list(model.actuated)
    sign = np.clip(motion.qd[:, motors] / band[motors], -1, 1)
    return (
        plain.inverse_dynamics(motion, dead_band=band) + list(MU.values()) * np.abs(passed) * sign
    )


def test_efforts_and_columns_are_those_by_hand(
    robot: Model, motion: Motion, simulation: Simulation
) -> None:
    band = np.asarray(simulation.dead_band)
    expected = by_hand(robot, motion, band)
    np.testing.assert_allclose(robot.inverse_dynamics(motion, dead_band=band), expected, atol=1e-12)
    W = robot.regressor(motion, robot.mechanism.standard.names, dead_band=band)
    np.testing.assert_allclose(W @ robot.mechanism.standard.values, expected, atol=1e-12)


@pytest.mark.parametrize("plant", ["gough", "pinocchio", "mujoco"])
def test_every_plant_moves_as_the_efforts_by_hand_say(robot: Model, plant: str) -> None:
    done = simulate(robot, fourier(robot, 0.4, 0.5), rate=500, lead_in=0, plant=plant)
    left = done.effort[0] - by_hand(robot, done.motion(), np.asarray(done.dead_band))
    assert np.abs(left).max() < 1e-3  # of 25 N m; MuJoCo pulls loops closed


@pytest.mark.parametrize("by", ["task", "actuated"])
def test_derivatives_are_those_of_differences(robot: Model, motion: Motion, by: str) -> None:
    kernel = response(robot, (("effort", "left.motor"),), by, smooth=True)
    own = list(robot.loops.partitions[by].independent)
    moving = motion.take(slice(50, 400, 70))
    chi, load, band = robot.mechanism.standard.values, robot.load(), np.full(len(robot.home), 0.5)
    at = [moving.q[:, own], moving.qd[:, own], moving.qdd[:, own]]

    def value(parts: list[np.ndarray]) -> tuple[np.ndarray, ...]:
        q = robot.kinematics.motion(moving.time, *parts, by, start=moving.q).q
        return kernel(q, parts[1], parts[2], band, chi, load)

    slopes = value(at)[1].reshape(len(moving), -1)
    for k in range(3 * len(own)):
        step = [np.array(x) for x in at]
        ahead, back = [np.array(x) for x in step], [np.array(x) for x in step]
        ahead[k // len(own)][:, k % len(own)] += 1e-6
        back[k // len(own)][:, k % len(own)] -= 1e-6
        difference = (value(ahead)[0] - value(back)[0]).reshape(-1) / 2e-6
        np.testing.assert_allclose(slopes[:, k], difference, rtol=1e-5, atol=1e-5)


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_the_c_code_has_it(robot: Model, motion: Motion, tmp_path: Path) -> None:
    found = c_efforts(robot, motion, tmp_path, dead_band=0.02)
    np.testing.assert_allclose(found, robot.inverse_dynamics(motion, dead_band=0.02), atol=1e-8)


def test_coefficients_are_found_without_prior_knowledge(result: Identification) -> None:
    for leg, true in MU.items():
        name = f"{leg}.motor.fs_load"
        estimate = result.estimate
        assert abs(estimate[name] - true) < 3 * estimate.std[estimate.parameters.index(name)] < 0.01
    assert max(result.validation.relative) < 0.03


def test_the_linear_problem_is_the_derivative_of_the_prediction(
    unknown: Model, simulation: Simulation
) -> None:
    base = base_parameters(unknown)
    plain = Processing(method="time", cutoff=20.0, decimation=1, window=0.0)
    experiment = linearise_load_friction(
        prepare(unknown, [record(simulation, seed=1)], base, processing=plain)
    )
    found = dict(zip(unknown.mechanism.standard.names, experiment.model.transmitted.parameters))
    log, values = experiment.processed[0], base.matrix @ [found[name] for name in base.standard]

    def predicted(at: np.ndarray) -> np.ndarray:
        return unknown.inverse_dynamics(
            log.motion, standard_from_base(unknown, base, at)[0], dead_band=log.dead_band
        )

    for k, size in enumerate(np.abs(values) + 1e-3):
        step = np.zeros(len(values))
        step[k] = 1e-6 * size
        slope = (predicted(values + step) - predicted(values - step)) / (2e-6 * size)
        left = np.abs(experiment.problem.regressor[:, :, k] - slope)
        assert np.quantile(left, 0.99) < 1e-6 * np.abs(slope).max()  # but where |u| bends


def test_what_the_robot_file_lacks_does_not_keep_it_from_settling(
    robot: Model, unknown: Model, simulation: Simulation
) -> None:
    """Full steps between two sets of signs would go on for ever; what is found fits better than the
    truth does.
    """
    recording, base = record(simulation, seed=1), base_parameters(unknown)
    assert recording.effort is not None
    recording = replace(recording, effort=recording.effort + np.sin(40 * recording.position))
    plain = Processing(method="time", cutoff=20.0, decimation=1, window=0.0)
    experiment = linearise_load_friction(prepare(unknown, [recording], base, processing=plain))
    found = WeightedLeastSquares().fit(experiment.problem)
    log = experiment.processed[0]
    left = [
        np.linalg.norm(
            log.effort - unknown.inverse_dynamics(log.motion, values, dead_band=log.dead_band)
        )
        for values in (
            standard_from_base(unknown, base, found.values)[0],
            robot.mechanism.standard.values,
        )
    ]
    assert left[0] < 0.99 * left[1]


def test_a_saved_result_predicts_the_same(
    result: Identification, unknown: Model, other: Recording, tmp_path: Path
) -> None:
    result.save(tmp_path)
    again = load_identification(tmp_path)
    fitted = again.fitted(unknown)
    part = prepare(fitted, [other], again.base, processing=again.processing).regressions
    assert validate(again.estimate, part).relative == pytest.approx(
        result.validation.relative, rel=1e-3
    )


def test_joints_whose_transmitted_effort_is_unknown_are_refused() -> None:
    with pytest.raises(InvalidMechanism, match=r"left.elbow.*no motor"):
        parse_robot(TEXT.replace('terms = ["fv"]', 'terms = ["fv", "fs_load"]'), "x.toml")
    with pytest.raises(InvalidMechanism, match="more motors"):
        parse_robot("redundant = true\n" + TEXT, "x.toml")
    with pytest.raises(InvalidInput, match=r"character 1.*lag of the effort"):
        JointTerm(name="x", label="x", expression="lag(abs(effort) * sign(qd), '0.1 s')")


def test_what_needs_known_columns_refuses_it_by_name(robot: Model, other: Recording) -> None:
    with pytest.raises(
        InvalidInput,
        match=r"friction of 'left.motor' depends on the effort.* bounds cannot be found",
    ):
        bounds(robot, other, error_bound=1.0)
    with pytest.raises(InvalidInput, match="a load cannot be found"):
        payload(robot, other)
