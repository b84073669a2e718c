"""Base parameters: the linear combinations of parameters that motion and effort can determine."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import ArrayLike

from gough.core.arrays import BoolArray, FloatArray, IntArray, check_shape
from gough.core.blas import one_blas_thread
from gough.core.documents import plain, restored
from gough.core.errors import InvalidInput, NotConverged
from gough.core.motion import Motion
from gough.core.names import (
    INERTIAL,
    INERTIAL_UNITS,
    Parameter,
    parameters as named,
)
from gough.core.parameters import BaseParameters
from gough.engine.assembly import LOOP_TOLERANCE
from gough.engine.loops import By
from gough.engine.model import Model
from gough.kernels import cache
from gough.kernels.kernel import hash_of_package

# Help text of an option of every function that computes base
# parameters.
TIE_LEGS = "Take parameters that the robot file declares tied as equal across legs."
# Rounding error of a column of unit norm.
COLUMN_ROUNDING = 1e-14
# Rank thresholds tried in turn if draws of no size agree on a gap, as
# for spatial linkages with one degree of freedom, where the effect of
# parameters decreases gradually.
RANK_THRESHOLDS = (1e-11, 1e-10, 1e-9, 1e-8, 1e-7, 1e-6, 1e-5)
# A gap between columns and rounding is at least this ratio.
RANK_GAP_RATIO = 100.0
# Random configurations keep this fraction of the reference
# configuration's singularity margins.
DRAWN_MARGIN_FRACTION = 0.1
# Coordinates are drawn over at least this fraction of their step scale.
MIN_DRAWN_FRACTION = 0.02
# Random configurations are approached in this many steps.
TRAVEL_STEPS = 10
# Exponent of the length in the unit of an inertial parameter.
LENGTH_EXPONENT = {"kg": 0, "kg m": 1, "kg m2": 2}

# Base parameters that were found, by model and by what was asked for: a
# fact of the robot.
_KNOWN_BASES: WeakKeyDictionary[Model, dict[_Query, BaseParameters]] = WeakKeyDictionary()


def random_motion(model: Model, samples: int, seed: int = 0, reach: float = 0.6) -> Motion:
    """Return random configurations, loops closed, with random velocities and accelerations.

    Velocities are about sqrt(g / L) times the range of a coordinate,
    with L the robot's length, and accelerations g / L times the range.
    So gravity, inertial and centrifugal forces have the same order of
    magnitude whatever the size of the robot.

    Args:
        reach: Fraction of the coordinate ranges used, around the
            reference configuration.
    """
    if samples < 1:
        raise InvalidInput(
            f"expected at least one random configuration, not {samples}",
            samples=samples,
        )
    rng = np.random.default_rng(seed)
    by: By = "task" if "task" in model.loops.partitions else "actuated"
    low, high = _ranges(model, by, reach)
    q = _random_configurations(model, by, low, high, samples, rng)
    gravity = np.linalg.norm(model.mechanism.gravity)
    frequency = np.sqrt(gravity / model.loops.length) or 1.0  # [1/s]
    amplitude = (high - low) / 2 / reach
    velocity, acceleration = rng.standard_normal((2, samples, len(low)))
    qd, qdd = model.kinematics.rates(
        q,
        frequency * amplitude * velocity,
        frequency**2 * amplitude * acceleration,
        by,
    )
    extra_inputs = None
    if model.n_extra_inputs:  # random internal states, independent of the motion
        extra_inputs = rng.uniform(-1.0, 1.0, (samples, model.n_extra_inputs))
    return Motion(
        coordinates=model.mechanism.coordinates,
        time=np.arange(samples, dtype=float),
        q=q,
        qd=qd,
        qdd=qdd,
        extra_inputs=extra_inputs,
        closure_residual=model.kinematics.residual(q),
    )


def _random_configurations(
    model: Model,
    by: By,
    low: FloatArray,
    high: FloatArray,
    samples: int,
    rng: np.random.Generator,
) -> FloatArray:
    """Return random configurations away from singularities, (samples, n)."""
    chain = model.kinematics
    reference = chain.margins(model.home[None])
    q = np.empty((0, len(model.home)))
    shrink = 1.0
    for _ in range(20):
        change = shrink * rng.uniform(low, high, (2 * samples, len(low)))
        drawn, good = _travel(model, by, change)
        margins = chain.margins(drawn)
        type1 = margins.type1
        type2 = margins.type2
        good &= np.isnan(type1) | (type1 > DRAWN_MARGIN_FRACTION * reference.type1)
        good &= np.isnan(type2) | (type2 > DRAWN_MARGIN_FRACTION * reference.type2)
        q = np.concatenate([q, drawn[good]])[:samples]
        if len(q) == samples:
            return q
        shrink *= 0.8
    raise NotConverged(
        f"only {len(q)} of {samples} random configurations of '{model.mechanism.name}' could be "
        "assembled; narrow the position limits in the robot file",
        found=len(q),
    )


def _ranges(model: Model, by: By, reach: float) -> tuple[FloatArray, FloatArray]:
    """Return the range of each independent coordinate around the reference configuration.

    The range is a fraction `reach` of what the position limits of all
    coordinates allow, on the joint side of gears too. Without limits it
    is a fraction of the step scale of the loops; where there is no
    loop, of what moves the slowest coordinate by a radian or the
    robot's length.

    Returns:
        Lower (negative) and upper ends, (m,) each.
    """
    units = model.loops.units
    E = model.kinematics.closure_map(model.home[None], by)[0]
    step_scale = model.kinematics.step_scale(by)
    low = np.empty(len(step_scale))
    high = np.empty(len(step_scale))
    for k in range(len(step_scale)):
        speed = np.abs(E[:, k])
        moving = np.flatnonzero(speed / units > 1e-9 * (speed / units).max())
        scale = step_scale[k]
        if not np.isfinite(scale):
            scale = float((units[moving] / speed[moving]).max())
        least, most = _allowed_change(model, E[:, k], moving, scale)
        below = min(max(-reach * least, 0.0), scale)
        above = min(max(reach * most, 0.0), scale)
        if min(below, above) > MIN_DRAWN_FRACTION * scale:
            below = above = min(below, above)
        elif max(below, above) < MIN_DRAWN_FRACTION * scale:
            # The limits allow too little motion to distinguish
            # parameters; base parameters are a property of the
            # structure, not of the limits.
            below = above = MIN_DRAWN_FRACTION * scale
        low[k] = -below
        high[k] = above
    return low, high


def _allowed_change(
    model: Model, speed: FloatArray, moving: IntArray, default: float
) -> tuple[float, float]:
    """Return how far the position limits let an independent coordinate move, to first order.

    Args:
        speed: Velocity of all coordinates per unit of the independent
            one, (n,).
        moving: Indices of the coordinates that move with it.
        default: Allowed change if no limit is given.
    """
    lower_ends: list[float] = []
    upper_ends: list[float] = []
    for j in moving:
        limit = model.mechanism.joints[j].limits.position
        if limit:
            lower, upper = sorted((np.array(limit) - model.home[j]) / speed[j])
            lower_ends.append(lower)
            upper_ends.append(upper)
    if not lower_ends:
        return -default, default
    return max(lower_ends), min(upper_ends)


def _travel(model: Model, by: By, change: FloatArray) -> tuple[FloatArray, BoolArray]:
    """Move the independent coordinates from the reference configuration in small steps.

    Args:
        change: Change of the independent coordinates, (t, m). [m or
            rad]

    Returns:
        Configurations (t, n), the reference where one cannot be
        reached, and which are reached (t,).
    """
    chain = model.kinematics
    independent = model.loops.partitions[by].independent
    q = np.repeat(model.home[None], len(change), axis=0)
    good = np.ones(len(change), dtype=bool)
    step = 1 / TRAVEL_STEPS
    for fraction in np.linspace(step, 1.0, TRAVEL_STEPS):
        before = q.copy()
        q = q + np.einsum("tnm,tm->tn", chain.closure_map(q, by), step * change)
        q[:, independent] = model.home[independent] + fraction * change
        q, error = chain.close_nearby(q, by)
        good &= (error < LOOP_TOLERANCE) & (chain.scaled_change(q - before) < 0.8)
        q[~good] = model.home
    return q, good


@one_blas_thread
def base_parameters(
    model: Model,
    *,
    parameters: Sequence[str] | None = None,
    tie_legs: bool = False,
    payloads: Sequence[str] = (),
    seed: int = 0,
) -> BaseParameters:
    """Find the base parameters of a robot, or of an experiment with and without payloads.

    This is a QR decomposition without pivoting of the regressor at
    random configurations: columns are taken from first to last and the
    first independent ones kept (BG13 (22)-(23)). With payloads the
    unloaded and loaded regressors are stacked as in BG13 (29), so that
    payload parameters are distinguished from those of the platform.
    Rows and columns are equilibrated. Two draws and both together,
    twice as many samples, must give the same columns; the singular
    value gap tells how clear the decision is.

    If the last singular value kept is not clearly above the first one
    dropped, as numbers of few digits make parameters out of
    combinations that differ by rounding only, the widest gap decides,
    and the other count is kept in `finer_count`.

    Right angles of few digits (1.57, 1.5708) are taken as exact:
    otherwise combinations that no data can distinguish become
    parameters. Efforts of base parameters then differ from those of
    standard ones, by as much as the angles were rounded (1e-3 for
    1.57).

    They are found once for a robot and what is asked of it: they are
    kept beside its compiled kernels, for the next start too.

    Args:
        parameters: Names to consider, in order; all standard ones in
            base order by default.
        tie_legs: Take the parameters the robot file declares tied as
            equal across legs.
        payloads: Payloads carried in some recordings of the experiment.
    """
    known = _KNOWN_BASES.setdefault(model, {})
    names = None if parameters is None else tuple(parameters)
    query = _Query(names, tie_legs, tuple(payloads), seed)
    if query not in known:
        known[query] = _stored_base(model, query)
    return known[query]


class _Query(NamedTuple):
    """What base parameters were asked for; see `base_parameters`."""

    parameters: tuple[str, ...] | None
    tie_legs: bool
    payloads: tuple[str, ...]
    seed: int


def _stored_base(model: Model, query: _Query) -> BaseParameters:
    """Return base parameters from the cache on disk; they are found and written if absent.

    Robots with closures that are not Gough's own are not stored, nor
    those with load-dependent friction, whose regressor depends on more
    than the robot.
    """
    if not model.graph_key or model.mechanism.load_dependent:
        return _find_base(model, query)
    source = hash_of_package("gough.kernels")
    text = f"base parameters {model.graph_key} {source} {query}"
    key = hashlib.sha256(text.encode()).hexdigest()
    entry = cache.read(key)
    if entry is None:
        base = _find_base(model, query)
        cache.write(key, json.dumps(plain(base)).encode())
        return base
    stored: BaseParameters = restored(BaseParameters, json.loads(entry))
    units = [model.unit(name) for name in stored.standard]
    return replace(stored, standard=named(stored.standard, units))


def _find_base(model: Model, query: _Query) -> BaseParameters:
    """Find base parameters; see `base_parameters`."""
    if model.mechanism.idealised is not model.mechanism:
        model = model.with_mechanism(model.mechanism.idealised)
    names = model.parameter_names(tie_legs=query.tie_legs)
    if query.parameters is not None:
        names = named(query.parameters)
    draw = _Draw(model, names, query.payloads)
    names = draw.names
    samples = max(60, int(np.ceil(3 * len(names) / model.degrees_of_freedom)))
    counts: list[int] = []
    for attempt in range(3):
        first_seed = query.seed + 2000 * attempt
        first = draw.motions(2**attempt * samples, first_seed)
        second = draw.motions(2**attempt * samples, first_seed + 1000)
        regressors = [draw.regressor(first), draw.regressor(second)]
        rounding = draw.rounding_error(first, regressors[0])
        matrices, scale = _equilibrate(regressors)
        triangles = [np.asarray(np.linalg.qr(matrix, mode="r")) for matrix in matrices]
        triangles.append(np.asarray(np.linalg.qr(np.concatenate(triangles), mode="r")))
        choices = [_independent(triangle, rounding) for triangle in triangles]
        counts += [len(columns) for columns in choices]
        agreed = _agreed(choices)
        if agreed is None and attempt == 2:
            agreed = _agreed_at_threshold(triangles)
        if agreed is not None:
            columns = named(names, [model.unit(name) for name in names])
            base = _regroup(triangles[-1], scale, agreed, columns)
            return _cut_at_clear_gap(base, triangles, scale)
    raise NotConverged(
        f"random motions of '{model.mechanism.name}' distinguish {', '.join(map(str, counts))} "
        "parameters, expected one number; move its start pose away from singularities, or give "
        "limits between which its joints really move",
        found=counts,
    )


class _Draw:
    """Regressors of random motions without and with payloads."""

    def __init__(
        self,
        model: Model,
        names: tuple[Parameter, ...],
        payloads: Sequence[str],
    ) -> None:
        self.model = model
        self.names = names  # with those of the payloads at the end
        common = list(range(len(names)))
        self.columns = [common]  # columns without payload, then with each payload
        for payload in payloads:
            first = len(self.names)
            self.names += model.mechanism.payload_parameters(payload).names
            self.columns.append([*common, *range(first, len(self.names))])

    def motions(self, samples: int, seed: int) -> list[Motion]:
        """Return a random motion for no payload and for each payload."""
        count = len(self.columns)
        return [random_motion(self.model, samples, seed + k) for k in range(count)]

    def regressor(self, motions: Sequence[Motion]) -> FloatArray:
        """Return the stacked regressor, (t, r, p); columns that are only rounding are zero."""
        units = self.model.loops.units[self.model.independent]
        blocks = []
        for columns, motion in zip(self.columns, motions):
            block = np.zeros((len(motion), len(self.model.rows), len(self.names)))
            block[:, :, columns] = self.model.regressor(motion, [self.names[k] for k in columns])
            blocks.append(block * units[:, None])
        regressor = np.concatenate(blocks)
        for column in range(len(self.names)):
            if not self._has_effect(column, regressor, motions[-1]):
                regressor[:, :, column] = 0.0
        return regressor

    def _has_effect(self, column: int, regressor: FloatArray, motion: Motion) -> bool:
        """Return whether a column of the regressor is more than rounding.

        With the rows in units of a radian or the robot's length L, a
        column of m is about g L, of mx about g, of Ixx about g / L; ten
        decimal orders below that it is rounding. A joint term has no
        effect if its joint does not move.
        """
        name = self.names[column]
        mechanism = self.model.mechanism
        if name.kind in INERTIAL:
            length = self.model.loops.length
            gravity = np.linalg.norm(mechanism.gravity) or length
            expected = gravity * length ** (1 - LENGTH_EXPONENT[INERTIAL_UNITS[name.kind]])
            return bool(np.abs(regressor[:, :, column]).max() > 1e-10 * expected)
        speed = np.abs(motion.qd / self.model.loops.units).max(axis=0)
        members = self.model.resolve(name)
        joints = [mechanism.coordinates.index(member.owner) for member in members]
        return bool(speed[joints].max() > 1e-9 * speed.max())

    def rounding_error(self, motions: Sequence[Motion], regressor: FloatArray) -> float:
        """Return the largest rounding error of an equilibrated column, much near singularities."""
        repeated = self.regressor([_perturb_by_rounding(self.model, each) for each in motions])
        (first, second), _ = _equilibrate([regressor, repeated])
        used = first.any(axis=0) & second.any(axis=0)
        error = np.linalg.norm((first - second)[:, used], axis=0)
        return float(error.max(initial=COLUMN_ROUNDING))


def _perturb_by_rounding(model: Model, motion: Motion) -> Motion:
    """Return a motion whose positions were changed by rounding and whose loops closed again."""
    rows = model.independent
    dynamic = model.loops.dynamic
    q, _ = model.kinematics.close_nearby(motion.q * (1 + 4e-16), dynamic)
    qd, qdd = model.kinematics.rates(q, motion.qd[:, rows], motion.qdd[:, rows], dynamic)
    return replace(motion, q=q, qd=qd, qdd=qdd)


def _equilibrate(
    draws: list[FloatArray],
) -> tuple[list[FloatArray], FloatArray]:
    """Scale samples, rows and columns (in this order, three times) to equal norms.

    Returns:
        The draws as matrices (t r, p), and what their columns were
            divided by (p,).
    """
    W = np.concatenate(draws)
    scale = np.ones(W.shape[2])
    for _ in range(3):
        for axes in ((1, 2), (0, 2), (0, 1)):
            norm = np.sqrt((W**2).sum(axis=axes, keepdims=True))
            norm[norm == 0.0] = 1.0
            W = W / norm
        scale *= norm[0, 0]
    cut = len(draws[0])
    matrices = [
        W[:cut].reshape(-1, len(scale)),
        W[cut:].reshape(-1, len(scale)),
    ]
    return matrices, scale


def _agreed(choices: Sequence[list[int]]) -> list[int] | None:
    """Return the independent columns if all draws gave the same ones."""
    same = all(columns == choices[0] for columns in choices)
    return choices[0] if same else None


def _agreed_at_threshold(triangles: Sequence[FloatArray]) -> list[int] | None:
    """Return the independent columns at the first rank threshold at which all draws agree."""
    for threshold in RANK_THRESHOLDS:
        agreed = _agreed([_orthogonalise(triangle, threshold)[1] for triangle in triangles])
        if agreed is not None:
            return agreed
    return None


def _cut_at_clear_gap(
    base: BaseParameters, triangles: Sequence[FloatArray], scale: FloatArray
) -> BaseParameters:
    """Return fewer base parameters if only fewer are clearly separated from rounding.

    Args:
        base: With all columns that differ from those before by more
            than rounding errors.
        triangles: R factors of the equilibrated regressors of the
            draws, (p, p) each.
        scale: What the columns were divided by, (p,).
    """
    count = base.clear_count
    if base.gap >= RANK_GAP_RATIO or count >= len(base):
        return base
    choices = []
    for triangle in triangles:
        norms = np.sort(_orthogonalise(triangle, COLUMN_ROUNDING)[0])[::-1]
        threshold = float(np.sqrt(norms[count - 1] * max(norms[count], COLUMN_ROUNDING / 100)))
        choices.append(_orthogonalise(triangle, threshold)[1])
    columns = _agreed(choices)
    if columns is None or len(columns) != count:
        return base
    clear = _regroup(triangles[-1], scale, columns, base.standard)
    return replace(clear, finer_count=len(base))


def _independent(triangle: FloatArray, rounding: float) -> list[int]:
    """Return the columns that do not depend linearly on those before them.

    The norm of a column orthogonal to those before it is either a
    fraction of the column or rounding. The threshold lies in the lowest
    gap above rounding, or without one in the widest gap.
    """
    floor = COLUMN_ROUNDING / 100
    norms = _orthogonalise(triangle, COLUMN_ROUNDING)[0]
    norms = np.append(floor, np.sort(np.maximum(norms, floor)))
    ratios = norms[1:] / norms[:-1]
    gaps = np.flatnonzero((ratios > RANK_GAP_RATIO) & (norms[1:] > 10 * rounding))
    gap = int(gaps[0]) if gaps.size else int(np.argmax(ratios))
    threshold = float(np.sqrt(norms[gap] * norms[gap + 1]))
    return _orthogonalise(triangle, threshold)[1]


def _orthogonalise(triangle: FloatArray, threshold: float) -> tuple[FloatArray, list[int]]:
    """Project the independent columns before it out of each column.

    Returns:
        The norm of what remains of each column (p,), and the
        independent columns: those whose norm is above the threshold.
    """
    basis = np.zeros((len(triangle), 0))
    norms = np.empty(triangle.shape[1])
    independent: list[int] = []
    for k, column in enumerate(triangle.T):
        remainder = column
        for _ in range(2):  # a second projection removes the rounding of the first
            remainder = remainder - basis @ (basis.T @ remainder)
        norms[k] = np.linalg.norm(remainder)
        if norms[k] > threshold:
            basis = np.column_stack([basis, remainder / norms[k]])
            independent.append(k)
    return norms, independent


def standard_from_base(
    model: Model, base: BaseParameters, values: ArrayLike
) -> tuple[FloatArray, FloatArray]:
    """Return standard parameters (p,) and a load (10 l,) with the efforts of base parameter values.

    The regressor of base parameters consists of independent columns of
    the standard one. So base values in these columns and zeros
    elsewhere give the same efforts for every motion, though they are
    not physically consistent.
    """
    values = np.asarray(values, dtype=float)
    check_shape(values, (len(base),), "base parameter values")
    table = dict.fromkeys(model.mechanism.standard.names, 0.0)
    load = np.zeros(len(model.load_columns))
    for column, number in zip(base.independent, values):
        name = base.standard[column]
        if name.payload is not None:
            load += number * model.unit_load(name)
        else:
            for member in model.resolve(name):
                table[member] = float(number)
    return np.array(list(table.values())), load


def _regroup(
    triangle: FloatArray,
    scale: FloatArray,
    independent: list[int],
    names: tuple[Parameter, ...],
) -> BaseParameters:
    """Express the dependent columns by the independent ones.

    Args:
        triangle: R factor of the equilibrated regressor, (p, p).
        scale: What the columns were divided by, (p,).
        independent: Indices of the independent columns.
        names: Parameters of all columns, (p,).
    """
    dependent = [k for k in range(len(names)) if k not in independent]
    matrix = np.zeros((len(independent), len(names)))
    matrix[range(len(independent)), independent] = 1.0
    if dependent:
        Q, R = np.linalg.qr(triangle[:, independent])
        coefficients = np.linalg.solve(R, Q.T @ triangle[:, dependent])
        coefficients[np.abs(coefficients) < 1e-8] = 0.0
        matrix[:, dependent] = coefficients * scale[dependent] / scale[independent][:, None]
    regrouped = (np.abs(matrix) > 0).sum(axis=1) > 1
    base_names = [names[k] for k in independent]
    for position in np.flatnonzero(regrouped):
        base_names[position] = base_names[position].regroup()
    singular_values = np.linalg.svd(triangle, compute_uv=False)
    return BaseParameters(
        names=tuple(base_names),
        units=tuple(names[k].unit for k in independent),
        standard=names,
        matrix=matrix,
        independent=tuple(independent),
        singular_values=np.asarray(singular_values, dtype=float),
        tolerance=COLUMN_ROUNDING,
    )
