"""Export and import of every bundled robot, by URDF with its sidecar and by MJCF."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from exported import closed_chain, possible_bodies
from foreign import SQUARE, described

from gough.engine import Model, random_motion
from gough.engine.assembly import gauss_newton
from gough.export.contents import check_terms, standard_values
from gough.export.mjcf_writer import to_mjcf
from gough.export.urdf_writer import to_urdf
from gough.mechanism import bundled_robots, load_robot
from tests_support import model_of
from trials import larger_later

ROBOTS = [name for name, _ in bundled_robots()]
LARGER = ("orthoglide", "palida", "upv")  # delta, stewart and h4 are of the same kinds


def plain(name: str) -> str:
    return name.replace(".", "_")


def exported(model: Model, folder: Path, form: str, gains: dict[str, float] | None = None) -> Path:
    path = folder / f"robot.{form}"
    if form == "urdf":
        tree, sidecar = to_urdf(model, possible_bodies(model), gains=gains)
        path.write_text(tree)
        path.with_suffix(".yaml").write_text(sidecar)
    else:
        path.write_text(to_mjcf(model, possible_bodies(model), gains=gains))
    return path


def check_same(model: Model, back: Model) -> None:
    """The same motion needs the same efforts, to 1e-9 of the largest."""
    motion = random_motion(model, 4, seed=2, reach=0.4)
    bodies = {name: np.asarray(values) for name, values in possible_bodies(model).items()}
    values = standard_values(model, bodies, check_terms(model, None))
    expected = model.project_to_rows(motion.q, model.inverse_dynamics(motion, values))
    index = {plain(name): i for i, name in enumerate(model.mechanism.coordinates)}
    names = back.mechanism.coordinates
    start = np.array(
        [
            [
                q[index[plain(name)]] if plain(name) in index else home
                for name, home in zip(names, back.home)
            ]
            for q in motion.q
        ]
    )
    added = np.array(
        [plain(name) not in index for name in names]
    )  # MuJoCo's stand-ins for some closures
    start = (
        np.array([gauss_newton(back.loops, q, added)[0] for q in start]) if added.any() else start
    )
    chosen = [index[plain(row)] for row in back.rows]
    again = back.kinematics.motion(
        motion.time,
        motion.q[:, chosen],
        motion.qd[:, chosen],
        motion.qdd[:, chosen],
        by=back.loops.dynamic,
        start=start,
    )
    found = back.project_to_rows(again.q, back.inverse_dynamics(again))
    order = [[plain(row) for row in model.rows].index(plain(row)) for row in back.rows]
    np.testing.assert_allclose(found, expected[:, order], atol=1e-9 * np.abs(expected).max())


@pytest.mark.parametrize("form", ["urdf", "xml"])
@pytest.mark.parametrize("name", larger_later(ROBOTS, LARGER))
def test_a_bundled_robot_comes_back_with_the_same_dynamics(
    name: str, form: str, tmp_path: Path
) -> None:
    model = model_of(name)
    back = Model(load_robot(exported(model, tmp_path, form)))
    assert back.degrees_of_freedom == model.degrees_of_freedom
    assert {plain(motor) for motor in back.mechanism.actuated} == {
        plain(motor) for motor in model.mechanism.actuated
    }
    assert back.mechanism.platform == model.mechanism.platform
    check_same(model, back)


@pytest.mark.parametrize("form", ["urdf", "xml"])
def test_right_angles_of_few_digits_come_back_as_printed(form: str, tmp_path: Path) -> None:
    model = Model(
        described(SQUARE.replace("{half}", "1.5708").replace("{whole}", "3.1416"), "square.urdf")[1]
    )
    check_same(model, Model(load_robot(exported(model, tmp_path, form))))


@pytest.mark.parametrize("form", ["urdf", "xml"])
@pytest.mark.parametrize("kind", ["point", "revolute", "weld", "distance", "parallel", "coupling"])
def test_every_kind_of_closure_comes_back(kind: str, form: str, tmp_path: Path) -> None:
    model = closed_chain(kind)
    check_same(model, Model(load_robot(exported(model, tmp_path, form))))


@pytest.mark.parametrize("form", ["urdf", "xml"])
def test_names_terms_legs_and_gains_come_back(form: str, tmp_path: Path) -> None:
    model = model_of("palida")
    gains = {motor: 100.0 + k for k, motor in enumerate(model.mechanism.actuated)}
    back = load_robot(exported(model, tmp_path, form, gains))
    assert back.actuated == model.mechanism.actuated
    assert {joint.leg for joint in back.joints if joint.leg} == {f"leg{k}" for k in range(1, 7)}
    for name, gain in gains.items():
        mine, theirs = back.joint(name), model.mechanism.joint(name)
        assert mine.gain == pytest.approx(gain)
        assert dict(mine.values) == pytest.approx(dict(theirs.values))
        assert mine.limits.position == pytest.approx(theirs.limits.position)
