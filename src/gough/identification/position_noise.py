"""Effects of position noise on an estimate: signal-to-noise ratio and attenuation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from gough.core.arrays import TINY, FloatArray
from gough.core.blas import one_blas_thread
from gough.core.names import Parameter, index_of
from gough.core.notices import Notice
from gough.fitting.estimate import Estimate
from gough.fitting.noise_information import (
    attenuation,
    information_over_noise,
    whitened_rows,
)
from gough.fitting.regression import Regression
from gough.identification.experiment import (
    Experiment,
)
from gough.processing import (
    ProcessedLog,
    regression,
)
from gough.processing.processed_log import process_log

# Attenuation bias by position noise below this many standard errors is
# ignored.
NEGLIGIBLE_ATTENUATION = 0.1
# Perturbations of the positions of a log alone, each of another block
# of a long one.
N_PERTURBATIONS = 4
# A log without periods is perturbed in blocks of so many samples.
PERTURBED_SAMPLES = 20000


@one_blas_thread
def add_position_noise_effects(experiment: Experiment, estimate: Estimate) -> Estimate:
    """Add the effects of position noise to an estimate: signal-to-noise ratio and attenuation.

    `information` becomes the signal-to-noise ratio of each regressor
    column. The values are not corrected for attenuation, as the noise
    of real logs is not known exactly: the standard errors are widened
    by it instead. Drive gains among the parameters have neither.
    """
    noise = _position_noise(experiment, estimate)
    information = np.full(len(estimate), np.nan)
    information[noise.place] = information_over_noise(noise.rows, noise.changes, noise.names)
    return _widened_by(replace(estimate, information=information), noise.bias(estimate))


@one_blas_thread
def attenuation_bias(experiment: Experiment, estimate: Estimate) -> FloatArray:
    """Return the attenuation of an estimate by position noise, (p,)."""
    return _position_noise(experiment, estimate).bias(estimate)


class _PositionNoise(NamedTuple):
    """The regressor of the parameters that are no gains, and its changes by position noise."""

    names: list[Parameter]  # parameters that are no gains
    place: list[int]  # of them in the estimate
    rows: FloatArray  # whitened regressor, or a factor of it, (k, p)
    changes: FloatArray  # of the whitened regressor by position noise, (k, p)

    def bias(self, estimate: Estimate) -> FloatArray:
        """Return the attenuation of all parameters of the estimate; zero for gains, (p,)."""
        bias = np.zeros(len(estimate))
        values = estimate.values[self.place]
        bias[self.place] = attenuation(self.rows, self.changes, values, self.names)
        return bias


def _position_noise(experiment: Experiment, estimate: Estimate) -> _PositionNoise:
    """Return what position noise makes of the regressor of an estimate."""
    noise = estimate.residual_rms
    if estimate.noise_covariance is not None:
        noise = np.sqrt(np.diag(estimate.noise_covariance))
    names = [name for name in estimate.parameters if name in experiment.problem.parameters]
    return _PositionNoise(
        names=names,
        place=[index_of(estimate.parameters, name) for name in names],
        rows=whitened_rows(experiment.problem.select(names), noise),
        changes=_regressor_changes(experiment, names, noise),
    )


def _regressor_changes(
    experiment: Experiment, names: Sequence[Parameter], noise: FloatArray
) -> FloatArray:
    """Return the whitened change of the regressor by position noise, for all logs, (k, p)."""
    rng = np.random.default_rng(0)
    changes = []
    count = -(-N_PERTURBATIONS // len(experiment.processed))  # of each log, rounded up
    for log, whole in zip(experiment.processed, experiment.regressions):
        for block, perturbed in perturbed_pairs(log, rng, count):
            before = whole
            if block is not log:
                before = _regression_as_recorded(experiment, block)
            after = _regression_as_recorded(experiment, perturbed)
            change = replace(before, regressor=after.regressor - before.regressor).select(names)
            scale = np.sqrt(len(whole) / len(before) / count)
            changes.append(whitened_rows(change, noise) * scale)
    return np.concatenate(changes)


def _regression_as_recorded(experiment: Experiment, log: ProcessedLog) -> Regression:
    """Return the regression of a log whose currents, if any, need not be efforts."""
    return regression(experiment.model, replace(log, current=False), experiment.base)


def _widened_by(estimate: Estimate, bias: FloatArray) -> Estimate:
    """Return the estimate with standard errors widened by an attenuation bias, (p,).

    Nothing changes if the bias is negligible beside the standard
    errors.
    """
    ratio = np.abs(bias) / np.maximum(estimate.std, TINY)
    worst = int(np.argmax(ratio))
    if ratio[worst] < NEGLIGIBLE_ATTENUATION:
        return estimate
    widened = estimate.widened(np.outer(bias, bias))
    if ratio[worst] > 1:
        notice = Notice(
            rule="attenuation",
            level="info",
            where=estimate.parameters[worst],
            text=f"position noise biases it towards zero by about {bias[worst]:.2g}, more "
            "than the standard error from noise; the standard errors that are stated include it",
            advice="a lower cut-off or repetitions help",
        )
        widened = replace(widened, notices=(*estimate.notices, notice))
    return widened


def perturbed_pairs(
    log: ProcessedLog, rng: np.random.Generator, count: int = N_PERTURBATIONS
) -> Iterator[tuple[ProcessedLog, ProcessedLog]]:
    """Yield so many blocks of a log, each without and with added position noise.

    A log that is short or averaged over its periods is one block,
    perturbed several times.
    """
    matched = log.whole_log
    if log.periodic or len(matched) <= PERTURBED_SAMPLES:
        for _ in range(count):
            yield log, log.perturbed(rng)
        return
    starts = np.linspace(0, len(matched) - PERTURBED_SAMPLES, count).astype(int)
    for start in starts.tolist():
        block = matched.block(slice(start, start + PERTURBED_SAMPLES))
        processed = process_log(log.model, block, log.settings)
        yield processed, processed.perturbed(rng)
