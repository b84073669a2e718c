"""Choose one processing for a whole experiment by how well it predicts efforts not fitted to.

Logs without periods: each is cut into five contiguous blocks. Weighted
least squares on the low-passed, decimated samples outside a block (and
a guard of 1 / cut-off beside it) predicts the recorded, unfiltered
effort inside, and the geometric mean of the rows' relative errors is
compared. Where many cut-offs are equal, the lowest within an octave of
the highest is taken: it removes more noise, and does not smear other,
faster logs. Logs with periods: Akaike's criterion on the pose. The
exclusion window around velocity reversals is chosen by cross-validation
for both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from gough.core.arrays import BoolArray, FloatArray
from gough.core.blas import one_blas_thread
from gough.core.errors import (
    GoughError,
    InvalidInput,
    InvalidRecording,
    LoopNotClosed,
    SingularConfiguration,
)
from gough.core.parameters import BaseParameters
from gough.engine import Model, base_parameters
from gough.logs.outliers import without_outliers
from gough.logs.recording import Recording
from gough.logs.recording_sources import RecordingSource
from gough.mechanism.types import Mechanism
from gough.processing.cross_validation import SAMPLES_PER_CUTOFF, CrossValidation, prediction_errors
from gough.processing.filters import FILTER_EDGE_PERIODS
from gough.processing.friction_width import friction_widths
from gough.processing.long_logs import joined
from gough.processing.matching import MatchedLog, in_robot_order, match_robot
from gough.processing.processed_log import ProcessedLog, process_log
from gough.processing.settings import MAX_CUTOFF_RATIO, PERIODIC, Method, Processing, decimation_of
from gough.processing.valid_equations import MIN_VALID_FRACTION, dead_bands, joints_with_friction

# Ratio of neighbouring candidates; the best is then refined by its root
# and fourth root on both sides.
CUTOFF_RATIO = 2.0
# Lowest cut-off times duration of a log: half of the log is left beside
# the ends that filters spoil.
MIN_CUTOFF_PERIODS = 21.0
# The search for a cut-off ends after `CUTOFF_PATIENCE` candidates in a
# row whose error is more than `HOPELESS_RATIO` times the best.
HOPELESS_RATIO = 1.1
CUTOFF_PATIENCE = 3
# It ends at once where the error is so many times the best: noise of
# accelerations grows with the power 2.5 of the cut-off.
NOISE_ONLY_RATIO = 2.0
# Blocks spread over a log are enough to choose, if it is
# `LONG_LOG_RATIO` times as long as they are together. The lowest
# cut-offs that are tried need long ones. Where the cut-off is given,
# more and shorter ones hold as many parts of the motion; the filter
# leaves half of the shortest.
LONG_LOG_RATIO = 2.5
N_SAMPLE_BLOCKS = 6
SAMPLE_BLOCK = 20.0  # [s]
N_SHORT_SAMPLE_BLOCKS = 12
SHORT_SAMPLE_BLOCK = 2.5  # [s]
MIN_SAMPLE_BLOCK_LENGTH = 100  # samples of such a block, in logs of a low rate
# tried, each twice as wide as the last: from one sample to 128
MAX_WINDOWS = 9
# Ratios of cross-validated errors, tuned on TX40, double pendulum, UPV,
# EMPS and the virtual robots. Cut-offs whose error is within this ratio
# of the best are taken as equal:
CUTOFF_TIE_RATIO = 1.005
# Efforts not filtered: the widest window whose error on all samples is
# within this ratio is taken.
WIDE_WINDOW_RATIO = 1.01
# Decimated data: the narrowest window whose error is within this ratio
# of the best is taken.
NARROW_WINDOW_RATIO = 1.03
NARROWEST_WINDOW = 2.0  # [samples]
# A joint is at rest if more than this fraction of its samples lies
# within its dead band.
REST_FRACTION = 0.9


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """Settings that were tried, with the relative error of each row on samples not fitted to."""

    cutoff: float | None  # [Hz]
    decimation: int  # one in so many samples is kept
    window: float  # [s]
    errors: tuple[float, ...]  # (r,) [1]

    @property
    def error(self) -> float:
        """Geometric mean of the rows' errors. [1]"""
        return float(np.exp(np.mean(np.log(self.errors))))

    def to_dict(self) -> dict[str, Any]:
        """Return the documented JSON form."""
        return asdict(self) | {"errors": list(self.errors), "error": self.error}


@dataclass(frozen=True, kw_only=True)
class ProcessingChoice:
    """A complete processing and the candidates it was chosen from.

    Errors of windows are those on all samples, or, where regressor and
    effort are low-passed in parallel, on the equations that are valid
    with the widest of them.
    """

    processing: Processing
    rows: tuple[str, ...]  # names of the joint equations
    cutoffs: tuple[Candidate, ...] = ()  # tried, rising
    windows: tuple[Candidate, ...] = ()  # tried, rising
    # speed up to which friction was found incomplete, by joint [m/s or
    # rad/s]
    friction_widths: Mapping[str, float] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return the candidates in the documented JSON form, without the processing itself."""
        cutoffs = [candidate.to_dict() for candidate in self.cutoffs]
        windows = [candidate.to_dict() for candidate in self.windows]
        return {
            "rows": list(self.rows),
            "cutoffs": cutoffs,
            "windows": windows,
            "friction_widths": dict(self.friction_widths),
        }

    def summary(self) -> str:
        """Return the choice as plain text."""
        used = self.processing
        cutoff = "none" if used.cutoff is None else f"{used.cutoff:.4g} Hz"
        window = 1e3 * (used.window or 0.0)
        lines = [
            f"method {used.method}, cut-off {cutoff}, decimation {used.decimation}, window around "
            f"reversals {window:.3g} ms"
        ]
        lines += _moving_lines(used, self.rows)
        if self.friction_widths:
            widths = []
            for joint, width in self.friction_widths.items():
                widths.append(f"{joint} {width:.2g}")
            lines.append(f"friction is incomplete below (m/s or rad/s): {', '.join(widths)}")
        for c in self.cutoffs:
            label = f"cut-off {c.cutoff:.4g} Hz"
            is_chosen = c.cutoff == used.cutoff
            lines.append(_candidate_line(label, c, chosen=is_chosen))
        for c in self.windows:
            label = f"window {1e3 * c.window:.3g} ms"
            is_chosen = c.window == used.window
            lines.append(_candidate_line(label, c, chosen=is_chosen))
        return "\n".join(lines)


def _moving_lines(used: Processing, rows: Sequence[str]) -> list[str]:
    """Return from which speed on each joint counts as moving, and which joints are at rest.

    Motors are listed one by one, other joints by their range.
    """
    lines = []
    if isinstance(used.dead_band, Mapping):
        speeds = []
        passive = []
        for joint, band in used.dead_band.items():
            if band > 0 and joint in rows:
                speeds.append(f"{joint} {band:.2g}")
            elif band > 0:
                passive.append(band)
        if passive:
            speeds.append(f"passive joints and platform {min(passive):.2g} to {max(passive):.2g}")
        if speeds:
            lines.append(f"joints count as moving above (m/s or rad/s): {', '.join(speeds)}")
    if used.joints_at_rest:
        lines.append(
            f"at rest most of the time, all samples are used: {', '.join(used.joints_at_rest)}"
        )
    return lines


def _candidate_line(label: str, candidate: Candidate, *, chosen: bool) -> str:
    mark = " <- chosen" if chosen else ""
    return f"{label}: cross-validated error {100 * candidate.error:.2f} %{mark}"


@one_blas_thread
def choose_processing(
    model: Model,
    logs: Sequence[Recording | RecordingSource | MatchedLog],
    parameters: BaseParameters | Sequence[str] | None = None,
    settings: Processing | None = None,
    *,
    gains: Mapping[str, float] | None = None,
) -> ProcessingChoice:
    """Choose one processing for all logs of an experiment; settings that are given are kept.

    Args:
        parameters: Base parameters of the experiment; by default the
            robot's, with the payloads that the logs carry.
        gains: Drive gains by joint for logs with currents; the robot
            file's by default. Where one is not known, rows are fitted
            one by one.
    """
    asked = settings or Processing()
    coordinates = model.mechanism.coordinates
    asked.bands(coordinates)  # raises if a name is no joint
    if not logs:
        raise InvalidInput("there is no recording to choose a processing from")
    if parameters is None:
        carried = [log.payload for log in logs if log.payload is not None]
        payloads = tuple(dict.fromkeys(carried))
        parameters = base_parameters(model, payloads=payloads)
    samples = samples_of_logs(model, logs, asked)
    method = _method_for_all(samples, asked)
    chosen = replace(asked, method=method)
    if isinstance(asked.dead_band, Mapping) and set(coordinates) <= set(asked.dead_band):
        as_asked = replace(chosen, joints_at_rest=chosen.joints_at_rest or ())
        if as_asked.complete:
            return ProcessingChoice(processing=as_asked, rows=model.rows)
    validation = CrossValidation(model, samples, parameters, gains)
    chosen, cutoffs = _with_cutoff(validation, chosen)
    chosen, windows = _with_bands_and_window(validation, chosen)
    widths: dict[str, float] = {}
    if not validation.by_row:
        widths = _friction_widths(validation, chosen, asked)
    if widths:
        chosen = chosen.with_wider_bands(widths)
    return ProcessingChoice(
        processing=chosen,
        rows=model.rows,
        cutoffs=cutoffs,
        windows=windows,
        friction_widths=widths,
    )


def _with_cutoff(
    validation: CrossValidation, settings: Processing
) -> tuple[Processing, tuple[Candidate, ...]]:
    """Return the settings with cut-off and decimation, and the cut-offs tried."""
    logs = validation.logs
    cutoffs: tuple[Candidate, ...] = ()
    if settings.method == "implicit":
        settings = _with_harmonics(logs[0].recording, settings)
    elif settings.method == "explicit" and settings.cutoff is None:
        settings = replace(settings, cutoff=max(log.pose_cutoff for log in logs))
    elif settings.method == "time" and settings.cutoff is None:
        cutoffs = _try_cutoffs(validation, settings)
        settings = replace(settings, cutoff=_best_cutoff(cutoffs))
    if settings.decimation is not None:
        return settings, cutoffs
    decimation = 1
    if settings.method == "time":
        decimation = decimation_of(settings.cutoff or 1.0, validation.rate)
    return replace(settings, decimation=decimation), cutoffs


def _with_bands_and_window(
    validation: CrossValidation, settings: Processing
) -> tuple[Processing, tuple[Candidate, ...]]:
    """Return the settings with dead bands and exclusion window, and the windows tried."""
    processed = validation.process(settings)
    settings = _with_bands(validation.model, processed, settings)
    if settings.window is not None:
        return settings, ()
    processed = [log.with_bands(settings) for log in processed]
    windows, best = _try_windows(validation, processed, settings)
    return replace(settings, window=best), windows


def _method_for_all(logs: Sequence[MatchedLog], asked: Processing) -> Method:
    """Return the method for all logs; raise if one without periods cannot be averaged as asked."""
    short = None
    for log in logs:
        if log.recording.period_count < 2:
            short = log
            break
    if asked.method in PERIODIC and short is not None:
        recording = short.recording
        raise InvalidRecording(
            f"{short.source}: {len(short)} samples hold {recording.period_count} whole periods "
            f"(period: {recording.period_samples} samples); averaging needs two, so state the "
            "period or process in time",
            source=short.source,
        )
    if asked.method != "auto":
        return asked.method
    if short is None:
        return "explicit"
    return "time"


def _with_harmonics(recording: Recording, settings: Processing) -> Processing:
    """Return the settings of the implicit fit with its fundamental and its cut-off."""
    frequency = settings.frequency
    if frequency is None:
        frequency = recording.rate / (recording.period_samples or 1)
    return replace(settings, frequency=frequency, cutoff=settings.harmonics * frequency)


def _friction_widths(
    validation: CrossValidation, settings: Processing, asked: Processing
) -> dict[str, float]:
    """Return up to which speed the friction of joints is incomplete. [m/s or rad/s]

    In averaged periods those of drives, that is of motors and of joints
    coupled to them by gears, are found as those of passive joints.
    Cross-validation of the window cannot replace it there: predicting
    all samples, also those inside the width, rewards friction that is
    too small. A window that is given is kept alone. Without periods,
    regressor and effort are low-passed in parallel, which spreads
    missing friction over samples of higher speed, and the window alone
    decides: on real logs of a cable-driven arm and of a wrist with
    coupled gears, widths of drives made held-out errors larger by up to
    a fifth.

    Args:
        settings: Complete.
        asked: As the user asked for; joints whose dead band is given
            keep it.
    """
    coordinates = validation.model.mechanism.coordinates
    fixed: set[str] = set()
    if isinstance(asked.dead_band, Mapping):
        fixed |= set(asked.dead_band)
    elif asked.dead_band is not None:
        fixed |= set(coordinates)
    if asked.window is not None or settings.method not in PERIODIC:
        fixed |= _drives(validation.model.mechanism)
    with_friction = joints_with_friction(validation.model, settings)
    if all(coordinates[joint] in fixed for joint in with_friction):
        return {}
    logs = []
    for log in validation.logs:
        processed = process_log(validation.model, log, settings)
        logs.append(processed.with_gains(validation.gains))
    return friction_widths(validation.model, logs, validation.parameters, settings, fixed)


def _drives(mechanism: Mechanism) -> set[str]:
    """Return the motors and the joints whose speed is a fixed combination of theirs."""
    drives = set(mechanism.actuated)
    n_known = 0
    while n_known < len(drives):
        n_known = len(drives)
        for closure in mechanism.closures:
            others = [name for name in closure.coefficients if name not in drives]
            if len(others) == 1:
                drives.add(others[0])
    return drives


def _best_cutoff(candidates: Sequence[Candidate]) -> float:
    """Return the lowest cut-off within an octave of the highest whose error is about the best."""
    least = min(candidate.error for candidate in candidates)
    good = []
    for candidate in candidates:
        is_good = candidate.error <= CUTOFF_TIE_RATIO * least
        if is_good and candidate.cutoff is not None:
            good.append(candidate.cutoff)
    lowest = good[-1] / CUTOFF_RATIO
    return next(cutoff for cutoff in good if cutoff >= lowest)


def samples_of_logs(
    model: Model,
    logs: Sequence[Recording | RecordingSource | MatchedLog],
    settings: Processing,
) -> list[MatchedLog]:
    """Return the logs, of long ones that are not averaged blocks spread over them."""
    samples: list[MatchedLog] = []
    for log in logs:
        if isinstance(log, RecordingSource):
            samples += _sample_blocks_of_source(model, log, settings)
        else:
            matched = match_robot(model, log, settings.repeats)
            if settings.method_for(matched.recording) in PERIODIC:
                samples.append(matched)
                continue
            starts, length = _block_starts(len(matched), matched.recording.rate, settings)
            if len(starts) == 1:
                samples.append(matched)
                continue
            for start in starts:
                block = matched.block(slice(start, start + length))
                samples.append(block.without_period())
    return samples


def _block_starts(n_samples: int, rate: float, settings: Processing) -> tuple[list[int], int]:
    """Return first samples and length of the blocks that a log is judged by."""
    n_blocks = N_SAMPLE_BLOCKS
    seconds = SAMPLE_BLOCK
    if settings.cutoff is not None:
        n_blocks = N_SHORT_SAMPLE_BLOCKS
        seconds = max(SHORT_SAMPLE_BLOCK, MIN_CUTOFF_PERIODS / settings.cutoff)
    length = max(round(seconds * rate), MIN_SAMPLE_BLOCK_LENGTH)
    if n_samples <= LONG_LOG_RATIO * n_blocks * length:
        return [0], n_samples
    starts = np.round(np.linspace(0, n_samples - length, n_blocks))
    return starts.astype(int).tolist(), length


def _sample_blocks_of_source(
    model: Model, source: RecordingSource, settings: Processing
) -> list[MatchedLog]:
    """Return blocks spread over a log that stays in its file."""
    rate = next(iter(source.blocks(4096))).rate
    starts, length = _block_starts(source.samples, rate, settings)
    blocks: dict[int, Recording] = {}
    first = 0
    for recording in source.blocks():
        for start in starts:
            low = max(start - first, 0)
            high = min(start + length - first, len(recording))
            if low < high:
                ordered = in_robot_order(recording, model)
                piece = ordered.take(slice(low, high))
                if start in blocks:
                    piece = joined(blocks[start], piece)
                blocks[start] = piece
        first += len(recording)
    matched = []
    for start in starts:
        recording = without_outliers(blocks[start])
        log = MatchedLog(
            recorded=recording,
            recording=recording,
            kinematics=model.kinematics,
        )
        matched.append(log.without_period())
    return matched


def _with_bands(model: Model, logs: Sequence[ProcessedLog], settings: Processing) -> Processing:
    """Return the settings with the dead band of every joint, and the joints at rest."""
    mechanism = model.mechanism
    given = settings.dead_band
    if given is not None and not isinstance(given, Mapping):
        bands = dict.fromkeys(mechanism.coordinates, float(given))
    else:
        bands = dead_bands(model, logs) | dict(given or {})
    settings = replace(settings, dead_band=bands)
    if settings.joints_at_rest is not None:
        return settings
    band = settings.bands(mechanism.coordinates)
    within = np.concatenate([np.abs(log.motion.qd) < band for log in logs])
    at_rest = []
    for joint, fraction in zip(mechanism.joints, within.mean(axis=0)):
        if mechanism.has_coulomb(joint) and fraction > REST_FRACTION:
            at_rest.append(joint.name)
    return replace(settings, joints_at_rest=tuple(at_rest))


def lowest_cutoff(validation: CrossValidation) -> float:
    """Return the lowest cut-off whose filter leaves half of every log. [Hz]"""
    shortest = min(len(log) / log.recording.rate for log in validation.logs)
    highest = MAX_CUTOFF_RATIO * validation.rate
    return min(MIN_CUTOFF_PERIODS / shortest, highest / CUTOFF_RATIO)


def _try_cutoffs(validation: CrossValidation, settings: Processing) -> tuple[Candidate, ...]:
    """Try cut-offs from the lowest that leaves half of every log upwards, then beside the best.

    Cut-offs with which the loops do not close are left out. If all of
    them are, the error of the highest is raised: the positions as
    recorded do not fit the robot.
    """
    highest = MAX_CUTOFF_RATIO * validation.rate
    lowest = lowest_cutoff(validation)
    margin = FILTER_EDGE_PERIODS / lowest
    tried: dict[float, Candidate] = {}
    failures: list[GoughError] = []

    def error(cutoff: float) -> float:
        try:
            tried[cutoff] = _tried_cutoff(validation, settings, cutoff, margin)
        except (LoopNotClosed, SingularConfiguration) as failure:
            # A low cut-off bends the path: what the motors did together
            # may not be possible then.
            failures.append(failure)
            return np.inf
        return tried[cutoff].error

    best = np.inf
    n_hopeless = 0
    cutoff = lowest
    while cutoff <= highest * (1 + 1e-9) and n_hopeless < CUTOFF_PATIENCE:
        next_error = error(cutoff)
        if NOISE_ONLY_RATIO * best < next_error < np.inf:
            break
        if next_error > HOPELESS_RATIO * best:
            n_hopeless += 1
        else:
            n_hopeless = 0
        best = min(best, next_error)
        cutoff *= CUTOFF_RATIO
    if not tried:
        raise failures[-1]
    for step in (CUTOFF_RATIO**0.5, CUTOFF_RATIO**0.25):
        top = min(tried, key=lambda f: tried[f].error)
        for beside in (top / step, top * step):
            if lowest <= beside <= highest:
                error(beside)
    return tuple(tried[f] for f in sorted(tried))


def _tried_cutoff(
    validation: CrossValidation,
    settings: Processing,
    cutoff: float,
    margin: float,
) -> Candidate:
    """Return the cross-validated errors with a cut-off; `margin` at both ends of logs is excluded.

    [s]
    """
    settings = replace(settings, cutoff=cutoff)
    logs = validation.process(settings)
    banded = _with_bands(validation.model, logs, settings)
    logs = [log.with_bands(banded) for log in logs]
    masks = [[log.valid] for log in logs]
    errors = prediction_errors(validation, logs, masks, margin=margin)
    decimation = settings.decimation
    if decimation is None:
        decimation = decimation_of(cutoff, validation.rate)
    return Candidate(
        cutoff=cutoff,
        decimation=decimation,
        window=settings.window or 0.0,
        errors=tuple(errors.on_all[0].tolist()),
    )


def _try_windows(
    validation: CrossValidation,
    logs: Sequence[ProcessedLog],
    settings: Processing,
) -> tuple[tuple[Candidate, ...], float]:
    """Try exclusion windows around velocity reversals; return them and the best one. [s]

    Windows double until a row would lose half of its valid equations.
    `NARROWEST_WINDOW` samples on both sides are never valid. Where
    regressor and effort are low-passed in parallel that is nearly
    enough, and a wider window has to win more on the equations that are
    valid with the widest of them than it costs on all samples: the
    narrowest with about the smallest product of both errors is taken.
    Elsewhere reversals bias the estimate by less than the noise of a
    prediction shows: the widest that predicts all samples about as well
    as the best is taken.
    """
    mechanism = validation.model.mechanism
    motors = [joint for joint in mechanism.joints if joint.actuated]
    if not any(mechanism.has_coulomb(joint) for joint in motors):
        return (), 0.0
    decimation = settings.decimation or 1
    narrowest = NARROWEST_WINDOW / validation.rate
    step = narrowest
    if settings.method == "time" and settings.cutoff is not None:
        step = max(step, 1.0 / (SAMPLES_PER_CUTOFF * settings.cutoff))
    least = 0.0
    if decimation > 1:
        least = narrowest
    doubled = [step * 2.0**k for k in range(MAX_WINDOWS - 1)]
    widths = [least, *(width for width in doubled if width > least)]
    masks = _masks_of_windows(logs, settings, widths)
    widths = widths[: len(masks)]
    if len(masks) < 2:  # a motor that reverses all the time
        return (), max(widths, default=0.0)
    by_log = list(zip(*masks))
    errors = prediction_errors(validation, logs, by_log)
    on_all = _window_candidates(settings, widths, errors.on_all)
    if decimation == 1:
        best = min(candidate.error for candidate in on_all)
        good = WIDE_WINDOW_RATIO * best
        wide = [c.window for c in on_all if c.error <= good]
        return on_all, max(narrowest, *wide)
    on_valid = _window_candidates(settings, widths, errors.on_valid)
    products = []
    for valid, every in zip(on_valid, on_all):
        products.append(valid.error * every.error)
    good = NARROW_WINDOW_RATIO * min(products)
    narrow = [width for width, product in zip(widths, products) if product <= good]
    return on_valid, min(narrow)


def _masks_of_windows(
    logs: Sequence[ProcessedLog], settings: Processing, widths: Sequence[float]
) -> list[list[BoolArray]]:
    """Return valid equations of each log for windows, until one excludes too much of a row."""
    without_window = replace(settings, window=0.0)
    none = [log.valid_at(without_window) for log in logs]
    fraction_without = np.concatenate(none).mean(axis=0)
    masks = []
    for width in widths:
        with_window = replace(settings, window=width)
        valid = [log.valid_at(with_window) for log in logs]
        fraction = np.concatenate(valid).mean(axis=0)
        if (fraction < MIN_VALID_FRACTION * fraction_without).any():
            break
        masks.append(valid)
    return masks


def _window_candidates(
    settings: Processing, widths: Sequence[float], errors: FloatArray
) -> tuple[Candidate, ...]:
    """Return windows with their errors, (windows, r)."""
    candidates = []
    for width, row_errors in zip(widths, errors.tolist()):
        candidate = Candidate(
            cutoff=settings.cutoff,
            decimation=settings.decimation or 1,
            window=width,
            errors=tuple(row_errors),
        )
        candidates.append(candidate)
    return tuple(candidates)
