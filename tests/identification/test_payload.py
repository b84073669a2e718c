"""The load of a robot: intervals that hold, nothing where there is nothing, words for what a motion
does not show.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gough import identify
from gough.core.arrays import FloatArray
from gough.core.errors import InvalidInput
from gough.core.names import INERTIAL, LOAD_PARAMETERS, Parameter
from gough.engine import Model
from gough.fitting.load_fit import LoadProblem
from gough.fitting.regression import Regression
from gough.identification import Identification
from gough.identification.load_unknowns import LoadUnknowns, _physically_consistent
from gough.identification.measured_payload import with_measured_payload
from gough.identification.payload import _unexplained_notices, payload
from gough.identification.stated_values import contradiction, stated_payload_notices
from gough.logs.recording import Channels, Recording
from gough.mechanism import load_robot
from gough.mechanism.types import Payload
from gough.processing import Processing
from gough.virtual import Simulation, record, simulate
from tests_support import fourier, model_of
from trials import repeated

TEN = (500.0, 40.0, -25.0, 150.0, 75.0, 3.0, 80.0, -13.0, 9.0, 35.0)
STANDING = Processing(
    method="time", cutoff=5.0, decimation=80, dead_band={}, window=0.0, joints_at_rest=()
)


def carrying(model: Model, values: dict[str, float]) -> Model:
    """The robot with a payload `brick`."""
    brick = Payload(name="brick", body=model.load_body, values=values, known=("m",))
    return Model(replace(model.mechanism, payloads=(brick,)))


@pytest.fixture(scope="module")
def loaded(five_bar: Model) -> Simulation:
    robot = carrying(five_bar, {"m": 0.7})
    return simulate(robot, fourier(robot, 0.4, 0.5, harmonics=5), periods=2, payload="brick")


@pytest.fixture(scope="module")
def identified(five_bar_result: Identification) -> Identification:
    return five_bar_result


def log(loaded: Simulation, seed: int) -> Recording:
    return replace(record(loaded, seed=seed), payload=None)


def switched(five_bar_log: Recording, loaded: Simulation, seed: int) -> Recording:
    """A log whose second part carries the load, with the signal of a gripper."""
    first = replace(five_bar_log, payload=None, period_samples=None)
    second = replace(log(loaded, seed), period_samples=None)
    step = first.time[1] - first.time[0]
    time = np.concatenate([first.time, first.time[-1] + step + second.time - second.time[0]])
    on = np.repeat([0.0, 1.0], [len(first), len(second)])
    return Recording(
        joints=first.joints,
        time=time,
        position=np.concatenate([first.position, second.position]),
        position_units=first.position_units,
        effort=np.concatenate([first.effort, second.effort]),
        extra=Channels(names=("gripper",), units=("1",), values=on[:, None]),
        source="switched",
    )


def test_a_load_carried_in_part_of_a_log_is_found_by_the_signal_of_the_gripper(
    five_bar: Model, five_bar_log: Recording, loaded: Simulation, identified: Identification
) -> None:
    both = switched(five_bar_log, loaded, 3)
    found = payload(five_bar, [both], result=identified, carrying="gripper")
    assert abs(found.load.estimate[LOAD_PARAMETERS[0]] - 0.7) < 3 * found.load.estimate.std[0]
    assert not found.changes
    robot = carrying(five_bar, {"m": 0.7})
    result = identify(robot, [both], payload="brick", carrying="gripper")
    mass = result.payload[Parameter.of_payload("brick", "m")]
    assert abs(mass["value"] - 0.7) < 3 * mass["std"]
    assert mass["std"] < 0.1


def holding(
    model: Model, values: FloatArray, seconds: float = 2.0, noise: float = 5.0, blur: float = 20e-6
) -> Recording:
    """A log of a robot that stands at home: efforts that hold it, and noise."""
    rng, t = np.random.default_rng(0), np.arange(round(1000 * seconds)) / 1000
    joints = model.mechanism.actuated
    home = model.home[list(model.actuated)]
    effort = values + noise * rng.standard_normal((len(t), len(joints)))
    return Recording(
        joints=joints,
        time=t,
        position=home + blur * rng.standard_normal((len(t), len(joints))),
        position_units=tuple(model.mechanism.joint(name).unit for name in joints),
        effort=effort,
        source="holding",
    )


def statics(model: Model, mass: float, centre: tuple[float, float]) -> FloatArray:
    """Efforts of the legs of a Gough-Stewart platform under weights, from the directions of the
    legs alone.
    """
    body = load_robot("stewart")
    angles = np.deg2rad(
        [[7.5, 52.5], [112.5, 67.5], [127.5, 172.5], [232.5, 187.5], [247.5, 292.5], [352.5, 307.5]]
    )
    low = np.stack([0.6 * np.cos(angles[:, 0]), 0.6 * np.sin(angles[:, 0]), np.zeros(6)], axis=1)
    high = np.stack(
        [0.4 * np.cos(angles[:, 1]), 0.4 * np.sin(angles[:, 1]), np.full(6, 0.76385)], axis=1
    )
    along = (high - low) / np.linalg.norm(high - low, axis=1)[:, None]
    arms = high - [0, 0, 0.76385]
    force = np.array([0.0, 0.0, -9.81 * (100 + mass)])
    moment = np.cross([*centre, 0.0], [0.0, 0.0, -9.81 * mass])
    assert len(body.actuated) == 6
    return np.linalg.solve(
        np.concatenate([along, np.cross(arms, along)], axis=1).T, -np.concatenate([force, moment])
    )


@repeated(10, 25)
def test_standard_deviations_of_two_repetitions_hold_over_many_noises(
    five_bar: Model, loaded: Simulation, trials: int
) -> None:
    used = payload(five_bar, [log(loaded, 0)]).processing
    normalised = []
    for seed in range(trials):
        found = payload(five_bar, [log(loaded, seed)], processing=used).estimate
        normalised.append((found["payload.load.m"] - 0.7) / found.std[0])
    assert 0.6 < np.sqrt(np.mean(np.square(normalised))) < 1.6


def test_a_tool_point_that_does_not_turn_shows_the_mass_alone(
    five_bar: Model, loaded: Simulation
) -> None:
    found = payload(five_bar, [log(loaded, 1)], reach=0.2)
    assert set(found.unobserved) == set(found.estimate.parameters[1:])
    np.testing.assert_allclose(
        found.estimate.std[1:], 0.7 * 0.2 ** np.array([1, 1, 1, 2, 2, 2, 2, 2, 2]), rtol=0.1
    )
    facts = found.to_dict()["parameters"]
    assert [p["value"] for p in facts[1:]] == [None] * 9
    assert all(p["information"] < 3 for p in facts[1:])
    assert found.summary().count("not observed") == 9
    assert found.load.physical


def test_on_the_models_own_log_there_is_no_load(
    five_bar: Model, five_bar_log: Recording, identified: Identification
) -> None:
    found = payload(five_bar, [five_bar_log], result=identified)
    low, high = found.estimate.interval().T
    assert (low <= 0).all()
    assert (high >= 0).all()
    assert abs(found.estimate.values[0]) < 0.5 * found.estimate.std[0]
    assert any("no load is detected" in str(notice) for notice in found.notices)
    assert found.load.physical
    assert not found.changes


def test_a_load_that_does_not_explain_the_efforts_is_warned_about(
    five_bar: Model, loaded: Simulation, identified: Identification
) -> None:
    found = payload(five_bar, [log(loaded, 1)], result=identified)
    assert not any(notice.rule == "unexplained load" for notice in found.notices)
    robot = identified.estimate
    quiet = replace(identified, estimate=replace(robot, residual_rms=robot.residual_rms / 1e3))
    assert not _unexplained_notices(found.estimate, quiet, found.processing)  # it explains most
    changing = replace(found.estimate, residual_relative=np.full(2, 0.5))
    (notice,) = _unexplained_notices(changing, quiet, found.processing)
    assert notice.level == "warning"
    assert not _unexplained_notices(changing, identified, found.processing)  # noise of the robot


def test_logs_are_processed_as_the_model_was(
    five_bar: Model, loaded: Simulation, identified: Identification
) -> None:
    found = payload(five_bar, [log(loaded, 1)], result=identified)
    assert found.processing == identified.processing
    assert (
        payload(five_bar, [log(loaded, 1)], result=identified, window=0.02).processing.window
        == 0.02
    )


def test_the_covariance_of_the_model_is_part_of_the_intervals(
    five_bar: Model, loaded: Simulation, identified: Identification
) -> None:
    """A platform known ten times worse makes a load known that much worse: what is left is the
    model's part.
    """
    rough = replace(
        identified,
        estimate=replace(identified.estimate, covariance=100 * identified.estimate.covariance),
    )
    one, other = (
        payload(five_bar, [log(loaded, 1)], result=r).to_dict()["parameters"][0]
        for r in (identified, rough)
    )
    assert 0 < one["model_std"] < one["std"]
    assert other["model_std"] == pytest.approx(10 * one["model_std"], rel=0.05)
    assert other["std"] > 0.99 * other["model_std"]
    assert payload(five_bar, [log(loaded, 1)]).to_dict()["parameters"][0]["model_std"] == 0.0


def test_a_load_that_cannot_be_is_called_impossible(five_bar: Model, loaded: Simulation) -> None:
    """A model that is too heavy asks for a load of negative mass."""
    names = five_bar.mechanism.standard.names
    heavy = five_bar.standard_values() + np.array(
        [2.0 if name == f"{five_bar.load_body}.m" else 0.0 for name in names]
    )
    found = payload(five_bar, [log(loaded, 1)], values=heavy)
    assert found.estimate["payload.load.m"] == pytest.approx(-1.3, abs=0.1)
    assert not found.load.physical
    assert any("not physically consistent" in str(notice) for notice in found.notices)


def test_rounding_below_zero_in_a_covariance_makes_no_load_impossible() -> None:
    point = np.array([1.0, *np.zeros(9)])
    with np.errstate(invalid="ignore"):
        assert _physically_consistent(point, -1e-40 * np.eye(10), reach=0.5)


def test_another_load_in_the_middle_is_dated(five_bar: Model, loaded: Simulation) -> None:
    """Half of a run with 0.7 kg and half of one with 0.3 kg, as a log without periods."""
    robot = carrying(five_bar, {"m": 0.3})
    light = record(
        simulate(robot, fourier(robot, 0.4, 0.5, harmonics=5), periods=2, payload="brick"), seed=2
    )
    heavy = log(loaded, 1)
    at = round(0.6 * len(heavy))
    assert heavy.effort is not None
    assert light.effort is not None
    both = replace(
        heavy,
        effort=np.concatenate([heavy.effort[:at], light.effort[at:]]),
        period_samples=None,
        position=np.concatenate([heavy.position[:at], light.position[at:]]),
        reference=None,
    )
    for recording in (both, replace(both, period_samples=heavy.period_samples)):
        found = payload(five_bar, [recording])
        assert len(found.changes) == 1
        change = found.changes[0]
        assert (
            abs(change.time - heavy.time[at])
            <= change.within
            <= 0.1 * (heavy.time[-1] - heavy.time[0])
        )
        before, after = change.before.estimate, change.after.estimate
        assert abs(before["payload.load.m"] - 0.7) < 4 * before.std[0]
        assert abs(after["payload.load.m"] - 0.3) < 4 * after.std[0]
        assert found.load is change.after
        assert "the load changes at" in found.summary()
    assert not payload(five_bar, [replace(heavy, period_samples=None)]).changes


def test_forgetting_tells_what_is_carried_now(five_bar: Model, loaded: Simulation) -> None:
    heavy = log(loaded, 1)
    found = payload(five_bar, [heavy], forgetting=0.5)
    whole = payload(five_bar, [heavy])
    assert found.estimate.std[0] > 1.2 * whole.estimate.std[0]
    assert abs(found.estimate["payload.load.m"] - 0.7) < 4 * found.estimate.std[0]
    assert found.history.values.shape == (len(found.history.time), 10)


def test_a_robot_that_stands_shows_mass_and_two_moments() -> None:
    model = model_of("stewart")
    held = holding(model, statics(model, 500.0, (0.08, -0.05)))
    for found in (payload(model, [held], processing=STANDING), payload(model, [held])):
        assert [p["name"] for p in found.to_dict()["parameters"] if p["observed"]] == [
            "m",
            "mx",
            "my",
        ]
        error = np.abs(found.estimate.values[:3] - [500.0, 40.0, -25.0])
        assert (error < 4 * found.estimate.std[:3]).all()
        assert (found.estimate.std[:3] < [1.0, 0.3, 0.3]).all()


def test_friction_of_joints_that_stand_is_part_of_the_doubt() -> None:
    """The legs of the hexapod stick: their friction may hold anything up to fs, so the mass is
    known by that only.
    """
    model = model_of("palida")
    home = model.kinematics.motion(
        np.zeros(1),
        model.home[None, list(model.independent)],
        *np.zeros((2, 1, len(model.independent))),
        model.loops.dynamic,
    )
    load = np.zeros(10)
    load[0] = 3.0
    effort = model.inverse_dynamics(home, load=load, dead_band=1.0)[0]
    held = holding(model, effort, noise=0.1, seconds=8.0, blur=1e-9)
    bands = {name: 1e-3 for name in model.mechanism.coordinates}
    found = payload(model, [held], processing=replace(STANDING, dead_band=bands))
    assert found.to_dict()["parameters"][0]["observed"]
    friction = dict(zip(model.mechanism.standard.names, model.standard_values().tolist()))
    up = model.kinematics.closure_map(home.q, "task")[0][list(model.actuated)]
    task = [model.mechanism.coordinates[i] for i in model.loops.partitions["task"].independent]
    weight = np.zeros((6, 3))  # of a kilogram, and of a kilogram a metre away along x and y
    for name, column, size in (("z", 0, 9.81), ("ry", 1, -9.81), ("rx", 2, 9.81)):
        weight[task.index(f"platform.{name}"), column] = size
    rates = model.kinematics.closure_map(home.q, "task")[0] @ np.linalg.inv(
        up
    )  # of all joints by those of the motors
    held_by = np.array(
        [friction.get(f"{name}.fs", 0.0) for name in model.mechanism.coordinates]
    ) / np.sqrt(3)
    doubt = np.linalg.norm(
        np.linalg.pinv(np.linalg.solve(up.T, weight)) @ (rates.T * held_by), axis=1
    )
    np.testing.assert_allclose(found.estimate.std[:3], doubt, rtol=0.15)


@pytest.fixture(scope="module")
def stewart() -> tuple[Model, Recording]:
    model = model_of("stewart")
    robot = carrying(model, dict(zip(INERTIAL, TEN)))
    run = simulate(robot, fourier(robot, 0.4, 0.25), periods=2, rate=500, payload="brick")
    return model, replace(record(run, seed=1), payload=None)


@pytest.mark.long
@pytest.mark.parametrize("noise", [30e-6, 1.5e-3])
def test_position_noise_is_part_of_the_standard_errors(noise: float) -> None:
    """Ten logs of five periods: mean standard error over scatter, mean over the ten parameters."""
    model = model_of("stewart")
    robot = carrying(model, dict(zip(INERTIAL, TEN)))
    run = simulate(robot, fourier(robot, 0.4, 0.25), periods=5, payload="brick")
    sensors = replace(model.mechanism.noise, position=noise)
    estimates = []
    for seed in range(10):
        recording = replace(record(run, seed=seed, noise=sensors), payload=None)
        estimates.append(payload(model, [recording]).estimate)
    scatter = np.std([estimate.values for estimate in estimates], axis=0, ddof=1)
    std = np.mean([estimate.std for estimate in estimates], axis=0)
    assert 0.75 < np.exp(np.mean(np.log(std / scatter))) < 1.35


def test_a_weighed_load_needs_only_the_rest(stewart: tuple[Model, Recording]) -> None:
    model, recording = stewart
    plain, weighed = (payload(model, [recording], **given) for given in ({}, {"mass": 500.0}))
    assert weighed.estimate["payload.load.m"] == 500.0
    assert weighed.estimate.std[0] == 0.0
    assert weighed.to_dict()["parameters"][0]["observed"]
    assert (weighed.estimate.std[1:] <= 1.02 * plain.estimate.std[1:]).all()
    assert (np.abs(weighed.estimate.values - TEN)[1:] < 5 * weighed.estimate.std[1:]).all()


def test_a_load_at_a_known_place_has_its_mass_alone(stewart: tuple[Model, Recording]) -> None:
    model, recording = stewart
    found = payload(model, [recording], at="0.08,-0.05,0.3")
    np.testing.assert_allclose(
        found.estimate.values[1:4], found.estimate.values[0] * np.array([0.08, -0.05, 0.3])
    )
    assert (np.abs(found.estimate.values - TEN) < 5 * found.estimate.std).all()
    both = payload(model, [recording], at=(0.08, -0.05, 0.3), mass=500.0).estimate
    assert (both.std[:4] == 0).all()
    assert (np.abs(both.values - TEN)[4:] < 5 * both.std[4:]).all()


def test_a_stated_mass_that_the_log_contradicts_is_an_error(
    five_bar: Model, loaded: Simulation
) -> None:
    recording = log(loaded, 1)
    assert payload(five_bar, [recording], mass=0.7).level == "ok"
    found = payload(five_bar, [recording], mass=0.75)
    assert found.level == "error"
    (notice,) = [notice for notice in found.notices if notice.rule == "stated value"]
    assert notice.numbers["stated"] == 0.75
    assert notice.numbers["value"] == pytest.approx(0.7, abs=5 * notice.numbers["std"])


def test_a_sum_of_parameters_that_is_seen_is_given() -> None:
    """Columns of m and my are proportional: the sum m + 2 my is known, neither of the two is."""
    rng = np.random.default_rng(0)
    columns = rng.standard_normal((400, 1, 10))
    columns[:, :, 2] = 2 * columns[:, :, 0]
    true = np.array([3.0, 0.2, 0.5, -0.1, 0.3, 0.02, 0.4, 0.01, -0.03, 0.2])
    effort = columns @ true + 1e-3 * rng.standard_normal((400, 1))
    problem = LoadProblem(
        regression=Regression(
            parameters=LOAD_PARAMETERS,
            units=tuple(name.unit for name in LOAD_PARAMETERS),
            rows=("lift",),
            row_units=("N",),
            regressor=columns,
            effort=effort,
            time=np.arange(400) / 100,
        ),
        noise=np.zeros((1, 1, 11, 11)),
        model_error=np.zeros((400, 1, 0)),
    )
    unknowns = LoadUnknowns(np.zeros(10), np.eye(10), 20.0, False, 1.0)
    found = unknowns.load(problem, *unknowns.fit(problem))
    assert [INERTIAL[k] for k in range(10) if not found.observed[k]] == ["m", "my"]
    (combination,) = found.combinations
    assert combination.text == "m + 2 my"
    assert combination.value == pytest.approx(4.0, abs=5 * combination.std)
    assert combination.std < 1e-3
    assert combination.unit == "kg"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"mass": 0.0}, "mass is 0.0 kg"),
        ({"mass": -1.0}, "mass is -1.0 kg"),
        ({"at": "1,2"}, "expected three numbers"),
        ({"at": "a,b,c"}, "expected three numbers"),
        ({"at": (0, 0, np.inf)}, "three numbers|list of numbers"),
        ({"mass": np.nan}, "mass is nan kg"),
        ({"reach": 0.0}, "reach is 0.0 m"),
        ({"forgetting": 0}, "forgetting is 0"),
    ],
)
def test_loads_that_make_no_sense_are_refused(
    five_bar: Model, loaded: Simulation, changes: dict[str, float], message: str
) -> None:
    with pytest.raises(InvalidInput, match=message):
        payload(five_bar, [log(loaded, 1)], **changes)


def test_no_recording_is_an_error(five_bar: Model) -> None:
    with pytest.raises(InvalidInput, match="no recording"):
        payload(five_bar, [])


def test_a_measured_mass_is_enough_where_no_log_names_its_payload(
    five_bar: Model, five_bar_log: Recording, loaded: Simulation
) -> None:
    """With one payload in the robot file, and with none."""
    one = carrying(five_bar, {})
    none = Model(replace(five_bar.mechanism, payloads=()))
    for robot, name in ((one, "brick"), (none, "load")):
        result = identify(
            robot, [five_bar_log], loaded=[log(loaded, 1)], payload="mass=0.7", cutoff=20.0
        )
        assert result.payload[f"payload.{name}.m"]["value"] == pytest.approx(0.7, abs=0.02)
        assert not any(notice.rule == "stated value" for notice in result.notices)
    estimate = result.estimate
    assert contradiction(estimate, "payload.load.m", 0.7) is None
    declared = with_measured_payload(none, "mass=0.9")
    carried = [replace(log(loaded, 1), payload="load")]
    (notice,) = stated_payload_notices(declared, carried, "mass=0.9", estimate)
    assert notice.level == "error"
    assert notice.numbers["stated"] == 0.9


def test_a_measured_mass_does_not_choose_between_payloads(
    five_bar: Model, five_bar_log: Recording, loaded: Simulation
) -> None:
    bricks = [Payload(name=name, body=five_bar.load_body) for name in ("red", "blue")]
    robot = Model(replace(five_bar.mechanism, payloads=tuple(bricks)))
    with pytest.raises(InvalidInput, match="one of: red, blue"):
        identify(robot, [five_bar_log], loaded=[log(loaded, 1)], payload="mass=0.7")
