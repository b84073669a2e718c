"""Outward rounding, checked in exact rational arithmetic."""

from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from gough.core.intervals import (
    Interval,
    absolute,
    cosine,
    magnitude_of_product,
    product,
    root,
    sine,
    square,
)

PI = Decimal("3.14159265358979323846264338327950288419716939937510582097494")
numbers = st.floats(allow_nan=False, allow_infinity=False)


def interval(ends):
    return Interval(np.array(min(ends)), np.array(max(ends)))


def inside(box: Interval, value: Fraction, index=()) -> bool:
    low, high = float(box.lower[index]), float(box.upper[index])
    return (low == -np.inf or Fraction(low) <= value) and (
        high == np.inf or value <= Fraction(high)
    )


@pytest.mark.filterwarnings("ignore:overflow")
@settings(max_examples=500, deadline=None)
@given(st.tuples(numbers, numbers), st.tuples(numbers, numbers))
def test_operations_enclose_the_exact_result_for_any_numbers_including_under_and_overflow(
    first, second
):
    a, b = interval(first), interval(second)
    for x in map(Fraction, first):
        for y in map(Fraction, second):
            assert inside(a + b, x + y)
            assert inside(a - b, x - y)
            assert inside(a * b, x * y)
            if not b.contains(0.0):
                assert inside(a / b, x / y)


def test_rounding_is_needed_and_no_wider_than_a_unit_in_the_last_place_on_each_side():
    tenth = Interval.point(np.array(0.1))
    total = tenth + Interval.point(np.array(0.2))
    assert Fraction(0.1) + Fraction(0.2) != Fraction(0.1 + 0.2)
    assert total.upper - total.lower == 2 * np.spacing(0.3)
    assert (tenth * tenth).upper - (tenth * tenth).lower <= 2.01 * np.spacing(0.01)


def test_division_by_an_interval_with_zero_gives_the_whole_line():
    quotient = Interval.point(np.array([1.0, 1.0])) / Interval(
        np.array([-1.0, 2.0]), np.array([1.0, 4.0])
    )
    assert quotient.lower[0] == -np.inf
    assert quotient.upper[0] == np.inf
    assert 0.2 < quotient.lower[1] <= 0.25
    assert 0.5 <= quotient.upper[1] < 0.6


def test_an_infinite_bound_times_zero_is_zero():
    line = Interval(np.array(-np.inf), np.array(np.inf))
    assert (Interval.point(np.array(0.0)) * line).magnitude < 1e-300


def test_an_infinite_bound_over_an_infinite_bound_keeps_the_quotients_near_zero_and_far():
    quotient = Interval(np.array(1.0), np.array(np.inf)) / Interval(np.array(2.0), np.array(np.inf))
    assert quotient.lower <= 0.0
    assert quotient.upper == np.inf


def test_intersection_keeps_the_common_part_and_may_be_empty():
    a = Interval(np.array([0.0, 0.0]), np.array([2.0, 1.0])) & Interval(
        np.array([1.0, 2.0]), np.array([3.0, 3.0])
    )
    assert a.lower[0] == 1.0
    assert a.upper[0] == 2.0
    assert a.empty.tolist() == [False, True]


@settings(max_examples=200, deadline=None)
@given(st.tuples(st.floats(-1e6, 1e6), st.floats(-1e6, 1e6)))
def test_middle_and_radius_cover_the_interval(ends):
    a = interval(ends)
    c, r = Fraction(float(a.middle)), Fraction(float(a.radius))
    assert c - r <= Fraction(float(a.lower))
    assert c + r >= Fraction(float(a.upper))
    assert a.contains(a.middle)


@pytest.mark.parametrize("scale", [1.0, 1e12, 1e-160])
@pytest.mark.parametrize("terms", [1, 7, 300])
def test_matrix_products_enclose_the_exact_products_of_random_members(terms, scale):
    rng = np.random.default_rng(terms)
    matrix = rng.standard_normal((3, terms)) * scale
    low = rng.standard_normal(terms) * scale
    box = Interval(low, low + rng.random(terms) * scale * (rng.random(terms) < 0.5))
    enclosed = product(matrix, box)
    # also the extreme members, which a bound that is too narrow would miss
    members = (
        [np.where(matrix[i] > 0, box.upper, box.lower) for i in range(3)]
        + [np.where(matrix[i] > 0, box.lower, box.upper) for i in range(3)]
        + [box.middle]
    )
    for x in members:
        for i in range(3):
            exact = sum((Fraction(a) * Fraction(b) for a, b in zip(matrix[i], x)), Fraction(0))
            assert inside(enclosed, exact, i)


def test_matrix_products_enclose_under_cancellation_where_plain_arithmetic_fails():
    matrix = np.array([[1e16, 1.0, -1e16]])
    ones = Interval.point(np.ones(3))
    enclosed = product(matrix, ones)
    assert inside(enclosed, Fraction(1), 0)
    assert enclosed.upper[0] - enclosed.lower[0] < 100.0


def test_sums_enclose_the_exact_sum():
    values = np.random.default_rng(0).standard_normal((2, 50)) * 10.0 ** np.arange(50)[None, :]
    total = Interval.point(values).sum()
    for i in range(2):
        assert inside(total, sum(map(Fraction, values[i]), Fraction(0)), i)


@settings(max_examples=300, deadline=None)
@given(st.floats(-1e4, 1e4), st.floats(0, 8), st.floats(0, 1))
def test_functions_of_an_interval_enclose_those_of_its_members(start, width, share):
    """Sine and cosine are of numbers with forty digits: Taylor series within one turn."""
    x = interval((start, start + width))
    member = min(max(start + share * width, start), start + width)
    with localcontext() as context:
        context.prec = 40
        turned = Decimal(member) % (2 * PI)
        term, cos, sin = Decimal(1), Decimal(0), Decimal(0)
        for k in range(80):
            cos, sin = (
                (cos + (-1) ** (k // 2) * term, sin)
                if k % 2 == 0
                else (cos, sin + (-1) ** (k // 2) * term)
            )
            term *= turned / (k + 1)
        assert Decimal(float(cosine(x).lower)) <= cos <= Decimal(float(cosine(x).upper))
        assert Decimal(float(sine(x).lower)) <= sin <= Decimal(float(sine(x).upper))
        if member >= 0:
            assert (
                Decimal(float(root(x).lower))
                <= Decimal(member).sqrt()
                <= Decimal(float(root(x).upper))
            )
    assert inside(square(x), Fraction(member) ** 2)
    assert inside(absolute(x), abs(Fraction(member)))


def test_functions_of_narrow_intervals_are_narrow_and_tops_are_seen():
    x = Interval(np.array([0.3, -0.1, 3.0, 1.5]), np.array([0.3 + 1e-9, 0.2, 3.3, 1.7]))
    assert (cosine(x).upper - cosine(x).lower)[0] < 1e-9
    np.testing.assert_allclose(cosine(x).upper[1:3], [1.0, np.cos(3.3)])
    np.testing.assert_allclose(cosine(x).lower[1:3], [np.cos(0.2), -1.0])
    assert sine(x).upper[3] == 1.0
    np.testing.assert_allclose(sine(x).lower[3], np.sin(1.7))


def test_the_size_of_a_product_bounds_every_member_and_little_more():
    rng = np.random.default_rng(0)
    matrix, middle = rng.standard_normal((2, 5, 4, 4))
    x = Interval.around(middle, 1e-3)
    bound = magnitude_of_product(matrix, x, np.eye(4))
    members = matrix @ (middle + 1e-3 * rng.choice([-1, 1], (400, 5, 4, 4))) - np.eye(4)
    assert (np.abs(members) <= bound).all()
    assert np.abs(members).max(axis=0).sum() > 0.95 * bound.sum()
