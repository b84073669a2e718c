"""Rules that warn about a result: conditioning, errors, lack of fit and broken data.

Every rule has a threshold and a reason for it, and returns notices. A
result is `ok` only if no rule warns: a model may predict a held-out log
perfectly and still be wrong, because that log has the same fault. The
rules are listed in docs/diagnosis.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gough.core.arrays import FloatArray, IntArray
from gough.core.display import join_names
from gough.core.notices import Level, Notice, of_log, ordered
from gough.core.statistics import f_tail, squared_memory
from gough.fitting.estimate import Estimate
from gough.fitting.regression import Regression
from gough.identification.validation import (
    VISIBLE_FRACTION,
    WEAK_CONDITION,
    Validation,
    higher_error_notice,
    is_well_conditioned,
    noise_variance,
    rows_with_higher_error,
)
from gough.logs.checks import inspected
from gough.logs.recording import Recording
from gough.processing.valid_equations import MIN_VALID_FRACTION
from gough.verdict.blocks import ERROR_FLOOR
from gough.verdict.exclusions import SLOW_FRACTION
from gough.verdict.noise import NoisePower

# Error above noise, over the effort, from which a result is not `ok`,
# and from which it is wrong. Where the noise is not known, the first
# one is twice as high.
UNEXPLAINED_WARNING = 0.05
UNEXPLAINED_ERROR = 0.25
# Residual power over noise power. Beyond, errors of the model change
# parameters by about their standard errors.
MISFIT_RATIO = 1.5
# of one rule on clean data, all joints or parameters together
FALSE_ALARM_CHANCE = 0.01
# Rules by which a model does not fit or predict, so that every fault is
# worth a trial.
MISFIT_RULES = (
    "held-out error",
    "fit error",
    "lack of fit",
    "negative value",
    "logs disagree",
    "not determined",
)
# of channels that measure nothing
BROKEN_CHANNEL_RULES = ("dead", "saturation", "duplicated")
# Fraction of the samples of a held-out log that are also in an
# identification log: noise never repeats.
SAME_LOG_FRACTION = 0.5


def warn_if_poorly_conditioned(estimate: Estimate) -> list[Notice]:
    """Warn if the condition number is high and the standard errors do not show it."""
    if is_well_conditioned(estimate):
        return []
    condition = float(estimate.condition_number)
    notice = Notice(
        rule="conditioning",
        level="warning",
        text=f"condition number {condition:.3g}, expected below {WEAK_CONDITION:.0e}: "
        "this motion hardly excites some parameters",
        advice="move more, tie legs, or keep only the essential parameters",
        numbers={"condition number": condition},
    )
    return [notice]


def warn_if_logs_disagree(estimate: Estimate) -> list[Notice]:
    """Warn if estimates from different logs differ by more than their standard errors explain.

    The standard errors were then computed from the scatter between
    logs, which is wider.
    """
    if estimate.uncertainty != "logs":
        return []
    widening = estimate.std / np.maximum(estimate.noise_std, 1e-300)
    ratio = float(np.sqrt(np.mean(widening**2)))
    notice = Notice(
        rule="logs disagree",
        level="warning",
        text="the model does not generalise from one motion to another: estimates without single "
        f"logs differ so much that standard errors are {ratio:.1f} times those of noise",
        advice="check what the robot file lacks, and whether one log is unlike the others",
        numbers={"ratio": ratio},
    )
    return [notice]


def error_notices(
    rule: str,
    text: str,
    rows: Sequence[str],
    rms: FloatArray,
    relative: FloatArray,
    noise: NoisePower | None,
    explained: FloatArray | None = None,
) -> list[Notice]:
    """Warn if an error above noise exceeds 5 % of the effort; it is an error above 25 %.

    Noise is no fault of the model: sqrt(rms^2 - noise^2) is compared
    with the effort, with the most that the noise can be. An error that
    the standard errors of the parameters explain is no fault of the
    model either: the parameters are not determined.

    Args:
        rule: Of the notices.
        text: Of the notices, with `{error}`.
        rows: Joints, (r,).
        rms: Of the error, (r,). [row unit]
        relative: The same over the rms effort, (r,).
        noise: Least and most noise power; None if unknown. [row unit
            squared]
        explained: Largest mean square that standard errors explain,
            (r,). [row unit squared]
    """
    effort = np.maximum(rms / np.maximum(relative, 1e-300), 1e-300)
    limit = UNEXPLAINED_WARNING
    if noise is None:
        noise = NoisePower(np.zeros(len(effort)), np.zeros(len(effort)))
        limit = 2 * UNEXPLAINED_WARNING
    error = np.sqrt(np.maximum(rms**2 - noise.most, 0.0)) / effort
    worst = int(np.argmax(error))
    if error[worst] >= limit:
        excess = np.maximum(error**2 - limit**2, 0.0) * effort**2
        if explained is not None and (excess <= explained).all():
            return [_not_determined_notice(rows[worst], error[worst], limit)]
        level: Level = "error" if error[worst] >= UNEXPLAINED_ERROR else "warning"
        message = text.format(error=f"{100 * error[worst]:.1f} %")
        return [_error_notice(rule, level, rows[worst], message, error[worst], limit)]
    noise_fraction = np.sqrt(noise.least) / effort
    worst = int(np.argmax(noise_fraction))
    if noise_fraction[worst] >= UNEXPLAINED_ERROR:
        message = f"noise is {100 * noise_fraction[worst]:.1f} % of the effort, which hides errors"
        share = float(noise_fraction[worst])
        return [_error_notice(rule, "warning", rows[worst], message, share, UNEXPLAINED_ERROR)]
    return []


def _error_notice(
    rule: str,
    level: Level,
    joint: str,
    message: str,
    error: float,
    limit: float,
) -> Notice:
    """Return the notice on an error, a fraction of the effort, of one joint."""
    text = f"{message}, expected below {100 * limit:.0f} %"
    return Notice(rule=rule, level=level, where=joint, text=text, numbers={"error": error})


def _not_determined_notice(joint: str, error: float, limit: float) -> Notice:
    """Return the notice on an error that the standard errors of the parameters explain."""
    return Notice(
        rule="not determined",
        level="warning",
        where=joint,
        text=f"the error on held-out logs, above noise, is {100 * error:.1f} % of the effort, "
        f"expected below {100 * limit:.0f} %; the standard errors of the parameters explain it: "
        "the identification logs hardly determine what this motion needs",
        advice="add this motion to the identification logs, or record one that excites more",
        numbers={"error": error},
    )


def warn_if_badly_predicted(
    validation: Validation, noise: NoisePower | None, explained: FloatArray | None = None
) -> list[Notice]:
    """Warn if held-out logs are predicted badly (see `error_notices`), or if there is none."""
    if validation.predicts == "not tested":
        notice = Notice(
            rule="not validated",
            level="warning",
            text="no held-out log was given, and a fit to its own data proves little",
            advice="validate on another motion",
        )
        return [notice]
    return error_notices(
        "held-out error",
        "the error on held-out logs, above noise, is {error} of the effort",
        validation.rows,
        validation.rms,
        validation.relative,
        noise,
        explained,
    )


def report_errors_at_low_speed(
    validation: Validation, at_speed: Validation, noise: NoisePower | None
) -> list[Notice]:
    """Report errors on held-out logs that would be too high, but arise only where joints creep.

    Args:
        validation: On all valid equations.
        at_speed: On those in which no joint is near a velocity
            reversal.
        noise: As of `error_notices`.
    """
    bad_everywhere = bool(warn_if_badly_predicted(validation, noise))
    bad_at_speed = bool(warn_if_badly_predicted(at_speed, noise))
    if bad_at_speed or not bad_everywhere:
        return []
    worst = int(np.argmax(validation.relative))
    notice = Notice(
        rule="low speed",
        level="info",
        where=validation.rows[worst],
        text=f"the held-out error is {100 * validation.relative[worst]:.1f} % of the effort, "
        f"but {100 * at_speed.relative[worst]:.1f} % where no joint is slower than "
        f"{100 * SLOW_FRACTION:.0f} % of its top speed: friction near zero speed is not "
        "as modelled",
        advice="do not rely on the model where joints creep",
        numbers={"error": float(validation.relative[worst])},
    )
    return [notice]


def warn_if_held_out_error_is_higher(
    validation: Validation,
    estimate: Estimate,
    expected: FloatArray | None = None,
) -> list[Notice]:
    """Warn if the held-out error is more than 1.5 times that on the identification data.

    Args:
        validation: Of the estimate on held-out logs.
        estimate: With the residual of the identification logs.
        expected: Error that noise of the held-out logs and standard
            errors of the estimate explain, (r,); it is subtracted in
            squares. [row unit]
    """
    if validation.predicts == "not tested":
        return []
    explained = np.zeros(len(validation.rows)) if expected is None else expected**2
    higher = rows_with_higher_error(
        estimate,
        validation.rows,
        validation.rms,
        validation.relative,
        explained,
    )
    return [higher_error_notice(joint, ratio, "warning") for joint, ratio in higher.items()]


def warn_if_badly_fitted(
    rows: Sequence[str], rms: FloatArray, relative: FloatArray, noise: NoisePower | None
) -> list[Notice]:
    """Warn if the residual of the identification data is large (see `error_notices`)."""
    return error_notices(
        "fit error",
        "the error on the identification logs, above noise, is {error} of the effort",
        rows,
        rms,
        relative,
        noise,
    )


class Misfit(NamedTuple):
    """Residual of a repeated motion compared with its repeatability noise, (r,) each."""

    # residual power of the mean over its noise power: 1 for a correct
    # model
    ratio: FloatArray
    chance: FloatArray  # that noise alone makes a ratio this large
    # fraction of a repetition's residual power that is in all
    # repetitions
    repeats: FloatArray
    # rms of what is in all repetitions over the rms effort
    relative: FloatArray


def misfit(regression: Regression, estimate: Estimate) -> Misfit | None:
    """Compare the residual of the mean of k repetitions with their scatter.

    ratio = (sum_t e_t^2 / (n - h)) / (sum_kt d_kt^2 / (n k (k - 1))), e
    the residual of the mean, d the deviation of a repetition from the
    mean, h the parameters per joint, p / r. For noise it is
    F-distributed; with autocorrelation rho, n samples determine a mean
    square as well as n / (1 + 2 sum rho^2) independent ones.

    Returns:
        None without repetitions.
    """
    replicates = regression.replicates
    if replicates is None or len(replicates) < 2 or not len(regression):
        return None
    k = len(replicates)
    valid = regression.valid
    n = np.maximum(valid.sum(axis=0), 1)
    residual = np.where(valid, regression.effort - estimate.predict(regression), 0.0)
    deviation = np.where(valid, replicates - replicates.mean(axis=0), 0.0)
    free = np.maximum(n - len(estimate) / len(regression.rows), 1.0)
    noise = (deviation**2).sum(axis=(0, 1)) / (n * k * (k - 1))  # variance of the mean
    noise = np.maximum(noise, noise_variance(regression))  # that of positions too
    effort_power = (np.where(valid, regression.effort, 0.0) ** 2).sum(axis=0) / n
    noise = np.maximum(noise, ERROR_FLOOR**2 * effort_power)  # less is rounding
    power = (residual**2).sum(axis=0) / free
    ratio = power / np.maximum(noise, 1e-300)
    chance = np.empty(len(ratio))
    for j in range(len(ratio)):
        memory = squared_memory(deviation[:, :, j])
        numerator = max(free[j] / memory, 1.0)
        denominator = max(n[j] * (k - 1) / memory, 1.0)
        chance[j] = f_tail(ratio[j], numerator, denominator)
    systematic = np.maximum(power - noise, 0.0)
    repeats = systematic / np.maximum(systematic + k * noise, 1e-300)
    relative = np.sqrt(systematic / np.maximum(effort_power, 1e-300))
    return Misfit(ratio=ratio, chance=chance, repeats=repeats, relative=relative)


def warn_if_residual_exceeds_noise(misfits: Sequence[Misfit], rows: Sequence[str]) -> list[Notice]:
    """Warn if residual power exceeds 1.5 times the repeatability noise, beyond chance.

    At 1.5 the error of the model has 0.7 of the amplitude of the noise:
    parameters change by about their standard errors, which come from
    the scatter between repetitions. It also has to be at least 1 % of
    the effort: less does not matter to a prediction, and the standard
    errors allow for it.
    """
    if not misfits:
        return []
    ratio = np.concatenate([one.ratio for one in misfits])
    chance = np.concatenate([one.chance for one in misfits])
    repeats = np.concatenate([one.repeats for one in misfits])
    relative = np.concatenate([one.relative for one in misfits])
    matters = (chance < FALSE_ALARM_CHANCE / len(ratio)) & (relative >= VISIBLE_FRACTION)
    significant = np.where(matters, ratio, 0.0)
    worst = int(significant.argmax())
    if significant[worst] < MISFIT_RATIO:
        return []
    power_ratio = float(f"{significant[worst]:.3g}")
    notice = Notice(
        rule="lack of fit",
        level="warning",
        where=rows[worst % len(rows)],
        text=f"{100 * relative[worst]:.3g} % of the effort is not explained and is the same in all "
        f"periods: the residual has {power_ratio:g} times the power of the noise, so "
        "standard errors are too small",
        numbers={
            "ratio": significant[worst],
            "repeats": repeats[worst],
            "error": relative[worst],
        },
    )
    return [notice]


def _fingerprints(log: Recording) -> NDArray[np.uint64]:
    """Return a number for each three consecutive samples, the same for equal samples, (t,)."""
    signal = log.effort if log.effort is not None else log.current
    columns = [log.position] if signal is None else [log.position, signal]
    bits = np.ascontiguousarray(np.concatenate(columns, axis=1)).view(np.uint64)
    rng = np.random.default_rng(0)
    odd_factor = rng.integers(1, 2**63, bits.shape[1], dtype=np.uint64) | np.uint64(1)
    with np.errstate(over="ignore"):
        sample = (bits * odd_factor).sum(axis=1, dtype=np.uint64)
        sample ^= sample >> np.uint64(29)
        three = sample[:-2] * np.uint64(3)
        three += sample[1:-1] * np.uint64(5)
        three += sample[2:] * np.uint64(7)
    return np.asarray(three)


def report_reused_logs(
    recordings: Sequence[Recording], held_out: Sequence[Recording]
) -> list[Notice]:
    """Report an error if a held-out log is a log of the identification.

    More than half of its samples are then equal, bit by bit. Noise
    never repeats, so it is the same recording: copied, cut or renamed.
    """
    known = np.concatenate([_fingerprints(log) for log in recordings])
    reused = []
    for log in held_out:
        fingerprints = _fingerprints(log)
        if np.isin(fingerprints, known).sum() > SAME_LOG_FRACTION * len(fingerprints):
            reused.append(log.source)
    if not reused:
        return []
    notice = Notice(
        rule="same log",
        level="error",
        where=join_names(reused),
        text="the held-out log is one of the identification logs, so nothing was predicted",
        advice="give another recording",
        numbers={"logs": len(reused)},
    )
    return [notice]


def warn_if_log_is_repeated(recordings: Sequence[Recording]) -> list[Notice]:
    """Warn if a log of the identification is given more than once."""
    first: dict[str, str] = {}
    repeated = []
    for log in recordings:
        if log.fingerprint in first:
            repeated.append(log.source)
        first.setdefault(log.fingerprint, log.source)
    if not repeated:
        return []
    notice = Notice(
        rule="same log",
        level="warning",
        where=join_names(repeated),
        text="this log is given more than once, so that standard errors are too small",
        advice="give each log once",
    )
    return [notice]


def warn_if_window_excludes_most(
    rows: Sequence[str], n_valid: IntArray, n_without: IntArray
) -> list[Notice]:
    """Warn if the exclusion window around velocity reversals takes more than half of a row.

    Samples at rest, which count for nothing with or without a window,
    are no reason to warn.

    Args:
        rows: Names of the joint equations.
        n_valid: Valid equations of each, (r,).
        n_without: How many there would be without an exclusion window,
            (r,).
    """
    fraction = np.where(n_without > 0, n_valid / np.maximum(n_without, 1), 1.0)
    few = [row for row, valid in zip(rows, fraction) if valid < MIN_VALID_FRACTION]
    if not few:
        return []
    worst = int(np.argmin(fraction))
    notice = Notice(
        rule="few samples",
        level="warning",
        where=join_names(few),
        text=f"the exclusion window around velocity reversals leaves {int(n_valid[worst])} of "
        f"{int(n_without[worst])} samples of {rows[worst]} ({100 * fraction[worst]:.0f} %, "
        f"expected at least {100 * MIN_VALID_FRACTION:.0f} %)",
        advice="give a shorter exclusion window, or a motion with fewer reversals",
        numbers={"fraction": fraction[worst]},
    )
    return [notice]


def warn_about_broken_channels(recordings: Sequence[Recording]) -> list[Notice]:
    """Warn if a channel of a log is dead, clipped or a copy of another one."""
    notices = []
    for log in recordings:
        for notice in of_log(inspected(log).notices, log.source):
            if notice.rule in BROKEN_CHANNEL_RULES:
                notices.append(notice)
    return list(ordered(notices))
