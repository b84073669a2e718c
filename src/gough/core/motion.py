"""The motion of all coordinates of a robot."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from numpy.typing import NDArray

from gough.core.arrays import FloatArray, Value, check_shapes


@dataclass(frozen=True, kw_only=True, eq=False)
class Motion(Value):
    """Position, velocity and acceleration of all coordinates.

    Args:
        coordinates: Names, (n,).
        time: (t,). [s]
        q, qd, qdd: Positions, velocities and accelerations, (t, n). [m or rad, per s, per s2]
        closure_residual: Largest closure error of each sample, (t,). [m or rad]
        remembered: Lags of joint terms and recorded channels that they depend on, (t, x), in the robot's order; None
            where they were not looked at.
    """

    coordinates: tuple[str, ...]
    time: FloatArray
    q: FloatArray
    qd: FloatArray
    qdd: FloatArray
    closure_residual: FloatArray
    remembered: FloatArray | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        t, n = len(self.time), len(self.coordinates)
        check_shapes(self, q=(t, n), qd=(t, n), qdd=(t, n), closure_residual=(t,), remembered=(t, None))

    def __len__(self) -> int:
        return len(self.time)

    def column(self, coordinate: str) -> int:
        """Return the index of a coordinate by name."""
        return self.coordinates.index(coordinate)

    def take(self, rows: slice | NDArray[Any]) -> Motion:
        kept = {name: getattr(self, name)[rows] for name in ("time", "q", "qd", "qdd", "closure_residual")}
        return replace(self, **kept, remembered=None if self.remembered is None else self.remembered[rows])
