"""What is no part of Gough, through all that Gough does: a term, closures, an estimator, formats of
logs and robots.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import my_gough
import numpy as np
import pytest

from gough.app.identify import identify
from gough.bounding.prior import default_prior
from gough.core.errors import InvalidInput, InvalidMechanism
from gough.engine import Model, base_parameters, random_motion
from gough.export import controller_code, export, to_mjcf, to_urdf
from gough.fitting.pseudo_inertia import group_bodies, possible_body, prior_body
from gough.identification import Identification
from gough.identification.structures import friction_structures
from gough.logs.readers import read_recording
from gough.logs.recording import Recording
from gough.logs.recording_sources import open_recording
from gough.mechanism import (
    TERMS,
    Body,
    Joint,
    JointTerm,
    Mechanism,
    load_robot,
    parse_robot,
    register_term,
    robot_text,
)
from gough.mechanism.terms import Constant
from gough.virtual import record, simulate
from gough.virtual.joint_efforts import JointEfforts
from tests_support import fourier, registries_restored

TEXT = (
    robot_text("five_bar")[0]
    .replace('terms = ["ia", "fv", "fs"]', 'terms = ["ia", "fv", "fc"]')
    .replace('fs = "$fs" }', 'fc = "$fs" }')
)
TRUE = {"left.motor.fc": 0.9, "right.motor.fc": 0.7}


@pytest.fixture(autouse=True, scope="module")
def _registered() -> Iterator[None]:
    with registries_restored():
        my_gough.register()
        yield


@pytest.fixture(scope="module")
def robot(_registered: None) -> Model:
    return Model(parse_robot(TEXT, "five_bar.toml"))


@pytest.fixture(scope="module")
def log(robot: Model) -> Recording:
    """From the plant that does not share our equations."""
    pytest.importorskip("pinocchio")
    tour = fourier(robot, 0.4, 0.5, harmonics=5)
    return record(simulate(robot, tour, periods=3, rate=500, plant="pinocchio"), seed=1)


@pytest.fixture(scope="module")
def result(robot: Model, log: Recording) -> Identification:
    return identify(robot, [log], estimator="feasible")


def bodies_of(model: Model) -> dict[str, np.ndarray]:
    table = model.mechanism.standard
    return {
        body.name: possible_body(prior_body(body, table.values))[0]
        for body in group_bodies(table.names)
    }


def test_the_term_is_part_of_the_efforts(robot: Model) -> None:
    """Motors are independent coordinates: their terms add to their own efforts and to nothing
    else.
    """
    motion = random_motion(robot, 20)
    with_, without = (
        robot.inverse_dynamics(motion, robot.standard_values(change))
        for change in (None, dict.fromkeys(TRUE, 0.0))
    )
    speed = motion.qd[:, [motion.column(name) for name in robot.mechanism.actuated]]
    np.testing.assert_allclose(
        with_ - without, np.array([0.9, 0.7]) * np.tanh(speed / 0.05), atol=1e-12
    )


@pytest.mark.parametrize("plant", ["pinocchio", "mujoco"])
def test_every_plant_simulates_the_term(robot: Model, plant: str) -> None:
    pytest.importorskip(plant)
    tour = fourier(robot, 0.3, 1.0, harmonics=2)
    ours, theirs = (
        simulate(robot, tour, plant=p, controller="pid+", rate=500, lead_in=0)
        for p in ("gough", plant)
    )
    assert np.abs(ours.effort - theirs.effort).max() < 2e-3  # of 0.9 N m of friction that reverses
    np.testing.assert_allclose(theirs.q, ours.q, atol=1e-5)


def test_a_term_that_weighs_acceleration_by_position_is_refused_by_the_other_plants(
    robot: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pinocchio")
    monkeypatch.setitem(
        TERMS, "fc", replace(TERMS["fc"], expression="q * qdd", units=("kg", "kg m2"))
    )
    model = Model(parse_robot(TEXT, "five_bar.toml"))
    with pytest.raises(
        InvalidInput, match=r"term 'fc' of joint 'left\.motor' multiplies the acceleration"
    ):
        simulate(model, fourier(model, 0.1, 1.0), plant="pinocchio")


def test_its_coefficients_are_identified(result: Identification) -> None:
    for name, true in TRUE.items():
        estimate = result.estimates["feasible"]
        k = estimate.parameters.index(name)
        assert abs(estimate.values[k] - true) < 4 * estimate.std[k]
        assert estimate.std[k] < 0.02
        assert result.joint_terms[name] == pytest.approx(true, abs=0.03)


def test_its_properties_are_asked_for(robot: Model) -> None:
    """Coulomb-like for reversals, not negative for bounds, friction for structures, last in the
    order of a joint.
    """
    mechanism = robot.mechanism
    assert [joint.name for joint in mechanism.joints if mechanism.has_coulomb(joint)] == [
        "left.motor",
        "right.motor",
    ]
    base = base_parameters(robot)
    assert default_prior(robot, base)["left.motor.fc"][0] == 0.0
    assert list(friction_structures(robot, base))[:4] == [
        "none",
        "viscous",
        "smooth Coulomb",
        "both",
    ]
    names = robot.parameter_names()
    assert names[names.index("left.motor.fv") :][:4] == ("left.motor.fv", "right.motor.fv", *TRUE)


def test_c_code_has_the_term_and_robot_formats_refuse_it_by_name(
    robot: Model, result: Identification, tmp_path: Path
) -> None:
    source, _ = export(robot, result, tmp_path, "c")
    assert source.read_text().count("tanh(") == 2
    for format, write in (("urdf", to_urdf), ("mjcf", to_mjcf)):
        with pytest.raises(
            InvalidInput,
            match=r"cannot express the term 'fc' \(smooth Coulomb friction\) of joint 'left",
        ):
            export(robot, result, tmp_path, format)
        write(robot, bodies_of(robot), dict.fromkeys(TRUE, 0.0))  # nothing is lost without friction
    assert {file.suffix for file in tmp_path.iterdir()} == {".c", ".h"}


FUNCTIONS = {
    "sin(x)": np.sin,
    "cos(x)": np.cos,
    "tan(x)": np.tan,
    "exp(x)": np.exp,
    "tanh(x)": np.tanh,
    "abs(x)": np.abs,
    "log(3 + x)": lambda x: np.log(3 + x),
    "sqrt(3 + x)": lambda x: np.sqrt(3 + x),
    "floor(x)": np.floor,
    "min(x, 0.2)": lambda x: np.minimum(x, 0.2),
    "max(x, 0.2)": lambda x: np.maximum(x, 0.2),
    "x^3 - 2 * x**2": lambda x: x**3 - 2 * x**2,
    "-x^2": lambda x: -(x**2),
    "2^-x": lambda x: 2**-x,
    "1 - x / 2 / (4 + x) * 3": lambda x: 1 - x / 2 / (4 + x) * 3,
    "sign(x)": np.sign,
}
WORDS = {"abs(x)": "fabs(", "min(x, 0.2)": "fmin(", "max(x, 0.2)": "fmax(", "sign(x)": "fmax("}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_promised_function_is_the_same_in_kernels_numbers_and_c(name: str) -> None:
    function = FUNCTIONS[name]
    with registries_restored():
        register_term(
            JointTerm(
                name="ft",
                label="any",
                units=("N per any",) * 2,
                expression=re.sub(r"\bx\b", "(q - half * qd)", name),
                constants={"half": Constant(value=0.5)},
            )
        )
        hinge = Joint(
            name="hinge",
            kind="revolute",
            parent="base",
            child="bob",
            actuated=True,
            terms=("ft",),
            values={"ft": 2.0},
        )
        model = Model(
            Mechanism(name="arm", bodies=(Body(name="bob", values={"m": 1.0}),), joints=(hinge,))
        )
        motion = random_motion(model, 6)
        expected = function(motion.q[:, 0] - 0.5 * motion.qd[:, 0])
        np.testing.assert_allclose(
            model.regressor(motion, ["hinge.ft"])[:, 0, 0], expected, rtol=1e-12, atol=1e-14
        )
        efforts = JointEfforts(model.mechanism, {"hinge.ft": 2.0}, [0], np.ones(1))
        np.testing.assert_array_equal(
            [efforts(*x, np.zeros(1))[0] for x in zip(motion.q, motion.qd)], 2 * expected
        )
        word = WORDS.get(
            name, name.partition("(")[0] + "(" if name[0].isalpha() and "(" in name else "hinge"
        )
        assert word in controller_code(model)[0] + controller_code(model)[1]


def test_a_robot_file_may_not_give_it_a_negative_value() -> None:
    with pytest.raises(
        InvalidMechanism, match=r"'values\.fc': smooth Coulomb friction cannot be negative"
    ):
        parse_robot(TEXT.replace("fs = 0.9", "fs = -0.9"), "five_bar.toml")


@pytest.mark.parametrize("name", ["fv", "Ixx", "gain", "a b", "frictionR"])
def test_names_that_mean_something_else_are_refused(name: str) -> None:
    with pytest.raises(InvalidInput, match=name):
        register_term(replace(TERMS["fv"], name=name))
    assert isinstance(TERMS["fv"], JointTerm)


def closed_by(kind: str) -> Model:
    return Model(parse_robot(TEXT.replace('kind = "point"', f'kind = "{kind}"'), "five_bar.toml"))


@pytest.mark.parametrize("kind", ["flat", "hinge"])
def test_a_closure_kind_closes_the_loops(kind: str, robot: Model) -> None:
    """In the plane it is the same robot as with points."""
    model, motion = closed_by(kind), random_motion(robot, 10)
    np.testing.assert_allclose(model.home, robot.home, atol=1e-12)
    np.testing.assert_allclose(
        model.kinematics.closure_map(motion.q), robot.kinematics.closure_map(motion.q), atol=1e-10
    )
    np.testing.assert_allclose(
        model.inverse_dynamics(motion), robot.inverse_dynamics(motion), atol=1e-9
    )


def test_a_robot_with_it_is_identified(robot: Model, log: Recording) -> None:
    found, expected = (identify(model, [log]).estimate for model in (closed_by("flat"), robot))
    assert found.parameters == expected.parameters
    np.testing.assert_allclose(found.values, expected.values, atol=1e-9)


@pytest.mark.parametrize("plant", ["pinocchio", "mujoco"])
def test_plants_simulate_a_closure_kind_they_have_parts_for_and_refuse_others_by_name(
    plant: str,
) -> None:
    pytest.importorskip(plant)
    model, other = closed_by("hinge"), closed_by("flat")
    tour = fourier(model, 0.3, 1.0, harmonics=2)
    theirs = simulate(model, tour, plant=plant, controller="pid+", rate=500, lead_in=0)
    assert theirs.loop_error.max() < 1e-7
    with pytest.raises(InvalidInput, match=r"closure 'left\.tip' of kind flat has no form"):
        simulate(other, tour, plant=plant)


def test_robot_formats_write_a_closure_kind_or_refuse_it_by_name() -> None:
    model, other = closed_by("hinge"), closed_by("flat")
    terms = dict.fromkeys(TRUE, 0.0)
    assert (
        'hinge: [["left_tip_a", "left_tip_b"], ["right_tip_a"'
        in to_urdf(model, bodies_of(model), terms)[1]
    )
    assert to_mjcf(model, bodies_of(model), terms).count("<connect") == 4
    for write in (to_urdf, to_mjcf):
        with pytest.raises(InvalidInput, match=r"closure 'left\.tip' of kind flat has no form"):
            write(other, bodies_of(other), terms)


def test_logs_of_the_format_are_read_whole_and_in_blocks(log: Recording, tmp_path: Path) -> None:
    path = tmp_path / "run.cnt"
    my_gough.write_counter(log, path)
    whole = read_recording(path)
    assert whole.joints == log.joints
    np.testing.assert_array_equal(whole.effort, log.effort)
    blocks = list(open_recording(path).blocks(1000))
    assert [len(block) for block in blocks[:2]] == [1000, 1000]
    np.testing.assert_array_equal(
        np.concatenate([block.position for block in blocks]), log.position
    )


def test_robots_of_the_format_are_read(robot: Model, tmp_path: Path) -> None:
    path = tmp_path / "robot.json"
    path.write_text(json.dumps(tomllib.loads(TEXT)))
    assert load_robot(path).standard.as_dict() == robot.mechanism.standard.as_dict()
    with pytest.raises(
        InvalidMechanism, match=r"read from \.toml, .*, \.json files, not from \.step"
    ):
        load_robot(_written(tmp_path / "robot.step", "<robot/>"))


def test_the_export_is_written(robot: Model, result: Identification, tmp_path: Path) -> None:
    (file,) = export(robot, result, tmp_path, "names")
    assert file.name == "names.txt"
    assert file.read_text().splitlines() == list(result.estimate.parameters)


def test_the_estimator_answers_by_its_name_and_among_all(robot: Model, log: Recording) -> None:
    assert identify(robot, [log], estimator="halved").estimate.method == "every other sample"
    together = identify(robot, [log], estimator="all")
    assert {"halved", "ls", "gm", "feasible"} <= set(together.estimates)
    assert together.estimator == "gm"
    with pytest.raises(InvalidInput, match="already an estimator 'halved'"):
        my_gough.register_estimator("halved", my_gough.Halved())
    with pytest.raises(InvalidInput, match="is no estimator"):
        my_gough.register_estimator("empty", object())


def _written(path: Path, text: str) -> Path:
    path.write_text(text)
    return path
