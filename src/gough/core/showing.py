"""What values look like at a prompt and in a notebook: one line, a table, a DataFrame, a picture."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from html import escape
from importlib import import_module
from typing import Any

import numpy as np

from gough.core.errors import InvalidInput

Columns = Mapping[str, Iterable[Any]]
LONGEST = 200  # characters of one line at a prompt
MOST = 200  # rows of a table in a notebook


def listed(names: Sequence[str], most: int = 4) -> str:
    """Return some names, the rest counted."""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def short(value: Any) -> str:
    """Return one line about a value: what its summary begins with, else its fields, arrays by their shape."""
    if hasattr(value, "summary"):
        text = value.summary().strip().partition("\n")[0]
    else:
        text = ", ".join(f"{f.name}={_brief(getattr(value, f.name))}" for f in fields(value) if f.repr)
    text = text if len(text) <= LONGEST else text[:LONGEST - 3] + "..."
    return f"<{type(value).__name__}: {text}>"


def _brief(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"array {value.shape}"
    if isinstance(value, str | int | float | None):
        return repr(value) if len(str(value)) <= 40 else repr(str(value)[:37] + "...")
    if isinstance(value, Sequence | Mapping):
        few = isinstance(value, tuple) and len(value) <= 4
        return repr(value) if few and all(isinstance(x, str | int | float) for x in value) else f"{len(value)} entries"
    return f"<{type(value).__name__}>" if is_dataclass(value) else _brief(str(value))


class ShortRepr:
    """Gives every class below it a short `repr`, which dataclasses would otherwise write field by field."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "__repr__" not in vars(cls):
            cls.__repr__ = short  # type: ignore[method-assign]


class Shown(ShortRepr):
    """A value with a table: `to_dataframe()` returns it, a notebook shows it."""

    def table(self) -> Columns:
        """Return the columns by heading; the first tells the rows apart."""
        raise NotImplementedError

    def to_dataframe(self) -> Any:
        """Return the table as a pandas DataFrame, indexed by its first column (needs pandas)."""
        columns = {name: list(values) for name, values in self.table().items()}
        return needed("pandas", "notebook").DataFrame(columns).set_index(next(iter(columns)))

    def _repr_html_(self) -> str:
        columns = self.table()
        rows = [*zip(*columns.values())]
        head = "".join(f"<th>{escape(name)}</th>" for name in columns)
        body = "".join("<tr>" + "".join(f"<td>{escape(_cell(item))}</td>" for item in row) + "</tr>"
                       for row in rows[:MOST])
        more = f"<p>{len(rows) - MOST} more rows</p>" if len(rows) > MOST else ""
        return (f"<p>{escape(repr(self).strip('<>'))}</p><table><thead><tr>{head}</tr></thead>"
                f"<tbody>{body}</tbody></table>{more}")


def _cell(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float | np.floating) else str(value)


def needed(module: str, extra: str) -> Any:
    """Import an optional library, or say how to install it."""
    try:
        return import_module(module)
    except ImportError as error:
        raise InvalidInput(f"this needs {error.name or module}; install it with pip install 'gough[{extra}]'",
                           module=module) from None


def panels(titles: Sequence[str], height: float = 2.2, *, along: str = "time [s]", share: bool = True) -> list[Any]:
    """Return one pair of axes for each title, below each other (needs matplotlib)."""
    _, axes = needed("matplotlib.pyplot", "plot").subplots(
        len(titles), 1, sharex=share, squeeze=False, layout="constrained", figsize=(8.0, 0.8 + height * len(titles)))
    for each, title in zip(axes[:, 0], titles):
        each.set_title(title, loc="left", fontsize="medium")
        each.grid(alpha=0.3)
    if titles:
        axes[-1, 0].set_xlabel(along)
    return list(axes[:, 0])


def expect(value: Any, kind: type | tuple[type, ...], what: str, wanted: str) -> None:
    """Raise `InvalidInput` unless a value is of a kind; says which argument it is, and what was wanted."""
    if not isinstance(value, kind):
        shown = repr(value) if isinstance(value, str | int | float | None) else f"a {type(value).__name__}"
        raise InvalidInput(f"{what} is {shown}, expected {wanted}", argument=what)
