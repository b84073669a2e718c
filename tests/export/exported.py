"""Robots and bodies shared by the tests of URDF and MJCF."""

from __future__ import annotations

from functools import cache

import numpy as np

from gough.core.errors import GoughError
from gough.core.parameters import INERTIAL
from gough.engine import Model
from gough.fitting.pseudo_inertia import group_bodies, possible_body, prior_body
from gough.mechanism.placement import Placement
from gough.mechanism.types import Body, Closure, Frame, Joint, Mechanism


def possible_bodies(model: Model) -> dict[str, np.ndarray]:
    """The robot file's bodies, those that are flat or only known in part made possible."""
    table = model.mechanism.standard
    return {
        body.name: possible_body(prior_body(body, table.values))[0]
        for body in group_bodies(table.names)
    }


def joint_terms(model: Model, **changes: float) -> dict[str, float]:
    """The robot file's joint terms, all of a kind changed: `fs=0`."""
    table = model.mechanism.standard.as_dict()
    return {
        name: changes.get(name.rpartition(".")[2], value)
        for name, value in table.items()
        if name.rpartition(".")[2] not in INERTIAL
    }


def cloud(rng: np.random.Generator, name: str) -> Body:
    """A body of six point masses."""
    points, masses = 0.1 * rng.standard_normal((6, 3)), rng.uniform(0.1, 0.5, 6)
    inertia = sum(m * (p @ p * np.eye(3) - np.outer(p, p)) for m, p in zip(masses, points))
    values = [
        masses.sum(),
        *(masses @ points),
        *(inertia[i, j] for i, j in ((0, 0), (0, 1), (1, 1), (0, 2), (1, 2), (2, 2))),
    ]
    return Body(name=name, values=dict(zip(INERTIAL, map(float, values))))


@cache
def closed_chain(kind: str) -> Model:
    """The first random chain whose motors move it well."""
    for seed in range(100):
        try:
            model = Model(chain_with(kind, seed))
        except GoughError:
            continue
        if model.loops.margin(model.home, "actuated") > 0.1:
            return model
    raise AssertionError(f"no chain with a {kind} closure")


def chain_with(kind: str, seed: int = 3) -> Mechanism:
    """Two spatial chains on the base whose ends are held by one closure, closed where they happen
    to start.
    """
    rng = np.random.default_rng(seed)
    equations = {"point": 3, "revolute": 5, "weld": 6, "distance": 1, "parallel": 2, "coupling": 1}[
        kind
    ]
    count, half = equations + 2, (equations + 2) // 2
    terms = {"ia": 0.02, "fv": 0.3, "fs": 0.1, "off": 0.4, "k": 0.5}
    bodies, joints = [], []
    for i in range(count):
        bodies.append(cloud(rng, f"b{i}"))
        own = {term: value for term, value in terms.items() if rng.random() < 0.7}
        joints.append(
            Joint(
                name=f"j{i}",
                kind="prismatic" if i == count - 1 and kind != "parallel" else "revolute",
                axis="xyz"[i % 3],
                parent="base" if i in (0, half) else f"b{i - 1}",
                child=f"b{i}",
                placement=Placement.xyz_rpy(
                    tuple(rng.uniform(-0.3, 0.3, 3)), tuple(rng.uniform(-1, 1, 3))
                ),
                actuated=i < 2,
                start=float(rng.uniform(-0.4, 0.4)),
                terms=tuple(own),
                values=own,
            )
        )
    tree = Mechanism(
        name="chain", bodies=tuple(bodies), joints=tuple(joints), gravity=(1.0, -2.0, -9.0)
    )
    return Mechanism(
        name=f"chain_{kind}",
        bodies=tree.bodies,
        joints=tree.joints,
        gravity=tree.gravity,
        closures=(_closure(kind, tree, half - 1, count - 1),),
    )


def _closure(kind: str, tree: Mechanism, first: int, last: int) -> Closure:
    start = {joint.name: joint.start for joint in tree.joints}
    if kind == "coupling":
        pair = {"j0": 1.5, f"j{last}": -2.0}
        return Closure(
            name="loop",
            kind="coupling",
            coefficients=pair,
            constant=-sum(c * start[name] for name, c in pair.items()),
        )
    poses = {"base": np.eye(4)}
    for joint in tree.joints:
        step = ("R" if joint.kind == "revolute" else "T") + joint.axis
        poses[joint.child] = poses[joint.parent] @ _matrix(
            Placement((*joint.placement.steps, (step, joint.start)))
        )
    tip = Placement.xyz_rpy((0.1, 0.2, -0.1), (0.3, -0.2, 0.5))
    a = poses[f"b{first}"] @ _matrix(tip)
    opposite = kind in ("revolute", "parallel")  # z axes against each other are parallel too
    gap = (
        np.linalg.inv(poses[f"b{last}"])
        @ a
        @ (np.diag([1.0, -1.0, -1.0, 1.0]) if opposite else np.eye(4))
    )
    yaw, pitch, roll = (
        np.arctan2(gap[1, 0], gap[0, 0]),
        -np.arcsin(gap[2, 0]),
        np.arctan2(gap[2, 1], gap[2, 2]),
    )
    shift = gap[:3, 3] + (0.2 if kind in ("distance", "parallel") else 0.0) * gap[:3, 0]
    return Closure(
        name="loop",
        kind=kind,
        a=Frame(body=f"b{first}", placement=tip),
        values={"length": 0.2} if kind == "distance" else {},
        b=Frame(body=f"b{last}", placement=Placement.xyz_rpy(tuple(shift), (roll, pitch, yaw))),
    )


def _matrix(placement: Placement) -> np.ndarray:
    result = np.eye(4)
    for step, value in placement.steps:
        part, k = np.eye(4), "xyz".index(step[1].lower())
        if step[0] == "T":
            part[k, 3] = value
        else:
            i, j = (k + 1) % 3, (k + 2) % 3
            part[i, i] = part[j, j] = np.cos(value)
            part[i, j], part[j, i] = -np.sin(value), np.sin(value)
        result = result @ part
    return result
