"""How much of a limit a motion uses: -1 and 1 are the ends of the range, wherever it lies."""

from __future__ import annotations

import numpy as np
import pytest

from gough.engine import Model
from gough.engine.base import random_motion
from gough.engine.limits import Limit, measure


@pytest.mark.parametrize("quantity", ["position", "velocity"])
def test_the_ends_of_a_range_that_is_not_symmetric_are_minus_one_and_one(
    five_bar: Model, quantity: str
) -> None:
    motion = random_motion(five_bar, 30, seed=5)
    name = five_bar.mechanism.actuated[0]
    column = five_bar.mechanism.coordinates.index(name)
    signal = {"position": motion.q, "velocity": motion.qd}[quantity][:, column]
    low = float(signal.min())
    high = float(signal.max())
    limit = Limit(quantity=quantity, name=name, lower=low, upper=high + 1.0, unit="rad")
    usage = measure(five_bar, [limit], motion)[:, 0]
    assert usage[signal.argmin()] == pytest.approx(-1.0)
    assert usage.max() < 1.0
    np.testing.assert_allclose(usage, 2 * (signal - low) / (high + 1.0 - low) - 1, atol=1e-12)
