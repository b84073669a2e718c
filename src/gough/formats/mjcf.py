"""MJCF, MuJoCo's XML: nested bodies, equality constraints, actuators; also as Gough exports it.

MuJoCo takes the pose in which bodies are written as its reference.
There the coordinate of a joint is its `ref`, and the other ends of
`connect` and `weld` are placed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, cast

import numpy as np

from gough.core.arrays import FloatArray
from gough.formats.geometry import free_coordinates, quaternion_rotation
from gough.formats.mjcf_compiler import Compiler, apply_defaults, unit_vector
from gough.formats.mjcf_include import resolve_includes
from gough.formats.tree import (
    BALL_MOTIONS,
    FREE_MOTIONS,
    MJCF_TERMS,
    Z_AXIS,
    Connection,
    Link,
    Loop,
    Motion,
    Place,
    RobotTree,
)
from gough.formats.xml import Element
from gough.mechanism.placement import (
    IDENTITY,
    inverse,
    joint_transform,
    transform,
)
from gough.mechanism.types import Limits, Vector

MJCF_WORLD = "world"
UNREAD_ELEMENTS = (
    "replicate",
    "attach",
    "composite",
    "flexcomp",
    "deformable",
)
# Gough writes a constant effort as a spring stretched this far. [m or
# rad]
CONSTANT_EFFORT_LENGTH = 1e5
FRICTION_ATTRIBUTES = ("armature", "damping", "frictionloss")
SPRING_ATTRIBUTES = ("stiffness", *FRICTION_ATTRIBUTES)
# Flags of <option> that switch off forces.
FORCE_FLAGS = (
    "gravity",
    "constraint",
    "equality",
    "frictionloss",
    "passive",
    "spring",
    "damper",
)
# Numbers in `qpos` of a joint, by its number of motions; a rotation is
# a quaternion.
QPOS_WIDTHS = {0: 0, 1: 1, 3: 4, 6: 7}
SAME_POSE = 1e-9  # poses that differ by less are the same [m, 1]


def read_mjcf(root: Element, sidecar: Mapping[str, Any]) -> RobotTree:
    """Read `<mujoco>`, with the files it includes."""
    resolve_includes(root, root.source)
    for element in root.walk():
        if element.tag in UNREAD_ELEMENTS:
            raise element.error(
                "is not read; save the model from MuJoCo (mj_saveLastXML), which resolves it"
            )
    apply_defaults(root)
    return _Model(root).tree()


class _Model:
    """A model being read: links, joints and sites by name, poses at the reference."""

    def __init__(self, root: Element) -> None:
        self.root = root
        self.compiler = Compiler(root)
        self.notes: list[str] = []
        self.ignored: dict[str, list[str]] = {}  # by reason
        self.links = [Link(name=MJCF_WORLD)]
        self.joints: list[Connection] = []
        self.poses: dict[str, FloatArray] = {MJCF_WORLD: IDENTITY}  # of bodies in the world
        self.sites: dict[str, Place] = {}
        self.references: dict[str, float] = {}  # `ref` of joints
        self.tendon_loops: list[Loop] = []
        self.mocap_bodies: set[str] = set()
        self.task: list[str] = []
        self.tendons: dict[str, Element] = {}
        for tendon in root.inside("tendon"):
            self.tendons.setdefault(tendon.attributes.get("name", ""), tendon)
        custom = root.inside("custom")
        texts = [e.attributes.get("name") for e in custom if e.tag == "text"]
        self.from_gough = "gough" in texts
        self.added_inertia: dict[str, tuple[float, ...]] = {}  # that Gough adds to bodies
        for element in custom:
            if self.from_gough and element.tag == "numeric":
                self.added_inertia[element.get("name")] = element.numbers("data", count=10)
        for world in root.all("worldbody"):
            self._add_children(world, MJCF_WORLD)

    def tree(self) -> RobotTree:
        """Return the robot."""
        self._set_start()
        gravity = self._read_options()
        self._scale_mass()
        motors = self._read_motors()
        loops = self._read_loops()
        for reason, names in self.ignored.items():
            self.notes.append(f"ignored: {reason}: {', '.join(names)}")
        tree = RobotTree(
            name=self.root.get("model", "robot"),
            format="MJCF",
            root=MJCF_WORLD,
            links=tuple(self.links),
            joints=tuple(self.joints),
            loops=tuple(loops),
            gravity=gravity,
            usual_terms=not self.from_gough,
            task=tuple(self.task),
            notes=tuple(self.notes),
        )
        return tree.with_motors(motors)

    def _read_options(self) -> Vector:
        """Return gravity; note options that are ignored."""
        gravity: tuple[float, ...] | None = None
        disabled = []
        medium = False
        for option in self.root.all("option"):
            if gravity is None and "gravity" in option.attributes:
                gravity = option.numbers("gravity", count=3)
            for flag in option.all("flag"):
                for key, setting in flag.attributes.items():
                    if setting == "disable" and key in FORCE_FLAGS:
                        disabled.append(key)
            medium |= any(option.number(key, 0.0) for key in ("density", "viscosity"))
        if set(disabled) - {"gravity"}:
            self.notes.append(
                f"ignored: flags that disable {', '.join(disabled)}; these forces act here"
            )
        if medium:
            self.notes.append("ignored: forces of the medium (option density, viscosity)")
        if "gravity" in disabled:
            return (0.0, 0.0, 0.0)
        return cast(Vector, gravity or (0.0, 0.0, -9.81))

    def _scale_mass(self) -> None:
        """Scale all bodies to the total mass of `settotalmass`."""
        total = sum(float(link.inertia[0]) for link in self.links)
        target = self.compiler.settings.number("settotalmass", -1.0)
        if target > 0 and total > 0:
            for k, link in enumerate(self.links):
                self.links[k] = replace(link, inertia=link.inertia * target / total)

    def _ignore(self, reason: str, name: str) -> None:
        self.ignored.setdefault(reason, []).append(name)

    def _add_children(self, element: Element, link: str) -> None:
        """Add the bodies and sites inside a body."""
        for child, frame in self.compiler.children(element):
            if child.tag == "body":
                self._add_body(child, link, frame)
            elif child.tag == "site":
                name = child.attributes.get("name", f"site {len(self.sites)}")
                self.sites[name] = (link, frame @ self.compiler.pose(child))

    def _add_body(self, element: Element, parent: str, frame: FloatArray) -> None:
        """Add a body with its joints, and all bodies inside it."""
        name = element.attributes.get("name", f"body{len(self.poses)}")
        if name in self.poses:
            raise element.error("is defined twice")
        pose = frame @ self.compiler.pose(element)
        self.poses[name] = self.poses[parent] @ pose
        if element.is_true("mocap"):
            self.mocap_bodies.add(name)
        if element.get("gravcomp", "0") != "0" and not self.from_gough:
            self._ignore("gravcomp, so that weights act", name)
        inertia, parameters = self.compiler.inertia(element)
        added = np.array(self.added_inertia.get(f"added {name}", np.zeros(10)))
        self.links.append(Link(name=name, inertia=inertia - added, parameters=parameters))
        children = self.compiler.children(element)
        joints = [(e, at) for e, at in children if e.tag in ("joint", "freejoint")]
        self._add_joints(name, parent, pose, joints)
        self._restore_platform(name, len(joints))
        self._add_children(element, name)

    def _add_joints(
        self,
        body: str,
        parent: str,
        pose: FloatArray,
        joints: list[tuple[Element, FloatArray]],
    ) -> None:
        """Add the joints of a body, with massless links between them."""
        if not joints:
            fixed = Connection(name=f"{body}_fixed", parent=parent, child=body, placement=pose)
            self.joints.append(fixed)
        for k, (element, frame) in enumerate(joints):
            child = body
            if k < len(joints) - 1:
                child = f"{body}.{k + 1}"
                self.links.append(Link(name=child))
            default = f"{body}_joint{k + 1 if k else ''}"
            name = element.attributes.get("name", default)
            joint = Connection(name=name, parent=parent, child=child, placement=pose)
            self.joints.append(self._with_motions(joint, element, frame))
            parent = child
            pose = IDENTITY

    def _with_motions(self, joint: Connection, element: Element, frame: FloatArray) -> Connection:
        """Return a joint with the motions of an element.

        Args:
            joint: Joint without motions.
            element: `<joint>` or `<freejoint>`.
            frame: Pose of the `<frame>` around it, (4, 4).
        """
        kind = "free" if element.tag == "freejoint" else element.get("type", "hinge")
        if kind in ("free", "ball"):
            terms = [key for key in MJCF_TERMS if key != "springref"]
            if any(_first_number(element, key) for key in terms):
                reason = "friction, springs and rotors of joints with several motions"
                self._ignore(reason, joint.name)
        if kind == "free":
            if joint.parent != MJCF_WORLD:
                raise element.error("is free inside another body; only bodies of the world can be")
            start = free_coordinates(joint.placement)
            return replace(joint, placement=IDENTITY, motions=FREE_MOTIONS, start=start)
        position = frame @ transform(element.numbers("pos", "0 0 0", 3))
        joint = replace(joint, placement=joint.placement @ position, after=inverse(position))
        if kind == "ball":
            return replace(joint, motions=BALL_MOTIONS)
        if kind not in ("hinge", "slide"):
            raise element.error(f"unknown type '{kind}'; expected hinge, slide, ball or free")
        axis = unit_vector(element, element.numbers("axis", "0 0 1", 3))
        motion_kind = "revolute" if kind == "hinge" else "prismatic"
        motion = cast(Motion, (motion_kind, tuple(axis.tolist())))
        unit = self.compiler.angle_unit if kind == "hinge" else 1.0
        reference = element.number("ref", 0.0) * unit
        self.references[joint.name] = reference
        return replace(
            joint,
            motions=(motion,),
            start=(reference,),
            placement=joint.placement @ joint_transform(*motion, -reference),
            limits=self._limits(element, unit),
            values=_coefficients(element, unit),
        )

    def _limits(self, element: Element, unit: float) -> Limits:
        """Read the limits of a hinge or slide."""
        limited = element.get("limited", "auto")
        low, high = element.numbers("range", "0 0", 2)
        applies = limited == "true" or (limited == "auto" and self.compiler.auto_limits)
        return Limits(
            position=(low * unit, high * unit) if applies and low < high else None,
            effort=_largest(element, "actuatorfrcrange") or None,
        )

    def _restore_platform(self, body: str, count: int) -> None:
        """Write the joints of a platform that Gough exported in the base frame again.

        Only if the pose is the same.
        """
        chain = self.joints[len(self.joints) - count :]
        words = ("x", "y", "z", "rx", "ry", "rz")
        motions = {f"{body}.{word}": motion for word, motion in zip(words, FREE_MOTIONS)}
        if not chain or chain[0].parent != MJCF_WORLD:
            return
        if any(joint.name not in motions or joint.values for joint in chain):
            return
        pose = IDENTITY
        restored = []
        for joint in chain:
            motion = motions[joint.name]
            pose = pose @ joint_transform(*motion, joint.start[0])
            restored.append(replace(joint, motions=(motion,), placement=IDENTITY, after=IDENTITY))
        if np.abs(pose - self.poses[body]).max() < SAME_POSE:
            self.joints[-count:] = restored
            self.task = [joint.name for joint in chain]

    def _set_start(self) -> None:
        """Start at the keyframe `home`, or the first, if there is one."""
        keys = [key for key in self.root.inside("keyframe") if key.tag == "key"]
        keys = [key for key in keys if "qpos" in key.attributes]
        keys.sort(key=lambda key: key.attributes.get("name") != "home")
        if not keys:
            return
        key = keys[0]
        widths = [QPOS_WIDTHS[len(joint.motions)] for joint in self.joints]
        if len(key.numbers("qpos")) != sum(widths):
            return
        blocks = np.split(np.array(key.numbers("qpos")), np.cumsum(widths)[:-1])
        for k, (joint, block) in enumerate(zip(self.joints, blocks)):
            start = tuple(block.tolist())
            if len(block) > 1:
                rotation = quaternion_rotation(unit_vector(key, block[-4:]))
                position = block[:3] if len(block) == 7 else (0, 0, 0)
                start = free_coordinates(transform(position, rotation))
            if joint.motions:
                self.joints[k] = replace(joint, start=start[-len(joint.motions) :])

    def _joint(self, element: Element, key: str) -> Connection:
        """Return the hinge or slide that an attribute names."""
        name = element.get(key)
        for joint in self.joints:
            if joint.name == name and len(joint.motions) == 1:
                return joint
        raise element.error(f"names '{name}', which is no hinge or slide of the model")

    def _read_motors(self) -> list[str]:
        """Return the joints that actuators drive; give them limits and gains."""
        names = []
        for actuator in self.root.inside("actuator"):
            if actuator.tag == "adhesion":
                self._ignore("adhesion", actuator.get("name", ""))
            elif "tendon" in actuator.attributes:
                names.append(self._add_tendon_motor(actuator))
            elif "joint" in actuator.attributes:
                names.append(self._set_motor(actuator, "joint"))
            elif "jointinparent" in actuator.attributes:
                names.append(self._set_motor(actuator, "jointinparent"))
            else:
                raise actuator.error(
                    "drives no joint; motors on sites, bodies or cranks are not read: give it a "
                    "joint, or remove it and name other `motors`"
                )
        return list(dict.fromkeys(names))

    def _set_motor(self, actuator: Element, key: str) -> str:
        """Give a joint the limits and the gain of its motor; return its name."""
        joint = self._joint(actuator, key)
        gear = actuator.numbers("gear", "1")[0]
        gain = actuator.numbers("gainprm", "1")[0]
        general = actuator.tag == "general"
        direct = actuator.tag == "motor" or (general and "biasprm" not in actuator.attributes)
        force = _largest(actuator, "forcerange")
        if not force and direct:
            force = _largest(actuator, "ctrlrange") * abs(gain)
        if gear != 1.0:
            self._ignore(
                "gears, so that efforts are those of the joints",
                f"{joint.name} {gear:g}",
            )
        effort = joint.limits.effort or abs(gear) * force or None
        self.joints[self.joints.index(joint)] = replace(
            joint,
            limits=replace(joint.limits, effort=effort),
            gain=gain if self.from_gough and general else None,
        )
        return joint.name

    def _tendon(self, element: Element, key: str) -> Element:
        """Return the tendon that an attribute names."""
        name = element.get(key)
        if not name or name not in self.tendons:
            raise element.error(f"names the tendon '{name}', which does not exist")
        return self.tendons[name]

    def _tendon_coefficients(self, tendon: Element) -> dict[str, float]:
        """Return the coefficients of the joints of a fixed tendon."""
        if tendon.tag != "fixed":
            raise tendon.error(
                "a spatial tendon that pulls is not read; replace it by motors or springs at "
                "joints, or remove it"
            )
        return {self._joint(e, "joint").name: e.number("coef") for e in tendon.all("joint")}

    def _add_tendon_motor(self, actuator: Element) -> str:
        """Add a coordinate that is the length of a fixed tendon; return its name.

        A motor there pulls at all joints of the tendon, exactly.
        """
        tendon = self._tendon(actuator, "tendon")
        coefficients = self._tendon_coefficients(tendon)
        name = tendon.get("name")
        if any(joint.name == name for joint in self.joints):
            return name
        pulled = [joint for joint in self.joints if joint.name in coefficients]
        kinds = {joint.motions[0][0] for joint in pulled}
        kind = "revolute" if kinds == {"revolute"} else "prismatic"
        force = _largest(actuator, "forcerange") * abs(actuator.numbers("gear", "1")[0])
        length = sum(coefficients[joint.name] * joint.start[0] for joint in pulled)
        self.links.append(Link(name=f"{name}.length"))
        self.joints.append(
            Connection(
                name=name,
                parent=MJCF_WORLD,
                child=f"{name}.length",
                motions=(cast(Motion, (kind, Z_AXIS)),),
                start=(length,),
                limits=Limits(effort=force or None),
                values=_coefficients(tendon),
            )
        )
        weights = {name: 1.0} | {joint: -c for joint, c in coefficients.items()}
        loop = Loop(name=f"{name}.tendon", kind="coupling", coefficients=weights)
        self.tendon_loops.append(loop)
        self.notes.append(
            f"the motor of the tendon '{name}' drives the coordinate '{name}', its length"
        )
        return name

    def _read_loops(self) -> list[Loop]:
        """Read `<equality>`."""
        readers: dict[str, Callable[[Element, str], Loop]] = {
            "connect": self._frame_loop,
            "weld": self._frame_loop,
            "joint": self._joint_coupling,
            "tendon": self._constant_tendon,
        }
        loops = list(self.tendon_loops)
        for n, element in enumerate(self.root.inside("equality")):
            name = element.attributes.get("name", f"{element.tag}{n + 1}")
            if element.get("active", "true") == "false":
                self._ignore("equality that is not active", name)
                continue
            if element.tag not in readers:
                raise element.error("is not read; expected connect, weld, joint or tendon")
            loop = readers[element.tag](element, name)
            if self.mocap_bodies & {body for body, _ in loop.frames}:
                self._ignore(
                    "equality with mocap bodies, which only pull in simulators",
                    name,
                )
            else:
                loops.append(loop)
        self._check_passive_tendons()
        return loops

    def _check_passive_tendons(self) -> None:
        """Raise if a tendon without a motor is a spring or has friction."""
        driven = {loop.name for loop in self.tendon_loops}
        for tendon in self.root.inside("tendon"):
            if f"{tendon.attributes.get('name')}.tendon" in driven:
                continue
            if any(_first_number(tendon, key) for key in SPRING_ATTRIBUTES):
                raise tendon.error(
                    "a tendon with stiffness, damping or friction is not read; replace it by terms "
                    "of joints, or remove it"
                )

    def _frame_loop(self, element: Element, name: str) -> Loop:
        """Read `<connect>` or `<weld>`."""
        kind = "point" if element.tag == "connect" else "weld"
        if "site1" in element.attributes:
            first = self._known(element, "site", element.get("site1"), self.sites)
            second = self._known(element, "site", element.get("site2"), self.sites)
            return Loop(
                name=name,
                kind=kind,
                frames=(self.sites[first], self.sites[second]),
            )
        first = element.get("body1")
        second = element.get("body2", MJCF_WORLD)
        self._known(element, "body", first, self.poses)
        self._known(element, "body", second, self.poses)
        first_in_second = inverse(self.poses[second]) @ self.poses[first]
        if kind == "point":
            a = transform(element.numbers("anchor", count=3))
            b = transform((first_in_second @ a)[:3, 3])
        else:
            b = IDENTITY
            a = inverse(first_in_second)
            relative = element.numbers("relpose", "0 1 0 0 0 0 0", 7)
            if any(relative[3:]):
                a = transform(relative[:3], quaternion_rotation(relative[3:]))
        return Loop(name=name, kind=kind, frames=((first, a), (second, b)))

    @staticmethod
    def _known(element: Element, kind: str, name: str, known: Mapping[str, Any]) -> str:
        """Return a name, which must exist."""
        if name not in known:
            raise element.error(f"names the {kind} '{name}', which does not exist")
        return name

    def _joint_coupling(self, element: Element, name: str) -> Loop:
        """Read q1 - ref1 = a0 + a1 (q2 - ref2); higher powers are refused."""
        a0, a1, *higher = (*element.numbers("polycoef", "0 1 0 0 0"), 0.0, 0.0)[:5]
        if any(higher):
            raise element.error(
                "polycoef has powers above the first; only straight couplings are read: leave two "
                "numbers there, offset and slope where it works"
            )
        coefficients = {self._joint(element, "joint1").name: 1.0}
        if "joint2" in element.attributes:
            coefficients[self._joint(element, "joint2").name] = -a1
        return self._coupling(name, coefficients, -a0)

    def _coupling(self, name: str, coefficients: dict[str, float], constant: float) -> Loop:
        """Return a coupling of coordinates measured from the reference."""
        shift = sum(c * self.references[joint] for joint, c in coefficients.items())
        return Loop(
            name=name,
            kind="coupling",
            coefficients=coefficients,
            constant=constant - shift,
        )

    def _constant_tendon(self, element: Element, name: str) -> Loop:
        """Read a tendon that keeps the length it has as written.

        It is a sum of coordinates, or a rod between two sites.
        """
        tendon = self._tendon(element, "tendon1")
        if "tendon2" in element.attributes or element.numbers("polycoef", "0")[0]:
            raise element.error("of two tendons, or with an offset, is not read")
        if tendon.tag == "fixed":
            return self._coupling(name, self._tendon_coefficients(tendon), 0.0)
        sites = [site.get("site") for site in tendon.all("site")]
        known = all(site in self.sites for site in sites)
        if len(sites) != 2 or len(tendon.children) != 2 or not known:
            raise tendon.error("is not read: expected two sites and nothing between")
        frames = (self.sites[sites[0]], self.sites[sites[1]])
        ends = [self.poses[body] @ pose for body, pose in frames]
        length = float(np.linalg.norm((ends[0] - ends[1])[:3, 3]))
        return Loop(name=name, kind="distance", frames=frames, values={"length": length})


def _coefficients(element: Element, unit: float = 1.0) -> dict[str, float]:
    """Return the coefficients of joint terms of a joint or tendon.

    A spring k (q - q0) is k q and the constant -k q0.
    """
    if any(element.numbers("springdamper", "0 0")):
        raise element.error(
            "springdamper is not read; give the stiffness and damping that MuJoCo makes of it"
        )
    values = {MJCF_TERMS[key]: _first_number(element, key) for key in FRICTION_ATTRIBUTES}
    stiffness = _first_number(element, "stiffness")
    rest_position = element.number("springref", 0.0) * unit
    if abs(rest_position) < CONSTANT_EFFORT_LENGTH:
        values[MJCF_TERMS["stiffness"]] = stiffness
    values[MJCF_TERMS["springref"]] = -stiffness * rest_position
    return {name: coefficient for name, coefficient in values.items() if coefficient}


def _first_number(element: Element, key: str) -> float:
    """Return the first number of an attribute, zero without; several are a curve."""
    numbers = element.numbers(key, "0")
    if not numbers or any(numbers[1:]):
        raise element.error(
            f"{key} is '{element.get(key)}'; expected one number, as for a straight law"
        )
    return numbers[0]


def _largest(element: Element, key: str) -> float:
    """Return the largest absolute value of a range, zero without."""
    return max(map(abs, element.numbers(key, "0 0", 2)))
