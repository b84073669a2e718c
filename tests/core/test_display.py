"""Numbers and combinations of parameters as text."""

from __future__ import annotations

import pytest

from gough.core.display import combination_text


@pytest.mark.parametrize(
    ("coefficients", "text"),
    [
        ((1.0, 0.31, -1.0), "m + 0.31 mx - mz"),
        ((-1.0, 0.0, 2.0), "- m + 2 mz"),
        ((0.0, -0.25, 0.0), "- 0.25 mx"),
        ((0.0, 1.00001, 0.0), "mx"),
        ((0.0, 0.0, 0.0), ""),
    ],
)
def test_a_combination_is_written_as_a_person_would(
    coefficients: tuple[float, ...], text: str
) -> None:
    assert combination_text(coefficients, ("m", "mx", "mz")) == text


def test_coefficients_have_the_digits_asked_for() -> None:
    assert combination_text((1.0, 1 / 3), ("m", "mx"), ".2f") == "1.00 m + 0.33 mx"
