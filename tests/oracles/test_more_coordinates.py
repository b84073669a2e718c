"""Platforms with more coordinates than mobility: led by independent ones, against Pinocchio and its
plant.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from gough import Model, check, design, identify, record, simulate
from gough.core.errors import InvalidTrajectory
from gough.engine import random_motion
from gough.mechanism import parse_robot
from tests_support import fourier, model_of

pytest.importorskip("pinocchio")
sys.path.insert(0, str(Path(__file__).parent))
from pin_tree import tree
from test_unbundled_robots import gaps

FOLDER = Path(__file__).parent / "robots"
LED_BY = {
    "spatial_3rps": ("z", "rx", "ry"),
    "spatial_3prs": ("z", "rx", "ry"),
    "exechon": ("x", "y", "z"),
}


@pytest.fixture(params=sorted(LED_BY), scope="module")
def model(request: pytest.FixtureRequest) -> Model:
    return model_of(FOLDER / f"{request.param}.toml")


def ratio(model: Model, q: np.ndarray, held: tuple[str, ...]) -> float:
    """Smallest over largest singular value of Pinocchio's closures by what is not held, lengths
    over the robot's.
    """
    parts, steps = tree(model.mechanism), 1e-6 * np.eye(len(q))
    K = np.stack(
        [
            gaps(model.mechanism, *parts, q + s) - gaps(model.mechanism, *parts, q - s)
            for s in steps
        ],
        axis=1,
    )
    free = [i for i, name in enumerate(model.mechanism.coordinates) if name not in held]
    values = np.linalg.svd((K * model.loops.units)[:, free] / 2e-6, compute_uv=False)
    return float(values[-1] / values[0])


def test_the_coordinates_that_lead_are_independent_and_the_others_follow(model: Model) -> None:
    names = model.loops.names("task")
    assert names == tuple(f"platform.{name}" for name in LED_BY[model.mechanism.name])
    assert set(names) < set(model.mechanism.task)
    parts, motion = tree(model.mechanism), random_motion(model, 4, seed=7)
    rows = list(model.loops.partitions["task"].independent)
    again = model.kinematics.motion(
        motion.time,
        *(x[:, rows] for x in (motion.q, motion.qd, motion.qdd)),
        "task",
        start=motion.q,
    )
    np.testing.assert_allclose(again.q, motion.q, atol=1e-9)
    for q, qd in zip(again.q, again.qd):
        assert np.abs(gaps(model.mechanism, *parts, q)).max() < 1e-10
        drift = gaps(model.mechanism, *parts, q + 1e-7 * qd) - gaps(
            model.mechanism, *parts, q - 1e-7 * qd
        )
        assert np.abs(drift).max() / 2e-7 < 1e-6 * np.abs(qd).max()


def test_singularity_margins_are_reported(model: Model) -> None:
    found = check(model)
    assert found.type1_margin is not None
    assert f"type 1 {found.type1_margin:.3f}" in found.summary()
    for margin, by in ((found.type1_margin, "task"), (found.type2_margin, "actuated")):
        theirs = ratio(model, model.home, model.loops.names(by))
        if model.mechanism.name == "exechon":  # closures of axes: other equations and scales
            assert 0.3 < margin / theirs < 3
        else:
            assert margin == pytest.approx(theirs, rel=1e-4)


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("name", ["spatial_3rps", "exechon"])
def test_it_can_be_designed_simulated_and_identified(name: str) -> None:
    model = model_of(FOLDER / f"{name}.toml")
    plan = design(model, frequency=0.5, harmonics=4, starts=1, seed=0, iterations=25)
    assert plan.trajectories[0].coordinates == model.loops.names("task")
    run = simulate(model, plan.trajectories[0], plant="pinocchio", periods=4)
    result = identify(model, [record(run, seed=3)])
    truth = result.base.values(model.values(result.base.standard))
    off = (result.estimate.values - truth) / result.estimate.std
    assert np.sqrt((off**2).mean()) < 1.6
    assert np.abs(off).max() < 5


def test_a_coordinate_that_follows_cannot_lead(model: Model) -> None:
    path, names = fourier(model, 0.1, 0.5), model.loops.names("task")  # of all six
    follows = next(name for name in path.coordinates if name not in names)
    with pytest.raises(InvalidTrajectory, match=rf"moves '{follows}'.*\({', '.join(names)}\)"):
        simulate(model, path)


def test_a_motor_beside_the_platform_leaves_the_platform_unable_to_lead() -> None:
    """A gripper moves with the platform locked: six coordinates, four degrees of freedom, three of
    the platform.
    """
    text = (
        (FOLDER / "spatial_3rps.toml").read_text(encoding="utf-8")
        + """
[[body]]
name = "jaw"
m = 0.2
[[joint]]
name = "grip"
type = "prismatic"
parent = "platform"
child = "jaw"
actuated = true
"""
    )
    model = Model(parse_robot(text, "with_gripper"))
    assert model.degrees_of_freedom == 4
    assert model.loops.names("task") == ()
    assert check(model).type1_margin is None
