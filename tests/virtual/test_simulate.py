"""Closed-loop experiments: consistency, batches, steady state, and what bad input gets."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from measured_feedback import MeasuredFeedback
from moving_robots import excitation, without
from paths import PointToPoint, sines
from second_order_drive import SecondOrderDrive

from gough.core.errors import InvalidInput, InvalidTrajectory, SimulationFailed
from gough.engine import Model
from gough.mechanism.types import Noise
from gough.virtual import PID, ComputedTorque, RobotModel, record, simulate
from gough.virtual.reference import build_reference
from tests_support import model_of


@pytest.fixture(scope="module")
def five_bar() -> Model:
    return model_of("five_bar")


@pytest.mark.parametrize("name", ["palida", "orthoglide", "serial6"])
def test_inverse_dynamics_of_the_motion_are_the_applied_efforts(name: str) -> None:
    model = model_of(name)
    payload = model.mechanism.payloads[0].name if model.mechanism.payloads else None
    tour = excitation(model, period=2.0, reach=0.1)
    simulation = simulate(
        model, tour, controller="pid", payload=payload, rate=250, dead_band=0.02, lead_in=0
    )
    motion = simulation.motion()
    tau = model.inverse_dynamics(motion, load=model.load(payload), dead_band=simulation.dead_band)
    np.testing.assert_allclose(tau, simulation.effort[0], atol=1e-9 * np.abs(tau).max())
    # Velocity and acceleration belong to the positions: compare with differences over a sample.
    step = motion.time[1] - motion.time[0]
    mean = (motion.qd[1:] + motion.qd[:-1]) / 2
    settled = slice(20, None)
    np.testing.assert_allclose(
        (np.diff(motion.q, axis=0) / step)[settled],
        mean[settled],
        atol=0.01 * np.abs(motion.qd).max(),
    )


def test_efforts_of_a_redundant_robot_do_the_work_its_rows_need() -> None:
    model = model_of("redundant")
    simulation = simulate(
        model, excitation(model), controller="pid+", lead_in=0, rate=500, dead_band=0.05
    )
    motion = simulation.motion()
    rows = list(model.independent)
    kernel = model.effort_kernel()
    needed = kernel(
        motion.q,
        motion.qd[:, rows],
        motion.qdd[:, rows],
        simulation.dead_band,
        model.standard_values(),
        np.zeros(10),
    )[0]
    np.testing.assert_allclose(
        model.project_to_rows(motion.q, simulation.effort[0]), needed, atol=1e-9
    )


def test_a_batch_equals_its_trials_alone(five_bar: Model) -> None:
    tour = excitation(five_bar, period=0.5)
    heavier = five_bar.standard_values({"tool.m": 1.0})
    draws = np.stack([five_bar.standard_values(), heavier, five_bar.standard_values()])
    options = {"controller": PID(bandwidth=60.0), "dead_band": 0.05, "lead_in": 0, "substeps": 3}
    batch = simulate(five_bar, tour, values=draws, payload=[None, None, "disc"], **options)
    for k, (values, payload) in enumerate(zip(draws, [None, None, "disc"])):
        alone = simulate(five_bar, tour, values=values, payload=payload, **options)
        np.testing.assert_array_equal(batch.q[k], alone.q[0])
        np.testing.assert_array_equal(batch.effort[k], alone.effort[0])
    assert not np.allclose(batch.effort[0], batch.effort[2])
    assert batch.payloads == (None, None, "disc")


def test_periods_repeat_after_the_lead_in(five_bar: Model) -> None:
    simulation = simulate(
        five_bar, excitation(five_bar, period=0.5), controller="pid", periods=3, rate=500
    )
    assert simulation.period_samples == 250
    periods = simulation.position[0].reshape(3, 250, 2)
    np.testing.assert_allclose(
        periods[1], periods[0], atol=2e-6
    )  # the loop has had 12 time constants at full pace
    np.testing.assert_allclose(periods[2], periods[1], atol=1e-9)


def test_the_lead_in_is_one_motion_from_rest_into_the_first_period(five_bar: Model) -> None:
    """Velocities and accelerations of the reference are the differences of its positions, across
    the seam as well.
    """
    motion = build_reference(
        five_bar, excitation(five_bar, period=0.5), 1000.0, periods=2, lead_in=2
    ).motion
    assert motion.time[0] == -1.0
    assert np.abs(motion.qd[0]).max() == 0.0
    for values, rates in ((motion.q, motion.qd), (motion.qd, motion.qdd)):
        slopes = (values[2:] - values[:-2]) / 2e-3
        np.testing.assert_allclose(slopes, rates[1:-1], atol=1e-3 * np.abs(rates).max())


def test_the_record_may_be_slower_than_the_controller(five_bar: Model) -> None:
    tour = excitation(five_bar, period=0.5)
    fast, slow = (
        simulate(five_bar, tour, rate=1000, sampling=s, dead_band=0.05) for s in (1000, 250)
    )
    np.testing.assert_array_equal(slow.position, fast.position[:, ::4])
    np.testing.assert_array_equal(slow.mean_effort, fast.mean_effort[:, ::4])
    assert slow.period_samples == 125


def test_recorded_efforts_have_no_half_sample_delay(five_bar: Model) -> None:
    """The held command leads the motion by half a period: efforts computed from positions tell them
    apart.
    """
    simulation = simulate(
        five_bar,
        excitation(five_bar, period=0.5, reach=0.4),
        controller="feedforward",
        rate=200,
        values=without(five_bar, "fs"),
        substeps=4,
        lead_in=4,
    )
    period = simulation.period_samples
    assert period is not None
    # Differentiate the recorded positions exactly (periodic, band-limited) and ask for the efforts.
    spectrum = np.fft.rfft(simulation.position[0], axis=0)
    omega = 2j * np.pi * np.fft.rfftfreq(period, 1 / 200)[:, None]
    qd, qdd = (np.fft.irfft(omega**k * spectrum, period, axis=0) for k in (1, 2))
    motion = five_bar.kinematics.motion(simulation.time, simulation.position[0], qd, qdd)
    values = five_bar.standard_values(without(five_bar, "fs"))
    expected = five_bar.inverse_dynamics(motion, values)
    mean, command = (
        np.sqrt(np.mean((e[0] - expected) ** 2))
        for e in (simulation.mean_effort, simulation.effort)
    )
    assert command > 0.02 * np.abs(expected).max()
    assert mean < 0.1 * command


def test_saturated_motors_are_counted(five_bar: Model) -> None:
    tour = excitation(five_bar, period=0.8, reach=0.9)
    weak = replace(
        five_bar.mechanism,
        joints=tuple(
            replace(j, limits=replace(j.limits, effort=4.0)) if j.actuated else j
            for j in five_bar.mechanism.joints
        ),
    )
    free, bound = simulate(five_bar, tour, rate=500), simulate(weak, tour, rate=500)
    assert free.saturated.sum() == 0
    assert bound.saturated.sum() > 10
    assert np.abs(bound.effort).max() == 4.0
    assert bound.to_dict()["saturated_samples"] == bound.saturated.sum()


def test_figures_are_reported_by_joint(five_bar: Model) -> None:
    simulation = simulate(five_bar, excitation(five_bar, period=0.5), rate=500)
    figures = simulation.to_dict()
    error = simulation.reference[:, 0] - simulation.position[0, :, 0]
    assert figures["tracking_rms"]["left.motor"] == pytest.approx(np.sqrt(np.mean(error**2)))
    assert figures["tracking_max"]["left.motor"] == pytest.approx(np.abs(error).max())
    assert figures["seconds"] == pytest.approx(0.5)
    assert figures["loop_error"] < 1e-12


def test_progress_ends_at_one(five_bar: Model) -> None:
    seen: list[float] = []
    simulate(five_bar, excitation(five_bar, period=0.5), rate=500, lead_in=0, progress=seen.append)
    assert seen[-1] == 1.0
    assert seen == sorted(seen)


def test_coordinates_a_trajectory_leaves_out_stay_at_home() -> None:
    model = model_of("stewart")
    tour = sines(
        coordinates=["platform.x"], units=["m"], center=[0.0], amplitude=[0.02], frequency=1.0
    )
    simulation = simulate(model, tour, rate=200, lead_in=0)
    z = model.mechanism.coordinates.index("platform.z")
    assert np.abs(simulation.q[0, :, z] - model.home[z]).max() < 1e-3


def test_noise_in_the_loop_reaches_the_efforts_and_is_seeded(five_bar: Model) -> None:
    tour = excitation(five_bar, period=0.5)
    noisy = five_bar.mechanism.noise
    runs = [
        simulate(
            five_bar,
            tour,
            rate=500,
            lead_in=0,
            controller="pid+",
            feedback=MeasuredFeedback(noise=noisy, seed=s),
        ).effort
        for s in (1, 1, 2)
    ]
    np.testing.assert_array_equal(runs[0], runs[1])
    assert not np.array_equal(runs[0], runs[2])


def test_a_point_to_point_move_starts_and_ends_at_rest(five_bar: Model) -> None:
    mechanism = five_bar.mechanism
    home = five_bar.home[[mechanism.coordinates.index(name) for name in mechanism.task]]
    move = PointToPoint(
        coordinates=mechanism.task,
        units=["m", "m"],
        waypoints=np.stack([home, home + 0.05]),
        moves=[0.3],
        dwells=[0.0, 0.2],
    )
    recording = record(simulate(five_bar, move, controller="pid", rate=500), seed=3)
    assert recording.period_samples is None
    assert len(recording) == 251


# -- bad input


def test_a_trajectory_beyond_the_limits_is_refused_with_time_and_joint(five_bar: Model) -> None:
    far = sines(coordinates=["tool.x"], units=["m"], center=[0.0], amplitude=[0.2], frequency=1.0)
    with pytest.raises(
        InvalidTrajectory, match=r"'tool\.x' beyond its position limits at t = 0\.135 s"
    ) as caught:
        simulate(five_bar, far)
    assert caught.value.joint == "tool.x"
    assert caught.value.time == pytest.approx(0.135)
    low = sines(coordinates=["tool.y"], units=["m"], center=[0.35], amplitude=[0.1], frequency=1.0)
    with pytest.raises(
        InvalidTrajectory, match=r"'tool\.y' beyond .*: 0\.25 m at worst, allowed 0\.3 to"
    ):
        simulate(five_bar, low)
    fast = sines(coordinates=["tool.x"], units=["m"], center=[0.0], amplitude=[0.1], frequency=4.0)
    with pytest.raises(InvalidTrajectory, match=r"velocity limits|acceleration limits"):
        simulate(five_bar, fast)


def loose(model: Model) -> Model:
    """Return the robot without position limits."""
    joints = tuple(
        replace(j, limits=replace(j.limits, position=None, velocity=None, acceleration=None))
        for j in model.mechanism.joints
    )
    return Model(replace(model.mechanism, joints=joints))


def test_a_trajectory_out_of_reach_is_refused_with_its_time(five_bar: Model) -> None:
    far = sines(coordinates=["tool.y"], units=["m"], center=[0.4], amplitude=[0.3], frequency=1.0)
    with pytest.raises(
        InvalidTrajectory, match=r"cannot follow the trajectory.*t = 0\.\d+ s.*'\w+\.\w+'"
    ) as caught:
        simulate(loose(five_bar), far)
    assert caught.value.joint in five_bar.mechanism.coordinates


def test_a_trajectory_through_a_singularity_is_refused(five_bar: Model) -> None:
    """At y = 0 the elbows are 0.7 m apart and both distal links, 0.35 m each, lie in one line (Type
    2).
    """
    mechanism = loose(five_bar)
    down = sines(coordinates=["tool.y"], units=["m"], center=[0.2], amplitude=[0.3], frequency=1.0)
    with pytest.raises(
        InvalidTrajectory, match=r"singularity at about t = 0\.\d+ s: with all motors locked"
    ) as caught:
        simulate(mechanism, down)
    assert caught.value.joint in mechanism.mechanism.coordinates


def test_a_trajectory_that_touches_a_singularity_is_refused(five_bar: Model) -> None:
    down = sines(
        coordinates=["tool.y"], units=["m"], center=[0.2], amplitude=[0.2 - 1e-9], frequency=1.0
    )
    with pytest.raises(InvalidTrajectory, match=r"singularity at about t = 0\.74\d* s"):
        simulate(loose(five_bar), down)


@pytest.mark.parametrize(
    "gains", [{"kp": -50.0, "ki": 0.0, "kd": 0.1}, {"kp": 5e4, "ki": 0.0, "kd": 300.0}]
)
def test_unstable_gains_stop_with_time_and_joint(five_bar: Model, gains: dict[str, float]) -> None:
    with pytest.raises(
        SimulationFailed, match=r"unstable.*at t = .* s, joint '(left|right)\.motor'"
    ) as caught:
        simulate(five_bar, excitation(five_bar), controller=PID(**gains), rate=500)
    assert np.isfinite(caught.value.time)


@pytest.mark.parametrize(
    "controller", [PID(bandwidth=900.0), PID(bandwidth=5000.0), ComputedTorque(bandwidth=2000.0)]
)
def test_a_loop_that_swings_between_its_limits_is_called_unstable_however_slowly(
    five_bar: Model, controller: PID | ComputedTorque
) -> None:
    with pytest.raises(
        SimulationFailed,
        match=r"jumps between its limits at t = .* s, joint '(left|right)\.motor'",
    ):
        simulate(five_bar, excitation(five_bar), controller=controller)


def test_a_loop_that_only_sits_at_its_limits_is_not_called_unstable(five_bar: Model) -> None:
    joints = tuple(
        replace(j, limits=replace(j.limits, effort=1.0 if j.actuated else None))
        for j in five_bar.mechanism.joints
    )
    weak = Model(replace(five_bar.mechanism, joints=joints))
    run = simulate(weak, excitation(five_bar), controller="pid")
    assert run.saturated.sum() > 0.1 * len(run.time)
    assert run.effort.max() == 1.0
    assert run.effort.min() == -1.0


def test_unstable_gains_without_effort_limits_stop_too(five_bar: Model) -> None:
    joints = tuple(
        replace(j, limits=replace(j.limits, effort=None)) for j in five_bar.mechanism.joints
    )
    strong = Model(replace(five_bar.mechanism, joints=joints))
    with pytest.raises(SimulationFailed):
        simulate(strong, excitation(five_bar), controller=PID(kp=5e4, ki=0.0, kd=300.0), rate=500)


def test_other_bad_input_is_refused(five_bar: Model) -> None:
    tour = excitation(five_bar)
    with pytest.raises(InvalidInput, match="no payload 'disk'; did you mean 'disc'"):
        simulate(five_bar, tour, payload="disk")
    without = Model(replace(five_bar.mechanism, payloads=()))
    with pytest.raises(InvalidInput, match=r"no payload 'disc': the robot file .* has none"):
        simulate(without, tour, payload="disc")
    with pytest.raises(InvalidInput, match="rate is -1000 Hz"):
        simulate(five_bar, tour, rate=-1000)
    with pytest.raises(InvalidInput, match="sampling is 0 Hz"):
        simulate(five_bar, tour, sampling=0)
    with pytest.raises(InvalidInput, match="not a whole multiple"):
        simulate(five_bar, tour, rate=1000, sampling=300)
    with pytest.raises(InvalidInput, match=r"controller is 'pidd', .*; did you mean 'pid'"):
        simulate(five_bar, tour, controller="pidd")
    with pytest.raises(InvalidInput, match=r"plant is 'gouch', .*; did you mean 'gough'"):
        simulate(five_bar, tour, plant="gouch")
    with pytest.raises(InvalidInput, match="2 payloads for 3 parameter sets"):
        simulate(
            five_bar,
            tour,
            payload=[None, "disc"],
            values=np.tile(five_bar.standard_values(), (3, 1)),
        )
    with pytest.raises(InvalidInput, match="parameter values has shape"):
        simulate(five_bar, tour, values=np.zeros(3))
    with pytest.raises(InvalidInput, match="drive gains are"):
        simulate(five_bar, tour, gains=[1.0, -1.0])
    with pytest.raises(InvalidInput, match="has no true ones"):
        simulate(five_bar, tour, believed_gains=[1.0, 1.0])
    with pytest.raises(InvalidInput, match=r"dead_band is 0\.0"):
        simulate(five_bar, tour, dead_band=0.0)
    with pytest.raises(InvalidInput, match="substeps is 0"):
        simulate(five_bar, tour, substeps=0)
    with pytest.raises(InvalidInput, match="bandwidth is -1"):
        ComputedTorque(bandwidth=-1.0)
    with pytest.raises(InvalidInput, match="all three gains"):
        PID(kp=1.0)
    with pytest.raises(InvalidInput, match="frequency 0"):
        SecondOrderDrive(frequency=0.0)
    with pytest.raises(InvalidInput, match="values has shape"):
        RobotModel(model=five_bar, values=np.zeros(2))
    with pytest.raises(InvalidInput, match="there is no variant 1"):
        record(
            simulate(five_bar, excitation(five_bar, period=0.2, reach=0.05), rate=500), variant=1
        )


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"controller": PID(kp=np.nan, ki=0.0, kd=0.0)}, "kp, ki and kd are nan, expected"),
        ({"controller": PID(kp=[1.0, 2.0, 3.0], ki=0.0, kd=0.0)}, "one for each of 2 motors"),
        ({"gains": [1.0, 1.0, 1.0]}, "drive gains are .* one for each of 2 motors"),
        ({"values": {"left.motor.ia": np.nan}}, "parameter values is not finite"),
        ({"substeps": 1.5}, "substeps is 1.5"),
        ({"periods": 1.5}, "periods is 1.5"),
        ({"lead_in": 0.5}, "lead_in is 0.5"),
    ],
)
def test_numbers_that_make_no_sense_are_refused_before_anything_moves(
    five_bar: Model, options: dict[str, Any], words: str
) -> None:
    with pytest.raises((InvalidInput, InvalidTrajectory), match=words):
        simulate(five_bar, excitation(five_bar), **options)


def test_noise_below_zero_and_bad_seeds_are_refused(five_bar: Model) -> None:
    run = simulate(five_bar, excitation(five_bar, period=0.2, reach=0.05), rate=500)
    with pytest.raises(InvalidInput, match="effort noise is -1"):
        record(run, noise=Noise(effort=-1.0))
    with pytest.raises(InvalidInput, match="velocity noise is -1"):
        record(run, velocity_noise=-1.0)
    with pytest.raises(InvalidInput, match="seed is -1, expected a whole number"):
        record(run, seed=-1)


def test_trajectories_of_other_robots_are_refused(five_bar: Model) -> None:
    with pytest.raises(InvalidTrajectory, match="made for the robot 'palida', not for 'five_bar'"):
        simulate(five_bar, excitation(model_of("palida")))
    tour = excitation(five_bar)
    with pytest.raises(InvalidTrajectory, match=r"moves 'platform\.x'"):
        simulate(five_bar, replace(tour, coordinates=("platform.x", "tool.y")))
    with pytest.raises(InvalidTrajectory, match=r"moves 'tool\.x' in rad, but the robot in m"):
        simulate(five_bar, replace(tour, units=("rad", "m")))
    with pytest.raises(InvalidTrajectory, match="all of one kind"):
        simulate(five_bar, replace(tour, coordinates=("tool.x", "left.motor")))


def test_periods_must_be_whole_samples(five_bar: Model) -> None:
    with pytest.raises(
        InvalidTrajectory, match=r"has 333\.333333 samples at 1000 Hz, expected a whole number"
    ):
        simulate(five_bar, excitation(five_bar, period=1 / 3, reach=0.1))
    with pytest.raises(InvalidInput, match="periods is 0"):
        simulate(five_bar, excitation(five_bar), periods=0)


@pytest.mark.parametrize(
    "options",
    [
        {"controller": "ctc"},
        {"controller": "pid+"},
        {"controller": "feedforward"},
        {"payload": (None, "second", "second")},
    ],
    ids=str,
)
def test_the_compiled_loop_gives_the_trajectory_of_the_loop_in_python(options, monkeypatch):
    """With drives at their limits too, and three variants in lanes for eight."""
    orthoglide = model_of("orthoglide")
    weak = replace(
        orthoglide.mechanism,
        joints=tuple(
            replace(joint, limits=replace(joint.limits, effort=60.0)) if joint.actuated else joint
            for joint in orthoglide.mechanism.joints
        ),
    )
    robot = Model(weak)
    options = {"periods": 1, "rate": 500, "lead_in": 0, **options}
    compiled = simulate(robot, excitation(robot), **options)
    for law in (PID, ComputedTorque):
        monkeypatch.setattr(law, "compiled", lambda self, setup: None)
    plain = simulate(robot, excitation(robot), **options)
    assert compiled.saturated.sum() > 0
    for name in ("q", "velocity", "acceleration", "effort", "mean_effort", "saturated"):
        one, other = getattr(compiled, name), getattr(plain, name)
        assert np.abs(one - other).max() <= 1e-9 * max(np.abs(other).max(), 1e-3), name


def test_a_robot_without_mass_is_refused_with_what_it_needs() -> None:
    """SYMORO files name masses and give no values: nothing can be said of how such a robot
    moves.
    """
    model = model_of("serial6")
    nothing = {
        name: 0.0
        for name in model.mechanism.standard.names
        if name.kind != "ia" or name.owner == "q4"
    }
    with pytest.raises(InvalidInput, match=r"'serial6' moves no mass.*rotor inertia"):
        simulate(
            model, excitation(model, period=4.0, reach=0.1), values=model.standard_values(nothing)
        )
