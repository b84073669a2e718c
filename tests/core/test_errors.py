"""Suggestions in error messages."""

from __future__ import annotations

import pytest

from gough.core.errors import nearest


@pytest.mark.parametrize(
    ("written", "meant"), [("IZZ", "Izz"), ("five_Bar", "five_bar"), ("FV", "fv"), ("izy", "Izz")]
)
def test_a_suggestion_does_not_mind_capitals(written: str, meant: str) -> None:
    assert nearest(written, ["Izz", "five_bar", "fv", "mx"]) == f"; did you mean '{meant}'?"


def test_what_resembles_nothing_gets_the_list() -> None:
    assert nearest("qqqq", ["Izz", "fv"]) == "; valid names: Izz, fv"
    assert nearest("qqqq", []) == ""
