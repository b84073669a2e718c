"""Answers side by side."""

from dataclasses import replace

import numpy as np
import pytest
from test_estimate import make_estimate

from gough.core.errors import InvalidInput
from gough.fitting.estimate import Enclosure
from gough.fitting.selection import compare

BOX = Enclosure(
    parameters=("a.m", "b.fs"),
    units=("kg", "N"),
    lower=[0.3, 0.0],
    upper=[0.4, 5e-4],
    method="exact box",
)


def test_agreeing_answers_are_not_flagged():
    first = make_estimate()
    second = replace(first, values=first.values + 2.9 * np.sqrt(2) * first.std)
    assert compare({"a": first, "b": second}) == []


def test_distance_is_in_joint_standard_deviations():
    first = make_estimate()
    second = replace(first, values=first.values + np.array([0.0, 4 * np.sqrt(2) * 0.2, 0.0]))
    (found,) = compare({"first": first, "second": second})
    assert found.parameter == "a.fv"
    assert found.distance == pytest.approx(4.0)
    assert compare({"first": first, "second": second}, sigmas=4.5) == []


def test_a_value_outside_its_box_is_flagged():
    (found,) = compare({"weighted": make_estimate(), "box": BOX})
    assert (found.parameter, found.first, found.second) == ("b.fs", "weighted", "box")
    assert found.distance == np.inf
    assert "outside the box by 0.0005" in found.reason


def test_boxes_that_do_not_meet_are_flagged():
    other = replace(BOX, lower=[0.45, 0.0], upper=[0.5, 1.0])
    (found,) = compare({"one": BOX, "two": other})
    assert found.parameter == "a.m"
    assert "apart by 0.05" in found.reason


def test_nothing_to_compare_is_refused():
    with pytest.raises(InvalidInput):
        compare({})
