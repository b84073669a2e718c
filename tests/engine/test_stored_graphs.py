"""Graphs and base parameters of a robot are found once: later they come from disk."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from gough.engine import Model, base, base_parameters, loops, random_motion
from gough.engine.symbolic import TreeEfforts
from gough.kernels.kernel import Kernel
from gough.mechanism import CLOSURES, load_robot
from gough.mechanism.placement import Placement
from gough.mechanism.terms import JointTerm
from gough.mechanism.types import Mechanism
from tests_support import registries_restored


@pytest.fixture(scope="module", autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Let nothing be stored at first, and nothing of these tests afterwards."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GOUGH_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="module")
def robot(own_cache: None) -> Mechanism:
    """The five-bar, whose graphs are stored."""
    mechanism = load_robot("five_bar")
    efforts(Model(mechanism))
    return mechanism


def efforts(model: Model) -> np.ndarray:
    """Return the efforts along a motion, (t, m)."""
    return model.inverse_dynamics(random_motion(model, 5, seed=1))


def kernels_of(model: Model) -> list[Kernel]:
    """Return the kernels of the dynamics that a model has loaded."""
    return list(vars(model)["kernels"].values())


def refuse_to_build(*_: object, **__: object) -> None:
    """Stand for what every graph of the dynamics is built from."""
    raise AssertionError("a graph was built")


def test_a_second_model_builds_no_graph(robot: Mechanism, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = efforts(Model(robot))
    monkeypatch.setattr(TreeEfforts, "__init__", refuse_to_build)
    again = Model(load_robot("five_bar"))
    np.testing.assert_array_equal(efforts(again), expected)
    kernel = next(kernel for kernel in kernels_of(again) if kernel.name == "efforts")
    assert not kernel.compiled
    assert kernel.operations > 100


def test_texts_for_people_do_not_matter(robot: Mechanism) -> None:
    renamed = replace(robot, title="another", reference="none", source="elsewhere.toml")
    assert Model(renamed).graph_key == Model(robot).graph_key


@pytest.mark.parametrize("change", ["gravity", "geometry", "term", "home"])
def test_another_robot_has_other_graphs(robot: Mechanism, change: str) -> None:
    model = Model(robot)
    if change == "gravity":
        other = Model(replace(robot, gravity=(0.0, 0.0, -1.6)))
    elif change == "geometry":
        moved = Placement((*robot.joints[-1].placement.steps, ("Tz", 1e-9)))
        joint = replace(robot.joints[-1], placement=moved)
        other = Model(replace(robot, joints=(*robot.joints[:-1], joint)))
    elif change == "term":
        viscous = JointTerm(name="fv", label="viscous friction", expression="qd * 2")
        other = Model(replace(robot, custom_terms={"fv": viscous}))
    else:
        other = Model(robot)
        other.loops = replace(other.loops, home=other.home + 1e-12)
    assert other.graph_key != model.graph_key


def test_changed_source_has_other_graphs(robot: Mechanism, monkeypatch: pytest.MonkeyPatch) -> None:
    before = Model(robot).graph_key
    hashed = loops.hash_of_package
    monkeypatch.setattr(
        loops, "hash_of_package", lambda name: hashed(name) + "changed" * (name == "gough.engine")
    )
    assert Model(robot).graph_key != before


def test_a_closure_from_elsewhere_is_built_anew(robot: Mechanism) -> None:
    with registries_restored():
        kind = robot.closures[0].kind
        own = CLOSURES[kind]
        CLOSURES[kind] = replace(own, residual=lambda closure, at: own.residual(closure, at))
        assert Model(robot).graph_key == ""
        assert efforts(Model(robot)).shape == (5, 2)
    assert Model(robot).graph_key


def test_a_stored_kernel_without_its_code_is_compiled_again(
    robot: Mechanism, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOUGH_CACHE_DIR", str(tmp_path))
    first = Model(robot)
    expected = efforts(first)
    for kernel in kernels_of(first):
        (tmp_path / f"{kernel.signature.key}.o").unlink()
    again = Model(robot)
    np.testing.assert_array_equal(efforts(again), expected)
    assert all(kernel.compiled for kernel in kernels_of(again))


def test_a_kernel_without_its_graph_can_be_sent_to_another_process(robot: Mechanism) -> None:
    kernel = Model(robot).platform_kernel()
    stored = Model(robot).platform_kernel()
    q = Model(robot).home[None]
    sent = pickle.loads(pickle.dumps(stored))
    np.testing.assert_array_equal(sent(q)[0], kernel(q)[0])


@pytest.mark.parametrize("payloads", [(), ("disc",)])
def test_base_parameters_are_found_once(
    robot: Mechanism, monkeypatch: pytest.MonkeyPatch, payloads: tuple[str, ...]
) -> None:
    expected = base_parameters(Model(robot), tie_legs=True, payloads=payloads)

    def refuse_to_search(*_: object) -> None:
        raise AssertionError("base parameters were sought")

    monkeypatch.setattr(base, "_find_base", refuse_to_search)
    again = base_parameters(Model(robot), tie_legs=True, payloads=payloads)
    assert again.names == expected.names
    assert again.standard == expected.standard
    assert [name.unit for name in again.standard] == [name.unit for name in expected.standard]
    assert again.units == expected.units
    assert again.independent == expected.independent
    assert again.finer_count == expected.finer_count
    np.testing.assert_array_equal(again.matrix, expected.matrix)
    np.testing.assert_array_equal(again.singular_values, expected.singular_values)
    with pytest.raises(AssertionError, match="were sought"):
        base_parameters(Model(robot), payloads=payloads)  # legs are not tied here


def test_base_parameters_of_another_robot_are_found_anew(robot: Mechanism) -> None:
    whole = base_parameters(Model(robot))
    joints = tuple(replace(joint, terms=(), values={}) for joint in robot.joints)
    without = replace(robot, joints=joints, ties={})
    assert len(base_parameters(Model(without))) < len(whole)
