"""The installed command on two robots: results, JSON, exit codes, and files that survive."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest

from command_line import answer, gough, run
from documentation import check_keys
from gough.app.studies.corrected_files import NOTHING_TO_CORRECT


@pytest.fixture(scope="module", params=["five_bar", pytest.param("h4", marks=pytest.mark.long)])
def study(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, Path]:
    """A robot with trajectory, two logs and a result, all made by the command."""
    robot = request.param
    folder = tmp_path_factory.mktemp(robot)
    frequency = {"five_bar": "0.6", "h4": "0.6"}[robot]
    facts = answer(
        folder,
        "design",
        robot,
        "--starts",
        "1",
        "--frequency",
        frequency,
        "--harmonics",
        "4",
        "-o",
        "trajectory.json",
        "--csv",
        "trajectory.csv",
    )
    assert set(facts) >= {
        "criterion",
        "value",
        "condition_number",
        "violations",
        "evaluations",
        "seconds",
    }
    assert facts["violations"] == 0
    for seed in ("1", "2"):
        facts = answer(
            folder,
            "simulate",
            robot,
            "--trajectory",
            "trajectory.json",
            "--periods",
            "3",
            "--seed",
            seed,
            "-o",
            f"log{seed}.csv",
        )
        assert set(facts) >= {
            "tracking_rms",
            "tracking_max",
            "loop_error",
            "saturated_samples",
            "seconds",
        }
        assert facts["loop_error"] < 1e-8
    facts = answer(
        folder,
        "identify",
        robot,
        "log1.csv",
        "--validate",
        "log2.csv",
        "--estimator",
        "all",
        "-o",
        "result",
    )
    assert set(facts) >= {
        "robot",
        "estimator",
        "parameters",
        "drive_gains",
        "payload",
        "residual",
        "validation",
        "level",
        "headline",
        "notices",
    }
    return robot, folder


def test_check_says_what_can_be_identified(study: tuple[str, Path]) -> None:
    robot, folder = study
    facts = answer(folder, "check", robot)
    assert set(facts) >= {
        "robot",
        "degrees_of_freedom",
        "actuated",
        "coordinates",
        "closure_residual",
        "standard_parameters",
        "base_parameters",
    }
    assert set(facts["base_parameters"]) >= {"count", "names", "regrouping"}
    assert facts["closure_residual"] < 1e-10
    assert robot in gough(folder, "robots").out


def test_legs_are_tied_only_where_asked(tmp_path: Path) -> None:
    for words in ((), ("--tie-legs",)):
        known = answer(tmp_path, "check", "five_bar", *words)["base_parameters"]["count"]
        planned = answer(
            tmp_path, "design", "five_bar", "--starts", "1", "--iterations", "3", *words
        )["parameters"]
        assert planned == known == (13 if words else 17)


def test_structures_are_compared_where_asked(study: tuple[str, Path]) -> None:
    robot, folder = study
    line = ("identify", robot, "log1.csv", "--validate", "log2.csv", "--structures")
    output = gough(folder, *line, "--json").out
    check_keys(output, "study", "JSON of gough identify")
    found = json.loads(output)["structures"]
    assert found["advised"] in [s["name"] for s in found["friction"]]
    text = gough(folder, *line, "-o", "choice").out
    assert "Friction structures" in text
    assert json.loads((folder / "choice" / "estimate.json").read_text())["structures"] == found
    assert "structures = true" in (folder / "choice" / "study.toml").read_text()
    gough(folder, "report", "choice")
    assert "Choice of the model" in (folder / "choice" / "report.html").read_text(encoding="utf-8")


def test_identify_predicts_the_other_log(study: tuple[str, Path]) -> None:
    _, folder = study
    facts = answer(folder, "validate", "result", "log2.csv")
    assert facts["predicts"] == "good"
    stored = json.loads((folder / "result" / "estimate.json").read_text())
    assert facts["rows"] == stored["validation"]["rows"]  # judged as when it was identified
    assert facts["headline"] == stored["validation"]["headline"]


def test_diagnose_names_a_delay_and_writes_what_mends_it(
    tmp_path: Path, study: tuple[str, Path]
) -> None:
    robot, folder = study
    for name in ("log1", "log2"):
        facts, head, *rows = (folder / f"{name}.csv").read_text(encoding="utf-8").splitlines()
        columns = head.split(",")
        late = [
            k for k, column in enumerate(columns) if ".effort" in column or ".current" in column
        ]
        cells = [row.split(",") for row in rows]
        # The motion is periodic: what comes before the first sample is the last.
        shifted = [
            [cells[t - 3][k] if k in late else cell for k, cell in enumerate(row)]
            for t, row in enumerate(cells)
        ]
        (tmp_path / f"{name}.csv").write_text(
            "\n".join([facts, head, *(",".join(row) for row in shifted)]) + "\n"
        )
    words = ("diagnose", robot, "log1.csv", "--validate", "log2.csv")
    output = gough(tmp_path, *words, "--json").out
    check_keys(output, "study", "JSON of gough diagnose")
    first = json.loads(output)["faults"][0]
    assert (first["name"], first["place"]) == ("effort delay", "all motors")
    step = float(cells[1][0]) - float(cells[0][0])
    assert abs(first["size"] - 3 * step) < 4 * first["std"] + 0.1 * step
    assert first["after"] < first["before"]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["log1.csv", "log2.csv"]
    gough(tmp_path, *words, "--apply")
    assert (tmp_path / "log1.corrected.toml").exists()
    gough(tmp_path, *words, "--apply", code=1)  # never over an existing one
    mended = answer(tmp_path, *words, "--description", "log1.corrected.toml")
    assert not [m for m in mended["faults"] if m["name"] == "effort delay"]


def test_a_fault_of_one_log_is_corrected_in_that_log_only(
    tmp_path: Path, study: tuple[str, Path]
) -> None:
    robot, folder = study
    facts, head, *rows = (folder / "log1.csv").read_text(encoding="utf-8").splitlines()
    names = head.split(",")
    column = next(k for k, name in enumerate(names) if ".effort" in name or ".current" in name)
    turned = []
    for row in rows:
        cells = row.split(",")
        cells[column] = repr(-float(cells[column]))
        turned.append(",".join(cells))
    text = "\n".join([facts, head, *turned]) + "\n"
    (tmp_path / "turned.csv").write_text(text, encoding="utf-8")
    shutil.copy(folder / "log2.csv", tmp_path / "right.csv")
    words = ("identify", robot, "turned.csv", "--validate", "ri*.csv")
    wrong = answer(tmp_path, *words, "--apply")
    assert [fault["name"] for fault in wrong["diagnosis"]["faults"]] == ["effort sign"]
    assert [p.name for p in sorted(tmp_path.glob("*.toml"))] == ["turned.corrected.toml"]
    corrected = ("identify", robot, "turned.csv@turned.corrected.toml", "--validate", "right.csv")
    assert answer(tmp_path, *corrected)["level"] == "ok"
    nothing = answer(tmp_path, *corrected, "--apply")
    texts = [n["text"] for n in nothing["notices"] if n["rule"] == "corrected files"]
    assert texts == [NOTHING_TO_CORRECT]


def test_check_says_what_a_motion_will_tell(study: tuple[str, Path]) -> None:
    robot, folder = study
    output = gough(folder, "check", robot, "--trajectory", "trajectory.json", "--json").out
    check_keys(output, "study", "JSON of gough check with a motion")
    planned, logged = json.loads(output), answer(folder, "check", robot, "--log", "log1.csv")
    assert [p["name"] for p in planned["parameters"]] == [p["name"] for p in logged["parameters"]]
    stored = {
        p["name"]: p
        for p in json.loads((folder / "result" / "estimate.json").read_text())["parameters"]
    }
    ratios = []
    for one, other in zip(planned["parameters"], logged["parameters"]):
        # ten planned periods, and those of the log
        periods = logged["periods"] or 1
        ratios.append(other["std"] / one["std"] / np.sqrt(planned["periods"] / periods))
        assert one["std"] < 5 * stored[one["name"]]["std"]  # no experiment does better
    assert 0.4 < np.median(ratios) < 2.5  # dead bands and windows are chosen for each
    found = {limit["name"]: limit for limit in planned["limits"]}
    assert {"effort delay", "encoder offset", "tilt"} <= set(found) or robot == "five_bar"
    assert 0 < found["effort delay"]["size"] < 1e-2
    gough(folder, "check", robot, "--trajectory", "trajectory.json", "--log", "log1.csv", code=1)


def test_bounds_enclose(study: tuple[str, Path]) -> None:
    robot, folder = study
    bound = {"five_bar": "0.6", "h4": "2.0"}[robot]
    facts = answer(
        folder, "bounds", robot, "log1.csv", "--error-bound", bound, "-o", "bounds.json", "--force"
    )
    assert all(low <= high for low, high in zip(facts["lower"], facts["upper"]))
    assert "proven: the box of" in run("gough bounds --verify bounds.json", folder).out
    stored = json.loads((folder / "bounds.json").read_text())
    stored["upper"][0] -= 1e-9 * (stored["upper"][0] - stored["lower"][0])
    (folder / "tampered.json").write_text(json.dumps(stored))
    outcome = run("gough bounds --verify tampered.json", folder)
    assert outcome.code == 1
    assert "does not prove its box" in outcome.err


def test_payload_finds_nothing_where_there_is_nothing(study: tuple[str, Path]) -> None:
    robot, folder = study
    facts = answer(folder, "payload", robot, "log1.csv", "--model", "result")
    assert facts["parameters"][0]["observed"]
    for parameter in facts["parameters"]:
        assert (
            parameter["interval"] is None
            or parameter["interval"][0] <= 0 <= parameter["interval"][1]
        )
    assert facts["physical"]
    assert any("no load is detected" in notice["text"] for notice in facts["notices"])
    assert (
        facts["processing"]
        == json.loads((folder / "result" / "estimate.json").read_text())["processing"]
    )


def test_report_and_exports_are_written(study: tuple[str, Path]) -> None:
    _, folder = study
    gough(folder, "report", "result", "--force")
    assert "<html" in (folder / "result" / "report.html").read_text(encoding="utf-8")[:500].lower()
    for kind in ("c", "json", "toml"):
        files = answer(
            folder, "export", "result", "--to", kind, "-o", ".", "--force", "--name", f"o_{kind}"
        )["files"]
        assert files
        assert all((folder / f).exists() for f in files)


def test_existing_results_are_not_overwritten(study: tuple[str, Path]) -> None:
    robot, folder = study
    before = (folder / "result" / "estimate.json").read_bytes()
    for words in (
        ("identify", robot, "log1.csv", "-o", "result"),
        ("simulate", robot, "--trajectory", "trajectory.json", "-o", "log1.csv"),
        ("design", robot, "-o", "trajectory.json"),
    ):
        assert "--force" in gough(folder, *words, code=1).err
    assert (folder / "result" / "estimate.json").read_bytes() == before


def test_a_study_repeats_the_same_numbers(study: tuple[str, Path]) -> None:
    robot, folder = study
    text = f"""format = 1
robot = "{robot}"
[simulate]
trajectory = "trajectory.json"
periods = 3
seed = 1
output = "again.csv"
[identify]
logs = ["again.csv"]
output = "again"
"""
    (folder / "study.toml").write_text(text)
    gough(folder, "run", "study.toml", "--force")
    assert (folder / "again.csv").read_bytes() == (folder / "log1.csv").read_bytes()
    first, second = (
        json.loads((folder / name / "estimate.json").read_text()) for name in ("result", "again")
    )
    assert first["parameters"] == second["parameters"]


def test_the_version_is_told(tmp_path: Path) -> None:
    assert gough(tmp_path, "--version").out == f"gough {version('gough')}\n"


@pytest.mark.parametrize(
    ("words", "message", "code"),
    [
        (("chek", "five_bar"), "did you mean 'check'", 2),
        (("check", "five_bar", "--tie-leg"), "--tie-legs", 2),
        (("check", "five_barr"), "did you mean 'five_bar'", 1),
        (("check", "nofile.toml"), "neither a robot file nor a bundled robot", 1),
        (("identify", "five_bar", "missing.csv"), "missing.csv", 1),
        (("simulate", "five_bar", "--trajectory", "missing.json"), "missing.json", 1),
        (("report", "nowhere"), "does not exist", 1),
        (("run", "nowhere.toml"), "there is no file 'nowhere.toml'", 1),
        (("demo", "pallida"), "did you mean 'palida'", 1),
        (("check", "Five_Bar"), "did you mean 'five_bar'", 1),
        (("check", "."), "neither a robot file nor a bundled robot", 1),
        (("check", "five_bar", "--periods", "3"), "3 --periods are given without a motion", 1),
        (
            ("check", "five_bar", "--log", "a.csv", "--trajectory", "a.json"),
            "expected one of the two",
            1,
        ),
        (("import", "robot.toml"), "not a robot file of Gough", 1),
        (("import", "log.csv"), "expected one of .urdf, .xml", 1),
        (
            ("design", "five_bar", "--frequency", "nan"),
            "frequency is nan Hz, expected a number above 0",
            1,
        ),
        (("design", "five_bar", "--frequency", "0"), "frequency is 0.0 Hz", 1),
        (("design", "five_bar", "--seed", "-1"), "seed is -1", 1),
        (("design", "five_bar", "--criterion", "z"), "'z' is not one of", 2),
        (
            ("design", "five_bar", "-o", "a.json", "--csv", "./a.json"),
            "cannot both go to 'a.json'",
            1,
        ),
        (("design", "five_bar", "-o", ".", "--force"), "'.' is a folder", 1),
        (("identify", "five_bar", "."), "'.' is a folder", 1),
        (("validate", "/dev/null", "log.csv"), "give the folder that `gough identify -o` wrote", 1),
        (("bounds", "five_bar", "log.csv"), "Missing option '--error-bound'", 2),
    ],
)
def test_mistakes_get_one_clear_error(
    tmp_path: Path, words: tuple[str, ...], message: str, code: int
) -> None:
    done = gough(tmp_path, *words, code=code)
    assert message.lower() in " ".join(done.err.split()).lower()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--decimation", "0"), "decimation is 0, expected a whole number of at least 1"),
        (("--window", "-1"), "window is -1.0 s, expected a number of at least 0"),
        (("--cutoff", "-3"), "cutoff is -3.0 Hz"),
        (("--payload", "disc"), "give them with --loaded"),
        (("--gains", "left.motor"), "expected name=number"),
        (("--dead-band", "left.moter=1,right.motor=2"), "no joint"),
        (("--dead-band", "x"), "dead_band: expected a number"),
        (("--essential", "--ratio", "0.5"), "ratio is 0.5"),
        (
            ("--estimator", "tls"),
            "drive gains need logs without payload and logs with a known one: --loaded",
        ),
    ],
)
def test_options_that_make_no_sense_are_refused(
    study: tuple[str, Path], words: tuple[str, ...], message: str
) -> None:
    robot, folder = study
    outcome = run(f"gough identify {robot} log1.csv {' '.join(words)}", folder)
    assert outcome.code == 1
    assert message in " ".join(outcome.err.split()) or (
        robot == "h4" and "no payload" in outcome.err
    )


def test_a_log_of_the_identification_is_no_trajectory_and_no_held_out_log(
    study: tuple[str, Path], tmp_path: Path
) -> None:
    robot, folder = study
    copy = tmp_path / "copy.csv"
    copy.write_bytes((folder / "log1.csv").read_bytes())
    outcome = run(f"gough validate result {copy}", folder)
    assert "copy.csv: the result was identified from this log" in " ".join(outcome.out.split())
    outcome = run(f"gough simulate {robot} --trajectory log1.csv", folder)
    assert outcome.code == 1
    assert "it begins with a comment, as logs do" in " ".join(outcome.err.split())


def test_results_and_logs_of_another_robot_are_told(study: tuple[str, Path]) -> None:
    robot, folder = study
    other = "orthoglide"
    for line, message in (
        (f"identify {other} log1.csv", f"'{other}' has a motor"),
        (f"payload {other} log1.csv --model result", f"a model of '{robot}', not of '{other}'"),
        (f"bounds {robot} log1.csv --error-bound 1 --threshold -1", "threshold is -1.0"),
        ("export result --to c --name ''", "is no name for a file"),
        ("export result --to c --name a/b", "is no name for a file"),
    ):
        outcome = run(f"gough {line}", folder)
        assert outcome.code == 1
        assert message in " ".join(outcome.err.split()), line


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[check]\nrobot = 7\n", "[check] robot is 7, expected text"),
        ("robot = 7\n[check]\n", "robot is 7, expected text"),
        ("robot = 'h4'\n[check]\ntie_legs = 'no'\n", "tie_legs is 'no', expected true or false"),
        ("robot = 'h4'\n[design]\nharmonics = 2.5\n", "harmonics is 2.5, expected a whole number"),
        (
            "robot = 'h4'\n[design]\nharmonics = true\n",
            "harmonics is True, expected a whole number",
        ),
        ("robot = 'h4'\n[design]\nfrequency = '1 Hz'\n", "frequency is '1 Hz', expected a number"),
        (
            "robot = 'h4'\n[design]\ncriterion = 'con'\n",
            "expected one of d, cond, a, e; did you mean 'cond'?",
        ),
        (
            "robot = 'h4'\n[identify]\nlogs = 'log.csv'\n",
            "logs is 'log.csv', expected a list of texts",
        ),
        ("robot = 'h4'\n[identify]\nlogs = [3]\n", "logs is [3], expected a list of texts"),
        (
            "robot = 'h4'\n[identify]\nlogs = ['a']\ngains = { a = 'x' }\n",
            "expected a table of numbers",
        ),
        (
            "robot = 'h4'\n[bounds]\nlogs = ['a']\nerror_bound = 1\nprior = ['a', 2]\n",
            "expected 2 numbers",
        ),
        ("robot = 'h4'\n[bounds]\nlogs = ['a']\nerror_bound = 0\n", "error_bound is 0 N or N m"),
        (
            "robot = 'h4'\n[bounds]\nlogs = ['a']\nerror_bound = 1\nsolver = 'simplex'\n",
            "expected one of exact, trimmed, gauss-seidel",
        ),
    ],
)
def test_values_of_the_wrong_type_are_refused_before_anything_runs(
    tmp_path: Path, text: str, message: str
) -> None:
    (tmp_path / "study.toml").write_text("format = 1\n" + text)
    outcome = run("gough run study.toml", tmp_path)
    assert outcome.code == 1
    assert message in " ".join(outcome.err.split())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("format = 1\n[simulat]\n", "did you mean 'simulate'"),
        ("format = 1\nrobot = 'five_bar'\n[check]\ntie_leg = true\n", "did you mean 'tie_legs'"),
        ("format = 1\n[check]\n", "`robot` is needed"),
        ("format = 2\n", "format is 2"),
        ("not toml", "not valid TOML"),
        ("format = " + "1" * 5000, "not valid TOML"),
        ("format = 1\na = " + "[" * 5000 + "]" * 5000, "not valid TOML"),
        ("format = 1\nrobot = 'five_bar'\n[identify]\nlogs = ['gone.csv']\n", "gone.csv"),
    ],
)
def test_bad_studies_are_refused(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "study.toml").write_text(text)
    assert message in " ".join(gough(tmp_path, "run", "study.toml", code=1).err.split())


def test_a_column_named_like_markup_is_harmless(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text(
        "time [s],<script>alert(1)</script>.position [m]\n0,1\n1,2\n2,3\n"
    )
    done = gough(tmp_path, "identify", "five_bar", "log.csv", code=1)
    assert "<script>" in done.err  # shown as it is, not interpreted


HANGING = """
import os, sys, time
left, argv = int(sys.argv[1]), sys.argv[2:]
def hang(descriptor):
    global left
    left -= 1
    if left == 0:
        print("writing", flush=True)
        time.sleep(600)
os.fsync = hang
from gough.app.cli import main
sys.argv = ["gough", *argv]
main()
"""


def hanging(folder: Path, write: int, *words: str) -> subprocess.Popen[str]:
    """Start the command so that it hangs when it brings its nth file to the disk, and wait until it
    does.
    """
    process = subprocess.Popen(
        [sys.executable, "-c", HANGING, str(write), *words],
        cwd=folder,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "writing\n"
    return process


@pytest.mark.parametrize("write", [1, 4])
def test_killing_a_run_leaves_the_previous_result_intact(
    study: tuple[str, Path], write: int
) -> None:
    robot, folder = study
    before = {
        p.name: p.read_bytes() for p in (folder / "result").iterdir() if not p.name.startswith(".")
    }
    process = hanging(folder, write, "identify", robot, "log1.csv", "-o", "result", "--force")
    process.kill()
    process.communicate()
    after = {
        p.name: p.read_bytes() for p in (folder / "result").iterdir() if not p.name.startswith(".")
    }
    assert after == before


@pytest.mark.usefixtures("default_interrupt")
def test_interrupting_leaves_no_half_written_file(study: tuple[str, Path], tmp_path: Path) -> None:
    robot, folder = study
    process = hanging(
        tmp_path,
        1,
        "simulate",
        robot,
        "--trajectory",
        str(folder / "trajectory.json"),
        "--periods",
        "1",
        "-o",
        str(tmp_path / "log.csv"),
    )
    assert [p.name for p in tmp_path.iterdir() if p.name.startswith(".log.csv")]
    process.send_signal(signal.SIGINT)
    _, message = process.communicate()
    assert process.returncode == 130
    assert "stopped" in message
    assert "Traceback" not in message
    assert not list(tmp_path.iterdir())


def test_a_repeated_identification_renews_its_study(
    study: tuple[str, Path], tmp_path: Path
) -> None:
    robot, folder = study
    for estimator in ("ls", "wls"):
        gough(
            folder,
            "identify",
            robot,
            "log1.csv",
            "--estimator",
            estimator,
            "-o",
            str(tmp_path / "r"),
            "--force",
        )
    assert 'estimator = "wls"' in (tmp_path / "r" / "study.toml").read_text()
    own = 'format = 1\n# my notes\n[check]\nrobot = "five_bar"\n'
    (tmp_path / "r" / "study.toml").write_text(own)
    gough(
        folder,
        "identify",
        robot,
        "log1.csv",
        "--estimator",
        "ls",
        "-o",
        str(tmp_path / "r"),
        "--force",
    )
    assert (tmp_path / "r" / "study.toml").read_text() == own


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_without_permission_is_a_clear_error(
    study: tuple[str, Path], tmp_path: Path
) -> None:
    robot, folder = study
    tmp_path.chmod(0o500)
    done = gough(
        folder,
        "simulate",
        robot,
        "--trajectory",
        "trajectory.json",
        "--periods",
        "1",
        "-o",
        str(tmp_path / "log.csv"),
        code=1,
    )
    assert "permission" in done.err.lower()
