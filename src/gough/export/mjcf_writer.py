"""A result as MuJoCo XML: see `gough.engine.mujoco_model` for how a robot is written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple
from xml.etree.ElementTree import Comment, SubElement

import numpy as np
from numpy.typing import ArrayLike

from gough.core.arrays import FloatArray
from gough.core.errors import InvalidInput
from gough.core.names import index_of
from gough.engine import Model
from gough.engine.mujoco_model import (
    MujocoScene,
    bodies_of,
    slider_name,
    xml_numbers,
    xml_text,
)
from gough.export.contents import (
    check_bodies,
    check_terms,
    physical_result,
    standard_values,
    terms_by_keyword,
)
from gough.export.registry import Export, register_export, xml_comment
from gough.identification import Identification
from gough.mechanism.closures import CLOSURES
from gough.mechanism.terms import JointTerm
from gough.mechanism.types import BASE, Closure, Joint

# Mass that MuJoCo needs in a body, relative to the heaviest body.
_MIN_MASS_FRACTION = 1e-3
# Fraction of that mass for a massless body that holds nothing: the
# inertia of its joint suffices.
_ROTOR_MASS_FRACTION = 1e-9
# A weak spring, stretched this far, pulls with a constant force. [m or
# rad]
_SPRING_STRETCH = 1e6


def supports_term(term: JointTerm) -> bool:
    """Check whether MJCF can express a joint term."""
    return term.mjcf is not None


def to_mjcf(
    model: Model,
    bodies: Mapping[str, ArrayLike],
    terms: Mapping[str, float] | None = None,
    *,
    gains: Mapping[str, float] | None = None,
    timestep: float = 1e-3,
) -> str:
    """Return a robot as MuJoCo XML.

    Names are Gough's. Joint terms become the attributes of
    `JointTerm.mjcf`, for instance `damping`; an offset becomes a weak
    spring stretched very far (constant to 1e-6 per rad or m). Force
    elements are tendons, their offsets actuators without control after
    the motors. Motors come in the robot file's order; with drive gains,
    controls are the recorded currents or voltages. The keyframe `home`
    is in equilibrium: its controls carry the weight. Coordinates of the
    platform are joints without motor, friction or limits.

    A massless body that only links two joints is merged, exactly:
    MuJoCo gives a body several joints. To other bodies lighter than a
    thousandth of the heaviest that mass is added, with a radius of
    gyration of the robot's size and without weight: so light they would
    soften the constraints that hold them. A comment in the file names
    them. A massless body that holds nothing is a rotor: the inertia of
    its joint is all it needs.

    Args:
        model: The robot.
        bodies: Ten inertial parameters by body about the body's frame,
            physically consistent.
        terms: Coefficients of joint terms by name; the robot file's by
            default.
        gains: Drive gains by motor, for all or none.
        timestep: Time step of the simulation; the loops are as stiff as
            it allows. [s]
    """
    mechanism = model.mechanism
    masses = check_bodies(model, bodies)
    coefficients = check_terms(model, terms, "MJCF", supports_term)
    factors = _motor_gains(model, gains)
    scene = MujocoScene(model, bodies_of(model, masses), timestep=timestep)
    attributes = {}
    for joint in mechanism.joints:
        attributes[joint.name] = _joint_attributes(joint, model, coefficients)
    added = _added_inertias(scene, masses, attributes)
    if added.helped or added.sliders:
        names = ", ".join([*added.helped, *added.sliders])
        note = f" Added to bodies too light for MuJoCo: {added.inertia[0]:g} kg to {names} "
        scene.root.insert(0, Comment(xml_comment(note)))
    inertias = {}
    for link in scene.links:
        own_inertia = masses.get(link.body, np.zeros(10))
        inertias[link.body] = own_inertia + added.of(link.body)
    scene.add_links(inertias, attributes)
    _add_custom(scene, added)
    for name in added.helped:
        scene.bodies[name].set("gravcomp", repr(float(added.inertia[0] / inertias[name][0])))
    for closure in mechanism.closures:
        if closure.name not in mechanism.forces:
            scene.add_closure(closure, added.inertia)
    _draw(scene)
    _add_motors(scene, factors)
    n_constant_forces = 0
    for closure in mechanism.forces.values():
        n_constant_forces += _add_tendon(scene, closure, coefficients)
    holding = _holding_controls(model, standard_values(model, masses, coefficients), factors)
    _add_keyframe(scene, [*holding, *(0.0,) * n_constant_forces])
    return scene.xml()


class _AddedInertias(NamedTuple):
    """What is added to bodies that are too light for MuJoCo."""

    inertia: FloatArray  # inertial parameters added to a light body, (10,)
    helped: list[str]  # light bodies
    sliders: list[str]  # bodies that MuJoCo needs for closures
    # massless bodies that hold nothing, with inertia in their joint
    rotors: list[str]

    def of(self, body: str) -> FloatArray:
        """Return what is added to a body, (10,)."""
        if body in self.rotors:
            return _ROTOR_MASS_FRACTION * self.inertia
        if body in self.helped or body in self.sliders:
            return self.inertia
        return np.zeros(10)


def _added_inertias(
    scene: MujocoScene,
    masses: Mapping[str, FloatArray],
    attributes: Mapping[str, Mapping[str, str]],
) -> _AddedInertias:
    """Choose the bodies to which an inertia must be added."""
    mechanism = scene.model.mechanism
    heaviest = max((parameters[0] for parameters in masses.values()), default=1.0)
    moment = scene.model.loops.length**2
    unit_mass = np.array([1, 0, 0, 0, moment, 0, moment, 0, 0, moment])
    inertia = _MIN_MASS_FRACTION * heaviest * unit_mass
    holding = {link.parent for link in scene.links}
    sliders = []
    for closure in mechanism.closures:
        holding.update(frame.body for frame in closure.frames)
        if "slider" in (CLOSURES[closure.kind].mjcf or ()):
            sliders.append(slider_name(closure))
    rotors = []
    helped = []
    for link in scene.links:
        armature = float(attributes[link.joints[-1].name].get("armature", 0))
        if link.body not in masses and link.body not in holding and armature > 0:
            rotors.append(link.body)
        elif link.body not in masses or masses[link.body][0] < inertia[0]:
            helped.append(link.body)
    return _AddedInertias(inertia, helped, sliders, rotors)


def _add_custom(scene: MujocoScene, added: _AddedInertias) -> None:
    """Add what a reader must know to undo the added inertias."""
    custom = SubElement(scene.root, "custom")
    SubElement(
        custom,
        "text",
        name="gough",
        data="Joint terms are complete; numbers are inertias added to bodies.",
    )
    for name in (*added.helped, *added.sliders, *added.rotors):
        parameters = xml_numbers(added.of(name))
        SubElement(custom, "numeric", name=f"added {xml_text(name)}", data=parameters)


def _holding_controls(model: Model, values: FloatArray, gains: FloatArray) -> FloatArray:
    """Return the controls that carry the weight at home, (a,)."""
    home = model.home[None]
    at_rest = np.zeros((1, model.degrees_of_freedom))
    weight = model.bias(home, at_rest, values)
    return np.asarray(model.min_norm_motor_effort(home, weight)[0] / gains)


def _add_keyframe(scene: MujocoScene, controls: list[float]) -> None:
    """Add the keyframe `home`."""
    joints = scene.bodies[BASE].iter("joint")
    position = [float(joint.get("ref", "0")) for joint in joints]
    keyframe = SubElement(scene.root, "keyframe")
    SubElement(
        keyframe,
        "key",
        name="home",
        qpos=xml_numbers(position),
        ctrl=xml_numbers(controls),
    )


def _nonzero_terms(
    model: Model, joint: Joint, coefficients: Mapping[str, float]
) -> tuple[dict[str, float], float]:
    """Return a joint's terms by MJCF attribute, zeros left out, and its constant effort."""
    by_attribute = {}
    for attribute, number in terms_by_keyword(model, joint, coefficients, "mjcf").items():
        if number:
            by_attribute[attribute] = number
    constant = by_attribute.pop("springref", 0.0)
    return by_attribute, constant


def _add_tendon(scene: MujocoScene, closure: Closure, coefficients: Mapping[str, float]) -> bool:
    """Add a force element as a tendon; return whether it has a constant force.

    The constant force is an actuator without control.
    """
    joint = scene.model.mechanism.joint(closure.name)
    rest_length = -closure.constant
    terms, constant = _nonzero_terms(scene.model, joint, coefficients)
    attributes = {attribute: repr(number) for attribute, number in terms.items()}
    if "stiffness" in attributes:
        attributes["springlength"] = repr(rest_length)
    if joint.limits.position is not None:
        attributes["range"] = xml_numbers(rest_length + limit for limit in joint.limits.position)
    tendon = scene.add_rod(closure.name, closure.frames, attributes)
    if constant:
        SubElement(
            scene.actuator,
            "general",
            name=f"{tendon}.constant",
            tendon=tendon,
            gainprm="0",
            biastype="affine",
            biasprm=xml_numbers((-constant, 0.0, 0.0)),
        )
    return constant != 0.0


def _joint_attributes(
    joint: Joint, model: Model, coefficients: Mapping[str, float]
) -> dict[str, str]:
    """Return limits and joint terms as attributes of a joint."""
    terms, constant = _nonzero_terms(model, joint, coefficients)
    if constant or "stiffness" in terms:
        stiffness = terms.setdefault("stiffness", abs(constant) / _SPRING_STRETCH)
        terms["springref"] = -constant / stiffness
    attributes = {}
    if joint.limits.position is not None and not joint.virtual:
        attributes["range"] = xml_numbers(joint.limits.position)
    for attribute, number in terms.items():
        attributes[attribute] = repr(number)
    return attributes


def _motor_gains(model: Model, gains: Mapping[str, float] | None) -> FloatArray:
    """Return the drive gain of each motor; ones if none are given, (a,)."""
    motors = model.mechanism.actuated
    if not gains:
        return np.ones(len(motors))
    for name in gains:
        index_of(motors, name, "motor")
    missing = [name for name in motors if name not in gains]
    if missing:
        raise InvalidInput(
            f"drive gains of {', '.join(missing)} are missing; give those of all motors or none"
        )
    return np.array([float(gains[name]) for name in motors])


def _add_motors(scene: MujocoScene, gains: FloatArray) -> None:
    """Add a motor for each actuated joint; with drive gains, controls are currents."""
    mechanism = scene.model.mechanism
    for name, gain in zip(mechanism.actuated, gains.tolist()):
        limit = mechanism.joint(name).limits.effort
        kind = "motor" if gain == 1.0 else "general"
        motor = SubElement(scene.actuator, kind, name=xml_text(name))
        motor.set("tendon" if name in mechanism.forces else "joint", xml_text(name))
        if gain != 1.0:
            motor.set("gainprm", repr(gain))
        if limit is not None:
            motor.set("ctrlrange", xml_numbers((-limit / gain, limit / gain)))
            motor.set("forcerange", xml_numbers((-limit, limit)))


def _draw(scene: MujocoScene) -> None:
    """Draw each body as lines from its origin to its joints and closures; shapes only show."""
    length = scene.model.loops.length
    visual = SubElement(scene.root, "visual")
    SubElement(visual, "headlight", ambient="0.5 0.5 0.5")
    SubElement(
        scene.default,
        "geom",
        type="capsule",
        size=f"{0.03 * length:.3g}",
        contype="0",
        conaffinity="0",
        mass="0",
        rgba="0.6 0.7 0.9 1",
    )
    SubElement(
        scene.default,
        "site",
        size=f"{0.045 * length:.3g}",
        rgba="0.9 0.5 0.2 1",
    )
    for body, points in _line_ends(scene).items():
        ends = np.unique(np.round(np.reshape(points, (-1, 3)), 6), axis=0)
        for end in ends:
            if np.linalg.norm(end) > 1e-3:
                SubElement(
                    scene.bodies[body],
                    "geom",
                    fromto=xml_numbers((0.0, 0.0, 0.0, *end)),
                )


def _line_ends(scene: MujocoScene) -> dict[str, list[FloatArray]]:
    """Return the joints and closures of each body as points in its frame."""
    points: dict[str, list[FloatArray]] = {link.body: [] for link in scene.links}
    for link in scene.links:
        for joint in link.joints:
            if joint.virtual:
                continue
            centre = (scene.poses[joint.parent] @ joint.placement.matrix)[:, 3]
            for body in {link.body, link.parent} - {BASE}:
                in_body = np.linalg.inv(scene.poses[body]) @ centre
                points[body].append(in_body[:3])
    for closure in scene.model.mechanism.closures:
        for frame in closure.frames:
            if frame.body != BASE:
                points[frame.body].append(frame.placement.translation)
    return points


def _write(model: Model, result: Identification, name: str) -> dict[str, str]:
    bodies, terms = physical_result(result, "MJCF")
    return {"xml": to_mjcf(model, bodies, terms, gains=result.gains)}


register_export(
    Export(
        name="mjcf",
        label="the physically consistent robot as MuJoCo XML, without payload",
        supports=supports_term,
        write=_write,
    )
)
