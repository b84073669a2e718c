"""Identified parameters as JSON or TOML: name, value, standard deviation, unit."""

from __future__ import annotations

import json
from typing import Any

from gough.core.documents import toml_text
from gough.export.formats import Export, register_export
from gough.identification import Identification


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
