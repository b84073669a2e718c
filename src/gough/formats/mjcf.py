"""MJCF, MuJoCo's XML: nested bodies, defaults, equality constraints, actuators; `gough export --to
mjcf` among it.

MuJoCo takes the pose in which bodies are written as its reference, at which a joint's coordinate is
its `ref`, and places the other end of `connect` and `weld` there.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, cast

import numpy as np

from gough.core.arrays import FloatArray
from gough.core.inertia import about_centre
from gough.core.names import INERTIAL
from gough.formats.geometry import (
    free_coordinates,
    quaternion_rotation,
    solid,
    solid_body,
    ten_parameters,
)
from gough.formats.tree import (
    BALL_MOTIONS,
    FREE_MOTIONS,
    TERM,
    Connection,
    Link,
    Loop,
    Motion,
    Place,
    RobotTree,
    Z,
)
from gough.formats.xml import Element
from gough.mechanism.placement import IDENTITY, axis_rotation, inverse, joint_transform, transform
from gough.mechanism.types import Limits, Vector

WORLD = "world"
REFUSED = ("include", "replicate", "attach", "composite", "flexcomp", "deformable")
FAR = 1e5  # a spring stretched this far is Gough's way to write a constant effort [m or rad]
RUBS = ("armature", "damping", "frictionloss")
FORCES = (
    "gravity",
    "constraint",
    "equality",
    "frictionloss",
    "passive",
    "spring",
    "damper",
)  # that flags switch off


def read_mjcf(root: Element, beside: Mapping[str, Any]) -> RobotTree:
    """Read `<mujoco>`."""
    for element in root.walk():
        if element.tag in REFUSED:
            file = element.attributes.get("file")
            itself = f"read '{file}' itself, or " if element.tag == "include" and file else ""
            raise element.error(
                f"is not read; {itself}save the model from MuJoCo (mj_saveLastXML), which resolves "
                f"it"
            )
    _fill(root)
    return _Reader(root).tree()


def _fill(root: Element) -> None:
    """Give all elements what their classes say, as MuJoCo does before it compiles."""
    classes: dict[str, dict[str, dict[str, str]]] = {"main": {}}

    def define(element: Element, parent: str, name: str) -> None:
        own = classes[name] = {tag: dict(given) for tag, given in classes[parent].items()}
        for child in element.children:
            if child.tag != "default":
                own.setdefault(child.tag, {}).update(child.attributes)
        for child in element.all("default"):
            define(child, name, child.get("class"))

    def fill(element: Element, usual: str, tag: str) -> None:
        name = element.attributes.get("class", usual)
        if name not in classes:
            raise element.error(f"names the class '{name}', which no <default> defines")
        element.attributes = classes[name].get(tag, {}) | element.attributes
        for child in element.children:
            fill(
                child,
                element.attributes.get("childclass", usual),
                "joint" if child.tag == "freejoint" else child.tag,
            )

    for part in root.all("default"):
        define(part, "main", part.attributes.get("class", "main"))
    for section in root.all("worldbody", "actuator", "equality", "tendon"):
        for child in section.children:
            fill(child, "main", section.tag if section.tag in ("equality", "tendon") else child.tag)


class _Reader:
    """A model being read: links, joints and sites by name, poses at the reference."""

    def __init__(self, root: Element) -> None:
        self.root, self.notes = root, list[str]()
        given = {
            key: value for part in root.all("compiler") for key, value in part.attributes.items()
        }
        self.compiler = Element("compiler", given, root.source, root.line)
        if given.get("coordinate", "local") != "local":
            raise self.compiler.error(
                "global coordinates are not read, as in MuJoCo since 2.3.4; convert the model "
                "with an older one"
            )
        self.links = [Link(name=WORLD)]
        self.joints: list[Connection] = []
        self.poses: dict[str, FloatArray] = {WORLD: IDENTITY}
        self.sites: dict[str, Place] = {}
        self.refs: dict[str, float] = {}  # coordinates at which the model is written, by joint
        self.tied: list[Loop] = []
        self.handles: set[str] = set()  # bodies that people or recorded people move
        self.task: list[str] = []
        self.lost: dict[str, list[str]] = {}
        custom = root.inside("custom")
        self.ours = any(e.tag == "text" and e.attributes.get("name") == "gough" for e in custom)
        self.added = {
            e.get("name"): e.numbers("data", count=10)
            for e in custom
            if self.ours and e.tag == "numeric"
        }
        for world in root.all("worldbody"):
            self._add_children(world, WORLD, IDENTITY)

    def tree(self) -> RobotTree:
        """Return all of it."""
        self._start()
        options, name = self.root.all("option"), self.root.get("model", "robot")
        gravity = next(
            (part.numbers("gravity", count=3) for part in options if "gravity" in part.attributes),
            (0.0, 0.0, -9.81),
        )
        off = [
            key
            for part in options
            for flag in part.all("flag")
            for key, value in flag.attributes.items()
            if value == "disable" and key in FORCES
        ]
        if set(off) - {"gravity"}:
            self.notes.append(f"lost: what flags switch off acts here: {', '.join(off)}")
        if any(part.number(key, 0.0) for part in options for key in ("density", "viscosity")):
            self.notes.append("lost: forces of the medium (option density, viscosity)")
        total, wanted = (
            sum(float(link.inertia[0]) for link in self.links),
            self.compiler.number("settotalmass", -1.0),
        )
        if wanted > 0 and total > 0:
            self.links = [
                replace(link, inertia=link.inertia * wanted / total) for link in self.links
            ]
        motors, loops = self._motors(), self._loops()
        self.notes += [f"lost: {what}: {', '.join(names)}" for what, names in self.lost.items()]
        tree = RobotTree(
            name=name,
            title=f"{name}, from MJCF",
            root=WORLD,
            links=tuple(self.links),
            joints=tuple(self.joints),
            loops=tuple(loops),
            gravity=(0.0, 0.0, 0.0) if "gravity" in off else cast(Vector, gravity),
            usual_terms=not self.ours,
            task=tuple(self.task),
            notes=tuple(self.notes),
        )
        return tree.with_motors(motors) if motors else tree

    def _lose(self, what: str, name: str) -> None:
        self.lost.setdefault(what, []).append(name)

    def _angle(self, value: float) -> float:
        return value if self.compiler.get("angle", "degree") == "radian" else math.radians(value)

    def _rotation(self, element: Element) -> FloatArray:
        given = element.attributes
        if "axisangle" in given:
            *axis, angle = element.numbers("axisangle", count=4)
            return axis_rotation(_direction(element, axis), self._angle(angle))
        if "euler" in given:
            result = np.eye(3)
            for letter, angle in zip(
                self.compiler.get("eulerseq", "xyz"), element.numbers("euler", count=3)
            ):
                if letter.lower() not in "xyz":
                    raise element.error(f"eulerseq has the letter '{letter}', expected x, y, z")
                part = axis_rotation(np.eye(3)["xyz".index(letter.lower())], self._angle(angle))
                result = result @ part if letter.islower() else part @ result
            return result
        if "xyaxes" in given:
            numbers = np.array(element.numbers("xyaxes", count=6))
            x = _direction(element, numbers[:3])
            y = _direction(element, numbers[3:] - x * (x @ numbers[3:]))
            return np.column_stack([x, y, np.cross(x, y)])
        if "zaxis" in given:
            return _tilted(_direction(element, element.numbers("zaxis", count=3)))
        return quaternion_rotation(_direction(element, element.numbers("quat", "1 0 0 0", 4)))

    def _pose(self, element: Element) -> FloatArray:
        return transform(element.numbers("pos", "0 0 0", 3), self._rotation(element))

    def _inside(
        self, element: Element, at: FloatArray = IDENTITY
    ) -> Iterator[tuple[Element, FloatArray]]:
        """Yield the children of a body with what `<frame>` moves them by."""
        for child in element.children:
            if child.tag == "frame":
                yield from self._inside(child, at @ self._pose(child))
            else:
                yield child, at

    def _add_children(self, element: Element, link: str, world: FloatArray) -> None:
        for child, at in self._inside(element):
            if child.tag == "body":
                self._add_body(child, link, at, world)
            elif child.tag == "site":
                self.sites[child.attributes.get("name", f"site {len(self.sites)}")] = (
                    link,
                    at @ self._pose(child),
                )

    def _add_body(self, element: Element, parent: str, at: FloatArray, world: FloatArray) -> None:
        name = element.attributes.get("name", f"body{len(self.poses)}")
        if name in self.poses:
            raise element.error("is defined twice")
        pose = at @ self._pose(element)
        self.poses[name] = world @ pose
        if element.get("mocap", "false") == "true":
            self.handles.add(name)
        if element.get("gravcomp", "0") != "0" and not self.ours:
            self._lose("gravcomp, so that weights act", name)
        inertia, parameters = self._inertia(element)
        self.links.append(
            Link(
                name=name,
                inertia=inertia - np.array(self.added.get(f"added {name}", np.zeros(10))),
                parameters=parameters,
            )
        )
        joints = [
            (joint, by)
            for joint, by in self._inside(element)
            if joint.tag in ("joint", "freejoint")
        ]
        here, placed = parent, pose
        for k, (joint, by) in enumerate(joints):
            child = name if k == len(joints) - 1 else f"{name}.{k + 1}"
            if child != name:
                self.links.append(Link(name=child))
            label = joint.attributes.get("name", f"{name}_joint{k + 1 if k else ''}")
            plain = Connection(name=label, parent=here, child=child, placement=placed)
            self.joints.append(self._connection(joint, plain, by))
            here, placed = child, IDENTITY
        if not joints:
            self.joints.append(
                Connection(name=f"{name}_fixed", parent=parent, child=name, placement=pose)
            )
        self._merge_platform(name, len(joints))
        self._add_children(element, name, self.poses[name])

    def _connection(self, joint: Element, plain: Connection, by: FloatArray) -> Connection:
        """Return a joint that moves as the element says; `by` is where a `<frame>` puts it."""
        kind = "free" if joint.tag == "freejoint" else joint.get("type", "hinge")
        if kind in ("free", "ball") and any(
            _first(joint, key) for key in TERM if key != "springref"
        ):
            self._lose("friction, springs and rotors of joints with several motions", plain.name)
        if kind == "free":
            if plain.parent != WORLD:
                raise joint.error("is free inside another body; only bodies of the world can be")
            return replace(
                plain,
                placement=IDENTITY,
                motions=FREE_MOTIONS,
                start=free_coordinates(plain.placement),
            )
        position = by @ transform(joint.numbers("pos", "0 0 0", 3))
        plain = replace(plain, placement=plain.placement @ position, after=inverse(position))
        if kind == "ball":
            return replace(plain, motions=BALL_MOTIONS)
        if kind not in ("hinge", "slide"):
            raise joint.error(f"unknown type '{kind}'; expected hinge, slide, ball or free")
        axis = _direction(joint, joint.numbers("axis", "0 0 1", 3))
        motion = cast(
            Motion, ("revolute" if kind == "hinge" else "prismatic", tuple(axis.tolist()))
        )
        scale = self._angle(1.0) if kind == "hinge" else 1.0
        self.refs[plain.name] = ref = joint.number("ref", 0.0) * scale
        limited = joint.get("limited", "auto")
        said = limited == "true" or (
            limited == "auto" and self.compiler.get("autolimits", "true") == "true"
        )
        low, high = joint.numbers("range", "0 0", 2)
        effort = max(map(abs, joint.numbers("actuatorfrcrange", "0 0", 2)))
        return replace(
            plain,
            motions=(motion,),
            start=(ref,),
            placement=plain.placement @ joint_transform(*motion, -ref),
            limits=Limits(
                position=(low * scale, high * scale) if said and low < high else None,
                effort=effort or None,
            ),
            values=self._values(joint, scale),
        )

    def _values(self, joint: Element, scale: float = 1.0) -> dict[str, float]:
        """Return the coefficients of joint terms; a spring k (q - q0) is k q and the constant -k
        q0.
        """
        if any(joint.numbers("springdamper", "0 0")):
            raise joint.error(
                "springdamper is not read; give the stiffness and damping that MuJoCo makes of it"
            )
        found = {TERM[key]: _first(joint, key) for key in RUBS}
        stiffness, rest = _first(joint, "stiffness"), joint.number("springref", 0.0) * scale
        if abs(rest) < FAR:
            found[TERM["stiffness"]] = stiffness
        found[TERM["springref"]] = -stiffness * rest
        return {name: value for name, value in found.items() if value}

    def _inertia(self, body: Element) -> tuple[FloatArray, tuple[str, ...] | None]:
        """Return the inertia of a body, given or of its shapes; where meshes have it none, but all
        parameters.
        """
        inertial, how = body.find("inertial"), self.compiler.get("inertiafromgeom", "auto")
        if inertial is not None and how != "true":
            six = (*inertial.numbers("diaginertia", "0 0 0", 3), 0.0, 0.0, 0.0)
            if "fullinertia" in inertial.attributes:
                six = inertial.numbers("fullinertia", count=6)
            entries = dict(zip(("ixx", "iyy", "izz", "ixy", "ixz", "iyz"), six))
            return self._bounded(
                solid_body(inertial, inertial.number("mass"), self._pose(inertial), entries)
            ), None
        low, high = self.compiler.numbers("inertiagrouprange", "0 5", 2)
        total, unknown = np.zeros(10), False
        for geom, at in self._inside(body) if how != "false" else ():
            kind = "mesh" if "mesh" in geom.attributes else geom.get("type", "sphere")
            if (
                geom.tag != "geom"
                or kind in ("plane", "hfield")
                or not low <= geom.number("group", 0.0) <= high
            ):
                continue
            if kind in ("mesh", "sdf"):
                unknown |= geom.number("mass", 1.0) != 0.0 and geom.number("density", 1000.0) != 0.0
            else:
                pose, sizes = self._placed(geom)
                total += solid(geom, sizes, at @ pose)
        return (
            (np.zeros(10), INERTIAL)
            if unknown
            else (self._bounded(total) if how != "false" else total, None)
        )

    def _bounded(self, parameters: FloatArray) -> FloatArray:
        """Apply the compiler's lower bounds of mass and principal inertias."""
        mass, inertia = (self.compiler.number(key, 0.0) for key in ("boundmass", "boundinertia"))
        if not mass and not inertia:
            return parameters
        own, centre, about = about_centre(parameters)
        moments, axes = np.linalg.eigh(about)
        return ten_parameters(
            max(own, mass), axes @ np.diag(np.maximum(moments, inertia)) @ axes.T, transform(centre)
        )

    def _placed(self, geom: Element) -> tuple[FloatArray, tuple[float, ...]]:
        """Return pose and size of a shape; `fromto` gives the middle, the axis and half the
        length.
        """
        sizes = geom.numbers("size", "0 0 0")
        if "fromto" not in geom.attributes:
            return self._pose(geom), sizes
        ends = np.reshape(geom.numbers("fromto", count=6), (2, 3))
        along = ends[0] - ends[1]
        width = sizes[:1] * (2 if geom.get("type", "sphere") in ("box", "ellipsoid") else 1)
        return transform(ends.mean(axis=0), _tilted(_direction(geom, along))), (
            *width,
            float(np.linalg.norm(along)) / 2,
        )

    def _merge_platform(self, body: str, count: int) -> None:
        """Write the joints of a platform that Gough exported in the base frame again, if that is
        the same.
        """
        chain = self.joints[-count:] if count else []
        known = dict(
            zip((f"{body}.{word}" for word in ("x", "y", "z", "rx", "ry", "rz")), FREE_MOTIONS)
        )
        if (
            not chain
            or chain[0].parent != WORLD
            or any(j.name not in known or j.values for j in chain)
        ):
            return
        pose = IDENTITY
        for joint in chain:
            pose = pose @ joint_transform(*known[joint.name], joint.start[0])
        if np.abs(pose - self.poses[body]).max() < 1e-9:
            self.joints[-count:] = [
                replace(joint, motions=(known[joint.name],), placement=IDENTITY, after=IDENTITY)
                for joint in chain
            ]
            self.task = [joint.name for joint in chain]

    def _start(self) -> None:
        """Start at the keyframe `home`, or the first, where there is one."""
        keys = [
            key
            for key in self.root.inside("keyframe")
            if key.tag == "key" and "qpos" in key.attributes
        ]
        key = next(
            (key for key in keys if key.attributes.get("name") == "home"), keys[0] if keys else None
        )
        widths = [{0: 0, 1: 1, 3: 4, 6: 7}[len(joint.motions)] for joint in self.joints]
        if key is None or len(key.numbers("qpos")) != sum(widths):
            return
        parts = np.split(np.array(key.numbers("qpos")), np.cumsum(widths)[:-1])
        for k, (joint, part) in enumerate(zip(self.joints, parts)):
            start = tuple(part.tolist())
            if len(part) > 1:
                turn = quaternion_rotation(_direction(key, part[-4:]))
                start = free_coordinates(transform(part[:3] if len(part) == 7 else (0, 0, 0), turn))
            if joint.motions:
                self.joints[k] = replace(joint, start=start[-len(joint.motions) :])

    def _joint(self, element: Element, key: str) -> Connection:
        name = element.get(key)
        found = next((joint for joint in self.joints if joint.name == name), None)
        if found is None or len(found.motions) != 1:
            raise element.error(f"names '{name}', which is no hinge or slide of the model")
        return found

    def _motors(self) -> list[str]:
        found = []
        for actuator in self.root.inside("actuator"):
            if actuator.tag == "adhesion":
                self._lose("adhesion", actuator.get("name", ""))
                continue
            key = next(
                (key for key in ("tendon", "joint", "jointinparent") if key in actuator.attributes),
                None,
            )
            if key is None:
                raise actuator.error(
                    "drives no joint; motors on sites, bodies or cranks are not read: give it a "
                    "joint, or remove it and name other `motors`"
                )
            drive = self._pulled if key == "tendon" else self._driven
            found.append(drive(actuator, key))
        return list(dict.fromkeys(found))

    def _driven(self, actuator: Element, key: str) -> str:
        """Give a joint the limits and the gain of its motor; return its name."""
        joint, gear = self._joint(actuator, key), actuator.numbers("gear", "1")[0]
        gain = actuator.numbers("gainprm", "1")[0]
        plain = actuator.tag == "motor" or (
            actuator.tag == "general" and "biasprm" not in actuator.attributes
        )
        force = max(map(abs, actuator.numbers("forcerange", "0 0", 2)))
        if not force and plain:
            force = max(map(abs, actuator.numbers("ctrlrange", "0 0", 2))) * abs(gain)
        if gear != 1.0:
            self._lose("gears, so that efforts are those of the joints", f"{joint.name} {gear:g}")
        limits = replace(joint.limits, effort=joint.limits.effort or abs(gear) * force or None)
        own = self.ours and actuator.tag == "general"
        self.joints[self.joints.index(joint)] = replace(
            joint, limits=limits, gain=gain if own else None
        )
        return joint.name

    def _tendon(self, element: Element, key: str) -> Element:
        name = element.get(key)
        found = next(
            (
                tendon
                for tendon in self.root.inside("tendon")
                if tendon.attributes.get("name") == name
            ),
            None,
        )
        if found is None:
            raise element.error(f"names the tendon '{name}', which does not exist")
        return found

    def _weights(self, tendon: Element) -> dict[str, float]:
        if tendon.tag != "fixed":
            raise tendon.error(
                "a spatial tendon that pulls is not read; replace it by motors or springs at "
                "joints, or "
                "remove it"
            )
        return {
            self._joint(part, "joint").name: part.number("coef") for part in tendon.all("joint")
        }

    def _pulled(self, actuator: Element, key: str) -> str:
        """Add a coordinate that is the length of a fixed tendon: a motor there pulls at all its
        joints, exactly.
        """
        tendon = self._tendon(actuator, key)
        weights, name = self._weights(tendon), tendon.get("name")
        if any(joint.name == name for joint in self.joints):
            return name
        pulled = [joint for joint in self.joints if joint.name in weights]
        kind = (
            "revolute" if {joint.motions[0][0] for joint in pulled} == {"revolute"} else "prismatic"
        )
        force = max(map(abs, actuator.numbers("forcerange", "0 0", 2))) * abs(
            actuator.numbers("gear", "1")[0]
        )
        self.links.append(Link(name=f"{name}.length"))
        self.joints.append(
            Connection(
                name=name,
                parent=WORLD,
                child=f"{name}.length",
                motions=(cast(Motion, (kind, Z)),),
                start=(sum(weights[joint.name] * joint.start[0] for joint in pulled),),
                limits=Limits(effort=force or None),
                values=self._values(tendon),
            )
        )
        self.tied.append(
            Loop(
                name=f"{name}.tendon",
                kind="coupling",
                coefficients={name: 1.0, **{j: -c for j, c in weights.items()}},
            )
        )
        self.notes.append(
            f"the motor of the tendon '{name}' drives the coordinate '{name}', its length"
        )
        return name

    def _loops(self) -> list[Loop]:
        loops = list(self.tied)
        for n, element in enumerate(self.root.inside("equality")):
            name = element.attributes.get("name", f"{element.tag}{n + 1}")
            if element.get("active", "true") == "false":
                self._lose("equality that is not active", name)
            elif element.tag in ("connect", "weld"):
                ends = self._ends(element)
                if self.handles & {body for body, _ in ends}:
                    self._lose("equality with mocap bodies, which only pull in simulators", name)
                    continue
                loops.append(
                    Loop(
                        name=name, kind="point" if element.tag == "connect" else "weld", frames=ends
                    )
                )
            elif element.tag in ("joint", "tendon"):
                loops.append(
                    (self._coupling if element.tag == "joint" else self._held)(element, name)
                )
            else:
                raise element.error("is not read; expected connect, weld, joint or tendon")
        driven = {loop.name for loop in self.tied}
        for tendon in self.root.inside("tendon"):
            if f"{tendon.attributes.get('name')}.tendon" not in driven and any(
                _first(tendon, key) for key in ("stiffness", *RUBS)
            ):
                raise tendon.error(
                    "a tendon that is a spring, a damper or rubs is not read; replace it by terms "
                    "of "
                    "joints, or remove it"
                )
        return loops

    def _ends(self, element: Element) -> tuple[Place, ...]:
        kind, known, keys = (
            ("site", self.sites, ("site1", "site2"))
            if "site1" in element.attributes
            else ("body", self.poses, ("body1", "body2"))
        )
        first, second = (
            element.get(keys[0]),
            element.get(keys[1], WORLD if kind == "body" else None),
        )
        for name in (first, second):
            if name not in known:
                raise element.error(f"names the {kind} '{name}', which does not exist")
        if kind == "site":
            return self.sites[first], self.sites[second]
        between = inverse(self.poses[second]) @ self.poses[first]
        if element.tag == "connect":
            anchor = transform(element.numbers("anchor", count=3))
            return (first, anchor), (second, transform((between @ anchor)[:3, 3]))
        relative = element.numbers("relpose", "0 1 0 0 0 0 0", 7)
        if any(relative[3:]):
            return (first, transform(relative[:3], quaternion_rotation(relative[3:]))), (
                second,
                IDENTITY,
            )
        return (first, inverse(between)), (second, IDENTITY)

    def _coupling(self, element: Element, name: str) -> Loop:
        """q1 - ref1 = a0 + a1 (q2 - ref2); higher powers are refused."""
        a0, a1, *more = (*element.numbers("polycoef", "0 1 0 0 0"), 0.0, 0.0)[:5]
        if any(more):
            raise element.error(
                "polycoef has powers above the first; only straight couplings are read: leave two "
                "numbers there, offset and slope where it works"
            )
        weights = {self._joint(element, "joint1").name: 1.0}
        if "joint2" in element.attributes:
            weights[self._joint(element, "joint2").name] = -a1
        return Loop(
            name=name,
            kind="coupling",
            coefficients=weights,
            constant=-a0 - sum(c * self.refs[joint] for joint, c in weights.items()),
        )

    def _held(self, element: Element, name: str) -> Loop:
        """A tendon that keeps the length it has as written: a sum of coordinates, or a rod between
        two sites.
        """
        tendon = self._tendon(element, "tendon1")
        if "tendon2" in element.attributes or element.numbers("polycoef", "0")[0]:
            raise element.error("of two tendons, or with an offset, is not read")
        if tendon.tag == "fixed":
            weights = self._weights(tendon)
            return Loop(
                name=name,
                kind="coupling",
                coefficients=weights,
                constant=-sum(c * self.refs[joint] for joint, c in weights.items()),
            )
        names = [part.get("site") for part in tendon.all("site")]
        if (
            len(names) != 2
            or len(tendon.children) != 2
            or any(site not in self.sites for site in names)
        ):
            raise tendon.error("is not read: expected two sites and nothing between")
        a, b = (self.sites[site] for site in names)
        gap = (self.poses[a[0]] @ a[1] - self.poses[b[0]] @ b[1])[:3, 3]
        return Loop(
            name=name, kind="distance", frames=(a, b), values={"length": float(np.linalg.norm(gap))}
        )


def _direction(element: Element, vector: Any) -> FloatArray:
    """Return a vector of length one; raise for one of no length."""
    length = float(np.linalg.norm(vector))
    if not length > 1e-9:
        raise element.error("has a direction of no length")
    return np.asarray(vector, dtype=float) / length


def _tilted(z: FloatArray) -> FloatArray:
    """Return the shortest rotation that turns the z axis into a direction."""
    axis = np.cross((0.0, 0.0, 1.0), z)
    size = float(np.linalg.norm(axis))
    return axis_rotation(axis if size > 1e-12 else (1.0, 0.0, 0.0), math.atan2(size, float(z[2])))


def _first(element: Element, key: str) -> float:
    """Return the first number of an attribute, zero without; several are a curve."""
    values = element.numbers(key, "0")
    if not values or any(values[1:]):
        raise element.error(
            f"{key} is '{element.get(key)}'; expected one number, as for a straight law"
        )
    return values[0]
