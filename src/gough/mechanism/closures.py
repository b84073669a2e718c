"""Kinds of closures: the equations that close a loop, and what they are elsewhere.

All that is known of a kind stands in its entry: reader, engine, plants and exports ask here, and
refuse by name what they cannot express. A new kind is one entry, here or in a user's own file, by
`register_closure`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from gough.core.errors import InvalidInput

if TYPE_CHECKING:
    from gough.mechanism.types import Closure


class Configuration(NamedTuple):
    """What a closure may depend on, as numbers or expressions: coordinates by name [m or rad], and
    its frames in the base frame, with `rotation` (3, 3) and `translation` (3,); None without.
    """

    q: Mapping[str, Any]
    a: Any = None
    b: Any = None


@dataclass(frozen=True, kw_only=True)
class ClosureKind:
    """One kind of closure."""

    name: str  # the `kind` of a [[closure]] in robot files
    label: str  # what holds where the loop is closed
    units: tuple[Literal["m", "rad", "joints"], ...]  # of each equation: their number and scale
    residual: Callable[[Closure, Configuration], Sequence[Any]]  # one expression for each equation
    frames: bool = True  # it holds two frames; otherwise a weighted sum of coordinates
    measures_length: bool = False  # it weighs coordinates beside its frames
    values: Mapping[str, str] = field(
        default_factory=dict
    )  # further keys, positive numbers, with their dimension
    # For equations with more solutions than the one meant: frames a, b at which all hold -> what is
    # wrong all the
    # same, or nothing; and expressions that are zero only in the solution meant, which lead a
    # search to it.
    wrong_branch: Callable[[Any, Any], str] | None = None
    branch_guide: Callable[[Any, Any], Any] | None = None
    # What it is elsewhere, None where it is not.
    # key of the YAML beside a URDF; `3d` and `6d` are types of `closed_loop`
    urdf: str | None = None
    mjcf: tuple[str, ...] | None = None  # connect weld axis slider rod sum reel; see `virtual.mjcf`
    pinocchio: tuple[str, ...] | None = None  # gap axis turn distance sum

    @property
    def has_coefficients(self) -> bool:
        """It has coefficients of coordinates."""
        return self.measures_length or not self.frames


def _gap(closure: Closure, at: Configuration) -> list[Any]:
    """Return p_b - p_a. [m]"""
    gap = at.b.translation - at.a.translation
    return [gap[i] for i in range(3)]


def _axes(closure: Closure, at: Configuration) -> list[Any]:
    """Return the components of z_b along x_a and y_a. [rad]"""
    relative = at.a.rotation.T @ at.b.rotation
    return [relative[0, 2], relative[1, 2]]


def _turn(closure: Closure, at: Configuration) -> list[Any]:
    """Return the axis of R = R_a^T R_b times the sine of its angle, from the antisymmetric part of
    R. [rad]
    """
    R = at.a.rotation.T @ at.b.rotation
    return [(R[i, j] - R[j, i]) / 2 for i, j in ((2, 1), (0, 2), (1, 0))]


def _rod(closure: Closure, at: Configuration) -> list[Any]:
    """Return (|p_b - p_a|^2 - l^2) / (2 l): the gap of a rod of length l near zero, without a root.

    [m]
    """
    length = closure.values["length"]
    return [(sum(x * x for x in _gap(closure, at)) - length**2) / (2 * length)]


def _sum(closure: Closure, at: Configuration) -> list[Any]:
    """Return the sum of coefficient x coordinate, plus the constant."""
    return [closure.constant + sum(c * at.q[name] for name, c in closure.coefficients.items())]


def _length(closure: Closure, at: Configuration) -> list[Any]:
    """Return |p_b - p_a| plus the sum of coefficient x coordinate, plus the constant. [m]"""
    return [sum(x * x for x in _gap(closure, at)) ** 0.5 + _sum(closure, at)[0]]


def _half_turn(a: Any, b: Any) -> str:
    """Frames half a turn apart solve the equations of a weld: trace R_a^T R_b is -1 there, 3 where
    they coincide.
    """
    return "the welded frames half a turn apart" if (a.rotation * b.rotation).sum() < 0 else ""


CLOSURES: dict[str, ClosureKind] = {
    kind.name: kind
    for kind in (
        ClosureKind(
            name="point",
            label="origins coincide",
            units=("m",) * 3,
            residual=_gap,
            urdf="3d",
            mjcf=("connect",),
            pinocchio=("gap",),
        ),
        ClosureKind(
            name="revolute",
            label="origins coincide and z axes are parallel",
            units=("m",) * 3 + ("rad",) * 2,
            residual=lambda closure, at: _gap(closure, at) + _axes(closure, at),
            urdf="revolute",
            mjcf=("connect", "axis"),
            pinocchio=("gap", "axis"),
        ),
        ClosureKind(
            name="weld",
            label="frames coincide",
            units=("m",) * 3 + ("rad",) * 3,
            wrong_branch=_half_turn,
            branch_guide=lambda a, b: (
                (3 - sum((a.rotation.T @ b.rotation)[i, i] for i in range(3))) / 4
            ),
            residual=lambda closure, at: _gap(closure, at) + _turn(closure, at),
            urdf="6d",
            mjcf=("weld",),
            pinocchio=("gap", "turn"),
        ),
        ClosureKind(
            name="distance",
            label="origins are `length` apart",
            units=("m",),
            residual=_rod,
            values={"length": "length"},
            urdf="distance",
            mjcf=("rod",),
            pinocchio=("distance",),
        ),
        ClosureKind(
            name="parallel",
            label="z axes are parallel",
            units=("rad",) * 2,
            residual=_axes,
            urdf="parallel",
            mjcf=("slider", "connect", "axis"),
            pinocchio=("axis",),
        ),
        ClosureKind(
            name="coupling",
            label="the sum of coefficient times coordinate, plus the constant, is zero",
            units=("joints",),
            frames=False,
            residual=_sum,
            urdf="coupling",
            mjcf=("sum",),
            pinocchio=("sum",),
        ),
        ClosureKind(
            name="length",
            label="the distance of the origins, plus the sum of coefficient times coordinate, "
            "plus the constant, is zero",
            units=("m",),
            measures_length=True,
            residual=_length,
            urdf="length",
            mjcf=("reel",),
            pinocchio=("distance",),
        ),
    )
}


def register_closure(kind: ClosureKind) -> ClosureKind:
    """Make a kind of closure known to robot files and to everything that meets one; return it."""
    if kind.name in CLOSURES:
        raise InvalidInput(
            f"there is already a closure kind '{kind.name}'; choose another name", name=kind.name
        )
    CLOSURES[kind.name] = kind
    return kind
