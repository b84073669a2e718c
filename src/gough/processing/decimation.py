"""Parallel decimation: the same low-pass on effort and on every column of the regressor, then every
n-th sample.

A linear filter in parallel changes nothing in effort = regressor @ parameters (BG13 (19)-(20)).
Equations that do not count are left out of both sides before it: with h the filter and m the mask
of a row,

    y[n] = sum_j h[j] m[s+j] y[s+j] / sum_j h[j] m[s+j],    s = n factor,

and the same for its columns. What is left counts if it holds at least half of the filter's energy
sum_j h[j]^2.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gough.core.arrays import FloatArray
from gough.core.errors import InvalidInput
from gough.fitting.regression import SAMPLE_LABELS, Regression
from gough.processing.settings import DECIMATION_EDGE

# Of what would fold back [dB]. Signals fold alike on both sides, which costs nothing; of white
# noise 1e-4 comes back.
ATTENUATION = 40.0
LEFT = 0.5  # part of the filter's energy that must count for a decimated equation to count
# samples made by one matrix product: enough to use BLAS, few enough to waste little on zeros
_OUTPUTS = 8


def decimation_taps(factor: int) -> FloatArray:
    """Return a symmetric FIR low-pass for decimation, odd length, sum 1.

    Kaiser window; half amplitude at 0.8 of the new Nyquist frequency (BG13 after (19)), full
    attenuation from the new Nyquist frequency on.
    """
    if factor < 1 or factor != int(factor):
        raise InvalidInput(f"decimation by {factor}; expected a whole number from 1")
    if factor == 1:
        return np.ones(1)
    from scipy.signal import firwin, kaiserord  # here: it takes long to import

    count, beta = kaiserord(ATTENUATION, 2 * (1 - DECIMATION_EDGE) / factor)
    return np.asarray(firwin(count | 1, DECIMATION_EDGE / factor, window=("kaiser", beta)))


def lowpass(values: NDArray[Any], factor: int, taps: FloatArray | None = None) -> FloatArray:
    """Decimate along the first axis: y[n] = sum_j h[j] x[n factor + j], at sample n factor +
    (len(h) - 1) / 2.

    Only outputs whose whole window is inside are made: nothing is assumed beyond the ends. Computed
    as products of dense blocks.
    """
    taps = decimation_taps(factor) if taps is None else taps
    length, flat = len(taps), np.asarray(values, dtype=float).reshape(len(values), -1)
    band = np.zeros((_OUTPUTS, (_OUTPUTS - 1) * factor + length))
    for k in range(_OUTPUTS):
        band[k, k * factor : k * factor + length] = taps
    count = max(0, (len(flat) - length) // factor + 1)
    made = np.empty((count, flat.shape[1]))
    for start in range(0, count, _OUTPUTS):
        k = min(_OUTPUTS, count - start)
        span = (k - 1) * factor + length
        np.matmul(
            band[:k, :span],
            flat[start * factor : start * factor + span],
            out=made[start : start + k],
        )
    return made.reshape(count, *values.shape[1:])


class Decimator:
    """Decimates a stream of consecutive regressions in constant memory, exact across block borders.

    A covariance is taken as that of white noise: sum_j h[j]^2 Sigma[n factor + j]. Labels are those
    of the sample in the middle.
    """

    def __init__(self, factor: int) -> None:
        self.taps, self._factor = decimation_taps(factor), int(factor)
        self._rest: dict[str, NDArray[Any]] = {}

    def push(self, block: Regression) -> Regression | None:
        """Take the next piece of the problem; return the samples it completes, or None without
        any.
        """
        if self._factor == 1:
            return block
        signals = [block.regressor, block.effort[:, :, None]]
        if block.replicates is not None:
            signals.append(block.replicates.transpose(1, 2, 0))
        held: dict[str, NDArray[Any]] = {"signals": np.concatenate(signals, axis=2)}  # (t, r, c)
        if block.covariance is not None and block.covariance.ndim == 3:
            held["covariance"] = block.covariance
        held |= {
            name: getattr(block, name) for name in SAMPLE_LABELS if getattr(block, name) is not None
        }
        if self._rest:
            held = {
                name: np.concatenate([self._rest[name], values]) for name, values in held.items()
            }
        count = max(0, (len(held["signals"]) - len(self.taps)) // self._factor + 1)
        self._rest = {name: values[count * self._factor :].copy() for name, values in held.items()}
        return self._reduced(block, held, count) if count else None

    def _reduced(self, like: Regression, held: dict[str, NDArray[Any]], count: int) -> Regression:
        """Return all outputs whose window lies inside; `like` gives shapes and names."""
        taps, factor, half = self.taps, self._factor, len(self.taps) // 2
        signals, mask, energy = held["signals"], held.get("mask"), float(self.taps @ self.taps)
        middle = slice(half, half + (count - 1) * factor + 1, factor)
        labels: dict[str, Any] = {
            name: held[name][middle] for name in SAMPLE_LABELS if name in held
        }
        if mask is None or mask.all():
            made = lowpass(signals, factor, taps)
        else:
            made = lowpass(signals * mask[:, :, None], factor, taps)
            counts = lowpass(mask, factor, taps**2) >= LEFT * energy
            made /= np.where(counts, lowpass(mask, factor, taps), 1.0)[:, :, None]
            odd = np.flatnonzero(
                ~counts.all(axis=0)
            )  # what does not count is shown as it is, low-passed
            made[:, odd] = np.where(
                counts[:, odd, None], made[:, odd], lowpass(signals[:, odd], factor, taps)
            )
            labels["mask"] = counts
        p, cov = like.regressor.shape[2], like.covariance
        if cov is not None:
            cov = energy * cov if cov.ndim == 2 else lowpass(held["covariance"], factor, taps**2)
        return replace(
            like,
            regressor=made[:, :, :p],
            effort=made[:, :, p],
            covariance=cov,
            **labels,
            replicates=None if like.replicates is None else made[:, :, p + 1 :].transpose(2, 0, 1),
        )


def decimated(
    blocks: Iterable[Regression], factor: int, *, around: bool = False
) -> Iterator[Regression]:
    """Yield the samples of consecutive pieces of one problem that a `Decimator` completes.

    The pieces may be one period that repeats (`around`): then windows reach around its ends.
    """
    decimator = Decimator(factor)
    half = len(decimator.taps) // 2
    if around and half:
        period = together(list(blocks))
        if len(period) <= 2 * half:
            raise InvalidInput(
                f"{len(period)} samples cannot be decimated as one period by a filter of "
                f"{2 * half + 1}; decimate less",
                samples=len(period),
            )
        blocks = [period.take(np.arange(-half, len(period) + half) % len(period))]
    yield from (made for made in map(decimator.push, blocks) if made is not None)


def together(parts: Sequence[Regression]) -> Regression:
    """Return consecutive pieces of one problem as one, labels unchanged."""
    first = parts[0]
    if len(parts) == 1:
        return first
    names = ["regressor", "effort", *SAMPLE_LABELS]
    if first.covariance is not None and first.covariance.ndim == 3:
        names.append("covariance")
    each: dict[str, Any] = {
        name: np.concatenate([getattr(part, name) for part in parts])
        for name in names
        if getattr(first, name) is not None
    }
    if first.replicates is not None:
        each["replicates"] = np.concatenate([part.replicates for part in parts], axis=1)
    return replace(first, **each)
