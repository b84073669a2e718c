"""Is the result to be trusted? Small rules, each with its threshold and the reason for it; one headline.

A rule speaks by a `Remark`. The headline is `good` only if none does: a model may predict a held-out log perfectly
and still be wrong, because that log has the same mistake.

| rule | speaks when |
|---|---|
| numerics | the condition number leaves few digits |
| prediction | held-out logs are predicted badly, much worse than the logs fitted, or there are none |
| fit | what is left of the identification logs is large against the effort |
| lack of fit | what is left comes back in every repetition, so it is not noise |
| physics | a mass, an inertia or a friction is negative beyond doubt |
| prior | well-determined values are far from the robot file's, or all of them by one factor: a unit |
| sameness | a held-out log is a log it was identified from |
| share | less than half of the samples of a row count |
| data | a channel is dead, clipped or a copy of another |
| drift | an effort fades or grows from period to period |
| direction | a usual mistake explains part of what is left beyond chance (see `diagnose`) |
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from scipy import stats

from gough.core.arrays import BoolArray, FloatArray, frozen
from gough.core.names import Parameter
from gough.core.parameters import BaseParameters
from gough.core.regression import Regression
from gough.engine import Model
from gough.estimators.estimate import Estimate
from gough.identification.validation import FAIR, GOOD, WEAK_CONDITION, Validation
from gough.logs.checks import inspect
from gough.logs.recording import Recording
from gough.mechanism.terms import TERMS

Level = Literal["look", "wrong"]
Headline = Literal["good", "look", "wrong"]

WORSE = 1.5  # times the error on the identification data: a held-out error beyond does not come from noise of a fit
MISFIT = 1.5  # power of what is left over that of noise: beyond, model error moves values by about their sigmas
CHANCE = 0.01  # of a false alarm of one rule on clean data, all rows or parameters together
DOUBT = stats.norm.sf(3.0)  # three sigmas
FAR = 3.0  # times the robot file's value: CAD masses and catalogue friction are hardly ever worse
SURE = 0.1  # relative standard deviation of a value that is well determined
ALIKE = 0.25  # scatter of ln(value / robot file) about a common factor that still is one: a file wrong by a quarter
LEAST = 1.05  # common factors below this are within what scales and gains are known to
ODD = 1.3  # a single value below this factor is within what a good robot file is known to
SURPRISE = 6.0  # robust standard deviations from what the other values show of the robot file's quality
ENOUGH = 0.5  # of the samples of a row must count: less is a choice of the data, not a treatment of reversals
SAME = 0.5  # of the samples of a held-out log found among the others: noise never repeats

# Factors that units differ by. Their inverses are tried too.
UNITS: dict[str, float] = {
    "1000 (milli or kilo)": 1000.0, "180/pi (degrees for radians)": 180 / np.pi, "2 pi (turns for radians)": 2 * np.pi,
    "60 (per minute for per second)": 60.0, "9.81 (kilopond for newton)": 9.80665, "100 (per cent)": 100.0,
    "1000000 (micro or mega)": 1e6,
}


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

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Remark:
        """Undo `to_dict`."""
        return cls(rule=content["rule"], level=content["level"], message=content["message"],
                   numbers=dict(content["numbers"]))


@dataclass(frozen=True, kw_only=True, eq=False)
class Verdict:
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

    def to_dict(self) -> dict[str, Any]:
        """Return the documented JSON form."""
        return {"headline": self.headline, "sentence": self.sentence,
                "remarks": [remark.to_dict() for remark in self.remarks]}

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Verdict:
        """Undo `to_dict`."""
        return cls(remarks=tuple(Remark.from_dict(remark) for remark in content["remarks"]),
                   sentence=content["sentence"])

    def summary(self) -> str:
        """Return the verdict as plain text: headline, then one line for each remark, the worst first."""
        order = sorted(self.remarks, key=lambda remark: remark.level != "wrong")
        return "\n".join([str(self), *(f"  {r.level}, {r.rule}: {r.message}" for r in order)])


def worst_of(levels: Iterable[Level]) -> Headline:
    """Return the headline of some levels."""
    found = set(levels)
    return "wrong" if "wrong" in found else "look" if found else "good"


def _names(names: Sequence[str], most: int = 4) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


# -- numbers and prediction -------------------------------------------------------------------------------------------


def judge_numerics(estimate: Estimate) -> tuple[Remark, ...]:
    """Speak if the condition number leaves few digits: one part in 1e4 of an effort then is a whole parameter."""
    found = float(estimate.condition_number)
    if found < WEAK_CONDITION:
        return ()
    return (Remark(rule="numerics", level="look", numbers={"condition number": found},
                   message=f"condition number {found:.3g}, expected below {WEAK_CONDITION:.0e}: some parameters are hardly "
                           "seen by this motion; move more, tie legs, or keep only the essential ones"),)


def beyond_noise(rms: FloatArray, noise: FloatArray, size: FloatArray) -> FloatArray:
    """Return sqrt(rms^2 - noise^2) / size, (r,): noise is no fault of the model."""
    return np.asarray(np.sqrt(np.maximum(rms**2 - noise**2, 0.0)) / np.maximum(size, 1e-300))


def judge_prediction(validation: Validation, noise: FloatArray | None = None) -> tuple[Remark, ...]:
    """Speak if held-out logs are predicted worse than 10 % (look) or 25 % (wrong) of the effort, or not at all.

    Args:
        validation: The prediction.
        noise: Standard deviation of the held-out rows' noise where it is known, (r,); not held against the model.
    """
    if validation.predicts == "not tested":
        return (Remark(rule="prediction", level="look", message="nothing was predicted: no held-out log was given, and "
                       "a fit to its own data proves little; validate on another motion"),)
    size = validation.rms / np.maximum(validation.relative, 1e-300)
    error = beyond_noise(validation.rms, np.zeros(len(size)) if noise is None else noise, size)
    worst = int(np.argmax(error))
    if error[worst] < GOOD:
        return ()
    poor = bool(error[worst] >= FAIR)
    return (Remark(rule="prediction", level="wrong" if poor else "look", numbers={"error": float(error[worst])},
                   message=f"held-out data are predicted to {100 * error[worst]:.1f} % of the effort on "
                           f"{validation.rows[worst]}, expected below {100 * GOOD:.0f} %"),)


def judge_transfer(validation: Validation, estimate: Estimate, noise: FloatArray | None = None) -> tuple[Remark, ...]:
    """Speak if the held-out error is more than 1.5 times that on the identification data, noise taken out."""
    if validation.predicts == "not tested":
        return ()
    own = dict(zip(estimate.rows, estimate.residual_rms))
    known = np.zeros(len(validation.rows)) if noise is None else noise
    worse = {row: float(rms / own[row]) for row, rms, std in zip(validation.rows, validation.rms, known)
             if row in own and rms**2 - std**2 > (WORSE * own[row]) ** 2}
    if not worse:
        return ()
    row = max(worse, key=lambda name: worse[name])
    return (Remark(rule="prediction", level="look", numbers={"ratio": worse[row]},
                   message=f"{_names(list(worse))}: the held-out error is {worse[row]:.1f} times that on the "
                           "identification data; the model is overfitted, or the machine has changed"),)


def judge_fit(estimate: Estimate, noise: FloatArray | None = None) -> tuple[Remark, ...]:
    """Speak if what is left of the identification data exceeds 10 % (look) or 25 % (wrong) of the effort."""
    size = estimate.residual_rms / np.maximum(estimate.residual_relative, 1e-300)
    error = beyond_noise(estimate.residual_rms, np.zeros(len(size)) if noise is None else noise, size)
    worst = int(np.argmax(error))
    if error[worst] < GOOD:
        return ()
    return (Remark(rule="fit", level="wrong" if error[worst] >= FAIR else "look", numbers={"error": float(error[worst])},
                   message=f"the model leaves {100 * error[worst]:.1f} % of the effort of {estimate.rows[worst]} "
                           f"unexplained, expected below {100 * GOOD:.0f} %"),)


# -- lack of fit ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, eq=False)
class Misfit:
    """What is left of a repeated motion against the noise that its repetitions show.

    Args:
        ratio: Power of the residual of the mean over that of its noise, (r,); 1 if the model is right.
        sigma: Standard deviation of that ratio by noise alone, autocorrelation allowed for, (r,).
        repeats: Part of a single repetition's residual that comes back every time, (r,). [1]
    """

    ratio: FloatArray
    sigma: FloatArray
    repeats: FloatArray

    def __post_init__(self) -> None:
        for name in ("ratio", "sigma", "repeats"):
            object.__setattr__(self, name, frozen(getattr(self, name)))


def misfit(part: Regression, estimate: Estimate) -> Misfit | None:
    """Compare the residual of the mean of k repetitions with their scatter; None without repetitions.

    ratio = (sum_t e_t^2 / (n - h)) / (sum_kt d_kt^2 / (n k (k - 1))), d the deviation of a repetition from the mean,
    h the parameters a row pays for, p / r. Under noise with autocorrelation rho both means scatter by
    sqrt(2 (1 + 2 sum rho^2) / n) and that over (k - 1).
    """
    if part.replicates is None or len(part.replicates) < 2 or not len(part):
        return None
    k = len(part.replicates)
    counts = np.ones(part.effort.shape, bool) if part.mask is None else part.mask
    n = np.maximum(counts.sum(axis=0), 1)
    left = np.where(counts, part.effort - estimate.predict(part), 0.0)
    deviation = np.where(counts, part.replicates - part.replicates.mean(axis=0), 0.0)
    free = np.maximum(n - len(estimate) / len(part.rows), 1.0)
    noise = (deviation**2).sum(axis=(0, 1)) / (n * k * (k - 1))  # of the mean
    power = (left**2).sum(axis=0) / free
    ratio = power / np.maximum(noise, 1e-300)
    memory = np.array([_squared_memory(deviation[:, :, j]) for j in range(deviation.shape[2])])
    sigma = np.sqrt(2 * memory / free * (1 + 1 / (k - 1)))
    extra = np.maximum(power - noise, 0.0)
    return Misfit(ratio=ratio, sigma=sigma, repeats=extra / np.maximum(extra + k * noise, 1e-300))


def _squared_memory(deviation: FloatArray, lags: int = 200) -> float:
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
    surprise = stats.norm.isf(CHANCE / (len(rows) * len(found)))
    worst, at, where = 0.0, 0, found[0]
    for each in found:
        sure = each.ratio > 1 + surprise * each.sigma
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


# -- physics and prior ------------------------------------------------------------------------------------------------


def cannot_be_negative(standard: Parameter) -> bool:
    """Tell whether a standard parameter of a physical robot cannot be negative: masses, inertias, friction."""
    if standard.inertial:
        return standard.kind in ("m", "Ixx", "Iyy", "Izz")
    return standard.kind in TERMS and TERMS[standard.kind].nonnegative


@dataclass(frozen=True, kw_only=True, eq=False)
class Prior:
    """What the robot file says of base parameters.

    Args:
        values: (b,).
        size: Sum of the absolute contributions behind each value, (b,): a small difference of large ones says little.
        given: The robot file gives all that a value is made of, (b,).
        lowest: Least value a physical robot near the robot file can have, (b,); -inf where nothing is known.
    """

    values: FloatArray
    size: FloatArray
    given: BoolArray
    lowest: FloatArray


def given_by_file(model: Model, standard: Parameter) -> bool:
    """Tell whether the robot file gives a value for a standard (or tied, or payload) parameter."""
    mechanism = model.mechanism
    if standard.payload is not None:
        return any(p.name == standard.payload and standard.kind in p.values for p in mechanism.payloads)
    bodies, joints = ({item.name: item.values for item in items} for items in (mechanism.bodies, mechanism.joints))
    for member in model.resolve(standard):
        if member.kind not in (bodies if member.inertial else joints).get(member.owner, {}):
            return False
    return True


def prior_of(model: Model, base: BaseParameters) -> Prior:
    """Return what the robot file says of base parameters.

    The least physical value of a base parameter sums, over the standard ones it holds, zero where coefficient times
    value cannot be negative, and twice the robot file's contribution where it can: a file may be wrong by a factor of
    two, not by its sign. What the file leaves out has no bound.
    """
    standard = model.values(base.standard)
    known = np.array([given_by_file(model, name) for name in base.standard])
    positive = np.array([cannot_be_negative(name) for name in base.standard])
    parts = base.matrix * standard
    there = base.matrix != 0
    floor = np.where((base.matrix > 0) & positive, 0.0, np.where(known, np.minimum(2 * parts, 0.0), -np.inf))
    heads = positive[list(base.independent)]
    lowest = np.where(there, floor, 0.0).sum(axis=1)
    return Prior(values=parts.sum(axis=1), size=np.abs(parts).sum(axis=1), given=(~there | known).all(axis=1),
                 lowest=np.where(heads, lowest, -np.inf))


def _reach(estimate: Estimate, names: Sequence[str], chance: float) -> FloatArray:
    """Return how far below its value each parameter may be at a chance, all of them together, (p,)."""
    index = [estimate.parameters.index(name) for name in names]
    return np.asarray(stats.t.isf(chance / max(len(names), 1), estimate.degrees_of_freedom[index]) * estimate.std[index])


def judge_physics(estimate: Estimate, base: BaseParameters, prior: Prior) -> tuple[Remark, ...]:
    """Speak if a mass, an inertia or a friction is negative by more than three sigmas (all parameters together)."""
    rows = [k for k, name in enumerate(base.names) if name in estimate.parameters and np.isfinite(prior.lowest[k])]
    names = [base.names[k] for k in rows]
    if not names:
        return ()
    values = np.array([estimate[name] for name in names])
    below = values + _reach(estimate, names, DOUBT) - prior.lowest[rows]
    bad = [name for name, gap in zip(names, below) if gap < 0]
    if not bad:
        return ()
    worst = min(bad, key=lambda name: estimate[name] / estimate.std[estimate.parameters.index(name)])
    std = float(estimate.std[estimate.parameters.index(worst)])
    unit = estimate.units[estimate.parameters.index(worst)]
    return (Remark(rule="physics", level="wrong", numbers={"count": float(len(bad)), "value": estimate[worst], "std": std},
                   message=f"{_names(bad)}: no robot has such values; {worst} = {estimate[worst]:.4g} +- {std:.2g} {unit} "
                           "cannot be negative. A sign, a unit or a clock is wrong, or the motion says too little"),)


@dataclass(frozen=True, kw_only=True, eq=False)
class Factors:
    """Well-determined values over those of the robot file.

    Args:
        names: (k,).
        ratio: value / robot file, (k,).
        reach: How far ratios may be off by noise, as ln, (k,).
    """

    names: tuple[str, ...]
    ratio: FloatArray
    reach: FloatArray


def factors(estimate: Estimate, base: BaseParameters, prior: Prior) -> Factors:
    """Return the ratios of an estimate's values to the robot file's (see `ratios`)."""
    where = [estimate.parameters.index(name) if name in estimate.parameters else -1 for name in base.names]
    there = np.array(where) >= 0
    values, sigma = (np.where(there, x[where], np.nan) for x in (estimate.values, estimate.std))
    reach = stats.t.isf(CHANCE / len(where), estimate.degrees_of_freedom[where])
    return ratios(base.names, values, sigma, prior, reach)


def ratios(names: Sequence[str], values: FloatArray, sigma: FloatArray, prior: Prior,
           reach: FloatArray | float = 4.0) -> Factors:
    """Return the ratios of values the data determine to 10 % and the robot file gives, cancelling sums left out.

    Args:
        names: Of the base parameters, (b,).
        values, sigma: As found, NaN where not, (b,).
        prior: What the robot file says.
        reach: How many sigmas a value may be off by noise.
    """
    with np.errstate(invalid="ignore"):
        # A difference of large contributions (a regrouped inertia) is not known better than these.
        good = (prior.given & (np.abs(prior.values) > 0.5 * prior.size) & (prior.values != 0)
                & (sigma < SURE * np.maximum(np.abs(values), np.abs(prior.values))))
    far = np.broadcast_to(reach, values.shape)[good] * sigma[good]
    return Factors(names=tuple(name for name, use in zip(names, good) if use), ratio=values[good] / prior.values[good],
                   reach=far / np.maximum(np.abs(values[good]), 1e-300))


def file_scatter(found: Factors) -> tuple[float, float]:
    """Return the median of the ratios and the robust scatter of ln|ratio| about it; none (1, inf) of fewer than five.

    How good a robot file is shows in how well its values agree with the data as a whole.
    """
    if len(found.names) < 5:
        return 1.0, np.inf
    middle = float(np.median(found.ratio))
    if middle == 0:
        return 1.0, np.inf
    return middle, 1.4826 * float(np.median(np.abs(np.log(np.maximum(np.abs(found.ratio / middle), 1e-300)))))


def common_factor(found: Factors) -> float | None:
    """Return the factor by which nearly all values differ from the robot file's, or None if they do not.

    They must agree on it to a quarter, three in four of them within twice that and of one sign; and it must stand out
    of the scatter of the file: |ln f| above five standard deviations of a median, 1.25 scatter / sqrt(k), and 5 %.
    """
    middle, scatter = file_scatter(found)
    if not scatter < ALIKE:
        return None
    near = np.abs(np.log(np.maximum(np.abs(found.ratio / middle), 1e-300))) < 2 * ALIKE
    if float((near & (np.sign(found.ratio) == np.sign(middle))).mean()) < 0.75:
        return None
    least = max(float(np.log(LEAST)), 5 * 1.25 * scatter / np.sqrt(len(found.names)))
    return middle if middle < 0 or abs(np.log(middle)) > least else None


def unit_of(factor: float, extra: Mapping[str, float] | None = None, tolerance: float = 0.1) -> str | None:
    """Return the unit mistake that a factor looks like, or None.

    Args:
        factor: Its absolute value or its inverse is compared.
        extra: Further factors by name, e.g. gears and drive gains of the robot file.
        tolerance: Of the comparison. [1]
    """
    size = abs(factor)
    for name, value in {**UNITS, **(extra or {})}.items():
        for candidate, text in ((value, name), (1 / value, f"1 / {name}")):
            if abs(np.log(size / candidate)) < np.log(1 + tolerance) < abs(np.log(candidate)):
                return text
    return None


def judge_prior(estimate: Estimate, base: BaseParameters, prior: Prior,
                gains: Mapping[str, float] | None = None) -> tuple[Remark, ...]:
    """Speak if values are far from the robot file's, or all of them by one factor: then it is a unit.

    Far is a factor of 3, or less where the other values show that the file is better: 6 times their robust scatter, at
    least 1.3. Values that the robot file leaves out are not tested.

    Args:
        estimate: What was identified.
        base: Its base parameters.
        prior: What the robot file says of them.
        gains: Drive gains used, by motor: a common factor may be one of them.
    """
    found = factors(estimate, base, prior)
    middle = common_factor(found)
    if middle is not None:
        own = {f"{value:.4g} (the drive gain)": abs(value) for value in dict.fromkeys((gains or {}).values()) if value}
        unit = "the sign of all efforts" if abs(np.log(-middle if middle < 0 else 1e9)) < np.log(2) else unit_of(middle, own)
        sure = middle < 0 or unit is not None or abs(np.log(middle)) > np.log(FAR) / 2
        text = f"; that is {unit}" if unit else "; are the gains, the gears or the unit of the efforts right?"
        return (Remark(rule="prior", level="wrong" if sure else "look",
                       numbers={"factor": middle, "count": float(len(found.names))},
                       message=f"all {len(found.names)} well-determined values are {middle:.4g} times the robot file's"
                               + text),)
    middle, scatter = file_scatter(found)
    allowed = np.log(FAR) if not np.isfinite(scatter) else min(np.log(FAR), max(SURPRISE * scatter, np.log(ODD)))
    far = {name: float(r) for name, r, reach in zip(found.names, found.ratio, found.reach)
           if reach < 1 and (r <= 0 or abs(np.log(r)) > max(allowed, reach))}
    if not far:
        return ()
    worst = max(far, key=lambda name: np.inf if far[name] <= 0 else abs(np.log(far[name])))
    rest = len(found.names) - len(far)
    return (Remark(rule="prior", level="look", numbers={"ratio": far[worst], "count": float(len(far))},
                   message=f"{_names(list(far))}: well determined, but {worst} is {far[worst]:.3g} times what the robot "
                           f"file says, where the other {rest} values agree within {np.exp(allowed):.2g}; is the file, a "
                           "unit or a channel wrong, or was a load carried?"),)


# -- data -------------------------------------------------------------------------------------------------------------


def _prints(recording: Recording) -> FloatArray:
    """Return a number for each three samples running of a log, the same for the same samples, (t,)."""
    signal = recording.effort if recording.effort is not None else recording.current
    columns = [recording.position] if signal is None else [recording.position, signal]
    data = np.ascontiguousarray(np.concatenate(columns, axis=1)).view(np.uint64)
    factor = np.random.default_rng(0).integers(1, 2**63, data.shape[1], dtype=np.uint64) | np.uint64(1)
    with np.errstate(over="ignore"):
        row = (data * factor).sum(axis=1, dtype=np.uint64)
        row ^= row >> np.uint64(29)
        return row[:-2] * np.uint64(3) + row[1:-1] * np.uint64(5) + row[2:] * np.uint64(7)


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
                   message=f"{_names(same)}: the held-out log is one it was identified from, so nothing was predicted; "
                           "give another recording"),)


def judge_share(rows: Sequence[str], counts: FloatArray, total: int) -> tuple[Remark, ...]:
    """Speak if less than half of the samples of a row count, or none of a row.

    Args:
        rows: Names, (r,).
        counts: Samples of each row that count, (r,).
        total: Samples there are.
    """
    share = np.asarray(counts, dtype=float) / max(total, 1)
    few = [row for row, part in zip(rows, share) if part < ENOUGH]
    if not few:
        return ()
    worst = int(np.argmin(share))
    return (Remark(rule="share", level="look", numbers={"share": float(share[worst])},
                   message=f"{_names(few)}: only {int(counts[worst])} of {total} samples of {rows[worst]} count "
                           f"({100 * share[worst]:.0f} %, expected at least {100 * ENOUGH:.0f} %); the rest is near "
                           "reversals. Give a shorter window, or a motion with fewer reversals"),)


def judge_data(recordings: Sequence[Recording]) -> tuple[Remark, ...]:
    """Speak if a channel of a log is dead, clipped or a copy of another: no estimator can mend that."""
    bad: dict[str, str] = {}
    for log in recordings:
        for finding in (log.quality or inspect(log)):
            if finding.kind in ("dead", "saturation"):
                bad.setdefault(f"{log.source}: {finding.channel}", finding.message)
        for kind, channels in log.groups():
            if kind not in ("position", "effort", "current"):
                continue
            for i in range(len(channels.names)):
                for j in range(i):
                    if np.array_equal(channels.values[:, i], channels.values[:, j]) and np.ptp(channels.values[:, i]) > 0:
                        bad.setdefault(f"{log.source}: {channels.names[i]}.{kind}",
                                       f"is a copy of {channels.names[j]}.{kind}, bit by bit")
    if not bad:
        return ()
    name, message = next(iter(bad.items()))
    more = f" ({len(bad) - 1} more channels)" if len(bad) > 1 else ""
    return (Remark(rule="data", level="look", numbers={"channels": float(len(bad))}, message=f"{name} {message}{more}"),)
