"""Write a result as controller code, tables, URDF or MJCF.

Example:  gough export result --to c
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from gough.core.options import About
from gough.export import EXPORTS, export as export_model
from gough.study.common import Folder, Force, Written
from gough.study.data import load_result


def export(folder: Folder, *,
           to: Annotated[str, About(
               help="c: controller code; json, toml: tables; urdf, mjcf: other simulators.",
               choices=lambda: EXPORTS)],
           output: Annotated[str | None, About(
               help="Folder; that of the result by default.", file=True, short="-o")] = None,
           name: Annotated[str | None, About(
               help="Base name of the files; controller, parameters or the robot's name by default.")] = None,
           approximate: Annotated[bool, About(
               help="Write joint terms that URDF or MJCF have no words for as damping and friction; the file says what "
                    "is lost.")] = False,
           force: Force = False) -> Written:
    model, result = load_result(folder)
    target = Path(folder if output is None else output)
    return Written(files=tuple(export_model(model, result, target, to=to, name=name, force=force,
                                            approximate=approximate)))
