"""Write a result for a controller or another tool."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from gough.core.errors import InvalidInput, OutputError, nearest
from gough.core.files import write_text
from gough.engine import Model
from gough.export.controller import controller_code
from gough.export.mjcf import to_mjcf
from gough.export.tables import to_json, to_toml
from gough.export.urdf import identifier, to_urdf
from gough.identification import Identification

Format = Literal["c", "json", "toml", "urdf", "mjcf"]


def export(model: Model, identification: Identification, folder: str | Path, to: Format, *, name: str | None = None,
           dead_band: ArrayLike | None = None, force: bool = False) -> list[Path]:
    """Write a result in some format and return the files.

    `c`: NAME.c and NAME.h, inverse dynamics of the estimate, with a function that returns currents if drive gains are
    known (see `controller_code`). `json`, `toml`: NAME.json, NAME.toml, see `to_table`. `urdf`: NAME.urdf and
    NAME.yaml, `mjcf`: NAME.xml, from the physically consistent estimate (see `to_urdf`, `to_mjcf`). Without payload.

    Args:
        model: The robot.
        identification: The result.
        folder: Where to; made if it does not exist.
        to: The format.
        name: Of the files without ending; `controller`, `parameters` or the robot's name by default.
        dead_band: For `c`: velocity below which Coulomb friction is interpolated; 0, the plain sign, by default.
            [m/s or rad/s]
        force: Overwrite existing files.

    Raises:
        InvalidInput: Unknown format, or no physically consistent estimate for `urdf` and `mjcf`.
        OutputError: A file exists, or cannot be written.
    """
    if to not in get_args(Format):
        raise InvalidInput(f"no export format '{to}'{nearest(to, get_args(Format))}", format=to)
    usual = {"c": "controller", "json": "parameters", "toml": "parameters"}.get(to, model.mechanism.name)
    if name is not None and (Path(name).name != name or name in ("", "..")):
        raise InvalidInput(f"'{name}' is no name for a file; give the folder and the name apart", name=name)
    stem = identifier(usual if name is None else name) if to == "c" or name is None else name
    texts = _texts(model, identification, to, stem, dead_band)
    target = Path(folder)
    files = [target / f"{stem}.{ending}" for ending in texts]
    for file in files:
        if file.exists() and not force:
            raise OutputError(f"'{file}' already exists; choose another name or use --force", path=str(file))
    try:
        target.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"cannot make the folder '{target}': {error.strerror}", path=str(target)) from error
    for file, text in zip(files, texts.values()):
        write_text(file, text)
    return files


def _texts(model: Model, identification: Identification, to: Format, name: str,
           dead_band: ArrayLike | None) -> dict[str, str]:
    """Return the files' contents by ending."""
    if to == "json":
        return {"json": to_json(identification)}
    if to == "toml":
        return {"toml": to_toml(identification)}
    gains = {joint: entry["value"] for joint, entry in identification.drive_gains.items()}
    if to == "c":
        factors = np.array([gains[joint] for joint in model.mechanism.actuated]) if gains else None
        source, header = controller_code(model, identification.standard(model), gains=factors, dead_band=dead_band,
                                         name=name)
        return {"c": source, "h": header}
    if not identification.bodies:
        failed = next((note for note in identification.notes if note.startswith("feasible ")), None)
        raise InvalidInput(
            f"{to.upper()} needs bodies that can exist, and this result ({identification.estimator}) has base "
            f"parameters only; {failed or 'identify with --estimator feasible or --estimator all'}",
            estimator=identification.estimator)
    if to == "urdf":
        tree, closures = to_urdf(model, identification.bodies, identification.joint_terms, gains=gains)
        return {"urdf": tree, "yaml": closures}
    return {"xml": to_mjcf(model, identification.bodies, identification.joint_terms, gains=gains)}
