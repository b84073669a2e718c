"""Designs from a cold start: feasible by an independent recomputation, and better than chance."""

from __future__ import annotations

import numpy as np
import pytest

from gough.core.errors import InfeasibleDesign, InvalidInput, InvalidTrajectory, NotIdentifiable
from gough.core.motion import Motion
from gough.core.trajectory import Fourier, load_trajectory
from gough.engine.base import base_parameters
from gough.engine.limits import collect_limits
from gough.engine.loops import By
from gough.engine.model import Model
from gough.excitation import (
    CRITERIA,
    Criterion,
    Design,
    Run,
    criterion_value,
    design,
    first_frequency,
    information_factor,
)
from gough.excitation.design import effort_covariance
from gough.excitation.search import find_centre
from gough.mechanism import Limits, parse_robot
from gough.mechanism.types import Body, Joint, Mechanism
from tests_support import model_of

LARGER = ("palida", "orthoglide", "delta", "upv")  # compile for long
FREQUENCY = 0.8  # of a five-bar's trajectory where the choice of it is not what is tested [Hz]


def _follow(model: Model, trajectory: Fourier, count: int) -> Motion:
    """The motion of all coordinates over one period: the series written out, the loops followed out
    from home.
    """
    time = np.arange(count) / count * trajectory.period
    position, velocity, acceleration = (np.zeros((count, len(trajectory.offset))) for _ in range(3))
    position += trajectory.offset
    for k in range(1, trajectory.harmonics + 1):
        w = 2 * np.pi * k * trajectory.frequency
        c, s = np.cos(w * time)[:, None], np.sin(w * time)[:, None]
        mu, nu = trajectory.mu[k - 1], trajectory.nu[k - 1]
        position += (mu * s - nu * c) / w
        velocity += mu * c + nu * s
        acceleration += w * (nu * c - mu * s)
    by: By = "task" if trajectory.coordinates == model.mechanism.task else "actuated"
    home = model.home[list(model.loops.partitions[by].independent)]
    q = np.repeat(model.home[None], count, axis=0)
    for fraction in np.linspace(0.1, 1.0, 10):
        q, error = model.kinematics.close_nearby(q, by, home + fraction * (position - home))
    assert error.max() < 1e-9
    qd, qdd = model.kinematics.rates(q, velocity, acceleration, by)
    return Motion(
        coordinates=model.mechanism.coordinates,
        time=time,
        q=q,
        qd=qd,
        qdd=qdd,
        closure_residual=error,
    )


def _usage(
    model: Model, motion: Motion, limits: dict[str, Limits], load: np.ndarray | None = None
) -> float:
    """The largest part of any limit that a motion uses, from the robot file and the equations of
    motion.
    """
    names = model.mechanism.standard.names
    effort = model.regressor(motion, names) @ model.mechanism.standard.values
    if load is not None:
        extra = tuple(
            f"payload.any.{p}"
            for p in ("m", "mx", "my", "mz", "Ixx", "Ixy", "Iyy", "Ixz", "Iyz", "Izz")
        )
        effort = effort + model.regressor(motion, extra) @ load
    effort = model.min_norm_motor_effort(motion.q, effort)
    used = [0.0]
    for i, joint in enumerate(model.mechanism.joints):
        own = limits.get(joint.name, joint.limits)
        if own.position is not None:
            low, high = own.position
            used.append(
                float(np.abs((motion.q[:, i] - (low + high) / 2) / ((high - low) / 2)).max())
            )
        if own.velocity is not None:
            used.append(float(np.abs(motion.qd[:, i]).max() / own.velocity))
        if own.acceleration is not None:
            used.append(float(np.abs(motion.qdd[:, i]).max() / own.acceleration))
        if own.effort is not None and joint.actuated:
            column = effort[:, model.mechanism.actuated.index(joint.name)]
            used.append(float(np.abs(column).max() / own.effort))
    return max(used)


def _check(model: Model, found: Design, limits: dict[str, Limits] | None = None) -> None:
    assert found.violations == 0
    for run, trajectory in zip(found.runs, found.trajectories):
        motion = _follow(model, trajectory, 1200)
        load = None if run.payload is None else model.load(run.payload)
        assert _usage(model, motion, limits or {}, load) <= 1 + 1e-9
        assert model.kinematics.margins(motion.q).type2.min() > 1e-3
        samples = trajectory.period * model.mechanism.noise.rate
        assert samples == pytest.approx(round(samples), abs=1e-6)
    assert found.usage.max() <= 1
    if found.settings.criterion == "d":  # more motion is always more information
        assert found.usage.max() > 0.95


@pytest.mark.slow
@pytest.mark.parametrize(
    "robot",
    [
        "h4",
        "serial6",
        "five_bar",
        "redundant",
        *(pytest.param(name, marks=pytest.mark.long) for name in LARGER),
    ],
)
def test_every_robot_gets_a_feasible_trajectory_from_a_cold_start(robot: str) -> None:
    model = model_of(robot)
    found = design(model, starts=1, iterations=60)
    _check(model, found)
    assert np.isfinite(found.value)
    assert found.history[-1] < found.history[0] - 1
    assert found.evaluations > 10


def test_friction_that_remembers_counts_in_every_direction_of_creeping() -> None:
    """An arm of weight 4.905 N m with friction of 4 N m against 8 N m: one direction is too much,
    whatever the pose.
    """
    for friction in (4.0, -4.0):
        motor = Joint(
            name="j",
            kind="revolute",
            parent="base",
            child="arm",
            actuated=True,
            terms=("fs_distance",),
            values={"fs_distance": friction},
            limits=Limits(position=(-0.5, 0.5), effort=8.0),
        )
        model = Model(
            Mechanism(
                name="arm",
                bodies=(Body(name="arm", values={"m": 1.0, "mx": 0.5, "Izz": 0.3}),),
                joints=(motor,),
                gravity=(0, -9.81, 0),
            )
        )
        with pytest.raises(
            InfeasibleDesign, match=r"effort of 'j' in \[-8, 8\] N m is used to 111 %"
        ):
            find_centre(model, collect_limits(model), by="actuated", loads=[model.load()], seed=0)


def _random_feasible(model: Model, rng: np.random.Generator, frequency: float) -> Fourier:
    """Random coefficients, as large as the limits allow."""
    joints = [model.mechanism.joint(name) for name in model.mechanism.task]
    half = np.array([(j.limits.position[1] - j.limits.position[0]) / 2 for j in joints])
    home = np.array([model.home[model.mechanism.coordinates.index(j.name)] for j in joints])
    mu, nu = rng.standard_normal((2, 5, len(joints))) * half * 2 * np.pi * frequency
    shift = 0.2 * half * rng.standard_normal(len(joints))
    low, high = 0.0, 1.0
    for _ in range(5):
        size = (low + high) / 2
        trial = Fourier(
            coordinates=model.mechanism.task,
            units=tuple(j.unit for j in joints),
            frequency=frequency,
            offset=home + size * shift,
            mu=size * mu,
            nu=size * nu,
        )
        if _usage(model, _follow(model, trial, 60), {}) <= 1:
            low, found = size, trial
        else:
            high = size
    return found


@pytest.mark.slow
def test_designs_beat_the_best_of_50_random_trajectories() -> None:
    model = model_of("h4")
    base = base_parameters(model)
    frequency = first_frequency(model)
    rng = np.random.default_rng(0)
    random = [_random_feasible(model, rng, frequency) for _ in range(50)]
    precision = np.linalg.inv(effort_covariance(model))

    def score(trajectory: Fourier) -> tuple[float, float]:
        psi = model.regressor(_follow(model, trajectory, 300), base)
        information = np.einsum("trp,rs,tsk->pk", psi, precision, psi)
        return -float(np.linalg.slogdet(information)[1]), float(
            np.linalg.cond(psi.reshape(-1, len(base)))
        )

    best_d, best_cond = np.min([score(trajectory) for trajectory in random], axis=0)
    designed = {c: design(model, criterion=c, base=base, starts=1) for c in ("d", "cond")}
    for found in designed.values():
        _check(model, found)
    assert score(designed["d"].trajectory)[0] < best_d - 1
    assert score(designed["cond"].trajectory)[1] < 0.9 * best_cond
    assert designed["cond"].condition_number == pytest.approx(designed["cond"].value)


@pytest.mark.parametrize("criterion", CRITERIA)
def test_each_criterion_wins_by_its_own_measure(criterion: Criterion) -> None:
    model = model_of("five_bar")
    base = base_parameters(model, tie_legs=True)
    noise = effort_covariance(model)
    found = {}
    for name in ("d", criterion):
        found[name] = design(
            model, criterion=name, base=base, frequency=FREQUENCY, starts=2, iterations=100
        )
    values = {}
    for name, result in found.items():
        _check(model, result)
        factor = information_factor(
            model, result.trajectories, base, covariance=None if criterion == "cond" else noise
        )
        values[name] = criterion_value(criterion, factor)
    assert found[criterion].value == pytest.approx(values[criterion], rel=1e-9)
    assert values[criterion] <= values["d"]


def test_the_value_is_minus_ln_det_at_the_controllers_samples() -> None:
    model = model_of("five_bar")
    covariance = np.array([[0.02, 0.01], [0.01, 0.03]])
    found = design(model, frequency=FREQUENCY, covariance=covariance, starts=1, iterations=20)
    trajectory = found.trajectory
    motion = _follow(model, trajectory, round(trajectory.period * model.mechanism.noise.rate))
    psi = model.regressor(motion, found.base)
    information = np.einsum("trp,rs,tsk->pk", psi, np.linalg.inv(covariance), psi)
    assert found.value == pytest.approx(-np.linalg.slogdet(information)[1], rel=1e-8)
    assert found.condition_number == pytest.approx(
        np.linalg.cond(psi.reshape(-1, len(found.base))), rel=1e-8
    )


def test_a_design_at_rest_starts_and_ends_without_moving() -> None:
    model = model_of("five_bar")
    found = design(model, frequency=FREQUENCY, at_rest=True, starts=1, iterations=40)
    _check(model, found)
    _, velocity, acceleration = found.trajectory.at([0.0, found.trajectory.period])
    assert np.abs(velocity).max() < 1e-9
    assert np.abs(acceleration).max() < 1e-7
    _, speed, _ = found.trajectory.at(np.linspace(0, found.trajectory.period, 50))
    assert np.abs(speed).max() > 0.1


def test_motors_may_be_the_coordinates() -> None:
    model = model_of("five_bar")
    found = design(model, frequency=FREQUENCY, coordinates="actuated", starts=1, iterations=40)
    assert found.trajectory.coordinates == model.mechanism.actuated
    _check(model, found)


def test_a_free_frequency_is_moved_and_ends_on_the_controllers_clock() -> None:
    model = model_of("five_bar")
    fixed = design(model, frequency=0.5, starts=1, iterations=80)
    free = design(model, frequency=0.5, optimise_frequency=True, starts=1, iterations=80)
    _check(model, free)
    assert abs(free.trajectory.frequency / 0.5 - 1) > 0.05
    per_time = len(free.base) * np.log(free.trajectory.period / fixed.trajectory.period)
    assert free.value + per_time < fixed.value  # information per second


def test_slow_and_fast_runs_are_designed_jointly() -> None:
    model = model_of("five_bar")
    usual = first_frequency(model)
    runs = (Run(frequency=usual), Run(frequency=usual / 5, harmonics=3, periods=2))
    found = design(model, runs=runs, starts=1, iterations=60)
    _check(model, found)
    assert [t.harmonics for t in found.trajectories] == [5, 3]
    assert found.trajectories[1].period == pytest.approx(5 * found.trajectories[0].period, rel=1e-3)
    information = np.zeros((len(found.base), len(found.base)))
    for run, trajectory in zip(runs, found.trajectories):
        psi = model.regressor(
            _follow(model, trajectory, round(trajectory.period * 1000)), found.base
        )
        precision = run.periods * np.linalg.inv(effort_covariance(model))
        information += np.einsum("trp,rs,tsk->pk", psi, precision, psi)
    assert found.value == pytest.approx(-np.linalg.slogdet(information)[1], rel=1e-8)


def test_loaded_and_unloaded_runs_separate_the_payload() -> None:
    model = model_of("five_bar")
    runs = (Run(frequency=FREQUENCY), Run(frequency=FREQUENCY, payload="disc"))
    found = design(model, runs=runs, starts=1, iterations=60)
    _check(model, found)
    assert any(name.startswith("payload.disc.") for name in found.base.names)
    assert np.isfinite(found.value)
    only = information_factor(model, found.trajectories[1:], found.base, runs=[Run(payload="disc")])
    assert (
        criterion_value("d", only) == np.inf
    )  # the loaded run alone cannot tell the payload from the tool


def test_limits_can_be_narrowed_and_are_kept() -> None:
    model = model_of("five_bar")
    limits = {"left.motor": Limits(velocity=1.0), "tool.x": Limits(position=(-0.05, 0.02))}
    found = design(model, frequency=FREQUENCY, limits=limits, starts=1, iterations=40)
    whole = {
        name: Limits(
            **{
                q: getattr(change, q) or getattr(model.mechanism.joint(name).limits, q)
                for q in ("position", "velocity", "acceleration", "effort")
            }
        )
        for name, change in limits.items()
    }
    _check(model, found, whole)
    assert any("left.motor" in name or "tool.x" in name for name in found.active)


def test_a_start_outside_the_limits_is_not_the_end() -> None:
    model = model_of("five_bar")
    limits = {"tool.x": Limits(position=(0.03, 0.12))}
    found = design(model, frequency=FREQUENCY, limits=limits, starts=1, iterations=30)
    x = found.trajectory.at(np.linspace(0, found.trajectory.period, 500))[0][:, 0]
    assert x.min() >= 0.03
    assert x.max() <= 0.12


def test_impossible_limits_are_named() -> None:
    model = model_of("h4")
    with pytest.raises(InfeasibleDesign, match=r"effort of 'leg1\.motor'.*relax"):
        design(model, limits={"leg1.motor": Limits(effort=1.0)})
    with pytest.raises(InfeasibleDesign, match=r"position of 'platform\.x'.*relax"):
        design(model, limits={"platform.x": Limits(position=(0.9, 1.0))})
    with pytest.raises(InfeasibleDesign, match=r"velocity of .*relax"):
        design(model, limits={name: Limits(velocity=1e-6) for name in model.mechanism.actuated})


@pytest.mark.parametrize("quantity", ["velocity", "acceleration"])
def test_a_limit_that_stops_the_smallest_trajectory_is_named(quantity: str) -> None:
    with pytest.raises(
        InfeasibleDesign, match=rf"the {quantity} of 'right\.motor' in .* stops every trajectory"
    ):
        design(
            model_of("five_bar"),
            frequency=0.5,
            starts=1,
            limits={"right.motor": Limits(**{quantity: 1e-6})},
        )


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"frequency": 0.0}, "frequency is 0.0"),
        ({"frequency": -1.0}, "frequency is -1"),
        ({"frequency": float("nan")}, "frequency is nan"),
        ({"harmonics": 1.5}, "harmonics is 1.5"),
        ({"samples": 0}, "samples is 0"),
        ({"seed": -1}, "seed is -1"),
        ({"tolerance": 0.0}, "tolerance is 0.0"),
        ({"covariance": [[1.0, 2.0], [2.0, 1.0]]}, "positive definite"),
        ({"covariance": [[float("nan"), 0.0], [0.0, 1.0]]}, "positive definite"),
    ],
)
def test_numbers_no_design_can_have_are_refused(options: dict[str, object], words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        design(model_of("five_bar"), **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "value"), [("frequency", -2.0), ("periods", 0), ("harmonics", -2)]
)
def test_numbers_no_run_can_have_are_refused(name: str, value: float) -> None:
    with pytest.raises(InvalidInput, match=f"{name} is {value}"):
        Run(**{name: value})


def test_too_few_harmonics_for_the_parameters_are_an_error() -> None:
    with pytest.raises(NotIdentifiable, match="more harmonics"):
        design(model_of("serial6"), harmonics=1, samples=8)


def test_the_same_seed_gives_the_same_design() -> None:
    model = model_of("five_bar")
    first = design(model, starts=1, iterations=15, seed=4)
    second = design(model, starts=1, iterations=15, seed=4)
    assert np.array_equal(first.trajectory.mu, second.trajectory.mu)
    other = design(model, frequency=FREQUENCY, starts=1, iterations=15, seed=5)
    assert not np.array_equal(first.trajectory.mu, other.trajectory.mu)


def test_progress_is_reported_and_the_result_can_be_stored(tmp_path: object) -> None:
    model = model_of("five_bar")
    seen: list[tuple[int, float, float]] = []
    found = design(
        model,
        frequency=FREQUENCY,
        starts=1,
        iterations=15,
        progress=lambda *step: seen.append(step),
    )
    assert len(seen) >= 10
    assert [step for step, _, _ in seen] == list(range(1, len(seen) + 1))
    assert seen[-1][2] == 0
    path = f"{tmp_path}/trajectory.json"
    found.trajectory.save(path)
    assert np.array_equal(load_trajectory(path, robot="five_bar").mu, found.trajectory.mu)
    assert set(found.to_dict()) >= {
        "criterion",
        "value",
        "condition_number",
        "violations",
        "evaluations",
        "seconds",
    }
    assert "condition number" in found.summary()


def test_the_first_frequency_lets_the_highest_harmonic_meet_a_motor_limit() -> None:
    model = model_of("palida")  # range +-0.2 m, 2 m/s, 25 m/s2
    highest = min(2 / (2 * np.pi * 0.2), np.sqrt(25 / 0.2) / (2 * np.pi))
    assert 5 * first_frequency(model, 5) == pytest.approx(highest, rel=1e-3)


def test_wrong_arguments_are_refused() -> None:
    model = model_of("five_bar")
    with pytest.raises(InvalidInput, match="expected one of"):
        design(model, criterion="x")  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="actuated"):
        design(model_of("serial6"), coordinates="task")
    with pytest.raises(InvalidInput, match=r"tool\.x"):
        design(model, limits={"tool.xx": Limits(velocity=1.0)})
    with pytest.raises(InvalidInput, match="disc"):
        design(model, runs=[Run(payload="disk")])
    with pytest.raises(InvalidInput, match="covariance"):
        design(model, covariance=np.eye(3))
    with pytest.raises(InvalidInput, match="lower bound"):
        design(model, limits={"tool.x": Limits(position=(0.1, -0.1))})
    with pytest.raises(InvalidInput, match="harmonics"):
        design(model, harmonics=0)
    with pytest.raises(InvalidTrajectory, match="rest"):
        design(model, harmonics=1, at_rest=True)


def test_a_robot_with_one_motor_gets_a_trajectory() -> None:
    robot = parse_robot(
        """
        format = 1
        name = "pendulum"
        gravity = [0, -9.81, 0]
        [units]
        length = "m"
        angle = "rad"
        mass = "kg"
        [[body]]
        name = "arm"
        m = 1.0
        mx = 0.2
        Izz = 0.05
        parameters = ["m", "mx", "my", "Izz"]
        [[joint]]
        name = "motor"
        type = "revolute"
        parent = "base"
        child = "arm"
        actuated = true
        limits = { position = [-1, 1], velocity = 5, acceleration = 50, effort = 10 }
        terms = ["fv", "fs"]
        values = { fv = 0.1, fs = 0.2 }
        """,
        "pendulum.toml",
    )
    plan = design(Model(robot), frequency=0.5, starts=1, iterations=3)
    assert np.isfinite(plan.condition_number)
