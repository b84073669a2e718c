"""Parallel decimation: the same low-pass on effort and on every column of the regressor, then every n-th sample.

A linear filter in parallel changes nothing in effort = regressor @ parameters (BG13 (19)-(20)). Equations that do not
count are left out of both sides before it: with h the filter and m the mask of a row,

    y[n] = sum_j h[j] m[s+j] y[s+j] / sum_j h[j] m[s+j],    s = n factor,

and the same for its columns. What is left counts if it holds at least half of the filter's energy sum_j h[j]^2.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.signal import firwin, kaiserord

from gough.core.arrays import FloatArray
from gough.core.errors import InvalidInput
from gough.core.regression import LABELS, Regression
from gough.processing.settings import EDGE

# Of what would fold back [dB]. Signals fold alike on both sides, which costs nothing; of white noise 1e-4 comes back.
ATTENUATION = 40.0
LEFT = 0.5  # part of the filter's energy that must count for a decimated equation to count
_OUTPUTS = 8  # samples made by one matrix product: enough to use BLAS, few enough to waste little on zeros


def decimation_taps(factor: int) -> FloatArray:
    """Return a symmetric FIR low-pass for decimation, odd length, sum 1.

    Kaiser window; half amplitude at 0.8 of the new Nyquist frequency (BG13 after (19)), full attenuation from the new
    Nyquist frequency on.
    """
    if factor < 1 or factor != int(factor):
        raise InvalidInput(f"decimation by {factor}; expected a whole number from 1")
    if factor == 1:
        return np.ones(1)
    count, beta = kaiserord(ATTENUATION, 2 * (1 - EDGE) / factor)
    return np.asarray(firwin(count | 1, EDGE / factor, window=("kaiser", beta)))


def lowpass(values: FloatArray, factor: int) -> FloatArray:
    """Decimate along the first axis: y[n] = sum_j h[j] x[n factor + j], at sample n factor + (len(h) - 1) / 2.

    Only outputs whose whole window is inside are made: nothing is assumed beyond the ends.
    """
    return _filtered(values, decimation_taps(factor), factor)


class Decimator:
    """Decimates a stream of consecutive regressions in constant memory, exact across block borders.

    A covariance is taken as that of white noise: sum_j h[j]^2 Sigma[n factor + j]. Labels are those of the sample in
    the middle.

    Args:
        factor: Decimation factor.
    """

    def __init__(self, factor: int) -> None:
        self._taps, self._factor = decimation_taps(factor), int(factor)
        self._rest: dict[str, NDArray[Any]] = {}

    def push(self, block: Regression) -> Regression | None:
        """Take the next piece of the problem; return the samples it completes, or None without any."""
        if self._factor == 1:
            return block
        own, taps, factor = _arrays(block), self._taps, self._factor
        held = {name: np.concatenate([self._rest[name], own[name]]) if self._rest else own[name] for name in own}
        count = max(0, (len(held["signals"]) - len(taps)) // factor + 1)
        self._rest = {name: values[count * factor:].copy() for name, values in held.items()}
        half = (len(taps) - 1) // 2
        middle = slice(half, half + (count - 1) * factor + 1, factor)
        return _reduced(block, held, taps, factor, middle) if count else None


def decimated(blocks: Iterable[Regression], factor: int, *, around: bool = False) -> Iterator[Regression]:
    """Yield the samples of a stream of regressions that a `Decimator` completes.

    Args:
        blocks: Consecutive pieces of one problem.
        factor: Decimation factor.
        around: The blocks are one period that repeats: windows reach around its ends.
    """
    decimator = Decimator(factor)
    half = (len(decimation_taps(factor)) - 1) // 2
    for block in _wrapped(list(blocks), half) if around and half else blocks:
        made = decimator.push(block)
        if made is not None:
            yield made


def _wrapped(blocks: list[Regression], half: int) -> Iterator[Regression]:
    """Yield a period with the samples before its start and after its end that the first and last windows need."""
    samples = sum(len(block) for block in blocks)
    if samples < 2 * half + 1:
        raise InvalidInput(f"{samples} samples cannot be decimated as one period by a filter of {2 * half + 1}; "
                           "decimate less", samples=samples)
    yield from (b.take(slice(max(0, len(b) - left), None)) for b, left in _last(blocks, half))
    yield from blocks
    yield from (b.take(slice(0, left)) for b, left in _last(blocks[::-1], half)[::-1])


def _last(blocks: list[Regression], count: int) -> list[tuple[Regression, int]]:
    """Return the blocks that hold the last `count` samples, with how many of them each holds."""
    found: list[tuple[Regression, int]] = []
    for block in reversed(blocks):
        if count > 0:
            found.insert(0, (block, min(count, len(block))))
            count -= len(block)
    return found


def _arrays(block: Regression) -> dict[str, NDArray[Any]]:
    """Return what is filtered, columns, effort and repetitions side by side, (t, r, c), and what travels with it."""
    parts = [block.regressor, block.effort[:, :, None]]
    if block.replicates is not None:
        parts.append(block.replicates.transpose(1, 2, 0))
    arrays: dict[str, NDArray[Any]] = {"signals": np.concatenate(parts, axis=2)}
    if block.covariance is not None and block.covariance.ndim == 3:
        arrays["covariance"] = block.covariance
    return arrays | {name: getattr(block, name) for name in LABELS if getattr(block, name) is not None}


def _reduced(like: Regression, held: dict[str, NDArray[Any]], taps: FloatArray, factor: int,
             middle: slice) -> Regression:
    """Return all outputs whose window lies inside; `like` gives shapes and names, `middle` the samples they are of."""
    signals, mask = held["signals"], held.get("mask")
    labels: dict[str, Any] = {name: held[name][middle] for name in LABELS if name in held}
    if mask is None or mask.all():
        made = _filtered(signals, taps, factor)
    else:
        made = _filtered(signals * mask[:, :, None], taps, factor)
        counts = _filtered(mask, taps**2, factor) >= LEFT * float(taps @ taps)
        made /= np.where(counts, _filtered(mask, taps, factor), 1.0)[:, :, None]
        odd = np.flatnonzero(~counts.all(axis=0))  # what does not count is shown as it is, low-passed
        plain = _filtered(signals[:, odd], taps, factor)
        made[:, odd] = np.where(counts[:, odd, None], made[:, odd], plain)
        labels["mask"] = counts
    p, cov = like.regressor.shape[2], like.covariance
    if cov is not None:
        cov = float(taps @ taps) * cov if cov.ndim == 2 else _filtered(held["covariance"], taps**2, factor)
    return replace(like, regressor=made[:, :, :p], effort=made[:, :, p], covariance=cov, **labels,
                   replicates=None if like.replicates is None else made[:, :, p + 1:].transpose(2, 0, 1))


def _filtered(values: NDArray[Any], taps: FloatArray, factor: int) -> FloatArray:
    """Return all outputs whose window lies inside, (t, ...) -> (count, ...), as products of dense blocks."""
    length, flat = len(taps), np.asarray(values, dtype=float).reshape(len(values), -1)
    band = np.zeros((_OUTPUTS, (_OUTPUTS - 1) * factor + length))
    for k in range(_OUTPUTS):
        band[k, k * factor:k * factor + length] = taps
    count = max(0, (len(flat) - length) // factor + 1)
    made = np.empty((count, flat.shape[1]))
    for start in range(0, count, _OUTPUTS):
        k = min(_OUTPUTS, count - start)
        span = (k - 1) * factor + length
        np.matmul(band[:k, :span], flat[start * factor:start * factor + span], out=made[start:start + k])
    return made.reshape(count, *values.shape[1:])
