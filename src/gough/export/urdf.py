"""A robot as URDF, with its closures in a YAML file beside it.

URDF describes trees only. So the tree goes into the URDF and what closes its loops into a sidecar in the style of the
"extended URDF" of Gepetto's parallel robots: `closed_loop` pairs of frames, their `type`, the motors as `name_mot`. The
frames are massless links on fixed joints, so that a reader finds them by name. What that style has no word for (other
kinds of closures, couplings, rotor inertias, drive gains, a pose in which the loops close) has keys of its own.

The platform hangs on its task coordinates: prismatic and revolute joints from the base, as in the robot file. They
carry no motor and no friction; the closures move them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Literal
from xml.etree import ElementTree

import numpy as np
from numpy.typing import ArrayLike

from gough.core.arrays import FloatArray
from gough.core.errors import InvalidInput
from gough.core.inertia import about_centre
from gough.engine import Model
from gough.export.formats import Export, identifier, register_export
from gough.export.rigid import check_bodies, check_terms, comment, drive_gains, physical_result
from gough.identification import Identification
from gough.mechanism.closures import CLOSURES
from gough.mechanism.terms import TERMS
from gough.mechanism.types import BASE, Closure, Joint
from gough.virtual.mjcf import numbers

UNLIMITED = 1e6  # URDF demands numbers: written for an effort or a velocity without limit. [N, N m, m/s, rad/s]
_WINDING = {"revolute": 2 * math.pi, "prismatic": 1e3}  # room about home of a joint without limits [rad, m]
_TYPES = ("3d", "6d")  # of loops that the extended URDF knows; its readers take any other for 6d


def to_urdf(model: Model, bodies: Mapping[str, ArrayLike], terms: Mapping[str, float] | None = None, *,
            gains: Mapping[str, float] | None = None) -> tuple[str, str]:
    """Return the URDF of a robot's tree and the YAML of what closes its loops.

    Names become identifiers (`leg1.slider` -> `leg1_slider`); a link that would share a joint's name ends in `_link`.
    Joint terms become what `JointTerm.urdf` and `JointTerm.sidecar` say, `damping` for instance. A joint without
    position limits gets two turns (or a kilometre) about home, so that it stays one number in every reader.

    Args:
        model: The robot.
        bodies: Ten inertial parameters by body about the body's frame, physically consistent. Bodies without parameters
            are massless links without `inertial`.
        terms: Coefficients of joint terms by name; the robot file's by default.
        gains: Drive gains by motor, for the sidecar; left out by default.

    Raises:
        InvalidInput: Parameters that no body can have, unknown names, a joint term or a closure without a word for it.
    """
    masses, mechanism = check_bodies(model, bodies), model.mechanism
    coefficients = check_terms(model, terms, "URDF", lambda term: term.urdf is not None or term.sidecar is not None)
    for closure in mechanism.closures:
        if CLOSURES[closure.kind].urdf is None:
            raise InvalidInput(f"closure '{closure.name}' of kind {closure.kind} has no form beside a URDF",
                               closure=closure.name)
    names = _Names(mechanism.coordinates)
    links = {BASE: names.unique(BASE)} | {body.name: names.unique(body.name, "_link") for body in mechanism.bodies}
    robot = ElementTree.Element("robot", name=identifier(mechanism.name))
    for body, link in links.items():
        element = ElementTree.SubElement(robot, "link", name=link)
        if body in masses:
            _add_inertial(element, masses[body])
    for joint, home in zip(mechanism.joints, model.home):
        _add_joint(robot, joint, float(home), names, links, model, coefficients)
    frames = {closure.name: _add_frames(robot, closure, names, links) for closure in mechanism.closures}
    ElementTree.indent(robot)
    note = f"<!-- The tree of '{comment(mechanism.name)}'; its loops are closed by what the YAML file lists. -->\n"
    text = '<?xml version="1.0" encoding="utf-8"?>\n' + note + ElementTree.tostring(robot, encoding="unicode") + "\n"
    return text, _sidecar(model, names, frames, coefficients, gains or {})


class _Names:
    """Identifiers, each used once; `joint` gives that of a joint."""

    def __init__(self, joints: Iterable[str]) -> None:
        self._used: set[str] = set()
        self.joint = {name: self.unique(name) for name in joints}

    def unique(self, name: str, ending: str = "") -> str:
        """Return an unused identifier: the name, then with the ending, then with a number."""
        first = identifier(name)
        candidates = [first, first + ending, *(f"{first}{ending}_{k}" for k in range(2, len(self._used) + 4))]
        result = next(candidate for candidate in candidates if candidate not in self._used)
        self._used.add(result)
        return result


def _add_inertial(link: ElementTree.Element, parameters: FloatArray) -> None:
    mass, centre, inertia = about_centre(parameters)
    inertial = ElementTree.SubElement(link, "inertial")
    ElementTree.SubElement(inertial, "origin", xyz=numbers(centre), rpy="0 0 0")
    ElementTree.SubElement(inertial, "mass", value=repr(mass))
    entries = {f"i{'xyz'[i]}{'xyz'[j]}": repr(float(inertia[i, j])) for i in range(3) for j in range(i, 3)}
    ElementTree.SubElement(inertial, "inertia", entries)


def _terms(joint: Joint, model: Model, terms: Mapping[str, float], form: Literal["urdf", "sidecar"],
           ) -> dict[str, float]:
    """Return the coefficients of a joint's terms by what they are called in URDF, or beside it."""
    found: dict[str, float] = {}
    for name in joint.terms:
        key = getattr(model.mechanism.terms[name], form)
        if key is not None:
            found[key] = found.get(key, 0.0) + terms[f"{joint.name}.{name}"]
    return found


def _add_joint(robot: ElementTree.Element, joint: Joint, home: float, names: _Names, links: Mapping[str, str],
               model: Model, terms: Mapping[str, float]) -> None:
    element = ElementTree.SubElement(robot, "joint", name=names.joint[joint.name], type=joint.kind)
    _add_ends(element, links[joint.parent], links[joint.child], joint.placement.matrix)
    ElementTree.SubElement(element, "axis", xyz=numbers(float(joint.axis == axis) for axis in "xyz"))
    room = _WINDING[joint.kind]
    low, high = joint.limits.position or (home - room, home + room)
    unlimited = {name: UNLIMITED if value is None else value
                 for name, value in (("effort", joint.limits.effort), ("velocity", joint.limits.velocity))}
    ElementTree.SubElement(element, "limit", {"lower": repr(low), "upper": repr(high)}
                           | {name: repr(value) for name, value in unlimited.items()})
    friction = {key: repr(value) for key, value in _terms(joint, model, terms, "urdf").items()}
    if friction:
        ElementTree.SubElement(element, "dynamics", friction)


def _add_ends(joint: ElementTree.Element, parent: str, child: str, placed: FloatArray) -> None:
    ElementTree.SubElement(joint, "origin", xyz=numbers(placed[:3, 3]), rpy=numbers(roll_pitch_yaw(placed[:3, :3])))
    ElementTree.SubElement(joint, "parent", link=parent)
    ElementTree.SubElement(joint, "child", link=child)


def roll_pitch_yaw(rotation: FloatArray) -> tuple[float, float, float]:
    """Return the angles of R = Rz(yaw) Ry(pitch) Rx(roll). [rad]

    Roll follows from Rz^T R with the yaw found, so that R is met to round-off also where the pitch is a right angle and
    yaw and roll are not unique.
    """
    R = rotation
    pitch = math.atan2(-R[2, 0], math.hypot(R[0, 0], R[1, 0]))
    yaw = math.atan2(R[1, 0], R[0, 0])
    c, s = math.cos(yaw), math.sin(yaw)
    return math.atan2(s * R[0, 2] - c * R[1, 2], c * R[1, 1] - s * R[0, 1]), pitch, yaw


def _add_frames(robot: ElementTree.Element, closure: Closure, names: _Names,
                links: Mapping[str, str]) -> tuple[str, ...]:
    """Add the two frames of a closure as massless links and return their names."""
    found = []
    for end, frame in zip("ab", closure.frames):
        link = names.unique(f"{closure.name}_{end}")
        ElementTree.SubElement(robot, "link", name=link)
        joint = ElementTree.SubElement(robot, "joint", name=names.unique(f"{link}_fixed"), type="fixed")
        _add_ends(joint, links[frame.body], link, frame.placement.matrix)
        found.append(link)
    return tuple(found)


def _sidecar(model: Model, names: _Names, frames: Mapping[str, tuple[str, ...]], terms: Mapping[str, float],
             gains: Mapping[str, float]) -> str:
    mechanism = model.mechanism
    kinds = {closure.name: str(CLOSURES[closure.kind].urdf) for closure in mechanism.closures}
    held = [closure for closure in mechanism.closures if kinds[closure.name] in _TYPES]
    closures = []
    for kind in CLOSURES.values():
        if kind.urdf is not None and kind.urdf not in _TYPES:
            own = [_entry(c, frames[c.name], names) for c in mechanism.closures if c.kind == kind.name]
            closures += [f"# {'Frames: ' if kind.frames else ''}{kind.label}.", f"{kind.urdf}: {_yaml(own)}"]
    keys = dict.fromkeys(term.sidecar for term in TERMS.values() if term.sidecar is not None)
    own_terms = {joint.name: _terms(joint, model, terms, "sidecar") for joint in mechanism.joints}
    beside = {key: {names.joint[j]: found[key] for j, found in own_terms.items() if key in found} for key in keys}
    lines = [
        f"# What closes the loops of '{comment(mechanism.name)}' and what URDF has no place for. SI units.",
        "# Frames (links of the URDF) that coincide: 3d in their origins, 6d altogether.",
        f"closed_loop: {_yaml([list(frames[closure.name]) for closure in held])}",
        f"type: {_yaml([kinds[closure.name] for closure in held])}",
        f"name_mot: {_yaml([names.joint[name] for name in mechanism.actuated])}",
        "joint_name: []",
        "joint_type: []",
        *closures,
        "# Coordinates of the platform: joints without a motor.",
        f"task: {_yaml([names.joint[name] for name in mechanism.task])}",
        "# A pose in which the loops are closed. [m, rad]",
        "home: " + _yaml({names.joint[n]: float(v) for n, v in zip(mechanism.coordinates, model.home)}),
        f"gravity: {_yaml(list(mechanism.gravity))}",
        *(f"{key}: {_yaml(values)}" for key, values in beside.items()),
        "# Effort per unit of recorded current or voltage.",
        f"drive_gain: {_yaml({names.joint[name]: float(gain) for name, gain in gains.items()})}",
    ]
    return "\n".join(lines) + "\n"


def _entry(closure: Closure, frames: tuple[str, ...], names: _Names) -> object:
    """Return a closure as it stands in the sidecar: its pair of frames, with its numbers if it has any."""
    if not frames:
        return {"coefficients": {names.joint[j]: c for j, c in closure.coefficients.items()},
                "constant": closure.constant}
    return {"frames": list(frames), **closure.values} if closure.values else list(frames)


def _yaml(value: object) -> str:
    """Return a value in YAML's flow style. Strings are identifiers here and are quoted all the same."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_yaml(key)}: {_yaml(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_yaml(item) for item in value) + "]"
    if isinstance(value, str):
        return f"'{value}'"
    if isinstance(value, float | int | np.floating):
        text = repr(float(value))  # YAML 1.1 takes 1e-05 for a string: it wants a point in the mantissa
        return text if "." in text or "e" not in text else text.replace("e", ".0e")
    return "null"


def _write(model: Model, result: Identification, name: str) -> dict[str, str]:
    tree, closures = to_urdf(model, *physical_result(result, "URDF"), gains=drive_gains(result))
    return {"urdf": tree, "yaml": closures}


register_export(Export(
    name="urdf", label="the physically consistent robot as URDF, its loops in YAML beside it, without payload",
    write=_write))
