"""A real robot: the 3UPS+RPU of the UPV identified on one run and validated on others, with
friction.

    python examples/upv_identify.py [DATA] [--plot fit.svg] [--json]

DATA holds runs of github.com/jeferal/parallel_robot_pc: exp_20_01_2021-16_15_33 identifies,
exp_01_02_2021-10_29_52 (days later) and exp_20_01_2021-13_37_26 (another controller, which commands
volts: nominal drive gains) validate. Friction structures (none, viscous, Coulomb, both, offsets,
legs tied, passive joints too) are compared by the condition number of the correlation matrix (AH09)
and by the error on the held-out run, then the essential parameters are chosen (BG13, ratio 10).

Regressor and commands are low-passed in parallel and decimated to 10 Hz: the robot moves slowly.
All models are judged
twice: after this filter, and sample by sample at 100 Hz. Where a leg stands, friction takes any
value up to its Coulomb force; its equations there, and one sample of 0.1 s beside, are left out of
both (gaps in the plot).
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from line_plot import save

from gough import Model, Processing, Recording, base_parameters, identify, read_recording
from gough.core.display import text_table
from gough.core.parameters import BaseParameters
from gough.fitting.least_squares import WeightedLeastSquares
from gough.fitting.selection import (
    Elimination,
    Structure,
    StructureResult,
    compare_structures,
    essential_parameters,
    held_out_error,
)
from gough.identification import Experiment, prepare
from gough.mechanism import parse_robot, robot_text
from gough.processing.matching import drive_gains

HERE = Path(__file__).parent
DATA = HERE.parents[1] / "shared" / "data" / "upv_3ups_rpu"
RUNS = {
    "identification": ("exp_20_01_2021-16_15_33", "upv_run.toml"),
    "validation": ("exp_01_02_2021-10_29_52", "upv_run_mocap.toml"),
    "volts": ("exp_20_01_2021-13_37_26", "upv_run_voltage.toml"),
}
FRICTION = ("fv", "fs", "off")
SLOW = Processing(method="time", cutoff=10.0, decimation=10, window=0.1)
PLAIN = Processing(method="time", cutoff=20.0, decimation=1)


def with_passive_friction() -> Model:
    """Return the robot with viscous and Coulomb friction in its passive joints too."""
    text = robot_text("upv")[0]
    terms = 'terms = ["fv", "fs"]\nvalues = { fv = 0, fs = 0 }\n'
    for line in ('names = ["alpha", "beta"]\n', 'name = "lean"    # zero is upright\n'):
        if text.count(line) != 1:
            raise ValueError(f"the robot file has changed: {text.count(line)} lines {line!r}")
        text = text.replace(line, line + terms)
    return Model(parse_robot(text, "upv with passive friction"))


@dataclass(frozen=True)
class Study:
    """The runs and the robot they are explained with."""

    model: Model
    logs: Mapping[str, Recording]

    @cached_property
    def base(self) -> BaseParameters:
        """Base parameters, bodies of the three equal legs tied, friction for each joint."""
        return base_parameters(self.model, tie_legs=True)

    @cached_property
    def parts(self) -> dict[str, Experiment]:
        """Each run after the parallel filter, processed alike."""
        first = self.prepared("identification", SLOW)
        return {"identification": first} | {
            name: self.prepared(name, first.processing)
            for name in self.logs
            if name != "identification"
        }

    def prepared(self, name: str, processing: Processing) -> Experiment:
        """Return one run as a regression."""
        gains = drive_gains(self.model) if self.logs[name].effort is None else None
        return prepare(self.model, [self.logs[name]], self.base, processing=processing, gains=gains)

    @cached_property
    def structures(self) -> dict[str, Structure]:
        """Friction structures, all with the rigid-body parameters."""
        names = self.base.names
        rigid = [n for n in names if n.kind not in FRICTION]

        def active(*kinds: str) -> list[str]:
            return [n for n in names if ".slider." in n and n.kind in kinds]

        def passive(*kinds: str) -> list[str]:
            return [n for n in names if ".slider." not in n and n.kind in kinds]

        tied: list[str | Sequence[str]] = []
        for what in FRICTION:
            tied += [tuple(active(what)[:3]), active(what)[3]]
        return {
            "none": rigid,
            "viscous": [*rigid, *active("fv")],
            "Coulomb": [*rigid, *active("fs")],
            "both": [*rigid, *active("fv", "fs")],
            "both, offsets": [*rigid, *active(*FRICTION)],
            "both, offsets, equal legs tied": [*rigid, *tied],
            "both, offsets, passive Coulomb": [*rigid, *active(*FRICTION), *passive("fs")],
            "both, offsets, passive both": [*rigid, *active(*FRICTION), *passive("fv", "fs")],
        }

    def comparison(self) -> dict[str, StructureResult]:
        """Return the structures side by side."""
        return compare_structures(
            self.parts["identification"].problem,
            self.structures,
            WeightedLeastSquares(),
            held_out=self.parts["validation"].problem,
        )

    def essential(self, structure: str = "both, offsets") -> Elimination:
        """Return the way to the essential parameters of a structure, held-out error at each step.

        Without the offset of leg 4: it carries the robot's weight, standing nearly upright, and
        either could stand for the other.
        """
        chosen = [
            n for n in self.structures[structure] if isinstance(n, str) and n != "leg4.slider.off"
        ]
        return essential_parameters(
            self.parts["identification"].problem.select(chosen),
            WeightedLeastSquares(),
            10.0,
            held_out=self.parts["validation"].problem,
        )


def read(folder: str | Path = DATA) -> Study:
    """Read the runs."""
    return Study(
        with_passive_friction(),
        {
            name: read_recording(Path(folder) / run, HERE / description)
            for name, (run, description) in RUNS.items()
        },
    )


def run(study: Study) -> dict[str, Any]:
    """Do everything and return the figures."""
    comparison, elimination = study.comparison(), study.essential()
    steps = {
        "all": elimination.steps[0],
        "by held-out error": elimination.steps[elimination.stop],
        "ratio 10": elimination.steps[-1],
    }
    window = study.parts["identification"].processing.window or 0.0
    plain = replace(PLAIN, window=window)
    judges = {
        "10 Hz": {name: study.parts[name].problem for name in ("validation", "volts")},
        "100 Hz": {name: study.prepared(name, plain).problem for name in ("validation", "volts")},
    }
    cad = dict(
        zip(study.base.names, study.base.values(study.model.values(study.base.standard)).tolist())
    )
    whole = identify(
        Model(parse_robot(*robot_text("upv"))),
        [study.logs["identification"]],
        tie_legs=True,
        estimator="wls",
        held_out=[study.logs["validation"]],
        processing=SLOW,
    )
    return {
        "window": window,
        "samples": len(study.parts["identification"].problem),
        "structures": {
            r.name: {
                "parameters": len(r.parameters),
                "condition_of_correlation": None
                if r.estimate is None
                else r.estimate.correlation_condition,
                "residual": None
                if r.estimate is None
                else float(np.sqrt(np.mean(r.estimate.residual_relative**2))),
                "held_out": None if r.held_out is None else r.held_out.tolist(),
            }
            for r in comparison.values()
        },
        "models": {
            label: {
                "parameters": len(step.estimate),
                "condition_of_correlation": step.estimate.correlation_condition,
                "held_out": {
                    rate: {
                        name: held_out_error(step.estimate, problem).tolist()
                        for name, problem in problems.items()
                    }
                    for rate, problems in judges.items()
                },
            }
            for label, step in steps.items()
        },
        "essential": [
            {"name": n, "value": float(v), "std": float(s), "unit": u, "robot_file": cad[n]}
            for n, v, s, u in zip(
                elimination.estimate.parameters,
                elimination.estimate.values,
                elimination.estimate.std,
                elimination.estimate.units,
            )
        ],
        "headline": whole.headline,
    }


def percent(values: Sequence[float]) -> list[str]:
    """Return errors of the legs and their root mean square in percent."""
    return [f"{100 * v:.1f}" for v in (*values, float(np.sqrt(np.mean(np.square(values)))))]


def table(found: Mapping[str, Any]) -> str:
    """Return the figures as plain text."""
    lines = [
        [
            name,
            str(s["parameters"]),
            f"{s['condition_of_correlation']:.3g}",
            f"{100 * s['residual']:.1f}",
            *percent(s["held_out"]),
        ]
        for name, s in found["structures"].items()
    ]
    head = [
        "friction",
        "parameters",
        "cond(correlation)",
        "residual %",
        "leg 1",
        "leg 2",
        "leg 3",
        "leg 4",
        "all",
    ]
    parts = [
        f"held-out error in percent of the effort; identified from {found['samples']} samples, "
        f"{found['window']:.2f} s about reversals left out",
        text_table(head, lines),
    ]
    lines = []
    for label, model in found["models"].items():
        for rate, errors in model["held_out"].items():
            for name, error in errors.items():
                lines.append(
                    [
                        f"{label}, judged at {rate} on {RUNS[name][0]}",
                        str(model["parameters"]),
                        f"{model['condition_of_correlation']:.3g}",
                        *percent(error),
                    ]
                )
    parts.append(
        text_table(
            ["model", "parameters", "cond(correlation)", "leg 1", "leg 2", "leg 3", "leg 4", "all"],
            lines,
        )
    )
    lines = [
        [
            e["name"],
            f"{e['value']:.4g}",
            f"{e['std']:.2g}",
            f"{100 * e['std'] / abs(e['value']):.1f}",
            e["unit"],
            f"{e['robot_file']:.4g}",
        ]
        for e in found["essential"]
    ]
    parts.append(
        text_table(
            ["essential parameters, ratio 10", "value", "std", "%", "unit", "robot file"], lines
        )
    )
    return "\n\n".join([*parts, found["headline"]])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", nargs="?", default=DATA, help="folder with the runs")
    parser.add_argument(
        "--plot", help="write measured and predicted forces of the validation run to this SVG file"
    )
    parser.add_argument("--json", action="store_true", help="print figures as JSON")
    options = parser.parse_args()
    study = read(options.data)
    found = run(study)
    print(json.dumps(found, indent=1) if options.json else table(found))
    if options.plot:
        estimate = study.essential().estimate
        problem = study.prepared(
            "validation",
            Processing(method="time", cutoff=3.0, decimation=1, window=found["window"]),
        ).problem
        predicted = np.where(problem.mask, estimate.predict(problem), np.nan)
        save(
            options.plot,
            [
                (
                    f"{row} in {RUNS['validation'][0]}; gaps: a leg reverses or stands",
                    "time [s]",
                    "force [N]",
                    {
                        "measured": (problem.time, problem.effort[:, j]),
                        "predicted": (problem.time, predicted[:, j]),
                    },
                )
                for j, row in enumerate(problem.rows)
            ],
        )


if __name__ == "__main__":
    main()
