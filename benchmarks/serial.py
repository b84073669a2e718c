"""A serial arm, the ground of serial tools: base parameters and weighted least squares beside
FIGAROH.

Both get the same positions, velocities, accelerations and noisy torques of the bundled six-axis
arm; FIGAROH reads it from the URDF that Gough exports. Both fit ten inertial parameters a body,
rotor inertia, friction and offset of six joints; FIGAROH runs with all BLAS threads and with one,
and the better time counts. It is optional: pip install figaroh
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np

from gough.core.blas import one_blas_thread
from gough.core.motion import Motion
from gough.core.parameters import INERTIAL
from gough.engine import Model, base_parameters
from gough.export.urdf_writer import to_urdf
from gough.fitting.least_squares import WeightedLeastSquares
from gough.mechanism import load_robot

SAMPLES = 20_000
NOISE = np.array([2.0, 2.0, 1.0, 0.3, 0.3, 0.1])  # N m


def excitation(model: Model, seed: int, samples: int) -> Motion:
    """Return 20 s of five random harmonics per joint."""
    rng = np.random.default_rng(seed)
    t = np.arange(samples) * 20.0 / samples
    w = 2 * np.pi * 0.1 * np.arange(1, 6)
    a, b = rng.standard_normal((2, 5, 6)) * 0.4
    s, c = np.sin(np.outer(t, w)), np.cos(np.outer(t, w))
    return model.kinematics.motion(
        t,
        model.home + s @ a + c @ b,
        (c * w) @ a - (s * w) @ b,
        -(s * w**2) @ a - (c * w**2) @ b,
        "actuated",
    )


def peer(urdf: Path, motion: Motion, effort: np.ndarray) -> tuple[float, int, np.ndarray]:
    """Return seconds, number of base parameters and predicted torques of FIGAROH, (t, 6)."""
    from figaroh.identification.base_identification import BaseIdentification
    from figaroh.tools.load_robot import load_robot as load
    from figaroh.tools.qrdecomposition import QRDecomposer
    from figaroh.tools.regressor import (
        build_regressor_basic,
        build_regressor_reduced,
        get_index_eliminate,
    )

    robot = load(str(urdf))
    options = {
        "has_friction": True,
        "has_actuator_inertia": True,
        "has_joint_offset": True,
        "is_joint_torques": True,
        "act_idxv": list(range(6)),
    }
    stacked = effort.T.ravel()
    started = time.perf_counter()
    W = build_regressor_basic(robot, motion.q, motion.qd, motion.qdd, options)
    names = {f"p{k}": 1.0 for k in range(W.shape[1])}
    gone, kept = get_index_eliminate(W, names)
    base, _, _, values = QRDecomposer().double_decomposition(
        stacked, build_regressor_reduced(W, gone), kept
    )
    fit = SimpleNamespace(
        phi_base=values,
        _compute_wls_standard_deviations=lambda c, p: 100 * np.sqrt(np.diag(c)) / np.abs(p),
    )
    _, sigma = BaseIdentification._calculate_joint_variances(fit, base, stacked, 6)
    values, _ = BaseIdentification._solve_weighted_least_squares(fit, base, stacked, sigma)
    return time.perf_counter() - started, len(values), (base @ values).reshape(6, -1).T


def main(samples: int = SAMPLES) -> list[tuple[str, str, str, str]]:
    """Return rows: what, Gough, peer, remark."""
    model = Model(load_robot("serial6"))
    motion = excitation(model, 0, samples)
    clean = model.inverse_dynamics(motion)
    effort = clean + NOISE * np.random.default_rng(1).standard_normal(clean.shape)
    base_parameters(model)  # kernels come from the cache, as for every robot used before
    started = time.perf_counter()
    base = base_parameters(model)
    problem = model.regression(motion, effort, base).statistics()
    ours = WeightedLeastSquares(uncertainty="white").fit(problem)
    seconds = time.perf_counter() - started
    predicted = model.regressor(motion, base) @ ours.values

    def error(prediction: np.ndarray) -> float:
        return float(np.sqrt(np.mean(((prediction - clean) / NOISE) ** 2)))

    what = f"six-axis arm, {samples:,} samples to base parameters and weighted least squares"
    mine = f"{seconds:.2f} s, {len(base)} base parameters"
    try:
        import figaroh  # noqa: F401
    except ImportError:
        return [
            (
                what,
                mine,
                "-",
                f"error {error(predicted):.4f} of the noise; pip install figaroh for the peer",
            )
        ]
    bodies = {
        body.name: [model.values([f"{body.name}.{p}"])[0] for p in INERTIAL]
        for body in model.mechanism.bodies
    }
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "serial6.urdf"
        path.write_text(to_urdf(model, bodies)[0])
        runs = [peer(path, motion, effort), one_blas_thread(peer)(path, motion, effort)]
    peer_seconds, count, prediction = min(runs, key=lambda run: run[0])
    return [
        (
            what,
            mine,
            f"{peer_seconds:.2f} s, {count} base parameters (FIGAROH)",
            f"{peer_seconds / seconds:.0f} times; error of the predicted torques "
            f"{error(predicted):.5f} and "
            f"{error(prediction):.5f} of the noise",
        )
    ]


if __name__ == "__main__":
    for row in main(500 if "--small" in sys.argv else SAMPLES):
        print(" | ".join(row))
