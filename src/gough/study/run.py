"""Study files: the verbs and their options in TOML, run in order and written back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from gough.core.documents import parse_toml
from gough.core.errors import InvalidInput, InvalidStudy, nearest
from gough.core.options import Option, arguments, members, options_of, plain
from gough.study.common import Progress
from gough.study.verbs import VERBS, verb

FORMAT = 1


def read_study(path: str | Path) -> list[tuple[str, dict[str, Any]]]:
    """Return the steps of a study file: verb and options, in the order of the file.

    A section is a verb, a key an option; a verb used several times is an array of tables (`[[simulate]]`). `robot` at
    the top holds for all steps.
    """
    try:
        content = parse_toml(Path(path).read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        raise InvalidStudy(f"the study '{path}' does not exist") from None
    except (InvalidInput, UnicodeDecodeError) as error:
        raise InvalidStudy(f"{path}: not valid TOML: {error}") from None
    version = content.pop("format", None)
    if version != FORMAT:
        raise InvalidStudy(f"{path}: format is {version}, expected 'format = {FORMAT}'")
    common = {"robot": content.pop("robot")} if "robot" in content else {}
    steps = []
    for name, section in content.items():
        if name not in VERBS:
            raise InvalidStudy(f"{path}: unknown section '{name}'{nearest(name, VERBS)}", key=name)
        for options in section if isinstance(section, list) else [section]:
            if not isinstance(options, dict):
                raise InvalidStudy(f"{path}: '{name}' is not a table; write [{name}]", key=name)
            own = {key.replace("-", "_"): value for key, value in options.items()}
            step = {key: value for key, value in common.items() if key in options_of(verb(name))} | own
            try:
                arguments(verb(name), step)
            except InvalidInput as error:
                raise InvalidStudy(f"{path}: [{name}] {error}", key=error.numbers.get("option")) from None
            steps.append((name, step))
    if not steps:
        raise InvalidStudy(f"{path}: the study has no steps; add a section such as [check]")
    return steps


def run_step(name: str, options: Mapping[str, Any], *, folder: Path | None = None, force: bool = False,
             progress: Progress | None = None) -> Any:
    """Run a verb and return its result.

    Args:
        folder: What file names are relative to; the working folder by default.
        force: Overwrite, whatever the options say.
        progress: Called with the fraction done, by the verbs that take long.
    """
    function = verb(name)
    known = options_of(function)
    call = {key: resolved(known[key], value, folder) if folder and key in known else value
            for key, value in options.items()}
    if force and "force" in known:
        call["force"] = True
    given = arguments(function, call)
    if progress is not None and "progress" in function.__annotations__:
        given["progress"] = progress
    return function(**given)


def step_settings(name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return every option of a step that is no file, given or not: with the same files they give the same result."""
    function = verb(name)
    given, found = arguments(function, options), dict[str, Any]()
    for key, member in members(function).items():
        found |= {key: plain(given.get(key, member.default))} if isinstance(member, Option) else given[key].to_dict()
    files = {key for key, option in options_of(function).items() if option.about.file}
    return {key: value for key, value in found.items() if key not in files and key != "force"}


def run_study(path: str | Path, *, force: bool = False) -> Iterator[tuple[str, dict[str, Any], Any]]:
    """Run a study step by step; yields verb, options and result of each. Paths are relative to the study's folder.

    The whole file is checked before the first step runs.
    """
    steps = read_study(path)
    folder = Path(path).resolve().parent
    for name, options in steps:
        yield name, options, run_step(name, options, folder=folder, force=force)


def resolved(option: Option, value: Any, folder: Path) -> Any:
    """Return file names relative to a folder as absolute ones; a robot may also be a bundled name."""
    if not option.about.file or value is None:
        return value
    if not isinstance(value, str):
        return [resolved(option, item, folder) for item in value]
    if option.name == "robot" and not (folder / value).is_file():
        return value
    return "@".join(str(folder / each) for each in value.split("@"))
