"""Check a stored box in rational arithmetic. Needs nothing but Python:  python verify.py box.json

The file says which equations there are, |effort - W theta| <= bound for some W between `lower` and `upper`, that at
most q of them (`outliers`) are wrong, and what was known of theta before. It proves its box by sums of equations:
c theta >= lambda g + min over the box so far of (c - lambda G) theta. A bound needs q + 1 such sums without a common
equation, because one of them is then free of wrong ones; sets of equations that nothing in the box satisfies count too.
No number of the file is trusted but equations and prior, no rounding happens, and no code is shared with the solver.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any

Box = list[tuple[Fraction | None, Fraction | None]]  # None: unbounded


class Rejected(Exception):
    """A stored box is not proven by its file."""


def _require(condition: bool, why: str) -> None:
    if not condition:
        raise Rejected(why)


def _box(lower: Sequence[Any], upper: Sequence[Any]) -> Box:
    return [(None if low == "-inf" else Fraction(low), None if high == "inf" else Fraction(high))
            for low, high in zip(lower, upper, strict=True)]


class _Checker:
    def __init__(self, proof: dict[str, Any]) -> None:
        self.effort, self.bound = list(map(Fraction, proof["effort"])), list(map(Fraction, proof["bound"]))
        self.lower = [list(map(Fraction, row)) for row in proof["lower"]]
        self.upper = [list(map(Fraction, row)) for row in proof["upper"]] or self.lower
        self.outliers = int(proof["outliers"])
        names = list(zip(proof["sample"], proof["row"], strict=True))
        _require(len(set(names)) == len(names), "an equation is there twice, so that proofs can share it unseen")
        for e, low, high, _ in zip(self.bound, self.lower, self.upper, names, strict=True):
            _require(e > 0 and all(a <= b for a, b in zip(low, high, strict=True)), "an interval is empty")

    def minimum(self, proof: dict[str, Any], cost: list[Fraction], box: Box) -> Fraction | None:
        """Return what the weighted sum of equations proves c theta to be at least; None: nothing."""
        total, left = Fraction(0), list(cost)
        for k, given in zip(proof["equations"], map(Fraction, proof["weights"]), strict=True):
            side, weight = (1 if given > 0 else -1), abs(given)
            total += weight * (side * self.effort[k] - self.bound[k])
            for j, (a, b) in enumerate(box):
                low, slope = sorted((side * self.lower[k][j], side * self.upper[k][j]))
                if low < slope and (a is None or a < 0):
                    high, slope = slope, low
                    if b is None or b > 0:  # max(low t, high t) <= slope t + intercept in the box, whatever the slope
                        if a is None or b is None:
                            return None
                        slope = Fraction((float(high) * float(b) - float(low) * float(a)) / (float(b) - float(a)))
                        total -= weight * max((low - slope) * a, (high - slope) * b)
                left[j] -= weight * slope
        for factor, (a, b) in zip(left, box):
            end = a if factor > 0 else b
            if factor and end is None:
                return None
            total += factor * (end or 0)
        return total

    def share_none(self, proofs: Sequence[dict[str, Any]]) -> None:
        every = [k for proof in proofs for k in proof["equations"]]
        _require(len(set(every)) == len(every) and all(k >= 0 for k in every), "proofs share an equation")

    def start(self, sets: Sequence[dict[str, Any]], box: Box) -> Box:
        """Bound unbounded parameters: |theta| <= |1 - X W| |theta| + |X| (|effort| + bound + |W theta known|)."""
        free = [j for j, (a, b) in enumerate(box) if a is None or b is None]
        if not free or len(sets) <= self.outliers:
            return box
        self.share_none(sets)
        reach = [Fraction(0)] * len(box)
        for one in sets:
            rows, size = one["equations"], dict(zip(free, map(Fraction, one["size"]), strict=True))
            known = [abs(self.effort[k]) + self.bound[k] + sum(
                max(abs(self.lower[k][j]), abs(self.upper[k][j])) * max(abs(a or 0), abs(b or 0))
                for j, (a, b) in enumerate(box) if j not in free) for k in rows]
            share = Fraction(0)
            for i, line in zip(free, one["matrix"], strict=True):
                x, rest = list(map(Fraction, line)), Fraction(0)
                for j in free:
                    ends = [sorted((u * self.lower[k][j], u * self.upper[k][j])) for u, k in zip(x, rows)]
                    rest += size[j] * max(abs(sum(end[side] for end in ends) - (i == j)) for side in (0, 1))
                _require(0 < size[i] >= sum(abs(u) * v for u, v in zip(x, known, strict=True)), "a start is too small")
                share = max(share, rest / size[i])
            _require(share < 1, "a start's matrix does not invert its equations")
            reach = [max(r, size.get(j, Fraction(0)) / (1 - share)) for j, r in enumerate(reach)]
        return [(a, b) if j not in free else (-r if a is None else max(a, -r), r if b is None else min(b, r))
                for j, ((a, b), r) in enumerate(zip(box, reach))]

    def narrowed(self, rounds: Sequence[dict[str, Any]], box: Box) -> Box | None:
        """Return what rounds of proofs leave of a box; None: nothing."""
        for done in rounds:
            shared, found = done["contradictions"], list(box)
            self.share_none(shared)
            for proof in shared:
                least = self.minimum(proof, [Fraction(0)] * len(box), box)
                _require(least is not None and least > 0, "equations said to contradict each other do not")
            if len(shared) > self.outliers:
                return None
            for bound in done["bounds"]:
                j, sign, value = bound["parameter"], (-1 if bound["upper"] else 1), Fraction(bound["value"])
                self.share_none([*shared, *bound["proofs"]])
                _require(len(shared) + len(bound["proofs"]) > self.outliers, f"a bound of parameter {j} lacks proofs")
                for proof in bound["proofs"]:
                    least = self.minimum(proof, [Fraction(sign * (i == j)) for i in range(len(box))], box)
                    _require(least is not None and least >= sign * value, f"a bound of parameter {j} is not proven")
                found[j] = (found[j][0], value) if sign < 0 else (value, found[j][1])
            box = found
            if any(a is not None and b is not None and a > b for a, b in box):
                return None
        return box

    def boxes(self, proof: dict[str, Any]) -> list[Box]:
        """Return what is left where each parameter of open sign is negative or positive: all combinations."""
        root = self.narrowed(proof["rounds"], self.start(proof["start"], _box(proof["prior_lower"],
                                                                               proof["prior_upper"])))
        cases = {tuple(sorted((int(j), s) for j, s in case["signs"].items())): case for case in proof["cases"]}
        split = sorted({j for signs in cases for j, _ in signs})
        left = []
        for signs in product((-1, 1), repeat=len(split)):
            case, part = cases.get(tuple(zip(split, signs))), list(root or [])
            _require(case is not None, "a combination of signs is missing")
            for j, sign in zip(split, signs):
                part[j] = (Fraction(0), part[j][1]) if sign > 0 else (part[j][0], Fraction(0))
            left.append(None if root is None or case is None else self.narrowed(case["rounds"], part))
        return [box for box in left if box is not None]


def verify(content: dict[str, Any]) -> str:
    """Check a stored enclosure and return in words what is proven.

    Raises:
        Rejected: The file does not prove its box.
    """
    certificate = content.get("certificate", {})
    proof = certificate.get("proof")
    _require(bool(proof), f"'{content.get('method')}' has no stored proof; exact boxes have")
    try:
        left, stated = _Checker(proof).boxes(proof), _box(content["lower"], content["upper"])
        _require(bool(left), "nothing is left: the equations contradict each other")
        for j, (name, (low, high)) in enumerate(zip(content["parameters"], stated, strict=True)):
            for a, b in (box[j] for box in left):
                _require((low is None or (a is not None and low <= a)) and (high is None or (b is not None and b <= high)),
                         f"the bounds of '{name}' are tighter than what is proven")
        _require(certificate.get("outliers") == proof["outliers"], "the outliers of certificate and proof differ")
    except (KeyError, TypeError, ValueError, IndexError, OverflowError, AttributeError, ZeroDivisionError) as error:
        raise Rejected(f"the proof is damaged ({type(error).__name__}: {error})") from error
    gone = len(certificate.get("removed", ()))
    return (f"proven: the box of {len(stated)} parameters holds whenever at most {proof['outliers']} equations are wrong "
            f"({len(proof['effort'])} equations cited)" + (f", {gone} left out by a heuristic aside" if gone else ""))


if __name__ == "__main__":
    try:
        print(verify(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))))
    except Rejected as rejected:
        sys.exit(f"rejected: {rejected}")
