"""Check a stored box in rational arithmetic. Needs nothing but Python:  python verify.py box.json

The file says which equations there are, |effort - W theta| <= bound for some W between `lower` and
`upper`, that at most q of them (`outliers`) are wrong, and what was known of theta before. It
proves its box by sums of equations: c theta >= lambda g + min over the box so far of (c - lambda G)
theta. A bound needs q + 1 such sums without a common equation, because one of them is then free of
wrong ones; sets of equations that nothing in the box satisfies count too. No number of the file is
trusted but equations and prior, no rounding happens, and no code is shared with the solver.
"""

from __future__ import annotations

import json
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

Box = list[tuple[Any, Any]]  # fractions, or an infinite float where nothing is known


class Rejected(Exception):
    """A stored box is not proven by its file."""


def _require(condition: bool, why: str) -> None:
    if not condition:
        raise Rejected(why)


def _box(lower: list[Any], upper: list[Any]) -> Box:
    return [
        (
            float(low) if low == "-inf" else Fraction(low),
            float(high) if high == "inf" else Fraction(high),
        )
        for low, high in zip(lower, upper, strict=True)
    ]


class _Checker:
    def __init__(self, proof: dict[str, Any]) -> None:
        self.effort, self.bound = (
            [*map(Fraction, proof["effort"])],
            [*map(Fraction, proof["bound"])],
        )
        self.lower = [[*map(Fraction, row)] for row in proof["lower"]]
        self.upper = [[*map(Fraction, row)] for row in proof["upper"]] or self.lower
        self.outliers = int(proof["outliers"])
        names = list(zip(proof["sample"], proof["row"], strict=True))
        _require(
            len(set(names)) == len(names),
            "an equation is there twice, so that proofs can share it unseen",
        )
        _require(self.outliers == proof["outliers"] >= 0, "the number of outliers is none")
        for e, low, high, _ in zip(self.bound, self.lower, self.upper, names, strict=True):
            _require(
                e > 0 and all(a <= b for a, b in zip(low, high, strict=True)),
                "an interval is empty",
            )

    def minimum(self, proof: dict[str, Any], cost: list[Fraction], box: Box) -> Any:
        """Return what the weighted sum of equations proves cost theta to be at least."""
        total, left = Fraction(0), list(cost)
        for k, weight in zip(proof["equations"], map(Fraction, proof["weights"]), strict=True):
            side, weight = (1 if weight > 0 else -1), abs(weight)
            total += weight * (side * self.effort[k] - self.bound[k])
            for j, ((a, b), *ends) in enumerate(
                zip(box, self.lower[k], self.upper[k], strict=True)
            ):
                low, high = sorted(side * end for end in ends)
                slope = high if a >= 0 else low
                if (
                    low < high and a < 0 < b
                ):  # max(low t, high t) <= slope t + intercept in the box, any slope will do
                    slope = Fraction(
                        (float(high) * float(b) - float(low) * float(a)) / (float(b) - float(a))
                    )
                    total -= weight * max((low - slope) * a, (high - slope) * b)
                left[j] -= weight * slope
        return total + sum(
            factor * (a if factor > 0 else b) for factor, (a, b) in zip(left, box) if factor
        )

    def start(self, sets: list[dict[str, Any]], box: Box) -> Box:
        """Bound unbounded parameters: |theta| <= |1 - X W| |theta| + |X| (|effort| + bound + |W
        theta known|).
        """
        free = [j for j, (a, b) in enumerate(box) if float("inf") in (-a, b)]
        if not free or len(sets) <= self.outliers:
            return box
        _share_none(sets)
        reach = dict.fromkeys(free, Fraction(0))
        for one in sets:
            rows, size, share = (
                one["equations"],
                dict(zip(free, map(Fraction, one["size"]), strict=True)),
                Fraction(0),
            )
            known = [
                abs(self.effort[k])
                + self.bound[k]
                + sum(
                    max(abs(self.lower[k][j]), abs(self.upper[k][j])) * max(abs(a), abs(b))
                    for j, (a, b) in enumerate(box)
                    if j not in free
                )
                for k in rows
            ]
            for i, line in zip(free, one["matrix"], strict=True):
                x, rest = [*map(Fraction, line)], Fraction(0)
                for j in free:
                    ends = [
                        sorted((u * self.lower[k][j], u * self.upper[k][j]))
                        for u, k in zip(x, rows)
                    ]
                    rest += size[j] * max(
                        abs(sum(end[side] for end in ends) - (i == j)) for side in (0, 1)
                    )
                _require(
                    0 < size[i] >= sum(abs(u) * v for u, v in zip(x, known, strict=True)),
                    "a start is too small",
                )
                share = max(share, rest / size[i])
            _require(share < 1, "a start's matrix does not invert its equations")
            reach = {j: max(r, size[j] / (1 - share)) for j, r in reach.items()}
        return [
            (max(a, -reach[j]), min(b, reach[j])) if j in reach else (a, b)
            for j, (a, b) in enumerate(box)
        ]

    def narrowed(self, rounds: list[dict[str, Any]], box: Box) -> Box | None:
        """Return what rounds of proofs leave of a box; None: nothing."""
        for done in rounds:
            shared, found = done["contradictions"], list(box)
            _share_none(shared)
            for proof in shared:
                _require(
                    self.minimum(proof, [Fraction(0)] * len(box), box) > 0,
                    "a contradiction is none",
                )
            if len(shared) > self.outliers:
                return None
            for bound in done["bounds"]:
                j, sign, value = (
                    bound["parameter"],
                    (-1 if bound["upper"] else 1),
                    Fraction(bound["value"]),
                )
                _share_none([*shared, *bound["proofs"]])
                _require(
                    j in range(len(box)), f"there is no parameter {j}"
                )  # -1 would be the last, but unproven
                _require(
                    len(shared) + len(bound["proofs"]) > self.outliers,
                    f"a bound of parameter {j} lacks proofs",
                )
                for proof in bound["proofs"]:
                    least = self.minimum(
                        proof, [Fraction(sign * (i == j)) for i in range(len(box))], box
                    )
                    _require(least >= sign * value, f"a bound of parameter {j} is not proven")
                found[j] = (value, found[j][1]) if sign > 0 else (found[j][0], value)
            box = found
            if any(a > b for a, b in box):
                return None
        return box


def _share_none(proofs: list[dict[str, Any]]) -> None:
    every = [k for proof in proofs for k in proof["equations"]]
    _require(
        len(set(every)) == len(every) and min(every, default=0) >= 0, "proofs share an equation"
    )


def verify(content: dict[str, Any]) -> str:
    """Check a stored enclosure and return in words what is proven.

    Raises:
        Rejected: The file does not prove its box.
    """
    try:
        certificate, left = content["certificate"], []
        _require(
            "proof" in certificate, f"'{content['method']}' has no stored proof; exact boxes have"
        )
        proof, stated = certificate["proof"], _box(content["lower"], content["upper"])
        checker = _Checker(proof)
        start = checker.start(proof["start"], _box(proof["prior_lower"], proof["prior_upper"]))
        root = checker.narrowed(proof["rounds"], start)
        signs = {tuple(sorted(case["signs"].items())) for case in proof["cases"]}
        split = {
            j for some in signs for j, _ in some
        }  # each of these negative or positive: all combinations
        _require(
            len(signs) == 2 ** len(split)
            and all(len(some) == len(split) for some in signs)
            and {sign for some in signs for _, sign in some} <= {-1, 1},
            "a combination of signs is missing",
        )
        for case in proof["cases"] if root else ():
            part = [
                (
                    max(a, 0) if case["signs"].get(str(j)) == 1 else a,
                    min(b, 0) if case["signs"].get(str(j)) == -1 else b,
                )
                for j, (a, b) in enumerate(root or [])
            ]
            left += [box for box in [checker.narrowed(case["rounds"], part)] if box]
        _require(bool(left), "nothing is left: the equations contradict each other")
        for name, (low, high), *found in zip(content["parameters"], stated, *left, strict=True):
            _require(
                all(low <= a and b <= high for a, b in found),
                f"the bounds of '{name}' are not proven",
            )
    except (KeyError, TypeError, ValueError, IndexError, ArithmeticError, AttributeError) as error:
        raise Rejected(f"the file is damaged ({type(error).__name__}: {error})") from error
    gone = len(certificate.get("removed", ()))
    return (
        f"proven: the box of {len(stated)} parameters holds if at most {proof['outliers']} "
        f"equations are wrong; "
        f"{len(proof['effort'])} equations cited"
        + (f", {gone} left out by a heuristic" if gone else "")
    )


if __name__ == "__main__":
    try:
        print(verify(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))))
    except Rejected as rejected:
        sys.exit(f"rejected: {rejected}")
