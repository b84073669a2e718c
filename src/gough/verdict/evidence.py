"""An identified model and all logs that the verdict judges it by."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from gough.core.arrays import FloatArray, IntArray
from gough.core.parameters import BaseParameters
from gough.engine import Model
from gough.fitting.cross_validation import weighted_fit
from gough.fitting.regression import Regression, concatenate
from gough.processing import ProcessedLog
from gough.processing.matching import PERIOD_RULE
from gough.verdict.exclusions import away_from_jumps, away_from_reversals
from gough.verdict.fitted_log import FittedLog
from gough.verdict.fitted_model import FittedModel
from gough.verdict.noise import NOISE_BANDS, NoisePower, mean_noise_power
from gough.verdict.shorter_logs import averaged

# of all logs together; longer ones are averaged over neighbours
MAX_VERDICT_SAMPLES = 8000
MIN_VERDICT_SAMPLES = 200  # of a log, however many there are


@dataclass(frozen=True, kw_only=True, eq=False)
class Evidence:
    """An identified model and all logs of it, held-out ones too."""

    fitted: FittedModel  # the identified model
    logs: tuple[FittedLog, ...]  # those of the fit, then the held-out ones

    @property
    def model(self) -> Model:
        """The robot."""
        return self.fitted.model

    @property
    def base(self) -> BaseParameters:
        """Base parameters, payload columns included."""
        return self.fitted.base

    def with_values(self, values: FloatArray) -> Evidence:
        """Return the evidence with other values of the base parameters, (b,)."""
        fitted = replace(self.fitted, values=values)
        return replace(
            self, fitted=fitted, logs=tuple(replace(log, fitted=fitted) for log in self.logs)
        )

    def refitted(self) -> Evidence:
        """Return the evidence with the weighted least-squares values of all its logs."""
        regressions = [log.regression.select(self.base.names) for log in self.logs]
        plain = []
        for each in regressions:
            plain.append(
                replace(each, replicates=None, covariance=None, group=None, sample=None, time=None)
            )
        together = concatenate(plain) if len(plain) > 1 else plain[0]
        return self.with_values(weighted_fit(together.statistics()).values)

    def noise_power(self, bands: int = NOISE_BANDS) -> NoisePower | None:
        """Return the noise power of the rows of all logs; None if it is not known.

        Args:
            bands: As of `gough.verdict.noise.noise_power`.
        """
        regressions = []
        predicted = []
        for log in self.logs:
            regression = log.regression.select(self.base.names)
            regressions.append(regression)
            predicted.append(regression.regressor @ self.fitted.values)
        return mean_noise_power(regressions, predicted, bands=bands)

    def least_noise_power(self) -> FloatArray:
        """Return the least noise power that the rows of all logs can have, zero if unknown, (r,).

        Of decimated logs that hold nothing above the motion, it is that
        of the residual before decimation.
        """
        power = self.noise_power()
        if power is not None:
            return power.least
        powers = []
        for log in self.logs:
            least = log.least_decimated_noise
            if least is None:
                return np.zeros(len(self.model.rows))
            powers.append(least)
        return np.asarray(np.mean(powers, axis=0))


def evidence_of(
    fitted: FittedModel,
    processed: Sequence[ProcessedLog],
    regressions: Sequence[Regression],
    n_held_out: int,
) -> Evidence:
    """Return processed logs as the verdict needs them, the last ones held out.

    Logs of the same name are numbered.
    """
    sources = [log.source for log in processed]
    logs = []
    for k, (log, regression) in enumerate(zip(processed, regressions)):
        name = log.source
        if sources.count(name) > 1:
            name = f"{name} ({sources[:k].count(name) + 1})"
        deviations = None
        if log.repetitions is not None and len(log.repetitions) > 1:
            deviations = log.repetitions - log.repetitions.mean(axis=0)
        samples = None if regression.sample is None else sample_numbers(log, regression)
        fitted_log = FittedLog(
            fitted=fitted,
            name=name,
            held_out=k >= len(processed) - n_held_out,
            motion=log.motion,
            effort=log.effort,
            dead_band=log.dead_band,
            regression=regression,
            samples=samples,
            deviations=deviations,
            decimation=log.decimation,
            averaged_equations=log.valid if log.decimation > 1 else None,
            periodic=log.periodic,
            period=repeated_period(log),
            payload=log.payload,
            cutoff=log.cutoff,
            jumps=() if log.matched is None else log.matched.jumps,
        )
        most = max(MAX_VERDICT_SAMPLES // len(processed), MIN_VERDICT_SAMPLES)
        logs.append(away_from_jumps(away_from_reversals(averaged(fitted_log, most))))
    return Evidence(fitted=fitted, logs=tuple(logs))


def sample_numbers(log: ProcessedLog, regression: Regression) -> IntArray:
    """Return the number in a log's motion of each sample of its regression, (t,)."""
    if regression.sample is None:
        return np.arange(len(regression))
    return np.asarray(regression.sample - log.sample[0])


def repeated_period(log: ProcessedLog) -> float | None:
    """Return the period of a motion that repeats and was not averaged, stated or found. [s]"""
    if log.periodic or log.matched is None:
        return None
    recording = log.matched.recording
    if recording.period_samples is not None:
        return recording.period_samples / recording.rate if log.periods >= 2 else None
    for notice in recording.notices:
        if notice.rule == PERIOD_RULE:
            return notice.numbers["seconds"]
    return None
