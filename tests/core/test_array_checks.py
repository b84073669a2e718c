"""Arrays that are not finite are refused with the place of the first such entry."""

from __future__ import annotations

import numpy as np
import pytest

from gough.core.arrays import check_finite
from gough.core.errors import InvalidInput


def test_finite_numbers_pass_however_large_their_sum_is() -> None:
    check_finite(np.full((4, 3), 1e308), "signal")
    check_finite(np.array([1e308, 1e308, -1e308, -1e308]), "signal")
    check_finite(np.zeros((0, 3)), "signal")


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_the_first_entry_that_is_not_finite_is_named(bad: float) -> None:
    signal = np.ones((4, 3))
    signal[2, 1] = bad
    signal[3, 0] = -bad
    with pytest.raises(InvalidInput, match=r"signal is not finite at index \(2, 1\) \(2 such"):
        check_finite(signal, "signal")
