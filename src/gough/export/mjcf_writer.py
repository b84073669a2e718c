"""A result as MuJoCo XML: see `gough.virtual.mujoco_model` for how a robot is written."""

from __future__ import annotations

from collections.abc import Mapping
from xml.etree.ElementTree import Comment, SubElement

import numpy as np
from numpy.typing import ArrayLike

from gough.core.arrays import FloatArray
from gough.core.errors import InvalidInput
from gough.core.names import index_of
from gough.engine import Model
from gough.export import formats
from gough.export.formats import check_bodies, check_terms, comment, worded
from gough.mechanism.closures import CLOSURES
from gough.mechanism.terms import JointTerm
from gough.mechanism.types import BASE, Closure, Joint
from gough.virtual.mujoco_model import Scene, links_of, numbers, slider, text

# of that, for a massless body that holds nothing: the inertia of its joint is enough for MuJoCo
_ROTOR = 1e-9
_LIGHT = 1e-3  # mass that a body must have for MuJoCo, relative to the heaviest body
_FAR = 1e6  # a weak spring, stretched this far, pulls with a constant force [m or rad]


def has_words(term: JointTerm) -> bool:
    """Tell whether MJCF has a word for a term."""
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

    Names are Gough's. Joint terms become the attributes that `JointTerm.mjcf` says, `damping` for
    instance; an offset becomes a weak spring stretched very far (constant to 1e-6 per rad or m).
    Force elements are tendons, their offsets actuators without control after the motors. Motors
    come in the robot file's order; with drive gains, controls are the recorded currents or
    voltages. The keyframe `home` holds still: its controls carry the weight. Coordinates of the
    platform are joints without motor, friction or limits.

    A massless body that only links two joints vanishes, exactly: MuJoCo gives a body several
    joints. To other bodies lighter than a thousandth of the heaviest that mass is added, with a
    radius of gyration of the robot's size and without weight: so light they would soften the
    constraints that hold them. A comment in the file names them. A massless body that holds nothing
    is a rotor: the inertia of its joint is all it needs.

    Args:
        bodies: Ten inertial parameters by body about the body's frame, physically consistent.
        terms: Coefficients of joint terms by name; the robot file's by default.
        gains: Drive gains by motor, for all or none.
        timestep: Of the simulation; the loops are as stiff as it allows. [s]
    """
    mechanism, size = model.mechanism, model.loops.length
    masses, coefficients = check_bodies(model, bodies), check_terms(model, terms, "MJCF", has_words)
    factors = _gains(model, gains)
    scene = Scene(model, links_of(model, masses), timestep=timestep)
    heaviest = max((parameters[0] for parameters in masses.values()), default=1.0)
    light = _LIGHT * heaviest * np.array([1, 0, 0, 0, size**2, 0, size**2, 0, 0, size**2])
    own = {link.body: masses.get(link.body, np.zeros(10)) for link in scene.links}
    given = {joint.name: _attributes(joint, model, coefficients) for joint in mechanism.joints}
    holds = {link.parent for link in scene.links} | {
        f.body for c in mechanism.closures for f in c.frames
    }
    rotors = [
        link.body
        for link in scene.links
        if not own[link.body].any()
        and link.body not in holds
        and float(given[link.joints[-1].name].get("armature", 0)) > 0
    ]
    own |= {name: _ROTOR * light for name in rotors}
    helped = [
        name for name, parameters in own.items() if parameters[0] < light[0] and name not in rotors
    ]
    sliders = [slider(c) for c in mechanism.closures if "slider" in (CLOSURES[c.kind].mjcf or ())]
    if helped or sliders:
        names = ", ".join(helped + sliders)
        scene.root.insert(
            0,
            Comment(comment(f" Added to bodies too light for MuJoCo: {light[0]:g} kg to {names} ")),
        )
    scene.add_links(
        {name: parameters + (light if name in helped else 0.0) for name, parameters in own.items()},
        given,
    )
    custom = SubElement(scene.root, "custom")  # what a reader must know to undo it
    SubElement(
        custom,
        "text",
        name="gough",
        data="Joint terms are complete; numbers are inertias added to bodies.",
    )
    added = dict.fromkeys([*helped, *sliders], light) | {name: own[name] for name in rotors}
    for name, parameters in added.items():
        SubElement(custom, "numeric", name=f"added {text(name)}", data=numbers(parameters))
    for name in helped:
        scene.bodies[name].set("gravcomp", repr(float(light[0] / (own[name] + light)[0])))
    for closure in mechanism.closures:
        if closure.name not in mechanism.forces:
            scene.add_closure(closure, light)
    _draw(scene)
    _add_motors(scene, factors)
    constants = [_add_tendon(scene, closure, coefficients) for closure in mechanism.forces.values()]
    rest = np.zeros((1, model.degrees_of_freedom))
    weight = model.bias(
        model.home[None], rest, formats.standard_values(model, masses, coefficients)
    )
    controls = (
        *(model.min_norm_motor_effort(model.home[None], weight)[0] / factors),
        *(0.0,) * sum(constants),
    )
    position = [float(joint.get("ref", "0")) for joint in scene.bodies[BASE].iter("joint")]
    SubElement(
        SubElement(scene.root, "keyframe"),
        "key",
        name="home",
        qpos=numbers(position),
        ctrl=numbers(controls),
    )
    return scene.xml()


def _add_tendon(scene: Scene, closure: Closure, coefficients: Mapping[str, float]) -> bool:
    """Add a force element as a tendon, a constant force as an actuator without control; return
    whether it has one.
    """
    joint, rest = scene.model.mechanism.joint(closure.name), -closure.constant
    found = {word: c for word, c in worded(scene.model, joint, coefficients, "mjcf").items() if c}
    constant = found.pop("springref", 0.0)
    attributes = {key: repr(value) for key, value in found.items()}
    if "stiffness" in found:
        attributes["springlength"] = repr(rest)
    if joint.limits.position is not None:
        attributes["range"] = numbers(rest + bound for bound in joint.limits.position)
    tendon = scene.add_rod(closure.name, closure.frames, attributes)
    if constant:
        SubElement(
            scene.actuator,
            "general",
            name=f"{tendon}.constant",
            tendon=tendon,
            gainprm="0",
            biastype="affine",
            biasprm=numbers((-constant, 0.0, 0.0)),
        )
    return constant != 0.0


def _attributes(joint: Joint, model: Model, coefficients: Mapping[str, float]) -> dict[str, str]:
    """Return limits and joint terms as attributes of a joint."""
    found = {word: c for word, c in worded(model, joint, coefficients, "mjcf").items() if c}
    constant = found.pop("springref", 0.0)
    if constant or "stiffness" in found:
        stiffness = found.setdefault("stiffness", abs(constant) / _FAR)
        found["springref"] = -constant / stiffness
    limited = joint.limits.position is not None and not joint.virtual
    return ({"range": numbers(joint.limits.position or ())} if limited else {}) | {
        key: repr(value) for key, value in found.items()
    }


def _gains(model: Model, gains: Mapping[str, float] | None) -> FloatArray:
    """Return a drive gain for each motor, one without, (a,)."""
    motors = model.mechanism.actuated
    for name in gains or {}:
        index_of(motors, name, "motor")
    missing = [name for name in motors if gains and name not in gains]
    if missing:
        raise InvalidInput(
            f"drive gains of {', '.join(missing)} are missing; give those of all motors or none"
        )
    return np.array([float(gains[name]) if gains else 1.0 for name in motors])


def _add_motors(scene: Scene, gains: FloatArray) -> None:
    """Add a motor for each actuated joint; controls are efforts, or currents if there are drive
    gains.
    """
    for name, gain in zip(scene.model.mechanism.actuated, gains.tolist()):
        limit = scene.model.mechanism.joint(name).limits.effort
        motor = SubElement(scene.actuator, "motor" if gain == 1.0 else "general", name=text(name))
        motor.set("tendon" if name in scene.model.mechanism.forces else "joint", text(name))
        if gain != 1.0:
            motor.set("gainprm", repr(gain))
        if limit is not None:
            motor.set("ctrlrange", numbers((-limit / gain, limit / gain)))
            motor.set("forcerange", numbers((-limit, limit)))


def _draw(scene: Scene) -> None:
    """Draw each body as lines from its origin to its joints and closures; shapes only show."""
    size = scene.model.loops.length
    SubElement(SubElement(scene.root, "visual"), "headlight", ambient="0.5 0.5 0.5")
    SubElement(
        scene.default,
        "geom",
        type="capsule",
        size=f"{0.03 * size:.3g}",
        contype="0",
        conaffinity="0",
        mass="0",
        rgba="0.6 0.7 0.9 1",
    )
    SubElement(scene.default, "site", size=f"{0.045 * size:.3g}", rgba="0.9 0.5 0.2 1")
    points: dict[str, list[FloatArray]] = {link.body: [] for link in scene.links}
    for link in scene.links:
        for joint in link.joints:
            if not joint.virtual:
                centre = (scene.poses[joint.parent] @ joint.placement.matrix)[:, 3]
                for body in {link.body, link.parent} - {BASE}:
                    points[body].append((np.linalg.inv(scene.poses[body]) @ centre)[:3])
    for closure in scene.model.mechanism.closures:
        for frame in closure.frames:
            if frame.body != BASE:
                points[frame.body].append(frame.placement.translation)
    for body, ends in points.items():
        for end in np.unique(np.round(np.reshape(ends, (-1, 3)), 6), axis=0):
            if np.linalg.norm(end) > 1e-3:
                SubElement(scene.bodies[body], "geom", fromto=numbers((0.0, 0.0, 0.0, *end)))


formats.register_export(
    formats.Export(
        name="mjcf",
        label="the physically consistent robot as MuJoCo XML, without payload",
        words=has_words,
        write=lambda model, result, name: {
            "xml": to_mjcf(model, *formats.physical_result(result, "MJCF"), gains=result.gains)
        },
    )
)
