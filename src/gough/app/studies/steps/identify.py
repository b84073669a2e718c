"""The verb `identify`: a model from logs, stored in a folder with a study that repeats it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gough.app.identify import identify, identify_logs
from gough.app.studies.corrected_files import NOTHING_TO_CORRECT, write_corrected_files
from gough.app.studies.input_files import ROBOT_STEM, expand_patterns, read_logs
from gough.app.studies.step import (
    FailOn,
    Progress,
    Step,
    apply_option,
    description_option,
    fail_on_option,
    force_option,
    logs_argument,
    output_option,
    robot_argument,
)
from gough.app.studies.study_file import STUDY_FORMAT
from gough.core.documents import parse_toml, toml_text
from gough.core.errors import InvalidInput
from gough.core.files import require_free_folder
from gough.core.notices import Notice
from gough.core.options import nested, option
from gough.core.progress import portion
from gough.engine import as_model
from gough.identification import Identification, IdentifySettings
from gough.identification.many_logs import FactorSettings
from gough.identification.settings import GIVEN_TERMS
from gough.logs.readers import log_and_description, log_with_description
from gough.mechanism import robot_text
from gough.processing.matching import known_gains

STUDY_FILE = "study.toml"
# folder of the result of the study that is written beside a result
REPEATED_RESULT = "again"


@dataclass(frozen=True, kw_only=True)
class IdentifyStep(Step):
    """Options of `gough identify`."""

    robot: str = robot_argument()
    logs: Sequence[str] = logs_argument()
    settings: IdentifySettings = nested(IdentifySettings)
    many: FactorSettings = nested(FactorSettings)
    loaded: Sequence[str] = option((), "Logs with a known payload.", file=True)
    validate: Sequence[str] = option((), "Logs to validate on, not used otherwise.", file=True)
    description: str | None = description_option()
    output: str | None = output_option("Folder for the result.")
    apply: bool = apply_option()
    force: bool = force_option()
    fail_on: FailOn | None = fail_on_option()

    def run(self, progress: Progress) -> Identification:
        """Identify a robot and write the result."""
        folder = None
        if self.output is not None:
            folder = require_free_folder(self.output, self.force)
        if self._one_by_one:
            result = self._identify_one_by_one()
        else:
            result = self._identify_in_memory()
        if self.apply:
            result = replace(result, notices=(*result.notices, self._correct(result)))
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
            result.save(folder, beside=self._files_beside(folder, result.added_terms))
        return result

    @property
    def _one_by_one(self) -> bool:
        """Return whether logs are condensed one by one instead of being held in memory."""
        return self.many.work.parallel or self.many.factors is not None

    def _correct(self, result: Identification) -> Notice:
        """Write files without the faults that were found, and return which."""
        model = as_model(self.robot)
        files = write_corrected_files(
            model,
            self.robot,
            [*self.logs, *self.loaded, *self.validate],
            () if result.diagnosis is None else result.diagnosis.faults,
            description=self.description,
            gains=known_gains(model, self.settings.gains),
            force=self.force,
        )
        text = NOTHING_TO_CORRECT
        advice = ""
        if files:
            text = f"wrote {', '.join(map(str, files))}"
            advice = "identify again with them, a log as log.csv@log.corrected.toml"
        return Notice(rule="corrected files", level="info", text=text, advice=advice)

    def _identify_in_memory(self) -> Identification:
        model = as_model(self.robot)
        with portion(0.0, 0.1):
            recordings = read_logs(self.logs, self.description, model)
            loaded = read_logs(self.loaded, self.description, model)
            held_out = read_logs(self.validate, self.description, model)
        with portion(0.1, 1.0):
            return identify(model, recordings, self.settings, loaded=loaded, held_out=held_out)

    def _identify_one_by_one(self) -> Identification:
        if self.loaded:
            raise InvalidInput(
                "logs with a payload to find drive gains by are identified in memory; leave out "
                "`workers`, `cluster` and `factors`"
            )
        with portion(0.0, 0.02):
            held_out = read_logs(self.validate, self.description, as_model(self.robot))
        with portion(0.02, 1.0):
            return identify_logs(
                self.robot,
                expand_patterns(self.logs, self.description),
                self.settings,
                work=self.many,
                held_out=held_out,
            )

    def _files_beside(self, folder: Path, added_terms: str) -> dict[str, str]:
        """Return the texts of the robot file and, unless another is there, of the study file.

        Added terms stand at the end of a robot file in TOML; robots in
        other formats get them from the result.
        """
        text, source = robot_text(self.robot)
        robot_file = f"{ROBOT_STEM}{Path(source).suffix or '.toml'}"
        if added_terms and robot_file.endswith(".toml"):
            text = f'{text.rstrip()}\n\n# added by gough identify, terms = "auto"\n{added_terms}'
        beside = {robot_file: text}
        if _may_write_study(folder / STUDY_FILE):
            study = {
                "format": STUDY_FORMAT,
                "robot": robot_file,
                "identify": self._step(folder, added_terms),
            }
            beside[STUDY_FILE] = toml_text(study)
        return beside

    def _step(self, folder: Path, added_terms: str) -> dict[str, Any]:
        """Return the step of a study in the folder that gives this result again."""
        description = None
        if self.description:
            description = os.path.relpath(self.description, folder)
        step = {
            "logs": _relative(self.logs, folder),
            "loaded": _relative(self.loaded, folder) or None,
            "validate": _relative(self.validate, folder) or None,
            "description": description,
            **self.settings.to_dict(),
            "output": REPEATED_RESULT,
        }
        if added_terms:
            step["terms"] = GIVEN_TERMS  # the robot file has them now
        if self._one_by_one:
            step |= {"bad": self.many.bad, "workers": 1}
        return {key: given for key, given in step.items() if given is not None}


def _relative(paths: Sequence[str], folder: Path) -> list[str]:
    """Return paths, `log.csv@description.toml` among them, relative to a folder."""
    relative = []
    for path in paths:
        log, description = log_and_description(path)
        if description is not None:
            description = os.path.relpath(description, folder)
        relative.append(log_with_description(os.path.relpath(log, folder), description))
    return relative


def _may_write_study(path: Path) -> bool:
    """Return whether there is no study, or one that an earlier identification wrote.

    The study of a demo or of a user is kept.
    """
    if not path.exists():
        return True
    try:
        content = parse_toml(path.read_text(encoding="utf-8-sig"))
    except (InvalidInput, UnicodeDecodeError):
        return False
    if set(content) != {"format", "robot", "identify"}:
        return False
    step = content["identify"]
    return isinstance(step, dict) and step.get("output") == REPEATED_RESULT
