"""A result for other tools: C code, URDF, MJCF, tables."""

from gough.export.controller import controller_code
from gough.export.export import export
from gough.export.mjcf import to_mjcf
from gough.export.tables import to_json, to_table, to_toml
from gough.export.urdf import to_urdf

__all__ = ["controller_code", "export", "to_json", "to_mjcf", "to_table", "to_toml", "to_urdf"]
