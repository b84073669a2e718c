"""Kinds of closures: the equations that close a loop, and their names in other formats.

An entry of `CLOSURES` holds all that is known of a kind. The reader,
the engine, the plants and the exports look it up, and refuse by name
what they cannot express. A new kind is one entry, here or in a user's
file, by `register_closure`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from gough.core.errors import InvalidInput

if TYPE_CHECKING:
    from gough.mechanism.types import Closure


class Configuration(NamedTuple):
    """What the equations of a closure may depend on, as numbers or as symbolic expressions.

    The frames a and b are given in the base frame, with `rotation` (3, 3) and
    `translation` (3,).
    """

    q: Mapping[str, Any]  # coordinates by joint name [m or rad]
    a: Any = None  # frame a; None for kinds without frames
    b: Any = None


@dataclass(frozen=True, kw_only=True)
class ClosureKind:
    """One kind of closure."""

    name: str  # the `kind` of a [[closure]] in robot files
    label: str  # the condition in words
    units: tuple[Literal["m", "rad", "joints"], ...]  # unit of each equation
    # one expression for each equation
    residual: Callable[[Closure, Configuration], Sequence[Any]]
    # it relates two frames; otherwise a weighted sum of coordinates
    frames: bool = True
    # beside two frames it has coefficients of coordinates
    measures_length: bool = False
    # positive numbers: key -> dimension
    values: Mapping[str, str] = field(default_factory=dict)
    # For equations with more than one solution: (frame a, frame b) at
    # which all equations hold -> what is wrong there, or an empty text.
    wrong_branch: Callable[[Any, Any], str] | None = None
    # (frame a, frame b) -> an expression that is zero only in the
    # intended solution.
    branch_guide: Callable[[Any, Any], Any] | None = None
    # Names in other formats; None where the kind does not exist.
    urdf: str | None = None  # key of the YAML beside a URDF; `3d`, `6d` are types of `closed_loop`
    # connect weld axis slider rod sum reel
    mjcf: tuple[str, ...] | None = None
    pinocchio: tuple[str, ...] | None = None  # gap axis turn distance sum

    @property
    def is_built_in(self) -> bool:
        """Whether its equations are those of this module."""
        return getattr(self.residual, "__module__", "") == __name__

    @property
    def has_coefficients(self) -> bool:
        """Whether it has coefficients of coordinates."""
        return self.measures_length or not self.frames


def _position_gap(closure: Closure, at: Configuration) -> list[Any]:
    """Return p_b - p_a. [m]"""
    gap = at.b.translation - at.a.translation
    return [gap[i] for i in range(3)]


def _axis_error(closure: Closure, at: Configuration) -> list[Any]:
    """Return the components of z_b along x_a and y_a. [rad]"""
    relative = at.a.rotation.T @ at.b.rotation
    return [relative[0, 2], relative[1, 2]]


def _rotation_error(closure: Closure, at: Configuration) -> list[Any]:
    """Return the axis of R = R_a^T R_b times the sine of its angle. [rad]

    It is the antisymmetric part of R.
    """
    R = at.a.rotation.T @ at.b.rotation
    return [(R[i, j] - R[j, i]) / 2 for i, j in ((2, 1), (0, 2), (1, 0))]


def _squared_distance(closure: Closure, at: Configuration) -> Any:
    """Return |p_b - p_a|^2. [m2]"""
    return sum(x * x for x in _position_gap(closure, at))


def _rod_error(closure: Closure, at: Configuration) -> list[Any]:
    """Return (|p_b - p_a|^2 - l^2) / (2 l). [m]

    Near zero it is the gap of a rod of length l; it needs no square
    root.
    """
    length = closure.values["length"]
    return [(_squared_distance(closure, at) - length**2) / (2 * length)]


def _weighted_sum(closure: Closure, at: Configuration) -> list[Any]:
    """Return the sum of coefficient x coordinate, plus the constant."""
    return [closure.constant + sum(c * at.q[name] for name, c in closure.coefficients.items())]


def _length_error(closure: Closure, at: Configuration) -> list[Any]:
    """Return |p_b - p_a| plus the sum of coefficient x coordinate, plus the constant. [m]"""
    return [_squared_distance(closure, at) ** 0.5 + _weighted_sum(closure, at)[0]]


def _half_turn(a: Any, b: Any) -> str:
    """Return what is wrong if two welded frames are half a turn apart.

    The equations of a weld hold there, too: trace(R_a^T R_b) is -1, and
    3 where they coincide.
    """
    if (a.rotation * b.rotation).sum() < 0:
        return "the welded frames half a turn apart"
    return ""


def _turn_from_identity(a: Any, b: Any) -> Any:
    """Return (3 - trace(R_a^T R_b)) / 4: zero where frames coincide, one half a turn apart."""
    R = a.rotation.T @ b.rotation
    return (3 - sum(R[i, i] for i in range(3))) / 4


CLOSURES: dict[str, ClosureKind] = {}


def register_closure(kind: ClosureKind) -> ClosureKind:
    """Make a kind of closure known to robot files and to the rest of Gough; return it."""
    if kind.name in CLOSURES:
        raise InvalidInput(
            f"there is already a closure kind '{kind.name}'; choose another name",
            name=kind.name,
        )
    CLOSURES[kind.name] = kind
    return kind


register_closure(
    ClosureKind(
        name="point",
        label="origins coincide",
        units=("m",) * 3,
        residual=_position_gap,
        urdf="3d",
        mjcf=("connect",),
        pinocchio=("gap",),
    )
)
register_closure(
    ClosureKind(
        name="revolute",
        label="origins coincide and z axes are parallel",
        units=("m",) * 3 + ("rad",) * 2,
        residual=lambda closure, at: _position_gap(closure, at) + _axis_error(closure, at),
        urdf="revolute",
        mjcf=("connect", "axis"),
        pinocchio=("gap", "axis"),
    )
)
register_closure(
    ClosureKind(
        name="weld",
        label="frames coincide",
        units=("m",) * 3 + ("rad",) * 3,
        residual=lambda closure, at: _position_gap(closure, at) + _rotation_error(closure, at),
        wrong_branch=_half_turn,
        branch_guide=_turn_from_identity,
        urdf="6d",
        mjcf=("weld",),
        pinocchio=("gap", "turn"),
    )
)
register_closure(
    ClosureKind(
        name="distance",
        label="origins are `length` apart",
        units=("m",),
        residual=_rod_error,
        values={"length": "length"},
        urdf="distance",
        mjcf=("rod",),
        pinocchio=("distance",),
    )
)
register_closure(
    ClosureKind(
        name="parallel",
        label="z axes are parallel",
        units=("rad",) * 2,
        residual=_axis_error,
        urdf="parallel",
        mjcf=("slider", "connect", "axis"),
        pinocchio=("axis",),
    )
)
register_closure(
    ClosureKind(
        name="coupling",
        label="the sum of coefficient times coordinate, plus the constant, is zero",
        units=("joints",),
        frames=False,
        residual=_weighted_sum,
        urdf="coupling",
        mjcf=("sum",),
        pinocchio=("sum",),
    )
)
register_closure(
    ClosureKind(
        name="length",
        label="the distance of the origins, plus the sum of coefficient times coordinate, plus "
        "the constant, is zero",
        units=("m",),
        measures_length=True,
        residual=_length_error,
        urdf="length",
        mjcf=("reel",),
        pinocchio=("distance",),
    )
)
