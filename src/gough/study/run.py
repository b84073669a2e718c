"""Study files: the verbs and their options in TOML, run in order and written back."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from gough.core.documents import parse_toml
from gough.core.errors import InvalidInput, InvalidStudy, nearest
from gough.study import verbs
from gough.study.text import FORMAT

VERBS: dict[str, Callable[..., Any]] = {
    name: getattr(verbs, name)
    for name in ("check", "design", "simulate", "identify", "validate", "bounds", "payload", "report", "export")}


def read_study(path: str | Path) -> list[tuple[str, dict[str, Any]]]:
    """Return the steps of a study file: verb and options, in the order of the file.

    A section is a verb, a key an option; a verb used several times is an array of tables (`[[simulate]]`). `robot` at
    the top holds for all steps.

    Raises:
        InvalidStudy: Not TOML, unknown verb or key (the nearest valid name is offered), missing options.
    """
    source = Path(path)
    try:
        content = parse_toml(source.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        raise InvalidStudy(f"the study '{path}' does not exist") from None
    except (InvalidInput, UnicodeDecodeError) as error:
        raise InvalidStudy(f"{path}: not valid TOML: {error}") from None
    version = content.pop("format", None)
    if version != FORMAT:
        raise InvalidStudy(f"{path}: format is {version}, expected 'format = {FORMAT}'")
    robot = content.pop("robot", None)
    steps = []
    for verb, section in content.items():
        if verb not in VERBS:
            raise InvalidStudy(f"{path}: unknown section '{verb}'{nearest(verb, VERBS)}", key=verb)
        for options in section if isinstance(section, list) else [section]:
            if not isinstance(options, dict):
                raise InvalidStudy(f"{path}: '{verb}' is not a table; write [{verb}]", key=verb)
            steps.append((verb, _checked(str(path), verb, options, robot)))
    if not steps:
        raise InvalidStudy(f"{path}: the study has no steps; add a section such as [check]")
    return steps


def _checked(path: str, verb: str, options: Mapping[str, Any], robot: str | None) -> dict[str, Any]:
    parameters = {name: p for name, p in inspect.signature(VERBS[verb]).parameters.items() if name != "progress"}
    hints = get_type_hints(VERBS[verb])
    found = {}
    for key, value in options.items():
        name = key.replace("-", "_")
        if name not in parameters:
            raise InvalidStudy(f"{path}: [{verb}] has no option '{key}'{nearest(key, parameters)}", key=key)
        _check_type(f"{path}: [{verb}] {key}", value, hints[name])
        found[name] = value
    if robot is not None and "robot" in parameters:
        _check_type(f"{path}: robot", robot, str)
        found.setdefault("robot", robot)
    missing = [n for n, p in parameters.items() if p.default is inspect.Parameter.empty and n not in found]
    if missing:
        raise InvalidStudy(f"{path}: [{verb}] needs the option '{missing[0]}'", key=missing[0])
    return found


def _check_type(where: str, value: Any, hint: Any) -> None:
    """Raise `InvalidStudy` unless a value of a study is of the type that an option of a verb has."""
    choices = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    if any(_fits(value, choice) for choice in choices):
        return
    words = [word for choice in choices if choice is not type(None) for word in _expected(choice)]
    offer = nearest(value, words) if isinstance(value, str) and get_origin(choices[0]) is Literal else ""
    raise InvalidStudy(f"{where} is {value!r}, expected {' or '.join(words)}{offer if 'mean' in offer else ''}")


def _fits(value: Any, hint: Any) -> bool:
    kind = get_origin(hint)
    if kind is Literal:
        return value in get_args(hint)
    if kind is Sequence:
        return isinstance(value, list) and all(_fits(item, get_args(hint)[0]) for item in value)
    if kind is Mapping:
        return isinstance(value, dict) and all(_fits(item, get_args(hint)[1]) for item in value.values())
    if isinstance(value, bool) or hint is bool:
        return isinstance(value, bool) and hint is bool
    return isinstance(value, (int, float) if hint is float else hint)


def _expected(hint: Any) -> list[str]:
    if get_origin(hint) is Literal:
        return [str(word) for word in get_args(hint)]
    names = {str: "text", int: "a whole number", float: "a number", bool: "true or false",
             Sequence[str]: 'a list of texts ["a", "b"]', Sequence[float]: "a list of numbers",
             Mapping[str, float]: "a table of numbers { name = 1.5 }"}
    return [names[hint]]


def run_study(path: str | Path, *, force: bool = False) -> Iterator[tuple[str, dict[str, Any], Any]]:
    """Run a study step by step; yields verb, options and result of each. Paths are relative to the study's folder.

    The whole file is checked before the first step runs.
    """
    steps = read_study(path)
    folder = Path(path).resolve().parent
    for verb, options in steps:
        call = {key: resolved(key, value, folder) for key, value in options.items()}
        if force and "force" in inspect.signature(VERBS[verb]).parameters:
            call["force"] = True
        yield verb, options, VERBS[verb](**call)


_PATHS = {"trajectory", "output", "csv", "logs", "loaded", "validate", "description", "folder", "model"}


def resolved(key: str, value: Any, folder: Path) -> Any:
    """Return file names relative to the study as absolute ones; robots are names or files."""
    if key == "robot" and isinstance(value, str) and (folder / value).is_file():
        return str(folder / value)
    if key not in _PATHS:
        return value
    if isinstance(value, list):
        return [resolved(key, item, folder) for item in value]
    return str(folder / value) if isinstance(value, str) else value
