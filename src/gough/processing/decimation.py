"""Parallel decimation: one low-pass for the effort and all columns of the regressor, then thinning.

A linear filter in parallel changes nothing in effort = regressor @ parameters (BG13
(19)-(20)). Invalid equations are left out of both sides before it: with h the filter and m
the mask of a row,

    y[n] = sum_j h[j] m[s+j] y[s+j] / sum_j h[j] m[s+j],    s = n factor,

and the same for its columns. A decimated equation is valid if valid ones hold at least half
of the filter's energy sum_j h[j]^2.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from gough.core.arrays import BoolArray, FloatArray
from gough.core.errors import InvalidInput
from gough.core.signals import kaiser_lowpass
from gough.fitting.regression import SAMPLE_LABELS, Regression
from gough.processing.settings import DECIMATION_EDGE

# Attenuation of frequencies that alias [dB]. Regressor and effort alias alike, which does no harm;
# of white noise 1e-4 remains.
ALIAS_ATTENUATION = 40.0
# Least fraction of the filter's energy in valid equations for a decimated equation to be valid.
MIN_VALID_ENERGY = 0.5
# Outputs of one matrix product: enough to use BLAS, few enough to waste little on zeros.
OUTPUTS_PER_PRODUCT = 8
OUTPUTS_SHOWN_TOGETHER = 256  # invalid outputs computed at once
# Fraction of invalid outputs from which computing all outputs once more is faster than these alone.
MAX_GATHERED_FRACTION = 0.1

Signals = dict[str, NDArray[Any]]  # arrays over samples by name


@cache
def decimation_taps(factor: int) -> FloatArray:
    """Return a symmetric FIR low-pass for decimation, odd length, sum 1.

    Kaiser window; half amplitude at 0.8 of the new Nyquist frequency (BG13 after (19)),
    full attenuation from the new Nyquist frequency on.
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

    Output n belongs to sample n factor + (len(h) - 1) / 2. Only outputs whose whole window
    is inside are made: nothing is assumed beyond the ends. Computed as products of dense
    blocks.
    """
    if taps is None:
        taps = decimation_taps(factor)
    length = len(taps)
    flat = np.asarray(values, dtype=float).reshape(len(values), -1)
    count = _output_count(len(flat), length, factor)
    outputs = np.empty((count, flat.shape[1]))
    band = np.zeros((OUTPUTS_PER_PRODUCT, (OUTPUTS_PER_PRODUCT - 1) * factor + length))
    for k in range(OUTPUTS_PER_PRODUCT):
        band[k, k * factor : k * factor + length] = taps
    n_products = count // OUTPUTS_PER_PRODUCT
    in_products = n_products * OUTPUTS_PER_PRODUCT
    if n_products:
        windows = sliding_window_view(flat, band.shape[1], axis=0)
        windows = windows[:: OUTPUTS_PER_PRODUCT * factor][:n_products]
        by_product = outputs[:in_products].reshape(n_products, OUTPUTS_PER_PRODUCT, -1)
        np.matmul(band, windows.transpose(0, 2, 1), out=by_product)
    remaining = count - in_products
    if remaining:
        span = (remaining - 1) * factor + length
        first = in_products * factor
        np.matmul(band[:remaining, :span], flat[first : first + span], out=outputs[in_products:])
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
    ones = np.empty_like(equations[:, :, 0], dtype=float)  # ordered in memory as the equations
    ones[:] = mask
    valid = lowpass(ones, factor, taps**2) >= MIN_VALID_ENERGY * energy
    weight = np.where(valid, lowpass(ones, factor), 1.0)
    outputs = lowpass(equations * ones[:, :, None], factor)
    outputs /= weight[:, :, None]
    shown, row = np.nonzero(~valid)
    if len(shown) > MAX_GATHERED_FRACTION * valid.size:  # all at once takes less time
        np.copyto(outputs, lowpass(equations, factor), where=~valid[:, :, None])
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

    A covariance is taken as that of white noise: sum_j h[j]^2 Sigma[n factor + j]. Labels
    are those of the sample in the middle.

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
        count = _output_count(len(signals["equations"]), len(self.taps), self._factor)
        used = count * self._factor
        self._held = {name: values[used:].copy() for name, values in signals.items()}
        return self._decimated(block, signals, count) if count else None

    def _decimated(self, like: Regression, signals: Signals, count: int) -> Regression:
        """Return the outputs whose window lies inside; `like` gives shapes and names."""
        half = len(self.taps) // 2
        middle = slice(half, half + (count - 1) * self._factor + 1, self._factor)
        labels: dict[str, Any] = {}
        for name in SAMPLE_LABELS:
            if name in signals:
                labels[name] = signals[name][middle]
        mask = signals.get("mask")
        if mask is None or mask.all():
            equations = self._lowpass(signals["equations"])
        else:
            equations, labels["mask"] = masked_lowpass(signals["equations"], mask, self._factor)
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

    def _lowpass(self, values: NDArray[Any]) -> FloatArray:
        return lowpass(values, self._factor, self.taps)

    def _lowpass_squared(self, values: NDArray[Any]) -> FloatArray:
        return lowpass(values, self._factor, self.taps**2)

    @property
    def _energy(self) -> float:
        return float(self.taps @ self.taps)

    def _covariance(self, covariance: FloatArray | None, signals: Signals) -> FloatArray | None:
        """Return the covariance of outputs, (r, r) or (n, r, r)."""
        if covariance is None:
            return None
        if covariance.ndim == 2:
            return self._energy * covariance
        return self._lowpass_squared(signals["covariance"])


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
        periodic: The blocks are one period that repeats: windows reach around its ends.
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
        joined["replicates"] = np.concatenate([block.replicates for block in blocks], axis=1)
    return replace(first, **joined)
