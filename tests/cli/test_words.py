"""The command line says in its own words what the library says in Python's."""

from __future__ import annotations

import pytest

from gough.app.cli.verb_commands import cli_type, name_flags, parse_cli_value
from gough.app.studies.verbs import step_type
from gough.core.errors import InvalidInput
from gough.core.options import options_of

KNOWN = options_of(step_type("identify"))


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("give them with `loaded`", "give them with --loaded"),
        ("choose another one or use `force=True`", "choose another one or use --force"),
        ("ask for it with `estimator='ml'`", "ask for it with --estimator ml"),
        ("see `tie_legs` and `dead_band=0.1`", "see --tie-legs and --dead-band 0.1"),
        (
            "`gough identify -o` wrote `nothing=3` and `something`",
            "`gough identify -o` wrote `nothing=3` and `something`",
        ),
    ],
)
def test_names_of_settings_become_options(said: str, shown: str) -> None:
    assert name_flags(said, KNOWN) == shown


@pytest.mark.parametrize(
    ("name", "words", "value"),
    [
        ("gains", ["a=1", "b=2.5"], {"a": 1.0, "b": 2.5}),
        ("gains", ["a=1,b=2.5"], {"a": 1.0, "b": 2.5}),
        ("dead_band", ["0.1"], 0.1),
        ("dead_band", ["a=0.1"], {"a": 0.1}),
        ("loaded", ["a.csv", "b.csv"], ["a.csv", "b.csv"]),
        ("cutoff", 3.0, 3.0),
    ],
)
def test_what_is_written_becomes_the_value(name: str, words: object, value: object) -> None:
    assert parse_cli_value(KNOWN[name], words) == value
    assert KNOWN[name].read(value) is not None


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("gains", ["a"]),
        ("gains", ["a=x"]),
        ("gains", ["1.0"]),
        ("dead_band", ["x"]),
        ("dead_band", ["0.1", "a=1"]),
    ],
)
def test_what_is_no_number_is_refused(name: str, words: list[str]) -> None:
    with pytest.raises(InvalidInput, match=rf"{name}: expected"):
        parse_cli_value(KNOWN[name], words)


def test_types_are_those_of_the_options() -> None:
    assert cli_type(KNOWN["cutoff"]) is float
    assert cli_type(KNOWN["decimation"]) is int
    assert cli_type(KNOWN["essential"]) is bool
    assert cli_type(KNOWN["payload"]) is str
    assert cli_type(KNOWN["loaded"]) == list[str]
    assert cli_type(options_of(step_type("bounds"))["prior"]) == tuple[float, float]
    assert cli_type(options_of(step_type("simulate"))["dead_band"]) == list[float]
    assert cli_type(options_of(step_type("identify"))["joints_at_rest"]) == list[str]


def test_options_of_the_processing_have_a_heading_of_their_own_in_the_help() -> None:
    headings = {option.heading for option in KNOWN.values()}
    assert KNOWN["cutoff"].heading == KNOWN["window"].heading == "Processing of the logs"
    assert KNOWN["estimator"].heading == KNOWN["output"].heading == ""
    assert len(headings) == 3
