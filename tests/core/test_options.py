"""Options declared once: read, checked, shown and stored."""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping, Sequence
from dataclasses import FrozenInstanceError, dataclass, replace
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np
import pytest

from gough.core.errors import InvalidInput
from gough.core.options import (
    REQUIRED,
    Settings,
    merge_settings,
    nested,
    option,
    options_of,
    with_settings,
)


@dataclass(frozen=True, kw_only=True)
class Filter(Settings):
    cutoff: float | None = option(None, "Low-pass.", unit="Hz", above=0)
    bands: float | Mapping[str, float] | None = option(None, "Dead bands.", least=0)


@runtime_checkable
class Fitter(Protocol):
    def fit(self, problem: Any) -> Any: ...


class Mine:
    def fit(self, problem: Any) -> Any:
        return problem

    def __repr__(self) -> str:
        return "Mine()"


@dataclass(frozen=True, kw_only=True)
class Whole(Settings):
    size: int = option(REQUIRED, "How many.", least=1)
    kind: Literal["plain", "fancy"] = option("plain", "Which.")
    prior: tuple[float, float] | None = option(None, "Bounds.")
    names: Sequence[str] = option((), "Some names.")
    quick: bool = option(False, "Hurry.")
    estimator: str | Fitter = option("gm", "Who.", choices=lambda: ("gm", "ls"))
    filter: Filter = nested(Filter)


@with_settings(Whole)
def work(
    data: list[int], settings: Whole | None = None, *, progress: object = None, **options: Any
) -> Whole:
    """Work on data."""
    return merge_settings(Whole, settings, options)


def test_keyword_arguments_and_settings_come_to_the_same() -> None:
    assert work([], size=3, cutoff=20) == work([], Whole(size=3, filter=Filter(cutoff=20.0)))
    assert work([], Whole(size=3), kind="fancy") == Whole(size=3, kind="fancy")


def test_a_part_is_given_whole_or_option_by_option_or_both() -> None:
    both = work([], size=1, filter=Filter(cutoff=20.0, bands=0.1), cutoff=30.0)
    assert both.filter == Filter(cutoff=30.0, bands=0.1)
    assert work([], both, bands={"a": 1}).filter == Filter(cutoff=30.0, bands={"a": 1.0})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "`size` is needed: How many"),
        ({"size": 0}, "size is 0, expected a whole number of at least 1"),
        ({"size": 2.5}, "size is 2.5, expected a whole number"),
        ({"size": True}, "size is True, expected a whole number"),
        ({"size": 1, "cutoff": 0}, "cutoff is 0 Hz, expected a number above 0"),
        ({"size": 1, "cutoff": float("nan")}, "cutoff is nan Hz, expected a number above 0"),
        ({"size": 1, "cutoff": "1 Hz"}, "cutoff is '1 Hz', expected a number"),
        (
            {"size": 1, "bands": {"a": -1.0}},
            "expected a number of at least 0 or a table of numbers",
        ),
        ({"size": 1, "kind": "fancyy"}, "expected one of plain, fancy; did you mean 'fancy'?"),
        ({"size": 1, "prior": [1.0]}, r"prior is \[1.0\], expected 2 numbers"),
        ({"size": 1, "names": "abc"}, "names is 'abc', expected a list of texts"),
        ({"size": 1, "quick": 1}, "quick is 1, expected true or false"),
        ({"size": 1, "estimator": "gn"}, "did you mean 'gm'"),
        ({"size": 1, "estimator": 3}, "estimator is 3, expected one of gm, ls"),
        ({"size": 1, "cutof": 3.0}, "no option 'cutof'; did you mean 'cutoff'"),
        ({"size": 1, "filter": 3.0}, "settings are a float, expected Filter"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        work([], **options)


def test_numbers_of_numpy_are_numbers() -> None:
    found = Whole(
        size=np.int64(4), prior=np.array([1.0, 2.0]), filter=Filter(cutoff=np.float32(2.0))
    )
    assert (found.size, found.prior, found.filter.cutoff) == (4, (1.0, 2.0), 2.0)
    assert json.loads(json.dumps(found.to_dict()))["prior"] == [1.0, 2.0]


def test_what_is_stored_makes_the_same_settings() -> None:
    made = Whole(
        size=2, kind="fancy", prior=(0, 1), names=["a"], quick=True, filter=Filter(bands={"a": 1})
    )
    again = merge_settings(Whole, None, json.loads(json.dumps(made.to_dict())))
    assert again == made
    assert set(made.to_dict()) == set(options_of(Whole))
    assert "filter" not in made.to_dict()


def test_an_object_may_stand_for_a_word_and_is_stored_as_it_shows_itself() -> None:
    found = Whole(size=1, estimator=Mine())
    assert isinstance(found.estimator, Mine)
    assert found.to_dict()["estimator"] == "Mine()"


def test_settings_cannot_be_changed_but_replaced() -> None:
    made = Whole(size=2, filter=Filter(bands={"a": 1.0}))
    with pytest.raises(FrozenInstanceError):
        made.size = 3  # type: ignore[misc]
    with pytest.raises(TypeError):
        made.filter.bands["a"] = 2.0  # type: ignore[index]
    with pytest.raises(InvalidInput, match="size is 0"):
        replace(made, size=0)


def test_signature_and_help_of_the_function_show_the_options() -> None:
    shown = inspect.signature(work).parameters
    assert list(shown) == ["data", "settings", "progress", *options_of(Whole)]
    assert shown["size"].default is inspect.Parameter.empty
    assert shown["kind"].default == "plain"
    assert "cutoff: Low-pass. [Hz]" in (inspect.getdoc(work) or "")


def test_options_of_nested_settings_are_given_beside_the_others() -> None:
    @dataclass(frozen=True, kw_only=True)
    class Step(Settings):
        robot: str = option(REQUIRED, "Robot.")
        settings: Whole = nested(Whole)
        force: bool = option(False, "Overwrite.")

    assert list(options_of(Step)) == ["robot", *options_of(Whole), "force"]
    made = merge_settings(Step, None, {"robot": "r", "size": 2, "cutoff": 1})
    assert made == Step(robot="r", settings=Whole(size=2, filter=Filter(cutoff=1.0)))
    with pytest.raises(InvalidInput, match="`robot` is needed"):
        merge_settings(Step, None, {"size": 2})


def test_an_option_declared_twice_is_a_mistake_of_ours() -> None:
    @dataclass(frozen=True, kw_only=True)
    class Twice(Settings):
        cutoff: float = option(1.0, "Again.")
        filter: Filter = nested(Filter)

    with pytest.raises(TypeError, match="'cutoff' is declared twice"):
        options_of(Twice)
