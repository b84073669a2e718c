"""From the effort a controller asks for to the effort the joint gets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from gough.core.arrays import FloatArray


class Actuator(Protocol):
    """Settings of a drive; `start` returns the state, `drive` the efforts over one controller period."""

    def start(self, effort: FloatArray) -> FloatArray:
        """Return the state in which the drive holds an effort (k, a)."""

    def drive(self, state: FloatArray, command: FloatArray, period: float, moments: int
              ) -> tuple[FloatArray, FloatArray]:
        """Return efforts at evenly spaced moments of a period, both ends included, (g, k, a), and the next state."""


@dataclass(frozen=True, kw_only=True)
class IdealDrive:
    """A current loop much faster than the controller: the effort is the command, held for the period."""

    def start(self, effort: FloatArray) -> FloatArray:
        return np.empty(0)

    def drive(self, state: FloatArray, command: FloatArray, period: float, moments: int
              ) -> tuple[FloatArray, FloatArray]:
        return np.broadcast_to(command, (moments, *command.shape)), state
