"""Transmissions and force elements: tables of a robot file that become coordinates and closures."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from gough.core.errors import nearest
from gough.core.names import inside_leg
from gough.mechanism import schema
from gough.mechanism.elements import Kind, Scope, check_start, read_ends, read_limits, read_terms
from gough.mechanism.toml_table import TomlTable
from gough.mechanism.types import BASE, Closure, Joint, Transmission

INVERTIBLE = 1e-9  # ratio of singular values of a transmission below which no gears could be built


def read_transmission(table: TomlTable, scope: Scope, joints: dict[str, Joint],
                      ) -> tuple[Transmission, list[Joint], list[Closure]]:
    """Read `[[transmission]]`: a massless rotor on the base for each motor, and a coupling for each joint."""
    table.check_keys(schema.TRANSMISSION)
    name, driven = table.name(), tuple(scope.full(joint) for joint in table.words("joints"))
    for k, joint in enumerate(driven):
        if joint not in joints or joints[joint].actuated:
            what = "is a motor itself" if joint in joints else f"does not exist{nearest(joint, joints)}"
            raise table.error(f"joint '{joint}' {what}", f"joints[{k}]")
    tables = table.sections("motor", "transmission.motor", f" of '{name}'")
    if len(tables) != len(driven):
        raise table.error(f"{len(driven)} joints need as many [[transmission.motor]] tables, found {len(tables)}",
                          "motor")
    matrix = np.array(table.matrix("matrix", len(driven)))
    values = np.linalg.svd(matrix, compute_uv=False)
    if not values[-1] > INVERTIBLE * values[0]:
        raise table.error(f"the matrix is not invertible (singular values {values[0]:.3g} to {values[-1]:.1e}): some "
                          "motion of the joints moves no motor; check its rows", "matrix")
    start = np.linalg.solve(matrix, [joints[joint].start for joint in driven])
    motors = [_read_motor(own, scope, float(at)) for own, at in zip(tables, start)]
    couplings = [Closure(name=scope.full(f"{name}.{inside_leg(joint, scope.leg)}"), kind="coupling", coefficients={
        joint: 1.0, **{motor.name: -float(b) for motor, b in zip(motors, row) if b}})
        for joint, row in zip(driven, matrix)]
    sides = {key: cast(Any, table.choice(key, ("joints", "motors"), "joints")) for key in ("positions", "efforts")}
    return Transmission(name=scope.full(name), motors=tuple(motor.name for motor in motors), joints=driven,
                        matrix=matrix, **sides), motors, couplings


def _read_motor(table: TomlTable, scope: Scope, start: float) -> Joint:
    table.check_keys(schema.MOTOR)
    kind = cast(Kind, table.choice("type", ("revolute", "prismatic"), "revolute"))
    motor = _slider(table, scope, kind, True, start)
    check_start(table, start, motor.limits, "limits")
    return motor


def read_force(table: TomlTable, scope: Scope) -> tuple[Joint, Closure]:
    """Read `[[force]]`: a massless slider on the base, and the closure that makes it the length between two points."""
    table.check_keys(schema.FORCE)
    a, b = read_ends(table, scope)
    joint, rest = _slider(table, scope, "prismatic", table.flag("actuated")), table.number("rest", "length", 0.0)
    if rest < 0:
        raise table.error(f"expected a length, found {rest:g} m", "rest")
    return joint, Closure(name=joint.name, kind="length", a=a, b=b, coefficients={joint.name: -1.0},
                          constant=-rest)


def _slider(table: TomlTable, scope: Scope, kind: Kind, actuated: bool, start: float = 0.0) -> Joint:
    """Read a joint that is only a coordinate: a massless body on the base, of the joint's name."""
    if "gain" in table and not actuated:
        raise table.error("only what is actuated has a drive gain", "gain")
    name, limits = table.name(), read_limits(table.table("limits"), kind)
    terms, values = read_terms(table, kind, scope)
    full = scope.full(name)
    return Joint(name=full, kind=kind, parent=BASE, child=full, actuated=actuated, limits=limits, terms=terms,
                 values=values, gain=table.positive("gain", "gain", None), start=start, leg=scope.leg,
                 template=scope.kin(name), sources=table.sources())
