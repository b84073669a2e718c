"""Commands made from the verbs: every option of a verb is one of its command, declared nowhere else."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin

import typer

from gough.cli.common import Json, end, print_json, progress, say
from gough.core.errors import GoughError, InvalidInput
from gough.core.options import REQUIRED, Option, options_of
from gough.mechanism import bundled_robots
from gough.study.run import run_step, step_settings
from gough.study.verbs import verb


def verified(path: str | None) -> None:
    """Check a stored box, say what is proven, and stop."""
    if path is None:
        return
    from gough.core.storage import read_json
    from gough.estimators.bounds.verify import Rejected, verify

    try:
        say(verify(read_json(path, "enclosure")))
    except Rejected as error:
        raise InvalidInput(f"'{path}' does not prove its box: {error}", path=path) from None
    raise typer.Exit


Verify = Annotated[str | None, typer.Option(is_eager=True, callback=verified, metavar="BOX", help=(
    "Check a stored box (.json) in fractions, and nothing else."))]


def command(name: str) -> Callable[..., None]:
    """Return a verb as a function that Typer understands: it runs, shows the result and says what was written."""
    known = options_of(verb(name))
    arguments = {p.name for p in inspect.signature(verb(name)).parameters.values() if p.kind is not p.KEYWORD_ONLY}

    def call(as_json: bool, **words: Any) -> None:
        try:
            given = {key: value for key, value in words.items() if value is not None}
            options = {key: spoken(known[key], value) for key, value in given.items()}
            with progress(" ".join([name, *(str(options[key]) for key in ("robot", "folder") if key in options)]),
                          quiet=as_json) as update:
                result = run_step(name, options, progress=update)
        except GoughError as error:
            raise type(error)(in_options(str(error), known), **error.numbers) from None
        if as_json:
            print_json(result.to_dict() | {"settings": step_settings(name, options)})
            end(result)
            return
        say(in_options(result.summary(), known))
        for key in ("output", "csv"):
            if key in options and not hasattr(result, "files"):
                say(f"wrote {options[key]}" + (f"; next: gough report {options[key]}" if name == "identify" else ""))
        end(result)

    parameters = [parameter(option, option.name in arguments) for option in known.values()]
    parameters.sort(key=lambda p: p.default is not p.empty)  # those without default first, as Python wants it
    parameters.append(inspect.Parameter("as_json", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=Json))
    if name == "bounds":
        parameters.append(inspect.Parameter("verify", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Verify))
    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    call.__annotations__ = {p.name: p.annotation for p in parameters}
    return call


def known_robots(incomplete: str) -> list[str]:
    """Return the bundled robots and the robot files that begin like this, for the shell to complete."""
    files = [path.as_posix() for path in Path(incomplete or ".").parent.glob("*.toml")]
    return [name for name in (*(name for name, _ in bundled_robots()), *files) if name[:len(incomplete)] == incomplete]


def parameter(option: Option, argument: bool) -> inspect.Parameter:
    """Return an option of a verb as a parameter for Typer."""
    hint, default = spoken_type(option), option.default
    absent = default is None or default == ()
    flag = option.name.replace("_", "-")
    names = [f"--{flag}/--no-{flag}" if default is True else f"--{flag}", *filter(None, [option.about.short])]
    complete = known_robots if option.name == "robot" else None
    info: Any = typer.Argument(help=option.help, autocompletion=complete) if argument else typer.Option(
        *names, help=option.help, autocompletion=complete, show_default=not absent and hint is not bool,
        metavar="NAME=VALUE" if _is_table(option) and hint == list[str] else None)
    if default is REQUIRED:
        default = inspect.Parameter.empty
    elif absent:
        default, hint = None, hint | None
    return inspect.Parameter(option.name, inspect.Parameter.KEYWORD_ONLY, default=default,
                             annotation=Annotated[hint, info])


def spoken_type(option: Option) -> Any:
    """Return the type of an option as it is written on a command line."""
    by_origin = {get_origin(kind): kind for kind in option.kinds}
    if option.choices:
        return Literal[option.choices]
    if tuple in by_origin:
        inner = get_args(by_origin[tuple])
        return list.__class_getitem__(inner[0]) if inner[-1] is Ellipsis else by_origin[tuple]
    if str in option.kinds:
        return str
    if _is_table(option):
        return list[str]
    return list.__class_getitem__(get_args(by_origin[Sequence])[0]) if Sequence in by_origin else option.kinds[0]


def _is_table(option: Option) -> bool:
    return any(get_origin(kind) is Mapping for kind in option.kinds)


def spoken(option: Option, value: Any) -> Any:
    """Return what was written on a command line as the option's value: `a=1 b=2` is a mapping, a lone one itself."""
    if not isinstance(value, list):
        return value
    if _is_table(option) and (float not in option.kinds or any("=" in word for word in value)):
        pairs = [(word, *word.partition("=")[::2]) for text in value for word in text.split(",")]
        return {key: _number(option.name, number, f"expected name=number, e.g. leg1.slider=2170, not '{word}'")
                for word, key, number in pairs}
    if float in option.kinds and len(value) == 1:
        return _number(option.name, value[0])
    return value


def _number(name: str, value: Any, otherwise: str = "expected a number") -> float:
    try:
        return float(value)
    except ValueError:
        raise InvalidInput(f"{name}: {otherwise}") from None


def in_options(text: str, known: Mapping[str, Option]) -> str:
    """Return a message of the library in the words of the command line: `cutoff=20` becomes --cutoff 20."""
    def spoken_as(match: re.Match[str]) -> str:
        name, value = match.groups()
        if name not in known:
            return match.group()
        flag = "--" + name.replace("_", "-")
        return flag if value in (None, "True") else f"{flag} {value.strip(chr(39))}"

    return re.sub(r"`(\w+)(?:=([^`]*))?`", spoken_as, text)
