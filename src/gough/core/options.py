"""An option is declared once: name, type, default, unit, help.

The settings of a verb are a frozen, keyword-only dataclass whose fields are options, or settings of
their own:

    @dataclass(frozen=True, kw_only=True)
    class BoundsSettings(Settings):
        error_bound: float = option(REQUIRED, "Largest error of any effort.", unit="N or N m",
            above=0)
        processing: Processing = nested(Processing)

The keyword arguments of the function, the options of the command, the keys of a study and what is
stored with a result are read from these fields. The options of a part stand beside the others:
`bounds(..., cutoff=20.0)`.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from math import isfinite
from numbers import Integral, Real
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from gough.core.errors import InvalidInput, nearest

REQUIRED: Any = MISSING
S = TypeVar("S", bound="Settings")
F = TypeVar("F", bound=Callable[..., Any])
WORDS = {bool: "true or false", int: "a whole number", float: "a number", str: "text"}


@dataclass(frozen=True, kw_only=True)
class About:
    """What there is to know of an option beside its name, type and default."""

    help: str  # a sentence
    unit: str = ""
    least: float | None = None  # the number is at least this,
    above: float | None = None  # or above this
    # the words to choose from, where a registry knows them
    choices: Callable[[], Iterable[str]] | None = None
    file: bool = False  # it names files or folders; in a study they are relative to it
    short: str = ""  # a letter for the command line


@dataclass(frozen=True, kw_only=True)
class Option:
    """One option of a function or of settings; `default` is `REQUIRED` if it must be given."""

    name: str
    hint: Any
    default: Any
    about: About

    @property
    def kinds(self) -> tuple[Any, ...]:
        """The types it may have; None is not among them."""
        union = get_origin(self.hint) in (Union, types.UnionType)
        return tuple(
            k for k in (get_args(self.hint) if union else (self.hint,)) if k is not type(None)
        )

    @property
    def choices(self) -> tuple[str, ...]:
        """The words to choose from; none where any text goes."""
        if self.about.choices is not None:
            return tuple(self.about.choices())
        return tuple(
            word for kind in self.kinds if get_origin(kind) is Literal for word in get_args(kind)
        )

    @property
    def help(self) -> str:
        """The sentence, with the unit."""
        return self.about.help + (f" [{self.about.unit}]" if self.about.unit else "")

    @property
    def expected(self) -> str:
        """The valid values in words."""
        if self.choices:
            return "one of " + ", ".join(self.choices)
        least, above = self.about.least, self.about.above
        limit = (
            f" above {above:g}"
            if above is not None
            else ""
            if least is None
            else f" of at least {least:g}"
        )
        return " or ".join(
            _words(kind) + (limit if kind in (int, float) else "") for kind in self.kinds
        )

    def read(self, value: Any) -> Any:
        """Return a value as the option's type; `InvalidInput` if it is none, or beyond the
        limits.
        """
        if value is None and type(None) in get_args(self.hint):
            return None
        for kind in self.kinds:
            try:
                found = _as(value, kind)
            except (TypeError, ValueError):
                continue
            if self._allows(found):
                return found
        shown = f"{value} {self.about.unit}".strip() if _is_number(value) else repr(value)
        words = nearest(value, self.choices) if isinstance(value, str) and self.choices else ""
        raise InvalidInput(
            f"{self.name} is {shown}, expected {self.expected}{words if 'mean' in words else ''}",
            option=self.name,
            value=value,
        )

    def _allows(self, value: Any) -> bool:
        if isinstance(value, str):
            return not self.choices or value in self.choices
        if isinstance(value, Mapping | tuple):
            return all(map(self._allows, value.values() if isinstance(value, Mapping) else value))
        least, above = self.about.least, self.about.above
        return not _is_number(value) or (
            isfinite(value)
            and (least is None or value >= least)
            and (above is None or value > above)
        )


class Settings:
    """What settings have in common: values are read as the options say, and written as JSON and
    TOML know them.
    """

    def __post_init__(self) -> None:
        for name, member in members(type(self)).items():
            value = getattr(self, name)
            if isinstance(member, Option):
                object.__setattr__(self, name, member.read(value))
            elif not isinstance(value, member):
                raise InvalidInput(
                    f"{name} is a {type(value).__name__}, expected {member.__name__}", option=name
                )

    def to_dict(self) -> dict[str, Any]:
        """Return the values of all options, those of parts beside the others; an object is told by
        its `repr`.
        """
        found: dict[str, Any] = {}
        for name, member in members(type(self)).items():
            value = getattr(self, name)
            found |= {name: plain(value)} if isinstance(member, Option) else value.to_dict()
        return found


def option(default: Any, help: str, **about: Any) -> Any:
    """Declare an option as a field of settings; see `About`."""
    return field(default=default, metadata={"about": About(help=help, **about)})


def nested(settings: type[Settings]) -> Any:
    """Declare settings that are part of others, defaults unless given."""
    return field(default_factory=settings)


def members(thing: Any) -> dict[str, Option | type[Settings]]:
    """Return what settings, or a function, are made of: options and settings, by name.

    An argument of a function is an option if it is `Annotated` with `About`; others belong to
    Python alone.
    """
    hints = get_type_hints(thing, include_extras=True)
    if is_settings(thing):
        known = {f.name: (f.default, f.metadata.get("about")) for f in fields(thing)}
    else:
        known = {
            name: (REQUIRED if given.default is given.empty else given.default, None)
            for name, given in inspect.signature(thing).parameters.items()
        }
    found: dict[str, Option | type[Settings]] = {}
    for name, (default, about) in known.items():
        hint: Any = hints.get(name)
        if get_origin(hint) is Annotated:
            hint, about = get_args(hint)
        if is_settings(hint):
            found[name] = hint
        elif about is not None:
            found[name] = Option(name=name, hint=hint, default=default, about=about)
    return found


def is_settings(hint: Any) -> bool:
    return isinstance(hint, type) and issubclass(hint, Settings)


def options_of(thing: Any) -> dict[str, Option]:
    """Return all options of settings, or of a function, by name, those of parts beside the
    others.
    """
    found: dict[str, Option] = {}
    for name, member in members(thing).items():
        for each in [member] if isinstance(member, Option) else options_of(member).values():
            if each.name in found:
                raise TypeError(
                    f"{thing.__name__}: '{each.name}' is declared twice, also in '{name}'"
                )
            found[each.name] = each
    return found


def arguments(
    thing: Any, values: Mapping[str, Any], given: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return the arguments of a function, or of settings: those `given`, and from values of its
    options.
    """
    known, parts = options_of(thing), members(thing)
    for name in values:
        if name not in known and name not in parts:
            raise InvalidInput(f"there is no option '{name}'{nearest(name, known)}", option=name)
    found = dict(given or {})
    for name, member in parts.items():
        if isinstance(member, Option):
            if name in values:
                found[name] = member.read(values[name])
            elif name not in found and member.default is REQUIRED:
                raise InvalidInput(f"`{name}` is needed: {member.help}", option=name)
        else:
            inside = {key: value for key, value in values.items() if key in options_of(member)}
            found[name] = merge_settings(member, values.get(name, found.get(name)), inside)
    return found


def merge_settings(cls: type[S], settings: S | None, options: Mapping[str, Any]) -> S:
    """Return settings with some options changed; the defaults where there are none."""
    if settings is not None and not isinstance(settings, cls):
        raise InvalidInput(f"settings are a {type(settings).__name__}, expected {cls.__name__}")
    if settings is not None and not options:
        return settings
    there = {} if settings is None else {name: getattr(settings, name) for name in members(cls)}
    return cls(**arguments(cls, options, there))


def plain(value: Any) -> Any:
    """Return a value as JSON knows it."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, tuple | list) else repr(value)


def with_settings(settings: type[Settings]) -> Callable[[F], F]:
    """Show the options in the signature and the docstring of a function that ends in
    `settings=None, **options`.
    """

    def decorate(function: F) -> F:
        signature, known = inspect.signature(function), options_of(settings).values()
        shown = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
        shown += [
            inspect.Parameter(
                o.name,
                inspect.Parameter.KEYWORD_ONLY,
                annotation=o.hint,
                default=inspect.Parameter.empty if o.default is REQUIRED else o.default,
            )
            for o in known
        ]
        function.__signature__ = signature.replace(parameters=shown)  # type: ignore[attr-defined]
        function.__doc__ = "\n".join(
            [
                inspect.getdoc(function) or "",
                "",
                f"Options ({settings.__name__}):",
                *(f"    {o.name}: {o.help}" for o in known),
            ]
        )
        return function

    return decorate


def _as(value: Any, kind: Any) -> Any:
    """Return a value as a type; raises TypeError or ValueError."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin is Literal:
        return inner[inner.index(value)]
    if origin is Mapping or origin is dict:
        if not isinstance(value, Mapping):
            raise TypeError
        return types.MappingProxyType(
            {str(key): _as(item, inner[1]) for key, item in value.items()}
        )
    if origin is Sequence or origin is tuple:
        if isinstance(value, str | Mapping):
            raise TypeError
        items = tuple(value)
        each = inner if origin is tuple and inner[-1] is not Ellipsis else inner[:1] * len(items)
        return tuple(_as(item, one) for item, one in zip(items, each, strict=True))
    if kind in (int, float):
        if not _is_number(value) or (kind is int and not isinstance(value, Integral)):
            raise TypeError
        return kind(value)
    if not (callable(value) if origin is Callable else isinstance(value, kind)):
        raise TypeError
    return value


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _words(kind: Any) -> str:
    origin, inner = get_origin(kind), get_args(kind)
    if origin is Mapping:
        return "a table of numbers { name = 1.5 }"
    if origin is tuple and inner[-1] is not Ellipsis:
        return f"{len(inner)} numbers"
    if origin is Sequence or origin is tuple:
        return 'a list of texts ["a", "b"]' if inner[0] is str else "a list of numbers"
    return WORDS.get(kind, getattr(kind, "__name__", str(kind)))
