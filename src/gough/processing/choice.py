"""One processing for a whole experiment, chosen by how well it predicts efforts it has not seen.

Logs without periods: each is cut into five contiguous blocks; weighted least squares on the
low-passed, decimated samples outside a block (and a guard of 1 / cut-off beside it) predict the
recorded, unfiltered effort inside, and the geometric mean of the rows' relative errors is compared.
Where many cut-offs are equal, the lowest within an octave of the highest: away from noise, and from
smearing other, faster logs. Logs with periods: Akaike's criterion on the pose. The window about
reversals is judged in the same way for both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from gough.core.arrays import TINY
from gough.core.blas import one_blas_thread
from gough.core.errors import InvalidInput, InvalidRecording
from gough.core.names import Parameter
from gough.core.parameters import BaseParameters
from gough.engine import Model, base_parameters
from gough.logs.readers import RecordingSource
from gough.logs.recording import Recording
from gough.processing.averaging import akaike_cutoff, average_periods
from gough.processing.cross_validation import FINE, Sheet, Trial, prediction_errors
from gough.processing.filters import SPOILT
from gough.processing.match_robot import matched, ready
from gough.processing.settings import HIGHEST, PERIODIC, Processing, decimation_of
from gough.processing.time_domain import joined, length
from gough.processing.valid_equations import dead_bands

# between neighbouring candidates; the best is then refined by its root and fourth root on both
# sides
RATIO = 2.0
# cut-off times duration from which half of a log is left beside the ends that filters spoil
USABLE = 21.0
WORSE, PATIENCE = (
    1.1,
    3,
)  # the search ends after so many candidates in a row this much worse than the best
LONG, STRETCHES, STRETCH = (
    300.0,
    6,
    20.0,
)  # beyond this [s] so many stretches of this length [s] are enough to choose
MOST_LEFT_OUT = 0.5  # of a row by the window about reversals
MOST_WINDOWS = 9  # tried, each twice as wide as the last: from one sample to 128
# Ratios of cross-validated errors, tuned on TX40, double pendulum, UPV, EMPS and the virtual
# robots.
# cut-offs as good as that are equal; the lowest within an octave of the highest of them is taken
SAME = 1.005
# where efforts are not filtered, a window may cost so much of the prediction of all samples
CHEAP = 1.01
# where they are, a narrower window is taken unless a wider one is better by more than this
GAIN = 1.03
SAMPLES = 2.0  # the narrowest window
STANDS = 0.9  # of the samples within its dead band: such a joint counts as one that stands


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """One processing that was tried, with the relative error of each row on samples it was not
    fitted to.
    """

    cutoff: float | None  # [Hz]
    decimation: int
    window: float  # [s]
    errors: tuple[float, ...]  # (r,) [1]

    @property
    def error(self) -> float:
        """Geometric mean of the rows' errors. [1]"""
        return float(np.exp(np.mean(np.log(self.errors))))


@dataclass(frozen=True, kw_only=True)
class ProcessingChoice:
    """A complete processing and what it was chosen from: cut-offs and windows tried, rising.

    Errors of windows are those on all samples, or on those that count with the widest of them where
    regressor and effort are low-passed in parallel.
    """

    processing: Processing
    rows: tuple[str, ...]
    cutoffs: tuple[Candidate, ...] = ()
    windows: tuple[Candidate, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return what it was chosen from in the documented JSON form; the processing itself stands
        beside it.
        """
        tried = {
            key: [
                asdict(c) | {"errors": list(c.errors), "error": c.error} for c in getattr(self, key)
            ]
            for key in ("cutoffs", "windows")
        }
        return {"rows": list(self.rows)} | tried

    def summary(self) -> str:
        """Return the choice as plain text."""
        used = self.processing
        cutoff = "none" if used.cutoff is None else f"{used.cutoff:.4g} Hz"
        lines = [
            f"method {used.method}, cut-off {cutoff}, decimation {used.decimation}, window about "
            f"reversals "
            f"{1e3 * (used.window or 0.0):.3g} ms"
        ]
        tried = [(f"cut-off {c.cutoff:.4g} Hz", c, c.cutoff == used.cutoff) for c in self.cutoffs]
        tried += [
            (f"window {1e3 * c.window:.3g} ms", c, c.window == used.window) for c in self.windows
        ]
        return "\n".join(
            lines
            + [
                f"{label}: cross-validated error {100 * c.error:.2f} %{' <- chosen' * chosen}"
                for label, c, chosen in tried
            ]
        )


@one_blas_thread
def choose_processing(
    model: Model,
    recordings: Sequence[Recording | RecordingSource],
    parameters: BaseParameters | Sequence[str] | None = None,
    settings: Processing | None = None,
    *,
    gains: Mapping[str, float] | None = None,
) -> ProcessingChoice:
    """Choose one processing for all logs of an experiment; what the settings give is kept.

    Args:
        parameters: Base parameters of the experiment; the robot's, with the payloads carried, by
            default.
        gains: Drive gains by joint for logs with currents; the robot file's by default. Where one
            is not known, rows are fitted one by one.
    """
    given, coordinates = settings or Processing(), model.mechanism.coordinates
    given.bands(coordinates)
    if not recordings:
        raise InvalidInput("there is no recording to choose a processing from")
    if parameters is None:
        carried = tuple(dict.fromkeys(r.payload for r in recordings if r.payload is not None))
        parameters = base_parameters(model, payloads=carried)
    logs = [part for source in recordings for part in _looked_at(model, source, given)]
    short = next((log for log in logs if log.period_count < 2), None)
    if given.method in PERIODIC and short is not None:
        raise InvalidRecording(
            f"{short.source}: {len(short)} samples hold {short.period_count} whole periods "
            f"(period: "
            f"{short.period_samples} samples); averaging needs two, so state the period or process "
            "in time",
            source=short.source,
        )
    if given.method == "auto":
        given = replace(given, method="explicit" if short is None else "time")
    banded = isinstance(given.dead_band, Mapping) and set(coordinates) <= set(given.dead_band)
    if replace(given, standing=()).complete and banded:
        return ProcessingChoice(
            processing=replace(given, standing=given.standing or ()), rows=model.rows
        )
    if given.method == "implicit":
        frequency = given.frequency or logs[0].rate / (logs[0].period_samples or 1)
        given = replace(given, frequency=frequency, cutoff=given.harmonics * frequency)
    elif given.method == "explicit" and given.cutoff is None:
        given = replace(
            given, cutoff=max(akaike_cutoff(model, average_periods(log)) for log in logs)
        )
    trial = Trial(model, logs, parameters, gains)
    tried: tuple[Candidate, ...] = ()
    windows: tuple[Candidate, ...] = ()
    if given.method == "time" and given.cutoff is None:
        tried = _cutoffs(trial, given)
        least = min(candidate.error for candidate in tried)
        good = [c.cutoff for c in tried if c.error <= SAME * least and c.cutoff is not None]
        given = replace(given, cutoff=next(cutoff for cutoff in good if RATIO * cutoff >= good[-1]))
    if given.decimation is None:
        factor = decimation_of(given.cutoff or 1.0, trial.rate) if given.method == "time" else 1
        given = replace(given, decimation=factor)
    sheets = trial.sheets(given)
    given = _with_bands(trial, sheets, given)
    if given.window is None:
        windows, best = _windows(trial, sheets, given)
        given = replace(given, window=best)
    return ProcessingChoice(processing=given, rows=model.rows, cutoffs=tried, windows=windows)


@one_blas_thread
def raised_cutoff(
    model: Model,
    recordings: Sequence[Recording],
    parameters: BaseParameters | Sequence[Parameter],
    settings: Processing,
    values: Mapping[Parameter, float],
    *,
    free: Sequence[Parameter] = (),
    gains: Mapping[str, float] | None = None,
) -> Processing:
    """Return complete settings with a cut-off that passes the motion of other logs as well, which
    may be faster.

    It is doubled as long as the known values predict the recorded, unfiltered effort better by more
    than `SAME`. Repeated motions are kept up to the highest harmonic of their own.

    Args:
        parameters: Those that the regressions of the other logs will have.
        values: Of the parameters; zero where they are not named.
        free: Parameters of a load on all of them, which are not known but fitted at each cut-off.
    """
    if settings.method == "explicit" and settings.cutoff is not None:
        own = [
            akaike_cutoff(model, average_periods(log))
            for log in (ready(model, each, settings) for each in recordings)
            if log.period_count >= 2
        ]
        return replace(settings, cutoff=max(settings.cutoff, *own)) if own else settings
    if settings.method != "time" or settings.cutoff is None:
        return settings
    logs = [part for log in recordings for part in _looked_at(model, log, settings)]
    if free:
        logs = [replace(log, payload=free[0].payload) for log in logs]
    trial = Trial(model, logs, parameters, gains)
    margin = SPOILT / settings.cutoff

    def error(cutoff: float) -> float:
        parts = []
        for sheet in trial.sheets(replace(settings, cutoff=cutoff, decimation=None)):
            motion, (first, last) = trial.remembered(sheet, settings), sheet.span
            here = sheet.judged & (motion.time >= first + margin) & (motion.time <= last - margin)
            parts.append(trial.equations(sheet, motion.take(here), sheet.recorded[here], settings))
        known = np.array([values.get(name, 0.0) for name in parts[0].parameters])
        left = np.concatenate([part.residual(known) for part in parts])
        size = np.sqrt(sum((part.effort**2).sum(axis=0) for part in parts) + TINY)
        if free:
            W = np.concatenate([part.select(free).regressor for part in parts]) / size[:, None]
            fitted = np.linalg.lstsq(W.reshape(-1, len(free)), (left / size).ravel(), rcond=None)[0]
            left = left - size * (W @ fitted)
        return float(np.exp(0.5 * np.mean(np.log((left**2).sum(axis=0) / size**2 + TINY))))

    cutoff, best = settings.cutoff, error(settings.cutoff)
    while RATIO * cutoff <= HIGHEST * trial.rate and (found := error(RATIO * cutoff)) * SAME < best:
        cutoff, best = RATIO * cutoff, found
    if cutoff == settings.cutoff:
        return settings
    return replace(settings, cutoff=cutoff, decimation=decimation_of(cutoff, trial.rate))


def _looked_at(
    model: Model, source: Recording | RecordingSource, settings: Processing
) -> list[Recording]:
    """Return a log, or stretches spread over one that is long."""
    if isinstance(source, Recording):
        source = ready(model, source, settings)
        if settings.method_for(source) in PERIODIC or len(source) <= LONG * source.rate:
            return [source]
    count, rate = length(source), next(iter(source.blocks(4096))).rate
    size, stretches = (count, 1) if count <= LONG * rate else (round(STRETCH * rate), STRETCHES)
    starts = np.round(np.linspace(0, count - size, stretches)).astype(int).tolist()
    parts: dict[int, Recording] = {}
    first = 0
    for block in source.blocks():
        for start in starts:
            low, high = max(start - first, 0), min(start + size - first, len(block))
            if low < high:
                piece = matched(block, model).take(slice(low, high))
                parts[start] = joined(parts[start], piece) if start in parts else piece
        first += len(block)
    return [replace(parts[start], period_samples=None) for start in starts]


def _with_bands(trial: Trial, sheets: Sequence[Sheet], settings: Processing) -> Processing:
    """Return the settings with the dead band of every joint, and the joints that rub and hardly
    ever leave theirs.
    """
    mechanism, given = trial.model.mechanism, settings.dead_band
    if given is not None and not isinstance(given, Mapping):
        bands = dict.fromkeys(mechanism.coordinates, float(given))
    else:
        noise = dead_bands(
            trial.model, [sheet.motion for sheet in sheets], [sheet.noise for sheet in sheets]
        )
        bands = noise | dict(given or {})
    settings = replace(settings, dead_band=bands)
    if settings.standing is not None:
        return settings
    slow = settings.bands(mechanism.coordinates)
    still = np.concatenate([np.abs(sheet.motion.qd) < slow for sheet in sheets]).mean(axis=0)
    return replace(
        settings,
        standing=tuple(
            joint.name
            for joint, share in zip(mechanism.joints, still)
            if mechanism.has_coulomb(joint) and share > STANDS
        ),
    )


def _cutoffs(trial: Trial, settings: Processing) -> tuple[Candidate, ...]:
    """Try cut-offs from the lowest that leaves half of every log upwards, then beside the best."""
    highest = HIGHEST * trial.rate
    lowest = min(USABLE / min(len(log) / log.rate for log in trial.logs), highest / RATIO)
    window = settings.window or 0.0
    tried: dict[float, Candidate] = {}

    def error(cutoff: float) -> float:
        sheets = trial.sheets(replace(settings, cutoff=cutoff))
        chosen = _with_bands(trial, sheets, replace(settings, cutoff=cutoff))
        masks = [[sheet.mask(trial.model, chosen, window)] for sheet in sheets]
        errors = prediction_errors(trial, sheets, masks, chosen, margin=SPOILT / lowest)[0, 0]
        factor = settings.decimation or decimation_of(cutoff, trial.rate)
        tried[cutoff] = Candidate(
            cutoff=cutoff, decimation=factor, window=window, errors=tuple(errors.tolist())
        )
        return tried[cutoff].error

    best, behind, cutoff = np.inf, 0, lowest
    while cutoff <= highest * (1 + 1e-9) and behind < PATIENCE:
        found = error(cutoff)
        behind = behind + 1 if found > WORSE * best else 0
        best, cutoff = min(best, found), cutoff * RATIO
    for step in (RATIO**0.5, RATIO**0.25):
        top = min(tried, key=lambda f: tried[f].error)
        for beside in (top / step, top * step):
            if lowest <= beside <= highest:
                error(beside)
    return tuple(tried[f] for f in sorted(tried))


def _windows(
    trial: Trial, sheets: Sequence[Sheet], settings: Processing
) -> tuple[tuple[Candidate, ...], float]:
    """Try windows about reversals of motors, doubling until a row would lose half of what counts
    without one.

    `SAMPLES` on both sides never count. Where regressor and effort are low-passed in parallel that
    is nearly all there is to it, and a wider window has to win more on what counts with the widest
    of them than it costs on all samples: the narrowest with about the smallest product of both
    errors. Elsewhere reversals bias, by less than the noise of a prediction shows: the widest that
    predicts all samples about as well as the best.
    """
    model, factor = trial.model, settings.decimation or 1
    if not any(
        joint.actuated and model.mechanism.has_coulomb(joint) for joint in model.mechanism.joints
    ):
        return (), 0.0
    least = step = SAMPLES / trial.rate
    if settings.method == "time" and settings.cutoff is not None:
        step = max(step, 1.0 / (FINE * settings.cutoff))
    none = least if factor > 1 else 0.0
    counted = np.concatenate([sheet.mask(model, settings, 0.0) for sheet in sheets]).mean(axis=0)
    tried = []
    for width in (none, *(step * 2.0**k for k in range(MOST_WINDOWS - 1) if step * 2.0**k > none)):
        masks = [sheet.mask(model, settings, width) for sheet in sheets]
        if (np.concatenate(masks).mean(axis=0) < MOST_LEFT_OUT * counted).any():
            break
        tried.append((width, masks))
    if len(tried) < 2:
        return (), max(
            (width for width, _ in tried), default=0.0
        )  # a motor that reverses all the time
    errors = prediction_errors(trial, sheets, list(zip(*(masks for _, masks in tried))), settings)
    every, clear = (
        tuple(
            Candidate(cutoff=settings.cutoff, decimation=factor, window=width, errors=tuple(own))
            for (width, _), own in zip(tried, kind.tolist())
        )
        for kind in errors
    )
    if factor == 1:
        best = min(candidate.error for candidate in every)
        return every, max(least, *(c.window for c in every if c.error <= CHEAP * best))
    both = np.array([c.error * whole.error for c, whole in zip(clear, every)])
    return clear, min(c.window for c, product in zip(clear, both) if product <= GAIN * both.min())
