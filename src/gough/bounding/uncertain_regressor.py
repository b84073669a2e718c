"""Intervals of the regressor: friction of unknown sign, and positions with bounded errors.

The latter is future work of P03. A motion of known bandwidth is a
trigonometric polynomial x(t) of h harmonics. Sums over its samples give
its derivatives exactly: (D x)_j = sum_k d(j - k) x_k with any kernel d
whose spectrum is i k w up to harmonic h. Beyond h the spectrum is free;
falling back to zero at 2 h, as in M. Riesz' formula, keeps sum |d| near
its least value h w (Bernstein's inequality). So intervals [x_k] of the
samples give [D x], not wider than about h w times theirs.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import circulant

from gough.core.arrays import FloatArray, IntArray
from gough.core.errors import InconsistentData, InvalidInput
from gough.core.intervals import Interval, above_sum, product
from gough.core.parameters import BaseParameters
from gough.engine import Model
from gough.engine.columns import column_names
from gough.engine.enclosure import closed_box, regressor_box
from gough.processing import ProcessedLog

# rounding of sines and cosines of up to some hundred harmonics, phases
# included
_HARMONIC_ROUNDING = 1e-14
# times the positions are intersected with their low-passed interval;
# more gain less than 1 %
_POSITION_CUTS = 3


def friction_interval(
    model: Model,
    processed: ProcessedLog,
    base: BaseParameters,
    regressor: FloatArray,
    slow: FloatArray,
) -> Interval:
    """Enclose the regressor where slow joints may move in either direction, (t, r, p).

    The Coulomb columns of a slow joint have any sign in [-1, 1].

    Args:
        model: The robot.
        processed: The log.
        base: Parameters, p of them.
        regressor: Regressor with the measured signs of velocity, (t, r,
            p).
        slow: Speed below which the sign of a joint is unknown, (n,).
            [m/s or rad/s]
    """
    motion = processed.motion
    closure_map = model.kinematics.closure_map(motion.q)
    lower = regressor.copy()
    upper = regressor.copy()
    for k, column in enumerate(column_names(base)):
        term = model.mechanism.terms.get(column.kind)
        if term is None or not term.coulomb:
            continue
        members = model.resolve(column)
        # signs without dead band: the magnitude is the lever of the
        # friction
        columns = model.regressor(motion, members)
        lower[:, :, k] = 0.0
        upper[:, :, k] = 0.0
        for j, member in enumerate(members):
            joint = motion.column(member.owner)
            is_slow = (np.abs(motion.qd[:, joint]) < slow[joint])[:, None]
            lever = term.coulomb * np.abs(closure_map[:, joint, :])
            lower[:, :, k] += np.where(is_slow, -lever, columns[:, :, j])
            upper[:, :, k] += np.where(is_slow, lever, columns[:, :, j])
    return Interval(lower, upper)


def enclose_regressor(
    model: Model,
    processed: ProcessedLog,
    names: tuple[str, ...],
    position_error: float,
    slow: FloatArray,
    samples: IntArray,
) -> Interval:
    """Enclose the regressor of a periodic log whose positions have bounded errors, (s, r, p).

    The log's cut-off is the promised bandwidth of the pose.

    Args:
        model: The robot.
        processed: The log, of whole periods.
        names: Columns of the regressor, (p,).
        position_error: Largest error of a recorded position. [m or rad]
        slow: Speed below which friction of a joint may have any sign,
            (n,). [m/s or rad/s]
        samples: Where the regressor is enclosed, (s,).
    """
    average = processed.average
    cutoff = processed.cutoff
    if average is None or cutoff is None or model.loops.redundant:
        raise InvalidInput(
            f"{processed.source}: a motion can be enclosed from a log of whole periods with a "
            "cut-off, of a robot with as many motors as degrees of freedom"
        )
    by = model.kinematics.pose_coordinates
    q = processed.whole_log.mean_pose
    motor_columns = list(model.loops.partitions["actuated"].independent)
    pose_columns = list(model.loops.partitions[by].independent)
    motors = Interval.around(q[:, motor_columns], position_error)
    pose = closed_box(model, "actuated", motors, q)[:, pose_columns]
    harmonics = int(cutoff * len(q) / average.rate * (1 + 1e-9))
    position, velocity, acceleration = harmonic_motion(pose, average.rate, harmonics)
    motion = (position[samples], velocity[samples], acceleration[samples])
    return regressor_box(model, names, by, motion, q[samples], slow)


class _Harmonics(NamedTuple):
    """Cosines and sines of the harmonics with their derivatives, (N, 2 h + 1) each."""

    waves: FloatArray
    first_derivative: FloatArray
    second_derivative: FloatArray


def harmonic_motion(
    position: Interval, rate: float, harmonics: int
) -> tuple[Interval, Interval, Interval]:
    """Enclose positions, velocities and accelerations of one period, (N, m) each.

    Args:
        position: Intervals of the samples, (N, m). [m or rad]
        rate: Sampling rate. [Hz]
        harmonics: Highest harmonic of the motion.

    Raises:
        InconsistentData: No motion with so many harmonics lies within
            the intervals.
    """
    count = len(position.lower)
    if not 1 <= harmonics < count / 2:
        raise InvalidInput(
            f"{harmonics} harmonics from {count} samples of a period; expected one to half as many"
        )
    fundamental = 2 * np.pi * rate / count  # [rad/s]
    k = np.arange(count // 2 + 1)
    low_pass = np.clip(2 - k / harmonics, 0.0, 1.0)
    order = np.minimum(k, np.maximum(2 * harmonics - k, 0))  # up to h, then down to zero at 2 h
    basis = _harmonic_basis(count, rate, fundamental, harmonics)
    inverse = np.abs(np.linalg.pinv(basis.waves))
    coefficient_sum = above_sum(inverse @ position.magnitude, count).sum(axis=0)

    def filtered(spectrum: NDArray[Any], expected: FloatArray, samples: Interval) -> Interval:
        """Enclose the motion filtered by a spectrum."""
        return _apply_kernel(spectrum, expected, basis.waves, coefficient_sum, samples)

    for _ in range(_POSITION_CUTS):
        position = position & filtered(low_pass, basis.waves, position)
    outside = position.empty.any(axis=1)
    if outside.any():
        sample = int(np.argmax(outside))
        raise InconsistentData(
            f"no motion of {harmonics} harmonics passes within the position error of sample "
            f"{sample}; it has more of them, or positions have larger errors: raise the cut-off or "
            "the position error",
            samples=((sample, 0),),
        )
    velocity = filtered(1j * fundamental * order, basis.first_derivative, position)
    acceleration = filtered(-((fundamental * order) ** 2), basis.second_derivative, position)
    return position, velocity, acceleration


def _harmonic_basis(count: int, rate: float, fundamental: float, harmonics: int) -> _Harmonics:
    """Return the harmonics up to h with their derivatives at the samples of a period."""
    orders = np.arange(harmonics + 1)
    angle = fundamental / rate * np.outer(np.arange(count), orders)
    w = fundamental * orders
    cosines = np.cos(angle)
    sines = np.sin(angle[:, 1:])
    waves = np.concatenate([cosines, sines], axis=1)
    first = np.concatenate([-w * np.sin(angle), w[1:] * np.cos(angle[:, 1:])], axis=1)
    second = -waves * np.concatenate([w, w[1:]]) ** 2
    return _Harmonics(waves, first, second)


def _apply_kernel(
    spectrum: NDArray[Any],
    expected: FloatArray,
    waves: FloatArray,
    coefficient_sum: FloatArray,
    samples: Interval,
) -> Interval:
    """Enclose D x for the circulant matrix D of a spectrum, (N, m).

    D maps the harmonics to `expected`, but for rounding, which is
    added.

    Args:
        spectrum: Spectrum of the kernel, (N // 2 + 1,).
        expected: What D @ waves should be, (N, 2 h + 1).
        waves: The harmonics, (N, 2 h + 1).
        coefficient_sum: Bound of the sum of |coefficients| of the
            motion, (m,).
        samples: x, (N, m).
    """
    kernel = circulant(np.fft.irfft(spectrum, len(waves)))
    misfit = np.abs(expected - kernel @ waves)
    scale = np.abs(kernel) @ np.abs(waves) + np.abs(expected).max()
    largest_misfit = (misfit + _HARMONIC_ROUNDING * scale).max(axis=1)
    slack = 1.01 * largest_misfit[:, None] * coefficient_sum
    return product(kernel, samples) + Interval(-slack, slack)
