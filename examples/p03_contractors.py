"""The contractors of P03 as written: C_GS without preconditioning, and the steps of C_GSP that
contract [A] and [b].

    python examples/p03_contractors.py

Plain. As written (29) has zeros on its diagonal. Pairing theta_j with a row k_j whose entry W[k_j,
j] is not zero (and the other rows with their own z, the last p with the z of the chosen rows) makes
it non-null, and with z = 0 the step of C_GS for theta_j is

    theta_j  <-  theta_j  cut with  ([Y_k] - sum_(i != j) W_ki theta_i) / W_kj,    k = k_j.

Which rows to choose is left open by P03. Here all choices are taken at once: every k with W_kj != 0
is a valid pivot, an intersection of contractors is a contractor, and it is the tightest a plain
sweep can give.

Backward. As printed, C_GSP ends by contracting [b] with A_0 [b'] and [A] with A_0 [A'], which C_GS
has left unchanged: nothing can happen. Here they are contracted by the equation they belong to, and
the sweep starts again with the smaller [A] and [b].

The script prints the widths of the boxes of the H4 (examples/h4_bounds.py) by each of them beside
the exact box.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gough.bounding.gauss_seidel import Empty, cut, sweep
from gough.bounding.messages import explain_contradiction
from gough.bounding.solve import BoundedProblem, ExactBox
from gough.core.display import text_table
from gough.core.intervals import Interval


@dataclass(frozen=True, kw_only=True, eq=False)
class Contraction:
    """What is left after contraction.

    Args:
        box: Of the parameters, (p,).
        regressor: (n, p), smaller than given only with backward steps.
        effort: (n,), likewise. [row unit]
    """

    box: Interval
    regressor: Interval
    effort: Interval


def contract(
    problem: BoundedProblem,
    *,
    preconditioned: bool = False,
    backward: bool = False,
    sweeps: int = 50,
    tolerance: float = 1e-3,
) -> Contraction:
    """Contract the prior box, and with `backward` also regressor and effort.

    Args:
        problem: What to contract.
        preconditioned: Multiply by the inverse of the midpoint first (C_GSP); otherwise C_GS.
        backward: Also contract the intervals of regressor and effort, and use them.
        sweeps: At most so many.
        tolerance: Stop when a sweep narrows no parameter by more than this fraction of its width.

    Raises:
        InconsistentData: The feasible set is empty.
    """
    equations = problem.equations
    box, regressor, effort = problem.prior, equations.regressor, equations.effort_interval
    try:
        for _ in range(sweeps):
            before = box.upper - box.lower
            box = (
                sweep(regressor, effort, equations.bound, box)
                if preconditioned
                else plain_sweep(regressor, effort, box)
            )
            if backward:
                regressor, effort = backward_steps(regressor, effort, box)
            if not (box.upper - box.lower < (1 - tolerance) * before).any():
                break
    except Empty:
        raise explain_contradiction(problem) from None
    return Contraction(box=box, regressor=regressor, effort=effort)


def _others(terms: Interval) -> list[Interval]:
    """Return for each j the sum over i > j of the terms, (n, p) -> p times (n,)."""
    n, p = terms.lower.shape
    sums = [Interval.point(np.zeros(n))]
    for j in range(p - 1, 0, -1):
        sums.append(sums[-1] + terms[:, j])
    return sums[::-1]


def plain_sweep(regressor: Interval, effort: Interval, box: Interval) -> Interval:
    """Contract the parameters one after the other, each with all rows."""
    after = _others(regressor * box)
    before = Interval.point(np.zeros(len(effort.lower)))
    box = Interval(box.lower.copy(), box.upper.copy())
    for j in range(len(box.lower)):
        column = regressor[:, j]
        reach = (effort - (before + after[j])) / column
        part = cut(box[j], Interval(reach.lower.max(), reach.upper.min()))
        box.lower[j], box.upper[j] = part.lower, part.upper
        before = before + column * part
    return box


def backward_steps(
    regressor: Interval, effort: Interval, box: Interval
) -> tuple[Interval, Interval]:
    """Contract the entries of [W] and [Y] by their own equation: Y_k = sum_i W_ki theta_i."""
    terms = regressor * box
    after = _others(terms)
    before = Interval.point(np.zeros(len(effort.lower)))
    low, high = regressor.lower.copy(), regressor.upper.copy()
    for j in range(len(box.lower)):
        part = cut(regressor[:, j], (effort - (before + after[j])) / box[j])
        low[:, j], high[:, j] = part.lower, part.upper
        before = before + terms[:, j]
    return Interval(low, high), cut(effort, before)


def main() -> None:
    """Print widths."""
    from h4_bounds import experiments

    study = experiments()
    problem = study.problem()
    boxes = {"exact": ExactBox().fit(problem).width}
    for name, settings in (
        ("C_GS", {}),
        ("C_GS, backward", {"backward": True}),
        ("C_GSP", {"preconditioned": True}),
        ("C_GSP, backward", {"preconditioned": True, "backward": True}),
    ):
        box = contract(problem, **settings).box
        assert box.contains(study.truth).all()
        boxes[name] = box.upper - box.lower
    print(
        text_table(
            ["width of the box", *boxes],
            [
                [name, *(f"{widths[k]:.4g}" for widths in boxes.values())]
                for k, name in enumerate(problem.parameters)
            ],
        )
    )


if __name__ == "__main__":
    main()
