"""A robot as MuJoCo XML: the tree with joints, inertias, friction and motors; the loops as equality constraints.

MuJoCo takes the pose in which a model is written as its reference (`qpos0`), and holds tendons at the length they have
there. So the robot is written at home, with its loops closed, and each joint's `ref` is its coordinate at home:
MuJoCo's coordinates are Gough's. `point` and `weld` closures hold sites together, which needs no reference.

MuJoCo's constraints are soft: they give way by about one part in ten thousand of what they carry (`SOLIMP`) and pull
back within two time steps. Tendons ignore the centripetal acceleration at first (MuJoCo knows it for `connect` and
`weld`, since 3.7) and pull it back likewise.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from xml.etree import ElementTree

import numpy as np
from numpy.typing import ArrayLike

from gough.core.arrays import FloatArray
from gough.core.errors import InvalidInput, nearest
from gough.engine import Model
from gough.export.rigid import (
    about_centre,
    check_bodies,
    check_terms,
    comment,
    home_poses,
    matrix,
    numbers,
    standard_values,
)
from gough.mechanism.types import BASE, Closure, Frame, Joint

SOLIMP = "0.9999 0.9999 0.001 0.5 2"  # impedance of loops and dry friction: the largest MuJoCo takes
_LIGHT = 1e-3  # mass that a body must have for MuJoCo, relative to the heaviest body
_ARM = 0.1  # between the two points that hold an axis [m]
_FLAT = 1e-12  # MuJoCo wants some thickness: added to the inertia of bodies without [kg m2]
_FAR = 1e6  # a weak spring, stretched this far, pulls with a constant force [m or rad]

_Element = ElementTree.Element


@dataclass(frozen=True)
class _Link:
    """A body and the joints before it: its own, and those of massless bodies on the way, base first."""

    body: str
    parent: str
    joints: tuple[Joint, ...]


def to_mjcf(model: Model, bodies: Mapping[str, ArrayLike], terms: Mapping[str, float] | None = None, *,
            gains: Mapping[str, float] | None = None, timestep: float = 1e-3) -> str:
    """Return a robot as MuJoCo XML.

    Names are Gough's. Joint terms become `damping` (fv), `frictionloss` (fs), `armature` (ia), `stiffness` (k); an
    offset becomes a weak spring stretched very far (constant to 1e-6 per rad or m). Motors come in the robot file's
    order; with drive gains, controls are the recorded currents or voltages. The keyframe `home` holds still: its
    controls carry the weight. Coordinates of the platform are joints without motor, friction or limits.

    A massless body that only links two joints vanishes, exactly: MuJoCo gives a body several joints. To other bodies
    lighter than a thousandth of the heaviest that mass is added, with a radius of gyration of the robot's size and
    without weight: so light they would soften the constraints that hold them. A comment in the file names them.

    Args:
        model: The robot.
        bodies: Ten inertial parameters by body about the body's frame, physically consistent.
        terms: Coefficients of joint terms by name; the robot file's by default.
        gains: Drive gains by motor, for all or none.
        timestep: Of the simulation; the loops are as stiff as it allows. [s]

    Raises:
        InvalidInput: Parameters that no body can have, unknown names, gains of some motors only.
    """
    masses, coefficients = check_bodies(model, bodies), check_terms(model, terms)
    mechanism = model.mechanism
    factors = _gains(model, gains)
    links, poses, size = _links(model, masses), home_poses(model), model.loops.length
    heaviest = max((parameters[0] for parameters in masses.values()), default=1.0)
    light = _LIGHT * heaviest * np.array([1, 0, 0, 0, size**2, 0, size**2, 0, 0, size**2])
    helped = [link.body for link in links if link.body not in masses or masses[link.body][0] < light[0]]
    sliders = [f"{closure.name}.slider" for closure in mechanism.closures if closure.kind == "parallel"]

    root = ElementTree.Element("mujoco", model=_text(mechanism.name))
    if helped or sliders:
        names = ", ".join(helped + sliders)
        root.append(ElementTree.Comment(comment(f" Added to bodies too light for MuJoCo: {light[0]:g} kg to {names} ")))
    _add_settings(root, mechanism.gravity, timestep, size)
    elements = {BASE: ElementTree.SubElement(root, "worldbody")}
    home = dict(zip(mechanism.coordinates, model.home.tolist()))
    for link in links:
        elements[link.body] = _add_link(elements[link.parent], link, poses, home, coefficients)
        own = masses.get(link.body, np.zeros(10))
        extra = light if link.body in helped else np.zeros(10)
        _add_inertial(elements[link.body], own + extra)
        if link.body in helped:
            elements[link.body].set("gravcomp", repr(float(extra[0] / (own + extra)[0])))
    tendon, equality = ElementTree.Element("tendon"), ElementTree.Element("equality")
    for closure in mechanism.closures:
        _add_closure(closure, elements, poses, light, tendon, equality)
    _draw(links, mechanism.closures, elements, poses)
    root.extend(part for part in (tendon, equality) if len(part))
    _add_motors(root, model, factors)

    rest = np.zeros((1, model.degrees_of_freedom))
    weight = model.bias(model.home[None], rest, standard_values(model, masses, coefficients))
    effort = model.distribute(model.home[None], weight)[0]
    position = [float(joint.get("ref", "0")) for joint in elements[BASE].iter("joint")]
    keyframe = ElementTree.SubElement(root, "keyframe")
    ElementTree.SubElement(keyframe, "key", name="home", qpos=numbers(position), ctrl=numbers(effort / factors))
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode") + "\n"


def _add_settings(root: _Element, gravity: tuple[float, float, float], timestep: float, size: float) -> None:
    """Add the solver's options and the defaults: stiff loops and dry friction, shapes that only show."""
    ElementTree.SubElement(root, "compiler", angle="radian")
    ElementTree.SubElement(root, "option", timestep=repr(timestep), gravity=numbers(gravity),
                           integrator="implicitfast", tolerance="1e-12", iterations="200")
    visual = ElementTree.SubElement(root, "visual")
    ElementTree.SubElement(visual, "headlight", ambient="0.5 0.5 0.5")
    default = ElementTree.SubElement(root, "default")
    stiff = f"{2 * timestep!r} 1"
    ElementTree.SubElement(default, "joint", solreffriction=stiff, solimpfriction=SOLIMP)
    ElementTree.SubElement(default, "equality", solref=stiff, solimp=SOLIMP)
    ElementTree.SubElement(default, "geom", type="capsule", size=f"{0.03 * size:.3g}", contype="0", conaffinity="0",
                           mass="0", rgba="0.6 0.7 0.9 1")
    ElementTree.SubElement(default, "site", size=f"{0.045 * size:.3g}", rgba="0.9 0.5 0.2 1")


def _text(name: str) -> str:
    """Keep what XML cannot hold out of a name."""
    return re.sub(r"[^\x20-\ud7ff\ue000-\ufffd]", "_", name)


def _gains(model: Model, gains: Mapping[str, float] | None) -> FloatArray:
    """Return a drive gain for each motor, one without, (a,)."""
    motors = model.mechanism.actuated
    for name in gains or {}:
        if name not in motors:
            raise InvalidInput(f"drive gain for '{name}', which is no motor{nearest(name, motors)}", joint=name)
    if gains and len(gains) < len(motors):
        missing = ", ".join(name for name in motors if name not in gains)
        raise InvalidInput(f"drive gains of {missing} are missing; give those of all motors or none")
    return np.array([float(gains[name]) if gains else 1.0 for name in motors])


def _links(model: Model, masses: Mapping[str, FloatArray]) -> list[_Link]:
    """Return the bodies MuJoCo must have: those with mass, and massless ones that end, branch or close a chain."""
    mechanism = model.mechanism
    used = {frame.body for closure in mechanism.closures for frame in (closure.a, closure.b) if frame is not None}
    waiting: dict[str, tuple[str, tuple[Joint, ...]]] = {}  # by massless body: where its chain starts, and the joints
    links = []
    for joint in mechanism.joints:
        parent, before = waiting.get(joint.parent, (joint.parent, ()))
        joints = (*before, joint)
        carried = sum(other.parent == joint.child for other in mechanism.joints)
        if joint.child in masses or joint.child in used or carried != 1:
            links.append(_Link(joint.child, parent, joints))
        else:
            waiting[joint.child] = (parent, joints)
    return links


def _add_link(parent: _Element, link: _Link, poses: Mapping[str, FloatArray], home: Mapping[str, float],
              terms: Mapping[str, float]) -> _Element:
    """Add a body with its joints, as it stands at home."""
    back = np.linalg.inv(poses[link.body])
    element = ElementTree.SubElement(parent, "body", name=_text(link.body))
    _place(element, np.linalg.inv(poses[link.parent]) @ poses[link.body])
    for joint in link.joints:
        frame = back @ poses[joint.parent] @ matrix(joint.placement)
        hinge = joint.kind == "revolute"
        attributes = {"name": _text(joint.name), "type": "hinge" if hinge else "slide",
                      "axis": numbers(frame[:3, "xyz".index(joint.axis)]), "ref": repr(home[joint.name])}
        if hinge:
            attributes["pos"] = numbers(frame[:3, 3])
        if joint.limits.position is not None and not joint.virtual:
            attributes["range"] = numbers(joint.limits.position)
        own = {term: terms.get(f"{joint.name}.{term}", 0.0) for term in ("ia", "fv", "fs", "k", "off")}
        for term, key in (("ia", "armature"), ("fv", "damping"), ("fs", "frictionloss")):
            if own[term]:
                attributes[key] = repr(own[term])
        if own["k"] or own["off"]:
            stiffness = own["k"] or abs(own["off"]) / _FAR
            attributes |= {"stiffness": repr(stiffness), "springref": repr(-own["off"] / stiffness)}
        ElementTree.SubElement(element, "joint", attributes)
    return element


def _add_inertial(body: _Element, parameters: FloatArray) -> None:
    mass, centre, inertia = about_centre(parameters)
    flat = float(np.linalg.eigvalsh(0.5 * np.trace(inertia) * np.eye(3) - inertia)[0])
    inertia = inertia + max(0.0, _FLAT - 2 * flat) * np.eye(3)
    places = ((0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 2))
    ElementTree.SubElement(body, "inertial", pos=numbers(centre), mass=repr(mass),
                           fullinertia=" ".join(repr(float(inertia[i, j])) for i, j in places))


def _place(element: _Element, pose: FloatArray) -> None:
    element.set("pos", numbers(pose[:3, 3]))
    if not np.array_equal(pose[:3, :3], np.eye(3)):
        element.set("xyaxes", numbers(pose[:3, :2].T.ravel()))


def _add_site(elements: Mapping[str, _Element], frame: Frame, name: str, along: float = 0.0) -> str:
    """Add a site at a frame, or some way along its z axis, and return its name."""
    offset = np.eye(4)
    offset[2, 3] = along
    site = ElementTree.SubElement(elements[frame.body], "site", name=_text(name))
    _place(site, matrix(frame.placement) @ offset)
    return _text(name)


def _add_closure(closure: Closure, elements: dict[str, _Element], poses: Mapping[str, FloatArray], light: FloatArray,
                 tendon: _Element, equality: _Element) -> None:
    """Add what closes a loop.

    point: `connect`; weld: `weld`; revolute: two `connect`s along the axis (one of their six equations repeats);
    parallel: the same on a light body that slides in three directions on the first; distance: a `spatial` tendon of
    constant length; coupling: a `fixed` tendon, the weighted sum of coordinates, of constant length.
    """
    name = _text(closure.name)
    if closure.kind == "coupling":
        fixed = ElementTree.SubElement(tendon, "fixed", name=name)
        for joint, coefficient in closure.coefficients.items():
            ElementTree.SubElement(fixed, "joint", joint=_text(joint), coef=repr(float(coefficient)))
        ElementTree.SubElement(equality, "tendon", name=name, tendon1=name)
        return
    a, b = closure.a, closure.b
    assert a is not None
    assert b is not None
    if closure.kind == "parallel":
        a = _add_slider(closure.name, a, b, elements, poses, light)
    ends = [_add_site(elements, frame, f"{closure.name}.{end}") for end, frame in (("a", a), ("b", b))]
    if closure.kind == "distance":
        rod = ElementTree.SubElement(tendon, "spatial", name=name, width="0.005")
        for end in ends:
            ElementTree.SubElement(rod, "site", site=end)
        ElementTree.SubElement(equality, "tendon", name=name, tendon1=name)
        return
    kind = "weld" if closure.kind == "weld" else "connect"
    ElementTree.SubElement(equality, kind, name=name, site1=ends[0], site2=ends[1])
    if closure.kind in ("revolute", "parallel"):
        axes = [(poses[frame.body] @ matrix(frame.placement))[:3, 2] for frame in (closure.a, closure.b) if frame]
        side = float(np.sign(axes[0] @ axes[1]))  # parallel also means opposite: as at home
        ends = [_add_site(elements, a, f"{closure.name}.a.z", _ARM),
                _add_site(elements, b, f"{closure.name}.b.z", side * _ARM)]
        ElementTree.SubElement(equality, "connect", name=f"{name}.z", site1=ends[0], site2=ends[1])


def _add_slider(name: str, a: Frame, b: Frame, elements: dict[str, _Element], poses: Mapping[str, FloatArray],
                parameters: FloatArray) -> Frame:
    """Add a light body with the orientation of frame a, free to follow the origin of b, and return its frame."""
    body = f"{name}.slider"
    placed = matrix(a.placement)
    placed[:3, 3] = (np.linalg.inv(poses[a.body]) @ poses[b.body] @ matrix(b.placement))[:3, 3]
    elements[body] = ElementTree.SubElement(elements[a.body], "body", name=_text(body), gravcomp="1")
    _place(elements[body], placed)
    _add_inertial(elements[body], parameters)
    for axis, direction in zip("xyz", np.eye(3)):
        ElementTree.SubElement(elements[body], "joint", name=_text(f"{body}.{axis}"), type="slide",
                               axis=numbers(direction))
    return Frame(body=body)


def _add_motors(root: _Element, model: Model, gains: FloatArray) -> None:
    """Add a motor for each actuated joint; controls are efforts, or currents if there are drive gains."""
    actuator = ElementTree.SubElement(root, "actuator")
    for name, gain in zip(model.mechanism.actuated, gains.tolist()):
        limit = model.mechanism.joint(name).limits.effort
        kind = "motor" if gain == 1.0 else "general"
        motor = ElementTree.SubElement(actuator, kind, name=_text(name), joint=_text(name))
        if gain != 1.0:
            motor.set("gainprm", repr(gain))
        if limit is not None:
            motor.set("ctrlrange", numbers((-limit / gain, limit / gain)))
            motor.set("forcerange", numbers((-limit, limit)))


def _draw(links: list[_Link], closures: tuple[Closure, ...], elements: Mapping[str, _Element],
          poses: Mapping[str, FloatArray]) -> None:
    """Draw each body as lines from its origin to its joints and closures, so that a viewer shows something."""
    points: dict[str, list[FloatArray]] = {link.body: [] for link in links}
    for link in links:
        for joint in link.joints:
            if not joint.virtual:
                centre = (poses[joint.parent] @ matrix(joint.placement))[:, 3]
                for body in {link.body, link.parent} - {BASE}:
                    points[body].append((np.linalg.inv(poses[body]) @ centre)[:3])
    for closure in closures:
        for frame in (closure.a, closure.b):
            if frame is not None and frame.body != BASE:
                points[frame.body].append(matrix(frame.placement)[:3, 3])
    for body, ends in points.items():
        for end in np.unique(np.round(np.reshape(ends, (-1, 3)), 6), axis=0):
            if np.linalg.norm(end) > 1e-3:
                ElementTree.SubElement(elements[body], "geom", fromto=numbers((0.0, 0.0, 0.0, *end)))
