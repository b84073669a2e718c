"""Study files: verbs and their options in TOML, run in order."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from gough.app.studies.step import FailOn, Outcome, Progress
from gough.app.studies.verbs import VERBS, step_type
from gough.core.documents import parse_toml
from gough.core.errors import InvalidInput, InvalidStudy, nearest
from gough.core.files import MAX_TOML_CHARACTERS, read_text
from gough.core.options import Option, merge_settings, options_of
from gough.core.progress import reporting
from gough.logs.readers import log_and_description, log_with_description

STUDY_FORMAT = 1
# each may have a description, log.csv@its.toml
LOG_OPTIONS = ("log", "logs", "loaded", "validate")
COMMON_KEYS = ("robot", "fail_on")  # at the top of a study, for all its steps
UNSTORED_OPTIONS = ("force", "fail_on")  # that do not change a result


def read_study(
    path: str | Path, *, fail_on: FailOn | None = None
) -> list[tuple[str, dict[str, Any]]]:
    """Return the steps of a study file: verb and options, in the order of the file.

    A section is a verb, a key is an option; a verb used several times
    is an array of tables (`[[simulate]]`). `robot` and `fail_on` at the
    top are those of all steps that have none of their own.

    Args:
        path: The study file.
        fail_on: Instead of `fail_on` at the top.
    """
    content = _read_toml(path)
    version = content.pop("format", None)
    if version != STUDY_FORMAT:
        raise InvalidStudy(f"{path}: format is {version}, expected 'format = {STUDY_FORMAT}'")
    common: dict[str, Any] = {}
    for key in COMMON_KEYS:
        if key in content:
            common[key] = content.pop(key)
    if fail_on is not None:
        common["fail_on"] = fail_on
    steps = []
    for name, section in content.items():
        if name not in VERBS:
            raise InvalidStudy(
                f"{path}: unknown section '{name}'{nearest(name, VERBS)}",
                key=name,
            )
        tables = section if isinstance(section, list) else [section]
        for table in tables:
            if not isinstance(table, dict):
                raise InvalidStudy(f"{path}: '{name}' is not a table; write [{name}]", key=name)
            try:
                steps.append((name, _checked_options(name, table, common)))
            except InvalidInput as error:
                option = error.numbers.get("option")
                raise InvalidStudy(f"{path}: [{name}] {error}", key=option) from None
    if not steps:
        raise InvalidStudy(f"{path}: the study has no steps; add a section such as [check]")
    return steps


def _read_toml(path: str | Path) -> dict[str, Any]:
    try:
        return parse_toml(read_text(path, MAX_TOML_CHARACTERS, InvalidStudy))
    except InvalidInput as error:
        raise InvalidStudy(f"{path}: not valid TOML: {error}") from None


def _checked_options(
    name: str, table: Mapping[str, Any], common: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the options of a step, those common to all steps included; they must be valid."""
    step = step_type(name)
    known = options_of(step)
    options = {key: given for key, given in common.items() if key in known}
    for key, given in table.items():
        options[key.replace("-", "_")] = given
    merge_settings(step, None, options)
    return options


def run_step(
    name: str,
    options: Mapping[str, Any],
    *,
    folder: Path | None = None,
    force: bool = False,
    progress: Progress | None = None,
) -> Any:
    """Run a verb and return its result.

    Args:
        name: The verb.
        options: Its options by name.
        folder: Folder that file names are relative to; the working
            folder by default.
        force: Overwrite files, whatever the options are.
        progress: Called with the fraction done, by the verbs that take
            long.
    """
    kind = step_type(name)
    known = options_of(kind)
    if folder is not None:
        options = resolve_paths(options, known, folder)
    step = merge_settings(kind, None, options)
    if force and "force" in known:
        step = replace(step, force=True)  # type: ignore[type-var]
    listener = progress or _ignore_progress
    with reporting(listener):
        return step.run(listener)


def _ignore_progress(fraction: float) -> None:
    pass


def step_settings(name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return every option of a step that names no file, given or not.

    With the same files they give the same result.
    """
    kind = step_type(name)
    known = options_of(kind)
    settings = {}
    for key, stored in merge_settings(kind, None, options).to_dict().items():
        if not known[key].about.file and key not in UNSTORED_OPTIONS:
            settings[key] = stored
    return settings


def json_of_step(name: str, options: Mapping[str, Any], outcome: Outcome) -> dict[str, Any]:
    """Return the result of a step as JSON, with the settings of the step.

    A result with a digest has its settings already, and the digest is
    of them too.
    """
    content = outcome.to_dict()
    if "digest" not in content:
        content = content | {"settings": step_settings(name, options)}
    return content


def run_study(
    path: str | Path,
    *,
    force: bool = False,
    fail_on: FailOn | None = None,
    progress: Progress | None = None,
) -> Iterator[tuple[str, dict[str, Any], Any]]:
    """Run a study step by step; yields verb, options and result of each step.

    The whole file is checked before the first step runs.

    Args:
        path: The study file; paths in it are relative to its folder.
        force: Overwrite files.
        fail_on: Level that is a failure, of the steps that have none of
            their own.
        progress: Called with the fraction done.
    """
    report = progress or _ignore_progress
    steps = read_study(path, fail_on=fail_on)
    folder = Path(path).resolve().parent
    for k, (name, options) in enumerate(steps):

        def report_step(fraction: float, n_done: int = k) -> None:
            report((n_done + fraction) / len(steps))

        result = run_step(name, options, folder=folder, force=force, progress=report_step)
        yield name, options, result
        report_step(1.0)


def resolve_paths(
    options: Mapping[str, Any], known: Mapping[str, Option], folder: Path
) -> dict[str, Any]:
    """Return options with file names relative to a folder as absolute ones.

    A robot that is no file in the folder is kept: it is the name of a
    bundled robot.
    """

    def resolve(name: str, given: Any) -> Any:
        if isinstance(given, list | tuple):
            return [resolve(name, entry) for entry in given]
        if not isinstance(given, str):
            return given
        if name == "robot" and not os.path.isfile(folder / given):
            return given
        if name not in LOG_OPTIONS:
            return str(folder / given)
        log, description = log_and_description(given)
        if description is not None:
            description = str(folder / description)
        return log_with_description(folder / log, description)

    resolved = dict(options)
    for name, given in options.items():
        if name in known and known[name].about.file:
            resolved[name] = resolve(name, given)
    return resolved
