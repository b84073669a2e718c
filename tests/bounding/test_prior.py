"""The default prior: ten times what the robot file knows of a kind."""

from __future__ import annotations

import pytest

from gough.bounding.prior import default_prior
from gough.engine import Model, base_parameters


def test_friction_lies_between_zero_and_ten_times_the_largest_of_the_robot_file(
    five_bar: Model,
) -> None:
    base = base_parameters(five_bar)
    prior = default_prior(five_bar, base)
    table = five_bar.mechanism.standard.as_dict()
    for kind in ("fs", "fv"):
        largest = max(value for name, value in table.items() if name.kind == kind)
        assert largest > 0
        names = [name for name in base.names if name.kind == kind]
        assert len(names) >= 2
        for name in names:
            assert prior[name] == (0.0, pytest.approx(10 * largest))


def test_a_difference_of_masses_may_be_negative(five_bar: Model) -> None:
    base = base_parameters(five_bar)
    prior = default_prior(five_bar, base)
    for name, coefficients in zip(base.names, base.matrix):
        low, high = prior[name]
        assert high > 0
        if name.kind not in ("m", "fs", "fv") or (coefficients < 0).any():
            assert low == -high
