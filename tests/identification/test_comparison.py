"""Results beside each other: what differs is named, what does not is not, and thresholds decide."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.multitest import multipletests

from command_line import run
from gough.app.identify import identify
from gough.core.errors import InvalidInput
from gough.core.names import Parameter
from gough.core.notices import Notice
from gough.core.statistics import holm
from gough.engine import Model
from gough.identification import Identification
from gough.identification.compare import _difference_notices, compare
from gough.logs.recording import Recording
from gough.mechanism import robot_text
from gough.virtual import record, simulate
from tests_support import fourier

RUBS = Parameter("left.motor.fs")


@pytest.fixture(scope="module")
def first(five_bar_result: Identification) -> Identification:
    return five_bar_result


@pytest.fixture(scope="module")
def worn(five_bar: Model) -> Identification:
    """The same motion of a robot whose left motor rubs half as much again."""
    truth = five_bar.standard_values()
    truth[five_bar.mechanism.standard.names.index(RUBS)] *= 1.5
    other = simulate(five_bar, fourier(five_bar, 0.4, 0.5, harmonics=5), periods=5, values=truth)
    return identify(five_bar, [record(other, seed=7)])


def moved(result: Identification, draw: np.random.Generator, factor: float = 1.0) -> Identification:
    """A result of another log: values drawn from the first one's covariance."""
    estimate = result.estimate
    values = estimate.values + factor * draw.multivariate_normal(
        np.zeros(len(estimate)), estimate.covariance
    )
    return replace(
        result, estimate=replace(estimate, values=values), logs={"identification": ("another.csv",)}
    )


def test_the_friction_that_changed_is_named_first(
    five_bar: Model, first: Identification, worn: Identification
) -> None:
    found = compare([(five_bar, first), (five_bar, worn)], labels=("before", "after"))
    best = found.differences[0]
    assert best.name == RUBS
    assert best.differs
    assert best.change == pytest.approx(0.5, abs=0.05)
    assert sum(d.differs for d in found.differences) <= 2
    assert found.passed
    n_different = sum(d.differs for d in found.differences)
    expected = f"{n_different} parameters differ significantly ({len(found.differences)} compared)"
    assert found.headline == f"{expected}: before / after"
    assert found.level == "warning"
    header = next(line for line in found.summary().splitlines() if line.startswith("parameter"))
    words = "parameter before std. error after std. error change t p (Holm) unit"
    assert " ".join(header.split()) == words


def test_a_result_that_is_not_good_itself_is_said_to_be_so(
    five_bar: Model, first: Identification, worn: Identification
) -> None:
    """Held-out logs that are missing are no mistake; anything else may be what differs."""
    assert not any(
        "result 1: its own" in str(notice)
        for notice in compare([(five_bar, first), (five_bar, worn)]).notices
    )
    late = replace(worn, notices=(Notice(rule="fault", level="warning", text="late"),))
    found = compare([(five_bar, first), (five_bar, late)], labels=("before", "after"))
    assert any(
        str(notice).startswith("after: its own level is warning") for notice in found.notices
    )


def test_p_values_are_those_of_welch_and_holm(
    five_bar: Model, first: Identification, worn: Identification
) -> None:
    found = compare([(five_bar, first), (five_bar, worn)])
    chances = []
    for d in found.differences:
        k = [result.estimate.parameters.index(d.name) for result in (first, worn)]
        v = [result.estimate.covariance[i, i] for result, i in zip((first, worn), k)]
        n = [result.estimate.degrees_of_freedom[i] for result, i in zip((first, worn), k)]
        freedom = sum(v) ** 2 / sum(a**2 / b for a, b in zip(v, n))
        chances.append(2 * stats.t.sf(abs(d.value - d.first) / np.sqrt(sum(v)), freedom))
    np.testing.assert_allclose([d.p for d in found.differences], chances, rtol=1e-9)
    differs, corrected, *_ = multipletests(chances, alpha=0.05, method="holm")
    np.testing.assert_allclose([d.p_corrected for d in found.differences], corrected, rtol=1e-9)
    assert [d.differs for d in found.differences] == list(differs)


@pytest.mark.parametrize("seed", range(5))
def test_holm_is_that_of_statsmodels_in_any_order(seed: int) -> None:
    p = np.random.default_rng(seed).beta(0.3, 1.0, 23)
    np.testing.assert_allclose(holm(p), multipletests(p, method="holm")[1], rtol=1e-12)


def test_equal_machines_are_called_different_as_often_as_allowed(
    five_bar: Model, first: Identification
) -> None:
    """200 pairs that differ by noise alone: any is named about as often as the level says, all
    together too.
    """
    draw = np.random.default_rng(3)
    sure = replace(first, estimate=replace(first.estimate, degrees_of_freedom=np.array(np.inf)))
    pairs = [(moved(sure, draw), moved(sure, draw)) for _ in range(200)]
    found = [compare([(five_bar, a), (five_bar, b)], false_alarms=0.1) for a, b in pairs]
    assert np.mean([any(d.differs for d in each.differences) for each in found]) < 0.16
    together = [each.together["result 2"] for each in found]
    assert stats.kstest(np.array(together, dtype=float), "uniform").pvalue > 1e-3


def test_a_change_spread_over_all_parameters_is_seen_together(
    five_bar: Model, first: Identification
) -> None:
    sure = replace(first, estimate=replace(first.estimate, degrees_of_freedom=np.array(np.inf)))
    draw = np.random.default_rng(5)
    found = compare([(five_bar, sure), (five_bar, moved(sure, draw, factor=4.0))])
    together = found.together["result 2"]
    assert together is not None
    assert together < 1e-6


def test_the_headline_says_that_only_all_together_differ(
    five_bar: Model, first: Identification
) -> None:
    """A change along the best known combination, within the standard error of each parameter."""
    estimate = first.estimate
    _, directions = np.linalg.eigh(estimate.correlation)
    best_known = directions[:, 0]
    change = estimate.std * best_known / np.abs(best_known).max()
    sure = replace(first, estimate=replace(estimate, degrees_of_freedom=np.array(np.inf)))
    other = replace(sure, estimate=replace(sure.estimate, values=estimate.values + change))
    found = compare([(five_bar, sure), (five_bar, other)])
    assert not any(d.differs for d in found.differences)
    assert "no parameter differs" in found.headline
    assert "but all together they do" in found.headline
    assert found.level == "warning"


def test_few_degrees_of_freedom_are_not_judged_together(
    five_bar: Model, first: Identification
) -> None:
    few = replace(first, estimate=replace(first.estimate, degrees_of_freedom=np.array(4.0)))
    found = compare([(five_bar, few), (five_bar, moved(few, np.random.default_rng(1)))])
    assert found.together["result 2"] is None
    assert "too few degrees of freedom" in found.summary()


def test_thresholds_decide(
    five_bar: Model, first: Identification, worn: Identification, five_bar_other: Recording
) -> None:
    both = [(five_bar, first), (five_bar, worn)]
    strict = compare(both, [five_bar_other], labels=("before", "after"), change=0.2, error=1e-4)
    assert not strict.passed
    assert strict.failures[0].startswith(f"{RUBS} of after differs by")
    assert sum("predicts" in words for words in strict.failures) == 2
    errors = {label: found[five_bar_other.source] for label, found in strict.errors.items()}
    assert errors["before"] < errors["after"]
    assert compare(both, change=10.0, error=0.5).passed


def test_a_shared_log_is_said(five_bar: Model, first: Identification) -> None:
    found = compare([(five_bar, first), (five_bar, first)])
    assert any("is behind both results" in str(notice) for notice in found.notices)


def test_tied_legs_are_compared_with_each_leg(
    five_bar: Model, first: Identification, five_bar_log: Recording
) -> None:
    """Oracle: weights by pinv of the tied combinations, written out over members of the ties."""
    tied = identify(five_bar, [five_bar_log], tie_legs=True)
    found = compare([("five_bar", first), (five_bar.mechanism, tied)])
    assert not any(notice.rule == "not compared" for notice in found.notices)
    assert [d.name for d in found.differences if d.formula]
    columns = list(tied.base.standard)
    tied_name = {m: t for t, members in five_bar.mechanism.ties.items() for m in members}
    wanted = np.zeros((len(first.base), len(columns)))
    for j, name in enumerate(first.base.standard):
        wanted[:, columns.index(tied_name.get(name, name))] += first.base.matrix[:, j]
    weights = wanted @ np.linalg.pinv(tied.base.matrix)
    np.testing.assert_allclose(weights @ tied.base.matrix, wanted, atol=1e-7)
    order = [first.base.names.index(d.name) for d in found.differences]
    values = (weights @ tied.estimate.values)[order]
    std = np.sqrt(np.diag(weights @ tied.estimate.covariance @ weights.T))[order]
    np.testing.assert_allclose([d.value for d in found.differences], values, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose([d.std for d in found.differences], std, rtol=1e-5)


def other_basis(result: Identification, draw: np.random.Generator) -> Identification:
    """The same result with base parameters that are random sums of its own."""
    count = len(result.estimate)
    mixing = np.eye(count) + 0.3 * draw.standard_normal((count, count))
    names = tuple(Parameter(f"other.sum{k}", name.unit) for k, name in enumerate(result.base.names))
    base = replace(result.base, names=names, matrix=mixing @ result.base.matrix)
    covariance = mixing @ result.estimate.covariance @ mixing.T
    estimate = replace(
        result.estimate,
        parameters=names,
        values=mixing @ result.estimate.values,
        covariance=(covariance + covariance.T) / 2,
        information=None,
        sources=(),
    )
    return replace(result, base=base, estimate=estimate)


def test_a_result_in_another_basis_gives_the_same_differences(
    five_bar: Model, first: Identification, worn: Identification
) -> None:
    worn = replace(worn, estimate=replace(worn.estimate, degrees_of_freedom=np.array(500.0)))
    first = replace(first, estimate=replace(first.estimate, degrees_of_freedom=np.array(500.0)))
    expected = compare([(five_bar, first), (five_bar, worn)])
    mixed = other_basis(worn, np.random.default_rng(4))
    found = compare([(five_bar, first), (five_bar, mixed)])
    assert found.n_not_compared == 0
    assert [d.name for d in found.differences] == [d.name for d in expected.differences]
    for field in ("first", "first_std", "value", "std"):
        numbers = [getattr(d, field) for d in found.differences]
        assert numbers == pytest.approx([getattr(d, field) for d in expected.differences], rel=1e-6)
    assert all(d.formula for d in found.differences)
    assert found.together["result 2"] == pytest.approx(expected.together["result 2"], rel=1e-3)


def test_lengths_of_other_digits_do_not_hide_the_best_known_parameter(
    five_bar: Model, first: Identification, worn: Identification
) -> None:
    """0.15312 and 0.15313: formulas differ in print, the parameters are the same."""
    matrix = worn.base.matrix.copy()
    regrouped = np.abs(matrix - np.round(matrix)) > 1e-3
    matrix[regrouped] *= 1 + 6e-5
    other = replace(worn, base=replace(worn.base, matrix=matrix))
    assert other.base.regrouping() != first.base.regrouping()
    found = compare([(five_bar, first), (five_bar, other)])
    assert {d.name for d in found.differences} == set(first.estimate.parameters)
    assert found.n_not_compared == 0
    assert found.differences[0].name == RUBS
    mismatch = {d.name: d.mismatch for d in found.differences}
    assert max(mismatch.values()) > 0
    rows = [k for k in range(len(matrix)) if regrouped[k].any()]
    for k in rows:
        size = np.abs(first.base.values(five_bar.values(first.base.standard))[k])
        assert mismatch[first.base.names[k]] < 1e-3 * max(size, first.estimate.std[k])


def test_what_one_result_does_not_determine_is_said(
    five_bar: Model, first: Identification, worn: Identification
) -> None:
    """A parameter taken as zero in one result is no combination of its others."""
    kept = [name for name in worn.estimate.parameters if name != RUBS]
    fewer = replace(worn, estimate=worn.estimate.select(kept))
    found = compare([(five_bar, first), (five_bar, fewer)], labels=("before", "after"))
    (notice,) = [notice for notice in found.notices if notice.rule == "not compared"]
    assert str(notice) == (
        f"before: 1 parameters cannot be expressed by those of after and are not compared: {RUBS}"
    )
    assert "1 not comparable" in found.headline


def test_one_result_or_another_robot_is_refused(five_bar: Model, first: Identification) -> None:
    with pytest.raises(InvalidInput, match="expected two or more"):
        compare([(five_bar, first)])
    strange = replace(
        first,
        estimate=replace(
            first.estimate,
            parameters=tuple(Parameter(f"other.{name}") for name in first.estimate.parameters),
        ),
        base=replace(
            first.base,
            names=tuple(Parameter(f"other.{name}") for name in first.base.names),
            standard=tuple(Parameter(f"other.{name}") for name in first.base.standard),
        ),
    )
    with pytest.raises(InvalidInput, match="no parameter in common"):
        compare([(five_bar, first), (five_bar, strange)])


def test_the_command_writes_a_page_and_fails_with_its_own_code(
    tmp_path: Path, first: Identification, worn: Identification
) -> None:
    text, _ = robot_text("five_bar")
    for name, result in (("before", first), ("after", worn)):
        (tmp_path / name).mkdir()
        result.save(tmp_path / name, beside={"robot.toml": text})
    outcome = run("gough compare before after -o page.html", tmp_path)
    assert outcome.code == 0, outcome.err
    page = (tmp_path / "page.html").read_text()
    assert RUBS.kind in page
    assert "parameters differ" in page
    assert run("gough compare before after --change 0.2", tmp_path).code == 3
    (tmp_path / "study.toml").write_text(
        'format = 1\n[compare]\nfolders = ["before", "after"]\nchange = 0.2\n[check]\nrobot = '
        '"five_bar"\n'
    )
    outcome = run("gough run study.toml", tmp_path)
    assert outcome.code == 3
    assert "check" not in outcome.out
    assert "already exists" in run("gough compare before after -o page.html", tmp_path).err


def test_the_test_of_all_parameters_is_corrected_for_the_number_of_results() -> None:
    """Of three results that do not differ, each has a third of the stated false alarms."""
    alone = _difference_notices([], {"b": 0.03}, false_alarms=0.05)
    assert [notice.where for notice in alone] == ["b"]
    assert _difference_notices([], {"b": 0.03, "c": 0.6, "d": 0.9}, false_alarms=0.05) == []
    clear = _difference_notices([], {"b": 0.01, "c": 0.6, "d": 0.9}, false_alarms=0.05)
    assert [notice.where for notice in clear] == ["b"]
