"""What is stored with a result makes it again: the same files and settings give the same bytes, for
every verb.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from command_line import succeed
from gough.app.identify import identify
from gough.app.studies.study_file import run_step, step_settings
from gough.app.studies.verbs import VERBS
from gough.core.options import merge_settings
from gough.engine import Model
from gough.identification import IdentifySettings, load_identification
from gough.logs.readers import read_recording
from gough.mechanism import load_robot

# One line for each verb, with options that are not the defaults; files in, then out.
LINES: dict[str, tuple[str, dict[str, Any], tuple[str, ...]]] = {
    "import": ("arm.urdf --motors hinge -o {0}", {"file": "arm.urdf"}, ("output",)),
    "generate": (
        "five_bar --robots 4 --days 2 --drifting 1 --seed 4 -o {0}",
        {"robot": "five_bar"},
        ("output",),
    ),
    "fleet": (
        "fleet/fleet.toml --period 1 --false-alarms 0.05 --diagnosed 0 --cutoff 20 -o {0}",
        {"file": "fleet/fleet.toml"},
        ("output",),
    ),
    "trials": (
        "five_bar --seeds 2 --periods 2 --noises 2 -o {0}",
        {"robots": ["five_bar"]},
        ("output",),
    ),
    "log": (
        "log.csv --robot five_bar -o {0}",
        {"file": "log.csv", "robot": "five_bar"},
        ("output",),
    ),
    "check": ("five_bar --tie-legs", {"robot": "five_bar"}, ()),
    "design": (
        "five_bar --starts 1 --iterations 15 --seed 3 --frequency 0.6 --harmonics 4 --samples 90 "
        "--periods 3 "
        "--singularity 0.05 --tolerance 0.01 -o {0} --csv {1}",
        {"robot": "five_bar"},
        ("output", "csv"),
    ),
    "simulate": (
        "five_bar --trajectory t.json --controller pid+ --periods 2 --seed 5 --rate 1000 "
        "--sampling 500 "
        "--dead-band 0.02 --lead-in 0 --substeps 4 -o {0}",
        {"robot": "five_bar", "trajectory": "t.json"},
        ("output",),
    ),
    "identify": (
        "five_bar log.csv --validate other.csv --estimator all --essential --ratio 20 --structures "
        "--method time --cutoff 30 --decimation 3 --window 0.01 --dead-band left.motor=0.02 "
        "--gains left.motor=1.0,right.motor=1.0 -o {0}",
        {"robot": "five_bar", "logs": ["log.csv"], "validate": ["other.csv"]},
        ("output",),
    ),
    "payload": (
        "five_bar log.csv --model result --mass 2 --at 0.01,-0.02,0 --reach 0.3 --forgetting 2 "
        "--dead-band 0.03",
        {"robot": "five_bar", "logs": ["log.csv"], "model": "result"},
        (),
    ),
    "bounds": (
        "five_bar log.csv --error-bound 0.8 --solver gauss-seidel --prior -3 3 --threshold 0.1 "
        "--tie-legs "
        "--cutoff 20 --window 0.01 -o {0}",
        {"robot": "five_bar", "logs": ["log.csv"]},
        ("output",),
    ),
    "validate": ("result other.csv", {"folder": "result", "logs": ["other.csv"]}, ()),
    "compare": (
        "result result --logs other.csv --false-alarms 0.1 --change 0.5 --error 0.9 -o {0}",
        {"folders": ["result", "result"], "logs": ["other.csv"]},
        ("output",),
    ),
    "diagnose": (
        "five_bar log.csv --validate other.csv --cutoff 20 --limits",
        {"robot": "five_bar", "logs": ["log.csv"], "validate": ["other.csv"]},
        (),
    ),
    "report": ("result -o {0}", {"folder": "result"}, ("output",)),
    "export": ("result --to c --name mine -o {0}", {"folder": "result"}, ("output",)),
}
FOLDERS = ("identify", "export")
ARM = """<robot name="arm"><link name="ground"/><link name="bar"><inertial><mass value="2"/></inertial></link>
<joint name="hinge" type="continuous"><parent link="ground"/><child link="bar"/></joint></robot>"""
SUFFIX = {
    ("import", "output"): ".toml",
    ("trials", "output"): ".csv",
    ("log", "output"): ".toml",
    ("design", "output"): ".json",
    ("design", "csv"): ".csv",
    ("simulate", "output"): ".csv",
    ("bounds", "output"): ".json",
    ("report", "output"): ".html",
    ("compare", "output"): ".html",
}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a trajectory, two logs and a result."""
    folder = tmp_path_factory.mktemp("again")
    succeed("gough design five_bar --starts 1 --iterations 15 --frequency 0.6 -o t.json", folder)
    for seed, name in enumerate(("log", "other")):
        succeed(
            f"gough simulate five_bar --trajectory t.json --periods 3 --seed {seed} -o {name}.csv",
            folder,
        )
    succeed("gough identify five_bar log.csv --dead-band left.motor=0.02 -o result", folder)
    (folder / "arm.urdf").write_text(ARM)
    succeed("gough generate five_bar --robots 4 --days 3 --drifting 1 -o fleet", folder)
    return folder


def contents(path: Path) -> dict[str, bytes]:
    """Files by name; a study beside a result names its folder, so it is another one elsewhere."""
    if path.is_file():
        return {"": path.read_bytes()}
    return {
        str(p.relative_to(path)): p.read_bytes()
        for p in sorted(path.rglob("*"))
        if p.is_file() and p.name != "study.toml"
    }


def facts(output: dict[str, Any]) -> dict[str, Any]:
    """What a verb said, but for the time it took and where it wrote."""
    return {
        key: value for key, value in output.items() if key not in ("seconds", "files", "report")
    }


@pytest.mark.parametrize("verb", VERBS)
def test_stored_settings_make_the_same_result(place: Path, verb: str) -> None:
    line, files, written = LINES[verb]
    names = {k: [f"{verb}_{k}_{key}{SUFFIX.get((verb, key), '')}" for key in written] for k in "ab"}
    first = json.loads(succeed(f"gough {verb} {line.format(*names['a'])} --json", place))
    given = {**files, **first["settings"], **dict(zip(written, names["b"]))}
    again = run_step(verb, given, folder=place)
    told = facts(json.loads(json.dumps(again.to_dict())))
    kept = told.pop(
        "settings", {}
    )  # those of the result; the step has more, such as who does the work
    assert kept or verb not in ("identify", "bounds")
    if verb == "identify":  # a box says what was chosen instead
        assert {key: first["settings"][key] for key in kept} == kept
    assert told == {key: value for key, value in facts(first).items() if key != "settings"}
    assert step_settings(verb, given) == first["settings"]
    for one, two in zip(names["a"], names["b"]):
        assert contents(place / one) == contents(place / two)
        assert contents(place / one)


def test_settings_in_the_files_make_the_same_files(place: Path) -> None:
    """Not what was printed, but what stands in trajectory, box, log and result."""
    for verb, file in (("design", "t.json"), ("bounds", "box.json")):
        if verb == "bounds":
            succeed(
                "gough bounds five_bar log.csv --error-bound 0.9 --prior -2 2 --tie-legs -o "
                "box.json",
                place,
            )
        kept = json.loads((place / file).read_text())["settings"]
        run_step(verb, {**LINES[verb][1], **kept, "output": f"again_{file}"}, folder=place)
        assert (place / f"again_{file}").read_bytes() == (place / file).read_bytes()
    first = (place / "log.csv").read_text().splitlines()[0]
    kept = json.loads(first[first.index("{") :])["settings"]
    run_step("simulate", {**LINES["simulate"][1], **kept, "output": "again_log.csv"}, folder=place)
    assert (place / "again_log.csv").read_bytes() == (place / "log.csv").read_bytes()
    kept = load_identification(place / "result").settings
    model = Model(load_robot("five_bar"))
    (place / "python").mkdir()
    beside = {name: (place / "result" / name).read_text() for name in ("robot.toml", "study.toml")}
    identify(
        model, [read_recording(place / "log.csv")], merge_settings(IdentifySettings, None, kept)
    ).save(place / "python", beside=beside)
    for name in ("estimate.json", "fits.npz"):
        assert (place / "python" / name).read_bytes() == (place / "result" / name).read_bytes()


def test_validate_and_payload_process_as_the_result_was_processed(place: Path) -> None:
    """A dead band given to identify is that of the other verbs: without it they would answer
    something else.
    """
    succeed(
        "gough identify five_bar log.csv --dead-band 0.3 --cutoff 8 --window 0.03 -o wide", place
    )
    held = json.loads(
        succeed(
            "gough identify five_bar log.csv --dead-band 0.3 --cutoff 8 --window 0.03 "
            "--validate other.csv --json",
            place,
        )
    )["validation"]
    assert (
        json.loads(succeed("gough validate wide other.csv --json", place))["rows"] == held["rows"]
    )
    found, plain = (
        json.loads(succeed(f"gough payload five_bar other.csv --model wide {words} --json", place))
        for words in ("", "--dead-band 0 --cutoff 40 --window 0")
    )
    given = json.loads(
        succeed(
            "gough payload five_bar other.csv --model wide --dead-band 0.3 --cutoff 8 "
            "--window 0.03 --json",
            place,
        )
    )
    assert found["parameters"] == given["parameters"]
    assert found["parameters"] != plain["parameters"]
