"""Is the result to be trusted? Small rules, each with its threshold and the reason for it; one headline.

A rule speaks by a `Remark`. The headline is `good` only if none does: a model may predict a held-out log perfectly
and still be wrong, because that log has the same mistake.
The rules are listed in docs/diagnosis.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from gough.core.arrays import FloatArray, Value
from gough.core.regression import Regression
from gough.core.showing import Columns, Shown, listed
from gough.estimators.estimate import Estimate
from gough.identification.validation import FAIR, GOOD, VISIBLE, WEAK_CONDITION, WORSE, Validation, numerics_of
from gough.logs.checks import inspected
from gough.logs.recording import Recording

Level = Literal["look", "wrong"]
Headline = Literal["good", "look", "wrong"]
Bounds = tuple[FloatArray, FloatArray]

MISFIT = 1.5  # power of what is left over that of noise: beyond, model error moves values by about their sigmas
CHANCE = 0.01  # of a false alarm of one rule on clean data, all rows or parameters together
ENOUGH = 0.5  # of the samples of a row must count: less is a choice of the data, not a treatment of reversals
BROKEN = ("dead", "saturation", "duplicated")  # findings of a channel that measures nothing
NOISY = "noise of {row} is {error} of the effort, which hides errors of the model"
SAME = 0.5  # of the samples of a held-out log found among the others: noise never repeats


@dataclass(frozen=True, kw_only=True, eq=False)
class Remark:
    """What one rule has to say.

    Args:
        rule: Which.
        level: `look` (do not trust before looking) or `wrong` (do not use).
        message: In words: what is, what was expected, what it may mean.
        numbers: What it rests on.
    """

    rule: str
    level: Level
    message: str
    numbers: Mapping[str, float] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return the documented JSON form."""
        return {"rule": self.rule, "level": self.level, "message": self.message, "numbers": dict(self.numbers)}


@dataclass(frozen=True, kw_only=True, eq=False)
class Verdict(Shown):
    """All remarks and one headline.

    Args:
        remarks: What the rules say; empty if all is well.
        sentence: Numerics and prediction in one sentence.
    """

    remarks: tuple[Remark, ...] = ()
    sentence: str = ""

    @property
    def headline(self) -> Headline:
        """`wrong` if any remark says so, `look` if there is any, `good` if there is none."""
        return worst_of(remark.level for remark in self.remarks)

    def __str__(self) -> str:
        return f"{self.headline}: {self.sentence}" if self.sentence else self.headline

    def table(self) -> Columns:
        """Return the remarks."""
        return {name: [getattr(r, name) for r in self.remarks] for name in ("rule", "level", "message")}

    def to_dict(self) -> dict[str, Any]:
        """Return the documented JSON form."""
        return {"headline": self.headline, "sentence": self.sentence,
                "remarks": [remark.to_dict() for remark in self.remarks]}

    def summary(self) -> str:
        """Return the verdict as plain text: headline, then one line for each remark, the worst first."""
        order = sorted(self.remarks, key=lambda remark: remark.level != "wrong")
        return "\n".join([str(self), *(f"  {r.level}, {r.rule}: {r.message}" for r in order)])


def worst_of(levels: Iterable[Level]) -> Headline:
    """Return the headline of some levels."""
    found = set(levels)
    return "wrong" if "wrong" in found else "look" if found else "good"


# -- numbers and prediction -------------------------------------------------------------------------------------------


def judge_numerics(estimate: Estimate) -> tuple[Remark, ...]:
    """Speak if the condition number leaves few digits of a parameter whose sigma does not say so (`numerics_of`)."""
    found = float(estimate.condition_number)
    if numerics_of(estimate):
        return ()
    return (Remark(rule="numerics", level="look", numbers={"condition number": found},
                   message=f"condition number {found:.3g}, expected below {WEAK_CONDITION:.0e}: some parameters are "
                           "hardly seen by this motion; move more, tie legs, or keep only the essential ones"),)


def judge_carrying(estimate: Estimate) -> tuple[Remark, ...]:
    """Speak if logs disagree beyond what noise and stretches of each of them say: sigmas were widened by that."""
    if estimate.uncertainty != "recordings":
        return ()
    wider = float(np.sqrt(np.mean((estimate.std / np.maximum(estimate.noise_std, 1e-300)) ** 2)))
    return (Remark(rule="motion", level="look", numbers={"ratio": wider},
                   message="the model does not carry from one motion to another: without single logs estimates differ "
                           f"so much that sigmas are {wider:.1f} times those of noise; something is missing in the "
                           "robot file, or a log is not like the others"),)


def judge_error(rule: str, what: str, rows: Sequence[str], rms: FloatArray, relative: FloatArray,
                noise: Bounds | None = None) -> tuple[Remark, ...]:
    """Speak if an error exceeds 10 % (look) or 25 % (wrong) of the effort, sqrt(rms^2 - noise^2) over the effort.

    Noise is no fault of the model: `look` takes the least there can be out, `wrong` the most. Where the least exceeds
    25 % of the effort itself, no such error can be told.

    Args:
        what: In words, with {error}, {row}.
        rms, relative: Error, as it is and over the rms effort, (r,).
        noise: Least and most standard deviation of the rows' noise, (r,) each; nothing by default.
    """
    size = np.maximum(rms / np.maximum(relative, 1e-300), 1e-300)
    least, most = (np.zeros(len(size)), np.zeros(len(size))) if noise is None else noise
    sure, possible = (np.sqrt(np.maximum(rms**2 - known**2, 0.0)) / size for known in (most, least))
    for part, look, text in ((possible, GOOD, what), (least / size, FAIR, NOISY)):
        worst = int(np.argmax(part))
        if part[worst] >= look:
            message = text.format(error=f"{100 * part[worst]:.1f} %", row=rows[worst])
            return (Remark(rule=rule, level="wrong" if text is what and sure.max() >= FAIR else "look",
                           numbers={"error": float(part[worst])},
                           message=f"{message}, expected below {100 * look:.0f} %"),)
    return ()


def judge_prediction(validation: Validation, noise: Bounds | None = None) -> tuple[Remark, ...]:
    """Speak if held-out logs are predicted badly (see `judge_error`), or not at all."""
    if validation.predicts == "not tested":
        return (Remark(rule="prediction", level="look", message="nothing was predicted: no held-out log was given, and "
                       "a fit to its own data proves little; validate on another motion"),)
    return judge_error("prediction", "held-out data are predicted to {error} of the effort on {row}", validation.rows,
                       validation.rms, validation.relative, noise)


def judge_transfer(validation: Validation, estimate: Estimate, noise: FloatArray | None = None) -> tuple[Remark, ...]:
    """Speak if the held-out error is more than 1.5 times that on the identification data, what is expected taken out.

    A row that is predicted to 1 % is not held against model or machine: there a fit of few samples, another band or
    reversals between two samples make such ratios.

    Args:
        noise: Error that noise of the held-out logs and sigmas of the estimate explain, (r,).
    """
    if validation.predicts == "not tested":
        return ()
    own = dict(zip(estimate.rows, estimate.residual_rms))
    known = np.zeros(len(validation.rows)) if noise is None else noise
    worse = {row: float(rms / own[row])
             for row, rms, std, part in zip(validation.rows, validation.rms, known, validation.relative)
             if row in own and part >= VISIBLE and rms**2 - std**2 > (WORSE * own[row]) ** 2}
    if not worse:
        return ()
    row = max(worse, key=lambda name: worse[name])
    return (Remark(rule="prediction", level="look", numbers={"ratio": worse[row]},
                   message=f"{listed(list(worse))}: the held-out error is {worse[row]:.1f} times that on the "
                           "identification data; the model is overfitted, or the machine has changed"),)


def judge_fit(estimate: Estimate, noise: Bounds | None = None) -> tuple[Remark, ...]:
    """Speak if much is left of the identification data (see `judge_error`)."""
    return judge_error("fit", "the model leaves {error} of the effort of {row} unexplained", estimate.rows,
                       estimate.residual_rms, estimate.residual_relative, noise)


# -- lack of fit ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, eq=False)
class Misfit(Value):
    """What is left of a repeated motion against the noise that its repetitions show.

    Args:
        ratio: Power of the residual of the mean over that of its noise, (r,); 1 if the model is right.
        chance: That noise alone makes a ratio this large, autocorrelation allowed for, (r,).
        repeats: Part of a single repetition's residual that comes back every time, (r,). [1]
    """

    ratio: FloatArray
    chance: FloatArray
    repeats: FloatArray


def misfit(part: Regression, estimate: Estimate) -> Misfit | None:
    """Compare the residual of the mean of k repetitions with their scatter; None without repetitions.

    ratio = (sum_t e_t^2 / (n - h)) / (sum_kt d_kt^2 / (n k (k - 1))), d the deviation of a repetition from the mean,
    h the parameters a row pays for, p / r. For noise it is F-distributed; with autocorrelation rho, n samples tell as
    much about a mean square as n / (1 + 2 sum rho^2) independent ones.
    """
    if part.replicates is None or len(part.replicates) < 2 or not len(part):
        return None
    k = len(part.replicates)
    counts = part.counting
    n = np.maximum(counts.sum(axis=0), 1)
    left = np.where(counts, part.effort - estimate.predict(part), 0.0)
    deviation = np.where(counts, part.replicates - part.replicates.mean(axis=0), 0.0)
    free = np.maximum(n - len(estimate) / len(part.rows), 1.0)
    noise = (deviation**2).sum(axis=(0, 1)) / (n * k * (k - 1))  # of the mean
    power = (left**2).sum(axis=0) / free
    ratio = power / np.maximum(noise, 1e-300)
    memory = np.array([squared_memory(deviation[:, :, j]) for j in range(deviation.shape[2])])
    chance = stats.f.sf(ratio, np.maximum(free / memory, 1.0), np.maximum(n * (k - 1) / memory, 1.0))
    extra = np.maximum(power - noise, 0.0)
    return Misfit(ratio=ratio, chance=chance, repeats=extra / np.maximum(extra + k * noise, 1e-300))


def squared_memory(deviation: FloatArray, lags: int = 200) -> float:
    """Return 1 + 2 sum_l rho_l^2 of noise, (k, t): how many samples of a mean square tell as much as one alone."""
    power = float((deviation**2).sum())
    if power <= 0:
        return 1.0
    most = min(lags, deviation.shape[1] // 4)
    rho = [float((deviation[:, lag:] * deviation[:, :-lag]).sum()) / power for lag in range(1, most + 1)]
    floor = 1 / np.sqrt(deviation.size)  # what white noise shows by chance
    return 1.0 + 2.0 * sum(r**2 for r in rho if abs(r) > 2 * floor)


def judge_misfit(found: Sequence[Misfit], rows: Sequence[str]) -> tuple[Remark, ...]:
    """Speak if the residual's power is more than 1.5 times what the repetitions' noise explains, beyond chance.

    At 1.5 the model's error has 0.7 of the noise's amplitude: values move by about what their sigmas, which come from
    the scatter between repetitions, allow. Smaller but directed errors are the business of the directions.
    """
    if not found:
        return ()
    worst, at, where = 0.0, 0, found[0]
    for each in found:
        sure = each.chance < CHANCE / (len(rows) * len(found))
        level = np.where(sure, each.ratio, 0.0)
        if level.max(initial=0.0) > worst:
            worst, at, where = float(level.max()), int(level.argmax()), each
    if worst < MISFIT:
        return ()
    share = float(where.repeats[at])
    return (Remark(rule="lack of fit", level="look", numbers={"ratio": worst, "repeats": share},
                   message=f"{rows[at]}: what the model leaves has {worst:.1f} times the power of the noise that "
                           f"repetitions show (expected about 1); {100 * share:.0f} % of it comes back every time and "
                           "is not noise, so sigmas are too small"),)


# -- data -------------------------------------------------------------------------------------------------------------


def _prints(recording: Recording) -> NDArray[np.uint64]:
    """Return a number for each three samples running of a log, the same for the same samples, (t,)."""
    signal = recording.effort if recording.effort is not None else recording.current
    columns = [recording.position] if signal is None else [recording.position, signal]
    data = np.ascontiguousarray(np.concatenate(columns, axis=1)).view(np.uint64)
    factor = np.random.default_rng(0).integers(1, 2**63, data.shape[1], dtype=np.uint64) | np.uint64(1)
    with np.errstate(over="ignore"):
        row = (data * factor).sum(axis=1, dtype=np.uint64)
        row ^= row >> np.uint64(29)
        return np.asarray(row[:-2] * np.uint64(3) + row[1:-1] * np.uint64(5) + row[2:] * np.uint64(7))


def judge_sameness(recordings: Sequence[Recording], held_out: Sequence[Recording]) -> tuple[Remark, ...]:
    """Speak if more than half of a held-out log's samples stand in a log of the identification, bit by bit.

    Noise never repeats, so equal samples are the same recording: copied, cut or renamed.
    """
    seen = np.concatenate([_prints(log) for log in recordings if len(log) > 2] or [np.zeros(0, np.uint64)])
    same = []
    for log in held_out:
        if len(log) > 2 and float(np.isin(_prints(log), seen).mean()) > SAME:
            same.append(log.source)
    if not same:
        return ()
    return (Remark(rule="sameness", level="wrong", numbers={"logs": float(len(same))},
                   message=f"{listed(same)}: the held-out log is one it was identified from, so nothing was predicted; "
                           "give another recording"),)


def judge_share(rows: Sequence[str], counts: FloatArray, total: int) -> tuple[Remark, ...]:
    """Speak if less than half of the samples of a row count, or none of a row.

    Args:
        counts: Samples of each row that count, (r,).
        total: Samples there are.
    """
    share = np.asarray(counts, dtype=float) / max(total, 1)
    few = [row for row, part in zip(rows, share) if part < ENOUGH]
    if not few:
        return ()
    worst = int(np.argmin(share))
    return (Remark(rule="share", level="look", numbers={"share": float(share[worst])},
                   message=f"{listed(few)}: only {int(counts[worst])} of {total} samples of {rows[worst]} count "
                           f"({100 * share[worst]:.0f} %, expected at least {100 * ENOUGH:.0f} %); the rest is near "
                           "reversals. Give a shorter window, or a motion with fewer reversals"),)


def judge_data(recordings: Sequence[Recording]) -> tuple[Remark, ...]:
    """Speak if a channel of a log is dead, clipped or a copy of another: no estimator can mend that."""
    bad: dict[str, str] = {}
    for log in recordings:
        for finding in inspected(log).quality:
            if finding.kind in BROKEN:
                bad.setdefault(f"{log.source}: {finding.channel}", finding.message)
    if not bad:
        return ()
    name, message = next(iter(bad.items()))
    more = f" ({len(bad) - 1} more channels)" if len(bad) > 1 else ""
    return (Remark(rule="data", level="look", numbers={"channels": float(len(bad))},
                   message=f"{name} {message}{more}"),)
