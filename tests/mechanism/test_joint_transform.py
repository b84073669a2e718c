"""A joint's transform depends on the direction of its axis, not on its length."""

from __future__ import annotations

import numpy as np
import pytest

from gough.mechanism.placement import joint_transform


@pytest.mark.parametrize("kind", ["revolute", "prismatic"])
def test_the_length_of_an_axis_does_not_matter(kind: str) -> None:
    short = joint_transform(kind, [0.0, 0.6, 0.8], 0.3)
    np.testing.assert_allclose(joint_transform(kind, [0.0, 3.0, 4.0], 0.3), short, atol=1e-15)
    if kind == "prismatic":
        np.testing.assert_allclose(short[:3, 3], [0.0, 0.18, 0.24], atol=1e-15)
