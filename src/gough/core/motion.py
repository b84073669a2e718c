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
    qd: FloatArray  # (t, n) [m/s or rad/s]
    qdd: FloatArray  # (t, n) [m/s2 or rad/s2]
    # largest closure error of each sample, (t,) [m or rad]
    closure_residual: FloatArray
    # Internal states of joint terms and recorded channels that joint
    # terms depend on, (t, x), in the order of the robot; None if not
    # computed.
    extra_inputs: FloatArray | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        t = len(self.time)
        n = len(self.coordinates)
        check_shapes(
            self,
            q=(t, n),
            qd=(t, n),
            qdd=(t, n),
            closure_residual=(t,),
            extra_inputs=(t, None),
        )

    def __len__(self) -> int:
        return len(self.time)

    @property
    def rate(self) -> float:
        """Mean rate of the samples; 1 for a single one. [Hz]"""
        if len(self.time) < 2:
            return 1.0
        return float((len(self.time) - 1) / (self.time[-1] - self.time[0]))

    def column(self, coordinate: str) -> int:
        """Return the column of a coordinate in `q`, `qd` and `qdd`."""
        return self.coordinates.index(coordinate)

    def take(self, samples: slice | NDArray[Any]) -> Motion:
        """Return the motion at some samples: a slice, indices or a mask."""
        taken: dict[str, Any] = {}
        for field in fields(self):
            array = getattr(self, field.name)
            if field.name != "coordinates" and array is not None:
                taken[field.name] = array[samples]
        return replace(self, **taken)
