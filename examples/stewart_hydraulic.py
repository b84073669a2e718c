"""The Gough-Stewart platform with a 500 kg load under PID and hydraulics, S20's excitation (23).

    python examples/stewart_hydraulic.py [folder]

Two loops: stiff (60 Hz actuators, parasitic tilt of 3 mrad) and soft (20 Hz, 16 mrad); the load's
inertias show only in that tilt, for the motion asked for has none (S20, section 3). Shown: the mass
matrix (18) and its coupling part (19), tracking, parasitic rotation, and the logs of leg positions,
velocities and forces that identification starts from.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from line_plot import save
from paths import sines
from second_order_drive import SecondOrderDrive

from gough import Model, Simulation, load_robot, record, simulate
from gough.core.arrays import FloatArray
from gough.core.trajectory import Fourier
from gough.virtual import PID

LOAD = "load"
ORDER = ("platform.x", "platform.y", "platform.z", "platform.rx", "platform.ry", "platform.rz")
LOOPS = {
    "stiff": (
        PID(kp=4e5, kd=1.2e4, ki=1e6, velocity_feedforward=True),
        SecondOrderDrive(frequency=60.0, damping=0.7),
    ),
    "soft": (
        PID(kp=1.2e5, kd=7e3, ki=2e5, velocity_feedforward=True),
        SecondOrderDrive(frequency=20.0, damping=0.7),
    ),
}


def excitation(model: Model) -> Fourier:
    """Return (23) of S20: dx = dy = 0.2 sin(pi t) m, rz = 0.2 sin(pi t) deg."""
    names = ("platform.x", "platform.y", "platform.rz")
    return sines(
        coordinates=names,
        units=["m", "m", "rad"],
        center=np.zeros(3),
        frequency=0.5,
        amplitude=[0.2, 0.2, np.deg2rad(0.2)],
        robot=model.mechanism.name,
    )


def task_mass_matrix(model: Model, payload: str | None) -> FloatArray:
    """Return M(q) of (18) at home: the legs' mass matrix seen from the platform, A^T M A, (6,
    6).
    """
    home = model.home[None]
    legs = model.mass_matrix(home, load=model.load(payload))[0]
    task = [model.mechanism.coordinates[i] for i in model.loops.partitions["task"].independent]
    A = model.kinematics.closure_map(home, "task")[0][list(model.independent)]
    columns = [task.index(name) for name in ORDER]
    return A[:, columns].T @ legs @ A[:, columns]


def printed_mass_matrix() -> FloatArray:
    """Return (18) with its misprints corrected, for S20's Table 1: load of 500 kg with its centre
    at (0, 0, 0.3).
    """
    m_p, m_l, z = 100.0, 500.0, 0.3
    M = np.diag([m_p + m_l] * 3 + [25 + 25 + m_l * z**2, 25 + 25 + m_l * z**2, 44 + 25.0])
    M[0, 4] = M[4, 0] = m_l * z
    M[1, 3] = M[3, 1] = -m_l * z
    return M


def parasitic(run: Simulation) -> FloatArray:
    """Return the rotations about x and y, which nobody asked for, (t, 2). [rad]"""
    names = run.model.mechanism.coordinates
    return run.q[0][:, [names.index("platform.rx"), names.index("platform.ry")]]


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    model = Model(load_robot("stewart"))
    M = task_mass_matrix(model, LOAD)
    coupling = M - np.diag(np.diag(M))
    print("mass matrix (18) at home [kg, kg m, kg m2], rows and columns x y z rx ry rz")
    print("\n".join("".join(f"{v + 0.0:9.1f}" for v in row) for row in np.round(M, 6)))
    print(
        f"largest difference to the printed formula: {np.abs(M - printed_mass_matrix()).max():.1e}"
    )
    L, J, K = coupling[:3, 3:], coupling[3:, :3], coupling[3:, 3:]
    print(
        f"coupling part (19): |L| = {np.linalg.norm(L):.1f} kg m, |J| = {np.linalg.norm(J):.1f} kg "
        f"m, "
        f"|K| = {np.linalg.norm(K):.1f} kg m2\n"
    )
    tilt, force = {}, {}
    print(f"{'loop':8s}{'leg error rms [mm]':>20s}{'tilt max [mrad]':>18s}{'leg force [N]':>22s}")
    for name, (law, drive) in LOOPS.items():
        run = simulate(
            model, excitation(model), controller=law, actuator=drive, payload=LOAD, periods=4
        )
        angles = parasitic(run)
        low, high = run.effort.min(), run.effort.max()
        print(
            f"{name:8s}{run.tracking_rms.max() * 1e3:20.2f}{np.abs(angles).max() * 1e3:18.2f}"
            f"{f'{low:.0f} to {high:.0f}':>22s}"
        )
        log = record(run, seed=1, velocity_noise=1e-4).save(folder / f"stewart_{name}.csv")
        print(f"        log: {log}")
        tilt[f"{name} rx"], tilt[f"{name} ry"] = (
            (run.time, angles[:, 0] * 1e3),
            (run.time, angles[:, 1] * 1e3),
        )
        force |= (
            {f"leg {k + 1}": (run.time, run.effort[0][:, k]) for k in range(6)}
            if name == "stiff"
            else {}
        )
    panels = [
        ("parasitic rotation", "time [s]", "angle [mrad]", tilt),
        ("leg forces, stiff loop", "time [s]", "force [N]", force),
    ]
    print(f"plot: {save(folder / 'stewart_hydraulic.svg', panels)}")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "."))
