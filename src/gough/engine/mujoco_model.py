"""A robot as MuJoCo XML: bodies with their joints, loops as equality constraints, motors.

Needs no MuJoCo.

MuJoCo takes the pose in which a model is written as its reference
(`qpos0`), and holds tendons at the length they have there. So the robot
is written in its reference configuration, with its loops closed, and
each joint's `ref` is its coordinate there: MuJoCo's coordinates are
Gough's. `connect` and `weld` hold sites together, which needs no
reference.

MuJoCo's constraints are soft: they yield by about one part in ten
thousand of the force they transmit (`SOLVER_IMPEDANCE`) and return
within two time steps. Tendons ignore the centripetal acceleration at
first (MuJoCo includes it for `connect` and `weld`, since 3.7) and
return likewise.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple
from xml.etree.ElementTree import Element, SubElement, indent, tostring

import numpy as np

from gough.core.arrays import FloatArray
from gough.core.errors import InvalidInput
from gough.core.inertia import about_centre
from gough.engine.model import Model
from gough.mechanism.closures import CLOSURES
from gough.mechanism.types import BASE, Closure, Frame, Joint

# Impedance of loops and dry friction: the largest that MuJoCo accepts.
SOLVER_IMPEDANCE = "0.9999 0.9999 0.001 0.5 2"
# Distance of the two points that hold an axis, in lengths of the robot.
# With 0.2 the platform of a robot with six chains tilts by 0.7 %.
AXIS_ARM = 2.0
# Negative inertia about the centre of mass that is rounding, relative
# to the sum of inertias.
INERTIA_ROUNDING = 1e-9
# added to bodies without thickness, which MuJoCo refuses [kg m2]
MIN_INERTIA = 1e-12


class MujocoBody(NamedTuple):
    """A body of the MuJoCo model and the joints before it.

    The joints are its own and those of massless bodies between it and
    its parent, base first.
    """

    body: str
    parent: str
    joints: tuple[Joint, ...]


def bodies_of(
    model: Model, massive: Iterable[str], without: Iterable[str] = ()
) -> list[MujocoBody]:
    """Return the bodies that MuJoCo needs.

    These are bodies with mass, and massless ones that end, branch or
    close a chain. MuJoCo gives a body several joints, so that a
    massless body that only links two is not needed.

    Args:
        massive: Bodies with mass.
        without: Bodies to leave out, besides the sliders of force
            elements, which are tendons.
    """
    excluded = {*without, *model.mechanism.forces}
    joints = [joint for joint in model.mechanism.joints if joint.child not in excluded]
    n_children = Counter(joint.parent for joint in joints)
    kept = {*massive, *closed_bodies(model)}
    # By massless body: the body at which its chain starts, and the
    # joints of the chain.
    chains: dict[str, tuple[str, tuple[Joint, ...]]] = {}
    bodies = []
    for joint in joints:
        parent, before = chains.get(joint.parent, (joint.parent, ()))
        chain = (*before, joint)
        if joint.child in kept or n_children[joint.child] != 1:
            bodies.append(MujocoBody(joint.child, parent, chain))
        else:
            chains[joint.child] = (parent, chain)
    return bodies


def closed_bodies(model: Model) -> set[str]:
    """Return the bodies at which closures act."""
    bodies: set[str] = set()
    for closure in model.mechanism.closures:
        bodies.update(frame.body for frame in closure.frames)
    return bodies


class MujocoScene:
    """A robot being written: elements of its bodies, reference poses, loops and motors.

    Args:
        links: Bodies with their joints.
        timestep: The loops are as stiff as it allows. [s]
        tolerance: Of MuJoCo's solver.

    Attributes:
        poses: Of all bodies in the reference configuration, (4, 4).
        root: The XML element of the model; default, tendon, equality
            and actuator are its children.
        bodies: XML elements by body.
    """

    def __init__(
        self,
        model: Model,
        links: list[MujocoBody],
        *,
        timestep: float,
        tolerance: float = 1e-12,
    ) -> None:
        self.model = model
        self.links = links
        rotations, origins = model.kinematics.body_poses(model.home[None])
        self.poses = {BASE: np.eye(4)}
        for body, rotation, origin in zip(model.mechanism.bodies, rotations[0], origins[0]):
            pose = np.eye(4)
            pose[:3, :3] = rotation
            pose[:3, 3] = origin
            self.poses[body.name] = pose
        self.root = Element("mujoco", model=xml_text(model.mechanism.name))
        SubElement(self.root, "compiler", angle="radian")
        SubElement(
            self.root,
            "option",
            timestep=repr(timestep),
            gravity=xml_numbers(model.mechanism.gravity),
            integrator="implicitfast",
            tolerance=repr(tolerance),
            iterations="200",
        )
        self.default = SubElement(self.root, "default")
        solref = f"{2 * timestep!r} 1"
        for element in ("joint", "tendon"):
            SubElement(
                self.default,
                element,
                solreffriction=solref,
                solimpfriction=SOLVER_IMPEDANCE,
            )
        SubElement(self.default, "equality", solref=solref, solimp=SOLVER_IMPEDANCE)
        self.bodies = {BASE: SubElement(self.root, "worldbody")}
        self.tendon = SubElement(self.root, "tendon")
        self.equality = SubElement(self.root, "equality")
        self.actuator = SubElement(self.root, "actuator")

    def add_links(
        self,
        inertia: Mapping[str, FloatArray],
        attributes: Mapping[str, Mapping[str, str]],
    ) -> None:
        """Add all bodies with their joints in the reference configuration.

        Args:
            inertia: Ten inertial parameters by body.
            attributes: Further XML attributes by joint.
        """
        home = dict(zip(self.model.mechanism.coordinates, self.model.home.tolist()))
        for link in self.links:
            to_body = np.linalg.inv(self.poses[link.body])
            element = SubElement(self.bodies[link.parent], "body", name=xml_text(link.body))
            self.bodies[link.body] = element
            _set_pose(
                element,
                np.linalg.inv(self.poses[link.parent]) @ self.poses[link.body],
            )
            for joint in link.joints:
                frame = to_body @ self.poses[joint.parent] @ joint.placement.matrix
                values = {
                    "name": xml_text(joint.name),
                    "type": "slide",
                    "axis": xml_numbers(frame[:3, :3] @ joint.direction),
                    "ref": repr(home[joint.name]),
                }
                if joint.kind == "revolute":
                    values["type"] = "hinge"
                    values["pos"] = xml_numbers(frame[:3, 3])
                SubElement(
                    element,
                    "joint",
                    values | dict(attributes.get(joint.name, {})),
                )
            _add_inertial(element, inertia[link.body])

    def add_site(self, frame: Frame, name: str, along: float = 0.0) -> str:
        """Add a site at a frame, moved along its z axis [m]; return its name."""
        offset = np.eye(4)
        offset[2, 3] = along
        site = SubElement(self.bodies[frame.body], "site", name=xml_text(name))
        _set_pose(site, frame.placement.matrix @ offset)
        return xml_text(name)

    def add_rod(
        self,
        name: str,
        frames: Iterable[Frame],
        attributes: Mapping[str, str] | None = None,
    ) -> str:
        """Add a tendon between two frames and return its name."""
        values = {"name": xml_text(name), "width": "0.005"}
        rod = SubElement(self.tendon, "spatial", values | dict(attributes or {}))
        for end, frame in zip("ab", frames):
            SubElement(rod, "site", site=self.add_site(frame, f"{name}.{end}"))
        return xml_text(name)

    def add_closure(self, closure: Closure, light: FloatArray | None = None) -> None:
        """Add the elements that close a loop, those of its kind's `mjcf`.

        connect, weld: of the sites a and b.

        axis: a second `connect` along the z axes; one of its equations
        is redundant.

        slider: a light body that slides in three directions on the
        first one and replaces it.

        rod: a `spatial` tendon of constant length.

        sum: a `fixed` tendon, the weighted sum of coordinates, of
        constant length.

        reel: both tendons, one as long as the other.

        Args:
            light: Ten inertial parameters of the slider's body, if
                there is one.
        """
        elements = CLOSURES[closure.kind].mjcf
        if elements is None:
            raise InvalidInput(
                f"closure '{closure.name}' of kind {closure.kind} has no form in MuJoCo",
                closure=closure.name,
            )
        frames = list(closure.frames)
        if "slider" in elements:
            if light is None:
                raise InvalidInput(
                    f"closure '{closure.name}' of kind {closure.kind} has no form in MuJoCo "
                    "without a body added to it",
                    closure=closure.name,
                )
            frames[0] = self._add_slider(closure, light)
        for element in elements:
            if element in ("connect", "weld"):
                self._add_site_pair(element, closure.name, frames)
            elif element == "axis":
                self._add_site_pair("connect", closure.name, frames, self._axis_arms(closure))
            elif element in ("rod", "sum", "reel"):
                self._add_tendon_equality(element, closure, frames)

    def _add_site_pair(
        self,
        element: str,
        name: str,
        frames: Sequence[Frame],
        arms: tuple[float, float] | None = None,
    ) -> None:
        """Add an equality of two sites.

        Args:
            frames: Of the sites.
            arms: How far the sites are moved along the z axes of their
                frames. [m]
        """
        suffix = "" if arms is None else ".z"
        along_a, along_b = arms or (0.0, 0.0)
        site1 = self.add_site(frames[0], f"{name}.a{suffix}", along_a)
        site2 = self.add_site(frames[1], f"{name}.b{suffix}", along_b)
        label = xml_text(name) + suffix
        SubElement(self.equality, element, name=label, site1=site1, site2=site2)

    def _axis_arms(self, closure: Closure) -> tuple[float, float]:
        """Return distances along the z axes of the frames at which their points coincide. [m]

        The axes may be parallel or opposite, as in the reference
        configuration.
        """
        axes = []
        for frame in closure.frames:
            axes.append((self.poses[frame.body] @ frame.placement.matrix)[:3, 2])
        arm = AXIS_ARM * self.model.loops.length
        return arm, float(np.sign(axes[0] @ axes[1])) * arm

    def _add_tendon_equality(self, element: str, closure: Closure, frames: list[Frame]) -> None:
        """Add the tendons of a rod, a sum or a reel and hold their lengths."""
        name = xml_text(closure.name)
        if element == "sum":
            tendons = {"tendon1": self._add_sum(name, closure, 1.0)}
        else:
            tendons = {"tendon1": self.add_rod(closure.name, frames)}
        if element == "reel":  # both are measured from their lengths in the reference configuration
            tendons["tendon2"] = self._add_sum(f"{name}.reel", closure, -1.0)
        SubElement(self.equality, "tendon", {"name": name} | tendons)

    def _add_sum(self, name: str, closure: Closure, factor: float) -> str:
        """Add the weighted sum of coordinates of a closure as a tendon."""
        fixed = SubElement(self.tendon, "fixed", name=name)
        for joint, coefficient in closure.coefficients.items():
            SubElement(
                fixed,
                "joint",
                joint=xml_text(joint),
                coef=repr(float(factor * coefficient)),
            )
        return name

    def xml(self) -> str:
        """Return the model as text."""
        for element in (self.tendon, self.equality):
            if not len(element):
                self.root.remove(element)
        indent(self.root)
        return tostring(self.root, encoding="unicode") + "\n"

    def _add_slider(self, closure: Closure, parameters: FloatArray) -> Frame:
        """Add a light body with the orientation of frame a that follows the origin of frame b."""
        a, b = closure.frames
        body = slider_name(closure)
        b_in_a = np.linalg.inv(self.poses[a.body]) @ self.poses[b.body] @ b.placement.matrix
        pose = np.array(a.placement.matrix)
        pose[:3, 3] = b_in_a[:3, 3]
        element = SubElement(self.bodies[a.body], "body", name=xml_text(body), gravcomp="1")
        self.bodies[body] = element
        _set_pose(element, pose)
        _add_inertial(element, parameters)
        for axis, direction in zip("xyz", np.eye(3)):
            SubElement(
                element,
                "joint",
                name=xml_text(f"{body}.{axis}"),
                type="slide",
                axis=xml_numbers(direction),
            )
        return Frame(body=body)


def slider_name(closure: Closure) -> str:
    """Return the name of the light body of a closure."""
    return f"{closure.name}.slider"


def xml_text(name: str) -> str:
    """Return a name with characters that XML does not allow replaced."""
    return re.sub(r"[^\x20-\ud7ff\ue000-\ufffd]", "_", name)


def xml_numbers(values: Iterable[float]) -> str:
    """Return numbers with all digits; rounding errors of zero are written as zero."""
    array = np.array(list(values), dtype=float)
    array[np.abs(array) < 1e-15] = 0.0
    return " ".join(repr(value) for value in array.tolist())


def _add_inertial(body: Element, parameters: FloatArray) -> None:
    """Add the inertia of a body.

    Args:
        parameters: Ten inertial parameters about the frame of the body.
    """
    mass, centre, inertia = about_centre(parameters)
    name = body.get("name")
    if not mass > 0:
        raise InvalidInput(
            f"body '{name}' has the mass {mass:g} kg; MuJoCo simulates only physically consistent "
            "bodies"
        )
    trace = float(np.trace(inertia))
    # Smallest second moment of mass: zero for a flat body.
    thickness = float(np.linalg.eigvalsh(0.5 * trace * np.eye(3) - inertia)[0])
    if not thickness >= -INERTIA_ROUNDING * trace:
        raise InvalidInput(
            f"body '{name}' has inertias that no body can have about its centre of mass; MuJoCo "
            "simulates only physically consistent bodies"
        )
    inertia = inertia + max(0.0, MIN_INERTIA - 2 * thickness) * np.eye(3)
    entries = ((0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 2))
    SubElement(
        body,
        "inertial",
        pos=xml_numbers(centre),
        mass=repr(mass),
        fullinertia=" ".join(repr(float(inertia[entry])) for entry in entries),
    )


def _set_pose(element: Element, pose: FloatArray) -> None:
    """Set position and orientation of an element to a pose (4, 4)."""
    element.set("pos", xml_numbers(pose[:3, 3]))
    if not np.array_equal(pose[:3, :3], np.eye(3)):
        element.set("xyaxes", xml_numbers(pose[:3, :2].T.ravel()))
