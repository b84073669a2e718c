"""A processing is plain values: complete or not, stored and read back, refused where it makes no
sense.
"""

from __future__ import annotations

import json

import numpy as np
import pytest

from gough.core.errors import InvalidInput
from gough.logs.recording import Recording
from gough.processing import Processing
from gough.processing.settings import decimation_of

COMPLETE = Processing(
    method="time",
    cutoff=12.5,
    decimation=32,
    dead_band={"a": 1e-3, "b": 0.0},
    window=0.02,
    joints_at_rest=("b",),
)


def test_what_is_stored_reads_back_the_same() -> None:
    for settings in (
        Processing(),
        COMPLETE,
        Processing(dead_band=0.1, repeats="found", frequency=0.3),
    ):
        stored = json.loads(json.dumps(settings.to_dict()))
        assert Processing(**stored) == settings


@pytest.mark.parametrize(
    "missing", ["cutoff", "decimation", "dead_band", "window", "joints_at_rest"]
)
def test_a_processing_is_complete_when_no_number_is_missing(missing: str) -> None:
    assert COMPLETE.complete
    assert not Processing(**(COMPLETE.to_dict() | {missing: None})).complete
    assert not Processing(**(COMPLETE.to_dict() | {"method": "auto"})).complete
    assert not Processing(
        **(COMPLETE.to_dict() | {"dead_band": 0.1})
    ).complete  # by joint, or it is not said for which


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("method", "magic", "method is 'magic'"),
        ("decimation", 0, "decimation is 0"),
        ("decimation", 1.5, "decimation is 1.5"),
        ("window", -1.0, "window is -1.0 s, expected .* at least 0"),
        ("dead_band", -1.0, "dead_band is -1.0"),
        ("dead_band", {"a": np.nan}, "dead_band is "),
        ("repeats", "often", "repeats is 'often'"),
    ],
)
def test_settings_that_make_no_sense_are_refused(key: str, value: object, words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        Processing(**{key: value})  # type: ignore[arg-type]


def test_dead_bands_go_by_name() -> None:
    np.testing.assert_array_equal(COMPLETE.bands(("b", "a", "c")), [0.0, 1e-3, 0.0])
    np.testing.assert_array_equal(Processing(dead_band=0.5).bands(("x", "y")), [0.5, 0.5])
    with pytest.raises(InvalidInput, match=r"dead band of 'b', which is no joint"):
        COMPLETE.bands(("a", "c"))


@pytest.mark.parametrize(
    ("rate", "cutoff", "factor"),
    [(5000, 50, 40), (1000, 100, 4), (1000, 400, 1), (1000, 450, 1), (500, 4.99, 40), (100, 10, 4)],
)
def test_decimation_follows_the_cut_off(rate: float, cutoff: float, factor: int) -> None:
    """floor(0.8 rate / (2 cutoff)): the low-pass of regressor and effort has the edge of that of
    the positions.
    """
    assert decimation_of(cutoff, rate) == factor


def test_a_log_without_periods_is_processed_in_time_among_periodic_ones() -> None:
    log = Recording(
        joints=("a",),
        time=np.arange(100) / 10,
        position=np.zeros((100, 1)),
        position_units=("m",),
        effort=np.zeros((100, 1)),
        period_samples=20,
    )
    single = Recording(
        joints=("a",),
        time=log.time,
        position=log.position,
        position_units=("m",),
        effort=log.effort,
    )
    for method, expected in (
        ("explicit", ("explicit", "time")),
        ("implicit", ("implicit", "time")),
        ("time", ("time", "time")),
        ("raw", ("raw", "raw")),
        ("auto", ("explicit", "time")),
    ):
        settings = Processing(method=method)  # type: ignore[arg-type]
        assert (settings.method_for(log), settings.method_for(single)) == expected
