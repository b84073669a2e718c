"""Robots of `benchmarks/verdict.py`: bundled ones and random linkages; true values beside them.

A robot file is what its owner believes. The true robot has the same geometry, and inertias and
friction that differ by log-normal errors, common to all and of each body and joint.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
from verdict_plant import Array, Workspace, find_workspace, inertial_parameters

from gough.core.parameters import INERTIAL
from gough.engine import Model
from gough.mechanism import Mechanism, load_robot

BUNDLED = ("five_bar", "delta", "orthoglide", "h4", "serial6")
HEADER = """format = 1
name = "{name}"
gravity = {gravity}
[units]
length = "m"
angle = "rad"
mass = "kg"
"""


# -- random linkages


def _number(value: float) -> str:
    return f"{value:.9g}"


def _body(rng: np.random.Generator, name: str, length: float, table: str = "body") -> str:
    """Return a slender body along x with its centre of mass somewhat off the line."""
    mass = rng.uniform(0.5, 2.0) * max(length, 0.1) * 4
    centre = length * rng.uniform(0.3, 0.6)
    aside = 0.05 * length * rng.uniform(-1, 1, 2)
    along = mass * (0.05 * length) ** 2
    across = mass * length**2 / 12 * rng.uniform(0.8, 1.4)
    return (
        f'[[{table}]]\nname = "{name}"\nm = {_number(mass)}\n'
        f"com = [{_number(centre)}, {_number(aside[0])}, {_number(aside[1])}]\n"
        f'about = "com"\nIxx = {_number(along)}\nIyy = {_number(across)}\n'
        f"Izz = {_number(across)}\n"
    )


def _motor_lines(rng: np.random.Generator, torque: float, inertia: float, terms: str) -> str:
    """Return the lines of a motor: friction in parts of a typical effort."""
    viscous = torque * rng.uniform(0.02, 0.1)
    dry = torque * rng.uniform(0.05, 0.3)
    values = {"ia": inertia * rng.uniform(0.1, 1.0), "fv": viscous, "fs": dry}
    values |= {"off": dry * rng.uniform(-0.3, 0.3), "k": torque * rng.uniform(0.1, 0.5)}
    used = [name for name in values if name in terms.split()]
    listed = ", ".join(f'"{name}"' for name in used)
    given = ", ".join(f"{name} = {_number(values[name])}" for name in used)
    return f"actuated = true\nterms = [{listed}]\nvalues = {{ {given} }}\n"


def _motor_terms(rng: np.random.Generator) -> str:
    return str(rng.choice(["ia fv fs", "ia fv fs off", "fv fs", "ia fv fs off k"]))


def random_serial(rng: np.random.Generator, joints: int) -> str:
    """Return the file of an arm with joints about random axes of their frames."""
    text = HEADER.format(name=f"serial{joints}_random", gravity="[0, 0, -9.81]")
    parent = "base"
    length = rng.uniform(0.25, 0.5)
    terms = _motor_terms(rng)
    axes = ["z", "y", "y", "x", "y"]
    torque = 10.0 * joints
    for k in range(joints):
        text += _body(rng, f"link{k + 1}", length)
        axis = axes[k] if k < 2 else str(rng.choice([axes[k], "z", "y"]))
        offset = [0.0, 0.0, 0.3] if k == 0 else [length, 0.0, 0.05 * rng.uniform(-1, 1)]
        text += (
            f'[[joint]]\nname = "joint{k + 1}"\ntype = "revolute"\nparent = "{parent}"\n'
            f'child = "link{k + 1}"\naxis = "{axis}"\n'
            f"xyz = [{', '.join(_number(value) for value in offset)}]\n"
            f"start = {_number(rng.uniform(-0.4, 0.4))}\n"
            f"limits = {{ position = [-1.4, 1.4], velocity = 4, acceleration = 25 }}\n"
        )
        text += _motor_lines(rng, torque, 0.05 * torque / 10, terms)
        torque *= 0.55
        length *= rng.uniform(0.6, 0.95)
        parent = f"link{k + 1}"
    return text


def _triangle(a: float, b: float, c: float) -> float:
    """Return the angle between the sides a and b opposite c."""
    return float(np.arccos(np.clip((a * a + b * b - c * c) / (2 * a * b), -1, 1)))


def random_five_bar(rng: np.random.Generator) -> str:
    """Return the file of a planar five-bar with unequal legs."""
    base = rng.uniform(0.08, 0.2)
    text = HEADER.format(name="five_bar_random", gravity="[0, -9.81, 0]")
    height = rng.uniform(0.32, 0.42)
    text += (
        f'[platform]\nname = "tool"\ncoordinates = ["x", "y"]\n'
        f"start = {{ y = {_number(height)} }}\nm = {_number(rng.uniform(0.3, 1.5))}\n"
        "[platform.limits]\n"
        "x = { position = [-0.12, 0.12], velocity = 2, acceleration = 25 }\n"
        f"y = {{ position = [{_number(height - 0.08)}, {_number(height + 0.08)}], "
        "velocity = 2, acceleration = 25 }\n"
    )
    terms = _motor_terms(rng)
    for side, sign in (("left", -1), ("right", 1)):
        crank = rng.uniform(0.22, 0.3)
        rod = rng.uniform(0.3, 0.4)
        reach = np.hypot(base, height)
        inside = _triangle(crank, reach, rod)
        towards = np.arctan2(height, -sign * base)
        shoulder = towards - sign * inside
        elbow = sign * (np.pi - _triangle(crank, rod, reach))
        text += _body(rng, f"{side}_crank", crank) + _body(rng, f"{side}_rod", rod)
        text += (
            f'[[joint]]\nname = "{side}_motor"\ntype = "revolute"\nparent = "base"\n'
            f'child = "{side}_crank"\nxyz = [{_number(sign * base)}, 0, 0]\n'
            f"start = {_number(shoulder)}\n"
            f"limits = {{ position = [-2, 5], velocity = 15, acceleration = 300 }}\n"
        )
        text += _motor_lines(rng, 5.0, 0.02, terms)
        text += (
            f'[[joint]]\nname = "{side}_elbow"\ntype = "revolute"\nparent = "{side}_crank"\n'
            f'child = "{side}_rod"\nxyz = [{_number(crank)}, 0, 0]\nstart = {_number(elbow)}\n'
            f'[[closure]]\nname = "{side}_tip"\nkind = "point"\n'
            f'a = {{ body = "{side}_rod", xyz = [{_number(rod)}, 0, 0] }}\n'
            'b = { body = "tool" }\n'
        )
    return text


def random_planar(rng: np.random.Generator, prismatic: bool) -> str:
    """Return the file of a planar 3-PRR or 3-RRR whose legs differ."""
    name = "prr3_random" if prismatic else "rrr3_random"
    text = HEADER.format(name=name, gravity="[0, -9.81, 0]")
    text += (
        f'[platform]\ncoordinates = ["x", "y", "rz"]\nm = {_number(rng.uniform(0.8, 2.0))}\n'
        f"com = [0.01, {_number(rng.uniform(-0.02, 0.02))}, 0]\nIzz = 0.01\n"
        'Ixx = 0.006\nIyy = 0.006\nabout = "com"\n[platform.limits]\n'
        "x = { position = [-0.08, 0.08], velocity = 1.2, acceleration = 15 }\n"
        "y = { position = [-0.08, 0.08], velocity = 1.2, acceleration = 15 }\n"
        "rz = { position = [-0.35, 0.35], velocity = 6, acceleration = 60 }\n"
    )
    terms = _motor_terms(rng)
    for k, leg in enumerate("abc"):
        angle = np.pi / 2 + 2 * np.pi / 3 * k + rng.uniform(-0.15, 0.15)
        outwards = np.array([np.cos(angle), np.sin(angle)])
        tip = rng.uniform(0.09, 0.13) * outwards
        if prismatic:
            text += _slider_leg(rng, leg, angle, tip, terms)
        else:
            text += _crank_leg(rng, leg, angle, tip, terms)
    return text


def _crank_leg(rng: np.random.Generator, leg: str, angle: float, tip: Array, terms: str) -> str:
    crank = rng.uniform(0.2, 0.26)
    rod = rng.uniform(0.22, 0.28)
    motor = rng.uniform(0.38, 0.44) * np.array([np.cos(angle), np.sin(angle)])
    gap = tip - motor
    distance = float(np.hypot(*gap))
    shoulder = np.arctan2(gap[1], gap[0]) + _triangle(crank, distance, rod)
    knee = -(np.pi - _triangle(crank, rod, distance))
    text = _body(rng, f"{leg}_crank", crank) + _body(rng, f"{leg}_rod", rod)
    text += (
        f'[[joint]]\nname = "{leg}_motor"\ntype = "revolute"\nparent = "base"\n'
        f'child = "{leg}_crank"\nxyz = [{_number(motor[0])}, {_number(motor[1])}, 0]\n'
        f"start = {_number(shoulder)}\n"
        "limits = { velocity = 15, acceleration = 300 }\n"
    )
    text += _motor_lines(rng, 3.0, 0.02, terms)
    return text + (
        f'[[joint]]\nname = "{leg}_knee"\ntype = "revolute"\nparent = "{leg}_crank"\n'
        f'child = "{leg}_rod"\nxyz = [{_number(crank)}, 0, 0]\nstart = {_number(knee)}\n'
        f"{_tip(leg, rod, tip)}"
    )


def _slider_leg(rng: np.random.Generator, leg: str, angle: float, tip: Array, terms: str) -> str:
    rod = rng.uniform(0.28, 0.34)
    outwards = np.array([np.cos(angle), np.sin(angle)])
    along = np.array([-outwards[1], outwards[0]])
    rail = rng.uniform(0.24, 0.28)  # distance of the rail from the middle
    across = rail - float(tip @ outwards)
    slide = float(tip @ along) - np.sqrt(rod**2 - across**2)
    gap = tip - rail * outwards - slide * along
    turn = np.arctan2(gap[1], gap[0])
    text = _body(rng, f"{leg}_cart", 0.1) + _body(rng, f"{leg}_rod", rod)
    direction = f"[{_number(along[0])}, {_number(along[1])}, 0]"
    text += (
        f'[[joint]]\nname = "{leg}_slide"\ntype = "prismatic"\nparent = "base"\n'
        f'child = "{leg}_cart"\naxis = {direction}\n'
        f"xyz = [{_number(rail * outwards[0])}, {_number(rail * outwards[1])}, 0]\n"
        f"start = {_number(slide)}\nlimits = {{ velocity = 4, acceleration = 60 }}\n"
    )
    text += _motor_lines(rng, 20.0, 0.5, terms)
    return text + (
        f'[[joint]]\nname = "{leg}_pin"\ntype = "revolute"\nparent = "{leg}_cart"\n'
        f'child = "{leg}_rod"\nstart = {_number(turn)}\n{_tip(leg, rod, tip)}'
    )


def _tip(leg: str, rod: float, tip: Array) -> str:
    return (
        f'[[closure]]\nname = "{leg}_tip"\nkind = "revolute"\n'
        f'a = {{ body = "{leg}_rod", xyz = [{_number(rod)}, 0, 0] }}\n'
        f'b = {{ body = "platform", xyz = [{_number(tip[0])}, {_number(tip[1])}, 0] }}\n'
    )


RANDOM: Mapping[str, Callable[[np.random.Generator], str]] = {
    "random_serial3": lambda rng: random_serial(rng, 3),
    "random_serial4": lambda rng: random_serial(rng, 4),
    "random_five_bar": random_five_bar,
    "random_3rrr": lambda rng: random_planar(rng, prismatic=False),
    "random_3prr": lambda rng: random_planar(rng, prismatic=True),
}
ROBOTS = (
    "five_bar",
    "random_serial3",
    "delta",
    "random_five_bar",
    "orthoglide",
    "random_3rrr",
    "h4",
    "random_3prr",
    "serial6",
    "random_serial4",
)


def robot_file(name: str, seed: int) -> Mechanism:
    """Return a bundled robot, or the random linkage of a seed.

    Without limits of efforts: a true robot that is heavier than the file may exceed them, and
    the verdict rightly says so.
    """
    if name not in RANDOM:
        return without_effort_limits(load_robot(name))
    rng = np.random.default_rng([seed, *name.encode()])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{name}.toml"
        path.write_text(RANDOM[name](rng))
        return without_effort_limits(load_robot(path))


def without_effort_limits(mechanism: Mechanism) -> Mechanism:
    """Return a robot whose file gives no limits of efforts."""
    joints = []
    for joint in mechanism.joints:
        joints.append(replace(joint, limits=replace(joint.limits, effort=None)))
    return replace(mechanism, joints=tuple(joints))


@cache
def model_and_workspace(name: str, seed: int) -> tuple[Model, Workspace]:
    """Return a robot and where it may move, once for each process."""
    model = Model(robot_file(name, seed))
    return model, find_workspace(model)


# -- truth


def true_values(
    mechanism: Mechanism, rng: np.random.Generator, common: float, individual: float
) -> dict[str, float]:
    """Return values that differ from those of the file by log-normal errors.

    Args:
        common: Logarithm of the factor of all values.
        individual: Standard deviation of the logarithm of each factor.
    """
    table = mechanism.standard
    filed = dict(zip(table.names, np.nan_to_num(table.values).tolist()))
    values = {name: float(number) for name, number in filed.items()}
    for body in mechanism.bodies:
        true = _true_body(inertial_parameters(values, body.name), rng, individual)
        for name, number in zip(INERTIAL, true.tolist()):
            if f"{body.name}.{name}" in values:
                values[f"{body.name}.{name}"] = np.exp(common) * number
    for joint in mechanism.joints:
        for term in joint.terms:
            name = f"{joint.name}.{term}"
            factor = np.exp(common + individual * rng.standard_normal())
            values[name] = factor * values.get(name, 0.0)
    return values


def _true_body(filed: Array, rng: np.random.Generator, individual: float) -> Array:
    """Return other inertial parameters that are possible if those of the file are.

    Mass, position of the centre, and the three principal second moments about the centre
    have errors of their own.
    """
    factors = np.exp(individual * rng.standard_normal(5))
    mass = filed[0]
    if mass <= 0:
        return np.asarray(factors[0] * filed)
    centre = filed[1:4] / mass
    second = second_moments(filed)
    about_centre = second - mass * np.outer(centre, centre)
    powers, axes = np.linalg.eigh(about_centre)
    if powers.min() < -1e-9 * abs(powers).max():
        return np.asarray(factors[0] * filed)
    mass = factors[0] * mass
    centre = factors[1] * centre
    about_centre = factors[0] * (axes * (powers * factors[2:])) @ axes.T
    second = about_centre + mass * np.outer(centre, centre)
    inertia = np.trace(second) * np.eye(3) - second
    upper = inertia[[0, 0, 1, 0, 1, 2], [0, 1, 1, 2, 2, 2]]
    return np.concatenate([[mass], mass * centre, upper])


def second_moments(parameters: Array) -> Array:
    """Return the integral of r r^T dm about the origin of a body, (3, 3). [kg m2]"""
    xx, xy, yy, xz, yz, zz = parameters[4:]
    inertia = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
    return np.asarray(np.trace(inertia) / 2 * np.eye(3) - inertia)


def flange_mass(mechanism: Mechanism, values: Mapping[str, float]) -> float:
    """Return the mass of the body that carries a payload, or of the heaviest one above zero."""
    mass = values.get(f"{mechanism.flange}.m", 0.0)
    if mass > 0:
        return mass
    masses = [values.get(f"{body.name}.m", 0.0) for body in mechanism.bodies]
    return max(masses)


def without_terms(mechanism: Mechanism, joint: str, terms: tuple[str, ...]) -> Mechanism:
    """Return the robot without some terms of a joint."""
    joints = []
    for each in mechanism.joints:
        if each.name == joint:
            kept = tuple(term for term in each.terms if term not in terms)
            values = {term: each.values[term] for term in kept if term in each.values}
            each = replace(each, terms=kept, values=values)
        joints.append(each)
    return replace(mechanism, joints=tuple(joints))
