"""One processing for a whole experiment, chosen by how well it predicts efforts it has not seen.

Logs without periods: positions are low-passed at a cut-off, regressor and effort in parallel with the same edge. The
cut-off is a candidate with the smallest blocked cross-validation error of the recorded, unfiltered effort: each log is
cut into five contiguous blocks, weighted least squares on the decimated samples outside a block (and a guard of
1 / cut-off beside it) predict every sample inside, and the geometric mean of the rows' relative errors is compared.
Where many are equal, the lowest within an octave of the highest: away from noise, and from smearing other, faster logs.
Logs with periods: Akaike's criterion on the pose. The window about reversals is judged in the same way for both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from gough.core.arrays import TINY, BoolArray
from gough.core.blas import one_blas_thread
from gough.core.errors import InvalidInput, InvalidRecording
from gough.core.names import Parameter
from gough.core.parameters import BaseParameters
from gough.engine import Model, base_parameters
from gough.logs.readers import RecordingSource
from gough.logs.recording import Recording
from gough.processing.averaging import average_periods
from gough.processing.filters import SPOILT
from gough.processing.noise import dead_bands
from gough.processing.pieces import joined
from gough.processing.ready import matched, ready
from gough.processing.repetitions import akaike_cutoff
from gough.processing.settings import HIGHEST, Processing, decimation_of
from gough.processing.trial import FINE, Sheet, Trial, prediction_squares

RATIO = 2.0  # between neighbouring candidates; the best is then refined by its root and fourth root on both sides
USABLE = 21.0  # cut-off times duration from which half of a log is left beside the ends that filters spoil
WORSE, PATIENCE = 1.1, 3  # the search ends after so many candidates in a row this much worse than the best
LONG, STRETCHES, STRETCH = 300.0, 6, 20.0  # beyond this [s] so many stretches of this length [s] are enough to choose
MOST_LEFT_OUT = 0.5  # of a row by the window about reversals
MOST_WINDOWS = 9  # tried, each twice as wide as the last: from one sample to 128
# Ratios of cross-validated errors, tuned on TX40, double pendulum, UPV, EMPS and the virtual robots.
SAME = 1.005  # cut-offs as good as that are equal; the lowest within an octave of the highest of them is taken
CHEAP = 1.01  # where efforts are not filtered, a window may cost so much of the prediction of all samples
GAIN = 1.03  # where they are, a narrower window is taken unless a wider one is better by more than this
SAMPLES = 2.0  # the narrowest window
STANDS = 0.9  # of the samples within its dead band: such a joint counts as one that stands


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """One processing that was tried, with the relative error of each row on samples it was not fitted to.

    Args:
        cutoff: Low-pass cut-off. [Hz]
        decimation: Factor.
        window: Half width of what does not count about reversals. [s]
        errors: Relative prediction errors of the rows, (r,). [1]
    """

    cutoff: float | None
    decimation: int
    window: float
    errors: tuple[float, ...]

    @property
    def error(self) -> float:
        """Geometric mean of the rows' errors. [1]"""
        return float(np.exp(np.mean(np.log(self.errors))))


@dataclass(frozen=True, kw_only=True)
class ProcessingChoice:
    """A complete processing and what it was chosen from.

    Args:
        processing: All numbers.
        rows: Names of the equation rows.
        cutoffs: Cut-offs tried, rising; errors on all samples. Empty if given, or chosen by Akaike's criterion.
        windows: Windows tried, rising; errors on all samples, or on those that count with the widest of them where
            regressor and effort are low-passed in parallel.
    """

    processing: Processing
    rows: tuple[str, ...]
    cutoffs: tuple[Candidate, ...] = ()
    windows: tuple[Candidate, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return what it was chosen from in the documented JSON form; the processing itself stands beside it."""
        def plain(tried: tuple[Candidate, ...]) -> list[dict[str, Any]]:
            return [asdict(c) | {"errors": list(c.errors), "error": c.error} for c in tried]

        return {"rows": list(self.rows), "cutoffs": plain(self.cutoffs), "windows": plain(self.windows)}

    def summary(self) -> str:
        """Return the choice as plain text."""
        used = self.processing
        cutoff = "none" if used.cutoff is None else f"{used.cutoff:.4g} Hz"
        lines = [f"method {used.method}, cut-off {cutoff}, decimation {used.decimation}, window about reversals "
                 f"{1e3 * (used.window or 0.0):.3g} ms"]
        for label, tried in (("cut-off", self.cutoffs), ("window", self.windows)):
            for c in tried:
                value = f"{c.cutoff:.4g} Hz" if label == "cut-off" else f"{1e3 * c.window:.3g} ms"
                chosen = c.cutoff == used.cutoff if label == "cut-off" else c.window == used.window
                lines.append(f"{label} {value}: cross-validated error {100 * c.error:.2f} %{' <- chosen' * chosen}")
        return "\n".join(lines)


@one_blas_thread
def choose_processing(model: Model, recordings: Sequence[Recording | RecordingSource],
                      parameters: BaseParameters | Sequence[str] | None = None,
                      settings: Processing | None = None, *, gains: Mapping[str, float] | None = None,
                      ) -> ProcessingChoice:
    """Choose one processing for all logs of an experiment; what the settings give is kept.

    Args:
        model: The robot.
        recordings: Its logs; of long ones a spread sample is looked at.
        parameters: Base parameters of the experiment; the robot's, with the payloads carried, by default.
        settings: Numbers that are given.
        gains: Drive gains by joint for logs with currents; the robot file's by default. Where one is not known, rows
            are fitted one by one.

    Raises:
        InvalidRecording: As `process`; or logs without periods where periods are to be averaged.
    """
    given = Processing() if settings is None else settings
    given.bands(model.mechanism.coordinates)
    if not recordings:
        raise InvalidInput("there is no recording to choose a processing from")
    if parameters is None:
        carried = tuple(dict.fromkeys(r.payload for r in recordings if r.payload is not None))
        parameters = base_parameters(model, payloads=carried)
    logs = [part for source in recordings for part in _looked_at(model, source, given)]
    periodic = all(log.period_count >= 2 for log in logs)
    if given.method in ("explicit", "implicit") and not periodic:
        log = next(log for log in logs if log.period_count < 2)
        raise InvalidRecording(f"{log.source}: {len(log)} samples hold {log.period_count} whole periods (period: "
                               f"{log.period_samples} samples); averaging needs two, so state the period or process "
                               "in time", source=log.source)
    if given.method == "auto":
        given = replace(given, method="explicit" if periodic else "time")
    banded = isinstance(given.dead_band, Mapping) and set(model.mechanism.coordinates) <= set(given.dead_band)
    if replace(given, standing=()).complete and banded:
        given = replace(given, standing=given.standing or ())
        return ProcessingChoice(processing=given, rows=model.rows)
    tried: tuple[Candidate, ...] = ()
    if given.method == "implicit":
        frequency = given.frequency or logs[0].rate / (logs[0].period_samples or 1)
        given = replace(given, frequency=frequency, cutoff=given.harmonics * frequency)
    elif given.method == "explicit" and given.cutoff is None:
        given = replace(given, cutoff=max(_akaike(model, log) for log in logs))
    trial = Trial.of(model, logs, parameters, gains)
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
    windows: tuple[Candidate, ...] = ()
    if given.window is None:
        windows, best = _windows(trial, sheets, given)
        given = replace(given, window=best)
    return ProcessingChoice(processing=given, rows=model.rows, cutoffs=tried, windows=windows)


@one_blas_thread
def raised_cutoff(model: Model, recordings: Sequence[Recording], parameters: BaseParameters | Sequence[Parameter],
                  settings: Processing, values: Mapping[Parameter, float], *, free: Sequence[Parameter] = (),
                  gains: Mapping[str, float] | None = None) -> Processing:
    """Return the settings with a cut-off that passes the motion of other logs as well, which may be faster.

    The cut-off is doubled as long as the known values predict the recorded, unfiltered effort better by more than
    `SAME`; logs of motions like those that the processing was chosen from keep theirs. Repeated motions are kept up to
    the highest harmonic of their own.

    Args:
        model: The robot.
        recordings: The other logs.
        parameters: Those that their regressions will have.
        settings: A complete processing.
        values: Of the parameters; zero where they are not named.
        free: Parameters of a load on all of them, which are not known but fitted at each cut-off.
        gains: Drive gains by joint for logs with currents.
    """
    if settings.method == "explicit" and settings.cutoff is not None:
        own = [_akaike(model, log) for log in (ready(model, each, settings) for each in recordings)
               if log.period_count >= 2]
        return replace(settings, cutoff=max(settings.cutoff, *own)) if own else settings
    if settings.method != "time" or settings.cutoff is None:
        return settings
    logs = [part for log in recordings for part in _looked_at(model, log, settings)]
    if free:
        logs = [replace(log, payload=free[0].payload) for log in logs]
    trial = Trial.of(model, logs, parameters, gains)
    margin = SPOILT / settings.cutoff

    def error(cutoff: float) -> float:
        parts = [sheet.regression(trial, settings, margin)
                 for sheet in trial.sheets(replace(settings, cutoff=cutoff, decimation=None))]
        known = np.array([values.get(name, 0.0) for name in parts[0].parameters])
        left = np.concatenate([part.left(known) for part in parts])
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


def _looked_at(model: Model, source: Recording | RecordingSource, settings: Processing) -> list[Recording]:
    """Return a log, or stretches spread over one that is long."""
    if isinstance(source, Recording):
        log = ready(model, source, settings)
        if settings.method_for(log) in ("explicit", "implicit") or len(log) <= LONG * log.rate:
            return [log]
        count, rate, blocks = len(log), log.rate, log.blocks()
    else:
        rate = next(iter(source.blocks(4096))).rate
        count, blocks = source.samples, source.blocks()
    short = count <= LONG * rate
    length = count if short else round(STRETCH * rate)
    starts = np.round(np.linspace(0, count - length, 1 if short else STRETCHES)).astype(int)
    parts: list[Recording | None] = [None] * len(starts)
    first = 0
    for block in blocks:
        for k, start in enumerate(starts.tolist()):
            low, high = max(start - first, 0), min(start + length - first, len(block))
            if low < high:
                piece, held = matched(block, model).take(slice(low, high)), parts[k]
                parts[k] = piece if held is None else joined(held, piece)
        first += len(block)
    return [replace(part, period_samples=None) for part in parts if part is not None]


def _akaike(model: Model, log: Recording) -> float:
    try:
        return akaike_cutoff(model, average_periods(log))
    except InvalidInput as error:
        raise InvalidRecording(f"{log.source}: {error}", source=log.source) from error


def _with_bands(trial: Trial, sheets: Sequence[Sheet], settings: Processing) -> Processing:
    """Return the settings with the dead band of every joint, and the joints that rub and hardly ever leave theirs."""
    model = trial.model
    given = settings.dead_band
    if given is not None and not isinstance(given, Mapping):
        bands = dict.fromkeys(model.mechanism.coordinates, float(given))
    else:
        noise = dead_bands(model, [sheet.motion for sheet in sheets], [sheet.noise for sheet in sheets])
        bands = noise | dict(given or {})
    settings = replace(settings, dead_band=bands)
    if settings.standing is not None:
        return settings
    still = np.concatenate([np.abs(sheet.motion.qd) < settings.bands(model.mechanism.coordinates)
                            for sheet in sheets]).mean(axis=0)
    return replace(settings, standing=tuple(joint.name for joint, share in zip(model.mechanism.joints, still)
                                            if model.mechanism.rubs(joint) and share > STANDS))


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
        wrong, size = prediction_squares(trial, sheets, masks, chosen, margin=SPOILT / lowest)
        tried[cutoff] = Candidate(
            cutoff=cutoff, decimation=settings.decimation or decimation_of(cutoff, trial.rate), window=window,
            errors=tuple(np.sqrt(wrong[0, 0].sum(axis=0) / size[0].sum(axis=0)).tolist()))
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


def _windows(trial: Trial, sheets: Sequence[Sheet], settings: Processing) -> tuple[tuple[Candidate, ...], float]:
    """Try windows about reversals of motors, doubling until a row would lose half of what counts without one.

    When between two samples a motor reversed, and what it felt then, is not recorded: `SAMPLES` on both sides never
    count. Where regressor and effort are low-passed in parallel that is nearly all there is to it, and a wider window
    has to win more on what counts with the widest of them than it costs on all samples: the narrowest with about the
    smallest product of both errors. Elsewhere reversals bias, by less than the noise of a prediction shows: the widest
    that predicts all samples about as well as the best.
    """
    if not trial.rubbing:
        return (), 0.0
    parallel = (settings.decimation or 1) > 1
    least = step = SAMPLES / trial.rate
    if settings.method == "time" and settings.cutoff is not None:
        step = max(step, 1.0 / (FINE * settings.cutoff))
    counted = np.concatenate([sheet.mask(trial.model, settings, 0.0) for sheet in sheets]).mean(axis=0)
    widths: list[float] = []
    masks: list[list[BoolArray]] = [[] for _ in sheets]
    none = least if parallel else 0.0
    for width in (none, *(step * 2.0**k for k in range(MOST_WINDOWS - 1) if step * 2.0**k > none)):
        wider = [sheet.mask(trial.model, settings, width) for sheet in sheets]
        if (np.concatenate(wider).mean(axis=0) < MOST_LEFT_OUT * counted).any():
            break
        widths.append(width)
        for own, mask in zip(masks, wider):
            own.append(mask)
    if len(widths) < 2:
        return (), max(widths, default=0.0)  # a motor that reverses all the time
    wrong, size = prediction_squares(trial, sheets, masks, settings)
    every, clear = (tuple(Candidate(cutoff=settings.cutoff, decimation=settings.decimation or 1, window=width,
                                    errors=tuple(np.sqrt(squares.sum(axis=0) / size[k].sum(axis=0)).tolist()))
                          for width, squares in zip(widths, wrong[k])) for k in range(2))
    best = min(candidate.error for candidate in every)
    if not parallel:
        return every, max(least, *(c.window for c in every if c.error <= CHEAP * best))
    both = np.array([c.error * whole.error for c, whole in zip(clear, every)])
    return clear, min(c.window for c, product in zip(clear, both) if product <= GAIN * both.min())
