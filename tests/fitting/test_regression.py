"""The problem estimators get: what belongs together is joined, what does not is refused."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from gough.core.errors import InvalidInput
from gough.fitting.regression import Regression, block_statistics, concatenate


def make(seed: int = 0, t: int = 40, **changes: Any) -> Regression:
    rng = np.random.default_rng(seed)
    content = {
        "regressor": rng.normal(size=(t, 2, 3)),
        "effort": rng.normal(size=(t, 2)),
        "rows": ("x", "y"),
        "row_units": ("N", "N m"),
        "parameters": ("a", "b", "c"),
        "units": ("kg", "kg m", "N"),
    }
    return Regression(**(content | changes))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rows": ("x", "z")}, r"rows differ \(y, z\)"),
        ({"parameters": ("a", "b", "d")}, r"parameters differ \(c, d\)"),
        ({"parameters": ("b", "a", "c")}, "parameters differ"),
        ({"row_units": ("A", "N m")}, r"units of the rows differ \(A, N\)"),
        ({"units": ("g", "kg m", "N")}, "units of the parameters differ"),
    ],
)
def test_recordings_of_different_robots_or_units_are_not_joined(
    changes: dict[str, Any], message: str
) -> None:
    other = make(1, **changes)
    with pytest.raises(InvalidInput, match=message):
        concatenate([make(), other])
    with pytest.raises(InvalidInput, match=message):
        block_statistics([make(), other])


@pytest.mark.parametrize(
    "changes",
    [
        {"effort": np.full((40, 2), np.nan)},
        {"regressor": np.full((40, 2, 3), np.inf)},
        {"covariance": np.full((2, 2), np.nan)},
        {"time": np.full(40, np.nan)},
        {"replicates": np.full((2, 40, 2), np.nan)},
    ],
)
def test_numbers_that_are_none_are_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match=next(iter(changes))):
        make(**changes)


def test_joined_recordings_are_groups_of_their_own_and_keep_a_common_covariance() -> None:
    parts = [
        make(k, covariance=np.eye(2), time=np.arange(40.0), group=np.repeat([3, 7], 20))
        for k in range(2)
    ]
    joined = concatenate(parts)
    assert sorted(set(joined.group.tolist())) == [0, 1, 2, 3]  # type: ignore[union-attr]
    np.testing.assert_array_equal(joined.covariance, np.eye(2))
    mixed = concatenate([parts[0], replace(parts[1], covariance=2 * np.eye(2))])
    assert mixed.covariance is not None
    assert mixed.covariance.shape == (80, 2, 2)
    assert concatenate([parts[0], replace(parts[1], covariance=None)]).covariance is None


def test_factors_of_blocks_have_the_gram_matrix_of_all_samples() -> None:
    whole = make(t=3000)
    found = block_statistics(whole.blocks(700), joint=True)
    for j in range(2):
        data = np.column_stack([whole.regressor[:, j], whole.effort[:, j]])
        np.testing.assert_allclose(found.factors[j].T @ found.factors[j], data.T @ data, atol=1e-9)
    flat = whole.stacked().reshape(3000, -1)
    (joint,) = found.joint_rows
    np.testing.assert_allclose(
        joint.stacked.reshape(-1, 8).T @ joint.stacked.reshape(-1, 8), flat.T @ flat, atol=1e-9
    )
    assert found.samples == joint.samples == 3000
