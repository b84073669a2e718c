"""Guaranteed boxes for the parameters of a robot, from logs and an error bound (P03)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from gough.bounding.prior import default_prior, prior_by_name
from gough.bounding.solve import BoundedProblem, Solver, enclose
from gough.bounding.source import source_of
from gough.bounding.uncertain_regressor import (
    enclose_regressor,
    friction_interval,
)
from gough.core.arrays import BoolArray, FloatArray, IntArray
from gough.core.blas import one_blas_thread
from gough.core.errors import InvalidInput
from gough.core.intervals import Interval
from gough.core.notices import Notice
from gough.core.options import (
    REQUIRED,
    Settings,
    merge_settings,
    nested,
    option,
    with_settings,
)
from gough.core.parameters import BaseParameters
from gough.core.progress import portion, report, tracked
from gough.engine import Model, Robot, as_model, base_parameters
from gough.engine.base import TIE_LEGS
from gough.engine.columns import column_names
from gough.fitting.estimate import Enclosure
from gough.identification.experiment import in_efforts
from gough.identification.load_friction import refuse_load_friction
from gough.identification.result import Identification
from gough.logs.readers import Log, as_recordings
from gough.logs.recording import Recording
from gough.processing import (
    MatchedLog,
    ProcessedLog,
    Processing,
    choose_processing,
    match_robot,
    process,
    regression,
)

MAX_EQUATIONS = 20000  # equations used: every k-th sample beyond that
# The same with an uncertain regressor: enclosing that of a hexapod
# takes 10 ms an equation.
MAX_UNCERTAIN_EQUATIONS = 1500
# Half width of a jump after the low-pass, times its cut-off.
JUMP_HALF_WIDTH = 0.3
# Default speed below which friction may have any sign, over the top
# speed of the joint.
SLOW_SPEED_FRACTION = 0.01


@dataclass(frozen=True, kw_only=True)
class BoundsSettings(Settings):
    """What is known beforehand, and how the box is computed."""

    error_bound: float = option(
        REQUIRED,
        "Largest error of model and measurement together on any effort.",
        unit="N or N m",
        above=0,
    )
    solver: Solver = option(
        "exact",
        "exact: the smallest box, certified; trimmed: equations that fit worst are left out, a "
        "heuristic; gauss-seidel: P03, preconditioned.",
    )
    outliers: int = option(
        0,
        "Number of equations that may violate the bound; exact: the box holds whichever they are.",
        least=0,
    )
    prior: tuple[float, float] | Mapping[str, tuple[float, float]] | None = option(
        None,
        "Lower and upper bound of all parameters beforehand; generous ones around the robot file's "
        "values by default.",
    )
    threshold: float | None = option(
        None,
        "Speed below which friction of the motors may have any sign; 1 % of each joint's top "
        "speed, at least its dead band, by default.",
        unit="m/s or rad/s",
        least=0,
    )
    position_error: float | None = option(
        None,
        "Largest error of any recorded position, e.g. half a step of the encoder. The motion is "
        "enclosed too, if the log is periodic and its pose has no harmonics above the cut-off; by "
        "default positions are taken as exact.",
        unit="m or rad",
        above=0,
    )
    tie_legs: bool = option(False, TIE_LEGS)
    processing: Processing = nested(Processing)


@with_settings(BoundsSettings)
@one_blas_thread
def bounds(
    model: Robot,
    recordings: Log | Sequence[Log],
    settings: BoundsSettings | None = None,
    *,
    result: Identification | None = None,
    gains: Mapping[str, float] | None = None,
    **options: Any,
) -> Enclosure:
    """Return a box that contains every parameter vector the data allow.

    Args:
        model: The robot, also by name or path.
        recordings: One or several logs.
        settings: What is known, and how to solve; single options may be
            given by name instead.
        result: An identification whose processing and drive gains are
            used where others are not given.
        gains: Drive gains for logs with currents.
    """
    chosen = merge_settings(BoundsSettings, settings, options)
    model = as_model(model)
    recordings = as_recordings(recordings)
    refuse_load_friction(model, "bounds")
    if not recordings:
        raise InvalidInput("there is no recording to bound parameters with")
    if result is not None:
        model = result.fitted(model)
        chosen = replace(chosen, processing=result.processing_with(chosen.processing))
        gains = gains or result.gains
    base = bounded_parameters(model, recordings, chosen)
    report(0.05)
    with portion(0.05, 0.15):
        repeats = chosen.processing.repeats
        matched = [match_robot(model, log, repeats) for log in tracked(recordings)]
    processing = complete_processing(model, matched, base, chosen.processing, gains)
    chosen = replace(chosen, processing=processing)
    problem = bounded_problem(model, matched, base, chosen, gains=gains)
    report(0.3)
    with portion(0.3, 1.0):
        box = enclose(problem, chosen.solver, chosen.outliers)
    notices = box.notices
    if chosen.position_error is not None:
        notice = Notice(
            rule="position error",
            level="info",
            text=f"positions may be off by {chosen.position_error:g} m or rad, and the motion was "
            "enclosed with them: the box holds if the pose has no harmonics above "
            f"{processing.cutoff:.4g} Hz",
        )
        notices = (notice, *notices)
    source = source_of(model, recordings, gains)
    return replace(
        box,
        settings=chosen.to_dict(),
        notices=notices,
        certificate={**box.certificate, "source": source},
    )


def bounded_parameters(
    model: Model, recordings: Sequence[Recording], settings: BoundsSettings
) -> BaseParameters:
    """Return the base parameters of a robot with the payloads that some logs carry."""
    payloads = dict.fromkeys(log.payload for log in recordings if log.payload is not None)
    return base_parameters(model, tie_legs=settings.tie_legs, payloads=tuple(payloads))


def bounded_problem(
    model: Model,
    recordings: Sequence[Recording | MatchedLog],
    base: BaseParameters,
    settings: BoundsSettings | None = None,
    *,
    gains: Mapping[str, float] | None = None,
    **options: Any,
) -> BoundedProblem:
    """State the bounded-error problem of some logs.

    Efforts of a periodic log are averaged over its periods, as the
    motion is: errors within the bound stay within it. Those of other
    logs are used sample by sample. Neither are filtered or decimated,
    which could spread the error of one sample to others. With a
    `position_error` the regressor is an interval: `enclose_regressor`.
    Where more motors than degrees of freedom share a row, row m can be
    off by error_bound sum_a |E_am|, E the closure map of the motors.
    """
    chosen = merge_settings(BoundsSettings, settings, options)
    matched = [match_robot(model, log, chosen.processing.repeats) for log in recordings]
    processing = complete_processing(model, matched, base, chosen.processing, gains)
    logs, _ = in_efforts(model, [process(model, log, processing) for log in matched], gains)
    blocks = [_log_equations(model, log, base, chosen, len(logs)) for log in logs]
    if chosen.prior is None:
        prior = default_prior(model, base)
    else:
        prior = prior_by_name(chosen.prior, base)
    limits = np.array([prior[name] for name in base.names])
    return BoundedProblem(
        regressor_lower=np.concatenate([block.regressor.lower for block in blocks]),
        regressor_upper=np.concatenate([block.regressor.upper for block in blocks]),
        effort=np.concatenate([block.effort for block in blocks]),
        error_bound=np.concatenate([block.error_bound for block in blocks]),
        prior_lower=limits[:, 0],
        prior_upper=limits[:, 1],
        parameters=base.names,
        units=base.units,
        rows=model.rows,
        row_units=model.row_units,
        used=np.concatenate([block.valid for block in blocks]),
    )


class _LogEquations(NamedTuple):
    """Equations of one log at s of its samples, r rows each."""

    regressor: Interval  # (s, r, p)
    effort: FloatArray  # (s, r)
    error_bound: FloatArray  # (s, r)
    valid: BoolArray  # (s, r)


def _log_equations(
    model: Model,
    processed: ProcessedLog,
    base: BaseParameters,
    settings: BoundsSettings,
    n_logs: int,
) -> _LogEquations:
    """Return the equations of one of several logs at every k-th valid sample."""
    max_equations = MAX_EQUATIONS
    if settings.position_error is not None:
        max_equations = MAX_UNCERTAIN_EQUATIONS
    block = regression(model, processed, base, decimate=False)
    valid = np.array(processed.valid)
    if not valid.any():
        valid[:] = True
    samples = np.flatnonzero(valid.any(axis=1))
    step = max(1, int(np.ceil(int(valid.sum()) * n_logs / max_equations)))
    samples = samples[::step]
    valid = valid[samples]
    slow = _slow_speeds(model, processed, settings.threshold)
    if settings.position_error is None:
        regressor = friction_interval(model, processed, base, block.regressor, slow)[samples]
    else:
        names = column_names(base)
        enclosed = enclose_regressor(
            model, processed, names, settings.position_error, slow, samples
        )
        # columns of payloads that were not carried are zero
        carried = np.any(block.regressor != 0, axis=(0, 1))
        finite = np.isfinite(enclosed.upper - enclosed.lower)
        proven = np.asarray(finite.all(axis=(1, 2)))
        lower = np.where(proven[:, None, None], enclosed.lower, 0.0) * carried
        upper = np.where(proven[:, None, None], enclosed.upper, 0.0) * carried
        regressor = Interval(lower, upper)
        valid &= proven[:, None]
    error_bound = settings.error_bound * _row_amplification(model, processed, samples)
    return _LogEquations(regressor, block.effort[samples], error_bound, valid)


def _slow_speeds(model: Model, processed: ProcessedLog, threshold: float | None) -> FloatArray:
    """Return the speed below which friction of each joint may have any sign, (n,)."""
    top_speed = np.abs(processed.motion.qd).max(axis=0)
    slow = np.asarray(np.maximum(processed.dead_band, SLOW_SPEED_FRACTION * top_speed))
    if threshold is not None:
        for i in model.actuated:
            if model.mechanism.has_coulomb(model.mechanism.joints[i]):
                slow[i] = threshold
    return slow


def _row_amplification(model: Model, processed: ProcessedLog, samples: IntArray) -> FloatArray:
    """Return the largest error of each row if every motor is off by one, (s, r)."""
    if not model.loops.redundant:
        return np.ones((len(samples), len(model.rows)))
    closure_map = model.kinematics.closure_map(processed.motion.q[samples])
    return np.asarray(np.abs(closure_map[:, list(model.actuated)]).sum(axis=1))


def complete_processing(
    model: Model,
    recordings: Sequence[Recording | MatchedLog],
    base: BaseParameters,
    given: Processing,
    gains: Mapping[str, float] | None,
) -> Processing:
    """Choose the processing options that are not given.

    The exclusion window around velocity reversals covers jumps that the
    low-pass smears.
    """
    without_window = replace(given, window=given.window or 0.0)
    choice = choose_processing(model, recordings, base, without_window, gains=gains)
    processing = choice.processing
    if given.window is not None:
        return processing
    if processing.cutoff is None:
        return replace(processing, window=0.0)
    return replace(processing, window=JUMP_HALF_WIDTH / processing.cutoff)
