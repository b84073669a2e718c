"""Checks of a mechanism: names, tree, joint terms, closures; errors name element and key."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from gough.core.errors import InvalidInput, InvalidMechanism, nearest
from gough.core.names import INERTIAL, Parameter
from gough.mechanism.closures import CLOSURES
from gough.mechanism.expression import fault, powers, unit_powers

if TYPE_CHECKING:
    from gough.mechanism.types import Body, Closure, Joint, Mechanism

BASE = "base"  # the name of the fixed body
# An element's kind and name, a key of it, the names used there, and the
# valid ones.
_Reference = tuple[str, str, str, Collection[str], Collection[str]]


def invalid(kind: str, name: str, key: str, message: str) -> InvalidMechanism:
    """Return an error about a key of an element: a body, joint, closure, payload or term."""
    return InvalidMechanism(message, part=kind, name=name, key=key)


def check_names(mechanism: Mechanism) -> None:
    """Raise unless names are unique, and every name that an element refers to exists."""
    for kind, elements in (
        ("body", mechanism.bodies),
        ("joint", mechanism.joints),
        ("closure", mechanism.closures),
        ("payload", mechanism.payloads),
    ):
        taken = set[str]()
        for element in elements:
            name = element.name
            if name in taken:
                message = f"{kind} '{name}' is defined twice; names must be unique"
                raise invalid(kind, name, "name", message)
            taken.add(name)
    for kind, owner, key, used, valid in _references(mechanism):
        for name in used:
            if name not in valid:
                message = f"{kind} '{owner}', {key}: '{name}' is not known{nearest(name, valid)}"
                raise invalid(kind, owner, key, message)


def _references(mechanism: Mechanism) -> Iterator[_Reference]:
    """Yield the names by which elements refer to others."""
    bodies = {body.name for body in mechanism.bodies}
    joints = {joint.name for joint in mechanism.joints}
    carriers = {BASE, *bodies}
    for kind, rigid_bodies in (
        ("body", mechanism.bodies),
        ("payload", mechanism.payloads),
    ):
        for body in rigid_bodies:
            nonzero = [name for name, number in body.values.items() if number]
            yield kind, body.name, "parameters", body.parameters, INERTIAL
            yield kind, body.name, "values", nonzero, body.parameters
    for joint in mechanism.joints:
        terms = (*joint.terms, *joint.values)
        yield (
            "joint",
            joint.name,
            "kind",
            [joint.kind],
            ("revolute", "prismatic"),
        )
        yield "joint", joint.name, "parent", [joint.parent], carriers
        yield "joint", joint.name, "child", [joint.child], bodies
        yield "joint", joint.name, "terms", terms, mechanism.known_terms
    for closure in mechanism.closures:
        yield (
            "closure",
            closure.name,
            "coefficients",
            [*closure.coefficients],
            joints,
        )
        for key, frame in zip("ab", closure.frames):
            yield "closure", closure.name, key, [frame.body], carriers
    if mechanism.platform:
        yield "robot", mechanism.name, "platform", [mechanism.platform], bodies


def tree_order(bodies: tuple[Body, ...], joints: tuple[Joint, ...]) -> tuple[Joint, ...]:
    """Return the joints with parents before children, otherwise in their order."""
    carrier: dict[str, Joint] = {}
    for joint in joints:
        if joint.child in carrier:
            raise invalid(
                "joint",
                joint.name,
                "child",
                f"body '{joint.child}' has two parents: joints '{carrier[joint.child].name}' and "
                f"'{joint.name}'; keep one joint and close the loop with a closure",
            )
        carrier[joint.child] = joint
    for body in bodies:
        if body.name not in carrier:
            message = f"body '{body.name}' hangs on no joint; add a joint or remove it"
            raise invalid("body", body.name, "name", message)
    if not joints:
        raise InvalidMechanism(
            "the robot has no joints; add [[joint]] or [[leg]] tables",
            key="joint",
        )
    reached = {BASE}
    ordered: list[Joint] = []
    waiting = list(joints)
    while waiting:
        joint = next((joint for joint in waiting if joint.parent in reached), waiting[0])
        if joint.parent not in reached:
            raise invalid(
                "joint",
                joint.name,
                "parent",
                f"body '{joint.parent}' is not connected to the base: the joints that carry it "
                "form a ring",
            )
        waiting.remove(joint)
        reached.add(joint.child)
        ordered.append(joint)
    return tuple(ordered)


def check_content(mechanism: Mechanism) -> None:
    """Raise unless motors, joint terms, closures and payloads can work."""
    if not any(joint.actuated for joint in mechanism.joints):
        raise InvalidMechanism(
            "no joint is actuated; mark the motors with 'actuated = true'",
            key="joint",
        )
    for joint in mechanism.joints:
        for name in (*joint.terms, *joint.values):
            _check_term(mechanism, joint, name)
    for closure in mechanism.closures:
        _check_closure(closure)
    bodies = [body.name for body in mechanism.bodies]
    for payload in mechanism.payloads:
        if payload.body not in bodies:
            raise invalid(
                "payload",
                payload.name,
                "body",
                f"payload '{payload.name}' is fixed to '{payload.body}', which is no moving body"
                f"{nearest(payload.body, bodies)}",
            )


def _check_closure(closure: Closure) -> None:
    """Raise unless a closure has what its kind needs."""
    kind = CLOSURES[closure.kind]
    label = f"closure '{closure.name}' of kind {closure.kind}"
    needed = []
    if kind.frames:
        needed.append("two frames")
    if kind.has_coefficients:
        needed.append("coefficients of joints")
    has_coefficients = bool(closure.coefficients)
    if kind.frames != bool(closure.frames) or kind.has_coefficients != has_coefficients:
        message = f"{label} needs {' and '.join(needed)} and nothing else"
        raise invalid("closure", closure.name, "kind", message)
    if kind.measures_length and len({frame.body for frame in closure.frames}) == 1:
        body = closure.frames[0].body
        message = f"{label} has both ends on '{body}': their distance never changes"
        raise invalid("closure", closure.name, "b", message)
    for key in kind.values:
        if not closure.values.get(key, 0.0) > 0:
            raise invalid("closure", closure.name, key, f"{label} needs a positive {key}")


def _check_term(mechanism: Mechanism, joint: Joint, name: str) -> None:
    """Raise unless a term can act at a joint: its inputs exist, and its units give an effort."""
    term = mechanism.known_terms[name]
    place = f"joint '{joint.name}'"
    if term.load_dependent and (mechanism.redundant or not joint.actuated):
        reason = "it has no motor"
        if mechanism.redundant:
            reason = "the robot has more motors than degrees of freedom"
        message = f"'{name}' depends on the effort that {place} transmits, which is unknown"
        raise invalid("joint", joint.name, "terms", f"{message}: {reason}")
    try:
        for node in term.tree.walk():
            if node.kind == "name" and Parameter(node.value).owner:
                _check_other_joint(mechanism, joint, term.expression, node.value, node.position)
        dimension = term.dimension(joint.kind)
    except InvalidInput as error:
        raise invalid("term", name, "expression", f"{error} ({place})") from None
    coefficient = unit_powers(term.unit(joint.kind))
    if dimension is None or coefficient is None:
        return
    effort = powers("force" if joint.kind == "prismatic" else "torque")
    if effort != tuple(a + b for a, b in zip(dimension, coefficient)):
        raise invalid(
            "term",
            name,
            "unit",
            f"the coefficient of '{term.expression}' in {term.unit(joint.kind)} gives no effort "
            f"in {joint.effort_unit} at {place}",
        )


def _check_other_joint(
    mechanism: Mechanism,
    joint: Joint,
    expression: str,
    name: str,
    position: int,
) -> None:
    """Raise unless a name in an expression, such as `elbow.qd`, belongs to a joint."""
    try:
        mechanism.resolve_joint(joint, Parameter(name).owner)
    except InvalidInput as error:
        raise fault(expression, position, str(error)) from None
