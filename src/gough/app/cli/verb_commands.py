"""Commands made from the steps of the verbs: each option of a step is one of its command."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin

import typer

from gough.app.cli.display import (
    Json,
    exit_if_failed,
    print_json,
    progress,
    say,
)
from gough.app.studies.step import WrittenFiles
from gough.app.studies.study_file import json_of_step, run_step
from gough.app.studies.verbs import step_type
from gough.core.errors import GoughError, InvalidInput
from gough.core.options import REQUIRED, Option, options_of
from gough.engine import as_model


def verify_box(context: typer.Context, given: bool) -> None:
    """Verify a stored box if one is given, print what is proven, and exit."""
    path = context.params["verify"]
    robot = context.params["verify_robot"]
    logs = context.params["verify_log"]
    if path is None:
        if robot or logs:
            raise InvalidInput("--robot and --log belong to --verify; here both are arguments")
        return
    if bool(robot) != bool(logs):
        raise InvalidInput("give both --robot and --log, or neither")
    from gough.app.studies.input_files import read_logs
    from gough.bounding.rederive import rederive
    from gough.bounding.verify import Rejected, verify
    from gough.core.documents import read_json

    content = read_json(path, "enclosure")
    try:
        statements = [verify(content)]
        if robot:
            model = as_model(robot)
            statements.append(rederive(content, model, read_logs(logs, None, model)))
    except Rejected as error:
        raise InvalidInput(f"'{path}' does not prove its box: {error}", path=path) from None
    say("\n".join(statements))
    raise typer.Exit


def verify_parameters() -> list[inspect.Parameter]:
    """Return the options that check a stored box instead of computing one.

    They are eager: the arguments of the command are not needed then.
    The last one is never given, and options that are not given are
    processed after those that are.
    """
    box = typer.Option(
        is_eager=True,
        metavar="BOX",
        help="Check a stored box (.json) in fractions, and nothing else.",
    )
    robot = typer.Option(
        "--robot",
        is_eager=True,
        help="With --verify: derive the equations again from this robot and the logs.",
    )
    log = typer.Option(
        "--log",
        is_eager=True,
        help="With --verify: a log, with its description as log.csv@its.toml; may be repeated.",
    )
    last = typer.Option("--verify-box", is_eager=True, hidden=True, callback=verify_box)
    return [
        _keyword("verify", Annotated[str | None, box], None),
        _keyword("verify_robot", Annotated[str | None, robot], None),
        _keyword("verify_log", Annotated[list[str] | None, log], None),
        _keyword("verify_box", Annotated[bool, last], False),
    ]


def command(name: str) -> Callable[..., None]:
    """Return a verb as a function that Typer understands: it runs the step and prints."""
    options = options_of(step_type(name))

    def call(as_json: bool, **words: Any) -> None:
        try:
            given = _parse_words(options, words)
            with progress(_label(name, given), quiet=as_json) as update:
                result = run_step(name, given, progress=update)
        except GoughError as error:
            raise type(error)(name_flags(str(error), options), **error.numbers) from None
        if as_json:
            print_json(json_of_step(name, given, result))
        else:
            say(name_flags(result.summary(), options))
            if not isinstance(result, WrittenFiles):
                _print_written(name, given)
        exit_if_failed(result, given.get("fail_on"))

    parameters = [_parameter(option) for option in options.values()]
    # Python wants parameters without a default first
    parameters.sort(key=lambda parameter: parameter.default is not parameter.empty)
    parameters.append(_keyword("as_json", Json, False))
    if name == "bounds":
        parameters += verify_parameters()
    function: Any = call  # functions take attributes, which their types do not show
    function.__signature__ = inspect.Signature(parameters)
    function.__annotations__ = {each.name: each.annotation for each in parameters}
    return call


def _parse_words(options: Mapping[str, Option], words: Mapping[str, Any]) -> dict[str, Any]:
    given = {}
    for name, word in words.items():
        if word is not None and name in options:
            given[name] = parse_cli_value(options[name], word)
    return given


def _label(name: str, given: Mapping[str, Any]) -> str:
    """Return the text beside the progress bar."""
    subjects = [str(given[key]) for key in ("robot", "folder") if key in given]
    return " ".join([name, *subjects])


def _print_written(name: str, given: Mapping[str, Any]) -> None:
    for key in ("output", "csv"):
        if key in given:
            next_command = f"; next: gough report {given[key]}" if name == "identify" else ""
            say(f"wrote {given[key]}{next_command}")


def robot_completions(incomplete: str) -> list[str]:
    """Return the bundled robots and the robot files that begin like this."""
    from gough.mechanism import bundled_robots

    names = [name for name, _ in bundled_robots()]
    for path in Path(incomplete or ".").parent.glob("*.toml"):
        names.append(path.as_posix())
    return [name for name in names if name[: len(incomplete)] == incomplete]


def _keyword(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    kind = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, kind, annotation=annotation, default=default)


def _parameter(option: Option) -> inspect.Parameter:
    """Return an option as a parameter for Typer."""
    kind = cli_type(option)
    default = option.default
    if default is REQUIRED:
        default = inspect.Parameter.empty
    if option.default is None or option.default == ():
        return _keyword(option.name, Annotated[kind | None, _typer_info(option, kind)], None)
    return _keyword(option.name, Annotated[kind, _typer_info(option, kind)], default)


def _typer_info(option: Option, kind: Any) -> Any:
    """Return help, flags and completion of an option."""
    complete = robot_completions if option.name == "robot" else None
    if option.about.positional:
        return typer.Argument(help=option.help, autocompletion=complete)
    flag = option.name.replace("_", "-")
    flags = [f"--{flag}/--no-{flag}" if option.default is True else f"--{flag}"]
    if option.about.short:
        flags.append(option.about.short)
    has_default = option.default is not None and option.default != ()
    return typer.Option(
        *flags,
        help=option.help,
        rich_help_panel=option.heading or None,
        autocompletion=complete,
        show_default=has_default and kind is not bool,
        metavar="NAME=VALUE" if _is_table(option) and kind == list[str] else None,
    )


def cli_type(option: Option) -> Any:
    """Return the type of an option as it is written on a command line."""
    if option.choices:
        return Literal[option.choices]
    by_origin = {get_origin(kind): kind for kind in option.kinds}
    if tuple in by_origin:
        entries = get_args(by_origin[tuple])
        if entries[-1] is not Ellipsis:  # of fixed length
            return by_origin[tuple]
        return list.__class_getitem__(entries[0])
    if str in option.kinds:
        return str
    if _is_table(option):
        return list[str]
    if Sequence in by_origin:
        return list.__class_getitem__(get_args(by_origin[Sequence])[0])
    return option.kinds[0]


def _is_table(option: Option) -> bool:
    return any(get_origin(kind) is Mapping for kind in option.kinds)


def parse_cli_value(option: Option, words: Any) -> Any:
    """Return the value of an option that was written on a command line.

    A list such as `a=1 b=2` is a mapping; a single number of an option
    that takes one number or several is that number.
    """
    if not isinstance(words, list):
        return words
    takes_number = float in option.kinds
    if _is_table(option) and (not takes_number or any("=" in word for word in words)):
        return _parse_table(option, words)
    if takes_number and len(words) == 1:
        return _parse_number(option, words[0], words, "a number")
    return words


def _parse_table(option: Option, words: list[str]) -> dict[str, Any]:
    ranges = any(get_origin(get_args(kind)[1]) is tuple for kind in option.kinds if get_args(kind))
    texts = any(get_args(kind)[1:] == (str,) for kind in option.kinds)
    expected = "name=number, e.g. leg1.slider=2170"
    if texts:
        expected = "name=other, e.g. leg2.rod.m=leg1.rod.m"
    if ranges:
        expected = "name=low:high, e.g. leg1.slider.fs=0:inf"
    table: dict[str, Any] = {}
    for word in words:
        for pair in word.split(","):
            key, equals, number = pair.partition("=")
            if texts:
                if not equals:
                    raise InvalidInput(f"{option.name}: expected {expected}, not '{pair}'")
                table[key] = number
                continue
            ends = [_parse_number(option, end, words, expected) for end in number.split(":")]
            if len(ends) != (2 if ranges else 1):
                raise InvalidInput(f"{option.name}: expected {expected}, not '{' '.join(words)}'")
            table[key] = tuple(ends) if ranges else ends[0]
    return table


def _parse_number(option: Option, number: str, words: list[str], expected: str) -> float:
    try:
        return float(number)
    except ValueError:
        message = f"{option.name}: expected {expected}, not '{' '.join(words)}'"
        raise InvalidInput(message) from None


def name_flags(text: str, options: Mapping[str, Option]) -> str:
    """Replace options in a message of the library by flags: `cutoff=20` becomes --cutoff 20."""

    def flag_of(match: re.Match[str]) -> str:
        name, given = match.groups()
        if name not in options:
            return match.group()
        flag = "--" + name.replace("_", "-")
        if given in (None, "True"):
            return flag
        return f"{flag} {given.strip(chr(39))}"

    return re.sub(r"`(\w+)(?:=([^`]*))?`", flag_of, text)
