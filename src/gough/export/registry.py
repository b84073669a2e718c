"""The formats in which a result is exported, JSON and TOML among them.

A format is one entry of `EXPORTS`; docs/extending.md shows how to add
one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gough.core.documents import toml_text
from gough.core.errors import InvalidInput, OutputError, nearest
from gough.core.files import encode_text, require_free, write_together
from gough.engine import Model
from gough.export.contents import approximate_terms, origin_of_values
from gough.identification import Identification
from gough.mechanism.terms import JointTerm

# entries of a stored result that tables hold
TABLE_KEYS = (
    "robot",
    "estimator",
    "level",
    "headline",
    "notices",
    "parameters",
    "drive_gains",
    "payload",
)


@dataclass(frozen=True, kw_only=True)
class Export:
    """An export format.

    Args:
        name: Name by which users select it.
        label: One line for help texts.
        write: Function of robot, result and name of the files without
            suffix; returns the text of each file by its suffix. Raises
            `InvalidInput` for what the format cannot express.
        default_name: Name of the files if none is given; the robot's if
            empty.
        identifier: The files' name must be letters, digits and
            underscores.
        supports: Whether the format can express a joint term; None if
            it can express all.
    """

    name: str
    label: str
    write: Callable[[Model, Identification, str], Mapping[str, str]]
    default_name: str = ""
    identifier: bool = False
    supports: Callable[[JointTerm], bool] | None = None


EXPORTS: dict[str, Export] = {}


def register_export(entry: Export) -> Export:
    """Add a format to `EXPORTS` and return it."""
    if entry.name in EXPORTS:
        raise InvalidInput(
            f"there is already an export format '{entry.name}'; choose another name",
            name=entry.name,
        )
    EXPORTS[entry.name] = entry
    return entry


def export(
    model: Model,
    identification: Identification,
    folder: str | Path,
    to: str,
    *,
    name: str | None = None,
    force: bool = False,
    approximate: bool = False,
) -> list[Path]:
    """Write a result in some format and return the files.

    Args:
        model: The robot.
        identification: The result.
        folder: Where to; made if it does not exist.
        to: The format, see `EXPORTS`.
        name: Name of the files without suffix; the format's default by
            default.
        force: Overwrite existing files.
        approximate: Replace joint terms that the format cannot express
            by those it can; a comment in the file states the error.
    """
    if to not in EXPORTS:
        raise InvalidInput(f"no export format '{to}'{nearest(to, EXPORTS)}", format=to)
    entry = EXPORTS[to]
    stem = _file_stem(entry, name, model)
    model = identification.fitted(model)
    comments: list[str] = []
    if entry.supports is not None:
        comments += origin_of_values(identification)
    if approximate and entry.supports is not None:
        terms, errors = approximate_terms(model, identification.joint_terms, entry.supports)
        identification = replace(identification, joint_terms=terms)
        comments += errors
    texts = dict(entry.write(model, identification, stem))
    first_suffix = next(iter(texts))
    for line in comments:
        texts[first_suffix] += f"<!-- {xml_comment(line)} -->\n"
    target = Path(folder)
    try:
        target.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(
            f"cannot make the folder '{target}': {error.strerror}",
            path=str(target),
        ) from error
    contents = {f"{stem}.{suffix}": encode_text(text) for suffix, text in texts.items()}
    files = [target / file for file in contents]
    for file in files:
        require_free(file, force)
    write_together(target, contents)
    return files


def _file_stem(entry: Export, name: str | None, model: Model) -> str:
    """Return the name of the files without suffix."""
    if name is None:
        return identifier(entry.default_name or model.mechanism.name)
    if Path(name).name != name or name in ("", ".."):
        raise InvalidInput(
            f"'{name}' is no name for a file; give the folder and the name apart",
            name=name,
        )
    return identifier(name) if entry.identifier else name


def identifier(name: str) -> str:
    """Return a name of ASCII letters, digits and underscores that does not start with a digit."""
    text = re.sub(r"[^A-Za-z0-9_]", "_", name) or "_"
    return f"_{text}" if text[0].isdigit() else text


def xml_comment(text: str) -> str:
    """Keep text from ending an XML comment or spanning lines."""
    return re.sub(r"-(?=-|$)|[^\x20-\x7e]", "?", text)


def to_table(identification: Identification) -> dict[str, Any]:
    """Return the content of the JSON and TOML exports, in SI units.

    `parameters` are the estimate's, each with `name, value, std, unit`;
    `drive_gains` and `payload` those identified, by name, with `value`
    and, where it was estimated, `std`; `bodies` (ten numbers in the
    order `m mx my mz Ixx Ixy Iyy Ixz Iyz Izz` about the body's frame)
    and `joint_terms` the physically consistent ones, if that estimate
    was made, and `determined` the fraction of the information on each
    of them that is the data's (1) and not the robot file's (0).
    """
    stored = identification.to_dict()
    table = {key: stored[key] for key in TABLE_KEYS}
    bodies = {}
    for name, parameters in identification.bodies.items():
        bodies[name] = [float(number) for number in parameters]
    table["bodies"] = bodies
    terms = identification.joint_terms
    table["joint_terms"] = {name: float(terms[name]) for name in terms}
    table["determined"] = dict(identification.determined)
    return table


def _write_json(model: Model, result: Identification, name: str) -> dict[str, str]:
    text = json.dumps(to_table(result), indent=1, allow_nan=False, ensure_ascii=False)
    return {"json": text + "\n"}


def _write_toml(model: Model, result: Identification, name: str) -> dict[str, str]:
    return {"toml": toml_text(to_table(result))}


register_export(
    Export(
        name="json",
        label="identified parameters as JSON",
        default_name="parameters",
        write=_write_json,
    )
)
register_export(
    Export(
        name="toml",
        label="identified parameters as TOML",
        default_name="parameters",
        write=_write_toml,
    )
)
