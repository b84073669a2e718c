"""Names of logs with any characters: @, brackets, bytes that are no UTF-8."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

import command_line
import gough
from gough.app.studies.input_files import expand_patterns
from gough.app.studies.study_file import resolve_paths
from gough.app.studies.verbs import step_type
from gough.core.documents import parse_toml
from gough.core.options import options_of
from gough.logs.readers import as_recordings, log_and_description, log_with_description

NAMES = st.text("@ab/.", min_size=1, max_size=8)


@pytest.mark.parametrize(
    ("text", "file", "description"),
    [
        ("log.csv", "log.csv", None),
        ("log.csv@its.toml", "log.csv", "its.toml"),
        ("me@host/log.csv", "me@host/log.csv", None),
        ("me@host/log.csv@its.toml", "me@host/log.csv", "its.toml"),
        ("log.csv@me@@host/its.toml", "log.csv", "me@host/its.toml"),
        ("a@@@@b.csv", "a@@b.csv", None),
        ("folder@@.toml", "folder@.toml", None),
    ],
)
def test_an_at_sign_separates_only_a_description(text, file, description) -> None:
    assert log_and_description(text) == (file, description)


@given(NAMES, st.none() | NAMES)
def test_any_two_names_can_be_written_as_one_text(file, description) -> None:
    if description is not None:
        description += ".toml"
    log, described = log_and_description(log_with_description(file, description))
    assert log == file
    assert described in (description, f"./{description}")


def test_a_path_object_is_a_file_as_it_is() -> None:
    assert log_and_description(Path("a@b.toml")) == ("a@b.toml", None)


@pytest.fixture(scope="module")
def folder(five_bar_log, tmp_path_factory) -> Path:
    """A folder with @ in its name and a log in it."""
    folder = tmp_path_factory.mktemp("me@host")
    five_bar_log.save(folder / "log@1.csv")
    return folder


def test_a_log_with_an_at_sign_is_read(folder: Path) -> None:
    for log in (folder / "log@1.csv", str(folder / "log@1.csv")):
        assert len(as_recordings(log)) == 1
    assert expand_patterns([str(folder / "log*.csv")], str(folder / "its.toml")) == [
        f"{str(folder).replace('@', '@@')}/log@@1.csv@{str(folder).replace('@', '@@')}/its.toml"
    ]


def test_the_study_of_a_result_finds_names_with_an_at_sign(folder: Path) -> None:
    log = str(folder / "log@1.csv")
    logs = [log, log_with_description(log, folder / "d@e.toml")]
    texts = step_type("identify")(robot="five_bar", logs=logs)._files_beside(folder / "out", "")
    written = parse_toml(texts["study.toml"])["identify"]["logs"]
    assert log_and_description(written[0]) == ("../log@1.csv", None)
    assert log_and_description(written[1]) == ("../log@1.csv", "../d@e.toml")


def test_a_study_resolves_names_with_an_at_sign() -> None:
    given = {"robot": "a@b.toml", "logs": ["me@x/log.csv@d.toml"], "description": "d@e.toml"}
    known = options_of(step_type("identify"))
    resolved = resolve_paths(given, known, Path("/s@t"))
    assert resolved["description"] == "/s@t/d@e.toml"
    assert log_and_description(resolved["logs"][0]) == ("/s@t/me@x/log.csv", "/s@t/d.toml")


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no such names")
def test_a_log_whose_name_is_no_utf8_keeps_its_result(folder: Path, tmp_path: Path) -> None:
    name = os.fsdecode(b"log\xff.csv")
    try:
        (tmp_path / name).write_bytes((folder / "log@1.csv").read_bytes())
    except OSError:
        pytest.skip("the file system refuses such names")
    line = f"gough identify five_bar {name} --estimator ls --cutoff 20 -o out"
    command_line.succeed(line, tmp_path)
    command_line.succeed("gough report out", tmp_path)
    assert gough.load_identification(tmp_path / "out").robot == "five_bar"
    for file in ("study.toml", "report.html", "estimate.json"):
        assert "log\\" in (tmp_path / "out" / file).read_text(encoding="utf-8")
    message = command_line.run("gough run out/study.toml", tmp_path).err
    assert "log\\udcff.csv" in message
    assert "Traceback" not in message
