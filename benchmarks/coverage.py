"""Do 95 % intervals hold the truth 95 % of the time? Every bundled robot with mass, defaults everywhere, ten noises.

Designed trajectory, six periods on the virtual robot, Gauss-Markov. What is short of 95 % is bias: filtered positions,
friction about zero velocity.
"""

from __future__ import annotations

import numpy as np

from gough.engine import Model
from gough.excitation import design
from gough.identification import identify
from gough.mechanism import load_robot
from gough.study.demo import truth_table
from gough.virtual import record, simulate

ROBOTS = (("five_bar", False), ("h4", False), ("redundant", False), ("delta", False), ("palida", True),
          ("palida", False), ("upv", False), ("serial6", False))
NOISES = 10


def main() -> list[tuple[str, str, str, str]]:
    """Return rows: robot, share of the intervals that hold, mean error and scatter of the errors in sigmas."""
    rows = []
    for name, tied in ROBOTS:
        model = Model(load_robot(name))
        plan = design(model, starts=1, iterations=40, seed=0, tie_legs=tied)
        run = simulate(model, plan.trajectory, periods=6)
        tables = [truth_table(name, identify(model, [record(run, seed=seed)], tie_legs=tied).estimate, tied)
                  for seed in range(NOISES)]
        held = np.mean([[within for *_, within in table] for table in tables])
        errors = np.array([[(value - true) / std for _, true, value, std, _ in table] for table in tables])
        bias, scatter = np.sqrt(np.mean(errors.mean(axis=0) ** 2)), np.sqrt(np.mean(errors.var(axis=0, ddof=1)))
        rows.append((f"{name}{', legs tied' if tied else ''}, {errors.shape[1]} parameters", f"{100 * held:.1f} % hold",
                     f"bias {bias:.2f} sigma", f"scatter {scatter:.2f} sigma"))
    return rows


if __name__ == "__main__":
    for row in main():
        print(" | ".join(row), flush=True)
