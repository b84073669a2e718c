"""TOML and JSON that would hang or crash a parser are refused with their place."""

from __future__ import annotations

import pytest

from gough.core.documents import parse_json, parse_toml
from gough.core.errors import InvalidInput


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("a = 1" + "0" * 5000, "digits in line 1"),
        ("b = 2\na = " + "[" * 3000 + "]" * 3000, "nested more than 60 deep in line 2"),
        (".".join(["a"] * 30000) + " = 1", "more than 60 parts in line 1"),
        ("x = 1\n[" + " . ".join(['"a"'] * 100) + "]", "more than 60 parts in line 2"),
        ("t = {" + ".".join(["k"] * 500) + " = 1}", "more than 60 parts"),
        ("a = ", "Invalid value"),
        ("d = 2020-13-01", "line 1"),
        ("#" * 5_000_000, "at most"),
    ],
)
def test_a_hostile_toml_is_refused_at_once(text: str, word: str) -> None:
    with pytest.raises(InvalidInput, match=word):
        parse_toml(text)


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("[" * 100_000, "nested"),
        ('{"a": 1' + "0" * 5000 + "}", "digits"),
        ("{", "Expecting"),
        ("", "Expecting"),
    ],
)
def test_a_hostile_json_is_refused_at_once(text: str, word: str) -> None:
    with pytest.raises(InvalidInput, match=word):
        parse_json(text)


def test_what_looks_deep_inside_text_is_none_of_it() -> None:
    brackets, dots = "[" * 100, "a.b" * 40 + " c"
    assert parse_toml(f'a = "{brackets}"\nb = [[1, 2.5], [3]]\nc = {{d.e = 1}}') == {
        "a": brackets,
        "b": [[1, 2.5], [3]],
        "c": {"d": {"e": 1}},
    }
    assert parse_json(f'["{brackets}", "{dots}"]') == [brackets, dots]
    word = "a" * 300_000  # a look at every end of it would take an hour
    assert parse_toml(f'a = "{word}"') == {"a": word}
