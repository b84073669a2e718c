"""A robot that is moved by hand: loops stay closed, limits are kept, what cannot be done is
said.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from gough.app.view.posture import Posture
from gough.mechanism import load_robot


def far_apart(tmp_path: Path) -> Path:
    """Write a five-bar whose second base joint is too far away for its links."""
    text = (Path(__file__).parents[2] / "src/gough/robots/five_bar.toml").read_text(
        encoding="utf-8"
    )
    path = tmp_path / "apart.toml"
    path.write_text(text.replace("xyz = [0.1, 0, 0]", "xyz = [2.1, 0, 0]"), encoding="utf-8")
    return path


@pytest.mark.parametrize("name", ["palida", "delta", "five_bar", "serial6", "redundant", "upv"])
def test_the_platform_follows_the_hand_as_far_as_its_freedom_goes(name):
    posture = Posture(load_robot(name))
    place = posture.place()[1]
    length = posture.chain.loops.length
    E = posture.chain.closure_map(posture.q[None], "actuated")[0]
    # A place that can be reached, found without the code under test: the motors move a little, the
    # loops are closed.
    there = Posture(load_robot(name))
    rng = np.random.default_rng(3)
    assert there.drive(there.positions + 0.03 * length * rng.uniform(-1, 1, E.shape[1])) == ""
    goal = there.place()
    assert np.linalg.norm(goal[1] - place) > 1e-3 * length
    for _ in range(5):
        assert posture.pull(*goal) == ""
    assert np.abs(posture.place()[1] - goal[1]).max() < 1e-5 * length
    assert Rotation.from_matrix(posture.place()[0] @ goal[0].T).magnitude() < 1e-5
    assert posture.chain.residual(posture.q[None])[0] < 1e-9
    assert posture.gaps() == []


def test_a_pull_out_of_reach_ends_at_the_limits_with_closed_loops():
    posture = Posture(load_robot("delta"))
    turn, place = posture.place()
    for _ in range(20):
        posture.pull(turn, place + np.array([0, 0, 50.0]))
    for slider, value in zip(posture.sliders, posture.positions):
        assert slider.low - 1e-9 <= value <= slider.high + 1e-9
    assert posture.chain.residual(posture.q[None])[0] < 1e-9


def test_motors_that_cannot_go_there_leave_the_pose_as_it_was():
    posture = Posture(load_robot("palida"))
    before = posture.q.copy()
    assert "singularity" in posture.drive(posture.positions + np.array([3.0, 0, 0, 0, 0, 0]))
    np.testing.assert_array_equal(posture.q, before)


def test_a_robot_that_does_not_assemble_shows_its_open_loop_and_every_joint(tmp_path):
    posture = Posture(load_robot(far_apart(tmp_path)))
    assert posture.model is None
    assert "open" in posture.problem
    gap = posture.gaps()[0]
    ends = np.linalg.norm(gap.ends[1] - gap.ends[0])
    assert gap.size <= ends * (1 + 1e-9)  # the largest component of the gap
    assert ends > 0.5
    assert len(posture.sliders) == sum(
        not joint.virtual for joint in posture.chain.loops.mechanism.joints
    )
    before = posture.gaps()[0].size
    posture.drive(posture.positions + 0.1)
    assert posture.gaps()[0].size != before
    assert any("open by" in line for line in posture.describe())
