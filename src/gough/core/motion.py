"""The motion of all coordinates of a robot."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from gough.core.arrays import FloatArray, check_shape, frozen


@dataclass(frozen=True, kw_only=True, eq=False)
class Motion:
    """Position, velocity and acceleration of all coordinates.

    Args:
        coordinates: Names of all coordinates, (n,).
        time: Sample times, (t,). [s]
        q: Positions, (t, n). [m or rad]
        qd: Velocities, (t, n). [m/s or rad/s]
        qdd: Accelerations, (t, n). [m/s2 or rad/s2]
        closure_residual: Largest closure error of each sample, (t,). [m or rad]
    """

    coordinates: tuple[str, ...]
    time: FloatArray
    q: FloatArray
    qd: FloatArray
    qdd: FloatArray
    closure_residual: FloatArray

    def __post_init__(self) -> None:
        for name in ("time", "q", "qd", "qdd", "closure_residual"):
            object.__setattr__(self, name, frozen(getattr(self, name)))
        t, n = len(self.time), len(self.coordinates)
        for name in ("q", "qd", "qdd"):
            check_shape(getattr(self, name), (t, n), name)
        check_shape(self.closure_residual, (t,), "closure residual")

    def __len__(self) -> int:
        return len(self.time)

    def column(self, coordinate: str) -> int:
        """Return the index of a coordinate by name."""
        return self.coordinates.index(coordinate)

    def take(self, rows: slice | NDArray[Any]) -> Motion:
        """Return the motion of some samples."""
        return Motion(coordinates=self.coordinates, time=self.time[rows], q=self.q[rows], qd=self.qd[rows],
                      qdd=self.qdd[rows], closure_residual=self.closure_residual[rows])
