"""Intervals of the executed motion, and of the regressor, from positions with bounded errors (P03's future work).

A motion of known bandwidth is a trigonometric polynomial x(t) of h harmonics. Sums over its samples give its
derivatives exactly: (D x)_j = sum_k d(j - k) x_k with any kernel d whose spectrum is i k w up to harmonic h. Beyond h
the spectrum is free; falling back to zero at 2 h, as in M. Riesz' formula, keeps sum |d| near its least value h w
(Bernstein's inequality). So intervals [x_k] of the samples give [D x], not wider than about h w times theirs.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import circulant

from gough.core.arrays import FloatArray, IntArray
from gough.core.errors import InconsistentData, InvalidInput
from gough.core.intervals import Interval, above_sum, product
from gough.engine import Model
from gough.engine.enclosure import closed_box, regressor_box
from gough.processing import Processed
from gough.processing.pieces import averaged_pose

_BASIS = 1e-14  # rounding of sines and cosines of up to some hundred harmonics, phases included
_ROUNDS = 3  # of cutting positions with what the others say about them; more gain less than a per cent


def enclosed_regressor(model: Model, processed: Processed, names: tuple[str, ...], error: float, slow: FloatArray,
                       keep: IntArray) -> Interval:
    """Enclose the regressor of a periodic log whose positions are off by no more than an error, (s, r, p).

    Args:
        model: The robot.
        processed: The log; its cut-off is the promised bandwidth of the pose.
        names: Parameters, the columns.
        error: Largest error of any position. [m or rad]
        slow: Speed below which friction may have any sign, (n,). [m/s or rad/s]
        keep: Samples wanted, (s,).

    Raises:
        InvalidInput: The log is not periodic, or the robot has more motors than degrees of freedom.
        InconsistentData: The positions cannot be those of such a motion.
        NotConverged: The loops could not be proven closed.
    """
    average, cutoff = processed.average, processed.cutoff
    if average is None or cutoff is None or model.loops.redundant:
        raise InvalidInput(f"{processed.source}: a motion can be enclosed from a log of whole periods with a cut-off, "
                           "of a robot with as many motors as degrees of freedom")
    by, q, _ = averaged_pose(model, average)
    motors = Interval.around(q[:, list(model.loops.partitions["actuated"].independent)], error)
    box = closed_box(model, "actuated", motors, q)[:, list(model.loops.partitions[by].independent)]
    motion = harmonic_motion(box, average.rate, int(cutoff * len(q) / average.rate * (1 + 1e-9)))
    return regressor_box(model, names, by, (motion[0][keep], motion[1][keep], motion[2][keep]), q[keep], slow)


def harmonic_motion(position: Interval, rate: float, harmonics: int) -> tuple[Interval, Interval, Interval]:
    """Enclose positions, velocities and accelerations of a periodic motion of so many harmonics, (N, m) each.

    Args:
        position: Intervals of all samples of one period, (N, m). [m or rad]
        rate: Of the samples. [Hz]
        harmonics: None higher is in the motion.

    Raises:
        InvalidInput: Too few samples for the harmonics.
        InconsistentData: No such motion passes all intervals.
    """
    count = len(position.lower)
    if not 1 <= harmonics < count / 2:
        raise InvalidInput(f"{harmonics} harmonics from {count} samples of a period; expected one to half as many")
    turn, k = 2 * np.pi * rate / count, np.arange(count // 2 + 1)
    fall = np.minimum(k, np.maximum(2 * harmonics - k, 0))  # up to h, then down to zero at 2 h
    angle = turn / rate * np.outer(np.arange(count), np.arange(harmonics + 1))
    waves = np.concatenate([np.cos(angle), np.sin(angle[:, 1:])], axis=1)
    w = turn * np.arange(harmonics + 1)
    rates = np.concatenate([-w * np.sin(angle), w[1:] * np.cos(angle[:, 1:])], axis=1)
    second = -waves * np.concatenate([w, w[1:]]) ** 2
    size = above_sum(np.abs(np.linalg.pinv(waves)) @ position.magnitude, count).sum(axis=0)  # of all coefficients

    def filtered(spectrum: NDArray[Any], wanted: FloatArray, source: Interval) -> Interval:
        """Return D x with the misfit of D on the harmonics, all of it rounding, added."""
        D = circulant(np.fft.irfft(spectrum, count))
        wrong = (np.abs(wanted - D @ waves) + _BASIS * (np.abs(D) @ np.abs(waves) + np.abs(wanted).max())).max(axis=1)
        slack = 1.01 * wrong[:, None] * size
        return product(D, source) + Interval(-slack, slack)

    for _ in range(_ROUNDS):
        position = position & filtered(np.clip(2 - k / harmonics, 0.0, 1.0), waves, position)
    if position.empty.any():
        sample = int(np.argmax(position.empty.any(axis=1)))
        raise InconsistentData(
            f"no motion of {harmonics} harmonics passes within the position error of sample {sample}; it has more of "
            "them, or positions are further off: raise the cut-off or the position error", samples=((sample, 0),))
    return (position, filtered(1j * turn * fall, rates, position), filtered(-(turn * fall) ** 2, second, position))
