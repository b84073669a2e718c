"""Drive gains of the Orthoglide from currents and a weighed payload (BG13 section 5.2, Table 3 and
Fig. 5).

    python examples/orthoglide_gains.py [--seeds 40] [--plot figure5.svg] [--json]

The independent plant (Pinocchio) runs two jointly designed trajectories under a PID, one without
payload and one with 1.983 kg, 15 s each; only currents (2 N rms of noise) and positions (6 um
steps) are kept. From them follow the gains by maximum likelihood, by total least squares and by
total least squares as the paper scales it, beside the Cramer-Rao bound; the essential parameters
beside Table 3; efforts on another trajectory (Fig. 5); and a second payload of 1.136 kg with
identified and with the manufacturer's gains.

Regressor and currents are low-passed in parallel (BG13 (19)-(20)), here exactly over whole periods,
so that no sample near a velocity reversal is lost. Coulomb friction passes through zero within the
band BAND, in plant and regressor.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from line_plot import save

from gough import (
    Identification,
    Model,
    Processing,
    Recording,
    Simulation,
    base_parameters,
    design,
    identify,
    load_robot,
    process,
    record,
    simulate,
)
from gough.core.arrays import FloatArray
from gough.core.display import text_table
from gough.core.names import Parameter
from gough.core.parameters import BaseParameters
from gough.excitation.design import Run
from gough.fitting.estimate import Estimate
from gough.fitting.gain_likelihood import MaximumLikelihoodGains
from gough.fitting.gain_problem import GainProblem, current_maps
from gough.fitting.selection import Elimination, essential_parameters
from gough.fitting.total_least_squares import TotalLeastSquares
from gough.identification.currents import currents_problem, match_currents
from gough.identification.measured_payload import known_payload

RUNS = ("loaded", "other", "second", "unloaded")
PAYLOAD, SECOND = "calibration", "second"
SECOND_MASS = 1.136  # [kg]
MANUFACTURER = 637 * np.pi  # [N per unit]
PERIOD, PERIODS, HARMONICS = 3.0, 5, 6  # 15 s of each
NOISE = 2.0  # of the efforts, rms [N]
BAND = {
    "prismatic": 5e-3,
    "revolute": 1.5e-2,
}  # friction passes through zero within this [m/s, rad/s]
CUTOFF, DECIMATION = 200.0, 25  # of the positions [Hz]; then 20 Hz for regressor and currents

# Table 3 of BG13: name here, value, relative standard deviation in percent.
TABLE_3 = {
    "leg1.q1.gain": (2170.0, 0.39),
    "leg2.q1.gain": (2100.0, 0.39),
    "leg3.q1.gain": (2070.0, 0.24),
    "leg1.foot.mR": (9.40, 0.44),
    "leg2.foot.mR": (8.95, 0.44),
    "leg3.foot.mR": (0.87, 1.12),
    "leg3.q1.iaR": (8.05, 0.25),
    "leg1.q1.fv": (85.7, 0.42),
    "leg2.q1.fv": (86.7, 0.50),
    "leg3.q1.fv": (84.0, 0.27),
    "leg1.q1.fs": (35.2, 0.43),
    "leg2.q1.fs": (41.7, 0.42),
    "leg3.q1.fs": (24.1, 0.32),
    "leg1.fork.mx": (-0.12, 3.75),
    "leg1.q2.fvR": (5.57, 1.36),
    "leg1.q2.offR": (0.96, 1.10),
    "leg3.q2.offR": (-0.47, 2.16),
    "leg3.q3.fvR": (-5.57, 1.46),
    "leg1.q3.fsR": (1.76, 1.34),
    "leg2.q3.fsR": (1.61, 1.45),
    "leg3.q3.fsR": (1.35, 1.93),
    "platform.mR": (0.92, 0.86),
}
# The virtual robot leaves out what could not be: mx21 < 0 in a fork that is symmetric, fv33R < 0.
ABSENT = ("leg1.fork.mx", "leg3.q3.fvR")


def repeated(run: Simulation, periods: int) -> Simulation:
    """Return a run of whole periods several times over: noise comes with `record`, so nothing else
    would differ.
    """
    step = run.time[1] - run.time[0]
    again = {
        name: np.tile(getattr(run, name), (1, periods, 1))
        for name in ("q", "velocity", "acceleration", "effort", "mean_effort")
    }
    return replace(
        run,
        time=run.time[0] + step * np.arange(len(run.time) * periods),
        **again,
        reference=np.tile(run.reference, (periods, 1)),
        saturated=run.saturated * periods,
    )


@dataclass(frozen=True)
class Study:
    """The robot, what it ran and what can be made of it.

    Args:
        model: The robot.
        runs: One period each: `unloaded`, `loaded`, and `other` and `second` on a trajectory of
            their own.
    """

    model: Model
    runs: Mapping[str, Simulation]

    @cached_property
    def base(self) -> BaseParameters:
        """Base parameters with the payload's mass."""
        return base_parameters(self.model, payloads=(PAYLOAD,))

    @cached_property
    def gains(self) -> tuple[str, ...]:
        """Names of the gains as parameters."""
        return tuple(Parameter.gain(name) for name in self.model.mechanism.actuated)

    @cached_property
    def processing(self) -> Processing:
        """Parallel low-pass over whole periods, with the friction band of the robot; equations
        within it count too.
        """
        band = {joint.name: BAND[joint.kind] for joint in self.model.mechanism.joints}
        return Processing(
            cutoff=CUTOFF,
            decimation=DECIMATION,
            dead_band=band,
            window=0.0,
            joints_at_rest=tuple(band),
        )

    def log(self, name: str, seed: int) -> Recording:
        """Return a recording of 15 s with its own noise."""
        return record(repeated(self.runs[name], PERIODS), seed=[seed, RUNS.index(name)])

    def problem(
        self, seed: int, processing: Processing | None = None, loaded: str = "loaded"
    ) -> GainProblem:
        """Return the equations of unloaded and loaded log, BG13 (33)."""
        settings = processing or self.processing
        logs = [self.log("unloaded", seed), self.log(loaded, seed)]
        return currents_problem(
            self.model,
            match_currents(self.model, logs, settings),
            known_payload(self.model, PAYLOAD),
            self.base,
            n_unloaded=1,
            processing=settings,
        ).problem

    def truth(self, problem: GainProblem) -> FloatArray:
        """Return the true values of a problem's unknowns."""
        table = dict(
            zip(self.base.names, self.base.values(self.model.values(self.base.standard)).tolist())
        )
        joints = [self.model.mechanism.joint(name) for name in self.model.mechanism.actuated]
        table |= {Parameter.gain(joint.name): float(joint.gain or np.nan) for joint in joints}
        return np.array([table[name] for name in problem.parameters])

    def bound(self) -> FloatArray:
        """Return the Cramer-Rao bound of the gains' standard deviations from every sample of both
        logs, (3,).
        """
        problem = self.problem(0, replace(self.processing, decimation=1))  # averaged, not decimated
        values = self.truth(problem)
        where = [problem.parameters.index(name) for name in self.gains]
        noise = NOISE / values[where] / np.sqrt(PERIODS)
        maps, _ = current_maps(problem, values)  # derivative of the model's currents: free of noise
        slopes = np.concatenate(problem.statistics().factors @ maps / noise[:, None, None])
        return np.sqrt(np.diag(np.linalg.inv(slopes.T @ slopes))[where])


def experiments(plant: str = "pinocchio", names: Sequence[str] = RUNS) -> Study:
    """Design trajectories and run the virtual Orthoglide along them."""
    model = Model(load_robot("orthoglide"))
    runs = [Run(periods=PERIODS), Run(periods=PERIODS, payload=PAYLOAD)]
    plan = design(
        model, frequency=1 / PERIOD, harmonics=HARMONICS, runs=runs, tie_legs=True, starts=1, seed=0
    )
    paths = {"unloaded": plan.trajectories[0], "loaded": plan.trajectories[1]}
    if {"other", "second"} & set(names):
        other = design(
            model, frequency=1 / PERIOD, harmonics=4, tie_legs=True, starts=1, seed=1, criterion="a"
        ).trajectory
        paths |= {"other": other, "second": other}
    payloads = {"unloaded": None, "loaded": PAYLOAD, "other": PAYLOAD, "second": SECOND}
    band = np.array([BAND[joint.kind] for joint in model.mechanism.joints])
    return Study(
        model,
        {
            name: simulate(
                model,
                paths[name],
                controller="pid+",
                plant=plant,
                periods=1,
                payload=payloads[name],
                dead_band=band,
            )
            for name in names
        },
    )


def estimators() -> dict[str, Any]:
    """Return the estimators of gains that are compared."""
    return {
        "maximum likelihood": MaximumLikelihoodGains(),
        "total least squares": TotalLeastSquares(),
        "total least squares, paper's scaling": TotalLeastSquares(scaling="none"),
    }


def scatter(study: Study, seeds: int) -> dict[str, FloatArray]:
    """Return gains over noise seeds by estimator, (seeds, 3)."""
    found: dict[str, list[FloatArray]] = {name: [] for name in estimators()}
    for seed in range(1, seeds + 1):
        problem = study.problem(seed).in_factors()
        for name, settings in estimators().items():
            estimate = settings.fit(problem)
            found[name].append(np.array([estimate[gain] for gain in study.gains]))
    return {name: np.array(values) for name, values in found.items()}


def essential(study: Study, seed: int = 1) -> Elimination:
    """Return the way to the essential parameters with BG13's ratio of 10, and the error on another
    trajectory.
    """
    unseen = study.problem(seed + 1, loaded="other").in_factors()
    return essential_parameters(
        study.problem(seed).in_factors(), MaximumLikelihoodGains(), 10.0, held_out=unseen
    )


def second_payload(study: Study, gains: Mapping[str, float], seed: int = 1) -> tuple[float, float]:
    """Return mass and standard deviation of the second payload by weighted least squares with given
    gains. [kg]
    """
    result = identify(
        study.model,
        [study.log("unloaded", seed), study.log("second", seed)],
        estimator="wls",
        gains=gains,
        processing=study.processing,
    )
    found = result.payload[Parameter.of_payload(SECOND, "m")]
    return found["value"], found["std"]


def figure_5(
    study: Study, result: Identification, seed: int = 1
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return time (t,), measured and computed efforts (t, 3) of one period of the other trajectory
    with 1.983 kg.
    """
    done = process(
        study.model, study.log("other", seed), Processing(dead_band=study.processing.dead_band)
    )
    gains = np.array([result.drive_gains[name]["value"] for name in study.model.mechanism.actuated])
    assert done.repetitions is not None
    computed = study.model.inverse_dynamics(
        done.motion,
        result.standard(study.model),
        load=study.model.load(PAYLOAD),
        dead_band=done.dead_band,
    )
    return done.motion.time, done.repetitions[0] * gains, computed


def run(seeds: int = 40, plant: str = "pinocchio") -> dict[str, Any]:
    """Do everything and return the figures."""
    study = experiments(plant)
    bound, truth = study.bound(), [2170.0, 2100.0, 2070.0]
    problem = study.problem(1)
    estimates: dict[str, Estimate] = {
        name: settings.fit(problem) for name, settings in estimators().items()
    }
    many = scatter(study, seeds)
    result = identify(
        study.model,
        [study.log("unloaded", 1)],
        loaded=[study.log("loaded", 1)],
        estimator="all",
        processing=study.processing,
        held_out=[study.log("other", 1)],
    )
    identified = {name: value["value"] for name, value in result.drive_gains.items()}
    time, measured, computed = figure_5(study, result)
    steps = essential(study)
    return {
        "truth": truth,
        "cramer_rao": bound.tolist(),
        "gains": {
            name: {
                "value": [e[gain] for gain in study.gains],
                "std": [float(e.std[e.parameters.index(gain)]) for gain in study.gains],
                "white_std": [float(e.white_std[e.parameters.index(gain)]) for gain in study.gains],
                "mean_over_seeds": many[name].mean(axis=0).tolist(),
                "std_over_seeds": many[name].std(axis=0, ddof=1).tolist(),
            }
            for name, e in estimates.items()
        },
        "seeds": seeds,
        "essential": {
            label: {
                "parameters": {
                    n: [float(v), float(100 * s)]
                    for n, v, s in zip(
                        step.estimate.parameters, step.estimate.values, step.estimate.relative_std
                    )
                },
                "units": dict(zip(step.estimate.parameters, step.estimate.units)),
                "held_out_error": step.held_out_error,
            }
            for label, step in (
                ("ratio 10", steps.steps[-1]),
                ("held-out error", steps.steps[steps.stop]),
            )
        },
        "second_payload": {
            "identified gains": second_payload(study, identified),
            "manufacturer's gains": second_payload(study, dict.fromkeys(identified, MANUFACTURER)),
        },
        "figure_5": {
            "relative_error": (
                np.sqrt(np.mean((measured - computed) ** 2, axis=0) / np.mean(measured**2, axis=0))
            ).tolist(),
            "time": time,
            "measured": measured,
            "computed": computed,
        },
        "headline": result.headline,
    }


def table(found: Mapping[str, Any]) -> str:
    """Return the figures as plain text beside the paper's."""
    bound = np.array(found["cramer_rao"])
    lines = [
        [
            "true (BG13 Table 3: std 8.5, 8.2, 5.0)",
            *(f"{v:.0f}" for v in found["truth"]),
            "",
            "",
            "",
        ],
        ["Cramer-Rao bound of std", "", "", "", *(f"{b:.2f}" for b in bound)],
    ]
    for name, e in found["gains"].items():
        lines.append([name, *(f"{v:.1f}" for v in e["value"]), *(f"{s:.2f}" for s in e["std"])])
        lines.append(
            [
                f"  over {found['seeds']} noises",
                *(f"{v:.1f}" for v in e["mean_over_seeds"]),
                *(f"{s:.2f}" for s in e["std_over_seeds"]),
            ]
        )
        lines.append(
            [
                "  std over bound",
                "",
                "",
                "",
                *(f"{s:.2f}" for s in np.array(e["std_over_seeds"]) / bound),
            ]
        )
    parts = [
        text_table(
            ["drive gains [N per unit]", "leg 1", "leg 2", "leg 3", "std 1", "std 2", "std 3"],
            lines,
        )
    ]
    chosen = {label: e["parameters"] for label, e in found["essential"].items()}
    units = {n: unit for e in found["essential"].values() for n, unit in e["units"].items()}
    lines = []
    for name in dict.fromkeys((*TABLE_3, *chosen["held-out error"], *chosen["ratio 10"])):
        cells = [
            f"{values[name][0]:.4g} ({values[name][1]:.2f} %)" if name in values else "-"
            for values in (chosen["held-out error"], chosen["ratio 10"], TABLE_3)
        ]
        lines.append(
            [
                name,
                units.get(name, ""),
                *cells,
                "not in the virtual robot" if name in ABSENT else "",
            ]
        )
    lines.append(
        [
            "held-out error",
            "",
            *(
                f"{100 * found['essential'][label]['held_out_error']:.2f} %"
                for label in ("held-out error", "ratio 10")
            ),
            "",
            "",
        ]
    )
    parts.append(
        text_table(
            [
                "essential parameters (std)",
                "unit",
                "by held-out error",
                "by ratio 10",
                "BG13, ratio 10",
                "",
            ],
            lines,
        )
    )
    lines = [
        [name, f"{m:.3f}", f"{s:.3f}", paper]
        for (name, (m, s)), paper in zip(
            found["second_payload"].items(), ("1.14 +- 0.02", "1.09 +- 0.02")
        )
    ]
    parts.append(
        text_table(["second payload, 1.136 kg", "mass [kg]", "std [kg]", "BG13 [kg]"], lines)
    )
    parts.append(
        "Fig. 5, relative error on another trajectory with 1.983 kg, sample by sample with its "
        "noise: "
        + ", ".join(f"{100 * e:.2f} %" for e in found["figure_5"]["relative_error"])
        + f"\n{found['headline']}"
    )
    return "\n\n".join(parts)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=40, help="noises for the scatter of the gains")
    parser.add_argument("--plant", default="pinocchio", help="pinocchio or gough")
    parser.add_argument("--plot", help="write Fig. 5 to this SVG file")
    parser.add_argument("--json", action="store_true", help="print figures as JSON")
    options = parser.parse_args()
    found = run(options.seeds, options.plant)
    figure = found["figure_5"]
    time, measured, computed = (figure.pop(key) for key in ("time", "measured", "computed"))
    print(json.dumps(found, indent=1) if options.json else table(found))
    if options.plot:
        save(
            options.plot,
            [
                (
                    f"actuator {j + 1}",
                    "time [s]",
                    "effort [N]",
                    {
                        "measured": (time, measured[:, j]),
                        "computed": (time, computed[:, j]),
                        "error": (time, measured[:, j] - computed[:, j]),
                    },
                )
                for j in range(3)
            ],
        )


if __name__ == "__main__":
    main()
