"""Control laws, drives, and models inside controllers."""

from __future__ import annotations

import numpy as np
import pytest
from moving_robots import excitation, without
from second_order_drive import SecondOrderDrive

from gough.core.errors import SimulationFailed
from gough.engine import base_parameters, random_motion, standard_from_base
from gough.virtual import PID, ComputedTorque, IdealDrive, RobotModel, simulate
from gough.virtual.controllers import nominal_mass
from tests_support import model_of
from trials import larger_later


def test_gains_put_three_poles_of_each_axis_at_the_bandwidth() -> None:
    model = model_of("orthoglide")
    kp, ki, kd = PID(bandwidth=100.0).gains(model, 1000)
    mass = np.diag(model.mass_matrix(model.home[None])[0])
    for j in range(3):
        np.testing.assert_allclose(np.roots([mass[j], kd[j], kp[j], ki[j]]), -100.0, rtol=1e-4)


def test_the_mass_a_single_motor_feels_needs_no_independent_motors() -> None:
    """Push one motor of the redundant robot: its acceleration is effort over nominal mass."""
    model = model_of("redundant")
    frictionless = model.standard_values(without(model, "fs", "fv"))
    at = model.home[None]
    still = np.zeros((1, 2))
    for j, mass in enumerate(nominal_mass(model)):
        effort = np.zeros((2, 1, 3))
        effort[1, 0, j] = 1.0
        change = np.diff(
            [model.forward_dynamics(at, still, e, frictionless)[0] for e in effort], axis=0
        )[0]
        act = model.kinematics.closure_map(at)[0][model.actuated[j]]
        assert act @ change == pytest.approx(1 / mass)


def test_simple_pid_lags_by_speed_over_bandwidth() -> None:
    """With the derivative on the measured velocity, e = Kd qd / Kp = qd / w at constant speed
    without integral.
    """
    model = model_of("five_bar")
    kp, _, kd = PID(bandwidth=200.0).gains(model, 1000)
    tour = excitation(model, period=2.0, reach=0.3)
    values = without(model, "fs", "fv")
    simple, advanced = (
        simulate(
            model, tour, values=values, controller=PID(kp=kp, ki=0.0, kd=kd, velocity_feedforward=w)
        )
        for w in (0, 1)
    )
    speed = simple.motion().qd[:, list(model.actuated)]
    static = model.bias(simple.q[0], np.zeros((len(speed), 2)), model.standard_values(values))
    lag = simple.tracking_error[0] - (static - static[0]) / kp
    np.testing.assert_allclose(lag, speed / 200.0, atol=0.1 * np.abs(speed).max() / 200)
    assert advanced.tracking_rms.max() < 0.3 * simple.tracking_rms.max()


@pytest.mark.parametrize("name", larger_later(["orthoglide", "redundant"], ["orthoglide"]))
def test_controllers_rank_as_in_the_papers(name: str) -> None:
    model = model_of(name)
    payload = model.mechanism.payloads[0].name
    tour = excitation(model, period=1.0, reach=0.3)
    rms = {
        c: simulate(
            model, tour, controller=c, payload=payload, rate=500, dead_band=0.02
        ).tracking_rms.max()
        for c in ("pid", "pid+", "feedforward", "ctc")
    }
    assert rms["pid"] > 2 * rms["pid+"]
    assert rms["pid+"] > 2 * rms["ctc"]
    assert rms["pid+"] > 2 * rms["feedforward"]


def test_a_perfect_model_leaves_only_the_error_of_sampling() -> None:
    """Feed-forward held over a period is its mean: an error of second order in the period, not of
    first.
    """
    model = model_of("five_bar")
    values = without(model, "fs")
    inverse = RobotModel(model=model, values=model.standard_values(values))
    tour = excitation(model, period=1.0, reach=0.3)
    ahead, computed = (
        PID(feedforward=inverse, bandwidth=30.0),
        ComputedTorque(inverse=inverse, bandwidth=30.0),
    )
    errors = [
        simulate(model, tour, values=values, controller=ahead, rate=r).tracking_max.max()
        for r in (250, 500)
    ]
    assert errors[0] < 2e-5
    assert errors[1] < 0.3 * errors[0]
    assert (
        simulate(model, tour, values=values, controller=computed, rate=500).tracking_max.max()
        < 2e-5
    )


def test_wrong_gains_on_a_true_model_scale_every_effort() -> None:
    model = model_of("orthoglide")
    tour = excitation(model, period=1.0, reach=0.3)
    true = np.array([2170.0, 2100.0, 2070.0])
    good, bad = (
        simulate(
            model, tour, controller="feedforward", rate=500, dead_band=0.02, believed_gains=g * true
        )
        for g in (1.0, 1.25)
    )
    assert bad.tracking_rms.max() > 5 * good.tracking_rms.max()


@pytest.mark.parametrize("tie_legs", [False, True])
def test_base_parameters_become_standard_ones_with_the_same_efforts(tie_legs: bool) -> None:
    model = model_of("orthoglide")
    base = base_parameters(model, tie_legs=tie_legs, payloads=("calibration",))
    names = base.standard
    values = base.values(model.values(names))
    standard, load = standard_from_base(model, base, values)
    motion = random_motion(model, 20, seed=8)
    known = model.standard_values(
        {n: v for n, v in zip(names, model.values(names)) if not n.startswith("payload.")}
    )
    expected = model.inverse_dynamics(motion, known, load=model.load("calibration"))
    got = RobotModel(model=model, values=standard, load=load)(motion.q, motion.qd, motion.qdd)
    np.testing.assert_allclose(got, expected, atol=1e-6 * np.abs(expected).max())
    assert np.count_nonzero(standard) < np.count_nonzero(known)


def test_any_function_serves_as_a_model() -> None:
    model = model_of("five_bar")
    calls: list[int] = []

    def gravity_only(q: np.ndarray, qd: np.ndarray, qdd: np.ndarray) -> np.ndarray:
        calls.append(len(q))
        return model.bias(q, np.zeros((len(q), 2)))

    tour = excitation(model, period=0.5)
    plain, helped = (
        simulate(model, tour, controller=PID(feedforward=f), rate=500, dead_band=0.05)
        for f in (lambda q, qd, qdd: np.zeros((len(q), 2)), gravity_only)
    )
    assert calls == [500]  # once, along the whole reference
    assert helped.tracking_rms.max() < plain.tracking_rms.max()


def test_a_second_order_drive_answers_as_its_transfer_function() -> None:
    """Step of the command: F = 1 - exp(-z w t) (cos wd t + z w / wd sin wd t), wd = w sqrt(1 -
    z^2).
    """
    drive = SecondOrderDrive(frequency=15.0, damping=0.6)
    state = drive.start(np.zeros((1, 1)))
    forces = []
    for _ in range(100):
        moments, state = drive.drive(state, np.ones((1, 1)), 1e-3, 5)
        forces.append(moments[:-1, 0, 0])
    time = np.arange(400) * 0.25e-3
    w, z = 2 * np.pi * 15.0, 0.6
    wd = w * np.sqrt(1 - z**2)
    expected = 1 - np.exp(-z * w * time) * (np.cos(wd * time) + z * w / wd * np.sin(wd * time))
    np.testing.assert_allclose(np.concatenate(forces), expected, atol=1e-12)


def test_an_ideal_drive_holds_the_command() -> None:
    command = np.array([[1.0, -2.0]])
    moments, _ = IdealDrive().drive(IdealDrive().start(command), command, 1e-3, 5)
    np.testing.assert_array_equal(moments, np.tile(command, (5, 1, 1)))


def test_hydraulics_give_smooth_forces_and_too_slow_ones_no_stable_loop() -> None:
    model = model_of("stewart")
    tour = excitation(model, period=2.0, reach=0.15)
    law = PID(kp=4e5, ki=1e6, kd=1.2e4)
    good = simulate(
        model,
        tour,
        controller=law,
        payload="load",
        actuator=SecondOrderDrive(frequency=60.0),
        lead_in=0,
    )
    tau = model.inverse_dynamics(good.motion(), load=model.load("load"))
    np.testing.assert_allclose(tau, good.effort[0], rtol=1e-9)
    np.testing.assert_array_equal(
        good.effort[:, 1:], good.mean_effort[:, 1:]
    )  # a force with inertia has no jumps
    with pytest.raises(SimulationFailed, match="unstable"):
        simulate(
            model, tour, controller=law, payload="load", actuator=SecondOrderDrive(frequency=3.0)
        )
