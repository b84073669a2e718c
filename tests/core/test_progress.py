"""Progress: portions of a task, reported to whoever listens, never backwards."""

from __future__ import annotations

import pytest

from gough.core.progress import portion, report, reporting, tracked


def test_portions_inside_portions_are_fractions_of_the_whole() -> None:
    heard: list[float] = []
    with reporting(heard.append):
        with portion(0.2, 0.6):
            report(0.5)
            with portion(0.5, 1.0):
                report(0.5)
        report(0.8)
    assert heard == pytest.approx([0.4, 0.5, 0.6, 0.6, 0.8])


def test_a_listener_never_hears_less_than_before() -> None:
    heard: list[float] = []
    with reporting(heard.append):
        for fraction in (0.3, 0.1, 0.5):
            report(fraction)
    assert heard == [0.3, 0.3, 0.5]


def test_elements_of_a_list_are_equal_parts() -> None:
    heard: list[float] = []
    with reporting(heard.append), portion(0.0, 0.5):
        assert list(tracked("abcd")) == list("abcd")
    assert heard == pytest.approx([0.0, 0.125, 0.25, 0.375, 0.5, 0.5])


def test_without_a_listener_nothing_happens_also_after_an_error() -> None:
    report(0.5)
    heard: list[float] = []
    with pytest.raises(ValueError, match="broken"), reporting(heard.append), portion(0.0, 0.5):
        raise ValueError("broken")
    report(0.9)
    assert heard == []
