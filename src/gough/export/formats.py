"""The formats a result is written in, JSON and TOML among them; docs/extending.md adds one."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gough.core.documents import toml_text
from gough.core.errors import InvalidInput, OutputError, nearest
from gough.core.files import require_free, write_together
from gough.engine import Model
from gough.export.rigid import approximate_terms, comment
from gough.identification import Identification
from gough.mechanism.terms import JointTerm


@dataclass(frozen=True, kw_only=True)
class Export:
    """A format.

    Args:
        name: What it is asked for by.
        label: What is written, in words.
        write: Robot, result, name of the files without ending -> text of each file by its ending. Raises `InvalidInput`
            for what the format cannot express.
        usual: Usual name of the files; the robot's if empty.
        identifier: The files' name must be letters, digits and underscores.
        words: Tells which joint terms the format has words for; None where it has them for all.
    """

    name: str
    label: str
    write: Callable[[Model, Identification, str], Mapping[str, str]]
    usual: str = ""
    identifier: bool = False
    words: Callable[[JointTerm], bool] | None = None


EXPORTS: dict[str, Export] = {}


def register_export(entry: Export) -> Export:
    """Make a format known; return it."""
    if entry.name in EXPORTS:
        raise InvalidInput(f"there is already an export format '{entry.name}'; choose another name", name=entry.name)
    EXPORTS[entry.name] = entry
    return entry


def export(model: Model, identification: Identification, folder: str | Path, to: str, *, name: str | None = None,
           force: bool = False, approximate: bool = False) -> list[Path]:
    """Write a result in some format and return the files.

    Args:
        folder: Where to; made if it does not exist.
        to: The format, see `EXPORTS`.
        name: Of the files without ending; the format's usual one by default.
        force: Overwrite existing files.
        approximate: Write joint terms that the format has no word for as those it has; the files say what is lost.

    Raises:
        InvalidInput: Unknown format, or a result it cannot express.
        OutputError: A file exists, or cannot be written.
    """
    if to not in EXPORTS:
        raise InvalidInput(f"no export format '{to}'{nearest(to, EXPORTS)}", format=to)
    entry = EXPORTS[to]
    if name is not None and (Path(name).name != name or name in ("", "..")):
        raise InvalidInput(f"'{name}' is no name for a file; give the folder and the name apart", name=name)
    stem = name if name is not None and not entry.identifier else identifier(
        name or entry.usual or model.mechanism.name)
    model = identification.fitted(model)
    lost: list[str] = []
    if approximate and entry.words is not None:
        terms, lost = approximate_terms(model, identification.joint_terms, entry.words)
        identification = replace(identification, joint_terms=terms)
    texts = dict(entry.write(model, identification, stem))
    if lost:
        texts[next(iter(texts))] += "".join(f"<!-- {comment(line)} -->\n" for line in lost)
    target = Path(folder)
    try:
        target.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"cannot make the folder '{target}': {error.strerror}", path=str(target)) from error
    files = {target / f"{stem}.{ending}": text for ending, text in texts.items()}
    for file in files:
        require_free(file, force)
    write_together(target, {file.name: text.encode("utf-8") for file, text in files.items()})
    return list(files)


def identifier(name: str) -> str:
    """Return a name of ASCII letters, digits and underscores that does not start with a digit."""
    text = re.sub(r"[^A-Za-z0-9_]", "_", name) or "_"
    return f"_{text}" if text[0].isdigit() else text


def to_table(identification: Identification) -> dict[str, Any]:
    """Return what both formats hold, SI units.

    `parameters` are the estimate's, each with `name, value, std, unit`; `drive_gains` and `payload` those found, by
    name, with `value` and, where it was estimated, `std`; `bodies` (ten numbers in the order `m mx my mz Ixx Ixy Iyy
    Ixz Iyz Izz` about the body's frame) and `joint_terms` the physically consistent ones, if that estimate was made.
    """
    result = identification.to_dict()
    return {key: result[key] for key in ("robot", "estimator", "verdict", "parameters", "drive_gains", "payload")} | {
        "bodies": {name: [float(v) for v in values] for name, values in identification.bodies.items()},
        "joint_terms": {name: float(v) for name, v in identification.joint_terms.items()},
    }


register_export(Export(
    name="json", label="identified parameters as JSON", usual="parameters",
    write=lambda model, result, name: {
        "json": json.dumps(to_table(result), indent=1, allow_nan=False, ensure_ascii=False) + "\n"}))
register_export(Export(
    name="toml", label="identified parameters as TOML", usual="parameters",
    write=lambda model, result, name: {"toml": toml_text(to_table(result))}))
