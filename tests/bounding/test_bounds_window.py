"""Equations near reversals, where the low-pass smears jumps of acceleration, do not bound
parameters.
"""

from __future__ import annotations

import numpy as np
import pytest

from gough.bounding.bounds import JUMP_HALF_WIDTH, bounded_problem
from gough.bounding.prior import default_prior
from gough.core.errors import InvalidInput
from gough.engine import Model, base_parameters
from gough.logs.recording import Recording
from gough.processing import Processing, process


def test_equations_near_reversals_do_not_count_unless_asked(
    five_bar: Model, five_bar_log: Recording
) -> None:
    base = base_parameters(five_bar)
    cutoff = process(five_bar, five_bar_log, Processing(window=0.0)).cutoff
    done = process(five_bar, five_bar_log, Processing(window=JUMP_HALF_WIDTH / cutoff))
    away = done.valid.any(axis=1)
    assert 0 < away.sum() < len(away)
    usual = bounded_problem(five_bar, [five_bar_log], base, error_bound=0.6)
    np.testing.assert_array_equal(usual.effort, done.effort[away])
    np.testing.assert_array_equal(usual.used, done.valid[away])
    every = bounded_problem(
        five_bar, [five_bar_log], base, error_bound=0.6, processing=Processing(window=0.0)
    )
    assert every.used.mean() > 0.99
    none_left = bounded_problem(
        five_bar, [five_bar_log], base, error_bound=0.6, processing=Processing(window=100.0)
    )
    assert len(none_left.effort) == len(done)
    assert none_left.used.all()
    with pytest.raises(InvalidInput, match=r"window is -1\.0 s, expected a number of at least 0"):
        Processing(window=-1.0)


def test_a_difference_that_a_robot_file_makes_zero_is_not_taken_as_zero(five_bar: Model) -> None:
    base = base_parameters(five_bar, tie_legs=True)
    (difference,) = (name for name in base.names if name.endswith("iaR"))
    assert base.values(five_bar.values(base.standard))[
        base.names.index(difference)
    ] == pytest.approx(0.0, abs=1e-12)
    low, high = default_prior(five_bar, base)[difference]
    assert low <= -0.4
    assert high >= 0.4  # ten times the 0.02 kg m2 of both rotors
