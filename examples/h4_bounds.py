"""Guaranteed boxes for the 14 parameters of the H4 (P03, Tables 1 and 2), and what P03 left open.

    python examples/h4_bounds.py [--plot widths.svg] [--json]

An independent plant (Pinocchio) with uniform rods of 1 g, which the model of P03 does not have,
runs a slow and a fast designed trajectory under a PID; torques have 0.3 N m of Gaussian noise,
encoders 20000 steps a turn. With errors of at most 1.5 N m and priors [0, 2] follow the box of the
interval Gauss-Seidel contractor (the paper) and the exact one, beside weighted least squares; then
the same with 10 % gross outliers, guaranteed whichever they are and trimmed by a heuristic, and the
widths against the error bound.

The sign of a velocity below THRESHOLD counts as [-1, 1]. Samples within 10 ms of a reversal are
left out: friction makes accelerations jump there and the low-pass smears them by more than the
error bound allows.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from line_plot import save

from gough import (
    Enclosure,
    Estimate,
    Mechanism,
    Model,
    Processing,
    Simulation,
    base_parameters,
    design,
    identify,
    load_robot,
    record,
    simulate,
)
from gough.bounding.bounds import bounded_problem
from gough.bounding.solve import BoundedProblem, ExactBox, GaussSeidel, TrimmedBox
from gough.core.arrays import FloatArray
from gough.core.display import text_table
from gough.core.errors import InconsistentData
from gough.core.parameters import BaseParameters
from gough.excitation.design import Run
from gough.mechanism import parse_robot, robot_text

BOUND, PRIOR = 1.5, (0.0, 2.0)  # P03 [N m; SI]
CRANK, ROD, ROD_MASS = 0.26, 0.48, 1e-3  # [m, m, kg]
FRICTION_BAND, THRESHOLD = (
    0.05,
    0.1,
)  # of the plant's friction, and of what counts as sure of its sign [rad/s]
CUTOFF = 30.0  # of the positions [Hz]
EFFORT = 12.0  # limit in the design, so that the controller has room to 15 [N m]
BOUNDS = (1.25, 1.5, 2.0, 3.0, 4.0)  # of the study [N m]

# Paper's name: name here, box (Table 1), weighted least squares and its relative standard deviation
# (Table 2).
TABLES = {
    "I_mot1": ("leg1.motor.ia", 0.0009, 0.0238, 0.0141, 2.63),
    "I_mot2": ("leg2.motor.ia", 0.0044, 0.0257, 0.0120, 3.04),
    "I_mot3": ("leg3.motor.ia", 0.0096, 0.0320, 0.0153, 1.69),
    "I_mot4": ("leg4.motor.ia", 0.0098, 0.0319, 0.0213, 1.19),
    "M_nac": ("platform.m", 0.7650, 1.2338, 1.0492, 0.42),
    "I_bc": ("platform.Izz", 0.0000, 0.0071, 0.0030, 3.50),
    "F_v1": ("leg1.motor.fv", 0.0000, 0.4690, 0.1636, 5.68),
    "F_v2": ("leg2.motor.fv", 0.1733, 0.2554, 0.0560, 15.57),
    "F_v3": ("leg3.motor.fv", 0.0000, 0.2856, 0.0930, 6.57),
    "F_v4": ("leg4.motor.fv", 0.0000, 0.2664, 0.0917, 6.43),
    "F_c1": ("leg1.motor.fs", 0.0000, 1.6068, 1.1453, 2.05),
    "F_c2": ("leg2.motor.fs", 0.0000, 1.6300, 1.0950, 2.06),
    "F_c3": ("leg3.motor.fs", 0.2245, 1.0952, 0.7222, 2.84),
    "F_c4": ("leg4.motor.fs", 0.2264, 1.1014, 0.9932, 2.05),
}


def with_rods(mass: float = ROD_MASS) -> Mechanism:
    """Return the H4 with each rod as a uniform body between a cardan joint at the crank and a ball
    at the side bar.
    """
    text = robot_text("h4")[0]
    start, end = text.index('[[leg.closure]]\nname = "rod"'), text.index("[noise]")
    inertia = mass * ROD**2 / 3  # [kg m2]
    rod = f"""[[leg.body]]
name = "rod"
m = {mass}
com = [{ROD / 2}, 0, 0]
Ixx = 0
Iyy = {inertia}
Izz = {inertia}

[[leg.joint]]
name = "swing"
type = "universal"
parent = "crank"
child = "rod"
xyz = [{CRANK}, 0, 0]
axes = "yz"
start = "$swing"

[[leg.closure]]
name = "rod"
kind = "point"
a = {{ body = "rod", xyz = [{ROD}, 0, 0] }}
b = {{ body = "$side", xyz = "$end" }}

"""
    text = text[:start] + rod + text[end:]
    for leg, angles in enumerate(_swing_at_home(), 1):
        text = text.replace(
            f'name = "leg{leg}",', f'name = "leg{leg}", swing = [{angles[0]:.5f}, {angles[1]:.5f}],'
        )
    return parse_robot(text, "h4 with rods")


def _swing_at_home() -> list[tuple[float, float]]:
    """Return the cardan angles of each rod at home: its direction in the crank's frame is Ry(a)
    Rz(b) x. [deg]
    """
    robot = Model(load_robot("h4"))
    place = dict(zip(robot.mechanism.coordinates, robot.home.tolist()))
    home = np.array([place[f"platform.{axis}"] for axis in "xyz"])
    angles = []
    for leg, (turn, ends) in enumerate(
        ((0, (1, 1)), (180, (-1, 1)), (270, (-1, -1)), (270, (1, -1))), 1
    ):
        q, yaw = place[f"leg{leg}.motor"], np.radians(turn)
        along = np.array([np.cos(yaw), np.sin(yaw), 0.0])
        hub = 0.06 * np.array([*ends, 0.0]) + 0.14 * along  # P_i, P03 (7)-(8)
        axes = np.array(
            [
                np.cos(q) * along - [0, 0, np.sin(q)],
                [-np.sin(yaw), np.cos(yaw), 0],
                np.sin(q) * along + [0, 0, np.cos(q)],
            ]
        )  # rows: x, y, z of the crank
        u = axes @ (home + 0.06 * np.array([*ends, 0.0]) - hub - CRANK * axes[0]) / ROD
        angles.append(
            (float(np.degrees(np.arctan2(-u[2], u[0]))), float(np.degrees(np.arcsin(u[1]))))
        )
    return angles


@dataclass(frozen=True)
class Study:
    """The robot as P03 models it, and what the robot with rods ran.

    Args:
        model: Without rods.
        runs: Slow and fast.
        rod_effect: Largest torque of the rods along each trajectory, (2, 4). [N m]
    """

    model: Model
    runs: Sequence[Simulation]
    rod_effect: FloatArray

    @cached_property
    def base(self) -> BaseParameters:
        """The 14 parameters."""
        return base_parameters(self.model)

    @cached_property
    def truth(self) -> FloatArray:
        """Their values in the plant."""
        return self.base.values(self.model.values(self.base.standard))

    @cached_property
    def processing(self) -> Processing:
        """P03: zero-phase low-pass and central differences; torques as they are."""
        return Processing(method="time", cutoff=CUTOFF, decimation=1)

    def logs(self, seed: int = 1) -> list[Any]:
        """Return the recordings."""
        return [record(run, seed=[seed, k]) for k, run in enumerate(self.runs)]

    def problem(self, seed: int = 1) -> BoundedProblem:
        """Return the bounded-error problem of both recordings."""
        return bounded_problem(
            self.model,
            self.logs(seed),
            self.base,
            error_bound=BOUND,
            prior=PRIOR,
            processing=self.processing,
            threshold=THRESHOLD,
        )

    def weighted(self, seed: int = 1) -> Estimate:
        """Return the weighted least squares estimate of the same logs."""
        return identify(
            self.model, self.logs(seed), estimator="wls", processing=self.processing
        ).estimate

    def largest_error(self, problem: BoundedProblem) -> float:
        """Return the largest error that the true parameters leave of the equations that count.

        [N m]
        """
        low, high = (
            problem.regressor_lower @ self.truth,
            problem.regressor_upper @ self.truth,
        )  # truth >= 0
        return float(np.maximum(problem.effort - high, low - problem.effort)[problem.used].max())


def experiments(plant: str = "pinocchio") -> Study:
    """Design a slow and a fast trajectory together (P03 4.1) and run the robot with rods along
    them.
    """
    model, robot = Model(load_robot("h4")), Model(with_rods())
    limits = {
        name: replace(model.mechanism.joint(name).limits, effort=EFFORT)
        for name in model.mechanism.actuated
    }
    plan = design(
        model,
        runs=[Run(frequency=0.25, harmonics=3), Run(frequency=1.0)],
        limits=limits,
        starts=1,
        seed=0,
    )
    runs = [
        simulate(
            robot, path, controller="pid+", plant=plant, periods=periods, dead_band=FRICTION_BAND
        )
        for path, periods in zip(plan.trajectories, (1, 4))
    ]
    effect = []
    for path in plan.trajectories:
        time = np.arange(0.0, path.period, 1e-3)
        torque = [
            m.inverse_dynamics(m.kinematics.motion(time, *path.at(time), "task"))
            for m in (model, robot)
        ]
        effect.append(np.abs(torque[1] - torque[0]).max(axis=0))
    return Study(model, runs, np.array(effect))


def spoilt(
    problem: BoundedProblem, share: float = 0.1, seed: int = 0
) -> tuple[BoundedProblem, int]:
    """Return the problem with gross outliers of 3 to 15 N m in a share of the equations that count,
    and how many.
    """
    rng = np.random.default_rng(seed)
    effort = np.array(problem.effort)
    gross = (rng.random(effort.shape) < share) & np.asarray(problem.used)
    count = int(gross.sum())
    effort[gross] += rng.choice([-1, 1], count) * rng.uniform(3, 15, count)
    return replace(problem, effort=effort), count


def widths(problem: BoundedProblem, error_bounds: Sequence[float]) -> FloatArray:
    """Return the widths of the exact box for each error bound, NaN where no parameters fit, (k, p).

    P03 leaves "the influence of the prior error bounds on the posterior uncertainty" open; this is
    it.
    """
    found = np.full((len(error_bounds), len(problem.parameters)), np.nan)
    for k, bound in enumerate(error_bounds):
        with suppress(InconsistentData):
            found[k] = ExactBox().fit(replace(problem, error_bound=np.array(bound))).width
    return found


def run(plant: str = "pinocchio") -> dict[str, Any]:
    """Do everything and return the figures."""
    study = experiments(plant)
    problem, weighted = study.problem(), study.weighted()
    boxes: dict[str, Enclosure] = {
        "exact": ExactBox().fit(problem),
        "gauss-seidel": GaussSeidel().fit(problem),
    }
    broken, count = spoilt(problem)
    try:
        ExactBox().fit(broken)
        complaint = ""
    except InconsistentData as error:
        complaint = str(error)
    boxes["outliers"], boxes["trimmed"] = (
        ExactBox(outliers=count).fit(broken),
        TrimmedBox(outliers=count).fit(broken),
    )
    return {
        "parameters": list(study.base.names),
        "units": list(study.base.units),
        "truth": study.truth.tolist(),
        "equations": int(problem.effort.size),
        "largest_error": study.largest_error(problem),
        "rod_effect": study.rod_effect.max(axis=1).tolist(),
        "boxes": {
            name: {
                "lower": box.lower.tolist(),
                "upper": box.upper.tolist(),
                "contains_truth": box.contains(study.truth),
                "contains_wls": box.contains(weighted.values),
            }
            for name, box in boxes.items()
        },
        "wls": {
            "values": weighted.values.tolist(),
            "relative_std": (100 * weighted.relative_std).tolist(),
        },
        "outliers": {
            "count": count,
            "removed": len(boxes["trimmed"].certificate["removed"]),
            "without": complaint,
        },
        "study": {"error_bounds": list(BOUNDS), "width": widths(problem, BOUNDS).tolist()},
    }


def table(found: Mapping[str, Any]) -> str:
    """Return the figures as plain text beside the paper's."""
    where = {name: k for k, name in enumerate(found["parameters"])}

    def interval(box: str, k: int) -> str:
        return f"[{found['boxes'][box]['lower'][k]:.4f}, {found['boxes'][box]['upper'][k]:.4f}]"

    lines = []
    for symbol, (name, low, high, value, std) in TABLES.items():
        k = where[name]
        widths = {
            box: found["boxes"][box]["upper"][k] - found["boxes"][box]["lower"][k]
            for box in found["boxes"]
        }
        lines.append(
            [
                symbol,
                found["units"][k],
                f"{found['truth'][k]:.4f}",
                interval("exact", k),
                interval("gauss-seidel", k),
                f"{widths['exact'] / widths['gauss-seidel']:.2f}",
                f"[{low:.4f}, {high:.4f}]",
                f"{found['wls']['values'][k]:.4f} ({found['wls']['relative_std'][k]:.2f} %)",
                f"{value:.4f} ({std:.2f} %)",
                interval("outliers", k),
                interval("trimmed", k),
            ]
        )
    head = [
        "",
        "unit",
        "truth",
        "exact box",
        "Gauss-Seidel box",
        "ratio",
        "P03 Table 1",
        "WLS (std)",
        "P03 Table 2",
        f"{found['outliers']['count']} outliers",
        "trimmed",
    ]
    effect = found["rod_effect"]
    said = {name: "yes" if box["contains_truth"] else "NO" for name, box in found["boxes"].items()}
    study = [
        [f"{bound:g}", *(f"{found['study']['width'][b][where[TABLES[s][0]]]:.3g}" for s in TABLES)]
        for b, bound in enumerate(found["study"]["error_bounds"])
    ]
    return "\n\n".join(
        [
            text_table(head, lines),
            f"{found['equations']} equations; the truth leaves errors of at most "
            f"{found['largest_error']:.2f} N m; rods of "
            f"1 g change torques by at most {effect[0]:.3f} N m (slow) and {effect[1]:.3f} N m "
            f"(fast)\n"
            f"truth inside: exact {said['exact']}, Gauss-Seidel {said['gauss-seidel']}, with "
            f"outliers {said['outliers']}, "
            f"trimmed {said['trimmed']}; "
            f"WLS inside Gauss-Seidel: "
            f"{'yes' if found['boxes']['gauss-seidel']['contains_wls'] else 'NO'}\n"
            f"{found['outliers']['count']} outliers, not told: {found['outliers']['without']}\n"
            f"told: the box holds whichever they are; trimmed: {found['outliers']['removed']} "
            f"equations removed, and the "
            "box holds if these are the outliers",
            text_table(
                ["width of the exact box (units as above) by error bound [N m]", *TABLES], study
            ),
        ]
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--plant", default="pinocchio", help="pinocchio or gough")
    parser.add_argument("--plot", help="write widths against the error bound to this SVG file")
    parser.add_argument("--json", action="store_true", help="print figures as JSON")
    options = parser.parse_args()
    found = run(options.plant)
    print(json.dumps(found, indent=1) if options.json else table(found))
    if options.plot:
        bounds, widths = found["study"]["error_bounds"], np.array(found["study"]["width"])
        curves = {
            symbol: (bounds, widths[:, found["parameters"].index(name)] / value)
            for symbol, (name, _, _, value, _) in TABLES.items()
            if symbol[-1] in "1cn" or symbol == "M_nac"
        }
        save(options.plot, [("exact boxes", "error bound [N m]", "width / true value", curves)])


if __name__ == "__main__":
    main()
