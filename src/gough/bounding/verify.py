"""Check a stored box in rational arithmetic. Needs nothing but Python:  python verify.py box.json

The file lists equations, |effort - W theta| <= bound for some W between `lower` and
`upper`, the number q of them that may be wrong (`outliers`), and the prior of theta. It
proves its box by sums of equations: c theta >= lambda g + min over the box so far of (c
- lambda G) theta. A bound needs q + 1 such sums without a common equation, because one
of them is then free of wrong ones; sets of equations that nothing in the box satisfies
are proofs too. No rounding happens, and no code is shared with the solver.

The file has a digest of its content, so any change after it was written
is found. Who forges a file can compute a new digest; then prior, error
bounds and number of outliers must still be those of the settings in the
file. What a file alone cannot prove is returned as assumed: that the
equations belong to the robot, the logs and the settings whose digests
it states. `gough bounds --verify box.json --robot R --log L` derives
the equations again.
"""

from __future__ import annotations

import hashlib
import json
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

# fractions, or an infinite float where nothing is known
Box = list[tuple[Any, Any]]
INFINITE = float("inf")
FORMAT = 2  # of the files that this checker reads
GUARANTEE = "safe dual bounds of linear programmes in outward-rounded interval arithmetic"
UNPROVEN = ("smallest_fitting", "gap", "relative_gap", "notices")


class Rejected(Exception):
    """A stored box is not proven by its file."""


def verify(content: dict[str, Any]) -> str:
    """Check a stored enclosure and return in words what is proven, and what is assumed.

    Raises:
        Rejected: The file does not prove its box.
    """
    try:
        _check_digest(content)
        certificate = content["certificate"]
        _require(
            "proof" in certificate,
            f"'{content['method']}' has no stored proof; exact boxes have",
        )
        proof = certificate["proof"]
        _check_names(content)
        _check_statements(content)
        stated = _box(content["lower"], content["upper"])
        boxes = _proven_boxes(proof)
        _require(bool(boxes), "nothing is left: the equations contradict each other")
        for j, (name, limits) in enumerate(zip(content["parameters"], stated, strict=True)):
            lowest = min(box[j][0] for box in boxes)
            highest = max(box[j][1] for box in boxes)
            _require(limits == (lowest, highest), f"the bounds of '{name}' are not proven")
        lines = _assumptions(content)
    except (
        KeyError,
        TypeError,
        ValueError,
        IndexError,
        ArithmeticError,
        AttributeError,
    ) as error:
        raise Rejected(f"the file is damaged ({type(error).__name__}: {error})") from error
    statement = (
        f"proven: the box of {len(stated)} parameters holds if at most {proof['outliers']} "
        f"equations are wrong; {len(proof['effort'])} equations cited"
    )
    removed = len(certificate.get("removed", ()))
    if removed:
        statement += f", {removed} left out by a heuristic"
    return "\n".join([statement, "assumed:", *(f"  {line}" for line in lines)])


def _check_digest(content: dict[str, Any]) -> None:
    """Require that the content is what the digest in the file was computed from."""
    stated = content["digest"]
    others = {key: entry for key, entry in content.items() if key != "digest"}
    text = json.dumps(others, sort_keys=True, separators=(",", ":"), allow_nan=False)
    computed = hashlib.sha256(text.encode()).hexdigest()
    _require(
        stated == computed,
        "the file was changed after it was written: its content has another digest than it states",
    )


def _check_names(content: dict[str, Any]) -> None:
    """Require one name and one unit for each parameter, and that the file is an enclosure."""
    names = content["parameters"]
    _require(content["kind"] == "enclosure", f"it is of kind '{content['kind']}'")
    _require(content["format"] == FORMAT, f"its format is {content['format']}, not {FORMAT}")
    _require(len(set(names)) == len(names), "a parameter is named twice")
    _require(len(content["units"]) == len(names), "not every parameter has one unit")


def _check_statements(content: dict[str, Any]) -> None:
    """Require that what the file says beside the proof agrees with the proof."""
    certificate = content["certificate"]
    proof = certificate["proof"]
    outliers = proof["outliers"]
    removed = {tuple(pair) for pair in certificate.get("removed", ())}
    cited = set(zip(proof["sample"], proof["row"], strict=True))
    method = "exact box"
    if "removed" in certificate:
        method += ", trimmed (heuristic)"
    elif outliers:
        method = f"box with up to {outliers} outliers"
    _require(content["method"] == method, f"the method is '{method}'")
    _require(certificate["guarantee"] == GUARANTEE, "the guarantee has another text")
    _require(certificate["outliers"] == outliers, "the numbers of outliers differ")
    _require(not cited & removed, "an equation that was left out is cited")
    _require(certificate["equations"] >= len(cited), "more equations are cited than used")
    _require(certificate["proofs"] == _count_proofs(proof), "the number of proofs differs")
    smallest, largest = certificate["error_bound"]
    _require(
        all(smallest <= bound <= largest for bound in proof["bound"]),
        "the error bounds of the equations are not those that the certificate states",
    )
    if content["settings"]:
        _check_settings(content, len(removed))


def _check_settings(content: dict[str, Any], n_removed: int) -> None:
    """Require that prior, error bounds and number of outliers are those of the settings."""
    settings = content["settings"]
    certificate = content["certificate"]
    proof = certificate["proof"]
    trimmed = "removed" in certificate
    _require(settings["solver"] == ("trimmed" if trimmed else "exact"), "the solvers differ")
    if trimmed:
        _require(n_removed <= settings["outliers"], "more equations were left out than allowed")
    _require(
        proof["outliers"] == (0 if trimmed else settings["outliers"]),
        "the numbers of outliers differ",
    )
    if not certificate["source"]["redundant"]:
        stated = [settings["error_bound"]] * 2
        _require(
            certificate["error_bound"] == stated,
            "the error bounds of the equations are not that of the settings",
        )
    prior = settings["prior"]
    if prior is None:  # from the robot file
        return
    limits = zip(proof["prior_lower"], proof["prior_upper"], strict=True)
    for name, (low, high) in zip(content["parameters"], limits, strict=True):
        expected = prior.get(name, ["-inf", "inf"]) if isinstance(prior, dict) else prior
        _require(
            [low, high] == list(expected), f"the prior of '{name}' is not that of the settings"
        )


def _count_proofs(proof: dict[str, Any]) -> int:
    """Return the number of sums of equations in a proof."""
    count = 0
    for case in (proof, *proof["cases"]):
        for proven in case["rounds"]:
            count += len(proven["contradictions"])
            for bound in proven["bounds"]:
                count += len(bound["proofs"])
    return count


def _assumptions(content: dict[str, Any]) -> list[str]:
    """Return what the guarantee rests on and the file alone does not prove."""
    proof = content["certificate"]["proof"]
    smallest, largest = content["certificate"]["error_bound"]
    if content["settings"]:
        lines = _source_lines(content["certificate"]["source"], content["settings"])
    else:
        lines = ["the equations are right as they are in the file; it names no robot and no log"]
    at_most = str(largest) if smallest == largest else f"{smallest} to {largest}, by equation"
    lines.append(f"model and measurement together are off in an equation by at most {at_most}")
    lines.append("the prior:")
    limits = zip(content["units"], proof["prior_lower"], proof["prior_upper"], strict=True)
    for name, (unit, low, high) in zip(content["parameters"], limits, strict=True):
        lines.append(f"  {name} in [{low}, {high}] {unit}")
    lines.append(f"not proven, and no part of the guarantee: {', '.join(UNPROVEN)}")
    return lines


def _source_lines(source: dict[str, Any], settings: dict[str, Any]) -> list[str]:
    """Return what equations and units were derived from."""
    lines = [
        f"Gough {source['version']} derives the equations and units, with the settings in the "
        "file, from",
        f"  robot {source['robot']}, SHA-256 {source['robot_sha256']}",
    ]
    for name, digest in source["logs"]:
        lines.append(f"  log {name}, SHA-256 {digest}")
    if source["gains"]:
        lines.append(f"  drive gains {source['gains']}")
    if source["constants"]:
        lines.append(f"  constants of joint terms {source['constants']}")
    if source["redundant"]:
        lines.append(f"which are those of an error of {settings['error_bound']} on every motor")
    if settings["position_error"] is None:
        lines.append("positions are exact")
    else:
        lines.append(
            f"positions are off by at most {settings['position_error']} m or rad, and the pose has "
            f"no harmonics above {settings['cutoff']} Hz"
        )
    return lines


def _proven_boxes(proof: dict[str, Any]) -> list[Box]:
    """Return the boxes that a proof leaves, one for each combination of signs that is possible."""
    checker = _Checker(proof)
    prior = _box(proof["prior_lower"], proof["prior_upper"])
    start = checker.start(proof["start"], prior)
    root = checker.narrow(proof["rounds"], start)
    _check_signs(proof["cases"])
    boxes: list[Box] = []
    if not root:
        return boxes
    for case in proof["cases"]:
        piece = []
        for j, (a, b) in enumerate(root):
            sign = case["signs"].get(str(j))
            if sign == 1:
                a = max(a, 0)
            if sign == -1:
                b = min(b, 0)
            piece.append((a, b))
        box = checker.narrow(case["rounds"], piece)
        if box:
            boxes.append(box)
    return boxes


def _check_signs(cases: list[dict[str, Any]]) -> None:
    """Require all combinations of signs of the parameters that are split."""
    combinations = {tuple(sorted(case["signs"].items())) for case in cases}
    split = set()
    for combination in combinations:
        for j, sign in combination:
            split.add(j)
            _require(sign in (-1, 1), "a combination of signs is missing")
    complete = all(len(combination) == len(split) for combination in combinations)
    _require(
        complete and len(combinations) == 2 ** len(split),
        "a combination of signs is missing",
    )


class _Checker:
    """The equations of a proof as fractions, and the steps that use them."""

    def __init__(self, proof: dict[str, Any]) -> None:
        self.effort = [Fraction(number) for number in proof["effort"]]
        self.bound = [Fraction(number) for number in proof["bound"]]
        self.lower = [_fractions(row) for row in proof["lower"]]
        self.upper = [_fractions(row) for row in proof["upper"]] or self.lower
        self.outliers = int(proof["outliers"])
        names = list(zip(proof["sample"], proof["row"], strict=True))
        numbers = [*proof["sample"], *proof["row"]]
        whole = all(type(number) is int for number in numbers)
        _require(whole, "an equation is not named by whole numbers")
        _require(len(set(names)) == len(names), "an equation is listed twice")
        _require(
            self.outliers == proof["outliers"] >= 0,
            "the number of outliers is not that of the settings",
        )
        for bound, low, high, _ in zip(self.bound, self.lower, self.upper, names, strict=True):
            ordered = all(a <= b for a, b in zip(low, high, strict=True))
            _require(bound > 0 and ordered, "an interval is empty")

    def minimum(self, proof: dict[str, Any], cost: list[Fraction], box: Box) -> Any:
        """Return the lower bound of cost theta that a weighted sum of equations proves."""
        total = Fraction(0)
        reduced_cost = list(cost)
        weights = _fractions(proof["weights"])
        for k, signed_weight in zip(proof["equations"], weights, strict=True):
            weight = abs(signed_weight)
            side = 1 if signed_weight > 0 else -1
            total += weight * (side * self.effort[k] - self.bound[k])
            entries = zip(box, self.lower[k], self.upper[k], strict=True)
            for j, ((a, b), lower, upper) in enumerate(entries):
                low, high = sorted((side * lower, side * upper))
                slope, intercept = _line_above(low, high, a, b)
                total -= weight * intercept
                reduced_cost[j] -= weight * slope
        for factor, (a, b) in zip(reduced_cost, box):
            if factor > 0:
                total += factor * a
            elif factor < 0:
                total += factor * b
        return total

    def start(self, sets: list[dict[str, Any]], box: Box) -> Box:
        """Bound unbounded parameters by sets of equations and the matrices that invert them.

        |theta| <= |1 - X W| |theta| + |X| (|effort| + bound + |W theta known|).
        """
        unknown = [j for j, limits in enumerate(box) if INFINITE in (-limits[0], limits[1])]
        if not unknown or len(sets) <= self.outliers:
            _require(not sets, "a start is not needed")
            return box
        _require_disjoint(sets)
        reach = dict.fromkeys(unknown, Fraction(0))
        for one in sets:
            magnitude = dict(zip(unknown, _fractions(one["size"]), strict=True))
            right = [self._right_side(k, unknown, box) for k in one["equations"]]
            contraction = Fraction(0)
            for i, line in zip(unknown, one["matrix"], strict=True):
                x = _fractions(line)
                inverted = sum(abs(u) * v for u, v in zip(x, right, strict=True))
                _require(0 < magnitude[i] >= inverted, "a start is too small")
                remainder = Fraction(0)
                for j in unknown:
                    remainder += magnitude[j] * self._deviation(x, one["equations"], i, j)
                contraction = max(contraction, remainder / magnitude[i])
            _require(
                contraction < 1,
                "a start's matrix does not invert its equations",
            )
            for j in unknown:
                reach[j] = max(reach[j], magnitude[j] / (1 - contraction))
        finite = list(box)
        for j in unknown:
            finite[j] = (max(box[j][0], -reach[j]), min(box[j][1], reach[j]))
        return finite

    def _right_side(self, k: int, unknown: list[int], box: Box) -> Any:
        """Return the largest |effort| + bound + |W theta| of the known parameters of equation k."""
        total = abs(self.effort[k]) + self.bound[k]
        for j, (a, b) in enumerate(box):
            if j not in unknown:
                entry = max(abs(self.lower[k][j]), abs(self.upper[k][j]))
                total += entry * max(abs(a), abs(b))
        return total

    def _deviation(self, x: list[Fraction], equations: list[int], i: int, j: int) -> Fraction:
        """Return the largest |X W - 1| at (i, j), x being row i of X."""
        low = high = -Fraction(i == j)
        for u, k in zip(x, equations):
            ends = sorted((u * self.lower[k][j], u * self.upper[k][j]))
            low += ends[0]
            high += ends[1]
        return max(abs(low), abs(high))

    def narrow(self, rounds: list[dict[str, Any]], box: Box) -> Box | None:
        """Return the box that rounds of proofs leave; None if it is empty."""
        for proven in rounds:
            contradictions = proven["contradictions"]
            _require_disjoint(contradictions)
            nothing = [Fraction(0)] * len(box)
            for proof in contradictions:
                _require(
                    self.minimum(proof, nothing, box) > 0,
                    "a stated contradiction does not contradict the box",
                )
            if len(contradictions) > self.outliers:
                return None
            narrowed = list(box)
            for bound in proven["bounds"]:
                self._check_bound(bound, contradictions, box)
                j = bound["parameter"]
                limit = Fraction(bound["value"])
                low, high = narrowed[j]
                narrowed[j] = (low, limit) if bound["upper"] else (limit, high)
            box = narrowed
            if any(a > b for a, b in box):
                return None
        return box

    def _check_bound(
        self,
        bound: dict[str, Any],
        contradictions: list[dict[str, Any]],
        box: Box,
    ) -> None:
        """Require enough proofs of a bound that share no equation."""
        j = bound["parameter"]
        _require(j in range(len(box)), f"there is no parameter {j}")  # -1 would be the last one
        proofs = [*contradictions, *bound["proofs"]]
        _require_disjoint(proofs)
        _require(
            len(proofs) > self.outliers,
            f"a bound of parameter {j} lacks proofs",
        )
        sign = -1 if bound["upper"] else 1
        cost = [Fraction(0)] * len(box)
        cost[j] = Fraction(sign)
        for proof in bound["proofs"]:
            proven = self.minimum(proof, cost, box) >= sign * Fraction(bound["value"])
            _require(proven, f"a bound of parameter {j} is not proven")


def _line_above(low: Fraction, high: Fraction, a: Any, b: Any) -> tuple[Fraction, Any]:
    """Return slope and intercept of a line above max(low t, high t) for t in [a, b].

    Any slope is valid with its intercept; that of the chord is nearly
    the best.
    """
    if a >= 0:
        return high, 0
    if low == high or b <= 0:
        return low, 0
    chord = (float(high) * float(b) - float(low) * float(a)) / (float(b) - float(a))
    slope = Fraction(chord)
    return slope, max((low - slope) * a, (high - slope) * b)


def _fractions(numbers: list[Any]) -> list[Fraction]:
    return [Fraction(number) for number in numbers]


def _box(lower: list[Any], upper: list[Any]) -> Box:
    """Return a box from stored bounds, some of which may be '-inf' or 'inf'."""
    box: Box = []
    for low, high in zip(lower, upper, strict=True):
        a = -INFINITE if low == "-inf" else Fraction(low)
        b = INFINITE if high == "inf" else Fraction(high)
        box.append((a, b))
    return box


def _require(condition: bool, reason: str) -> None:
    if not condition:
        raise Rejected(reason)


def _require_disjoint(proofs: list[dict[str, Any]]) -> None:
    """Require that no equation is used twice in some proofs."""
    used = set()
    for proof in proofs:
        for k in proof["equations"]:
            _require(k >= 0 and k not in used, "proofs share an equation")
            used.add(k)


if __name__ == "__main__":
    try:
        print(verify(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))))
    except Rejected as rejected:
        sys.exit(f"rejected: {rejected}")
