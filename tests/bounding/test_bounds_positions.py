"""Boxes from logs whose positions are known to a step of the encoder only (P03's future work)."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from enclosed_logs import (
    COUNT,
    FREQUENCY,
    HARMONICS,
    RATE,
    TIME,
    h4_motors,
    h4_truth,
    log_of,
    pinocchio_truth,
)
from gough import Model, Processing, bounds
from gough.bounding.uncertain_regressor import _apply_kernel, harmonic_motion
from gough.bounding.verify import verify
from gough.core.errors import InconsistentData, InvalidInput, NotConverged
from gough.core.intervals import Interval
from gough.engine import base_parameters
from gough.engine.enclosure import closed_box
from tests_support import fourier, model_of

sys.path.insert(0, str(Path(__file__).parents[1] / "oracles"))
CUTOFF = Processing(cutoff=HARMONICS * FREQUENCY, window=0.0)


@pytest.fixture(scope="module")
def h4() -> Model:
    return model_of("h4")


def test_forward_kinematics_of_the_h4_are_enclosed(h4: Model) -> None:
    """Poses whose motors, in closed form, lie within the error of those given; the boxes are not
    much too large.
    """
    pose = fourier(h4, 0.5, FREQUENCY, harmonics=HARMONICS).at(TIME[::40])[0]
    rng, error = np.random.default_rng(0), 1e-4
    motors = h4_motors(pose)
    near = h4.kinematics.close_loops(motors + rng.uniform(-error, error, motors.shape))
    given = near[:, [h4.mechanism.coordinates.index(name) for name in h4.mechanism.actuated]]
    box = closed_box(h4, "actuated", Interval.around(given, error), near)
    task = box[:, [h4.mechanism.coordinates.index(name) for name in h4.mechanism.task]]
    assert ((task.lower <= pose) & (pose <= task.upper)).all()
    J = np.stack(
        [(h4_motors(pose + e) - h4_motors(pose - e)) / 2e-6 for e in 1e-6 * np.eye(4)], axis=-1
    )
    least = np.abs(np.linalg.inv(J)).sum(axis=-1) * error
    assert (task.radius >= 0.999 * least).all()
    assert (task.radius <= 1.02 * least).all()


def test_positions_too_coarse_for_a_proof_are_refused(h4: Model) -> None:
    near = h4.home[None]
    motors = near[:, list(h4.actuated)]
    with pytest.raises(
        NotConverged, match=r"could not be proven at sample 0.*smaller position error"
    ):
        closed_box(h4, "actuated", Interval.around(motors, 0.5), near)


def test_derivatives_of_a_motion_of_known_bandwidth_are_enclosed_and_nearly_as_narrow_as_can_be() -> (
    None
):
    """Bernstein: errors of h harmonics can grow by (h w)^k, and no bound of all such motions is
    smaller.
    """
    w, error = 2 * np.pi * FREQUENCY, 1e-3
    rng = np.random.default_rng(0)
    for _ in range(20):
        a, b = rng.standard_normal((2, HARMONICS + 1))
        k = np.arange(HARMONICS + 1)
        s, c = np.sin(w * np.outer(TIME, k)), np.cos(w * np.outer(TIME, k))
        truth = (
            s @ a + c @ b,
            c @ (a * w * k) - s @ (b * w * k),
            -s @ (a * (w * k) ** 2) - c @ (b * (w * k) ** 2),
        )
        seen = Interval.around(truth[0] + rng.uniform(-error, error, COUNT), error)[:, None]
        for order, (found, true) in enumerate(zip(harmonic_motion(seen, RATE, HARMONICS), truth)):
            assert found[:, 0].contains(true).all()
            assert found.radius.max() < 1.6 * error * (w * HARMONICS) ** order


def test_a_motion_of_more_harmonics_is_noticed() -> None:
    wave = np.sin(2 * np.pi * FREQUENCY * (HARMONICS + 2) * TIME)[:, None]
    with pytest.raises(InconsistentData, match="no motion of 4 harmonics"):
        harmonic_motion(Interval.around(wave, 0.1), RATE, HARMONICS)
    with pytest.raises(InvalidInput, match="200 harmonics from 400 samples"):
        harmonic_motion(Interval.around(wave, 0.1), RATE, 200)


@pytest.mark.parametrize(
    ("name", "step", "error"),
    [("h4", 2e-4, 0.05), pytest.param("palida", 1e-5, 4.0, marks=pytest.mark.long)],
)
def test_the_truth_is_inside_boxes_from_rounded_positions(
    name: str, step: float, error: float
) -> None:
    model = model_of(name)
    if name != "h4":
        pytest.importorskip("pinocchio")
    base = base_parameters(model, tie_legs=True)
    truth = base.values(model.values(base.standard))
    for seed in range(2 if name == "h4" else 1):
        log = log_of(
            model, (h4_truth if name == "h4" else pinocchio_truth)(seed, model), step, error, seed
        )
        box = bounds(
            model,
            [log],
            error_bound=error,
            tie_legs=True,
            position_error=step / 2,
            processing=CUTOFF,
        )
        assert ((box.lower <= truth) & (truth <= box.upper)).all()
        if name == "h4":
            verify(
                json.loads(json.dumps(box.to_dict()))
            )  # in rational arithmetic, from the intervals stored
        assert "holds if the pose has no harmonics above 2 Hz" in str(box.notices[0])
        fair = bounds(model, [log], error_bound=3 * error, tie_legs=True, processing=CUTOFF)
        assert np.median(box.width / fair.width) < 1.5  # not just anything contains the truth


def test_positions_taken_for_exact_contradict_what_they_are(h4: Model) -> None:
    """What the steps add to the efforts breaks an error bound that holds for the efforts alone."""
    log = log_of(h4, h4_truth(0, h4), 2e-3, 1e-3, 0)
    with pytest.raises(InconsistentData):
        bounds(h4, [log], error_bound=1e-3, processing=CUTOFF)
    bounds(h4, [log], error_bound=1e-3, position_error=1e-3, processing=CUTOFF)


def test_a_motion_that_cannot_be_enclosed_is_refused(h4: Model) -> None:
    log = log_of(h4, h4_truth(0, h4), 1e-4, 0.1, 0)
    with pytest.raises(InvalidInput, match="log of whole periods with a cut-off"):
        bounds(
            h4,
            [replace(log, period_samples=None)],
            error_bound=0.1,
            position_error=1e-4,
            processing=Processing(cutoff=20.0, method="time"),
        )


def test_what_a_kernel_misses_of_the_harmonics_is_added_to_the_enclosure() -> None:
    """A kernel of zeros misses everything: only the slack can then hold the motion."""
    angle = 2 * np.pi * np.arange(8) / 8
    waves = np.column_stack([np.ones(8), np.cos(angle), np.sin(angle)])
    coefficients = np.array([[0.2], [-0.3], [0.5]])
    motion = waves @ coefficients
    bound = np.abs(coefficients).sum(axis=0)
    enclosed = _apply_kernel(np.zeros(5), waves, waves, bound, Interval.around(motion, 0.0))
    assert enclosed.contains(motion).all()
