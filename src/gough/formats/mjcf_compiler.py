"""What MuJoCo's compiler does with elements of MJCF: defaults, rotations, poses, inertia."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from gough.core.arrays import FloatArray
from gough.core.inertia import about_centre
from gough.core.names import INERTIAL
from gough.formats.geometry import (
    MUJOCO_DENSITY,
    body_parameters,
    inertial_parameters,
    quaternion_rotation,
    shape_parameters,
)
from gough.formats.tree import X_AXIS, Z_AXIS
from gough.formats.xml import Element
from gough.mechanism.placement import IDENTITY, axis_rotation, transform

SHORTEST_VECTOR = 1e-9  # shorter ones have no direction
# class -> tag -> attributes
_DefaultClasses = dict[str, dict[str, dict[str, str]]]


def apply_defaults(root: Element) -> None:
    """Give all elements the attributes of their default classes, as MuJoCo does."""
    classes: _DefaultClasses = {"main": {}}
    for element in root.all("default"):
        _define_class(classes, element, "main", element.attributes.get("class", "main"))
    for section in root.all("worldbody", "actuator", "equality", "tendon"):
        for child in section.children:
            tag = section.tag if section.tag in ("equality", "tendon") else child.tag
            _apply_class(classes, child, "main", tag)


def _define_class(classes: _DefaultClasses, element: Element, parent: str, name: str) -> None:
    """Read a `<default>` and those inside it, which inherit from it."""
    attributes = {tag: dict(inherited) for tag, inherited in classes[parent].items()}
    classes[name] = attributes
    for child in element.children:
        if child.tag != "default":
            attributes.setdefault(child.tag, {}).update(child.attributes)
    for child in element.all("default"):
        _define_class(classes, child, name, child.get("class"))


def _apply_class(classes: _DefaultClasses, element: Element, default: str, tag: str) -> None:
    """Give an element and those inside it the attributes of their classes.

    Args:
        classes: All classes.
        element: The element.
        default: Class of an element that names none.
        tag: Tag under which the class has its attributes.
    """
    name = element.attributes.get("class", default)
    if name not in classes:
        raise element.error(f"names the class '{name}', which no <default> defines")
    element.attributes = classes[name].get(tag, {}) | element.attributes
    for child in element.children:
        child_class = element.attributes.get("childclass", default)
        child_tag = "joint" if child.tag == "freejoint" else child.tag
        _apply_class(classes, child, child_class, child_tag)


def unit_vector(element: Element, vector: Any) -> FloatArray:
    """Return a vector scaled to length one; raise if it has none."""
    length = float(np.linalg.norm(vector))
    if not length > SHORTEST_VECTOR:
        raise element.error("has a direction of no length")
    return np.asarray(vector, dtype=float) / length


def _rotation_to(direction: FloatArray) -> FloatArray:
    """Return the shortest rotation that turns the z axis into a direction, (3, 3)."""
    axis = np.cross(Z_AXIS, direction)
    sine = float(np.linalg.norm(axis))
    angle = math.atan2(sine, float(direction[2]))
    return axis_rotation(axis if sine > 1e-12 else X_AXIS, angle)


class Compiler:
    """Settings of `<compiler>`, and what depends on them."""

    def __init__(self, root: Element) -> None:
        settings: dict[str, str] = {}
        for element in root.all("compiler"):
            settings |= element.attributes
        self.settings = Element("compiler", settings, root.source, root.line)
        if self.settings.get("coordinate", "local") != "local":
            raise self.settings.error(
                "global coordinates are not read, as in MuJoCo since 2.3.4; convert the model "
                "with an older one"
            )
        self.angle_unit = 1.0  # [rad]
        if self.settings.get("angle", "degree") != "radian":
            self.angle_unit = math.radians(1.0)
        self.auto_limits = self.settings.is_true("autolimits", "true")

    def rotation(self, element: Element) -> FloatArray:
        """Return the rotation of an element, however it is given, (3, 3)."""
        given = element.attributes
        if "axisangle" in given:
            *axis, angle = element.numbers("axisangle", count=4)
            return axis_rotation(unit_vector(element, axis), self._radians(angle))
        if "euler" in given:
            return self._euler_rotation(element)
        if "xyaxes" in given:
            numbers = np.array(element.numbers("xyaxes", count=6))
            x = unit_vector(element, numbers[:3])
            y = unit_vector(element, numbers[3:] - x * (x @ numbers[3:]))
            return np.column_stack([x, y, np.cross(x, y)])
        if "zaxis" in given:
            return _rotation_to(unit_vector(element, element.numbers("zaxis", count=3)))
        return quaternion_rotation(unit_vector(element, element.numbers("quat", "1 0 0 0", 4)))

    def _radians(self, angle: float) -> float:
        return angle if self.angle_unit == 1.0 else math.radians(angle)

    def _euler_rotation(self, element: Element) -> FloatArray:
        """Return a rotation by angles about axes that move (small letters) or are fixed."""
        sequence = self.settings.get("eulerseq", "xyz")
        rotation = np.eye(3)
        for letter, angle in zip(sequence, element.numbers("euler", count=3)):
            if letter.lower() not in "xyz":
                raise element.error(f"eulerseq has the letter '{letter}', expected x, y, z")
            axis = np.eye(3)["xyz".index(letter.lower())]
            turn = axis_rotation(axis, self._radians(angle))
            rotation = rotation @ turn if letter.islower() else turn @ rotation
        return rotation

    def pose(self, element: Element) -> FloatArray:
        """Return the pose of an element in its parent, (4, 4)."""
        return transform(element.numbers("pos", "0 0 0", 3), self.rotation(element))

    def children(
        self, element: Element, pose: FloatArray = IDENTITY
    ) -> Iterator[tuple[Element, FloatArray]]:
        """Yield the children of a body, those inside `<frame>` too, with the frame's pose."""
        for child in element.children:
            if child.tag == "frame":
                yield from self.children(child, pose @ self.pose(child))
            else:
                yield child, pose

    def inertia(self, body: Element) -> tuple[FloatArray, tuple[str, ...] | None]:
        """Return the inertia of a body, given or of its shapes, and its parameters.

        The parameters are None, see `Link`. The inertia of a mesh is
        not known: it is then zero, and all parameters are to be
        identified.
        """
        inertial = body.find("inertial")
        from_shapes = self.settings.get("inertiafromgeom", "auto")
        if inertial is not None and from_shapes != "true":
            ixx, iyy, izz = inertial.numbers("diaginertia", "0 0 0", 3)
            entries = {
                "ixx": ixx,
                "iyy": iyy,
                "izz": izz,
                "ixy": 0.0,
                "ixz": 0.0,
                "iyz": 0.0,
            }
            if "fullinertia" in inertial.attributes:
                entries = dict(zip(entries, inertial.numbers("fullinertia", count=6)))
            pose = self.pose(inertial)
            given = body_parameters(inertial, inertial.number("mass"), pose, entries)
            return self._bounded(given), None
        total = np.zeros(10)
        if from_shapes == "false":
            return total, None
        has_mesh = False
        low, high = self.settings.numbers("inertiagrouprange", "0 5", 2)
        for geom, frame in self.children(body):
            kind = "mesh" if "mesh" in geom.attributes else geom.get("type", "sphere")
            if geom.tag != "geom" or kind in ("plane", "hfield"):
                continue
            if not low <= geom.number("group", 0.0) <= high:
                continue
            if kind not in ("mesh", "sdf"):
                pose, sizes = self._shape(geom)
                total += shape_parameters(geom, sizes, frame @ pose)
            elif geom.number("mass", 1.0) and geom.number("density", MUJOCO_DENSITY):
                has_mesh = True
        if has_mesh:
            return np.zeros(10), INERTIAL
        return self._bounded(total), None

    def _bounded(self, parameters: FloatArray) -> FloatArray:
        """Apply the lower bounds of mass and principal inertias."""
        least_mass = self.settings.number("boundmass", 0.0)
        least_inertia = self.settings.number("boundinertia", 0.0)
        if not least_mass and not least_inertia:
            return parameters
        mass, centre, inertia = about_centre(parameters)
        moments, axes = np.linalg.eigh(inertia)
        bounded = axes @ np.diag(np.maximum(moments, least_inertia)) @ axes.T
        return inertial_parameters(max(mass, least_mass), bounded, transform(centre))

    def _shape(self, geom: Element) -> tuple[FloatArray, tuple[float, ...]]:
        """Return pose and sizes of a shape.

        `fromto` gives the middle, the axis and half the length.
        """
        sizes = geom.numbers("size", "0 0 0")
        if "fromto" not in geom.attributes:
            return self.pose(geom), sizes
        ends = np.reshape(geom.numbers("fromto", count=6), (2, 3))
        axis = ends[0] - ends[1]
        pose = transform(ends.mean(axis=0), _rotation_to(unit_vector(geom, axis)))
        half_length = float(np.linalg.norm(axis)) / 2
        across = sizes[:1]
        if geom.get("type", "sphere") in ("box", "ellipsoid"):
            across *= 2
        return pose, (*across, half_length)
