"""The form of a designed trajectory: which Fourier coefficients are variables of the search."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.linalg import block_diag

from gough.core.arrays import FloatArray
from gough.core.trajectory import Fourier, fourier_basis, rest_basis


@dataclass(frozen=True, kw_only=True, eq=False)
class TrajectoryForm:
    """One trajectory of a design: what the search does not change.

    Its variables are the free Fourier coefficients of all coordinates,
    as amplitudes relative to half the range of the coordinate
    (coefficient-major), and ln(frequency / start) if the frequency is
    free.
    """

    harmonics: int  # of the Fourier series
    frequency: float  # fundamental; the start of the search if it is free [Hz]
    payload: str | None  # name of the payload; None without one
    # number of controller samples per grid sample, over all periods
    weight: float
    samples: int  # grid points per period
    at_rest: bool  # zero velocity and acceleration at the start of each period
    free_frequency: bool  # whether the fundamental frequency is searched for

    @cached_property
    def coefficient_map(self) -> FloatArray:
        """Map free coefficients to (offset, mu, nu): (1 + 2h, free)."""
        if self.at_rest:
            mu_basis, nu_basis = rest_basis(self.harmonics)
        else:
            mu_basis = nu_basis = np.eye(self.harmonics)
        return np.asarray(block_diag(1.0, mu_basis, nu_basis))

    @cached_property
    def basis(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Position, velocity, acceleration by (offset, mu / w, nu / w) on the grid.

        AH09 (12), (14), (15) with time in units of 1 / w; each (t, 1 +
        2h).
        """
        phase = np.arange(self.samples) / self.samples
        return fourier_basis(2 * np.pi * phase, 1 / (2 * np.pi), self.harmonics)

    def motion_basis(self, pulsation: float) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return `basis` for a pulsation w [rad/s]: velocity grows with w, acceleration with w^2.

        Each (t, 1 + 2h).
        """
        position, velocity, acceleration = self.basis
        return position, pulsation * velocity, pulsation**2 * acceleration

    def n_variables(self, coordinates: int) -> int:
        """Return the number of variables of a trajectory of so many coordinates."""
        return int(self.coefficient_map.shape[1] * coordinates + self.free_frequency)

    def unpack(self, variables: FloatArray, reach: FloatArray) -> tuple[FloatArray, float]:
        """Return amplitudes (offset - origin, mu / w, nu / w), (1 + 2h, m), and the pulsation w.

        Args:
            variables: Those of this trajectory, (x,).
            reach: Half the range of each coordinate, (m,). [m or rad]
        """
        frequency_ratio = 1.0
        if self.free_frequency:
            frequency_ratio = float(np.exp(variables[-1]))
            variables = variables[:-1]
        coefficients = variables.reshape(self.coefficient_map.shape[1], -1)
        amplitudes = self.coefficient_map @ coefficients * reach
        return amplitudes, 2 * np.pi * self.frequency * frequency_ratio

    def pack(self, trajectory: Fourier, amplitudes: FloatArray) -> FloatArray:
        """Return the variables of a trajectory, (x,): the inverse of `unpack`.

        Args:
            trajectory: Gives the frequency.
            amplitudes: (offset - origin, mu / w, nu / w) relative to
                the reach, (1 + 2h, m).
        """
        coefficients = np.linalg.lstsq(self.coefficient_map, amplitudes, rcond=None)[0].ravel()
        if not self.free_frequency:
            return np.asarray(coefficients)
        return np.append(coefficients, np.log(trajectory.frequency / self.frequency))
