"""Levels of results as exit codes, on the command line and in studies, and their JSON Schema."""

from __future__ import annotations

import copy
import json
from pathlib import Path

import jsonschema
import pytest

from command_line import run, succeed
from documentation import ROOT, check_result
from gough.app.studies.result_schema import result_schema
from gough.identification import Identification
from gough.logs.recording import Recording
from gough.logs.writers import save_recording
from gough.mechanism import robot_text


@pytest.fixture(scope="module")
def folder(
    tmp_path_factory: pytest.TempPathFactory,
    five_bar_result: Identification,
    five_bar_log: Recording,
    five_bar_other: Recording,
) -> Path:
    """A result without held-out log, whose level is warning, and the logs."""
    folder = tmp_path_factory.mktemp("levels")
    save_recording(five_bar_log, folder / "log.csv")
    save_recording(five_bar_other, folder / "other.csv")
    (folder / "result").mkdir()
    assert five_bar_result.level == "warning"
    five_bar_result.save(folder / "result", beside={"robot.toml": robot_text("five_bar")[0]})
    return folder


def write_scaled(folder: Path, name: str, factor: float) -> None:
    """Write the other log with its efforts times a factor."""
    facts, head, *rows = (folder / "other.csv").read_text(encoding="utf-8").splitlines()
    efforts = [k for k, column in enumerate(head.split(",")) if ".effort" in column]
    scaled = []
    for row in rows:
        cells = row.split(",")
        for k in efforts:
            cells[k] = str(factor * float(cells[k]))
        scaled.append(",".join(cells))
    (folder / name).write_text("\n".join([facts, head, *scaled]) + "\n")


@pytest.mark.parametrize(
    ("option", "code"), [("", 0), ("--fail-on error", 0), ("--fail-on warning", 3)]
)
def test_a_warning_fails_only_where_asked(folder: Path, option: str, code: int) -> None:
    write_scaled(folder, "warned.csv", 1.2)
    outcome = run(f"gough validate result warned.csv {option} --json", folder)
    assert outcome.code == code, outcome.err
    facts = json.loads(outcome.out)
    assert facts["level"] == "warning"
    assert "fail_on" not in facts["settings"]  # it does not change the result
    assert ("failed: the level is warning, --fail-on warning" in outcome.err) == (code == 3)


def test_a_level_that_does_not_exist_is_wrong_usage(folder: Path) -> None:
    assert run("gough validate result other.csv --fail-on ok", folder).code == 2


def test_the_result_is_written_before_the_command_fails(folder: Path) -> None:
    line = "gough identify five_bar log.csv --cutoff 20 --fail-on warning -o kept"
    assert run(line, folder).code == 3
    assert (folder / "kept" / "estimate.json").exists()


@pytest.mark.parametrize(("factor", "level"), [(1.0, "ok"), (1.2, "warning"), (2.0, "error")])
def test_a_prediction_has_a_level(folder: Path, factor: float, level: str) -> None:
    write_scaled(folder, "scaled.csv", factor)
    outcome = run("gough validate result scaled.csv --fail-on error --json", folder)
    assert outcome.code == (3 if level == "error" else 0)
    facts = json.loads(outcome.out)
    assert facts["level"] == level
    relative = [
        notice["numbers"]["relative"]
        for notice in facts["notices"]
        if notice["rule"] == "prediction"
    ]
    if level != "ok":
        assert relative[0] == pytest.approx(1 - 1 / factor, abs=0.05)


@pytest.mark.parametrize(
    ("top", "section", "option", "code"),
    [
        ("", 'fail_on = "warning"', "", 3),
        ('fail_on = "warning"', "", "", 3),
        ('fail_on = "warning"', 'fail_on = "error"', "", 0),
        ("", "", "--fail-on warning", 3),
        ("", "", "", 0),
    ],
)
def test_a_study_stops_at_the_level(
    folder: Path, top: str, section: str, option: str, code: int
) -> None:
    write_scaled(folder, "warned.csv", 1.2)
    (folder / "study.toml").write_text(
        f'format = 1\n{top}\n[compare]\nfolders = ["result", "result"]\n'
        f'[validate]\nfolder = "result"\nlogs = ["warned.csv"]\n{section}\n'
        '[check]\nrobot = "five_bar"\n'
    )
    outcome = run(f"gough run study.toml {option}", folder)
    assert outcome.code == code, outcome.err
    assert outcome.out.count("\ncheck:") == (code == 0)
    assert "compare: no parameter differs" in outcome.out


@pytest.mark.parametrize(
    ("verb", "line"),
    [
        ("check", "check five_bar"),
        ("check_motion", "check five_bar --log log.csv"),
        ("identify", "identify five_bar log.csv --validate other.csv --cutoff 20"),
        ("validate", "validate result other.csv"),
        ("compare", "compare result result --logs other.csv"),
        ("payload", "payload five_bar log.csv --model result"),
    ],
)
def test_output_fits_the_schema(folder: Path, verb: str, line: str) -> None:
    output = succeed(f"gough {line} --json", folder)
    check_result(verb, output)
    broken = json.loads(output)
    broken["level"] = "good"
    with pytest.raises(jsonschema.ValidationError):
        check_result(verb, json.dumps(broken))


def test_the_schema_is_valid_and_the_documentation_has_it(tmp_path: Path) -> None:
    schema = result_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    assert json.loads((ROOT / "docs" / "result.schema.json").read_text()) == schema, (
        "write it again: gough schema result > docs/result.schema.json"
    )
    assert json.loads(succeed("gough schema result", tmp_path)) == schema


def test_a_missing_key_does_not_fit_the_schema(folder: Path) -> None:
    facts = json.loads(succeed("gough check five_bar --json", folder))
    check_result("check", json.dumps(facts))
    for key in ("level", "headline", "notices", "base_parameters"):
        fewer = copy.deepcopy(facts)
        del fewer[key]
        with pytest.raises(jsonschema.ValidationError):
            check_result("check", json.dumps(fewer))
