"""MJCF, MuJoCo's XML: nested bodies, defaults, equality constraints, actuators; `gough export --to mjcf` among it.

MuJoCo takes the pose in which bodies are written as its reference, at which a joint's coordinate is its `ref`, and
places the other end of `connect` and `weld` there.
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
from gough.mechanism.formats.geometry import free_coordinates, quaternion_rotation, solid, solid_body, ten_parameters
from gough.mechanism.formats.tree import BALL, FREE, Connection, Link, Loop, Motion, Place, RobotTree
from gough.mechanism.formats.xml import Element
from gough.mechanism.placement import HERE, inverse, moved, transform, turned
from gough.mechanism.terms import TERMS
from gough.mechanism.types import Limits

WORLD = "world"
REFUSED = ("include", "replicate", "attach", "composite", "flexcomp", "deformable")
FAR = 1e5  # a spring stretched this far is Gough's way to write a constant effort [m or rad]
TERM = {term.mjcf: term.name for term in TERMS.values() if term.mjcf is not None}
FORCES = ("gravity", "constraint", "equality", "frictionloss", "passive", "spring", "damper")  # that flags switch off
Classes = dict[str, dict[str, dict[str, str]]]


def read_mjcf(root: Element, beside: Mapping[str, Any]) -> RobotTree:
    """Read `<mujoco>`."""
    return _Reader(root).tree()


class _Reader:
    """A model being read: links, joints and sites by name, poses at the reference."""

    def __init__(self, root: Element) -> None:
        self.root, self.notes = root, list[str]()
        for element in _everything(root):
            if element.tag in REFUSED:
                file = element.attributes.get("file")
                itself = f"read '{file}' itself, or " if element.tag == "include" and file else ""
                raise element.error(f"is not read; {itself}save the model from MuJoCo (mj_saveLastXML), which resolves "
                                    "it")
        given = {key: value for part in root.all("compiler") for key, value in part.attributes.items()}
        self.compiler = Element("compiler", given, root.source, root.line)
        if given.get("coordinate", "local") != "local":
            raise self.compiler.error("global coordinates are not read, as in MuJoCo since 2.3.4; convert the model "
                                      "with an older one")
        self.classes: Classes = {"main": {}}
        for part in root.all("default"):
            self._add_class(part, "main", part.attributes.get("class", "main"))
        self.links = [Link(name=WORLD)]
        self.joints: list[Connection] = []
        self.poses: dict[str, FloatArray] = {WORLD: HERE}
        self.sites: dict[str, Place] = {}
        self.refs: dict[str, float] = {}  # coordinates at which the model is written, by joint
        self.tied: list[Loop] = []
        self.handles: set[str] = set()  # bodies that people or recorded people move
        self.task: list[str] = []
        self.lost: dict[str, list[str]] = {}
        self.ours = any(e.attributes.get("name") == "gough" for part in root.all("custom") for e in part.all("text"))
        self.added = {e.get("name"): e.numbers("data", count=10) for part in root.all("custom") if self.ours
                      for e in part.all("numeric")}
        for world in root.all("worldbody"):
            self._add_children(world, WORLD, HERE, "main")

    def tree(self) -> RobotTree:
        """Return all of it."""
        self._start()
        name = self.root.get("model", "robot")
        options = self.root.all("option")
        gravity = next((part.numbers("gravity", count=3) for part in options if "gravity" in part.attributes),
                       (0.0, 0.0, -9.81))
        off = [key for part in options for flag in part.all("flag") for key, value in flag.attributes.items()
               if value == "disable" and key in FORCES]
        gravity = (0.0, 0.0, 0.0) if "gravity" in off else gravity
        if set(off) - {"gravity"}:
            self.notes.append(f"lost: what flags switch off acts here: {', '.join(off)}")
        if any(part.number(key, 0.0) for part in options for key in ("density", "viscosity")):
            self.notes.append("lost: forces of the medium (option density, viscosity)")
        self._scale_masses()
        motors = self._motors()
        loops = self._loops()
        self.notes += [f"lost: {what}: {', '.join(names)}" for what, names in self.lost.items()]
        tree = RobotTree(
            name=name, title=f"{name}, from MJCF", root=WORLD, links=tuple(self.links), joints=tuple(self.joints),
            loops=tuple(loops), gravity=cast(tuple[float, float, float], gravity), usual_terms=not self.ours,
            task=tuple(self.task), notes=tuple(self.notes))
        return tree.driven_by(motors) if motors else tree

    def _lose(self, what: str, name: str) -> None:
        self.lost.setdefault(what, []).append(name)

    def _scale_masses(self) -> None:
        """Do what the compiler's settotalmass says."""
        total = float(np.sum([link.inertia[0] for link in self.links]))
        wanted = self.compiler.number("settotalmass", -1.0)
        if wanted > 0 and total > 0:
            self.links = [replace(link, inertia=link.inertia * wanted / total) for link in self.links]

    def _add_class(self, element: Element, parent: str, name: str) -> None:
        own = {tag: dict(given) for tag, given in self.classes[parent].items()}
        for child in element.children:
            if child.tag != "default":
                own.setdefault(child.tag, {}).update(child.attributes)
        self.classes[name] = own
        for child in element.all("default"):
            self._add_class(child, name, child.get("class"))

    def _filled(self, element: Element, usual: str, tag: str | None = None) -> Element:
        """Return an element with what its class says."""
        name = element.attributes.get("class", usual)
        if name not in self.classes:
            raise element.error(f"names the class '{name}', which no <default> defines")
        given = self.classes[name].get(tag or element.tag, {})
        whole = Element(element.tag, given | element.attributes, element.source, element.line)
        whole.children = element.children
        return whole

    def _angle(self, value: float) -> float:
        return value if self.compiler.get("angle", "degree") == "radian" else math.radians(value)

    def _rotation(self, element: Element) -> FloatArray:
        given = element.attributes
        if "axisangle" in given:
            *axis, angle = element.numbers("axisangle", count=4)
            return turned(_direction(element, axis), self._angle(angle))
        if "euler" in given:
            result = np.eye(3)
            for letter, angle in zip(self.compiler.get("eulerseq", "xyz"), element.numbers("euler", count=3)):
                if letter.lower() not in "xyz":
                    raise element.error(f"eulerseq has the letter '{letter}', expected x, y, z")
                part = turned(np.eye(3)["xyz".index(letter.lower())], self._angle(angle))
                result = result @ part if letter.islower() else part @ result
            return result
        if "xyaxes" in given:
            numbers = element.numbers("xyaxes", count=6)
            x = _direction(element, numbers[:3])
            y = np.array(numbers[3:]) - x * (x @ np.array(numbers[3:]))
            y = _direction(element, y)
            return np.column_stack([x, y, np.cross(x, y)])
        if "zaxis" in given:
            return _tilted(_direction(element, element.numbers("zaxis", count=3)))
        quaternion = element.numbers("quat", "1 0 0 0", 4)
        _direction(element, quaternion)
        return quaternion_rotation(quaternion)

    def _pose(self, element: Element) -> FloatArray:
        return transform(element.numbers("pos", "0 0 0", 3), self._rotation(element))

    def _inside(self, element: Element, usual: str, at: FloatArray = HERE) -> Iterator[tuple[Element, str, FloatArray]]:
        """Yield the children of a body with their class and what `<frame>` moves them by."""
        for child in element.children:
            if child.tag == "frame":
                yield from self._inside(child, child.attributes.get("childclass", usual), at @ self._pose(child))
            else:
                yield child, usual, at

    def _add_children(self, element: Element, link: str, world: FloatArray, usual: str) -> None:
        for child, own, at in self._inside(element, usual):
            if child.tag == "body":
                self._add_body(child, link, at, world, child.attributes.get("childclass", own))
            elif child.tag == "site":
                site = self._filled(child, own)
                self.sites[site.attributes.get("name", f"site {len(self.sites)}")] = (link, at @ self._pose(site))

    def _add_body(self, element: Element, parent: str, at: FloatArray, world: FloatArray, usual: str) -> None:
        name = element.attributes.get("name", f"body{len(self.poses)}")
        if name in self.poses:
            raise element.error("is defined twice")
        pose = at @ self._pose(element)
        self.poses[name] = world @ pose
        if element.get("mocap", "false") == "true":
            self.handles.add(name)
        if element.attributes.get("gravcomp", "0") != "0" and not self.ours:
            self._lose("gravcomp, so that weights act", name)
        inertia, parameters = self._inertia(element, usual)
        self.links.append(Link(name=name, inertia=inertia - np.array(self.added.get(f"added {name}", np.zeros(10))),
                               parameters=parameters))
        joints = [(self._filled(j, own, "joint"), j.tag, moved_by) for j, own, moved_by in self._inside(element, usual)
                  if j.tag in ("joint", "freejoint")]
        here = parent
        for k, (joint, tag, moved_by) in enumerate(joints):
            child = name if k == len(joints) - 1 else f"{name}.{k + 1}"
            if child != name:
                self.links.append(Link(name=child))
            label = joint.attributes.get("name", f"{name}_joint{k + 1 if k else ''}")
            self.joints.append(self._connection(joint, tag, label, here, child, pose if k == 0 else HERE, moved_by))
            here = child
        if not joints:
            self.joints.append(Connection(name=f"{name}_fixed", parent=parent, child=name, placement=pose))
        self._merge_platform(name, len(joints))
        self._add_children(element, name, self.poses[name], usual)

    def _connection(self, joint: Element, tag: str, name: str, parent: str, child: str, pose: FloatArray,
                    by: FloatArray) -> Connection:
        kind = "free" if tag == "freejoint" else joint.get("type", "hinge")
        if kind in ("free", "ball") and any(_first(joint, key) for key in TERM if key != "springref"):
            self._lose("friction, springs and rotors of joints with several motions", name)
        if kind == "free":
            if parent != WORLD:
                raise joint.error("is free inside another body; only bodies of the world can be")
            return Connection(name=name, parent=parent, child=child, motions=FREE, start=free_coordinates(pose))
        position = by @ transform(joint.numbers("pos", "0 0 0", 3))
        back = inverse(position)
        if kind == "ball":
            return Connection(name=name, parent=parent, child=child, placement=pose @ position, after=back,
                              motions=BALL)
        if kind not in ("hinge", "slide"):
            raise joint.error(f"unknown type '{kind}'; expected hinge, slide, ball or free")
        turning = kind == "hinge"
        motion = cast(Motion, ("revolute" if turning else "prismatic",
                               tuple(map(float, _direction(joint, joint.numbers("axis", "0 0 1", 3))))))
        self.refs[name] = ref = self._scaled(joint, "ref", turning)
        return Connection(
            name=name, parent=parent, child=child, motions=(motion,), start=(ref,), after=back,
            placement=pose @ position @ moved(*motion, -ref), limits=self._limits(joint, turning),
            values=self._values(joint, turning))

    def _scaled(self, joint: Element, key: str, turning: bool) -> float:
        value = joint.number(key, 0.0)
        return self._angle(value) if turning else value

    def _limits(self, joint: Element, turning: bool) -> Limits:
        limited = joint.attributes.get("limited", "auto")
        said = limited == "true" or (limited == "auto" and self.compiler.get("autolimits", "true") == "true")
        low, high = joint.numbers("range", "0 0", 2)
        effort = max(map(abs, joint.numbers("actuatorfrcrange", "0 0", 2)))
        scale = self._angle(1.0) if turning else 1.0
        return Limits(position=(low * scale, high * scale) if said and low < high else None, effort=effort or None)

    def _values(self, joint: Element, turning: bool) -> dict[str, float]:
        """Return the coefficients of joint terms; a spring k (q - q0) is k q and the constant -k q0."""
        if any(joint.numbers("springdamper", "0 0")):
            raise joint.error("springdamper is not read; give the stiffness and damping that MuJoCo makes of it")
        found = {TERM[key]: _first(joint, key) for key in ("armature", "damping", "frictionloss")}
        stiffness, rest = _first(joint, "stiffness"), self._scaled(joint, "springref", turning)
        if abs(rest) < FAR:
            found[TERM["stiffness"]] = stiffness
        found[TERM["springref"]] = -stiffness * rest
        return {name: value for name, value in found.items() if value}

    def _inertia(self, body: Element, usual: str) -> tuple[FloatArray, tuple[str, ...] | None]:
        inertial, how = body.find("inertial"), self.compiler.get("inertiafromgeom", "auto")
        if inertial is not None and how != "true":
            return self._bounded(self._given(inertial)), None
        if how == "false":
            return np.zeros(10), None
        low, high = self.compiler.numbers("inertiagrouprange", "0 5", 2)
        total, unknown = np.zeros(10), False
        for child, own, at in self._inside(body, usual):
            if child.tag != "geom":
                continue
            geom = self._filled(child, own)
            if not low <= geom.number("group", 0.0) <= high or geom.get("type", "sphere") in ("plane", "hfield"):
                continue
            if geom.attributes.get("mesh") is None and geom.get("type", "sphere") not in ("mesh", "sdf"):
                pose, sizes = self._placed(geom)
                total += solid(geom, sizes, at @ pose)
            else:
                unknown |= geom.number("mass", 1.0) != 0.0 and geom.number("density", 1000.0) != 0.0
        if unknown:
            return np.zeros(10), INERTIAL
        return self._bounded(total), None

    def _given(self, inertial: Element) -> FloatArray:
        six = (*inertial.numbers("diaginertia", "0 0 0", 3), 0.0, 0.0, 0.0)
        if "fullinertia" in inertial.attributes:
            six = inertial.numbers("fullinertia", count=6)
        at = dict(zip(("ixx", "iyy", "izz", "ixy", "ixz", "iyz"), six))
        return solid_body(inertial, inertial.number("mass"), self._pose(inertial), at)

    def _bounded(self, parameters: FloatArray) -> FloatArray:
        """Apply the compiler's lower bounds of mass and principal inertias."""
        mass, inertia = (self.compiler.number(key, 0.0) for key in ("boundmass", "boundinertia"))
        if not mass and not inertia:
            return parameters
        own, centre, about = about_centre(parameters)
        moments, axes = np.linalg.eigh(about)
        return ten_parameters(max(own, mass), axes @ np.diag(np.maximum(moments, inertia)) @ axes.T, transform(centre))

    def _placed(self, geom: Element) -> tuple[FloatArray, tuple[float, ...]]:
        """Return pose and size of a shape; `fromto` gives the middle, the axis and half the length."""
        sizes = geom.numbers("size", "0 0 0")
        if "fromto" not in geom.attributes:
            return self._pose(geom), sizes
        ends = np.reshape(geom.numbers("fromto", count=6), (2, 3))
        along = ends[0] - ends[1]
        width = sizes[:1] * (2 if geom.get("type", "sphere") in ("box", "ellipsoid") else 1)
        return transform(ends.mean(axis=0), _tilted(_direction(geom, along))), (
            *width, float(np.linalg.norm(along)) / 2)

    def _merge_platform(self, body: str, count: int) -> None:
        """Write the joints of a platform that Gough exported in the base frame again, if that is the same."""
        chain = self.joints[-count:] if count else []
        known = dict(zip((f"{body}.{word}" for word in ("x", "y", "z", "rx", "ry", "rz")), FREE))
        if not chain or chain[0].parent != WORLD or any(j.name not in known or j.values for j in chain):
            return
        motions = [known[joint.name] for joint in chain]
        pose = HERE
        for (kind, axis), joint in zip(motions, chain):
            pose = pose @ moved(kind, axis, joint.start[0])
        if np.abs(pose - self.poses[body]).max() < 1e-9:
            self.joints[-count:] = [replace(joint, motions=(motion,), placement=HERE, after=HERE)
                                    for joint, motion in zip(chain, motions)]
            self.task = [joint.name for joint in chain]

    def _start(self) -> None:
        """Start at the keyframe `home`, or the first, where there is one."""
        keys = [key for part in self.root.all("keyframe") for key in part.all("key") if "qpos" in key.attributes]
        key = next((key for key in keys if key.attributes.get("name") == "home"), keys[0] if keys else None)
        moving = [joint for joint in self.joints if joint.motions]
        widths = [{1: 1, 3: 4, 6: 7}[len(joint.motions)] for joint in moving]
        if key is None or len(key.numbers("qpos")) != sum(widths):
            return
        parts = np.split(np.array(key.numbers("qpos")), np.cumsum(widths)[:-1])
        starts = dict[str, tuple[float, ...]]()
        for joint, part in zip(moving, parts):
            if len(part) == 1:
                starts[joint.name] = (float(part[0]),)
            else:
                _direction(key, part[-4:])
                pose = transform(part[:3] if len(part) == 7 else (0, 0, 0), quaternion_rotation(part[-4:]))
                starts[joint.name] = free_coordinates(pose)[-len(joint.motions):]
        self.joints = [replace(j, start=starts[j.name]) if j.name in starts else j for j in self.joints]

    def _joint(self, element: Element, key: str) -> Connection:
        name = element.get(key)
        found = next((joint for joint in self.joints if joint.name == name), None)
        if found is None or len(found.motions) != 1:
            raise element.error(f"names '{name}', which is no hinge or slide of the model")
        return found

    def _motors(self) -> list[str]:
        found = []
        for actuator in (child for part in self.root.all("actuator") for child in part.children):
            whole = self._filled(actuator, "main")
            if actuator.tag == "adhesion":
                self._lose("adhesion", actuator.attributes.get("name", ""))
                continue
            gear = whole.numbers("gear", "1")[0]
            if "tendon" in whole.attributes:
                found.append(self._pulled(whole, self._tendon(whole, "tendon")))
                continue
            key = next((key for key in ("joint", "jointinparent") if key in whole.attributes), None)
            if key is None:
                raise actuator.error("drives no joint; motors on sites, bodies or cranks are not read: give it a "
                                     "joint, or remove it and name other `motors`")
            joint = self._joint(whole, key)
            self._drive(whole, joint, gear)
            found.append(joint.name)
        return list(dict.fromkeys(found))

    def _drive(self, actuator: Element, joint: Connection, gear: float) -> None:
        """Give a joint the limits and the gain of its motor."""
        gain = actuator.numbers("gainprm", "1")[0]
        plain = actuator.tag == "motor" or (actuator.tag == "general" and "biasprm" not in actuator.attributes)
        force = max(map(abs, actuator.numbers("forcerange", "0 0", 2)))
        if not force and plain:
            force = max(map(abs, actuator.numbers("ctrlrange", "0 0", 2))) * abs(gain)
        if gear != 1.0:
            self._lose("gears, so that efforts are those of the joints", f"{joint.name} {gear:g}")
        limit = joint.limits.effort or abs(gear) * force or None
        own = self.ours and actuator.tag == "general"
        driven = replace(joint, limits=replace(joint.limits, effort=limit), gain=gain if own else None)
        self.joints = [driven if other.name == joint.name else other for other in self.joints]

    def _tendon(self, element: Element, key: str) -> Element:
        name = element.get(key)
        for part in self.root.all("tendon"):
            for tendon in part.children:
                if tendon.attributes.get("name") == name:
                    return self._filled(tendon, "main", "tendon")
        raise element.error(f"names the tendon '{name}', which does not exist")

    def _weights(self, tendon: Element) -> dict[str, float]:
        if tendon.tag != "fixed":
            raise tendon.error("a spatial tendon that pulls is not read; replace it by motors or springs at joints, or "
                               "remove it")
        return {self._joint(part, "joint").name: part.number("coef") for part in tendon.all("joint")}

    def _pulled(self, actuator: Element, tendon: Element) -> str:
        """Add a coordinate that is the length of a fixed tendon: a motor there pulls at all its joints, exactly."""
        weights, name = self._weights(tendon), tendon.get("name")
        if any(joint.name == name for joint in self.joints):
            return name
        kinds = {joint.motions[0][0] for joint in self.joints if joint.name in weights}
        kind = "revolute" if kinds == {"revolute"} else "prismatic"
        force = max(map(abs, actuator.numbers("forcerange", "0 0", 2))) * abs(actuator.numbers("gear", "1")[0])
        starts = {joint.name: joint.start[0] for joint in self.joints if joint.name in weights}
        self.links.append(Link(name=f"{name}.length"))
        self.joints.append(Connection(
            name=name, parent=WORLD, child=f"{name}.length", motions=(cast(Motion, (kind, FREE[2][1])),),
            start=(sum(c * starts[j] for j, c in weights.items()),), limits=Limits(effort=force or None),
            values=self._values(tendon, False)))
        self.tied.append(Loop(name=f"{name}.tendon", kind="coupling",
                               coefficients={name: 1.0, **{j: -c for j, c in weights.items()}}))
        self.notes.append(f"the motor of the tendon '{name}' drives the coordinate '{name}', its length")
        return name

    def _loops(self) -> list[Loop]:
        loops = list(self.tied)
        for n, element in enumerate(child for part in self.root.all("equality") for child in part.children):
            whole = self._filled(element, "main", "equality")
            name = whole.attributes.get("name", f"{element.tag}{n + 1}")
            if whole.get("active", "true") == "false":
                self._lose("equality that is not active", name)
            elif element.tag in ("connect", "weld"):
                ends = self._ends(whole)
                if self.handles & {body for body, _ in ends}:
                    self._lose("equality with mocap bodies, which only pull in simulators", name)
                    continue
                loops.append(Loop(name=name, kind="point" if element.tag == "connect" else "weld", frames=ends))
            elif element.tag == "joint":
                loops.append(self._coupling(whole, name))
            elif element.tag == "tendon":
                loops.append(self._held(whole, name))
            else:
                raise element.error("is not read; expected connect, weld, joint or tendon")
        driven = {loop.name for loop in self.tied}
        for tendon in (child for part in self.root.all("tendon") for child in part.children):
            whole = self._filled(tendon, "main", "tendon")
            if f"{whole.attributes.get('name')}.tendon" not in driven and any(
                    _first(whole, key) for key in ("stiffness", "damping", "frictionloss", "armature")):
                raise tendon.error("a tendon that is a spring, a damper or rubs is not read; replace it by terms of "
                                   "joints, or remove it")
        return loops

    def _ends(self, whole: Element) -> tuple[Place, ...]:
        if "site1" in whole.attributes:
            names = [whole.get("site1"), whole.get("site2")]
            for name in names:
                if name not in self.sites:
                    raise whole.error(f"names the site '{name}', which does not exist")
            return tuple(self.sites[name] for name in names)
        first, second = whole.get("body1"), whole.get("body2", WORLD)
        for name in (first, second):
            if name not in self.poses:
                raise whole.error(f"names the body '{name}', which does not exist")
        between = inverse(self.poses[second]) @ self.poses[first]
        if whole.tag == "connect":
            anchor = transform(whole.numbers("anchor", count=3))
            return (first, anchor), (second, transform((between @ anchor)[:3, 3]))
        relative = whole.numbers("relpose", "0 1 0 0 0 0 0", 7)
        if any(relative[3:]):
            return (first, transform(relative[:3], quaternion_rotation(relative[3:]))), (second, HERE)
        return (first, inverse(between)), (second, HERE)

    def _coupling(self, whole: Element, name: str) -> Loop:
        """q1 - ref1 = a0 + a1 (q2 - ref2); higher powers are refused."""
        a0, a1, *more = (*whole.numbers("polycoef", "0 1 0 0 0"), 0.0, 0.0)[:5]
        if any(more):
            raise whole.error("polycoef has powers above the first; only straight couplings are read: leave two "
                              "numbers there, offset and slope where it works")
        first = self._joint(whole, "joint1")
        if "joint2" not in whole.attributes:
            return Loop(name=name, kind="coupling", coefficients={first.name: 1.0},
                        constant=-self.refs[first.name] - a0)
        second = self._joint(whole, "joint2")
        return Loop(name=name, kind="coupling", coefficients={first.name: 1.0, second.name: -a1},
                    constant=-self.refs[first.name] - a0 + a1 * self.refs[second.name])

    def _held(self, whole: Element, name: str) -> Loop:
        """A tendon that keeps the length it has as written: a sum of coordinates, or a rod between two sites."""
        tendon = self._tendon(whole, "tendon1")
        if "tendon2" in whole.attributes or whole.numbers("polycoef", "0")[0]:
            raise whole.error("of two tendons, or with an offset, is not read")
        if tendon.tag == "fixed":
            weights = self._weights(tendon)
            return Loop(name=name, kind="coupling", coefficients=weights,
                        constant=-sum(c * self.refs[joint] for joint, c in weights.items()))
        sites = [part.get("site") for part in tendon.all("site")]
        if len(sites) != 2 or len(tendon.children) != 2 or any(site not in self.sites for site in sites):
            raise tendon.error("is not read: expected two sites and nothing between")
        ends = [self.poses[body] @ at for body, at in (self.sites[site] for site in sites)]
        length = float(np.linalg.norm((ends[0] - ends[1])[:3, 3]))
        return Loop(name=name, kind="distance", frames=tuple(self.sites[site] for site in sites),
                    values={"length": length})


def _everything(element: Element) -> Iterator[Element]:
    yield element
    for child in element.children:
        yield from _everything(child)


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
    return turned(axis if size > 1e-12 else (1.0, 0.0, 0.0), math.atan2(size, float(z[2])))


def _first(element: Element, key: str) -> float:
    """Return the first number of an attribute, zero without; several are a curve."""
    values = element.numbers(key, "0")
    if not values or any(values[1:]):
        raise element.error(f"{key} is '{element.get(key)}'; expected one number, as for a straight law")
    return values[0]
