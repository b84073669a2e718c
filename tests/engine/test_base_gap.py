"""Which columns are independent: decided by the lowest gap above rounding."""

from __future__ import annotations

import numpy as np

from gough.engine.base import _independent

ROUNDING = 1e-13


def test_small_columns_above_the_lowest_gap_are_independent() -> None:
    """The widest gap lies between large and small columns, both of which are there."""
    norms = np.array([1.0, 1e-9, 1e-13, 2.0, 3e-9, 2e-13])
    assert _independent(np.diag(norms), ROUNDING) == [0, 1, 3, 4]


def test_a_gap_below_rounding_decides_nothing() -> None:
    """Columns of pure rounding, one a thousand times the other, are not told from zero."""
    norms = np.array([1.0, 1e-13, 1e-16, 0.5])
    assert _independent(np.diag(norms), ROUNDING) == [0, 3]


def test_a_column_that_depends_on_those_before_it_is_left_out() -> None:
    triangle = np.array([[1.0, 2.0, 0.5], [0.0, 1e-15, 0.0], [0.0, 0.0, 0.3]])
    assert _independent(triangle, ROUNDING) == [0, 2]
