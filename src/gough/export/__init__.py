"""Results for other tools: C code, URDF, MJCF, tables.

Each format is one module with its entry in `EXPORTS`.
"""

from gough.export.controller import controller_code
from gough.export.mjcf_writer import to_mjcf
from gough.export.registry import (
    EXPORTS,
    Export,
    export,
    register_export,
    to_table,
)
from gough.export.urdf_writer import to_urdf

__all__ = [
    "EXPORTS",
    "Export",
    "controller_code",
    "export",
    "register_export",
    "to_mjcf",
    "to_table",
    "to_urdf",
]
