"""Commands made from the verbs: every option of a verb is one of its command, declared nowhere
else.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin

import typer

from gough.app.cli.display import FAILED, Json, failed, print_json, progress, say
from gough.app.studies.run import run_step, step_settings
from gough.app.studies.verbs import verb
from gough.core.errors import GoughError, InvalidInput
from gough.core.options import REQUIRED, Option, options_of
from gough.mechanism import bundled_robots


def verified(path: str | None) -> None:
    """Check a stored box, say what is proven, and stop."""
    if path is None:
        return
    from gough.bounding.verify import Rejected, verify
    from gough.core.documents import read_json

    try:
        say(verify(read_json(path, "enclosure")))
    except Rejected as error:
        raise InvalidInput(f"'{path}' does not prove its box: {error}", path=path) from None
    raise typer.Exit


Verify = Annotated[
    str | None,
    typer.Option(
        is_eager=True,
        callback=verified,
        metavar="BOX",
        help=("Check a stored box (.json) in fractions, and nothing else."),
    ),
]


def command(name: str) -> Callable[..., None]:
    """Return a verb as a function that Typer understands: it runs, shows the result and says what
    was written.
    """
    known = options_of(verb(name))
    arguments = {
        p.name
        for p in inspect.signature(verb(name)).parameters.values()
        if p.kind is not p.KEYWORD_ONLY
    }

    def call(as_json: bool, **words: Any) -> None:
        try:
            options = {
                key: spoken(known[key], value) for key, value in words.items() if value is not None
            }
            with progress(
                " ".join(
                    [name, *(str(options[key]) for key in ("robot", "folder") if key in options)]
                ),
                quiet=as_json,
            ) as update:
                result = run_step(name, options, progress=update)
        except GoughError as error:
            raise type(error)(in_options(str(error), known), **error.numbers) from None
        if as_json:
            print_json(result.to_dict() | {"settings": step_settings(name, options)})
        else:
            say(in_options(result.summary(), known))
            written = [
                options[key]
                for key in ("output", "csv")
                if key in options and not hasattr(result, "files")
            ]
            for path in written:
                say(
                    f"wrote {path}" + (f"; next: gough report {path}" if name == "identify" else "")
                )
        if failed(result):
            raise typer.Exit(FAILED)

    hints = {option.name: parameter(option, option.name in arguments) for option in known.values()}
    hints = dict(
        sorted(hints.items(), key=lambda item: item[1][1] is not REQUIRED)
    )  # as Python wants it
    hints["as_json"] = Json, False
    if name == "bounds":
        hints["verify"] = Verify, None
    signature = inspect.Signature(
        [
            inspect.Parameter(
                key,
                inspect.Parameter.KEYWORD_ONLY,
                annotation=hint,
                default=inspect.Parameter.empty if default is REQUIRED else default,
            )
            for key, (hint, default) in hints.items()
        ]
    )
    call.__signature__ = signature  # type: ignore[attr-defined]
    call.__annotations__ = {key: hint for key, (hint, _) in hints.items()}
    return call


def known_robots(incomplete: str) -> list[str]:
    """Return the bundled robots and the robot files that begin like this, for the shell to
    complete.
    """
    files = [path.as_posix() for path in Path(incomplete or ".").parent.glob("*.toml")]
    return [
        name
        for name in (*(name for name, _ in bundled_robots()), *files)
        if name[: len(incomplete)] == incomplete
    ]


def parameter(option: Option, argument: bool) -> tuple[Any, Any]:
    """Return an option of a verb as type and default for Typer."""
    hint, default = spoken_type(option), option.default
    absent = default is None or default == ()
    flag = option.name.replace("_", "-")
    names = [
        f"--{flag}/--no-{flag}" if default is True else f"--{flag}",
        *filter(None, [option.about.short]),
    ]
    about: dict[str, Any] = {
        "help": option.help,
        "autocompletion": known_robots if option.name == "robot" else None,
    }
    info = (
        typer.Argument(**about)
        if argument
        else typer.Option(
            *names,
            **about,
            show_default=not absent and hint is not bool,
            metavar="NAME=VALUE" if _is_table(option) and hint == list[str] else None,
        )
    )
    return (Annotated[hint | None, info], None) if absent else (Annotated[hint, info], default)


def spoken_type(option: Option) -> Any:
    """Return the type of an option as it is written on a command line."""
    if option.choices:
        return Literal[option.choices]
    by_origin = {get_origin(kind): kind for kind in option.kinds}
    if tuple in by_origin and get_args(by_origin[tuple])[-1] is not Ellipsis:
        return by_origin[tuple]
    if tuple not in by_origin and str in option.kinds:
        return str
    if tuple not in by_origin and _is_table(option):
        return list[str]
    several = by_origin.get(tuple) or by_origin.get(Sequence)
    return list.__class_getitem__(get_args(several)[0]) if several else option.kinds[0]


def _is_table(option: Option) -> bool:
    return any(get_origin(kind) is Mapping for kind in option.kinds)


def spoken(option: Option, value: Any) -> Any:
    """Return what was written on a command line as the option's value: `a=1 b=2` is a mapping, a
    lone one itself.
    """
    if not isinstance(value, list):
        return value
    try:
        if _is_table(option) and (float not in option.kinds or any("=" in word for word in value)):
            expected = "name=number, e.g. leg1.slider=2170"
            pairs = [word.partition("=") for text in value for word in text.split(",")]
            return {key: float(number) for key, _, number in pairs}
        expected = "a number"
        return float(value[0]) if float in option.kinds and len(value) == 1 else value
    except ValueError:
        raise InvalidInput(f"{option.name}: expected {expected}, not '{' '.join(value)}'") from None


def in_options(text: str, known: Mapping[str, Option]) -> str:
    """Return a message of the library in the words of the command line: `cutoff=20` becomes
    --cutoff 20.
    """

    def spoken_as(match: re.Match[str]) -> str:
        name, value = match.groups()
        if name not in known:
            return match.group()
        flag = "--" + name.replace("_", "-")
        return flag if value in (None, "True") else f"{flag} {value.strip(chr(39))}"

    return re.sub(r"`(\w+)(?:=([^`]*))?`", spoken_as, text)
