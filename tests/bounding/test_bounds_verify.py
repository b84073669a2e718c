"""The stand-alone checker: accepts what the solver stores, rejects what was tampered with, needs
nothing but Python.
"""

from __future__ import annotations

import ast
import hashlib
import json
import subprocess
import sys
from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_bounds_outliers import spoilt

from bounded import exact_hull, problem, uncertain_problem
from gough.bounding import verify as module
from gough.bounding.solve import BoundedProblem, ExactBox, GaussSeidel, TrimmedBox
from gough.bounding.verify import Rejected, verify
from gough.fitting.estimate import Enclosure


def sealed(content: dict[str, Any]) -> dict[str, Any]:
    """Return content with a new digest and matching statements, as a forger would write it."""
    proof = content["certificate"].get("proof")
    if proof:
        content["certificate"]["proofs"] = sum(
            len(done["contradictions"]) + sum(len(bound["proofs"]) for bound in done["bounds"])
            for done in rounds(proof)
        )
        content["certificate"]["outliers"] = proof["outliers"]
        if proof["outliers"]:
            content["method"] = f"box with up to {proof['outliers']} outliers"
    content.pop("digest", None)
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    content["digest"] = hashlib.sha256(text.encode()).hexdigest()
    return content


def unbounded(bounded: BoundedProblem, *, only: int | None = None) -> BoundedProblem:
    low, high = bounded.prior_lower.copy(), bounded.prior_upper.copy()
    low[only], high[only] = -np.inf, np.inf
    return replace(bounded, prior_lower=low, prior_upper=high)


CASES: dict[str, Callable[[], Enclosure]] = {
    "exact": lambda: ExactBox().fit(problem(parameters=3)[0]),
    "mild outliers": lambda: ExactBox(outliers=2).fit(spoilt(2, 3, (0.1, 1.0))[0]),
    "gross outliers": lambda: ExactBox(outliers=3).fit(spoilt(3, 3, (5.0, 9.0))[0]),
    "uncertain": lambda: ExactBox().fit(uncertain_problem()[0]),
    "open signs": lambda: ExactBox().fit(
        uncertain_problem(prior=(-2.0, 2.0), samples=5, parameters=2)[0]
    ),
    "open signs, outlier": lambda: ExactBox(outliers=1).fit(
        uncertain_problem(prior=(-2.0, 2.0), parameters=2)[0]
    ),
    "no prior": lambda: ExactBox().fit(unbounded(problem(parameters=3)[0])),
    "no prior for one": lambda: ExactBox().fit(unbounded(problem(parameters=3)[0], only=1)),
    "no prior, outliers": lambda: ExactBox(outliers=2).fit(unbounded(spoilt(2, 3, (5.0, 9.0))[0])),
    "no prior, uncertain": lambda: ExactBox().fit(unbounded(uncertain_problem(width=0.02)[0])),
    "trimmed": lambda: TrimmedBox(outliers=3).fit(spoilt(3, 3, (5.0, 9.0))[0]),
}


@pytest.fixture(scope="module", params=CASES, ids=str)
def stored(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Any]:
    path = tmp_path_factory.mktemp("box") / "box.json"
    CASES[request.param]().save(path)
    return dict(json.loads(path.read_text()))


def test_what_the_solver_stores_is_proven(stored: dict[str, Any]) -> None:
    assert verify(stored).startswith("proven")


@pytest.mark.parametrize("side", ["lower", "upper"])
def test_a_box_that_is_a_little_too_small_is_rejected_at_every_bound(
    stored: dict[str, Any], side: str
) -> None:
    for j in range(len(stored["lower"])):
        tampered = deepcopy(stored)
        step = 1e-9 * (tampered["upper"][j] - tampered["lower"][j])
        tampered[side][j] += step if side == "lower" else -step
        with pytest.raises(Rejected, match=r"bounds of '.*' are not proven"):
            verify(sealed(tampered))


def rounds(proof: dict[str, Any]) -> list[dict[str, Any]]:
    return [*proof["rounds"], *(done for case in proof["cases"] for done in case["rounds"])]


def a_bound(proof: dict[str, Any]) -> dict[str, Any]:
    return dict(next(bound for done in rounds(proof) for bound in done["bounds"]))


def test_a_proof_whose_claims_were_moved_with_the_box_is_rejected(stored: dict[str, Any]) -> None:
    for done in range(len(rounds(stored["certificate"]["proof"]))):
        tampered = deepcopy(stored)
        bounds = rounds(tampered["certificate"]["proof"])[done]["bounds"]
        if not bounds:
            continue
        sign = -1 if bounds[0]["upper"] else 1
        bounds[0]["value"] += sign * 1e-6 * max(1.0, abs(bounds[0]["value"]))
        with pytest.raises(Rejected, match="not proven"):
            verify(sealed(tampered))


def _lost_proof(proof: dict[str, Any]) -> None:
    a_bound(proof)["proofs"].pop()


def _same_proof_twice(proof: dict[str, Any]) -> None:
    a_bound(proof)["proofs"].append(a_bound(proof)["proofs"][0])


def _lost_case(proof: dict[str, Any]) -> None:
    proof["cases"].pop()


def _lost_weight(proof: dict[str, Any]) -> None:
    a_bound(proof)["proofs"][0]["weights"].pop()


def _same_equation_twice(proof: dict[str, Any]) -> None:
    proof["sample"][1], proof["row"][1] = proof["sample"][0], proof["row"][0]


def _backwards(proof: dict[str, Any]) -> None:
    a_bound(proof)["proofs"][0]["equations"][0] = -1


def _more_outliers(proof: dict[str, Any]) -> None:
    proof["outliers"] += 1


def _nothing(proof: dict[str, Any]) -> None:
    proof.clear()


def _the_last_counted_backwards(proof: dict[str, Any]) -> None:
    """A bound of parameter -1, the last one by its place in a list, proven by nothing: 0 theta >=
    -1e-9.
    """
    claim = {
        "parameter": -1,
        "upper": False,
        "value": -1e-9,
        "proofs": [{"equations": [k], "weights": [0.0]} for k in range(proof["outliers"] + 1)],
    }
    for case in proof["cases"]:
        case["rounds"].append({"contradictions": [], "bounds": [claim]})


def _fewer_than_no_outliers(proof: dict[str, Any]) -> None:
    proof["outliers"] = -1
    for done in rounds(proof):
        for bound in done["bounds"]:
            bound["proofs"] = []


def _a_column_too_many(proof: dict[str, Any]) -> None:
    for side in ("lower", "upper"):
        proof[side] = [[*row, 1.0] for row in proof[side]]


@pytest.mark.parametrize(
    "tamper",
    [
        _lost_proof,
        _same_proof_twice,
        _lost_case,
        _lost_weight,
        _same_equation_twice,
        _backwards,
        _more_outliers,
        _nothing,
        _the_last_counted_backwards,
        _fewer_than_no_outliers,
        _a_column_too_many,
    ],
)
def test_a_proof_with_a_part_missing_doubled_or_twisted_is_rejected(
    stored: dict[str, Any], tamper: Callable[[dict[str, Any]], None]
) -> None:
    tampered = deepcopy(stored)
    tamper(tampered["certificate"]["proof"])
    with pytest.raises(Rejected):
        verify(sealed(tampered))


@pytest.mark.parametrize("tamper", ["contradiction", "size", "matrix", "sets"])
def test_contradictions_and_starts_are_checked_too(tamper: str) -> None:
    content = CASES["no prior, outliers"]().to_dict()
    proof = content["certificate"]["proof"]
    if tamper == "contradiction":  # equations that agree, said to contradict each other
        agree = next(
            p for done in rounds(proof) for bound in done["bounds"] for p in bound["proofs"]
        )
        rounds(proof)[-1]["contradictions"] = [
            {"equations": [k], "weights": [1.0]} for k in agree["equations"]
        ]
        rounds(proof)[-1]["bounds"] = []
    elif tamper == "size":
        proof["start"][0]["size"] = [1e-3 * v for v in proof["start"][0]["size"]]
    elif tamper == "matrix":
        proof["start"][0]["matrix"] = [[0.0 for _ in row] for row in proof["start"][0]["matrix"]]
    else:
        proof["start"].pop()
    with pytest.raises(Rejected):
        verify(sealed(content))


def test_other_efforts_do_not_go_with_a_proof(stored: dict[str, Any]) -> None:
    shifted = deepcopy(stored)
    shifted["certificate"]["proof"]["effort"] = [
        y + 0.1 for y in shifted["certificate"]["proof"]["effort"]
    ]
    with pytest.raises(Rejected):
        verify(sealed(shifted))


def test_weights_may_be_anything_and_only_their_sum_counts() -> None:
    content = ExactBox().fit(problem(parameters=2)[0]).to_dict()
    for seed in range(20):
        tampered = deepcopy(content)
        rng = np.random.default_rng(seed)
        for case in tampered["certificate"]["proof"]["cases"]:
            for bound in case["rounds"][0]["bounds"]:
                for proof in bound["proofs"]:
                    proof["weights"] = [w * rng.uniform(0.5, 2) for w in proof["weights"]]
        with pytest.raises(Rejected):
            verify(sealed(tampered))


@pytest.mark.parametrize("seed", range(10))
def test_whatever_passes_contains_the_hull_computed_in_rationals(seed: int) -> None:
    bounded, _ = problem(samples=8, parameters=2, seed=seed, prior=(0.1, 1.9))
    content = ExactBox().fit(bounded).to_dict()
    assert verify(content).startswith("proven")
    for j, (low, high) in enumerate(exact_hull(bounded)):
        assert Fraction(content["lower"][j]) <= low
        assert Fraction(content["upper"][j]) >= high
        inside = deepcopy(content)  # the first number inside the hull
        inside["lower"][j] = np.nextafter(float(low), 9.0).item()
        while Fraction(inside["lower"][j]) <= low:
            inside["lower"][j] = np.nextafter(inside["lower"][j], 9.0).item()
        for case in inside["certificate"]["proof"]["cases"]:
            for bound in case["rounds"][-1]["bounds"]:
                if bound["parameter"] == j and not bound["upper"]:
                    bound["value"] = inside["lower"][j]
        with pytest.raises(Rejected):
            verify(sealed(inside))


def test_a_box_without_proof_is_not_called_proven() -> None:
    with pytest.raises(Rejected, match="no stored proof"):
        verify(GaussSeidel().fit(problem()[0]).to_dict())
    with pytest.raises(Rejected, match="damaged"):
        verify({})


def test_the_checker_runs_without_any_package_and_is_short(tmp_path: Path) -> None:
    source = Path(str(module.__file__))
    text = source.read_text()
    assert len(text.splitlines()) < 500
    imported = {
        name.split(".")[0]
        for node in ast.walk(ast.parse(text))
        for name in (
            [a.name for a in node.names]
            if isinstance(node, ast.Import)
            else [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else []
        )
    }
    assert imported <= {"__future__", "hashlib", "json", "sys", "fractions", "pathlib", "typing"}
    box = ExactBox().fit(problem()[0])
    box.save(tmp_path / "good.json")
    replace(box, lower=box.lower + 1e-6).save(tmp_path / "bad.json")
    run = {
        name: subprocess.run(
            [sys.executable, "-I", "-S", str(source), str(tmp_path / f"{name}.json")],
            capture_output=True,
            text=True,
            check=False,
        )
        for name in ("good", "bad")
    }
    assert run["good"].returncode == 0, run["good"].stderr
    assert "proven" in run["good"].stdout
    assert run["bad"].returncode == 1
    assert "rejected" in run["bad"].stderr
