"""A result for other tools: C code, URDF, MJCF, tables.

Each format is one file with its entry in `EXPORTS`.
"""

from gough.export.controller import controller_code
from gough.export.formats import EXPORTS, Export, export, register_export, to_table
from gough.export.mjcf_writer import to_mjcf
from gough.export.urdf import to_urdf

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
