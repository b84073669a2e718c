"""Coefficients that a physical joint cannot have do not come out of the consistent estimate."""

from __future__ import annotations

from gough.app.identify import identify
from gough.engine import Model
from gough.mechanism import parse_robot, robot_text
from gough.virtual import record, simulate
from tests_support import fourier


def test_a_spring_that_pushes_away_is_not_possible() -> None:
    """The robot is made with one; free estimates find it, the consistent one stops at zero."""
    text = (
        robot_text("five_bar")[0]
        .replace('["ia", "fv", "fs"]', '["ia", "fv", "fs", "k"]')
        .replace('fs = "$fs" }', 'fs = "$fs", k = 1 }')
    )
    model = Model(parse_robot(text, "five_bar.toml"))
    run = simulate(
        model, fourier(model, 0.5, 0.5, harmonics=5), periods=2, values={"left.motor.k": -3.0}
    )
    result = identify(model, [record(run, seed=1)], estimator="all")
    free, possible = result.estimates["gm"], result.estimates["feasible"]
    k = free.parameters.index("left.motor.k")
    assert free.values[k] + 10 * free.std[k] < 0
    assert 0 <= result.joint_terms["left.motor.k"] < 0.01  # the robot file has 1
    assert possible.values[k] > free.values[k]
