"""Base class of the frozen dataclasses: read-only fields, a short repr, tables and JSON."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import Field, fields, is_dataclass
from functools import cache
from html import escape
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from gough.core.arrays import frozen
from gough.core.display import import_optional
from gough.core.documents import STORED_FORMAT, plain, read_json, restored
from gough.core.errors import InvalidInput
from gough.core.files import write_json

if TYPE_CHECKING:
    from pandas import DataFrame

Columns = Mapping[str, Iterable[Any]]
REPR_CHARACTERS = 200  # longest repr; longer ones are cut
FIELD_CHARACTERS = 40  # longest text of one field in a repr
FIELD_ENTRIES = 4  # tuples of more entries are shown by their length
HTML_ROWS = 200  # longest table in a notebook or a terminal
_DTYPES = {
    "FloatArray": np.float64,
    "IntArray": np.int64,
    "BoolArray": np.bool_,
}


class Record:
    """Base class of frozen dataclasses.

    - Arrays, tuples and mappings are copied and made read-only, by the annotation of the field.
    - `repr` is one short line.
    - `table` gives columns, which `to_dataframe` and notebooks show.
    """

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "__repr__" not in vars(cls):  # otherwise dataclass writes one with every field
            cls.__repr__ = Record.__repr__  # type: ignore[method-assign]

    def __repr__(self) -> str:
        """Return one line: the first line of the summary, otherwise the fields."""
        if hasattr(self, "summary"):
            text = self.summary().strip().partition("\n")[0]
        else:
            shown = [field.name for field in fields(self) if field.repr]
            text = ", ".join(f"{name}={_brief(getattr(self, name))}" for name in shown)
        return f"<{type(self).__name__}: {_cut(text, REPR_CHARACTERS)}>"

    def __post_init__(self) -> None:
        for name, kind in _read_only_fields(type(self)):  # type: ignore[arg-type]
            content = getattr(self, name)
            if content is None:
                continue
            if kind in _DTYPES:
                content = frozen(content, _DTYPES[kind])
            elif kind == "tuple":
                content = tuple(content)
            else:
                content = MappingProxyType(dict(content))
            object.__setattr__(self, name, content)

    def __getstate__(self) -> dict[str, Any]:
        """Return the attributes for pickle and copy, which cannot handle read-only mappings."""
        state = dict(vars(self))
        for name, content in state.items():
            if isinstance(content, MappingProxyType):
                state[name] = dict(content)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        Record.__post_init__(self)  # makes the fields read-only again

    def table(self) -> Columns:
        """Return columns by heading; the first column names the rows."""
        names = [field.name for field in fields(self)]
        return {
            "field": names,
            "value": [_brief(getattr(self, name)) for name in names],
        }

    def to_dataframe(self) -> DataFrame:
        """Return the table as a pandas DataFrame, indexed by its first column (needs pandas)."""
        columns = {name: list(values) for name, values in self.table().items()}
        index = next(iter(columns))
        return import_optional("pandas", "notebook").DataFrame(columns).set_index(index)

    def _repr_html_(self) -> str:
        """Return the table as HTML, as notebooks ask for."""
        return html_table(repr(self).strip("<>"), self.table())

    def __rich__(self) -> Any:
        """Return the table for the terminal, as `rich.print` asks for."""
        return rich_table(repr(self).strip("<>"), self.table())


def rich_table(title: str, columns: Columns) -> Any:
    """Return a table of Rich with a title above it."""
    from rich.markup import escape as escape_markup
    from rich.table import Table

    rich_columns = Table(title=escape_markup(title), title_justify="left")
    for name in columns:
        rich_columns.add_column(escape_markup(name))
    rows = list(zip(*columns.values()))
    for row in rows[:HTML_ROWS]:
        rich_columns.add_row(*(escape_markup(_cell(entry)) for entry in row))
    return rich_columns


def html_table(title: str, columns: Columns) -> str:
    """Return a table as HTML with a title above it."""
    rows = list(zip(*columns.values()))
    head = "".join(f"<th>{escape(name)}</th>" for name in columns)
    body = "".join(_html_row(row) for row in rows[:HTML_ROWS])
    hidden = len(rows) - HTML_ROWS
    more = f"<p>{hidden} more rows</p>" if hidden > 0 else ""
    return (
        f"<p>{escape(title)}</p><table><thead><tr>{head}</tr></thead>"
        f"<tbody>{body}</tbody></table>{more}"
    )


class StoredRecord(Record):
    """A record that is kept as a JSON file; `stored_as` names its kind in the file."""

    stored_as: ClassVar[str]

    def to_dict(self) -> dict[str, Any]:
        """Return plain lists, numbers and strings; nothing is rounded."""
        return {"kind": self.stored_as, "format": STORED_FORMAT, **plain(self)}

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write strict JSON; an interrupted write leaves no partial file."""
        write_json(path, self.to_dict())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read what `save` wrote; raises `InvalidInput` if the file holds something else."""
        content = read_json(path, cls.stored_as)
        try:
            record: Self = restored(cls, content)
        except (TypeError, ValueError) as error:
            raise InvalidInput(f"'{path}' is damaged: {error}", path=path) from error
        return record


@cache
def _read_only_fields(record: type[Any]) -> tuple[tuple[str, str], ...]:
    """Return names and kinds of the fields of a record that hold arrays, tuples or mappings."""
    chosen = []
    for field in fields(record):
        kind = str(field.type).partition("[")[0].removesuffix(" | None")
        if kind in _DTYPES or kind in ("tuple", "Mapping"):
            chosen.append((field.name, kind))
    return tuple(chosen)


def _brief(content: Any) -> str:
    """Return the content of a field in few characters: arrays by shape, collections by length."""
    if isinstance(content, np.ndarray):
        return f"array {content.shape}"
    if isinstance(content, str | int | float | None):
        text = str(content)
        if len(text) > FIELD_CHARACTERS:
            return repr(_cut(text, FIELD_CHARACTERS))
        return repr(content)
    if isinstance(content, Sequence | Mapping):
        short = isinstance(content, tuple) and len(content) <= FIELD_ENTRIES
        if short and all(isinstance(entry, str | int | float) for entry in content):
            return repr(content)
        return f"{len(content)} entries"
    if is_dataclass(content):
        return f"<{type(content).__name__}>"
    return _brief(str(content))


def _cut(text: str, longest: int) -> str:
    if len(text) <= longest:
        return text
    return text[: longest - 3] + "..."


def _html_row(row: Sequence[Any]) -> str:
    cells = [f"<td>{escape(_cell(entry))}</td>" for entry in row]
    return "<tr>" + "".join(cells) + "</tr>"


def _cell(entry: Any) -> str:
    if entry is None:
        return ""
    if isinstance(entry, float | np.floating):
        return f"{entry:.6g}"
    return str(entry)
