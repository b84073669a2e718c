"""Guaranteed boxes for the parameters of a robot, from logs and an error bound (P03).

Intervals of the executed motion, and of the regressor, from positions with bounded errors (P03's
future work).

A motion of known bandwidth is a trigonometric polynomial x(t) of h harmonics. Sums over its samples
give its derivatives exactly: (D x)_j = sum_k d(j - k) x_k with any kernel d whose spectrum is i k w
up to harmonic h. Beyond h the spectrum is free; falling back to zero at 2 h, as in M. Riesz'
formula, keeps sum |d| near its least value h w (Bernstein's inequality). So intervals [x_k] of the
samples give [D x], not wider than about h w times theirs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import circulant

from gough.bounding.solve import BoundedProblem, Solver, enclose
from gough.core.arrays import FloatArray, IntArray
from gough.core.blas import one_blas_thread
from gough.core.errors import InconsistentData, InvalidInput, nearest
from gough.core.intervals import Interval, above_sum, product
from gough.core.options import REQUIRED, Settings, merge_settings, nested, option, with_settings
from gough.core.parameters import BaseParameters
from gough.engine import Model, Robot, as_model, base_parameters
from gough.engine.base import TIE_LEGS
from gough.engine.columns import column_names
from gough.engine.enclosure import closed_box, regressor_box
from gough.fitting.estimate import Enclosure
from gough.identification.experiment import in_efforts
from gough.identification.load_friction import refuse_load_friction
from gough.identification.result import Identification
from gough.logs.readers import Log, as_recordings
from gough.logs.recording import Recording
from gough.processing import Processed, Processing, choose_processing, process, regression
from gough.processing.averaging import averaged_pose

MOST_EQUATIONS = 20000  # equations used: every k-th sample beyond that
# of those with an uncertain regressor: enclosing that of a hexapod takes 10 ms an equation
MOST_UNCERTAIN = 1500
SMEAR = 0.3  # half width of a jump after the low-pass, times its cut-off
_BASIS = 1e-14  # rounding of sines and cosines of up to some hundred harmonics, phases included
# of cutting positions with what the others say about them; more gain less than a per cent
_ROUNDS = 3


def enclosed_regressor(
    model: Model,
    processed: Processed,
    names: tuple[str, ...],
    error: float,
    slow: FloatArray,
    keep: IntArray,
) -> Interval:
    """Enclose the regressor of a periodic log whose positions are off by no more than an error, at
    samples, (s, r, p).

    The log's cut-off is the promised bandwidth of the pose; friction may have any sign where joints
    are `slow`, (n,).
    """
    average, cutoff = processed.average, processed.cutoff
    if average is None or cutoff is None or model.loops.redundant:
        raise InvalidInput(
            f"{processed.source}: a motion can be enclosed from a log of whole periods with a "
            f"cut-off, "
            "of a robot with as many motors as degrees of freedom"
        )
    by, q, _ = averaged_pose(model, average)
    motors = Interval.around(q[:, list(model.loops.partitions["actuated"].independent)], error)
    box = closed_box(model, "actuated", motors, q)[:, list(model.loops.partitions[by].independent)]
    motion = harmonic_motion(box, average.rate, int(cutoff * len(q) / average.rate * (1 + 1e-9)))
    return regressor_box(
        model, names, by, (motion[0][keep], motion[1][keep], motion[2][keep]), q[keep], slow
    )


def harmonic_motion(
    position: Interval, rate: float, harmonics: int
) -> tuple[Interval, Interval, Interval]:
    """Enclose positions, velocities and accelerations of one period of so many harmonics at most,
    (N, m) each.
    """
    count = len(position.lower)
    if not 1 <= harmonics < count / 2:
        raise InvalidInput(
            f"{harmonics} harmonics from {count} samples of a period; expected one to half as many"
        )
    turn, k = 2 * np.pi * rate / count, np.arange(count // 2 + 1)
    fall = np.minimum(k, np.maximum(2 * harmonics - k, 0))  # up to h, then down to zero at 2 h
    angle = turn / rate * np.outer(np.arange(count), np.arange(harmonics + 1))
    waves = np.concatenate([np.cos(angle), np.sin(angle[:, 1:])], axis=1)
    w = turn * np.arange(harmonics + 1)
    rates = np.concatenate([-w * np.sin(angle), w[1:] * np.cos(angle[:, 1:])], axis=1)
    second = -waves * np.concatenate([w, w[1:]]) ** 2
    size = above_sum(np.abs(np.linalg.pinv(waves)) @ position.magnitude, count).sum(
        axis=0
    )  # of all coefficients

    def filtered(spectrum: NDArray[Any], wanted: FloatArray, source: Interval) -> Interval:
        """Return D x with the misfit of D on the harmonics, all of it rounding, added."""
        D = circulant(np.fft.irfft(spectrum, count))
        wrong = (
            np.abs(wanted - D @ waves) + _BASIS * (np.abs(D) @ np.abs(waves) + np.abs(wanted).max())
        ).max(axis=1)
        slack = 1.01 * wrong[:, None] * size
        return product(D, source) + Interval(-slack, slack)

    for _ in range(_ROUNDS):
        position = position & filtered(np.clip(2 - k / harmonics, 0.0, 1.0), waves, position)
    if position.empty.any():
        sample = int(np.argmax(position.empty.any(axis=1)))
        raise InconsistentData(
            f"no motion of {harmonics} harmonics passes within the position error of sample "
            f"{sample}; it has more of "
            "them, or positions are further off: raise the cut-off or the position error",
            samples=((sample, 0),),
        )
    return (
        position,
        filtered(1j * turn * fall, rates, position),
        filtered(-((turn * fall) ** 2), second, position),
    )


@dataclass(frozen=True, kw_only=True)
class BoundsSettings(Settings):
    """What is known beforehand, and how the box is found."""

    error_bound: float = option(
        REQUIRED,
        "Largest error of model and measurement together on any effort.",
        unit="N or N m",
        above=0,
    )
    solver: Solver = option(
        "exact",
        "exact: the smallest box, certified; trimmed: equations that fit worst are left out, a "
        "heuristic; "
        "gauss-seidel: P03, preconditioned.",
    )
    outliers: int = option(
        0,
        "So many equations may break the bound; exact: the box holds whichever they are.",
        least=0,
    )
    prior: tuple[float, float] | Mapping[str, tuple[float, float]] | None = option(
        None,
        "Lower and upper bound of all parameters beforehand; generous ones about the robot file's "
        "values by "
        "default.",
    )
    threshold: float | None = option(
        None,
        "Speed below which friction of the motors may have any sign; 1 % of each joint's top "
        "speed, at least "
        "its dead band, by default.",
        unit="m/s or rad/s",
        least=0,
    )
    position_error: float | None = option(
        None,
        "Largest error of any recorded position, e.g. half a step of the encoder. The motion is "
        "enclosed too, if "
        "the log is periodic and its pose has no harmonics above the cut-off; by default it counts "
        "as exact.",
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
        settings: What is known, and how to solve; single options may be given by name instead.
        result: An identification whose processing and drive gains are used where others are not
            given.
        gains: Drive gains for logs with currents.
    """
    chosen = merge_settings(BoundsSettings, settings, options)
    model, recordings = as_model(model), as_recordings(recordings)
    refuse_load_friction(model, "bounds")
    if not recordings:
        raise InvalidInput("there is no recording to bound parameters with")
    if result is not None:
        model = result.fitted(model)
        chosen = replace(chosen, processing=result.processing_with(chosen.processing))
        gains = gains or result.gains
    base = base_parameters(
        model,
        tie_legs=chosen.tie_legs,
        payloads=tuple(dict.fromkeys(r.payload for r in recordings if r.payload is not None)),
    )
    chosen = replace(chosen, processing=_chosen(model, recordings, base, chosen.processing, gains))
    problem = bounded_problem(model, recordings, base, chosen, gains=gains)
    box = enclose(problem, chosen.solver, chosen.outliers)
    promise = (
        ()
        if chosen.position_error is None
        else (
            f"positions may be off by {chosen.position_error:g} m or rad, and the motion was "
            f"enclosed with them: the box "
            f"holds if the pose has no harmonics above {chosen.processing.cutoff:.4g} Hz",
        )
    )
    return replace(box, settings=chosen.to_dict(), notes=(*promise, *box.notes))


def bounded_problem(
    model: Model,
    recordings: Sequence[Recording],
    base: BaseParameters,
    settings: BoundsSettings | None = None,
    *,
    gains: Mapping[str, float] | None = None,
    **options: Any,
) -> BoundedProblem:
    """State the bounded-error problem of some logs.

    Efforts of a periodic log are averaged over its periods, as the motion is: errors within the
    bound stay within it. Those of other logs count sample by sample. Neither are filtered or
    decimated, which could carry the error of one sample into others. With a `position_error` the
    regressor is an interval: `enclosed_regressor`. Where more motors than degrees of freedom share
    a row, row m can be off by error_bound sum_a |E_am|, E the closure map of the motors.
    """
    chosen = merge_settings(BoundsSettings, settings, options)
    used, error = _chosen(model, recordings, base, chosen.processing, gains), chosen.position_error
    most = MOST_EQUATIONS if error is None else MOST_UNCERTAIN
    parts = []
    for processed in in_efforts(model, [process(model, log, used) for log in recordings], gains)[0]:
        part = regression(model, processed, base, decimate=False)
        sure = np.array(processed.mask) if processed.mask.any() else np.ones_like(processed.mask)
        keep = np.flatnonzero(sure.any(axis=1))
        keep = keep[:: max(1, int(np.ceil(int(sure.sum()) * len(recordings) / most)))]
        slow = np.maximum(
            processed.dead_band, 0.01 * np.abs(processed.motion.qd).max(axis=0)
        )  # [m/s or rad/s]
        if chosen.threshold is not None:
            rubbing = [
                i for i in model.actuated if model.mechanism.has_coulomb(model.mechanism.joints[i])
            ]
            slow[rubbing] = chosen.threshold
        if error is None:
            low, high = (
                x[keep] for x in _interval_regressor(model, processed, base, part.regressor, slow)
            )
        else:
            W = enclosed_regressor(model, processed, column_names(base), error, slow, keep)
            carried = np.any(
                part.regressor != 0, axis=(0, 1)
            )  # columns of payloads that were not carried are zero
            proven = np.asarray(np.all(np.isfinite(W.upper - W.lower), axis=(1, 2)))
            low, high = (
                np.where(proven[:, None, None], x, 0.0) * carried for x in (W.lower, W.upper)
            )
            sure[keep] &= proven[:, None]
        reach = np.ones((len(keep), len(model.rows)))
        if model.loops.redundant:  # every motor off by one, at worst
            maps = model.kinematics.closure_map(processed.motion.q[keep])[:, list(model.actuated)]
            reach = np.abs(maps).sum(axis=1)
        parts.append((low, high, part.effort[keep], chosen.error_bound * reach, sure[keep]))
    lower, upper, effort, bound, counted = (np.concatenate(each) for each in zip(*parts))
    given = default_prior(model, base) if chosen.prior is None else _named(chosen.prior, base)
    prior_lower, prior_upper = np.array([given[n] for n in base.names]).T
    return BoundedProblem(
        regressor_lower=lower,
        regressor_upper=upper,
        effort=effort,
        error_bound=bound,
        prior_lower=prior_lower,
        prior_upper=prior_upper,
        parameters=base.names,
        units=base.units,
        rows=model.rows,
        row_units=model.row_units,
        used=counted,
    )


def _chosen(
    model: Model,
    recordings: Sequence[Recording],
    base: BaseParameters,
    given: Processing,
    gains: Mapping[str, float] | None,
) -> Processing:
    """Return a complete processing; the window about reversals covers what the low-pass smears,
    unless given.
    """
    asked = replace(given, window=given.window or 0.0)
    used = choose_processing(model, recordings, base, asked, gains=gains).processing
    smeared = 0.0 if used.cutoff is None else SMEAR / used.cutoff
    return used if given.window is not None else replace(used, window=smeared)


def _named(
    prior: tuple[float, float] | Mapping[str, tuple[float, float]], base: BaseParameters
) -> dict[str, tuple[float, float]]:
    if not isinstance(prior, Mapping):
        return {name: (float(prior[0]), float(prior[1])) for name in base.names}
    unknown = [name for name in prior if name not in base.names]
    if unknown:
        raise InvalidInput(
            f"prior for '{unknown[0]}', which is no base parameter{nearest(unknown[0], base.names)}"
        )
    return {name: prior.get(name, (-np.inf, np.inf)) for name in base.names}


def default_prior(model: Model, base: BaseParameters) -> dict[str, tuple[float, float]]:
    """Return generous bounds: within ten times the size of the robot file's values of a kind,
    masses and friction >= 0.

    A regrouped parameter may be negative, so it is bounded on both sides. Its size is that of its
    terms, which may
    cancel: the difference of two rotor inertias is not known to be zero because a file gives them
    the same value.
    """
    values = np.abs(base.matrix) @ np.abs(model.values(base.standard))
    kinds: dict[str, float] = {}
    for name, value in zip(base.names, values):
        kinds[name.kind] = max(kinds.get(name.kind, 0.0), abs(float(value)))
    nonnegative = {"m", *(kind for kind, term in model.mechanism.terms.items() if term.nonnegative)}
    sizes = {name: 10.0 * (kinds[name.kind] or 1.0) for name in base.names}
    return {
        name: (0.0 if name.kind in nonnegative and (row >= 0).all() else -sizes[name], sizes[name])
        for name, row in zip(base.names, base.matrix)
    }


def _interval_regressor(
    model: Model,
    processed: Processed,
    base: BaseParameters,
    regressor: FloatArray,
    slow: FloatArray,
) -> tuple[FloatArray, FloatArray]:
    """Return lower and upper regressor: Coulomb columns of slow joints with any sign in [-1, 1]."""
    motion, maps = processed.motion, model.kinematics.closure_map(processed.motion.q)
    lower, upper = regressor.copy(), regressor.copy()
    for k, column in enumerate(column_names(base)):
        term = model.mechanism.terms.get(column.kind)
        if term is None or not term.coulomb:
            continue
        members = model.resolve(column)
        plain = model.regressor(
            motion, members
        )  # sign without dead band: its size is the lever of the friction
        lower[:, :, k] = upper[:, :, k] = 0.0
        for j, member in enumerate(members):
            joint = motion.column(member.owner)
            unsure = (np.abs(motion.qd[:, joint]) < slow[joint])[:, None]
            lever = term.coulomb * np.abs(maps[:, joint, :])
            lower[:, :, k] += np.where(unsure, -lever, plain[:, :, j])
            upper[:, :, k] += np.where(unsure, lever, plain[:, :, j])
    return lower, upper
