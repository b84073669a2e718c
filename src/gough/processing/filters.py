"""Low-pass and derivatives of positions, and decimation of regressor and effort in parallel.

Positions are filtered in time, or over whole periods, where that is
exact (AH09 3.3). Decimation is one low-pass for the effort and all
columns of the regressor, then thinning. A linear filter in parallel
changes nothing in effort = regressor @ parameters (BG13 (19)-(20)).
Invalid equations are left out of both sides before it: with h the
filter and m the mask of a row,

    y[n] = sum_j h[j] m[s+j] y[s+j] / sum_j h[j] m[s+j],    s = n factor,

and the same for its columns. A decimated equation is valid if valid
ones hold at least half of the filter's energy sum_j h[j]^2.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from gough.core.arrays import BoolArray, FloatArray, check_finite, check_shape
from gough.core.errors import InvalidInput
from gough.core.signals import kaiser_lowpass, recursive_filter, weighted_window
from gough.core.trajectory import (
    Fourier,
    PositionVelocityAcceleration,
    fourier_basis,
)
from gough.fitting.regression import SAMPLE_LABELS, Regression
from gough.processing.settings import DECIMATION_EDGE

FILTER_ORDER = 4  # of the one-way Butterworth filter
# The slowest pole decays by exp(-2.4 cutoff t): to below 1e-3 after
# FILTER_EDGE_PERIODS / cutoff, to rounding after
# FILTER_SETTLING_PERIODS / cutoff.
FILTER_EDGE_PERIODS = 3.0
FILTER_SETTLING_PERIODS = 14.0
# Central difference of order 8: (4/5, -1/5, 4/105, -1/280), right to
# 1e-4 up to a tenth of the sampling rate.
STENCIL = np.array([1 / 280, -4 / 105, 1 / 5, -4 / 5, 0.0, 4 / 5, -1 / 5, 4 / 105, -1 / 280])
STENCIL_HALF = len(STENCIL) // 2
# a cut-off at a harmonic keeps it, whatever its rounding
HARMONIC_ROUNDING = 1 + 1e-9
# Attenuation of frequencies that alias [dB]. Regressor and effort alias
# alike, which does no harm; of white noise 1e-4 remains.
ALIAS_ATTENUATION = 40.0
# Least fraction of the filter's energy in valid equations for a
# decimated equation to be valid.
MIN_VALID_ENERGY = 0.5
# Outputs of one matrix product: enough to use BLAS, few enough to waste
# little on zeros.
OUTPUTS_PER_PRODUCT = 8
OUTPUTS_SHOWN_TOGETHER = 256  # invalid outputs computed at once
# Fraction of invalid outputs from which computing all outputs once more
# is faster than these alone.
MAX_GATHERED_FRACTION = 0.1

Signals = dict[str, NDArray[Any]]  # arrays over samples by name


def check_cutoff(cutoff: float, rate: float) -> None:
    """Raise `InvalidInput` unless the cut-off lies between zero and the Nyquist frequency. [Hz]"""
    if not np.isfinite(rate) or rate <= 0:
        raise InvalidInput(f"sampling rate is {rate} Hz, expected a positive number", rate=rate)
    if not 0 < cutoff < rate / 2:
        raise InvalidInput(
            f"cut-off {cutoff:.6g} Hz is not between 0 and the Nyquist frequency {rate / 2:.6g} Hz "
            f"of {rate:.6g} Hz sampling; choose a lower one",
            cutoff=cutoff,
            nyquist=rate / 2,
        )


def zero_phase(values: FloatArray, rate: float, cutoff: float) -> FloatArray:
    """Low-pass filter forward and backward with a Butterworth filter along the first axis.

    The gain is 1 / (1 + (tan(pi f / rate) / tan(pi cutoff / rate))^(2
    FILTER_ORDER)), real: no delay, 6 dB at the cut-off. The ends are
    extended by point reflection over `FILTER_EDGE_PERIODS` / cutoff, or
    over the whole signal if it is shorter.
    """
    check_cutoff(cutoff, rate)
    if len(values) <= 3 * FILTER_ORDER:
        raise InvalidInput(
            f"{len(values)} samples are too few to filter; more than {3 * FILTER_ORDER} are needed",
            samples=len(values),
        )
    edge = edge_samples(rate, cutoff)
    reach = min(edge, len(values) - 1)
    before = 2 * values[0] - values[reach:0:-1]
    after = 2 * values[-1] - values[-2 : -reach - 2 : -1]
    extended = np.concatenate([before, values, after])
    forward = _butterworth(extended, rate, cutoff)
    both = _butterworth(forward[::-1], rate, cutoff)[::-1]
    return both[reach : reach + len(values)]


def _butterworth(values: FloatArray, rate: float, cutoff: float) -> FloatArray:
    """Low-pass forward along the first axis; before the first sample the signal was constant.

    One section of second order for each pair of poles with damping z,
    the most damped first:

        w = tan(pi cutoff / rate),  c = 1 + 2 z w + w^2,
        H = w^2 / c (1 + q)^2 / (1 + 2 (w^2 - 1) / c q + (1 - 2 z w + w^2) / c q^2),

    q being the delay of one sample. Each section passes a constant
    unchanged, so that b_1 - a_1 + z_1 and z_1 = b_2 - a_2, times the
    first sample, are its state before.
    """
    first = values[:1]
    w = np.tan(np.pi * cutoff / rate)
    filtered = values
    for pair in range(FILTER_ORDER // 2, 0, -1):
        damping = np.sin((2 * pair - 1) * np.pi / (2 * FILTER_ORDER))
        c = 1 + 2 * damping * w + w**2
        b = w**2 / c
        a_1 = 2 * (w**2 - 1) / c
        a_2 = (1 - 2 * damping * w + w**2) / c
        second_state = (b - a_2) * first
        first_state = (2 * b - a_1) * first + second_state
        start = np.concatenate([first_state, second_state])
        filtered = recursive_filter(filtered, (b, 2 * b, b), (a_1, a_2), start)
    return filtered


def derivative(values: FloatArray, rate: float) -> FloatArray:
    """Differentiate along the first axis by central differences of order 8, lower at the ends."""
    if len(values) < 2:
        raise InvalidInput(f"{len(values)} samples cannot be differentiated; at least 2 are needed")
    step = 1.0 / rate
    half = STENCIL_HALF
    slope = weighted_window(values, STENCIL * rate)
    slope[:half] = np.gradient(values[: 2 * half], step, axis=0)[:half]
    slope[-half:] = np.gradient(values[-2 * half :], step, axis=0)[-half:]
    return slope


def differentiate(
    values: FloatArray, rate: float, cutoff: float | None
) -> PositionVelocityAcceleration:
    """Filter a signal (t, k) and differentiate it twice (BG13 section 3.1, P03 section 4.1).

    Without a cut-off nothing is filtered: the raw comparison of AH09
    Fig. 4.
    """
    check_finite(values, "signal")
    smooth = values
    if cutoff is not None:
        smooth = zero_phase(values, rate, cutoff)
    velocity = derivative(smooth, rate)
    return smooth, velocity, derivative(velocity, rate)


def edge_samples(rate: float, cutoff: float) -> int:
    """Return how many samples at each end of a log the low-pass or the derivatives may spoil.

    Near the Nyquist frequency it is the two derivatives.
    """
    check_cutoff(cutoff, rate)
    lowpass_edge = int(np.ceil(FILTER_EDGE_PERIODS * rate / cutoff))
    return max(lowpass_edge, 4 * STENCIL_HALF)


def memory_samples(rate: float, cutoff: float | None) -> int:
    """Return how many samples on both sides influence a filtered and differentiated one.

    The influence of samples further away is below rounding.
    """
    derivatives = 2 * STENCIL_HALF
    if cutoff is None:
        return derivatives
    return derivatives + int(np.ceil(FILTER_SETTLING_PERIODS * rate / cutoff))


def lowpass_periodic(
    values: FloatArray, rate: float, period_samples: int, cutoff: float
) -> PositionVelocityAcceleration:
    """Filter and differentiate whole periods (t, k) exactly: DFT, ideal low-pass, times j w, back.

    X = DFT x,  X = 0 where f > cutoff,  x = DFT^-1 X,  xd = DFT^-1 (j w X),  xdd = DFT^-1
    (-w^2 X); AH09 3.3. The harmonic at the cut-off itself is kept: cutoff = n_h rate /
    period_samples keeps n_h harmonics. Efforts are not to be filtered: their noise does not
    enter the regressor, and steps of friction would be smoothed on one side only.
    """
    n = len(values)
    check_finite(values, "signal")
    if period_samples < 2:
        raise InvalidInput(f"a period of {period_samples} samples; at least 2 are needed")
    if n == 0 or n % period_samples:
        raise InvalidInput(
            f"{n} samples are {n / period_samples:.4f} periods of {period_samples}, expected whole "
            "ones: the DFT of part of a period leaks into all harmonics; leave out what follows "
            "the last whole one",
            samples=n,
            period_samples=period_samples,
        )
    check_cutoff(cutoff, rate)
    if cutoff * HARMONIC_ROUNDING < rate / period_samples:
        raise InvalidInput(
            f"cut-off {cutoff:.6g} Hz is below the fundamental frequency "
            f"{rate / period_samples:.6g} Hz; nothing of the motion would be left",
            cutoff=cutoff,
        )
    frequency = np.fft.rfftfreq(n, 1.0 / rate)
    jw = (2j * np.pi * frequency).reshape(-1, *[1] * (values.ndim - 1))
    X = np.fft.rfft(values, axis=0)
    X[frequency > cutoff * HARMONIC_ROUNDING] = 0.0
    position = np.fft.irfft(X, n, axis=0)
    velocity = np.fft.irfft(jw * X, n, axis=0)
    acceleration = np.fft.irfft(jw**2 * X, n, axis=0)
    return position, velocity, acceleration


def fourier_fit(
    values: FloatArray,
    time: FloatArray,
    frequency: float,
    harmonics: int,
    *,
    coordinates: Sequence[str],
    units: Sequence[str],
) -> Fourier:
    """Fit a Fourier series of known frequency [Hz] to (t, k) by least squares.

    This is the implicit filter of AH09 (17)-(18):
    B = [1, sin(k w t)/(k w) ..., -cos(k w t)/(k w) ...],  Xi = (B^T B)^-1 B^T x. Departure:
    (17) prints the cosines without the minus sign of (12), which gives -nu. The frequency
    must be that of the motion, not only of the reference: otherwise harmonics leak.
    `lowpass_periodic` has no such condition.
    """
    check_shape(values, (len(time), None), "signal")
    check_finite(values, "signal")
    if harmonics < 1 or len(time) < 2 * harmonics + 1:
        raise InvalidInput(
            f"{harmonics} harmonics from {len(time)} samples; expected from 1, and at least "
            f"{2 * harmonics + 1} samples"
        )
    if not frequency > 0:
        raise InvalidInput(f"fundamental frequency is {frequency} Hz, expected a positive number")
    duration = float(time[-1] - time[0])
    check_cutoff(harmonics * frequency, (len(time) - 1) / duration)
    kw = 2 * np.pi * frequency * np.arange(1, harmonics + 1)
    scale = np.concatenate([[1.0], kw, kw])  # columns of equal size: better conditioned
    basis, _, _ = fourier_basis(time, frequency, harmonics)
    B = basis * scale
    scaled_Xi = np.linalg.lstsq(B, values, rcond=None)[0]
    Xi = scaled_Xi * scale[:, None]
    return Fourier(
        coordinates=tuple(coordinates),
        units=tuple(units),
        frequency=frequency,
        offset=Xi[0],
        mu=Xi[1 : harmonics + 1],
        nu=Xi[harmonics + 1 :],
    )


@cache
def decimation_taps(factor: int) -> FloatArray:
    """Return a symmetric FIR low-pass for decimation, odd length, sum 1.

    Kaiser window; half amplitude at 0.8 of the new Nyquist frequency
    (BG13 after (19)), full attenuation from the new Nyquist frequency
    on.
    """
    if factor < 1 or factor != int(factor):
        raise InvalidInput(f"decimation by {factor}; expected a whole number from 1")
    if factor == 1:
        taps = np.ones(1)
    else:
        width = 2 * (1 - DECIMATION_EDGE) / factor
        taps = kaiser_lowpass(DECIMATION_EDGE / factor, width, ALIAS_ATTENUATION)
    taps.flags.writeable = False  # every caller gets the same array
    return taps


def lowpass(values: NDArray[Any], factor: int, taps: FloatArray | None = None) -> FloatArray:
    """Decimate along the first axis: y[n] = sum_j h[j] x[n factor + j].

    Output n belongs to sample n factor + (len(h) - 1) / 2. Only outputs
    whose whole window is inside are made: nothing is assumed beyond the
    ends. Computed as products of dense blocks.
    """
    if taps is None:
        taps = decimation_taps(factor)
    length = len(taps)
    flat = np.asarray(values, dtype=float).reshape(len(values), -1)
    count = _output_count(len(flat), length, factor)
    outputs = np.empty((count, flat.shape[1]))
    span_of_product = (OUTPUTS_PER_PRODUCT - 1) * factor + length
    band = np.zeros((OUTPUTS_PER_PRODUCT, span_of_product))
    for k in range(OUTPUTS_PER_PRODUCT):
        band[k, k * factor : k * factor + length] = taps
    n_products = count // OUTPUTS_PER_PRODUCT
    in_products = n_products * OUTPUTS_PER_PRODUCT
    if n_products:
        windows = sliding_window_view(flat, band.shape[1], axis=0)
        windows = windows[:: OUTPUTS_PER_PRODUCT * factor][:n_products]
        by_product = outputs[:in_products]
        by_product = by_product.reshape(n_products, OUTPUTS_PER_PRODUCT, -1)
        np.matmul(band, windows.transpose(0, 2, 1), out=by_product)
    remaining = count - in_products
    if remaining:
        span = (remaining - 1) * factor + length
        first = in_products * factor
        samples = flat[first : first + span]
        np.matmul(band[:remaining, :span], samples, out=outputs[in_products:])
    return outputs.reshape(count, *values.shape[1:])


def _output_count(n_samples: int, n_taps: int, factor: int) -> int:
    """Return how many outputs have their whole window inside."""
    return max(0, (n_samples - n_taps) // factor + 1)


def masked_lowpass(
    equations: NDArray[Any], mask: NDArray[Any], factor: int
) -> tuple[FloatArray, BoolArray]:
    """Return the mean of valid equations under the filter, (n, r, c), and which are valid, (n, r).

    Invalid outputs are low-passed without the mask, to be shown.

    Args:
        equations: Columns of the regressor, efforts, (t, r, c).
        mask: Valid equations, (t, r).
        factor: One in so many samples is kept.
    """
    taps = decimation_taps(factor)
    energy = float(taps @ taps)
    # ordered in memory as the equations
    ones = np.empty_like(equations[:, :, 0], dtype=float)
    ones[:] = mask
    valid = lowpass(ones, factor, taps**2) >= MIN_VALID_ENERGY * energy
    weight = np.where(valid, lowpass(ones, factor), 1.0)
    outputs = lowpass(equations * ones[:, :, None], factor)
    outputs /= weight[:, :, None]
    shown, row = np.nonzero(~valid)
    if len(shown) > MAX_GATHERED_FRACTION * valid.size:  # all at once takes less time
        without_mask = lowpass(equations, factor)
        np.copyto(outputs, without_mask, where=~valid[:, :, None])
        return outputs, valid
    window = np.arange(len(taps))
    for start in range(0, len(shown), OUTPUTS_SHOWN_TOGETHER):
        some = slice(start, start + OUTPUTS_SHOWN_TOGETHER)
        samples = factor * shown[some, None] + window
        outputs[shown[some], row[some]] = taps @ equations[samples, row[some, None]]
    return outputs, valid


def decimated_noise(mask: NDArray[Any], factor: int) -> FloatArray:
    """Return what `masked_lowpass` leaves of white noise of power 1, (n, r).

    sum_j h[j]^2 m[s+j] / (sum_j h[j] m[s+j])^2,    s = n factor; 1 where nothing is valid.

    Args:
        mask: Valid equations, (t, r).
        factor: One in so many samples is kept.
    """
    taps = decimation_taps(factor)
    used = np.asarray(mask, dtype=float)
    weight = lowpass(used, factor)
    return np.divide(
        lowpass(used, factor, taps**2),
        weight**2,
        out=np.ones(weight.shape),
        where=weight > 0,
    )


class Decimator:
    """Decimates a stream of consecutive regressions in constant memory, exact across block borders.

    A covariance is taken as that of white noise: sum_j h[j]^2 Sigma[n
    factor + j]. Labels are those of the sample in the middle.

    Attributes:
        taps: The low-pass.
    """

    def __init__(self, factor: int) -> None:
        self.taps = decimation_taps(factor)
        self._factor = int(factor)
        self._held: Signals = {}

    def push(self, block: Regression) -> Regression | None:
        """Take the next block; return the samples it completes, or None without any."""
        if self._factor == 1:
            return block
        signals = _signals_of(block)
        if self._held:
            for name, values in signals.items():
                signals[name] = np.concatenate([self._held[name], values])
        n_held = len(signals["equations"])
        count = _output_count(n_held, len(self.taps), self._factor)
        used = count * self._factor
        self._held = {}
        for name, values in signals.items():
            self._held[name] = values[used:].copy()
        if not count:
            return None
        return self._decimated(block, signals, count)

    def _decimated(self, like: Regression, signals: Signals, count: int) -> Regression:
        """Return the outputs whose window lies inside; `like` gives shapes and names."""
        half = len(self.taps) // 2
        last = half + (count - 1) * self._factor
        middle = slice(half, last + 1, self._factor)
        labels: dict[str, Any] = {}
        for name in SAMPLE_LABELS:
            if name in signals:
                labels[name] = signals[name][middle]
        mask = signals.get("mask")
        equations = signals["equations"]
        if mask is None or mask.all():
            equations = lowpass(equations, self._factor, self.taps)
        else:
            equations, labels["mask"] = masked_lowpass(equations, mask, self._factor)
        p = like.regressor.shape[2]
        replicates = None
        if like.replicates is not None:
            replicates = equations[:, :, p + 1 :].transpose(2, 0, 1)
        return replace(
            like,
            regressor=equations[:, :, :p],
            effort=equations[:, :, p],
            covariance=self._covariance(like.covariance, signals),
            replicates=replicates,
            **labels,
        )

    def _covariance(self, covariance: FloatArray | None, signals: Signals) -> FloatArray | None:
        """Return the covariance of outputs, (r, r) or (n, r, r)."""
        if covariance is None:
            return None
        if covariance.ndim == 2:
            energy = float(self.taps @ self.taps)
            return energy * covariance
        return lowpass(signals["covariance"], self._factor, self.taps**2)


def _signals_of(block: Regression) -> Signals:
    """Return all arrays over samples; `equations` holds regressor, effort, repetitions, (t, r, c).

    Repetitions are the efforts of each period.
    """
    columns = [block.regressor, block.effort[:, :, None]]
    if block.replicates is not None:
        columns.append(block.replicates.transpose(1, 2, 0))
    signals: Signals = {"equations": np.concatenate(columns, axis=2)}
    if block.covariance is not None and block.covariance.ndim == 3:
        signals["covariance"] = block.covariance
    for name in SAMPLE_LABELS:
        label = getattr(block, name)
        if label is not None:
            signals[name] = label
    return signals


def decimated(
    blocks: Iterable[Regression], factor: int, *, periodic: bool = False
) -> Iterator[Regression]:
    """Yield the samples of consecutive blocks of one problem that a `Decimator` completes.

    Args:
        periodic: The blocks are one period that repeats: windows reach
            around its ends.
    """
    decimator = Decimator(factor)
    half = len(decimator.taps) // 2
    if periodic and half:
        period = together(list(blocks))
        if len(period) <= 2 * half:
            raise InvalidInput(
                f"{len(period)} samples cannot be decimated as one period by a filter of "
                f"{2 * half + 1}; decimate less",
                samples=len(period),
            )
        extended = np.arange(-half, len(period) + half) % len(period)
        blocks = [period.take(extended)]
    for block in blocks:
        outputs = decimator.push(block)
        if outputs is not None:
            yield outputs


def together(blocks: Sequence[Regression]) -> Regression:
    """Return consecutive blocks of one problem as one, labels unchanged."""
    first = blocks[0]
    if len(blocks) == 1:
        return first
    names = ["regressor", "effort", *SAMPLE_LABELS]
    if first.covariance is not None and first.covariance.ndim == 3:
        names.append("covariance")
    joined: dict[str, Any] = {}
    for name in names:
        if getattr(first, name) is not None:
            joined[name] = np.concatenate([getattr(block, name) for block in blocks])
    if first.replicates is not None:
        replicates: list[Any] = [block.replicates for block in blocks]
        joined["replicates"] = np.concatenate(replicates, axis=1)
    return replace(first, **joined)
