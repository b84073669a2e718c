"""Is the result to be trusted? Small rules, each with its threshold and the reason for it; one
headline.

A rule speaks by a `Remark`. The headline is `good` only if none does: a model may predict a
held-out log perfectly and still be wrong, because that log has the same mistake. The rules are
listed in docs/diagnosis.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gough.core.arrays import FloatArray
from gough.core.display import join_names
from gough.core.notices import Remark, Remarks
from gough.core.statistics import f_tail
from gough.fitting.estimate import Estimate
from gough.fitting.regression import Regression
from gough.identification.validation import (
    FAIR,
    GOOD,
    WEAK_CONDITION,
    Validation,
    numerics_of,
    worse_rows,
)
from gough.logs.checks import inspected
from gough.logs.recording import Recording

Bounds = tuple[FloatArray, FloatArray]

# power of what is left over that of noise: beyond, model error moves values by about their sigmas
MISFIT = 1.5
CHANCE = 0.01  # of a false alarm of one rule on clean data, all rows or parameters together
# of the samples of a row must count: less is a choice of the data, not a treatment of reversals
ENOUGH = 0.5
BROKEN = ("dead", "saturation", "duplicated")  # findings of a channel that measures nothing
NOISY = "noise of {row} is {error} of the effort, which hides errors of the model"
SAME = 0.5  # of the samples of a held-out log found among the others: noise never repeats


def judge_numerics(estimate: Estimate) -> Remarks:
    """Speak if the condition number leaves few digits of a parameter whose sigma does not say so
    (`numerics_of`).
    """
    found = float(estimate.condition_number)
    return (
        ()
        if numerics_of(estimate)
        else (
            Remark(
                "numerics",
                "look",
                f"condition number {found:.3g}, expected below {WEAK_CONDITION:.0e}: some "
                f"parameters are "
                "hardly seen by this motion; move more, tie legs, or keep only the essential ones",
                {"condition number": found},
            ),
        )
    )


def judge_carrying(estimate: Estimate) -> Remarks:
    """Speak if logs disagree beyond what noise and stretches of each of them say: sigmas were
    widened by that.
    """
    if estimate.uncertainty != "recordings":
        return ()
    wider = float(np.sqrt(np.mean((estimate.std / np.maximum(estimate.noise_std, 1e-300)) ** 2)))
    return (
        Remark(
            "motion",
            "look",
            "the model does not carry from one motion to another: without single logs "
            f"estimates differ so much that sigmas are {wider:.1f} times those of noise; something "
            f"is missing "
            "in the robot file, or a log is not like the others",
            {"ratio": wider},
        ),
    )


def judge_error(
    rule: str,
    what: str,
    rows: Sequence[str],
    rms: FloatArray,
    relative: FloatArray,
    noise: Bounds | None = None,
) -> Remarks:
    """Speak if an error exceeds 10 % (look) or 25 % (wrong) of the effort, sqrt(rms^2 - noise^2)
    over the effort.

    Noise is no fault of the model: `look` takes the least there can be out, `wrong` the most. Where
    the least exceeds 25 % of the effort itself, no such error can be told.
    """
    size = np.maximum(rms / np.maximum(relative, 1e-300), 1e-300)
    least, most = noise or (np.zeros(len(size)),) * 2
    sure, possible = (np.sqrt(np.maximum(rms**2 - known**2, 0.0)) / size for known in (most, least))
    for part, look, text in ((possible, GOOD, what), (least / size, FAIR, NOISY)):
        worst = int(np.argmax(part))
        if part[worst] >= look:
            message = text.format(error=f"{100 * part[worst]:.1f} %", row=rows[worst])
            return (
                Remark(
                    rule,
                    "wrong" if text is what and sure.max() >= FAIR else "look",
                    f"{message}, expected below {100 * look:.0f} %",
                    {"error": float(part[worst])},
                ),
            )
    return ()


def judge_prediction(validation: Validation, noise: Bounds | None = None) -> Remarks:
    """Speak if held-out logs are predicted badly (see `judge_error`), or not at all."""
    if validation.predicts == "not tested":
        return (
            Remark(
                "prediction",
                "look",
                "nothing was predicted: no held-out log was given, and a fit to its own "
                "data proves little; validate on another motion",
            ),
        )
    return judge_error(
        "prediction",
        "held-out data are predicted to {error} of the effort on {row}",
        validation.rows,
        validation.rms,
        validation.relative,
        noise,
    )


def judge_transfer(
    validation: Validation, estimate: Estimate, noise: FloatArray | None = None
) -> Remarks:
    """Speak if the held-out error is more than 1.5 times that on the identification data.

    Error that noise of the held-out logs and sigmas of the estimate explain, (r,), is taken out.
    """
    known = np.zeros(len(validation.rows)) if noise is None else noise**2
    worse = worse_rows(estimate, validation.rows, validation.rms, validation.relative, known)
    if validation.predicts == "not tested" or not worse:
        return ()
    most = max(worse.values())
    return (
        Remark(
            "prediction",
            "look",
            f"{join_names(list(worse))}: the held-out error is {most:.1f} times that on the "
            "identification data; the model is overfitted, or the machine has changed",
            {"ratio": most},
        ),
    )


def judge_fit(estimate: Estimate, noise: Bounds | None = None) -> Remarks:
    """Speak if much is left of the identification data (see `judge_error`)."""
    return judge_error(
        "fit",
        "the model leaves {error} of the effort of {row} unexplained",
        estimate.rows,
        estimate.residual_rms,
        estimate.residual_relative,
        noise,
    )


class Misfit(NamedTuple):
    """What is left of a repeated motion against the noise that its repetitions show, (r,) each.

    `ratio`: power of the residual of the mean over that of its noise, 1 if the model is right.
    `chance`: that noise alone makes a ratio this large. `repeats`: part of a single repetition's
    residual that comes back every time.
    """

    ratio: FloatArray
    chance: FloatArray
    repeats: FloatArray


def misfit(part: Regression, estimate: Estimate) -> Misfit | None:
    """Compare the residual of the mean of k repetitions with their scatter; None without
    repetitions.

    ratio = (sum_t e_t^2 / (n - h)) / (sum_kt d_kt^2 / (n k (k - 1))), d the deviation of a
    repetition from the mean, h the parameters a row pays for, p / r. For noise it is F-distributed;
    with autocorrelation rho, n samples tell as much about a mean square as n / (1 + 2 sum rho^2)
    independent ones.
    """
    if part.replicates is None or len(part.replicates) < 2 or not len(part):
        return None
    k, counts = len(part.replicates), part.valid
    n = np.maximum(counts.sum(axis=0), 1)
    left = np.where(counts, part.effort - estimate.predict(part), 0.0)
    deviation = np.where(counts, part.replicates - part.replicates.mean(axis=0), 0.0)
    free = np.maximum(n - len(estimate) / len(part.rows), 1.0)
    noise = (deviation**2).sum(axis=(0, 1)) / (n * k * (k - 1))  # of the mean
    power = (left**2).sum(axis=0) / free
    ratio = power / np.maximum(noise, 1e-300)
    memory = np.array([squared_memory(deviation[:, :, j]) for j in range(deviation.shape[2])])
    freedom = np.maximum(free / memory, 1.0), np.maximum(n * (k - 1) / memory, 1.0)
    chance = np.array([f_tail(*each) for each in zip(ratio, *freedom)])
    extra = np.maximum(power - noise, 0.0)
    return Misfit(ratio, chance, extra / np.maximum(extra + k * noise, 1e-300))


def squared_memory(deviation: FloatArray, lags: int = 200) -> float:
    """Return 1 + 2 sum_l rho_l^2 of noise, (k, t): how many samples of a mean square tell as much
    as one alone.
    """
    power = float((deviation**2).sum())
    if power <= 0:
        return 1.0
    most = min(lags, deviation.shape[1] // 4)
    rho = [
        float((deviation[:, lag:] * deviation[:, :-lag]).sum()) / power
        for lag in range(1, most + 1)
    ]
    floor = 1 / np.sqrt(deviation.size)  # what white noise shows by chance
    return 1.0 + 2.0 * sum(r**2 for r in rho if abs(r) > 2 * floor)


def judge_misfit(found: Sequence[Misfit], rows: Sequence[str]) -> Remarks:
    """Speak if the residual's power is more than 1.5 times what the repetitions' noise explains,
    beyond chance.

    At 1.5 the model's error has 0.7 of the noise's amplitude: values move by about what their
    sigmas, which come from the scatter between repetitions, allow. Smaller but directed errors are
    the business of the directions.
    """
    if not found:
        return ()
    ratio, chance, repeats = (np.concatenate(each) for each in zip(*found))
    level = np.where(chance < CHANCE / len(ratio), ratio, 0.0)
    worst = int(level.argmax())
    if level[worst] < MISFIT:
        return ()
    return (
        Remark(
            "lack of fit",
            "look",
            f"{rows[worst % len(rows)]}: what the model leaves has {level[worst]:.1f} "
            f"times the power of the noise that repetitions show (expected about 1); "
            f"{100 * repeats[worst]:.0f} "
            "% of it comes back every time and is not noise, so sigmas are too small",
            {"ratio": float(level[worst]), "repeats": float(repeats[worst])},
        ),
    )


def _prints(logs: Sequence[Recording]) -> list[NDArray[np.uint64]]:
    """Return a number for each three samples running of logs, the same for the same samples, (t,)
    each.
    """
    found = []
    for log in logs:
        signal = log.effort if log.effort is not None else log.current
        columns = [log.position] if signal is None else [log.position, signal]
        data = np.ascontiguousarray(np.concatenate(columns, axis=1)).view(np.uint64)
        factor = np.random.default_rng(0).integers(
            1, 2**63, data.shape[1], dtype=np.uint64
        ) | np.uint64(1)
        with np.errstate(over="ignore"):
            row = (data * factor).sum(axis=1, dtype=np.uint64)
            row ^= row >> np.uint64(29)
            found.append(
                np.asarray(
                    row[:-2] * np.uint64(3) + row[1:-1] * np.uint64(5) + row[2:] * np.uint64(7)
                )
            )
    return found


def judge_sameness(recordings: Sequence[Recording], held_out: Sequence[Recording]) -> Remarks:
    """Speak if more than half of a held-out log's samples stand in a log of the identification, bit
    by bit.

    Noise never repeats, so equal samples are the same recording: copied, cut or renamed.
    """
    seen = np.concatenate(_prints(recordings))
    same = [
        log.source
        for log, own in zip(held_out, _prints(held_out))
        if np.isin(own, seen).sum() > SAME * len(own)
    ]
    return (
        ()
        if not same
        else (
            Remark(
                "sameness",
                "wrong",
                f"{join_names(same)}: the held-out log is one it was identified from, so nothing "
                "was predicted; give another recording",
                {"logs": float(len(same))},
            ),
        )
    )


def judge_share(rows: Sequence[str], counts: FloatArray, total: int) -> Remarks:
    """Speak if less than half of a row's samples count, (r,), of so many in total."""
    share = np.asarray(counts, dtype=float) / max(total, 1)
    few, worst = [row for row, part in zip(rows, share) if part < ENOUGH], int(np.argmin(share))
    return (
        ()
        if not few
        else (
            Remark(
                "share",
                "look",
                f"{join_names(few)}: only {int(counts[worst])} of {total} samples of {rows[worst]} "
                f"count "
                f"({100 * share[worst]:.0f} %, expected at least {100 * ENOUGH:.0f} %); the rest "
                f"is near reversals. Give a "
                "shorter window, or a motion with fewer reversals",
                {"share": float(share[worst])},
            ),
        )
    )


def judge_data(recordings: Sequence[Recording]) -> Remarks:
    """Speak if a channel of a log is dead, clipped or a copy of another: no estimator can mend
    that.
    """
    found = [
        (f"{log.source}: {finding.channel}", finding.message)
        for log in recordings
        for finding in inspected(log).quality
        if finding.kind in BROKEN
    ]
    if not found:
        return ()
    (name, message), count = found[0], len(dict(found))
    more = f" ({count - 1} more channels)" if count > 1 else ""
    return (Remark("data", "look", f"{name} {message}{more}", {"channels": float(count)}),)
