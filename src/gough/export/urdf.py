"""A robot as URDF, with its closures in a YAML file beside it.

URDF describes trees only. So the tree goes into the URDF and what closes its loops into a sidecar
in the style of the "extended URDF" of Gepetto's parallel robots: `closed_loop` pairs of frames,
their `type`, the motors as `name_mot`. The frames are massless links on fixed joints, so that a
reader finds them by name. What that style has no word for (other kinds of closures, couplings,
rotor inertias, drive gains, a pose in which the loops close) has keys of its own.

The platform hangs on its task coordinates: prismatic and revolute joints from the base, as in the
robot file. They carry no motor and no friction; the closures move them.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from numpy.typing import ArrayLike

from gough.core.arrays import FloatArray
from gough.core.errors import InvalidInput
from gough.core.inertia import about_centre
from gough.engine import Model
from gough.export import formats
from gough.export.formats import check_bodies, check_terms, comment, worded
from gough.mechanism.closures import CLOSURES
from gough.mechanism.placement import roll_pitch_yaw
from gough.mechanism.terms import TERMS, JointTerm
from gough.mechanism.types import BASE, Closure, Joint
from gough.virtual.mujoco_model import numbers

# URDF demands numbers: written for an effort or a velocity without limit. [N, N m, m/s, rad/s]
UNLIMITED = 1e6
_WINDING = {
    "revolute": 2 * math.pi,
    "prismatic": 1e3,
}  # room about home of a joint without limits [rad, m]
_TYPES = ("3d", "6d")  # of loops that the extended URDF knows; its readers take any other for 6d


def has_words(term: JointTerm) -> bool:
    """Tell whether URDF, or the file beside it, has a word for a term."""
    return term.urdf is not None or term.sidecar is not None


def to_urdf(
    model: Model,
    bodies: Mapping[str, ArrayLike],
    terms: Mapping[str, float] | None = None,
    *,
    gains: Mapping[str, float] | None = None,
) -> tuple[str, str]:
    """Return the URDF of a robot's tree and the YAML of what closes its loops.

    Names become identifiers (`leg1.slider` -> `leg1_slider`); a link that would share a joint's
    name ends in `_link`. Joint terms become what `JointTerm.urdf` and `JointTerm.sidecar` say,
    `damping` for instance. A joint without position limits gets two turns (or a kilometre) about
    home, so that it stays one number in every reader.

    Args:
        bodies: Ten inertial parameters by body about the body's frame, physically consistent.
            Bodies without parameters are massless links without `inertial`.
        terms: Coefficients of joint terms by name; the robot file's by default.
        gains: Drive gains by motor, for the sidecar; left out by default.
    """
    masses, coefficients = check_bodies(model, bodies), check_terms(model, terms, "URDF", has_words)
    for closure in model.mechanism.closures:
        if CLOSURES[closure.kind].urdf is None:
            raise InvalidInput(
                f"closure '{closure.name}' of kind {closure.kind} has no form beside a URDF",
                closure=closure.name,
            )
    tree = _Tree(model, masses, coefficients)
    return tree.xml(), tree.sidecar(gains or {})


class _Tree:
    """A robot being written; `joint` and `link` give the identifiers of joints and bodies, each
    used once.
    """

    def __init__(
        self, model: Model, masses: Mapping[str, FloatArray], terms: Mapping[str, float]
    ) -> None:
        self.model, self.terms, mechanism = model, terms, model.mechanism
        self._used: set[str] = set()
        self.joint = {name: self._unique(name) for name in mechanism.coordinates}
        self.link = {BASE: self._unique(BASE)} | {
            b.name: self._unique(b.name, "_link") for b in mechanism.bodies
        }
        self.root = Element("robot", name=formats.identifier(mechanism.name))
        for body, link in self.link.items():
            element = SubElement(self.root, "link", name=link)
            if body in masses:
                _add_inertial(element, masses[body])
        for joint, home in zip(mechanism.joints, model.home.tolist()):
            self._add_joint(joint, home)
        self.frames: dict[str, list[str]] = {closure.name: [] for closure in mechanism.closures}
        for closure in mechanism.closures:  # frames are massless links
            for end, frame in zip("ab", closure.frames):
                link = self._unique(f"{closure.name}_{end}")
                SubElement(self.root, "link", name=link)
                self._add(
                    self._unique(f"{link}_fixed"),
                    "fixed",
                    self.link[frame.body],
                    link,
                    frame.placement.matrix,
                )
                self.frames[closure.name].append(link)

    def _unique(self, name: str, ending: str = "") -> str:
        """Return an unused identifier: the name, then with the ending, then with a number."""
        first = formats.identifier(name)
        candidates = [
            first,
            first + ending,
            *(f"{first}{ending}_{k}" for k in range(2, len(self._used) + 4)),
        ]
        result = next(candidate for candidate in candidates if candidate not in self._used)
        self._used.add(result)
        return result

    def _add(self, name: str, kind: str, parent: str, child: str, placed: FloatArray) -> Element:
        joint = SubElement(self.root, "joint", name=name, type=kind)
        SubElement(
            joint, "origin", xyz=numbers(placed[:3, 3]), rpy=numbers(roll_pitch_yaw(placed[:3, :3]))
        )
        SubElement(joint, "parent", link=parent)
        SubElement(joint, "child", link=child)
        return joint

    def _add_joint(self, joint: Joint, home: float) -> None:
        element = self._add(
            self.joint[joint.name],
            joint.kind,
            self.link[joint.parent],
            self.link[joint.child],
            joint.placement.matrix,
        )
        SubElement(element, "axis", xyz=numbers(joint.direction))
        limits, room = joint.limits, _WINDING[joint.kind]
        low, high = limits.position or (home - room, home + room)
        SubElement(
            element,
            "limit",
            lower=repr(low),
            upper=repr(high),
            effort=repr(limits.effort or UNLIMITED),
            velocity=repr(limits.velocity or UNLIMITED),
        )
        friction = {
            key: repr(value) for key, value in worded(self.model, joint, self.terms, "urdf").items()
        }
        if friction:
            SubElement(element, "dynamics", friction)

    def xml(self) -> str:
        """Return the URDF."""
        indent(self.root)
        name = comment(self.model.mechanism.name)
        note = f"<!-- The tree of '{name}'; its loops are closed by what the YAML file lists. -->\n"
        return (
            '<?xml version="1.0" encoding="utf-8"?>\n'
            + note
            + tostring(self.root, encoding="unicode")
            + "\n"
        )

    def sidecar(self, gains: Mapping[str, float]) -> str:
        """Return the YAML."""
        mechanism, joint = self.model.mechanism, self.joint
        held = [c for c in mechanism.closures if CLOSURES[c.kind].urdf in _TYPES]
        closures = []
        for kind in CLOSURES.values():
            if kind.urdf is not None and kind.urdf not in _TYPES:
                own = [
                    self._entry(closure)
                    for closure in mechanism.closures
                    if closure.kind == kind.name
                ]
                closures += [
                    f"# {'Frames: ' if kind.frames else ''}{kind.label}.",
                    f"{kind.urdf}: {_yaml(own)}",
                ]
        keys = dict.fromkeys(term.sidecar for term in TERMS.values() if term.sidecar is not None)
        terms = {
            joint[j.name]: worded(self.model, j, self.terms, "sidecar") for j in mechanism.joints
        }
        beside = {
            key: {name: found[key] for name, found in terms.items() if key in found} for key in keys
        }
        lines = [
            f"# What closes the loops of '{comment(mechanism.name)}' and what URDF has no place "
            f"for. SI units.",
            "# Frames (links of the URDF) that coincide: 3d in their origins, 6d altogether.",
            f"closed_loop: {_yaml([self.frames[closure.name] for closure in held])}",
            f"type: {_yaml([CLOSURES[closure.kind].urdf for closure in held])}",
            f"name_mot: {_yaml([joint[name] for name in mechanism.actuated])}",
            "joint_name: []",
            "joint_type: []",
            *closures,
            "# Coordinates of the platform: joints without a motor.",
            f"task: {_yaml([joint[name] for name in mechanism.task])}",
            "# A pose in which the loops are closed. [m, rad]",
            f"home: {_yaml(dict(zip(joint.values(), self.model.home.tolist())))}",
            f"gravity: {_yaml([float(g) for g in mechanism.gravity])}",
            *(f"{key}: {_yaml(values)}" for key, values in beside.items()),
            "# Effort per unit of recorded current or voltage.",
            f"drive_gain: {_yaml({joint[name]: float(gain) for name, gain in gains.items()})}",
        ]
        return "\n".join(lines) + "\n"

    def _entry(self, closure: Closure) -> object:
        """Return a closure as it stands in the sidecar: its pair of frames, with its numbers if it
        has any.
        """
        frames = self.frames[closure.name]
        beside: dict[str, object] = dict(closure.values)
        if closure.coefficients:
            beside |= {
                "coefficients": {self.joint[j]: c for j, c in closure.coefficients.items()},
                "constant": closure.constant,
            }
        return ({"frames": frames} if frames else {}) | beside if beside else frames


def _add_inertial(link: Element, parameters: FloatArray) -> None:
    mass, centre, inertia = about_centre(parameters)
    inertial = SubElement(link, "inertial")
    SubElement(inertial, "origin", xyz=numbers(centre), rpy="0 0 0")
    SubElement(inertial, "mass", value=repr(mass))
    entries = {
        f"i{'xyz'[i]}{'xyz'[j]}": repr(float(inertia[i, j])) for i in range(3) for j in range(i, 3)
    }
    SubElement(inertial, "inertia", entries)


def _yaml(value: object) -> str:
    """Return a value in YAML's flow style: JSON, but YAML 1.1 takes 1e-05 for a string without a
    point.
    """
    return re.sub(r"(?<![\w.\"])(-?\d+)e", r"\1.0e", json.dumps(value))


formats.register_export(
    formats.Export(
        name="urdf",
        label="the physically consistent robot as URDF, its loops in YAML beside it, without "
        "payload",
        words=has_words,
        write=lambda model, result, name: dict(
            zip(
                ("urdf", "yaml"),
                to_urdf(model, *formats.physical_result(result, "URDF"), gains=result.gains),
            )
        ),
    )
)
