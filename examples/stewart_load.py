"""The load of a Gough-Stewart platform found by a Kalman filter, as in S20 (Table 3, Fig.

5), and on any motion.

    python examples/stewart_load.py [--seeds 20] [--periods 3] [--plot stewart_load.svg] [--json]

The virtual robot with its load of 500 kg runs under PID and hydraulics on the MuJoCo plant: a free
body under leg forces, which shares no equations with the filters. Leg positions, velocities and
forces are recorded with noise, turned into the platform's pose, twist and wrench, and filtered:

1. S20's filter of seven states on S20's excitation (23), both loops of `stewart_hydraulic.py`, 20
seeds. The load's
   inertias show only in the tilt nobody asked for, so what can be found depends on the loop. The
   filter says how sure it is, and what it cannot know.
2. The same with the moment about z that a tilted load adds and (22) drops.
3. All ten parameters on a designed excitation (`gough payload`), and what S20's excitation would
show of them.
4. How fast the filters are.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from line_plot import save
from platform_signals import platform_signals
from stewart_filter import LoadResult, StewartLoad, StewartLoadFilter
from stewart_hydraulic import LOAD, LOOPS, excitation, parasitic

from gough import (
    Model,
    PayloadResult,
    Simulation,
    base_parameters,
    design,
    load_robot,
    payload,
    record,
    simulate,
)
from gough.core.arrays import FloatArray
from gough.core.names import INERTIAL
from gough.core.trajectory import Trajectory
from gough.excitation.design import Run
from gough.fitting.load_fit import observe_load

TRUTH = np.array(
    [0.3, 25.0, 25.0, 25.0]
)  # z [m], Ixx, Iyy, Izz about the load's centre of mass [kg m2]
TABLE_3 = np.array([0.73, 3.76, 1.00, 12.80])  # errors of S20's one run [%]
NAMES = ("z", "Ixx", "Iyy", "Izz")
VELOCITY_NOISE = 5e-4  # of a leg: 1 mrad/s of the platform, the filter's R [m/s]


def run(
    model: Model, trajectory: Trajectory, loop: str, periods: int, plant: str = "mujoco"
) -> Simulation:
    """Return the loaded robot's run along a trajectory in one of the two loops."""
    law, drive = LOOPS[loop]
    return simulate(
        model,
        trajectory,
        controller=law,
        actuator=drive,
        payload=LOAD,
        periods=periods,
        plant=plant,
    )


def known(model: Model, *, yaw_coupling: bool = False) -> StewartLoad:
    """Return what S20's filter knows: masses and the platform's inertia."""
    values = dict(zip(model.mechanism.standard.names, model.standard_values().tolist()))
    mass = float(model.load(LOAD)[INERTIAL.index("m")])
    return StewartLoad(
        load_mass=mass,
        platform_mass=values["platform.m"],
        yaw_coupling=yaw_coupling,
        platform_inertia=np.array([values[f"platform.{i}"] for i in ("Ixx", "Iyy", "Izz")]),
    )


def inputs(simulation: Simulation, seed: int) -> tuple[FloatArray, FloatArray]:
    """Return the filter's controls (t, 7) and the angular velocities (t, 3) of one noisy
    recording.
    """
    log = record(simulation, seed=seed, velocity_noise=VELOCITY_NOISE)
    platform = platform_signals(simulation.model, log)
    force, moment = platform.wrench[:, :2], platform.wrench[:, 3:]
    return np.concatenate([force, moment, platform.pose[:, 3:5]], axis=1), platform.twist[:, 3:]


@dataclass(frozen=True, kw_only=True, eq=False)
class Seeds:
    """S20's filter over recordings that differ in noise.

    Args:
        values: z, Ixx, Iyy, Izz, (seeds, 4).
        std: Standard deviations reported, (seeds, 4).
        unobserved: Which were called not observable, (seeds, 4).
        first: The first run, for its convergence.
        tilt: Largest parasitic rotation. [rad]
    """

    values: FloatArray
    std: FloatArray
    unobserved: FloatArray
    first: LoadResult
    tilt: float

    @property
    def rms_error(self) -> FloatArray:
        """Relative to the truth, (4,). [1]"""
        return np.sqrt(((self.values / TRUTH - 1) ** 2).mean(axis=0))

    @property
    def within(self) -> FloatArray:
        """Share of errors within two standard deviations reported, (4,)."""
        return (np.abs(self.values - TRUTH) <= 2 * self.std).mean(axis=0)


def papers_filter(
    simulation: Simulation, seeds: Sequence[int], *, yaw_coupling: bool = False
) -> Seeds:
    """Run S20's filter on recordings of one simulation."""
    robot, settings = known(simulation.model, yaw_coupling=yaw_coupling), StewartLoadFilter()
    dt = float(simulation.time[1] - simulation.time[0])
    runs = [settings.run(robot, *inputs(simulation, seed), dt) for seed in seeds]
    return Seeds(
        values=np.array([r.estimate.values for r in runs]),
        std=np.array([r.estimate.std for r in runs]),
        unobserved=np.array(
            [[f"payload.{n}" in r.unobserved for n in NAMES] for r in runs], dtype=float
        ),
        first=runs[0],
        tilt=float(np.abs(parasitic(simulation)).max()),
    )


def designed(model: Model, seed: int = 0) -> Trajectory:
    """Return the motion within all limits that informs most about a load's ten parameters."""
    base = base_parameters(model, payloads=(LOAD,))
    ten = base.select([name for name in base.names if name.payload is not None])
    return design(
        model, runs=[Run(payload=LOAD)], base=ten, frequency=0.2, starts=2, seed=seed
    ).trajectory


def full_filter(simulation: Simulation, seed: int = 1) -> PayloadResult:
    """Find all ten parameters from one noisy recording; a load within a metre is expected."""
    return payload(simulation.model, [record(simulation, seed=seed)], reach=1.0)


def tolerances(model: Model) -> tuple[FloatArray, FloatArray]:
    """Return the true ten parameters and 1 % of 500 kg, of 500 kg times 0.3 m, and of 25 kg m2."""
    true = model.load(LOAD)
    return true, 0.01 * np.array([500.0, *[150.0] * 3, *[25.0] * 6])


def rates(simulation: Simulation, found: PayloadResult, samples: int = 2000) -> dict[str, float]:
    """Return samples per second of each filter on one core, sample by sample as in a controller.

    [Hz]
    """
    controls, spin = (x[:samples] for x in inputs(simulation, 1))
    robot, settings = known(simulation.model), StewartLoadFilter()
    kalman, belief = settings.kalman, settings.belief()
    start = time.perf_counter()
    for u, w in zip(controls, spin):
        belief, _ = kalman.update(robot, kalman.predict(robot, belief, u, 1e-3), u, w)
    seven = samples / (time.perf_counter() - start)
    model, motion = simulation.model, simulation.motion()
    names, gram, prior = tuple(found.estimate.parameters), np.zeros((11, 11)), np.full(10, 2000.0)
    effort = simulation.effort[0] - model.inverse_dynamics(motion)
    start = time.perf_counter()
    for k in range(samples):
        rows = (
            np.column_stack([model.regressor(motion.take(slice(k, k + 1)), names)[0], effort[k]])
            / 5.0
        )
        gram = gram + rows.T @ rows
        observe_load(gram, np.zeros((11, 11)), prior)
    return {
        "seven states": seven,
        "ten parameters, regressor included": samples / (time.perf_counter() - start),
    }


def filter_table(found: dict[str, Seeds]) -> list[str]:
    """Return rms errors beside Table 3."""
    head = "".join(
        f" | {f'{name}, tilt {seeds.tilt * 1e3:.1f} mrad':^46s}" for name, seeds in found.items()
    )
    lines = [
        f"{'':16s}{head}",
        f"{'':5s}{'S20 error':>11s}"
        + " | ".join(
            [
                "",
                *[f"{'rms error':>10s}{'sigma':>9s}{'in 2 sigma':>12s}{'not observed':>15s}"]
                * len(found),
            ]
        ),
    ]
    for i, name in enumerate(NAMES):
        cells = "".join(
            f" | {100 * s.rms_error[i]:8.2f} %{100 * s.std[:, i].mean() / TRUTH[i]:7.2f} %"
            f"{100 * s.within[i]:10.0f} %{100 * s.unobserved[:, i].mean():13.0f} %"
            for s in found.values()
        )
        lines.append(f"{name:5s}{TABLE_3[i]:9.2f} %{cells}")
    return lines


def as_numbers(found: dict[str, Seeds]) -> dict[str, Any]:
    """Return the table for machines."""
    return {
        loop: {
            name: {
                "rms_error": float(s.rms_error[i]),
                "std": float(s.std[:, i].mean()),
                "within_two_sigma": float(s.within[i]),
                "unobserved": float(s.unobserved[:, i].mean()),
            }
            for i, name in enumerate(NAMES)
        }
        | {"tilt": s.tilt}
        for loop, s in found.items()
    }


def report(seeds: int, periods: int, plot: str | None) -> tuple[str, dict[str, Any]]:
    """Run everything; return the tables as text and as numbers."""
    model = Model(load_robot("stewart"))
    runs = {loop: run(model, excitation(model), loop, periods) for loop in LOOPS}
    printed = {loop: papers_filter(s, range(seeds)) for loop, s in runs.items()}
    coupled = {loop: papers_filter(s, range(seeds), yaw_coupling=True) for loop, s in runs.items()}
    lines = [
        f"S20's filter, {seeds} recordings of {runs['stiff'].seconds:g} s in each loop (Table 3 is "
        f"one run of an "
        "unknown loop)",
        *filter_table(printed),
        "",
        "The same with the moment about z of a tilted load",
        *filter_table(coupled),
        "",
    ]
    numbers: dict[str, Any] = {
        "printed": as_numbers(printed),
        "with_yaw_coupling": as_numbers(coupled),
    }

    own = run(model, designed(model), "stiff", 2)
    found, other = full_filter(own), full_filter(runs["stiff"])
    true, allowed = tolerances(model)
    numbers["ten"] = {
        n: {"true": float(t), "value": float(v), "std": float(s)}
        for n, t, v, s in zip(INERTIAL, true, found.estimate.values, found.estimate.std)
    }
    lines += [
        f"All ten parameters about the platform's frame, designed excitation of {own.seconds:g} s "
        f"(stiff loop); "
        "right: S20's excitation",
        "allowed errors: 1 % of the mass, of mass x 0.3 m, of 25 kg m2",
        f"  {'':12s}{'true':>8s}{'found':>12s}{'error / allowed':>24s} | {'found':>9s}",
    ]
    for i, (name, unit) in enumerate(zip(INERTIAL, found.estimate.units)):
        error = (found.estimate.values[i] - true[i]) / allowed[i]
        seen = other.estimate.parameters[i] not in other.unobserved
        lines.append(
            f"  {name:4s}{unit:8s}{true[i]:8.2f}{found.estimate.values[i]:12.3f} +- "
            f"{found.estimate.std[i]:.3f}{error:15.2f} |"
            f"{other.estimate.values[i]:10.2f} +- {other.estimate.std[i]:.2f}"
            + ("" if seen else "  not observable")
        )
    speed = rates(own, found)
    numbers["samples_per_second"] = speed
    lines += [
        "",
        "Speed on one core: "
        + ", ".join(f"{name} {value / 1e3:.1f} kHz" for name, value in speed.items()),
    ]
    if plot:
        lines.append(f"plot: {save(plot, panels(printed, found, true))}")
    return "\n".join(lines), numbers


def panels(
    printed: dict[str, Seeds],
    found: PayloadResult,
    true: FloatArray,
) -> list[tuple[str, str, str, dict[str, tuple[FloatArray, FloatArray]]]]:
    """Return the convergence of S20's four parameters (Fig.

    5), and of the inertias on the designed motion.
    """
    result = []
    for i, (name, unit) in enumerate(zip(NAMES, ("m", "kg m2", "kg m2", "kg m2"))):
        curves = {
            f"{loop} loop": (s.first.history.time, s.first.history.mean[:, 3 + i])
            for loop, s in printed.items()
        }
        end = curves["stiff loop"][0][-1]
        result.append(
            (
                f"Fig. 5: {name}",
                "time [s]",
                f"{name} [{unit}]",
                curves | {"truth": (np.array([0.0, end]), np.full(2, TRUTH[i]))},
            )
        )
    late = slice(len(found.history.time) // 20, None)
    errors = 100 * (found.history.values[late] / np.where(true == 0, np.nan, true) - 1)
    result.append(
        (
            "Designed motion, all ten: inertias about the platform's frame",
            "time [s]",
            "error [%]",
            {
                name: (found.history.time[late], errors[:, INERTIAL.index(name)])
                for name in ("Ixx", "Iyy", "Izz")
            },
        )
    )
    return result


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=20, help="recordings of each loop")
    parser.add_argument("--periods", type=int, default=3, help="of 2 s of the excitation")
    parser.add_argument("--plot", metavar="FILE", help="write the figures as SVG")
    parser.add_argument("--json", action="store_true", help="print numbers for machines")
    chosen = parser.parse_args(arguments)
    text, numbers = report(chosen.seeds, chosen.periods, chosen.plot)
    print(json.dumps(numbers, indent=1) if chosen.json else text)


if __name__ == "__main__":
    main()
