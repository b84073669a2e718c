"""Options of the verbs, declared once: name, type, default, unit and help.

The settings of a verb are a frozen, keyword-only dataclass. Each field
is an option, or settings of its own:

    @dataclass(frozen=True, kw_only=True)
    class BoundsSettings(Settings):
        error_bound: float = option(REQUIRED, "Largest error of any effort.", unit="N or N
            m", above=0)
        processing: Processing = nested(Processing)

The keyword arguments of the function, the options of the command, the
keys of a study and the settings stored with a result are made from
these fields. Options of nested settings are given beside the others:
`bounds(..., cutoff=20.0)`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from functools import cache, cached_property
from math import isfinite, isinf
from numbers import Integral, Real
from types import MappingProxyType, NoneType, UnionType
from typing import (
    Any,
    ClassVar,
    Literal,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from gough.core.documents import plain
from gough.core.errors import InvalidInput, nearest

REQUIRED: Any = MISSING  # default of an option that must be given
S = TypeVar("S", bound="Settings")
F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")
INFINITE_WORDS = ("inf", "-inf")  # as JSON has them
# stored as they are; others by `repr`
PLAIN_TYPES = (bool, int, float, str, Mapping, tuple, list)
TYPE_WORDS = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "text",
}


@dataclass(frozen=True, kw_only=True)
class About:
    """Properties of an option beside its name, type and default."""

    help: str  # a sentence
    unit: str = ""  # SI; empty if there is none
    least: float | None = None  # the number must be at least this
    above: float | None = None  # the number must be above this
    infinite: bool = False  # numbers may be infinite
    # the words to choose from, where a registry holds them
    choices: Callable[[], Iterable[str]] | None = None
    # names files or folders; in a study they are relative to its folder
    file: bool = False
    short: str = ""  # a letter for the command line, such as -o
    positional: bool = False  # given without its name on the command line


@dataclass(frozen=True, kw_only=True)
class Option:
    """One option of settings."""

    name: str
    hint: Any  # its type
    default: Any  # `REQUIRED` if the option must be given
    about: About  # help, unit and limits
    heading: str = ""  # under which the help of a command lists it

    @cached_property
    def kinds(self) -> tuple[Any, ...]:
        """The types of its values, without None."""
        if get_origin(self.hint) not in (Union, UnionType):
            return (self.hint,)
        return tuple(kind for kind in get_args(self.hint) if kind is not NoneType)

    @property
    def choices(self) -> tuple[str, ...]:
        """Return the words to choose from; none where any text is valid."""
        if self.about.choices is not None:
            return tuple(self.about.choices())
        words: list[str] = []
        for kind in self.kinds:
            if get_origin(kind) is Literal:
                words += get_args(kind)
        return tuple(words)

    @property
    def help(self) -> str:
        """Return the sentence of help, with the unit."""
        if not self.about.unit:
            return self.about.help
        return f"{self.about.help} [{self.about.unit}]"

    @property
    def expected(self) -> str:
        """Return the valid values in words."""
        if self.choices:
            return "one of " + ", ".join(self.choices)
        limit = ""
        if self.about.above is not None:
            limit = f" above {self.about.above:g}"
        elif self.about.least is not None:
            limit = f" of at least {self.about.least:g}"
        words = []
        for kind in self.kinds:
            is_number = kind in (int, float)
            words.append(_type_in_words(kind) + limit * is_number)
        return " or ".join(words)

    def read(self, given: Any) -> Any:
        """Convert a value to the type of the option.

        Raises:
            InvalidInput: The value has another type, or is beyond the
                limits.
        """
        if given is None and NoneType in get_args(self.hint):
            return None
        for kind in self.kinds:
            try:
                converted = _convert(given, kind)
            except (TypeError, ValueError):
                continue
            if self._is_valid(converted):
                return converted
        raise InvalidInput(
            f"{self.name} is {self._shown(given)}, expected {self.expected}{self._hint(given)}",
            option=self.name,
            value=given,
        )

    def _shown(self, given: Any) -> str:
        if _is_number(given):
            return f"{given} {self.about.unit}".strip()
        return repr(given)

    def _hint(self, given: Any) -> str:
        """Return the nearest valid word, if there is one near."""
        if not isinstance(given, str) or not self.choices:
            return ""
        hint = nearest(given, self.choices)
        return hint if "mean" in hint else ""

    def _is_valid(self, converted: Any) -> bool:
        """Return whether a value, or each of several values, is a valid word or within limits."""
        if isinstance(converted, str):
            return not self.choices or converted in self.choices
        if isinstance(converted, Mapping):
            return all(map(self._is_valid, converted.values()))
        if isinstance(converted, tuple):
            return all(map(self._is_valid, converted))
        if not _is_number(converted):
            return True
        if not isfinite(converted) and not (self.about.infinite and isinf(converted)):
            return False
        if self.about.least is not None and converted < self.about.least:
            return False
        return self.about.above is None or converted > self.about.above


class Settings:
    """Base of all settings: values are checked when they are made, and written as JSON or TOML."""

    heading: ClassVar[str] = ""  # above these options in the help of a command

    def __post_init__(self) -> None:
        for name, member in members(type(self)).items():
            given = getattr(self, name)
            if isinstance(member, Option):
                if given is not member.default:  # declared defaults are valid
                    object.__setattr__(self, name, member.read(given))
            elif not isinstance(given, member):
                raise InvalidInput(
                    f"{name} is a {type(given).__name__}, expected {member.__name__}",
                    option=name,
                )

    def to_dict(self) -> dict[str, Any]:
        """Return the values of all options, also of nested settings; objects as their `repr`."""
        values: dict[str, Any] = {}
        for name, member in members(type(self)).items():
            if isinstance(member, Option):
                given = getattr(self, name)
                is_plain = given is None or isinstance(given, PLAIN_TYPES)
                values[name] = plain(given) if is_plain else repr(given)
            else:
                values |= getattr(self, name).to_dict()
        return values


def option(default: Any, help: str, **about: Any) -> Any:
    """Declare an option as a field of settings; see `About`."""
    return field(default=default, metadata={"about": About(help=help, **about)})


def nested(settings: type[Settings]) -> Any:
    """Declare settings inside others; they are the defaults unless given."""
    return field(default_factory=settings)


def _computed_once(function: Callable[[type[Settings]], T]) -> Callable[[type[Settings]], T]:
    """Keep what a function returns for each type of settings: every use of settings needs it."""
    return cache(function)  # type: ignore[return-value]  # types are hashable


@_computed_once
def members(settings: type[Settings]) -> Mapping[str, Option | type[Settings]]:
    """Return the fields of settings by name: options, and types of nested settings."""
    cls: Any = settings  # a dataclass
    hints = get_type_hints(cls)
    by_name: dict[str, Option | type[Settings]] = {}
    for declared in fields(cls):
        hint = hints[declared.name]
        about = declared.metadata.get("about")
        if isinstance(hint, type) and issubclass(hint, Settings):
            by_name[declared.name] = hint
        elif about is not None:
            by_name[declared.name] = Option(
                name=declared.name,
                hint=hint,
                default=declared.default,
                about=about,
                heading=settings.heading,
            )
    return MappingProxyType(by_name)


@_computed_once
def options_of(settings: type[Settings]) -> Mapping[str, Option]:
    """Return all options of settings by name, also those of nested settings."""
    options: dict[str, Option] = {}
    for name, member in members(settings).items():
        added: Mapping[str, Option] = {}
        if isinstance(member, Option):
            added = {name: member}
        else:
            added = options_of(member)
        for twice in options.keys() & added.keys():
            raise TypeError(f"{settings.__name__}: '{twice}' is declared twice, also in '{name}'")
        options |= added
    return MappingProxyType(options)


def merge_settings(cls: type[S], settings: S | None, options: Mapping[str, Any]) -> S:
    """Return settings with some options changed.

    Args:
        cls: The type of the settings.
        settings: Settings to start from; the defaults if None.
        options: Values of options by name, also of options of nested
            settings.
    """
    if settings is not None and not isinstance(settings, cls):
        raise InvalidInput(f"settings are a {type(settings).__name__}, expected {cls.__name__}")
    if settings is not None and not options:
        return settings
    known = options_of(cls)
    for name in options:
        if name not in known and name not in members(cls):
            raise InvalidInput(
                f"there is no option '{name}'{nearest(name, known)}",
                option=name,
            )
    values: dict[str, Any] = {}
    for name, member in members(cls).items():
        if isinstance(member, Option):
            if name in options:
                values[name] = member.read(options[name])
            elif settings is not None:
                values[name] = getattr(settings, name)
            elif member.default is REQUIRED:
                raise InvalidInput(f"`{name}` is needed: {member.help}", option=name)
        else:
            start = options.get(name, getattr(settings, name, None))
            inside = {key: options[key] for key in options_of(member) if key in options}
            values[name] = merge_settings(member, start, inside)
    return cls(**values)


def with_settings(settings: type[Settings]) -> Callable[[F], F]:
    """Add the options to signature and docstring of a function.

    The function ends in `settings=None, **options`. Its attribute
    `settings_type` is set.
    """

    def decorate(function: F) -> F:
        options = options_of(settings).values()
        signature = inspect.signature(function)
        parameters = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
        lines = [
            inspect.getdoc(function) or "",
            "",
            f"Options ({settings.__name__}):",
        ]
        for each in options:
            parameters.append(_parameter(each))
            lines.append(f"    {each.name}: {each.help}")
        shown: Any = function  # functions take attributes, which their types do not show
        shown.__signature__ = signature.replace(parameters=parameters)
        shown.__doc__ = "\n".join(lines)
        shown.settings_type = settings
        return function

    return decorate


def _parameter(option: Option) -> inspect.Parameter:
    default = inspect.Parameter.empty if option.default is REQUIRED else option.default
    return inspect.Parameter(
        option.name,
        inspect.Parameter.KEYWORD_ONLY,
        annotation=option.hint,
        default=default,
    )


def _convert(given: Any, kind: Any) -> Any:
    """Convert a value to a type; raises TypeError or ValueError."""
    origin = get_origin(kind)
    inner = get_args(kind)
    if origin is Literal:
        return inner[inner.index(given)]
    if origin is Mapping or origin is dict:
        if not isinstance(given, Mapping):
            raise TypeError
        return MappingProxyType(
            {str(key): _convert(entry, inner[1]) for key, entry in given.items()}
        )
    if origin is Sequence or origin is tuple:
        if isinstance(given, str | Mapping):
            raise TypeError
        entries = tuple(given)
        fixed_length = origin is tuple and inner[-1] is not Ellipsis
        kinds = inner if fixed_length else inner[:1] * len(entries)
        pairs = zip(entries, kinds, strict=True)
        return tuple(_convert(entry, entry_kind) for entry, entry_kind in pairs)
    if kind is float and isinstance(given, str) and given in INFINITE_WORDS:
        return float(given)
    if kind in (int, float):
        if not _is_number(given) or (kind is int and not isinstance(given, Integral)):
            raise TypeError
        return kind(given)
    is_valid = callable(given) if origin is Callable else isinstance(given, kind)
    if not is_valid:
        raise TypeError
    return given


def _is_number(given: Any) -> bool:
    return isinstance(given, Real) and not isinstance(given, bool)


def _type_in_words(kind: Any) -> str:
    origin = get_origin(kind)
    inner = get_args(kind)
    if origin is Mapping and inner[1] is str:
        return 'a table of texts { name = "other" }'
    if origin is Mapping:
        return "a table of numbers { name = 1.5 }"
    if origin is tuple and inner[-1] is not Ellipsis:
        return f"{len(inner)} numbers"
    if origin is Sequence or origin is tuple:
        return 'a list of texts ["a", "b"]' if inner[0] is str else "a list of numbers"
    return TYPE_WORDS.get(kind, getattr(kind, "__name__", str(kind)))
