"""A drive of one's own: any object with `start` and `drive` can stand between controller and
joint.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.linalg import expm

from gough.core.arrays import FloatArray
from gough.core.errors import InvalidInput


@dataclass(frozen=True, kw_only=True)
class SecondOrderDrive:
    """A force servo, e.g. hydraulic (S20): F'' + 2 zeta w F' + w^2 F = w^2 F_command, w = 2 pi
    frequency.

    Integrated exactly for the command held over the period.

    Args:
        frequency: [Hz]
        damping: zeta.
    """

    frequency: float
    damping: float = 0.7

    def __post_init__(self) -> None:
        if not (self.frequency > 0 and self.damping > 0):
            raise InvalidInput(
                f"a second-order drive has frequency {self.frequency} Hz and damping "
                f"{self.damping}; "
                "expected both above zero"
            )

    def start(self, effort: FloatArray) -> FloatArray:
        """Return force and its rate, (2, k, a)."""
        return np.stack([effort, np.zeros_like(effort)])

    def drive(
        self, state: FloatArray, command: FloatArray, period: float, moments: int
    ) -> tuple[FloatArray, FloatArray]:
        """Return the force at all moments; its distance from the command decays freely."""
        advance = _transition(self.frequency, self.damping, period / (moments - 1))
        away = np.stack([state[0] - command, state[1]])
        forces = []
        for _ in range(moments):
            forces.append(command + away[0])
            last, away = away, np.einsum("ij,jka->ika", advance, away)
        return np.stack(forces), np.stack([last[0] + command, last[1]])


@lru_cache(maxsize=64)
def _transition(frequency: float, damping: float, step: float) -> FloatArray:
    """Return exp(A step) of the free oscillation."""
    w = 2 * np.pi * frequency
    return np.asarray(expm(np.array([[0.0, 1.0], [-(w**2), -2 * damping * w]]) * step))
