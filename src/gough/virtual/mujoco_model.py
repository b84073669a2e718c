"""A robot as MuJoCo XML: bodies with their joints, loops as equality constraints, motors.

Needs no MuJoCo.

MuJoCo takes the pose in which a model is written as its reference (`qpos0`), and holds tendons at
the length they have there. So the robot is written at home, with its loops closed, and each joint's
`ref` is its coordinate at home: MuJoCo's coordinates are Gough's. `connect` and `weld` hold sites
together, which needs no reference.

MuJoCo's constraints are soft: they give way by about one part in ten thousand of what they carry
(`SOLIMP`) and pull back within two time steps. Tendons ignore the centripetal acceleration at first
(MuJoCo knows it for `connect` and `weld`, since 3.7) and pull it back likewise.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple
from xml.etree.ElementTree import Element, SubElement, indent, tostring

import numpy as np

from gough.core.arrays import FloatArray
from gough.core.errors import InvalidInput
from gough.core.inertia import about_centre
from gough.engine.model import Model
from gough.mechanism.closures import CLOSURES
from gough.mechanism.types import BASE, Closure, Frame, Joint

# impedance of loops and dry friction: the largest MuJoCo takes
SOLIMP = "0.9999 0.9999 0.001 0.5 2"
# between the two points that hold an axis, in sizes of the robot; 0.2 lets six chains tilt by 0.7 %
_ARM = 2.0
ROUND_OFF = 1e-9  # of inertias about the centre of mass, relative to their sum
_FLAT = 1e-12  # MuJoCo wants some thickness: added to the inertia of bodies without [kg m2]


class Link(NamedTuple):
    """A body and the joints before it: its own, and those of massless bodies on the way, base
    first.
    """

    body: str
    parent: str
    joints: tuple[Joint, ...]


def links_of(model: Model, massive: Iterable[str], without: Iterable[str] = ()) -> list[Link]:
    """Return the bodies MuJoCo must have: those with mass, and massless ones that end, branch or
    close a chain.

    MuJoCo gives a body several joints, so that a massless body that only links two vanishes,
    exactly. Left out are the bodies `without`, and the sliders of force elements, which are
    tendons.
    """
    gone = {*without, *model.mechanism.forces}
    joints = [joint for joint in model.mechanism.joints if joint.child not in gone]
    kept = {
        *massive,
        *(frame.body for closure in model.mechanism.closures for frame in closure.frames),
    }
    waiting: dict[
        str, tuple[str, tuple[Joint, ...]]
    ] = {}  # by massless body: where its chain starts, and the joints
    links = []
    for joint in joints:
        parent, before = waiting.get(joint.parent, (joint.parent, ()))
        if joint.child in kept or sum(other.parent == joint.child for other in joints) != 1:
            links.append(Link(joint.child, parent, (*before, joint)))
        else:
            waiting[joint.child] = (parent, (*before, joint))
    return links


class Scene:
    """A robot being written: elements of its bodies, poses at home, loops and motors.

    The loops are as stiff as the time step [s] allows; `tolerance` is the solver's.
    """

    def __init__(
        self, model: Model, links: list[Link], *, timestep: float, tolerance: float = 1e-12
    ) -> None:
        self.model, self.links = model, links
        rotation, origin = model.kinematics.body_poses(model.home[None])
        self.poses = {BASE: np.eye(4)}
        for body, R, p in zip(model.mechanism.bodies, rotation[0], origin[0]):
            self.poses[body.name] = np.vstack([np.column_stack([R, p]), [0.0, 0.0, 0.0, 1.0]])
        self.root = Element("mujoco", model=text(model.mechanism.name))
        SubElement(self.root, "compiler", angle="radian")
        SubElement(
            self.root,
            "option",
            timestep=repr(timestep),
            gravity=numbers(model.mechanism.gravity),
            integrator="implicitfast",
            tolerance=repr(tolerance),
            iterations="200",
        )
        self.default = SubElement(self.root, "default")
        stiff = f"{2 * timestep!r} 1"
        SubElement(self.default, "joint", solreffriction=stiff, solimpfriction=SOLIMP)
        SubElement(self.default, "tendon", solreffriction=stiff, solimpfriction=SOLIMP)
        SubElement(self.default, "equality", solref=stiff, solimp=SOLIMP)
        self.bodies = {BASE: SubElement(self.root, "worldbody")}
        self.tendon, self.equality = (
            SubElement(self.root, "tendon"),
            SubElement(self.root, "equality"),
        )
        self.actuator = SubElement(self.root, "actuator")

    def add_links(
        self, inertia: Mapping[str, FloatArray], attributes: Mapping[str, Mapping[str, str]]
    ) -> None:
        """Add all bodies with their joints, as they stand at home, and further attributes by
        joint.
        """
        home = dict(zip(self.model.mechanism.coordinates, self.model.home.tolist()))
        for link in self.links:
            back = np.linalg.inv(self.poses[link.body])
            element = SubElement(self.bodies[link.parent], "body", name=text(link.body))
            self.bodies[link.body] = element
            _place(element, np.linalg.inv(self.poses[link.parent]) @ self.poses[link.body])
            for joint in link.joints:
                frame = back @ self.poses[joint.parent] @ joint.placement.matrix
                hinge = joint.kind == "revolute"
                SubElement(
                    element,
                    "joint",
                    {
                        "name": text(joint.name),
                        "type": "hinge" if hinge else "slide",
                        "axis": numbers(frame[:3, :3] @ joint.direction),
                        "ref": repr(home[joint.name]),
                        **({"pos": numbers(frame[:3, 3])} if hinge else {}),
                        **attributes.get(joint.name, {}),
                    },
                )
            _add_inertial(element, inertia[link.body])

    def add_site(self, frame: Frame, name: str, along: float = 0.0) -> str:
        """Add a site at a frame, or some way along its z axis; return its name."""
        offset = np.eye(4)
        offset[2, 3] = along
        site = SubElement(self.bodies[frame.body], "site", name=text(name))
        _place(site, frame.placement.matrix @ offset)
        return text(name)

    def add_rod(
        self, name: str, frames: Iterable[Frame], attributes: Mapping[str, str] | None = None
    ) -> str:
        """Add a tendon between two frames and return its name."""
        rod = SubElement(
            self.tendon, "spatial", {"name": text(name), "width": "0.005"} | dict(attributes or {})
        )
        for end, frame in zip("ab", frames):
            SubElement(rod, "site", site=self.add_site(frame, f"{name}.{end}"))
        return text(name)

    def add_closure(self, closure: Closure, light: FloatArray | None = None) -> None:
        """Add what closes a loop, by the elements of its kind's `mjcf`.

        connect, weld: of the sites a and b; axis: a second `connect` along the z axes (one of its
        equations repeats);
        slider: a light body (10 parameters) that slides in three directions on the first and stands
        for it; rod: a `spatial` tendon of constant length; sum: a `fixed` tendon, the weighted sum
        of coordinates, of constant length;
        reel: both of these, one as long as the other.
        """
        name, elements = text(closure.name), CLOSURES[closure.kind].mjcf
        if elements is None or ("slider" in elements and light is None):
            raise InvalidInput(
                f"closure '{closure.name}' of kind {closure.kind} has no form in MuJoCo"
                f"{'' if elements is None else ' without a body added to it'}",
                closure=closure.name,
            )
        frames = list(closure.frames)
        if "slider" in elements and light is not None:
            frames[0] = self._add_slider(closure, light)
        for element in elements:
            if element in ("connect", "weld"):
                ends = [
                    self.add_site(frame, f"{closure.name}.{end}")
                    for end, frame in zip("ab", frames)
                ]
                SubElement(self.equality, element, name=name, site1=ends[0], site2=ends[1])
            elif element == "axis":
                a, b = (self.poses[f.body] @ f.placement.matrix for f in closure.frames)
                side = float(
                    np.sign(a[:3, 2] @ b[:3, 2])
                )  # parallel also means opposite: as at home
                arm = _ARM * self.model.loops.length
                ahead = [
                    self.add_site(frame, f"{closure.name}.{end}.z", along)
                    for end, frame, along in zip("ab", frames, (arm, side * arm))
                ]
                SubElement(
                    self.equality, "connect", name=f"{name}.z", site1=ahead[0], site2=ahead[1]
                )
            elif element == "rod":
                SubElement(
                    self.equality, "tendon", name=name, tendon1=self.add_rod(closure.name, frames)
                )
            elif element == "sum":
                SubElement(
                    self.equality, "tendon", name=name, tendon1=self._add_sum(name, closure, 1.0)
                )
            elif element == "reel":  # both tendons are measured from their lengths at home
                SubElement(
                    self.equality,
                    "tendon",
                    name=name,
                    tendon1=self.add_rod(closure.name, frames),
                    tendon2=self._add_sum(f"{name}.reel", closure, -1.0),
                )

    def _add_sum(self, name: str, closure: Closure, factor: float) -> str:
        """Add the weighted sum of coordinates of a closure as a tendon."""
        fixed = SubElement(self.tendon, "fixed", name=name)
        for joint, coefficient in closure.coefficients.items():
            SubElement(fixed, "joint", joint=text(joint), coef=repr(float(factor * coefficient)))
        return name

    def xml(self) -> str:
        for part in (self.tendon, self.equality):
            if not len(part):
                self.root.remove(part)
        indent(self.root)
        return tostring(self.root, encoding="unicode") + "\n"

    def _add_slider(self, closure: Closure, parameters: FloatArray) -> Frame:
        """Add a light body with the orientation of frame a, free to follow the origin of b."""
        (a, b), body = closure.frames, slider(closure)
        placed = np.array(a.placement.matrix)
        placed[:3, 3] = (
            np.linalg.inv(self.poses[a.body]) @ self.poses[b.body] @ b.placement.matrix
        )[:3, 3]
        self.bodies[body] = SubElement(self.bodies[a.body], "body", name=text(body), gravcomp="1")
        _place(self.bodies[body], placed)
        _add_inertial(self.bodies[body], parameters)
        for axis, direction in zip("xyz", np.eye(3)):
            SubElement(
                self.bodies[body],
                "joint",
                name=text(f"{body}.{axis}"),
                type="slide",
                axis=numbers(direction),
            )
        return Frame(body=body)


def slider(closure: Closure) -> str:
    return f"{closure.name}.slider"


def text(name: str) -> str:
    """Keep what XML cannot hold out of a name."""
    return re.sub(r"[^\x20-\ud7ff\ue000-\ufffd]", "_", name)


def numbers(values: Iterable[float]) -> str:
    """Return numbers to the last digit, round-off beside one removed."""
    return " ".join(repr(0.0 if abs(v) < 1e-15 else float(v)) for v in values)


def _add_inertial(body: Element, parameters: FloatArray) -> None:
    mass, centre, inertia = about_centre(parameters)
    size = float(np.trace(inertia))
    flat = float(np.linalg.eigvalsh(0.5 * size * np.eye(3) - inertia)[0])
    if not mass > 0 or not flat >= -ROUND_OFF * size:
        what = (
            "inertias that no body can have about its centre of mass"
            if mass > 0
            else f"the mass {mass:g} kg"
        )
        raise InvalidInput(
            f"body '{body.get('name')}' has {what}; MuJoCo simulates only bodies that could exist"
        )
    inertia = inertia + max(0.0, _FLAT - 2 * flat) * np.eye(3)
    places = ((0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 2))
    SubElement(
        body,
        "inertial",
        pos=numbers(centre),
        mass=repr(mass),
        fullinertia=" ".join(repr(float(inertia[i, j])) for i, j in places),
    )


def _place(element: Element, pose: FloatArray) -> None:
    element.set("pos", numbers(pose[:3, 3]))
    if not np.array_equal(pose[:3, :3], np.eye(3)):
        element.set("xyaxes", numbers(pose[:3, :2].T.ravel()))
