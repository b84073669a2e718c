"""Errors of a robot's geometry, named in the terms of the robot file.

An error moves or tilts the frame of a joint or one end of a closure on
the body that carries it, or changes a length of a closure. Positions
are given along the axes in which the file gives them: radial and
tangential for a point in polar coordinates, along a link for its
length, otherwise along x, y, z of the body. Errors of one kind in all
legs of a kind, such as the radius of the base joints, are listed as one
error, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from gough.core.arrays import FloatArray
from gough.core.errors import InvalidInput
from gough.core.names import inside_leg, words
from gough.mechanism.closures import CLOSURES
from gough.mechanism.placement import Placement, axis_rotation, transform
from gough.mechanism.types import BASE, Closure, Joint, Mechanism, Vector

# Cosine above which two directions are parallel: printed angles have
# five digits.
PARALLEL_COSINE = 1 - 1e-9
# Offsets whose lengths agree to this ratio lie on one circle.
CIRCLE_TOLERANCE = 1e-6


@dataclass(frozen=True, kw_only=True)
class Displacement:
    """A change of one placement, or of one length of a closure."""

    element: str  # joint or closure, in full: `leg1.elbow`
    # the frame of a joint, or one of the two of a closure
    end: Literal["joint", "a", "b"]
    # `value`: of a number of a closure
    motion: Literal["translation", "rotation", "value"]
    # Unit vector: of a translation in the frame of the carrying body,
    # of a rotation in the placed frame.
    axis: Vector = (0.0, 0.0, 0.0)
    key: str = ""  # number of the closure that changes, such as `length`


@dataclass(frozen=True, kw_only=True)
class GeometricError:
    """An error of the geometry: one displacement, or equal ones in all legs of a kind."""

    place: str  # in words: `base point of leg1.motor`
    # x, y, z, radial, tangential, length, about x, ...; empty if there
    # is only one
    direction: str
    unit: Literal["m", "rad"]  # of its size
    displacements: tuple[Displacement, ...]  # all by the size of the error
    # legs that it changes alike; none if it is an error of one place
    legs: tuple[str, ...] = ()
    homing: str | None = None  # motor whose homing offset has the same effect

    @property
    def name(self) -> str:
        """Place and direction in words: `base point of leg1.motor, radial`."""
        return f"{self.place}, {self.direction}" if self.direction else self.place


@dataclass(frozen=True, kw_only=True)
class _Site:
    """A placement of the mechanism: the frame of a joint, or an end of a closure."""

    element: str
    end: Literal["joint", "a", "b"]
    body: str  # that carries the frame
    placement: Placement
    leg: str | None

    def place(self, mechanism: Mechanism, *, in_leg: bool = False) -> str:
        """Return the point in words, with full names or with those inside the leg."""
        leg = self.leg if in_leg else None
        element = inside_leg(self.element, leg)
        if self.body == BASE:
            return f"base point of {element}"
        if self.body == mechanism.platform:
            return f"platform point of {element}"
        return f"position of {element} on {inside_leg(self.body, leg)}"

    def on_link(self, mechanism: Mechanism) -> bool:
        """Return whether it is on a moving body other than the platform."""
        return self.body not in (BASE, mechanism.platform)


@dataclass(frozen=True, kw_only=True)
class _Entry:
    """A single error and what it has in common with that of other legs."""

    error: GeometricError
    site: _Site
    place_in_leg: str


def list_geometric_errors(mechanism: Mechanism) -> tuple[GeometricError, ...]:
    """Return the errors that the geometry of a mechanism can have.

    Left out by argument: task coordinates and the sliders of force
    elements, which are no joints; rotation of a joint without motor
    about its own axis, or translation along it, which only shifts its
    coordinate; translation of a single base joint, which moves the
    whole robot. Of motors these are kept and marked as `homing`.
    Constants of couplings are no geometry.
    """
    entries: list[_Entry] = []
    for joint in mechanism.joints:
        if not joint.virtual and joint.name not in mechanism.forces:
            entries += _joint_errors(mechanism, joint)
    for closure in mechanism.closures:
        entries += _closure_errors(mechanism, closure)
    single = [entry.error for entry in entries]
    return (*single, *_common_errors(mechanism, entries))


def displaced(mechanism: Mechanism, amounts: Mapping[GeometricError, float]) -> Mechanism:
    """Return the mechanism with errors of its geometry.

    Args:
        amounts: Size of each error. [m or rad]

    Raises:
        InvalidInput: An error is of another robot.
    """
    joints = {joint.name: joint for joint in mechanism.joints}
    closures = {closure.name: closure for closure in mechanism.closures}
    for error, amount in amounts.items():
        for displacement in error.displacements:
            name = displacement.element
            if displacement.end == "joint" and name in joints:
                placement = _moved(joints[name].placement, displacement, amount)
                joints[name] = replace(joints[name], placement=placement)
            elif displacement.end != "joint" and name in closures:
                closures[name] = _moved_closure(closures[name], displacement, amount)
            else:
                raise InvalidInput(
                    f"'{mechanism.name}' has no '{name}', which '{error.name}' displaces; take "
                    "the errors of this robot from geometric_errors",
                    name=name,
                )
    return replace(mechanism, joints=tuple(joints.values()), closures=tuple(closures.values()))


def _moved(placement: Placement, displacement: Displacement, amount: float) -> Placement:
    """Return a placement with a translation before it or a rotation after it."""
    axis = np.array(displacement.axis)
    if displacement.motion == "translation":
        return Placement.xyz_rpy((amount * axis).tolist()).then(placement)
    turn = transform(rotation=axis_rotation(axis, amount))
    return placement.then(Placement.of(turn))


def _moved_closure(closure: Closure, displacement: Displacement, amount: float) -> Closure:
    """Return a closure with one end or one of its numbers changed."""
    if displacement.motion == "value":
        changed = closure.values[displacement.key] + amount
        return replace(closure, values={**closure.values, displacement.key: changed})
    frames = dict(zip("ab", closure.frames))
    frame = frames[displacement.end]
    placement = _moved(frame.placement, displacement, amount)
    frames[displacement.end] = replace(frame, placement=placement)
    return replace(closure, a=frames["a"], b=frames["b"])


def _joint_errors(mechanism: Mechanism, joint: Joint) -> Iterator[_Entry]:
    """Yield the errors of a joint's placement: three translations, two tilts, homing."""
    site = _Site(
        element=joint.name,
        end="joint",
        body=joint.parent,
        placement=joint.placement,
        leg=joint.leg,
    )
    axis_on_body = joint.placement.rotation @ joint.direction
    if not _carries_the_robot(mechanism, joint):
        for direction, axis in _directions(mechanism, site):
            if joint.kind == "revolute" or not _parallel(axis, axis_on_body):
                yield _translation(mechanism, site, direction, axis)
    for direction, axis in _across(joint.direction):
        yield _tilt(site, direction, axis)
    if joint.actuated:
        yield _homing(site, joint, axis_on_body)


def _closure_errors(mechanism: Mechanism, closure: Closure) -> Iterator[_Entry]:
    """Yield the errors of both frames of a closure, and of its lengths."""
    units = CLOSURES[closure.kind].units
    leg = _leg_of(mechanism, closure.name)
    ends: tuple[Literal["a", "b"], ...] = ("a", "b")
    for end, frame in zip(ends, closure.frames):
        site = _Site(
            element=closure.name,
            end=end,
            body=frame.body,
            placement=frame.placement,
            leg=leg,
        )
        if "m" in units:
            for direction, axis in _directions(mechanism, site):
                yield _translation(mechanism, site, direction, axis)
        if "rad" in units:  # closures with an axis have it along z
            for direction, axis in _across(np.eye(3)[2]):
                yield _tilt(site, direction, axis)
        if units.count("rad") == 3:
            yield _tilt(site, "about z", np.eye(3)[2])
    for key, dimension in CLOSURES[closure.kind].values.items():
        if dimension == "length":
            yield _closure_length(closure, leg, key)


def _translation(mechanism: Mechanism, site: _Site, direction: str, axis: FloatArray) -> _Entry:
    place = site.place(mechanism)
    place_in_leg = site.place(mechanism, in_leg=True)
    if direction == "length":
        place = f"length of {site.body} to {site.element}"
        body = inside_leg(site.body, site.leg)
        place_in_leg = f"length of {body} to {inside_leg(site.element, site.leg)}"
        direction = ""
    displacement = Displacement(
        element=site.element, end=site.end, motion="translation", axis=_vector(axis)
    )
    error = GeometricError(
        place=place, direction=direction, unit="m", displacements=(displacement,)
    )
    return _Entry(error=error, site=site, place_in_leg=place_in_leg)


def _tilt(site: _Site, direction: str, axis: FloatArray) -> _Entry:
    displacement = Displacement(
        element=site.element, end=site.end, motion="rotation", axis=_vector(axis)
    )
    error = GeometricError(
        place=f"axis of {site.element} on {site.body}",
        direction=direction,
        unit="rad",
        displacements=(displacement,),
    )
    element = inside_leg(site.element, site.leg)
    body = inside_leg(site.body, site.leg)
    return _Entry(error=error, site=site, place_in_leg=f"axis of {element} on {body}")


def _homing(site: _Site, joint: Joint, axis_on_body: FloatArray) -> _Entry:
    if joint.kind == "revolute":
        displacement = Displacement(
            element=site.element, end="joint", motion="rotation", axis=_vector(joint.direction)
        )
    else:
        displacement = Displacement(
            element=site.element, end="joint", motion="translation", axis=_vector(axis_on_body)
        )
    error = GeometricError(
        place=f"homing offset of {joint.name}",
        direction="",
        unit="rad" if joint.kind == "revolute" else "m",
        displacements=(displacement,),
        homing=joint.name,
    )
    return _Entry(error=error, site=site, place_in_leg="")


def _closure_length(closure: Closure, leg: str | None, key: str) -> _Entry:
    displacement = Displacement(element=closure.name, end="a", motion="value", key=key)
    error = GeometricError(
        place=f"{key} of {closure.name}", direction="", unit="m", displacements=(displacement,)
    )
    site = _Site(element=closure.name, end="a", body=BASE, placement=Placement(), leg=leg)
    return _Entry(error=error, site=site, place_in_leg=f"{key} of {inside_leg(closure.name, leg)}")


def _common_errors(mechanism: Mechanism, entries: list[_Entry]) -> list[GeometricError]:
    """Return the errors that all legs of a kind have alike."""
    kinds = _leg_kinds(mechanism)
    groups: dict[tuple[str, str, str, str], list[_Entry]] = {}
    for entry in entries:
        leg = entry.site.leg
        if leg is None or entry.error.homing is not None:
            continue
        key = (kinds[leg], entry.place_in_leg, entry.site.end, entry.error.direction)
        groups.setdefault(key, []).append(entry)
    common: list[GeometricError] = []
    for (kind, place, _, direction), members in groups.items():
        legs = [leg for leg in kinds if kinds[leg] == kind]
        if len(legs) < 2 or [entry.site.leg for entry in members] != legs:
            continue
        where = "in all legs" if len(set(kinds.values())) == 1 else f"in all legs '{kind}'"
        displacements = [entry.error.displacements[0] for entry in members]
        error = GeometricError(
            place=f"{place} {where}",
            direction=direction,
            unit=members[0].error.unit,
            displacements=tuple(displacements),
            legs=tuple(legs),
        )
        common.append(error)
        if direction == "x":
            common += _circle(mechanism, error, [entry.site for entry in members])
    return common


def _circle(
    mechanism: Mechanism, error: GeometricError, sites: list[_Site]
) -> list[GeometricError]:
    """Return the error of the radius of base or platform points that lie on one circle.

    Those in polar coordinates have it already.
    """
    offsets = np.array([site.placement.translation for site in sites])
    radii = np.linalg.norm(offsets, axis=1)
    if sites[0].on_link(mechanism) or error.unit != "m":
        return []
    if radii.min() == 0 or np.ptp(radii) > CIRCLE_TOLERANCE * radii.max():
        return []
    displacements = []
    for displacement, offset, radius in zip(error.displacements, offsets, radii):
        displacements.append(replace(displacement, axis=_vector(offset / radius)))
    return [replace(error, direction="radial", displacements=tuple(displacements))]


def _carries_the_robot(mechanism: Mechanism, joint: Joint) -> bool:
    """Return whether a joint is all that connects the robot to the base."""
    on_base = [other.name for other in mechanism.joints if other.parent == BASE]
    closed_on_base = False
    for closure in mechanism.closures:
        closed_on_base |= BASE in [frame.body for frame in closure.frames]
    return on_base == [joint.name] and not closed_on_base


def _leg_kinds(mechanism: Mechanism) -> dict[str, str]:
    """Return the kind of each leg, in the order of the legs."""
    kinds: dict[str, str] = {}
    for joint in mechanism.joints:
        if joint.leg is not None:
            kinds.setdefault(joint.leg, words(joint.template)[0])
    return kinds


def _leg_of(mechanism: Mechanism, name: str) -> str | None:
    """Return the leg that a closure belongs to, by its name."""
    for leg in _leg_kinds(mechanism):
        if inside_leg(name, leg) != name:
            return leg
    return None


def _directions(mechanism: Mechanism, site: _Site) -> list[tuple[str, FloatArray]]:
    """Return the directions in which the file gives a position, on the carrying body.

    If all offsets of a placement are along axes of one turned frame,
    these axes are taken; otherwise those of the body.
    """
    frame, offset = _frame_of_offsets(site.placement)
    if _is_polar(site.placement) and offset[0] != 0:
        radial = frame[:, 0] * np.sign(offset[0])
        return [
            ("radial", radial),
            ("tangential", np.cross(frame[:, 2], radial)),
            ("z", frame[:, 2]),
        ]
    single = np.count_nonzero(offset) == 1
    directions: list[tuple[str, FloatArray]] = []
    for k in range(3):
        axis = frame[:, k]
        label = f"along {_rounded(axis)}"
        if _is_parallel_to_an_axis(axis):
            nearest_axis = int(np.argmax(np.abs(axis)))
            axis = np.eye(3)[nearest_axis]
            label = "xyz"[nearest_axis]
        if single and offset[k] != 0 and site.on_link(mechanism):
            axis = frame[:, k] * np.sign(offset[k])
            label = "length"
        directions.append((label, axis))
    return directions


def _is_polar(placement: Placement) -> bool:
    """Return whether a placement gives a position as radius, angle and height."""
    kinds = [kind for kind, _ in placement.steps[:3]]
    polar = [kind for kind, _ in Placement.polar(1.0, 0.0).steps]
    frame, _ = _frame_of_offsets(placement)
    return kinds == polar and _parallel(frame[:, 2], np.eye(3)[2])


def _frame_of_offsets(placement: Placement) -> tuple[FloatArray, FloatArray]:
    """Return the frame (3, 3) in which a placement gives its offsets, and these, (3,).

    It is the identity if they are given in several frames.
    """
    rotation = np.eye(3)
    frames: list[FloatArray] = []
    offset = np.zeros(3)
    for step in placement.steps:
        kind, amount = step
        if kind[0] == "R":
            rotation = rotation @ Placement((step,)).rotation
        elif amount != 0:
            frames.append(rotation)
            offset["xyz".index(kind[1])] += amount
    if not frames:
        return np.eye(3), offset
    if any(np.abs(frame - frames[0]).max() > 1e-9 for frame in frames):
        return np.eye(3), np.array(placement.translation)
    return frames[0], offset


def _across(axis: FloatArray) -> list[tuple[str, FloatArray]]:
    """Return two directions across the axis of a joint, in its frame."""
    if _is_parallel_to_an_axis(axis):
        along = int(np.argmax(np.abs(axis)))
        return [(f"about {'xyz'[k]}", np.eye(3)[k]) for k in range(3) if k != along]
    least = np.eye(3)[int(np.argmin(np.abs(axis)))]
    first = np.cross(axis, least)
    first /= np.linalg.norm(first)
    second = np.cross(axis, first)
    return [(f"about {_rounded(first)}", first), (f"about {_rounded(second)}", second)]


def _parallel(a: FloatArray, b: FloatArray) -> bool:
    return bool(abs(a @ b) > PARALLEL_COSINE)


def _is_parallel_to_an_axis(vector: FloatArray) -> bool:
    return bool(np.abs(vector).max() > PARALLEL_COSINE)


def _rounded(vector: FloatArray) -> str:
    return "(" + ", ".join(f"{entry:.3g}" for entry in vector + 0.0) + ")"


def _vector(axis: FloatArray) -> Vector:
    x, y, z = axis.tolist()
    return x, y, z
