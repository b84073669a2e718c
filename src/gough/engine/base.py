"""Base parameters: what motion and effort can determine, as a structural fact of the model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gough.core.arrays import FloatArray, check_shape
from gough.core.blas import one_blas_thread
from gough.core.errors import InvalidInput, NotConverged
from gough.core.motion import Motion
from gough.core.names import INERTIAL, INERTIAL_UNITS, Parameter, parameters as named
from gough.core.parameters import BaseParameters
from gough.engine.loops import CLOSED, By
from gough.engine.model import Model

# an option of every verb that seeks base parameters
TIE_LEGS = "Take what the robot file ties as equal across legs."
ROUNDING = 1e-14  # of columns of length one
# Tried in turn where draws of no size see a common gap: in spatial linkages of one freedom
# parameters fade away.
CUTS = (1e-11, 1e-10, 1e-9, 1e-8, 1e-7, 1e-6, 1e-5)
MARGIN = 0.1  # of home's distance to singularities of both types: nearer ones are not drawn
POWER = {"kg": 0, "kg m": 1, "kg m2": 2}  # of a length in an inertial parameter


def random_motion(model: Model, samples: int, seed: int = 0, reach: float = 0.6) -> Motion:
    """Return assembled random configurations with random velocities and accelerations.

    Velocities are about sqrt(g / L) of the way a coordinate has, L the robot's length, and
    accelerations the square of it, so that gravity, inertial and centrifugal forces are of one size
    whatever the size of the robot.

    Args:
        reach: Fraction of the coordinate ranges used, about home.
    """
    if samples < 1:
        raise InvalidInput(
            f"expected at least one random configuration, not {samples}", samples=samples
        )
    rng = np.random.default_rng(seed)
    loops, chain = model.loops, model.kinematics
    by: By = "task" if "task" in loops.partitions else "actuated"
    low, high = _ranges(model, by, reach)
    margins = chain.margins(model.home[None])
    q, shrink = np.empty((0, len(model.home))), 1.0
    for _ in range(20):
        drawn, good = _travel(model, by, shrink * rng.uniform(low, high, (2 * samples, len(low))))
        here = chain.margins(drawn)
        for now, home in ((here.type1, margins.type1), (here.type2, margins.type2)):
            good &= np.isnan(now) | (now > MARGIN * home)
        q = np.concatenate([q, drawn[good]])[:samples]
        if len(q) == samples:
            break
        shrink *= 0.8
    else:
        raise NotConverged(
            f"only {len(q)} of {samples} random configurations of '{model.mechanism.name}' could "
            f"be assembled; "
            "narrow the position limits in the robot file",
            found=len(q),
        )
    pace = np.sqrt(np.linalg.norm(model.mechanism.gravity) / loops.length) or 1.0  # [1/s]
    size = (high - low) / 2 / reach
    velocity, acceleration = rng.standard_normal((2, samples, len(low)))
    qd, qdd = chain.rates(q, pace * size * velocity, pace**2 * size * acceleration, by)
    known = model.n_extra_inputs
    extra = rng.uniform(-1.0, 1.0, (samples, known)) if known else None  # of no motion's past
    return Motion(
        coordinates=model.mechanism.coordinates,
        time=np.arange(samples, dtype=float),
        q=q,
        qd=qd,
        qdd=qdd,
        extra_inputs=extra,
        closure_residual=chain.residual(q),
    )


def _ranges(model: Model, by: By, reach: float) -> tuple[FloatArray, FloatArray]:
    """Return how far below and above home the independent coordinates are drawn, (m,) each.

    A fraction `reach` of what the position limits of all coordinates allow, on the joint side of
    gears too. Without limits of what bends the loops by a radian or the robot's length, and where
    there is no loop of what moves the slowest coordinate by that.
    """
    loops, home, joints = model.loops, model.home, model.mechanism.joints
    E = model.kinematics.closure_map(home[None], by)[0]
    strides = model.kinematics.step_scale(by)
    low, high = np.empty(len(strides)), np.empty(len(strides))
    for k in range(len(strides)):
        moving = np.flatnonzero(
            np.abs(E[:, k]) / loops.units > 1e-9 * np.abs(E[:, k] / loops.units).max()
        )
        slowest = float((loops.units[moving] / np.abs(E[moving, k])).max())
        usual = strides[k] if np.isfinite(strides[k]) else slowest
        ends = [
            sorted((np.array(joints[j].limits.position) - home[j]) / E[j, k])
            for j in moving
            if joints[j].limits.position
        ] or [[-usual, usual]]
        least, most = max(end[0] for end in ends), min(end[1] for end in ends)
        below, above = (min(max(reach * x, 0.0), usual) for x in (-least, most))
        if min(below, above) > 0.02 * usual:
            below = above = min(below, above)
        elif (
            max(below, above) < 0.02 * usual
        ):  # too little to tell parameters apart, and these are a structural fact
            below = above = 0.02 * usual
        low[k], high[k] = -below, above
    return low, high


def _travel(model: Model, by: By, way: FloatArray) -> tuple[FloatArray, NDArray[np.bool_]]:
    """Move from home by some way of the independent coordinates, (t, m), in ten steps.

    Returns the configurations (t, n), home where one cannot be reached, and which are good (t,).
    """
    chain, independent = model.kinematics, list(model.loops.partitions[by].independent)
    q = np.repeat(model.home[None], len(way), axis=0)
    good = np.ones(len(way), dtype=bool)
    for fraction in np.linspace(0.1, 1.0, 10):
        before = q.copy()
        q = q + np.einsum("tnm,tm->tn", chain.closure_map(q, by), 0.1 * way)
        q[:, independent] = model.home[independent] + fraction * way
        q, error = chain.close_nearby(q, by)
        good &= (error < CLOSED) & (chain.scaled_change(q - before) < 0.8)
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

    Plain QR without pivoting on the regressor at random configurations: columns are taken from
    first to last and the first independent ones kept (BG13 (22)-(23)). With payloads the unloaded
    and loaded regressors are stacked as in BG13 (29), so that payload parameters stay apart from
    the platform's. Rows and columns are scaled to one size; two draws and both together, twice as
    many samples, must tell the same columns apart. The gap of the result says how sure it is. Right
    angles of few digits (1.5708) are taken as right: at their word they make parameters of what no
    data can tell apart; efforts of base parameters then differ from those of standard ones, by 1e-5
    at most.

    Args:
        parameters: Names to consider, in order; all standard ones in base order by default.
        tie_legs: Take the parameters the robot file declares tied as equal across legs.
        payloads: Payloads carried in some recordings of the experiment.
    """
    if model.mechanism.idealised is not model.mechanism:
        model = model.with_mechanism(model.mechanism.idealised)
    names = (
        named(parameters) if parameters is not None else model.parameter_names(tie_legs=tie_legs)
    )
    extra = tuple(name for p in payloads for name in model.mechanism.payload_parameters(p).names)
    samples = max(60, int(np.ceil(3 * (len(names) + len(extra)) / model.degrees_of_freedom)))
    counts: list[int] = []
    for attempt in range(3):
        motions = [
            [
                random_motion(model, 2**attempt * samples, seed + 1000 * (2 * attempt + k) + i)
                for i in range(1 + len(payloads))
            ]
            for k in range(2)
        ]
        draws = [_sampled(model, names, extra, payloads, each) for each in motions]
        again = _sampled(
            model, names, extra, payloads, [_closed_again(model, motion) for motion in motions[0]]
        )
        first, second = _equilibrated([draws[0], again])[0]
        alive = first.any(axis=0) & second.any(axis=0)
        rounding = float(np.linalg.norm((first - second)[:, alive], axis=0).max(initial=ROUNDING))
        parts, scale = _equilibrated(draws)
        triangles = [np.asarray(np.linalg.qr(part, mode="r")) for part in parts]
        triangles.append(np.asarray(np.linalg.qr(np.concatenate(triangles), mode="r")))
        for cut in (None, *CUTS) if attempt == 2 else (None,):
            found = [_independent(triangle, rounding, cut) for triangle in triangles]
            if all(columns == found[0] for columns in found):
                everything = named(names + extra, [model.unit(name) for name in names + extra])
                return _regrouped(triangles[-1], scale, found[0], everything)
            counts += [len(columns) for columns in found] if cut is None else []
    raise NotConverged(
        f"random motions of '{model.mechanism.name}' tell {', '.join(map(str, counts))} parameters "
        f"apart, expected one "
        "number; move its start pose away from singularities, or give limits between which its "
        "joints really move",
        found=counts,
    )


def _sampled(
    model: Model,
    names: tuple[Parameter, ...],
    extra: tuple[Parameter, ...],
    payloads: Sequence[str],
    motions: Sequence[Motion],
) -> FloatArray:
    """Return the regressor of unloaded and loaded random motions, (t, r, p); columns that are only
    rounding are zero.

    In units of a radian or the robot's length L for the rows, a column of m is about g L, of mx
    about g, of Ixx about g / L: ten decimal orders below that it is rounding. A joint term is
    nothing where its joint does not move.
    """
    blocks = []
    for payload, motion in zip((None, *payloads), motions):
        own = () if payload is None else model.mechanism.payload_parameters(payload).names
        block = np.zeros((len(motion), len(model.rows), len(names) + len(extra)))
        columns = [*range(len(names)), *(len(names) + extra.index(name) for name in own)]
        block[:, :, columns] = model.regressor(motion, (*names, *own))
        blocks.append(block * model.loops.units[list(model.independent)][:, None])
    W = np.concatenate(blocks)
    speed = np.abs(motion.qd / model.loops.units).max(axis=0)
    length, force = (
        model.loops.length,
        np.linalg.norm(model.mechanism.gravity) or model.loops.length,
    )
    for column, name in enumerate((*names, *extra)):
        if name.kind in INERTIAL:
            usual = force * length ** (1 - POWER[INERTIAL_UNITS[name.kind]])
            alive = np.abs(W[:, :, column]).max() > 1e-10 * usual
        else:
            joints = [
                model.mechanism.coordinates.index(member.owner) for member in model.resolve(name)
            ]
            alive = speed[joints].max() > 1e-9 * speed.max()
        if not alive:
            W[:, :, column] = 0.0
    return W


def _closed_again(model: Model, motion: Motion) -> Motion:
    """Return a motion that differs by what rounding makes of it, much near singularities."""
    rows, dynamic = model.independent, model.loops.dynamic
    q, _ = model.kinematics.close_nearby(motion.q * (1 + 4e-16), dynamic)
    qd, qdd = model.kinematics.rates(q, motion.qd[:, rows], motion.qdd[:, rows], dynamic)
    return replace(motion, q=q, qd=qd, qdd=qdd)


def _equilibrated(draws: list[FloatArray]) -> tuple[list[FloatArray], FloatArray]:
    """Scale samples, rows and columns (in this order, three times) to one size.

    Returns the draws as matrices (t r, p), and what their columns were divided by (p,).
    """
    W = np.concatenate(draws)
    scale = np.ones(W.shape[2])
    for _ in range(3):
        for axes in ((1, 2), (0, 2), (0, 1)):
            size = np.sqrt((W**2).sum(axis=axes, keepdims=True))
            size[size == 0.0] = 1.0
            W = W / size
        scale *= size[0, 0]
    cut = len(draws[0])
    return [part.reshape(-1, len(scale)) for part in (W[:cut], W[cut:])], scale


def _independent(
    triangle: FloatArray, rounding: float = ROUNDING, cut: float | None = None
) -> list[int]:
    """Return the columns that do not depend on those before them.

    What is left of a column once those before it are projected out is a part of it, or rounding. If
    no cut is given, it lies in the lowest gap by a factor of a hundred above rounding, or without
    one in the widest gap.
    """
    if cut is not None:
        return _remainders(triangle, cut)[1]
    left = np.append(
        ROUNDING / 100, np.sort(np.maximum(_remainders(triangle, ROUNDING)[0], ROUNDING / 100))
    )
    steps = left[1:] / left[:-1]
    wide = np.flatnonzero((steps > 100.0) & (left[1:] > 10 * rounding))
    at = int(wide[0]) if wide.size else int(np.argmax(steps))
    return _remainders(triangle, float(np.sqrt(left[at] * left[at + 1])))[1]


def _remainders(triangle: FloatArray, cut: float) -> tuple[FloatArray, list[int]]:
    """Return what is left of each column once the independent ones before it are projected out, and
    these.
    """
    basis = np.zeros((len(triangle), 0))
    sizes, found = np.empty(triangle.shape[1]), []
    for k, column in enumerate(triangle.T):
        rest = column
        for _ in range(2):  # twice is enough
            rest = rest - basis @ (basis.T @ rest)
        sizes[k] = np.linalg.norm(rest)
        if sizes[k] > cut:
            basis = np.column_stack([basis, rest / sizes[k]])
            found.append(k)
    return sizes, found


def standard_from_base(
    model: Model, base: BaseParameters, values: ArrayLike
) -> tuple[FloatArray, FloatArray]:
    """Return standard parameters (p,) and a load (10 l,) with the efforts of base parameter values.

    The regressor of base parameters is the independent columns of the standard one, so base values
    on these columns and zeros elsewhere give the same efforts at every motion, though not a
    physical robot.
    """
    values = np.asarray(values, dtype=float)
    check_shape(values, (len(base),), "base parameter values")
    table = dict.fromkeys(model.mechanism.standard.names, 0.0)
    load = np.zeros(len(model.load_columns))
    for column, value in zip(base.independent, values):
        name = base.standard[column]
        if name.payload is not None:
            load += value * model.unit_load(name)
        else:
            for member in model.resolve(name):
                table[member] = float(value)
    return np.array(list(table.values())), load


def _regrouped(
    triangle: FloatArray, scale: FloatArray, independent: list[int], names: tuple[Parameter, ...]
) -> BaseParameters:
    """Express the dependent columns by the independent ones; columns are in units of `scale`."""
    dependent = [k for k in range(len(names)) if k not in independent]
    matrix = np.zeros((len(independent), len(names)))
    matrix[range(len(independent)), independent] = 1.0
    if dependent:
        Q, R = np.linalg.qr(triangle[:, independent])
        share = np.linalg.solve(R, Q.T @ triangle[:, dependent])
        share[np.abs(share) < 1e-8] = 0.0
        matrix[:, dependent] = share * scale[dependent] / scale[independent][:, None]
    values = np.linalg.svd(triangle, compute_uv=False)
    regrouped = (np.abs(matrix) > 0).sum(axis=1) > 1
    return BaseParameters(
        names=tuple(
            names[k].regroup() if more else names[k] for k, more in zip(independent, regrouped)
        ),
        units=tuple(names[k].unit for k in independent),
        standard=names,
        matrix=matrix,
        independent=tuple(independent),
        singular_values=np.asarray(values, dtype=float),
        tolerance=ROUNDING,
    )
