"""The motion of all coordinates of a robot."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

from numpy.typing import NDArray

from gough.core.arrays import FloatArray, check_shapes
from gough.core.record import Record


@dataclass(frozen=True, kw_only=True, eq=False)
class Motion(Record):
    """Position, velocity and acceleration of all coordinates."""

    coordinates: tuple[str, ...]
    time: FloatArray  # (t,) [s]
    q: FloatArray  # (t, n) [m or rad]
    qd: FloatArray
    qdd: FloatArray
    closure_residual: FloatArray  # largest closure error of each sample, (t,) [m or rad]
    # lags of joint terms and recorded channels that they depend on, (t, x), in the robot's order,
    # where looked at
    extra_inputs: FloatArray | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        t, n = len(self.time), len(self.coordinates)
        check_shapes(
            self, q=(t, n), qd=(t, n), qdd=(t, n), closure_residual=(t,), extra_inputs=(t, None)
        )

    def __len__(self) -> int:
        return len(self.time)

    def column(self, coordinate: str) -> int:
        return self.coordinates.index(coordinate)

    def take(self, rows: slice | NDArray[Any]) -> Motion:
        known = {
            field.name: getattr(self, field.name)
            for field in fields(self)
            if field.name != "coordinates"
        }
        return replace(
            self, **{name: values[rows] for name, values in known.items() if values is not None}
        )
