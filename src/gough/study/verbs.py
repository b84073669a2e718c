"""The verbs, with files in and files out: what the command line and study files both run.

Each verb is a function of plain options. It reads, calls the public functions and writes; it never prints. Results go
to files that appear complete or not at all, and nothing existing is overwritten unless `force`.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

import numpy as np

from gough.core.errors import InvalidInput, InvalidRecording, OutputError
from gough.core.files import write_together
from gough.core.trajectory import Sampled, load_trajectory
from gough.engine import Check, Model
from gough.engine import check as check_model
from gough.estimators.estimate import Enclosure
from gough.excitation import Design
from gough.excitation import design as design_trajectory
from gough.excitation.runnable import runnable
from gough.identification import Identification, load_identification
from gough.identification import identify as identify_model
from gough.identification.bounding import bounds as bound_parameters
from gough.identification.diagnosis.corrections import corrected_description, corrected_robot, description_text
from gough.identification.diagnosis.diagnose import diagnose as diagnose_logs
from gough.identification.diagnosis.foresee import Foresight
from gough.identification.diagnosis.foresee import foresee as foresee_motion
from gough.identification.diagnosis.mistakes import Diagnosis
from gough.identification.experiment import prepare
from gough.identification.identify import EstimatorName
from gough.identification.payload import PayloadResult
from gough.identification.payload import payload as find_payload
from gough.identification.validation import Validation
from gough.identification.validation import validate as validate_estimate
from gough.logs.description import load_description
from gough.logs.readers import describe_log, read_recording
from gough.logs.recording import Recording
from gough.mechanism import Noise, load_robot, robot_text
from gough.processing import Processing
from gough.processing.prepare import Method
from gough.study.text import study_text
from gough.virtual import Simulation, record
from gough.virtual import simulate as simulate_robot

Progress = Callable[[float], None]

STUDY = "study.toml"
AGAIN = "again"  # where a study written beside a result repeats it


def check(*, robot: str, tie_legs: bool = False) -> Check:
    """Say what a robot file amounts to."""
    return check_model(Model(load_robot(robot)), tie_legs=tie_legs)


def design(*, robot: str, harmonics: int = 5, frequency: float | None = None,
           coordinates: Literal["task", "actuated"] | None = None, criterion: Literal["d", "cond", "a", "e"] = "d",
           tie_legs: bool = False, at_rest: bool = False, optimise_frequency: bool = False, seed: int = 0,
           starts: int = 4, iterations: int = 300, output: str | None = None, csv: str | None = None,
           periods: int = 10, force: bool = False,
           progress: Callable[[int, float, float], None] | None = None) -> Design:
    """Design an excitation trajectory; write it as JSON and, if asked, as CSV for a controller, from rest to rest."""
    for path in (output, csv):
        free_file(path, force)
    if output is not None and csv is not None and Path(output).resolve() == Path(csv).resolve():
        raise InvalidInput(f"JSON and CSV cannot both go to '{output}'; choose two names")
    model = Model(load_robot(robot))
    result = design_trajectory(model, harmonics=harmonics, frequency=frequency, coordinates=coordinates,
                               criterion=criterion, tie_legs=tie_legs, at_rest=at_rest,
                               optimise_frequency=optimise_frequency, seed=seed, starts=starts, iterations=iterations,
                               progress=progress)
    if output is not None:
        result.trajectory.save(output)
    if csv is not None:
        runnable(model, result.trajectory, periods).to_csv(csv, model.mechanism.noise.rate)
    return result


def simulate(*, robot: str, trajectory: str, controller: Literal["pid", "pid+", "feedforward", "ctc"] = "ctc",
             plant: Literal["gough", "pinocchio", "mujoco"] = "gough", payload: str | None = None,
             periods: int | None = None,
             noise: bool = True, seed: int = 0, output: str | None = None, force: bool = False,
             progress: Progress | None = None) -> Simulation:
    """Run the virtual robot along a trajectory and write the log its controller would have saved."""
    free_file(output, force)
    model = Model(load_robot(robot))
    path = load_trajectory(trajectory, robot=model.mechanism.name)
    if isinstance(path, Sampled):  # a table for a controller holds the platform and the motors
        task = model.mechanism.task
        path = path.only(task if task and set(task) <= set(path.coordinates) else model.mechanism.actuated)
    simulation = simulate_robot(model, path, controller=controller, plant=plant, payload=payload,
                                periods=10 if periods is None and path.period else periods, progress=progress)
    if output is not None:
        record(simulation, noise=None if noise else Noise(), seed=seed).save(output)
    return simulation


def identify(*, robot: str, logs: Sequence[str], loaded: Sequence[str] = (), payload: str | None = None,
             estimator: EstimatorName = "gm", validate: Sequence[str] = (), essential: bool = False,
             ratio: float = 10.0, tie_legs: bool = False, structures: bool = False, description: str | None = None,
             method: Method = "auto",
             cutoff: float | None = None, decimation: int | None = None, window: float | None = None,
             gains: Mapping[str, float] | None = None, output: str | None = None, force: bool = False,
             progress: Progress | None = None) -> Identification:
    """Identify a robot from logs; write result, robot file and study into a folder."""
    folder = free_folder(output, force)
    model = Model(load_robot(robot))
    name, known = payload_option(payload)
    result = identify_model(
        model, read_logs(logs, description, model), loaded=read_logs(loaded, description, model), payload=name,
        known=known, estimator=estimator, held_out=read_logs(validate, description, model), essential=essential,
        ratio=ratio, tie_legs=tie_legs, structures=structures, window=window, gains=gains, progress=progress,
        processing=Processing(method=method, cutoff=cutoff, decimation=decimation))
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        text, source = robot_text(robot)
        kept = f"robot{Path(source).suffix or '.toml'}"
        beside = {kept: text}
        if _may_write_study(folder / STUDY):
            options = {
                "logs": _seen_from(folder, logs), "loaded": _seen_from(folder, loaded) or None, "payload": payload,
                "estimator": estimator, "validate": _seen_from(folder, validate) or None, "essential": essential,
                "ratio": ratio, "tie_legs": tie_legs, "structures": structures, "method": method, "cutoff": cutoff,
                "decimation": decimation, "window": window, "gains": gains, "output": AGAIN,
                "description": None if description is None else _seen_from(folder, [description])[0]}
            beside[STUDY] = study_text(kept, [("identify", options)])
        result.save(folder, beside=beside)
    return result


def _may_write_study(path: Path) -> bool:
    """Tell whether no study is there, or one that an earlier identification wrote; a demo's or a user's own stays."""
    if not path.exists():
        return True
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError):
        return False
    step = content.get("identify")
    return set(content) == {"format", "robot", "identify"} and isinstance(step, dict) and step.get("output") == AGAIN


def _seen_from(folder: Path, paths: Sequence[str]) -> list[str]:
    """Return paths relative to a folder, as a study in it names them."""
    return [os.path.relpath(path, folder) for path in paths]


def validate(*, folder: str, logs: Sequence[str], description: str | None = None) -> Validation:
    """Judge a result on other logs, processed as those it was found from."""
    model, result = load_result(folder)
    recordings = read_logs(logs, description, model)
    gains = {name: v["value"] for name, v in result.drive_gains.items()}
    asked = result.settings
    processing = Processing(method=asked.get("method", "auto"), cutoff=asked.get("cutoff"),
                            decimation=asked.get("decimation"))
    experiment = prepare(model, recordings, result.base, processing=processing, gains=gains or None,
                         window=asked.get("window"))
    return validate_estimate(result.estimate, experiment.parts, source=", ".join(r.source for r in recordings))


def foresee(*, robot: str, trajectory: str | None = None, log: str | None = None, description: str | None = None,
            periods: int = 10, tie_legs: bool = False) -> Foresight:
    """Say what an experiment along a trajectory, or a log's motion, will tell."""
    if (trajectory is None) == (log is None):
        raise InvalidInput("give a trajectory or a log to look at, one of the two")
    model = Model(load_robot(robot))
    if log is not None:
        return foresee_motion(model, read_logs([log], description, model)[0], periods=periods, tie_legs=tie_legs)
    assert trajectory is not None
    path = load_trajectory(trajectory, robot=model.mechanism.name)
    return foresee_motion(model, path, periods=periods, tie_legs=tie_legs)


def diagnose(*, robot: str, logs: Sequence[str], validate: Sequence[str] = (), tie_legs: bool = False,
             description: str | None = None, apply: bool = False, force: bool = False) -> tuple[Diagnosis, list[Path]]:
    """Find the usual mistakes; with `apply` write corrected files beside the old ones and return their paths."""
    model = Model(load_robot(robot))
    recordings = read_logs(logs, description, model)
    found = diagnose_logs(model, recordings, held_out=read_logs(validate, description, model), tie_legs=tie_legs)
    if not apply:
        return found, []
    texts: dict[Path, str] = {}
    changed, done = corrected_robot(robot_text(robot)[0], model, found.mistakes)
    if done:
        texts[_beside(Path(robot))] = changed
    gains = {joint.name: joint.gain for joint in model.mechanism.joints if joint.gain is not None}
    log, _, own = logs[0].partition("@")
    given = own or description
    known = load_description(given) if given else describe_log(log)
    fresh, mended = corrected_description(known, found.mistakes, gains)
    if mended:
        texts[_beside(Path(given) if given else Path(log))] = description_text(fresh)
    for path in texts:
        free_file(str(path), force)
    write_together({path: text.encode("utf-8") for path, text in texts.items()})
    return found, list(texts)


def _beside(path: Path) -> Path:
    """Return where a corrected file goes: `robot.toml` -> `robot.corrected.toml`, whatever the suffix was."""
    return path.with_name(f"{path.name.partition('.')[0]}.corrected.toml")


def bounds(*, robot: str, logs: Sequence[str], error_bound: float,
           method: Literal["gauss-seidel", "exact"] = "exact", outliers: int = 0,
           prior: Sequence[float] | None = None, threshold: float | None = None, cutoff: float | None = None,
           window: float | None = None, tie_legs: bool = False, description: str | None = None,
           output: str | None = None, force: bool = False) -> Enclosure:
    """Enclose the parameters that logs allow under an error bound."""
    free_file(output, force)
    model = Model(load_robot(robot))
    interval = None
    if prior is not None:
        if len(prior) != 2:
            raise InvalidInput(f"the prior is {list(prior)}, expected a lower and an upper bound")
        interval = (float(prior[0]), float(prior[1]))
    result = bound_parameters(model, read_logs(logs, description, model), error_bound=error_bound, method=method,
                              outliers=outliers, prior=interval, threshold=threshold, window=window,
                              processing=Processing(cutoff=cutoff), tie_legs=tie_legs)
    if output is not None:
        result.save(output)
    return result


def payload(*, robot: str, logs: Sequence[str], model: str | None = None, mass: float | None = None,
            reach: float | None = None, description: str | None = None) -> PayloadResult:
    """Find the load in logs of a robot whose own model is known: its file's, or an identified one."""
    known = Model(load_robot(robot))
    values, gains = None, None
    if model is not None:
        own, result = load_result(model)
        if own.mechanism.name != known.mechanism.name:
            raise InvalidInput(f"'{model}' is a model of '{own.mechanism.name}', not of '{known.mechanism.name}'")
        values = result.standard(known)
        gains = {name: v["value"] for name, v in result.drive_gains.items()} or None
    return find_payload(known, read_logs(logs, description, known), values=values, gains=gains, mass=mass, reach=reach)


def report(*, folder: str, output: str | None = None, force: bool = False) -> Path:
    """Write the report of a result, with the boxes `bounds*.json` found in its folder; into that folder by default."""
    from gough.report.report import write_report  # plotting is heavy: only who wants a report loads it

    model, result = load_result(folder)
    path = Path(folder) / "report.html" if output is None else Path(output)
    free_file(str(path), force)
    boxes = {box.stem: Enclosure.load(box) for box in sorted(Path(folder).glob("bounds*.json"))}
    write_report(model, replace(result, enclosures={**result.enclosures, **boxes}), path)
    return path


def export(*, folder: str, to: str, output: str | None = None,
           name: str | None = None, force: bool = False) -> list[Path]:
    """Write a result for a controller or another tool; into its folder by default."""
    from gough.export import export as export_model

    model, result = load_result(folder)
    return export_model(model, result, Path(folder if output is None else output), to=to, name=name, force=force)


def load_result(folder: str) -> tuple[Model, Identification]:
    """Return the robot and the result stored in a folder."""
    result = load_identification(folder)
    stored = sorted(Path(folder).glob("robot.*"))
    return Model(load_robot(stored[0] if stored else Path(folder) / "robot.toml")), result


def read_logs(paths: Sequence[str], description: str | None, model: Model) -> list[Recording]:
    """Read logs; each may carry its own description as `log.csv@description.toml`."""
    recordings = []
    for path in paths:
        file, _, own = path.partition("@")
        recording = read_recording(file, own or description, None)
        missing = [name for name in model.mechanism.actuated if name not in recording.joints]
        if missing:
            raise InvalidRecording(
                f"{recording.source}: '{model.mechanism.name}' has a motor '{missing[0]}', and the log has only "
                f"{', '.join(recording.joints)}; is it a log of this robot?", source=recording.source)
        recordings.append(recording)
    return recordings


def payload_option(text: str | None) -> tuple[str | None, dict[str, float] | None]:
    """Return a payload's name and its known parameters from `calibration`, `mass=1.983` or `calibration:m=1.9,mx=0`."""
    if text is None or text == "none":
        return None, None
    name, _, rest = text.partition(":")
    if "=" in name:
        name, rest = "", text
    known = {}
    for item in filter(None, rest.split(",")):
        key, _, value = item.partition("=")
        try:
            known["m" if key.strip() in ("mass", "m") else key.strip()] = float(value)
        except ValueError:
            raise InvalidInput(f"payload '{text}': '{item}' is not name=number, e.g. mass=1.983") from None
    if known and not all(np.isfinite(list(known.values()))):
        raise InvalidInput(f"payload '{text}' has a number that is not finite")
    return name or None, known or None


def free_file(path: str | None, force: bool) -> None:
    """Raise `OutputError` if a file exists and may not be overwritten, or its folder does not exist."""
    if path is None:
        return
    target = Path(path)
    if target.is_dir():
        raise OutputError(f"'{path}' is a folder, expected a file", path=path)
    if target.exists() and not force:
        raise OutputError(f"'{path}' already exists; choose another name or use --force", path=path)
    if not target.parent.is_dir():
        raise OutputError(f"the folder of '{path}' does not exist; create '{target.parent}' first", path=path)


def free_folder(path: str | None, force: bool) -> Path | None:
    """Raise `OutputError` if a folder exists with something in it and may not be overwritten."""
    if path is None:
        return None
    target = Path(path)
    if target.exists() and not target.is_dir():
        raise OutputError(f"'{path}' is a file, expected a folder", path=path)
    if target.exists() and any(target.iterdir()) and not force:
        raise OutputError(f"the folder '{path}' is not empty; choose another one or use --force", path=path)
    return target
