"""Time the design of a PaLiDA trajectory against IPOPT: python benchmarks/design.py

Problem: n_h = 5, period 3.09 s (AH09), D-criterion, all limits of the robot file (pose, task rates,
motors, efforts, singularity) at 120 samples: 66 variables, 5160 two-sided constraints. Everybody
gets the same problem, the same kernels and the same start. Peers are IPOPT (in CasADi) with forward
differences, each point differentiated once for objective and constraints together, and IPOPT with
our exact derivatives. IPOPT approximates the Hessian by L-BFGS in both.

Compared is the time until a point inside all limits has the objective that the worse of two ends
with.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time

import casadi as ca
import numpy as np

from gough.engine.base import base_parameters
from gough.engine.model import Model
from gough.excitation import collect_limits, design
from gough.excitation.design import effort_covariance
from gough.excitation.problem import DesignPoint, DesignProblem
from gough.excitation.search import random_starts
from gough.excitation.solver import InteriorPoint, interior_point
from gough.excitation.trajectory_form import TrajectoryForm
from gough.mechanism import load_robot

PERIOD, HARMONICS, SAMPLES = 3.09, 5, 120


def build(robot: str) -> DesignProblem:
    """Return the problem that all solvers get."""
    model = Model(load_robot(robot))
    limits = collect_limits(model)
    base = base_parameters(model, tie_legs=True)
    form = TrajectoryForm(
        harmonics=HARMONICS,
        frequency=1 / PERIOD,
        payload=None,
        weight=PERIOD * model.mechanism.noise.rate / SAMPLES,
        samples=SAMPLES,
        at_rest=False,
        free_frequency=False,
    )
    return DesignProblem(
        model,
        [form],
        by="task",
        criterion="d",
        base=base,
        limits=limits,
        covariance=effort_covariance(model),
        centre=model.home,
    )


class Watch:
    """The problem with a clock: remembers when each feasible objective was first seen."""

    def __init__(self, problem: DesignProblem, start: DesignPoint) -> None:
        self.problem, self.near = problem, start
        self.began = time.perf_counter()
        self.seen: list[tuple[float, float]] = []
        self.evaluations = 0

    def evaluate(
        self, variables: np.ndarray, near: DesignPoint | None = None
    ) -> DesignPoint | None:
        self.evaluations += 1
        point = self.problem.evaluate(variables, near or self.near)
        if point is not None:
            self.near = point
            if np.abs(point.constraints).max() <= 1 + 1e-8:
                self.seen.append((time.perf_counter() - self.began, point.objective))
        return point

    def gradient(self, point: DesignPoint) -> np.ndarray:
        return self.problem.gradient(point)

    def linearise(self, point: DesignPoint):
        return self.problem.linearise(point)

    @property
    def best(self) -> float:
        return min((objective for _, objective in self.seen), default=np.inf)

    def time_to(self, target: float) -> float:
        return next((t for t, objective in self.seen if objective <= target), np.inf)


class Shared:
    """Objective, constraints and their derivatives at the last points asked for."""

    def __init__(
        self, watch: Watch, size: int, constraints: int, exact: bool, step: float = 1e-7
    ) -> None:
        self.watch, self.exact, self.step = watch, exact, step
        self.size, self.constraints = size, constraints
        self.values: dict[bytes, tuple[float, np.ndarray, DesignPoint | None]] = {}
        self.derivatives: dict[bytes, tuple[np.ndarray, np.ndarray]] = {}

    def value(self, x: np.ndarray) -> tuple[float, np.ndarray, DesignPoint | None]:
        key = x.tobytes()
        if key not in self.values:
            point = self.watch.evaluate(x)
            bad = np.full(self.constraints, np.nan)
            self.values = {
                key: (np.nan, bad, None)
                if point is None
                else (point.objective, point.constraints.ravel(), point)
            }
        return self.values[key]

    def derivative(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        key = x.tobytes()
        if key not in self.derivatives:
            objective, constraints, point = self.value(x)
            if self.exact and point is not None:
                operator = self.watch.linearise(point)
                slopes = np.stack([operator.times(e).ravel() for e in np.eye(self.size)], axis=1)
                gradient = self.watch.gradient(point)
            else:
                gradient, slopes = np.empty(self.size), np.empty((self.constraints, self.size))
                for k in range(self.size):
                    moved = x.copy()
                    moved[k] += self.step
                    other = self.watch.problem.evaluate(moved, point)
                    self.watch.evaluations += 1
                    gradient[k] = (
                        np.nan if other is None else (other.objective - objective) / self.step
                    )
                    slopes[:, k] = (
                        np.nan
                        if other is None
                        else (other.constraints.ravel() - constraints) / self.step
                    )
            self.derivatives = {key: (gradient, slopes)}
        return self.derivatives[key]


class Slopes(ca.Callback):
    def __init__(self, name: str, shared: Shared, which: int, opts: dict) -> None:
        ca.Callback.__init__(self)
        self.shared, self.which = shared, which
        self.construct(name, opts)

    def get_n_in(self) -> int:
        return 2

    def get_n_out(self) -> int:
        return 1

    def get_sparsity_in(self, i: int) -> ca.Sparsity:
        rows = 1 if self.which == 0 else self.shared.constraints
        return ca.Sparsity.dense(self.shared.size, 1) if i == 0 else ca.Sparsity(rows, 1)

    def get_sparsity_out(self, i: int) -> ca.Sparsity:
        return ca.Sparsity.dense(
            1 if self.which == 0 else self.shared.constraints, self.shared.size
        )

    def eval(self, arguments: list) -> list:
        found = self.shared.derivative(np.array(arguments[0]).ravel())[self.which]
        return [ca.DM(found.reshape(-1, self.shared.size))]


class Values(ca.Callback):
    def __init__(self, name: str, shared: Shared, which: int) -> None:
        ca.Callback.__init__(self)
        self.shared, self.which = shared, which
        self.construct(name, {})

    def get_n_in(self) -> int:
        return 1

    def get_n_out(self) -> int:
        return 1

    def get_sparsity_in(self, i: int) -> ca.Sparsity:
        return ca.Sparsity.dense(self.shared.size, 1)

    def get_sparsity_out(self, i: int) -> ca.Sparsity:
        return ca.Sparsity.dense(1 if self.which == 0 else self.shared.constraints, 1)

    def eval(self, arguments: list) -> list:
        return [ca.DM(self.shared.value(np.array(arguments[0]).ravel())[self.which])]

    def has_jacobian(self) -> bool:
        return True

    def get_jacobian(self, name: str, inames: list, onames: list, opts: dict) -> ca.Function:
        self.slopes = Slopes(name, self.shared, self.which, opts)
        return self.slopes


def ipopt(watch: Watch, start: DesignPoint, exact: bool, iterations: int, seconds: float) -> str:
    shared = Shared(watch, len(start.variables), start.constraints.size, exact)
    objective, constraints = Values("objective", shared, 0), Values("constraints", shared, 1)
    x = ca.MX.sym("x", shared.size)
    solver = ca.nlpsol(
        "solver",
        "ipopt",
        {"x": x, "f": objective(x), "g": constraints(x)},
        {
            "ipopt.hessian_approximation": "limited-memory",
            "ipopt.max_iter": iterations,
            "ipopt.print_level": 0,
            "ipopt.max_wall_time": seconds,
            "ipopt.sb": "yes",
            "print_time": False,
            "ipopt.tol": 1e-4,
            "ipopt.bound_relax_factor": 0.0,
            "ipopt.mu_strategy": "adaptive",
            "show_eval_warnings": False,
        },
    )
    watch.began = time.perf_counter()
    solver(x0=start.variables, lbg=-1, ubg=1)
    return str(solver.stats()["return_status"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--iterations", type=int, default=200, help="most iterations of IPOPT")
    parser.add_argument("--seconds", type=float, default=300.0, help="most time for each IPOPT run")
    parser.add_argument("--robot", default="palida", help="bundled robot or robot file")
    parser.add_argument("--small", action="store_true", help="few iterations on the five-bar")
    arguments = parser.parse_args()
    if arguments.small:
        arguments.robot = "five_bar"
        arguments.iterations = 3
    with tempfile.TemporaryDirectory() as directory:
        os.environ["GOUGH_CACHE_DIR"] = directory
        began = time.perf_counter()
        found = design(
            Model(load_robot(arguments.robot)),
            frequency=1 / PERIOD,
            harmonics=HARMONICS,
            tie_legs=True,
            starts=1 if arguments.small else 4,
        )
        print(
            f"gough.design, all compilation included: {time.perf_counter() - began:.1f} "
            f"s, "
            f"-ln det {found.value:.2f}, {found.evaluations} evaluations, {found.violations} "
            f"violations"
        )
        problem = build(arguments.robot)
        start = random_starts(problem, 1, seed=0)[0]
        problem.gradient(start)  # compiles
        print(
            f"{problem.size} variables, {start.constraints.size} constraints, start at "
            f"{start.objective:.2f}"
        )
        ours = Watch(problem, start)
        interior_point(
            ours, start, -1.0, 1.0, InteriorPoint(iterations=10 if arguments.small else 300)
        )
        total = time.perf_counter() - ours.began
        print(
            f"interior point, exact derivatives: {ours.best:.2f} in {total:.2f} s, "
            f"{ours.evaluations} evaluations"
        )
        for name, exact in (
            ("IPOPT, exact derivatives", True),
            ("IPOPT, finite differences", False),
        ):
            peer = Watch(problem, start)
            status = ipopt(peer, start, exact, arguments.iterations, arguments.seconds)
            total = time.perf_counter() - peer.began
            target = max(ours.best, peer.best)
            print(
                f"{name}: {peer.best:.2f} in {total:.1f} s, {peer.evaluations} evaluations, "
                f"{status}; to "
                f"{target:.2f}: ours {ours.time_to(target):.2f} s, peer {peer.time_to(target):.2f} "
                f"s, ratio "
                f"{peer.time_to(target) / ours.time_to(target):.0f}"
            )


if __name__ == "__main__":
    main()
