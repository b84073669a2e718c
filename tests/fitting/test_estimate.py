"""The results themselves: derived numbers, text, storage, bad content."""

import json
import os
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from gough.core.documents import restored
from gough.core.errors import InvalidInput, OutputError
from gough.core.notices import Notice
from gough.fitting.estimate import Enclosure, Estimate, UncertaintyComponent
from gough.fitting.regression import Regression


def make_estimate(**changes):
    content = {
        "parameters": ("a.m", "a.fv", "b.fs"),
        "units": ("kg", "Ns/m", "N"),
        "values": np.array([1 / 3, -2.0, 1e-3]),
        "covariance": np.array([[0.01, 0.0, 0.0], [0.0, 0.04, 0.0399e-3], [0.0, 0.0399e-3, 4e-8]]),
        "rows": ("x", "y"),
        "row_units": ("N", "N"),
        "residual_rms": np.array([0.1, 0.2]),
        "residual_relative": np.array([0.01, np.inf]),
        "samples": 50,
        "degrees_of_freedom": 97.0,
        "condition_number": 12.0,
        "method": "least squares",
        "uncertainty": "white",
    }
    return Estimate(**(content | changes))


def test_derived_numbers_follow_from_values_and_covariance():
    estimate = make_estimate()
    np.testing.assert_allclose(estimate.std, [0.1, 0.2, 2e-4])
    np.testing.assert_allclose(estimate.relative_std, [0.3, 0.1, 0.2])
    np.testing.assert_allclose(estimate.correlation[1, 2], 0.9975)
    np.testing.assert_allclose(estimate.correlation_condition, 1.9975 / 0.0025)
    assert estimate["a.fv"] == -2.0
    low, high = estimate.interval(0.9)[0]
    np.testing.assert_allclose([low, high], stats.t.interval(0.9, 97, loc=1 / 3, scale=0.1))


def test_infinite_degrees_of_freedom_give_the_gaussian_interval():
    reach = np.diff(make_estimate(degrees_of_freedom=np.inf).interval(0.95)[1])[0] / 2
    np.testing.assert_allclose(reach, 1.959963984540054 * 0.2)


def test_each_parameter_may_have_its_own_degrees_of_freedom():
    estimate = make_estimate(degrees_of_freedom=[3.0, 10.0, np.inf])
    reach = np.diff(estimate.interval(0.95), axis=1)[:, 0] / 2 / estimate.std
    np.testing.assert_allclose(reach, [3.182446, 2.228139, 1.959964], rtol=1e-6)
    assert "3 to inf degrees of freedom" in estimate.summary()
    np.testing.assert_array_equal(
        estimate.select(["b.fs", "a.m"]).degrees_of_freedom, [np.inf, 3.0]
    )


NOTICE = Notice(rule="test", level="info", text="look here", numbers={"limit": float("inf")})


def test_summary_says_what_is_doubtful():
    text = make_estimate(values=np.array([1 / 3 - 0.01, -2.0, 1e-3]), notices=(NOTICE,)).summary()
    assert "poorly known: a.m (" in text
    assert "a.fv and b.fs are hardly distinguishable: correlation of the estimates 0.997" in text
    assert "look here" in text
    assert "Ns/m" in text
    assert "condition number 12" in text


def test_parameters_connected_by_strong_correlations_share_a_notice():
    """In a chain the ends need not be strongly correlated themselves."""
    chain = np.array([[1.0, 0.97, 0.90], [0.97, 1.0, 0.98], [0.90, 0.98, 1.0]])
    notices = [
        n for n in make_estimate(covariance=chain).parameter_notices if n.rule == "correlation"
    ]
    assert [notice.text for notice in notices] == [
        "a.m, a.fv and b.fs are hardly distinguishable: correlation of the estimates up to 0.980"
    ]
    assert notices[0].numbers == {"correlation": pytest.approx(0.98)}


def white(*std):
    return UncertaintyComponent(kind="white", std=np.array(std), degrees_of_freedom=np.inf)


def test_summary_shows_white_standard_deviations_beside_others():
    sources = (white(0.0123, 1.0, 2.0), replace(white(0.2, 0.2, 0.2), kind="hac"))
    text = make_estimate(uncertainty="hac", sources=sources).summary()
    assert "(white)" in text
    assert "hac std" not in text
    assert "0.0123" in text


def test_saved_estimate_comes_back_to_the_last_bit(tmp_path):
    estimate = make_estimate(
        notices=(NOTICE,), sources=(white(0.1, 0.1, np.pi),), degrees_of_freedom=np.inf
    )
    estimate.save(tmp_path / "result.json")
    back = Estimate.load(tmp_path / "result.json")
    for name in ("values", "covariance", "residual_rms", "residual_relative", "white_std"):
        assert np.array_equal(getattr(back, name), getattr(estimate, name)), name
    assert np.array_equal(back.degrees_of_freedom, [np.inf] * 3)
    assert back.parameters == estimate.parameters
    assert back.notices == (NOTICE,)
    assert np.isnan(back.residual_mean).all()
    assert back.sources[0].kind == "white"
    assert np.array_equal(back.sources[0].degrees_of_freedom, [np.inf] * 3)
    json.loads((tmp_path / "result.json").read_text(), parse_constant=pytest.fail)  # strict JSON
    assert os.listdir(tmp_path) == ["result.json"]


def test_writing_to_a_missing_folder_is_a_clear_error(tmp_path):
    with pytest.raises(OutputError, match="folder"):
        make_estimate().save(tmp_path / "nowhere" / "result.json")


def test_loading_another_kind_of_result_is_refused(tmp_path):
    make_estimate().save(tmp_path / "e.json")
    with pytest.raises(InvalidInput, match="enclosure"):
        Enclosure.load(tmp_path / "e.json")
    (tmp_path / "bad.json").write_text("{")
    with pytest.raises(InvalidInput, match="not JSON"):
        Estimate.load(tmp_path / "bad.json")
    with pytest.raises(InvalidInput, match="there is no file"):
        Estimate.load(tmp_path / "none.json")
    content = make_estimate().to_dict()
    del content["covariance"]
    with pytest.raises(InvalidInput, match="lacks covariance"):
        restored(Estimate, content)


def test_prediction_goes_by_name_and_ignores_gains():
    estimate = make_estimate(parameters=("b", "m1.gain", "a"))
    regressor = np.arange(24.0).reshape(4, 2, 3)
    regression = Regression(
        regressor=regressor,
        effort=np.zeros((4, 2)),
        rows=("x", "y"),
        row_units=("N", "N"),
        parameters=("a", "extra", "b"),
        units=("1", "1", "1"),
    )
    expected = regressor[:, :, 0] * 1e-3 + regressor[:, :, 2] / 3
    np.testing.assert_allclose(estimate.predict(regression), expected, rtol=1e-14)
    with pytest.raises(InvalidInput, match="no parameter"):
        estimate.predict(regression.select(["a"]))


def test_selecting_keeps_the_marginal_covariance():
    part = make_estimate().select(["b.fs", "a.m"])
    np.testing.assert_allclose(part.std, [2e-4, 0.1])
    assert part.units == ("N", "kg")


@pytest.mark.parametrize(
    "changes",
    [
        {"values": np.array([np.nan, 1, 1])},
        {"covariance": -np.eye(3)},
        {"covariance": np.eye(2)},
        {"units": ("kg",)},
        {"degrees_of_freedom": 0.0},
        {"parameters": ("a", "a", "b")},
    ],
)
def test_inconsistent_estimates_are_refused(changes):
    with pytest.raises(InvalidInput):
        make_estimate(**changes)


def test_dataframe_carries_names():
    frame = make_estimate().to_dataframe()
    assert frame.loc["a.fv", "value"] == -2.0
    assert frame.loc["b.fs", "unit"] == "N"


def make_box(**changes):
    content = {
        "parameters": ("a", "b"),
        "units": ("kg", "N"),
        "lower": [0.0, -np.inf],
        "upper": [0.1, 2.0],
        "method": "interval Gauss-Seidel",
        "certificate": {"bound": np.array([1.5]), "rows": (3, 4)},
        "notices": (NOTICE,),
    }
    return Enclosure(**(content | changes))


def test_box_contains_its_corners_and_nothing_beyond():
    box = make_box()
    assert box.contains([0.1, 2.0])
    assert box.contains({"b": -1e9, "a": 0.0})
    assert not box.contains([np.nextafter(0.1, 1), 2.0])
    assert not box.contains([np.nan, 0.0])
    assert box["a"] == (0.0, 0.1)
    assert list(box.inside([-1.0, 0.0])) == [False, True]


def test_saved_box_comes_back_to_the_last_bit(tmp_path):
    box = make_box()
    box.save(tmp_path / "box.json")
    back = Enclosure.load(tmp_path / "box.json")
    assert np.array_equal(back.lower, box.lower)
    assert np.array_equal(back.upper, box.upper)
    assert dict(back.certificate) == {"bound": [1.5], "rows": [3, 4]}
    assert "look here" in back.summary()
    with pytest.raises(TypeError):
        back.certificate["bound"] = 0


@pytest.mark.parametrize(
    "changes", [{"lower": [0.2, 0.0]}, {"upper": [np.nan, 1.0]}, {"lower": [0.0]}]
)
def test_empty_or_malformed_boxes_are_refused(changes):
    with pytest.raises(InvalidInput):
        make_box(**changes)
