"""Study files: the verbs and their options in TOML, run in order and written back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from gough.app.studies.verbs import VERBS, Progress, verb
from gough.core.documents import parse_toml
from gough.core.errors import InvalidInput, InvalidStudy, nearest
from gough.core.options import Option, arguments, members, options_of, plain

FORMAT = 1


def read_study(path: str | Path) -> list[tuple[str, dict[str, Any]]]:
    """Return the steps of a study file: verb and options, in the order of the file.

    A section is a verb, a key an option; a verb used several times is an array of tables
    (`[[simulate]]`). `robot` at the top holds for all steps.
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
            step = {key: value for key, value in common.items() if key in options_of(verb(name))}
            step |= {key.replace("-", "_"): value for key, value in options.items()}
            try:
                arguments(verb(name), step)
            except InvalidInput as error:
                raise InvalidStudy(
                    f"{path}: [{name}] {error}", key=error.numbers.get("option")
                ) from None
            steps.append((name, step))
    if not steps:
        raise InvalidStudy(f"{path}: the study has no steps; add a section such as [check]")
    return steps


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
        folder: What file names are relative to; the working folder by default.
        force: Overwrite, whatever the options say.
        progress: Called with the fraction done, by the verbs that take long.
    """
    function = verb(name)
    known = options_of(function)
    given = arguments(function, resolved(options, known, folder) if folder else options)
    if force and "force" in known:
        given["force"] = True
    if progress is not None and "progress" in function.__annotations__:
        given["progress"] = progress
    return function(**given)


def step_settings(name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return every option of a step that is no file, given or not: with the same files they give
    the same result.
    """
    function = verb(name)
    given, found = arguments(function, options), dict[str, Any]()
    for key, member in members(function).items():
        found |= (
            {key: plain(given.get(key, member.default))}
            if isinstance(member, Option)
            else given[key].to_dict()
        )
    files = {key for key, option in options_of(function).items() if option.about.file}
    return {key: value for key, value in found.items() if key not in files and key != "force"}


def run_study(
    path: str | Path,
    *,
    force: bool = False,
    progress: Progress | None = None,
) -> Iterator[tuple[str, dict[str, Any], Any]]:
    """Run a study step by step; yields verb, options and result of each.

    Paths are relative to the study's folder.

    The whole file is checked before the first step runs. `progress` is called with the fraction
    done.
    """
    steps = read_study(path)
    folder = Path(path).resolve().parent
    for k, (name, options) in enumerate(steps):

        def within(fraction: float, done: int = k) -> None:
            if progress is not None:
                progress((done + fraction) / len(steps))

        yield name, options, run_step(name, options, folder=folder, force=force, progress=within)
        within(1.0)


def resolved(
    options: Mapping[str, Any], known: Mapping[str, Option], folder: Path
) -> dict[str, Any]:
    """Return options with file names relative to a folder as absolute ones; a robot may also be a
    bundled name.
    """

    def placed(name: str, value: Any) -> Any:
        if not isinstance(value, str):
            return (
                [placed(name, item) for item in value] if isinstance(value, list | tuple) else value
            )
        if name == "robot" and not (folder / value).is_file():
            return value
        return "@".join(str(folder / each) for each in value.split("@"))

    return {
        name: placed(name, value) if name in known and known[name].about.file else value
        for name, value in options.items()
    }
