"""A robot as URDF, with its closures in a YAML file beside it.

URDF describes trees only. So the tree goes into the URDF and the
closures of its loops into a sidecar in the style of the "extended URDF"
of Gepetto's parallel robots: `closed_loop` pairs of frames, their
`type`, the motors as `name_mot`. The frames are massless links on fixed
joints, so that a reader finds them by name. What that style cannot
express (other kinds of closures, couplings, rotor inertias, drive
gains, a pose in which the loops close) has keys of its own.

The platform is connected to the base by its task coordinates: prismatic
and revolute joints without motor and friction, as in the robot file;
the closures move them.
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
from gough.engine.mujoco_model import xml_numbers
from gough.export.contents import (
    check_bodies,
    check_terms,
    physical_result,
    terms_by_keyword,
)
from gough.export.registry import (
    Export,
    identifier,
    register_export,
    xml_comment,
)
from gough.identification import Identification
from gough.mechanism.closures import CLOSURES
from gough.mechanism.placement import roll_pitch_yaw
from gough.mechanism.terms import TERMS, JointTerm
from gough.mechanism.types import BASE, Closure, Joint

# URDF demands numbers: written for an effort or a velocity without
# limit. [N, N m, m/s, rad/s]
URDF_UNLIMITED = 1e6
# Range on both sides of home of a joint without position limits. [rad,
# m]
_DEFAULT_RANGE = {"revolute": 2 * math.pi, "prismatic": 1e3}
# Loops that the extended URDF knows; its readers take any other for 6d.
_EXTENDED_URDF_TYPES = ("3d", "6d")


def supports_term(term: JointTerm) -> bool:
    """Check whether URDF, or the file beside it, can express a joint term."""
    return term.urdf is not None or term.sidecar is not None


def to_urdf(
    model: Model,
    bodies: Mapping[str, ArrayLike],
    terms: Mapping[str, float] | None = None,
    *,
    gains: Mapping[str, float] | None = None,
) -> tuple[str, str]:
    """Return the URDF of a robot's tree and the YAML of its closures.

    Names become identifiers (`leg1.slider` -> `leg1_slider`); a link
    that would share a joint's name ends in `_link`. Joint terms become
    the attributes of `JointTerm.urdf` and `JointTerm.sidecar`, for
    instance `damping`. A joint without position limits gets two turns
    (or a kilometre) about home, so that it stays one number in every
    reader.

    Args:
        model: The robot.
        bodies: Ten inertial parameters by body about the body's frame,
            physically consistent. Bodies without parameters are
            massless links without `inertial`.
        terms: Coefficients of joint terms by name; the robot file's by
            default.
        gains: Drive gains by motor, for the sidecar; left out by
            default.
    """
    masses = check_bodies(model, bodies)
    coefficients = check_terms(model, terms, "URDF", supports_term)
    for closure in model.mechanism.closures:
        if CLOSURES[closure.kind].urdf is None:
            raise InvalidInput(
                f"closure '{closure.name}' of kind {closure.kind} has no form beside a URDF",
                closure=closure.name,
            )
    tree = _Tree(model, masses, coefficients)
    return tree.xml(), tree.sidecar(gains or {})


class _Tree:
    """A robot being written; all identifiers differ."""

    def __init__(
        self,
        model: Model,
        masses: Mapping[str, FloatArray],
        terms: Mapping[str, float],
    ) -> None:
        mechanism = model.mechanism
        self.model = model
        self.terms = terms
        self._used: set[str] = set()
        # identifiers of joints and bodies by their names
        self.joint = {name: self._unique(name) for name in mechanism.coordinates}
        self.link = {BASE: self._unique(BASE)}
        for body in mechanism.bodies:
            self.link[body.name] = self._unique(body.name, "_link")
        self.root = Element("robot", name=identifier(mechanism.name))
        for name, link in self.link.items():
            element = SubElement(self.root, "link", name=link)
            if name in masses:
                _add_inertial(element, masses[name])
        for joint, home in zip(mechanism.joints, model.home.tolist()):
            self._add_joint(joint, home)
        # massless links at the frames of the closures
        self.frames = {closure.name: self._add_frames(closure) for closure in mechanism.closures}

    def _unique(self, name: str, suffix: str = "") -> str:
        """Return an unused identifier: the name, then with the suffix, then with a number."""
        plain = identifier(name)
        candidate = plain
        if candidate in self._used:
            candidate = plain + suffix
        number = 2
        while candidate in self._used:
            candidate = f"{plain}{suffix}_{number}"
            number += 1
        self._used.add(candidate)
        return candidate

    def _add_frames(self, closure: Closure) -> list[str]:
        """Add the frames of a closure as links on fixed joints and return their identifiers."""
        links = []
        for end, frame in zip("ab", closure.frames):
            link = self._unique(f"{closure.name}_{end}")
            SubElement(self.root, "link", name=link)
            joint = self._unique(f"{link}_fixed")
            self._add(
                joint,
                "fixed",
                self.link[frame.body],
                link,
                frame.placement.matrix,
            )
            links.append(link)
        return links

    def _add(self, name: str, kind: str, parent: str, child: str, pose: FloatArray) -> Element:
        """Add a joint whose frame has a pose (4, 4) in the parent's frame."""
        joint = SubElement(self.root, "joint", name=name, type=kind)
        translation = xml_numbers(pose[:3, 3])
        angles = xml_numbers(roll_pitch_yaw(pose[:3, :3]))
        SubElement(joint, "origin", xyz=translation, rpy=angles)
        SubElement(joint, "parent", link=parent)
        SubElement(joint, "child", link=child)
        return joint

    def _add_joint(self, joint: Joint, home: float) -> None:
        """Add a joint of the robot with its limits and friction."""
        element = self._add(
            self.joint[joint.name],
            joint.kind,
            self.link[joint.parent],
            self.link[joint.child],
            joint.placement.matrix,
        )
        SubElement(element, "axis", xyz=xml_numbers(joint.direction))
        default_range = _DEFAULT_RANGE[joint.kind]
        low, high = joint.limits.position or (
            home - default_range,
            home + default_range,
        )
        SubElement(
            element,
            "limit",
            lower=repr(low),
            upper=repr(high),
            effort=repr(joint.limits.effort or URDF_UNLIMITED),
            velocity=repr(joint.limits.velocity or URDF_UNLIMITED),
        )
        friction = terms_by_keyword(self.model, joint, self.terms, "urdf")
        if friction:
            attributes = {keyword: repr(number) for keyword, number in friction.items()}
            SubElement(element, "dynamics", attributes)

    def xml(self) -> str:
        """Return the URDF."""
        indent(self.root)
        name = xml_comment(self.model.mechanism.name)
        return (
            '<?xml version="1.0" encoding="utf-8"?>\n'
            f"<!-- The tree of '{name}'; its loops are closed by what the YAML file lists. -->\n"
            f"{tostring(self.root, encoding='unicode')}\n"
        )

    def sidecar(self, gains: Mapping[str, float]) -> str:
        """Return the YAML."""
        mechanism = self.model.mechanism
        joint = self.joint
        frames = []
        types = []
        for closure in mechanism.closures:
            kind = CLOSURES[closure.kind].urdf
            if kind in _EXTENDED_URDF_TYPES:
                frames.append(self.frames[closure.name])
                types.append(kind)
        home = dict(zip(joint.values(), self.model.home.tolist()))
        drive_gains = {joint[name]: float(gain) for name, gain in gains.items()}
        lines = [
            f"# What closes the loops of '{xml_comment(mechanism.name)}' and what URDF has no "
            "place for. SI units.",
            "# Frames (links of the URDF) that coincide: 3d in their origins, 6d altogether.",
            f"closed_loop: {_yaml(frames)}",
            f"type: {_yaml(types)}",
            f"name_mot: {_yaml([joint[name] for name in mechanism.actuated])}",
            "joint_name: []",
            "joint_type: []",
            *self._other_closures(),
            "# Coordinates of the platform: joints without a motor.",
            f"task: {_yaml([joint[name] for name in mechanism.task])}",
            "# A pose in which the loops are closed. [m, rad]",
            f"home: {_yaml(home)}",
            f"gravity: {_yaml([float(g) for g in mechanism.gravity])}",
            *self._other_terms(),
            "# Effort per unit of recorded current or voltage.",
            f"drive_gain: {_yaml(drive_gains)}",
        ]
        return "\n".join(lines) + "\n"

    def _other_closures(self) -> list[str]:
        """Return the lines of closures that the extended URDF does not know, by kind."""
        lines = []
        for kind in CLOSURES.values():
            if kind.urdf is None or kind.urdf in _EXTENDED_URDF_TYPES:
                continue
            entries = []
            for closure in self.model.mechanism.closures:
                if closure.kind == kind.name:
                    entries.append(self._closure_entry(closure))
            frames = "Frames: " if kind.frames else ""
            lines.append(f"# {frames}{kind.label}.")
            lines.append(f"{kind.urdf}: {_yaml(entries)}")
        return lines

    def _other_terms(self) -> list[str]:
        """Return the lines of joint terms that URDF cannot express, by keyword."""
        by_keyword: dict[str, dict[str, float]] = {}
        for term in TERMS.values():
            if term.sidecar is not None:
                by_keyword[term.sidecar] = {}
        for joint in self.model.mechanism.joints:
            terms = terms_by_keyword(self.model, joint, self.terms, "sidecar")
            for keyword, coefficient in terms.items():
                if keyword in by_keyword:
                    by_keyword[keyword][self.joint[joint.name]] = coefficient
        return [f"{keyword}: {_yaml(terms)}" for keyword, terms in by_keyword.items()]

    def _closure_entry(self, closure: Closure) -> object:
        """Return a closure for the sidecar: its pair of frames, with its numbers if it has any."""
        frames = self.frames[closure.name]
        numbers_by_key: dict[str, object] = dict(closure.values)
        if closure.coefficients:
            coefficients = {self.joint[j]: c for j, c in closure.coefficients.items()}
            numbers_by_key["coefficients"] = coefficients
            numbers_by_key["constant"] = closure.constant
        if not numbers_by_key:
            return frames
        if not frames:
            return numbers_by_key
        return {"frames": frames} | numbers_by_key


def _add_inertial(link: Element, parameters: FloatArray) -> None:
    """Add mass, centre of mass and inertia about it to a link."""
    mass, centre, inertia = about_centre(parameters)
    inertial = SubElement(link, "inertial")
    SubElement(inertial, "origin", xyz=xml_numbers(centre), rpy="0 0 0")
    SubElement(inertial, "mass", value=repr(mass))
    moments = {}
    for i, row in enumerate("xyz"):
        for j, column in enumerate("xyz"):
            if i <= j:
                moments[f"i{row}{column}"] = repr(float(inertia[i, j]))
    SubElement(inertial, "inertia", moments)


def _yaml(content: object) -> str:
    """Return lists and mappings in YAML's flow style, which is that of JSON.

    YAML 1.1 takes 1e-05 for a string, as it has no point: one is added.
    """
    return re.sub(r"(?<![\w.\"])(-?\d+)e", r"\1.0e", json.dumps(content))


def _write(model: Model, result: Identification, name: str) -> dict[str, str]:
    bodies, terms = physical_result(result, "URDF")
    urdf, yaml = to_urdf(model, bodies, terms, gains=result.gains)
    return {"urdf": urdf, "yaml": yaml}


register_export(
    Export(
        name="urdf",
        label="the physically consistent robot as URDF, its loops in YAML beside it, without "
        "payload",
        supports=supports_term,
        write=_write,
    )
)
