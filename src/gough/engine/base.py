"""Base parameters: what motion and effort can determine, as a structural fact of the model."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from gough.core.arrays import FloatArray, check_shape
from gough.core.blas import one_blas_thread
from gough.core.errors import InvalidInput, NotConverged
from gough.core.motion import Motion
from gough.core.names import INERTIAL, Parameter
from gough.core.names import parameters as named
from gough.core.parameters import BaseParameters
from gough.engine.loops import By
from gough.engine.model import Model


def random_motion(model: Model, samples: int, seed: int = 0, reach: float = 0.6) -> Motion:
    """Return assembled random configurations with random velocities and accelerations.

    Args:
        model: The robot.
        samples: How many.
        seed: Of the random numbers.
        reach: Fraction of the coordinate ranges used, about home.

    Raises:
        NotConverged: Too few of the drawn configurations can be assembled.
        InvalidInput: No samples asked for.
    """
    if samples < 1:
        raise InvalidInput(f"expected at least one random configuration, not {samples}", samples=samples)
    rng = np.random.default_rng(seed)
    loops, chain = model.loops, model.kinematics
    by: By = "task" if "task" in loops.partitions else "actuated"
    independent = loops.partitions[by].independent
    centre = model.home[list(independent)]
    low, high = np.empty(len(independent)), np.empty(len(independent))
    for k, i in enumerate(independent):
        joint = model.mechanism.joints[i]
        unit = 1.0 if joint.kind == "revolute" else loops.length
        least, most = joint.limits.position or (centre[k] - 0.3 * unit, centre[k] + 0.3 * unit)
        below, above = (min(max(reach * x, 0.0), 1.0) for x in (centre[k] - least, most - centre[k]))
        if min(below, above) > 0.02 * unit:
            below = above = min(below, above)
        elif max(below, above) < 0.02 * unit:  # too little to tell parameters apart, and these are a structural fact
            below = above = 0.02 * unit
        low[k], high[k] = -below, above
    found: list[FloatArray] = []
    count, shrink = 0, 1.0
    for _ in range(20):
        target = centre + shrink * rng.uniform(low, high, (2 * samples, len(independent)))
        q = np.repeat(model.home[None], len(target), axis=0)
        good = np.ones(len(target), dtype=bool)
        for fraction in np.linspace(0.1, 1.0, 10):
            before = q.copy()
            q[:, list(independent)] = centre + fraction * (target - centre)
            q, error = chain._newton(q, by)
            good &= (error < 1e-10) & (np.abs(q - before).max(axis=1) < 0.8)
            q[~good] = model.home
        margins = chain.margins(q)
        good &= margins.type2 > 1e-3
        found.append(q[good][: samples - count])
        count += len(found[-1])
        if count >= samples:
            break
        shrink *= 0.8
    else:
        raise NotConverged(
            f"only {count} of {samples} random configurations of '{model.mechanism.name}' could be assembled; "
            "narrow the position limits in the robot file", found=count)
    q = np.concatenate(found)
    rows = loops.partitions[by].independent
    velocity, acceleration = rng.standard_normal((2, samples, len(rows)))
    qd, qdd = chain.rates(q, velocity, 3 * acceleration, by)
    return Motion(coordinates=model.mechanism.coordinates, time=np.arange(samples, dtype=float), q=q, qd=qd, qdd=qdd,
                  closure_residual=chain.residual(q))


@one_blas_thread
def base_parameters(model: Model, *, parameters: Sequence[str] | None = None, tie_legs: bool = False,
                    payloads: Sequence[str] = (), seed: int = 0) -> BaseParameters:
    """Find the base parameters of a robot, or of an experiment with and without payloads.

    Plain QR without pivoting on the regressor at random configurations: columns are taken from first to last and the
    first independent ones kept (BG13 (22)-(23)). With payloads the unloaded and loaded regressors are stacked as in
    BG13 (29), so that payload parameters stay apart from the platform's.

    Args:
        model: The robot.
        parameters: Names to consider, in order; all standard ones in base order by default.
        tie_legs: Take the parameters the robot file declares tied as equal across legs.
        payloads: Payloads carried in some recordings of the experiment.
        seed: Of the random configurations.
    """
    names = named(parameters) if parameters is not None else model.parameter_names(tie_legs=tie_legs)
    extra = tuple(name for p in payloads for name in model.mechanism.payload_parameters(p).names)
    samples = max(60, int(np.ceil(3 * (len(names) + len(extra)) / model.degrees_of_freedom)))
    motion = random_motion(model, samples, seed)
    stacked = [model.regressor(motion, names)]
    if payloads:
        width = len(names) + len(extra)
        stacked = [np.concatenate([stacked[0], np.zeros((samples, len(model.rows), len(extra)))], axis=2)]
        for k, payload in enumerate(payloads):
            loaded = random_motion(model, samples, seed + 1 + k)
            block = np.zeros((samples, len(model.rows), width))
            block[:, :, : len(names)] = model.regressor(loaded, names)
            own = model.mechanism.payload_parameters(payload).names
            at = [len(names) + extra.index(name) for name in own]
            block[:, :, at] = model.regressor(loaded, own)
            stacked.append(block)
    names = names + extra
    W = np.concatenate([block.reshape(-1, len(names)) for block in stacked])
    return _regroup(W, named(names, [model.unit(name) for name in names]))


def standard_from_base(model: Model, base: BaseParameters, values: ArrayLike) -> tuple[FloatArray, FloatArray]:
    """Return standard parameters (p,) and a load (10,) with the efforts of base parameter values.

    The regressor of base parameters is the independent columns of the standard one, so base values on these columns
    and zeros elsewhere give the same efforts at every motion, though not a physical robot.

    Args:
        model: The robot.
        base: Its base parameters.
        values: Values of these, (b,).
    """
    values = np.asarray(values, dtype=float)
    check_shape(values, (len(base),), "base parameter values")
    table = dict.fromkeys(model.mechanism.standard.names, 0.0)
    load = dict.fromkeys(INERTIAL, 0.0)
    for column, value in zip(base.independent, values):
        name = base.standard[column]
        if name.payload is not None:
            load[name.kind] += float(value)
        else:
            for member in model.resolve(name):
                table[member] = float(value)
    return np.array(list(table.values())), np.array(list(load.values()))


def _regroup(W: FloatArray, names: tuple[Parameter, ...]) -> BaseParameters:
    """Separate independent from dependent columns, first to last, and express the latter by the former."""
    norms = np.linalg.norm(W, axis=0)
    scale = np.where(norms > 1e-9 * norms.max(), norms, 1.0)
    columns = W / scale
    columns[:, norms <= 1e-9 * norms.max()] = 0.0
    basis = np.zeros((len(W), 0))
    independent: list[int] = []
    for k in range(len(names)):
        rest = columns[:, k]
        for _ in range(2):  # twice is enough
            rest = rest - basis @ (basis.T @ rest)
        size = np.linalg.norm(rest)
        if size > 1e-7:
            basis = np.column_stack([basis, rest / size])
            independent.append(k)
    kept = W[:, independent]
    dependent = [k for k in range(len(names)) if k not in independent]
    matrix = np.zeros((len(independent), len(names)))
    matrix[range(len(independent)), independent] = 1.0
    if dependent:
        Q, R = np.linalg.qr(kept / scale[independent])
        share = np.linalg.solve(R, Q.T @ W[:, dependent]) / scale[independent][:, None]
        relative = np.abs(share) * scale[independent][:, None] / np.maximum(scale[dependent], 1e-300)
        share[relative < 1e-8] = 0.0
        matrix[:, dependent] = share
    values = np.linalg.svd(columns, compute_uv=False)
    regrouped = (np.abs(matrix) > 0).sum(axis=1) > 1
    return BaseParameters(
        names=tuple(names[k].regroup() if more else names[k] for k, more in zip(independent, regrouped)),
        units=tuple(names[k].unit for k in independent), standard=names, matrix=matrix, independent=tuple(independent),
        singular_values=np.asarray(values, dtype=float), tolerance=1e-7)
