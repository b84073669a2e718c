"""What is stored comes back as it was."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from gough.core.arrays import FloatArray
from gough.core.documents import plain, restored
from gough.core.errors import InvalidInput
from gough.core.record import Record, StoredRecord


@dataclass(frozen=True)
class Inner:
    name: str
    value: float
    weights: tuple[float, ...] = ()


@dataclass(frozen=True, eq=False)
class Outer:
    array: FloatArray
    used: NDArray[np.bool_]
    inner: Inner | None
    each: Mapping[str, Inner]
    notes: tuple[str, ...]
    facts: Mapping[str, Any] = field(default_factory=dict)


MADE = Outer(
    array=np.array([[1 / 3, np.inf], [-np.inf, np.nan]]),
    used=np.array([True, False]),
    inner=None,
    each={"a": Inner("b", 0.1 + 0.2, (1e-300, np.nan))},
    notes=("x",),
    facts={"k": [1, "two"]},
)


def test_every_bit_comes_back_through_json() -> None:
    back = restored(Outer, json.loads(json.dumps(plain(MADE), allow_nan=False)))
    np.testing.assert_array_equal(back.array, MADE.array)
    np.testing.assert_array_equal(back.used, MADE.used)
    assert back.used.dtype == bool
    assert back.each["a"].value == 0.1 + 0.2
    assert back.each["a"].weights[0] == 1e-300
    assert np.isnan(back.each["a"].weights[1])
    assert (back.inner, back.notes, back.facts) == (None, ("x",), {"k": [1, "two"]})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("array", [["a"]]),
        ("array", [[1.0], [1.0, 2.0]]),
        ("each", 3),
        ("each", {"a": 3}),
        ("notes", "text"),
        ("notes", [3]),
        ("inner", {"name": "b"}),
        ("inner", {"name": 3, "value": 1.0, "weights": []}),
    ],
)
def test_what_is_of_another_type_is_refused(name: str, value: object) -> None:
    with pytest.raises((InvalidInput, TypeError, ValueError)):
        restored(Outer, plain(MADE) | {name: value})


@dataclass(frozen=True)
class Kept(StoredRecord):
    stored_as = "kept"
    value: float


@pytest.mark.parametrize("text", ["x", None, [], {}])
def test_a_damaged_file_is_refused_by_name(text: object, tmp_path: Path) -> None:
    path = tmp_path / "kept.json"
    Kept(0.5).save(path)
    assert Kept.load(path).value == 0.5
    path.write_text(json.dumps(Kept(0.5).to_dict() | {"value": text}), encoding="utf-8")
    with pytest.raises(InvalidInput, match=r"kept\.json' is damaged"):
        Kept.load(path)


@dataclass(frozen=True, kw_only=True, eq=False)
class Sealed(Record):
    array: FloatArray
    by_name: Mapping[str, float]


@pytest.mark.parametrize(
    "twin_of", [copy.deepcopy, lambda sealed: pickle.loads(pickle.dumps(sealed))]
)
def test_a_record_can_be_pickled_and_copied_and_stays_read_only(twin_of) -> None:
    twin = twin_of(Sealed(array=np.arange(3.0), by_name={"a": 0.5}))
    np.testing.assert_array_equal(twin.array, [0.0, 1.0, 2.0])
    assert dict(twin.by_name) == {"a": 0.5}
    assert not twin.array.flags.writeable
    with pytest.raises(TypeError):
        twin.by_name["a"] = 1.0
