"""Notices: one type, one order, one text and one JSON form."""

from __future__ import annotations

import json
import pickle

import pytest

from gough.core.documents import plain, restored
from gough.core.notices import Level, Notice, level_of, notice_lines, of_log, ordered


def notice(
    level: Level = "info", text: str = "t", where: str = "", rule: str = "r", **numbers: float
) -> Notice:
    return Notice(rule=rule, level=level, where=where, text=text, numbers=numbers)


@pytest.mark.parametrize(
    ("levels", "expected"),
    [
        ((), "ok"),
        (("info",), "ok"),
        (("info", "warning"), "warning"),
        (("warning", "error"), "error"),
        (("error", "info"), "error"),
    ],
)
def test_the_level_is_the_highest_and_ok_with_info_only(
    levels: tuple[Level, ...], expected: str
) -> None:
    assert level_of(notice(level) for level in levels) == expected


def test_errors_come_first_then_warnings_then_info_each_as_found() -> None:
    given = [
        notice("info", "a"),
        notice("warning", "b"),
        notice("error", "c"),
        notice("warning", "d"),
        notice("info", "e"),
    ]
    assert [n.text for n in ordered(given)] == ["c", "b", "d", "a", "e"]


def test_what_is_said_twice_is_listed_once_at_the_higher_level() -> None:
    given = [notice("info", "a", "x"), notice("warning", "a", "x"), notice("info", "a", "x")]
    assert ordered(given) == (notice("warning", "a", "x"),)


def test_channels_with_the_same_text_share_a_notice() -> None:
    given = [notice(where="q1", step=1.0), notice(where="q2"), notice(text="other", where="q3")]
    assert [(n.where, n.text) for n in ordered(given)] == [("q1, q2", "t"), ("q3", "other")]
    assert ordered(given)[0].numbers == {"step": 1.0}
    assert ordered(ordered(given)) == ordered(given)
    assert ordered([*ordered(given), given[0]]) == ordered(given)


def test_notices_of_different_logs_or_rules_stay_apart() -> None:
    one = of_log([notice(where="q1"), notice(where="q2")], "a.csv")
    two = of_log([notice(where="q1")], "b.csv")
    assert [n.where for n in ordered([*one, *two])] == ["a.csv: q1, q2", "b.csv: q1"]
    assert len(ordered([notice(rule="r"), notice(rule="s")])) == 2


def test_a_notice_on_a_whole_log_names_it_once() -> None:
    assert [n.where for n in of_log([notice(), notice(where="a.csv")], "a.csv")] == ["a.csv"] * 2


def test_text_names_the_place_and_the_advice() -> None:
    assert str(Notice(rule="r", level="info", text="is odd")) == "is odd"
    full = Notice(rule="clock", level="warning", where="a.csv", text="is late", advice="shift it")
    assert str(full) == "a.csv: is late; shift it"
    assert notice_lines([full]) == ["  warning  clock: a.csv: is late; shift it"]


def test_notices_come_back_from_json_and_from_other_processes() -> None:
    given = notice("error", "a", "x", factor=2, limit=float("inf"))
    form = given.to_dict()
    assert list(form) == ["rule", "level", "where", "text", "advice", "numbers"]
    assert restored(Notice, json.loads(json.dumps(plain(form), allow_nan=False))) == given
    assert pickle.loads(pickle.dumps(given)) == given
    assert len({given, notice("error", "a", "x", factor=2)}) == 2


def test_notices_can_be_collected_in_sets() -> None:
    assert len({notice("error", "a", "x"), notice("error", "a", "x")}) == 1
